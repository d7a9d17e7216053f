//! The hub's own paths.

use axum::http::Method;
use holdfast_domain::records::batch::MEDIA_TYPE;
use holdfast_wire::Instant;
use holdfast_wire::admin::{ParticipantName, Text};
use holdfast_wire::views::{
    Backup, BackupWanted, DeadLetterPage, DeadLettersRetried, Health, HoldPage, TransferPage, TransferState,
    TransferStory,
};
use serde_json::json;

use super::operation::{Operation, operation};
use super::schemas::reference;

pub(super) fn operations() -> Vec<Operation> {
    let bytes = json!({"type": "string", "format": "binary", "description": "docs/batch.md has the format"});
    let text = json!({"type": "string"});
    let mut all = vec![
        operation(Method::POST, "/hub/batch", "Thousands of records in one body")
            .details("Taken whole or not at all; answered when every record is decided and durable. At most 8,192 records.")
            .takes_as(&[MEDIA_TYPE], &bytes)
            .answers_as(200, "One reply of 32 bytes per record, in order", MEDIA_TYPE, &bytes)
            .refuses(400, "3101 malformed (the first bad record is named), 3103 too many records, 3104 too large; nothing was stored")
            .refuses(408, "2004: the body did not arrive in time")
            .asks_the_hub(),
        operation(Method::GET, "/hub/transfers", "Open transfers in order of arrival, then ended ones in the order of their end")
            .details("With a filter that few match a page may be short and still have a `next`.")
            .query::<TransferState>("state", "Only those in this state, by the hub's name for it")
            .query::<ParticipantName>("participant", "Only those that this participant pays or is paid by")
            .paged::<Text>()
            .gives::<TransferPage>(200, "A page")
            .refuses(400, "3101: a parameter is unknown or malformed")
            .asks_the_hub(),
        operation(Method::GET, "/hub/transfers/{id}", "One transfer with its history and what it did to positions")
            .gives::<TransferStory>(200, "The transfer")
            .refuses(400, "3101: not an id")
            .refuses(404, "3208: there is no such transfer")
            .asks_the_hub(),
        operation(Method::GET, "/hub/holds", "Open holds, the next to run out first")
            .query::<Instant>("before", "Only those that run out before this instant")
            .paged::<Text>()
            .gives::<HoldPage>(200, "A page")
            .refuses(400, "3101: a parameter is unknown or malformed")
            .asks_the_hub(),
        operation(Method::GET, "/hub/stats", "What the hub has done since its log began, and what it holds now")
            .answers_with(200, "Counts", &reference("Stats"))
            .asks_the_hub(),
        operation(Method::GET, "/hub/dead-letters", "Callbacks that were given up, by number")
            .details("docs/callbacks.md says when a callback is given up.")
            .query::<ParticipantName>("participant", "Only those for this participant")
            .paged::<u64>()
            .gives::<DeadLetterPage>(200, "A page")
            .refuses(400, "3101: a parameter is unknown or malformed; 3200: there is no such participant")
            .asks_the_hub(),
        operation(Method::POST, "/hub/dead-letters/retry", "Try dead letters again")
            .details("At most 4,096 in one call; `more` says whether some are left. 503 if a participant's lane is full; `retried` in the `extensionList` says how many were set in motion.")
            .query::<ParticipantName>("participant", "Only those for this participant")
            .gives::<DeadLettersRetried>(202, "Taken")
            .refuses(400, "3101: a parameter is unknown; 3200: there is no such participant")
            .asks_the_hub(),
        operation(Method::POST, "/hub/dead-letters/{number}/retry", "Try a dead letter again")
            .answers(202, "Taken, now or before")
            .refuses(400, "3101: not a number")
            .refuses(404, "3200: there is no such dead letter")
            .refuses(503, "2003: too many callbacks wait for the participant"),
        operation(Method::GET, "/hub/backup", "How far the backup is, or how the last one ended")
            .gives::<Backup>(200, "Its state"),
        operation(Method::POST, "/hub/backup", "Begin a backup")
            .details("The hub makes a checkpoint and copies itself while payments go on; `GET /hub/backup` tells how far it is. `holdfast backup DIR` does both and verifies the copy.")
            .takes::<BackupWanted>()
            .answers(202, "Begun")
            .refuses(400, "3101: malformed; 3100: the directory is not absolute, not empty, or in the data directory")
            .refuses(409, "3100: one is being made already")
            .refuses(503, "2003: the directory cannot be looked at"),
        operation(Method::POST, "/hub/clock/confirm", "The wall clock is right as it stands")
            .details("Ends the suspension after a jump of the clock; docs/operations.md says when.")
            .answers(202, "Taken"),
        operation(Method::GET, "/health", "Whether commands are taken, part by part")
            .gives::<Health>(200, "They are")
            .gives::<Health>(503, "They are not; the part that is DOWN says why"),
        operation(Method::GET, "/metrics", "Metrics for Prometheus")
            .answers_as(200, "Prometheus text", "text/plain", &text),
        operation(Method::GET, "/openapi.json", "This document")
            .answers_with(200, "OpenAPI 3.1", &json!({"type": "object"})),
        operation(Method::GET, "/docs", "This document as a page").answers_as(200, "A page", "text/html", &text),
    ];
    all.append(&mut super::shop::hub_operations());
    all
}
