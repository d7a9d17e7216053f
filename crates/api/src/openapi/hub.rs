//! The hub's own paths.

use holdfast_domain::records::batch::MEDIA_TYPE;
use holdfast_wire::Instant;
use holdfast_wire::admin::{ParticipantName, Text};
use holdfast_wire::views::{
    Backup, BackupWanted, DeadLetterPage, DeadLettersRetried, Health, HoldPage, TransferPage, TransferState,
    TransferStory,
};
use serde_json::json;

use super::operation::{GET, Operation, POST, operation};
use super::schemas::reference;
use super::{document_as_json, page};
use crate::gate::Access;
use crate::routes::Handled::{Everywhere, Upkeep};
use crate::{backup, batch, health, views};
use holdfast_wire::schema::Shape;

pub(super) fn operations() -> Vec<Operation> {
    let bytes = Shape::written(
        json!({"type": "string", "format": "binary", "description": "docs/batch.md has the format"}),
    );
    let text = Shape::written(json!({"type": "string"}));
    let mut all = vec![
        operation(Everywhere, POST, "/hub/batch", batch::batch, "Thousands of records in one body")
            .open_to(Access::Batch)
            .details("Taken whole or not at all; answered when every record is decided and durable. At most 8,192 records.")
            .takes_as(&[MEDIA_TYPE], bytes.clone())
            .answers_as(200, "One reply of 32 bytes per record, in order", MEDIA_TYPE, bytes)
            .refuses(400, "3101 malformed (the first bad record is named), 3103 too many records, 3104 too large; nothing was stored")
            .refuses(408, "2004: the body did not arrive in time")
            .asks_the_hub(),
        operation(Everywhere, GET, "/hub/transfers", views::transfers::transfers, "Open transfers in order of arrival, then ended ones in the order of their end")
            .details("With a filter that few match a page may be short and still have a `next`.")
            .query::<TransferState>("state", "Only those in this state, by the hub's name for it")
            .query::<ParticipantName>("participant", "Only those that this participant pays or is paid by")
            .paged::<Text>()
            .gives::<TransferPage>(200, "A page")
            .refuses(400, "3101: a parameter is unknown or malformed")
            .asks_the_hub(),
        operation(Everywhere, GET, "/hub/transfers/{id}", views::transfers::transfer, "One transfer with its history and what it did to positions")
            .gives::<TransferStory>(200, "The transfer")
            .refuses(400, "3101: not an id")
            .refuses(404, "3208: there is no such transfer")
            .asks_the_hub(),
        operation(Everywhere, GET, "/hub/holds", views::holds::holds, "Open holds, the next to run out first")
            .query::<Instant>("before", "Only those that run out before this instant")
            .paged::<Text>()
            .gives::<HoldPage>(200, "A page")
            .refuses(400, "3101: a parameter is unknown or malformed")
            .asks_the_hub(),
        operation(Everywhere, GET, "/hub/stats", views::stats::stats, "What the hub has done since its log began, and what it holds now")
            .answers_with(200, "Counts", reference("Stats"))
            .asks_the_hub(),
        operation(Everywhere, GET, "/hub/dead-letters", views::dead_letters::list, "Callbacks that were given up, by number")
            .details("docs/callbacks.md says when a callback is given up.")
            .query::<ParticipantName>("participant", "Only those for this participant")
            .paged::<u64>()
            .gives::<DeadLetterPage>(200, "A page")
            .refuses(400, "3101: a parameter is unknown or malformed; 3200: there is no such participant")
            .asks_the_hub(),
        operation(Everywhere, POST, "/hub/dead-letters/retry", views::dead_letters::retry_all, "Try dead letters again")
            .details("At most 4,096 in one call; `more` says whether some are left. 503 if a participant's lane is full; `retried` in the `extensionList` says how many were set in motion.")
            .query::<ParticipantName>("participant", "Only those for this participant")
            .gives::<DeadLettersRetried>(202, "Taken")
            .refuses(400, "3101: a parameter is unknown; 3200: there is no such participant")
            .asks_the_hub(),
        operation(Everywhere, POST, "/hub/dead-letters/{number}/retry", views::dead_letters::retry, "Try a dead letter again")
            .answers(202, "Taken, now or before")
            .refuses(400, "3101: not a number")
            .refuses(404, "3200: there is no such dead letter")
            .refuses(503, "2003: too many callbacks wait for the participant"),
        operation(Upkeep, GET, "/hub/backup", backup::show, "How far the backup is, or how the last one ended")
            .gives::<Backup>(200, "Its state"),
        operation(Upkeep, POST, "/hub/backup", backup::begin, "Begin a backup")
            .details("The hub makes a checkpoint and copies itself while payments go on; `GET /hub/backup` tells how far it is. `holdfast backup DIR` does both and verifies the copy.")
            .takes::<BackupWanted>()
            .answers(202, "Begun")
            .refuses(400, "3101: malformed; 3100: the directory is not absolute, not empty, or in the data directory")
            .refuses(409, "3100: one is being made already")
            .refuses(503, "2003: the directory cannot be looked at"),
        operation(Upkeep, POST, "/hub/clock/confirm", health::confirm_clock, "The wall clock is right as it stands")
            .details("Ends the suspension after a jump of the clock; docs/operations.md says when.")
            .answers(202, "Taken"),
        operation(Everywhere, GET, "/health", health::health, "Whether commands are taken, part by part")
            .open_to(Access::Open)
            .gives::<Health>(200, "They are")
            .gives::<Health>(503, "They are not; the part that is DOWN says why"),
        operation(Everywhere, GET, "/metrics", health::metrics, "Metrics for Prometheus")
            .open_to(Access::Metrics)
            .answers_as(200, "Prometheus text", "text/plain", text.clone()),
        operation(Everywhere, GET, "/openapi.json", document_as_json, "This document")
            .open_to(Access::Open)
            .answers_with(200, "OpenAPI 3.1", json!({"type": "object"})),
        operation(Everywhere, GET, "/docs", page, "This document as a page")
            .open_to(Access::Open).answers_as(200, "A page", "text/html", text),
    ];
    all.append(&mut super::shop::hub_operations());
    all
}
