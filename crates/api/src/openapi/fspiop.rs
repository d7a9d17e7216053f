//! FSPIOP transfers.

use axum::handler::Handler;
use axum::http::Method;
use serde_json::{Value, json};

use super::operation::{GET, Operation, POST, PUT, operation};
use super::schemas::reference;
use crate::Edge;
use crate::fspiop;
use crate::gate::Access;
use crate::routes::Handled::Everywhere;
use holdfast_wire::schema::Shape;

const MEDIA_TYPE: &str = "application/vnd.interoperability.transfers+json;version=1.1";

const CONTENT_TYPE: &str = "application/vnd.interoperability.transfers+json;version=1.1 or 1.0; with Prefer also \
     application/json, and a GET may do without";
const ACCEPT: &str = "application/vnd.interoperability.transfers+json;version=1; with Prefer also application/json or \
     */*, and it may be left out";
const DATE: &str =
    "As RFC 7231 writes it, such as Tue, 15 Nov 1994 08:12:31 GMT; with Prefer it may be left out";

fn one_line() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn date() -> Value {
    let pattern = "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3][0-9] (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} [0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT$";
    json!({"type": "string", "pattern": pattern, "examples": ["Tue, 15 Nov 1994 08:12:31 GMT"]})
}

fn fsp_id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 32})
}

/// A body is one of the standard, or plain JSON from those who wait.
const BODIES: &[&str] = &[MEDIA_TYPE, "application/json"];

/// The headers and refusals of every message.
fn message<H: Handler<T, Edge>, T: 'static>(
    method: Method,
    path: &'static str,
    handler: H,
    summary: &'static str,
) -> Operation {
    let accept = method != PUT;
    let described = operation(Everywhere, method, path, handler, summary)
        .open_to(Access::Participant)
        .header("Content-Type", true, CONTENT_TYPE, one_line())
        .header("Date", true, DATE, date())
        .header("FSPIOP-Source", true, "Who sends; with a key of a participant, that participant", fsp_id())
        .header("FSPIOP-Destination", false, "Who is to get it", fsp_id())
        .header("Prefer", false, "`wait=N`: answer with the outcome, after at most N seconds", one_line());
    let described = if accept { described.header("Accept", true, ACCEPT, one_line()) } else { described };
    described
        .answers_with(200, "With Prefer: the outcome, also of a decided refusal", reference("Outcome"))
        .refuses(
            400,
            "3100, 3101, 3102, 3103, 3104: the message is not what the standard says; nothing was stored",
        )
        .refuses(406, "3001: another version; the extensionList has those that are served")
        .asks_the_hub()
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        message(POST, "/transfers", fspiop::post, "Prepare: reserve the payer's position and tell the payee")
            .details("The payee gets the same bytes. What became of it comes as a callback: PUT /transfers/{id} or PUT /transfers/{id}/error.")
            .takes_as(BODIES, Shape::written(reference("Transfer")))
            .answers(202, "Taken, with an empty body; with Prefer: the wait is over and the present state is told"),
        message(GET, "/transfers/{id}", fspiop::get, "Ask where a transfer stands; the answer is a callback")
            .answers(202, "Taken, with an empty body")
            .refuses(404, "With Prefer: 3208, there is no such transfer"),
        message(PUT, "/transfers/{id}", fspiop::put, "Fulfil: the payee shows the preimage of the condition")
            .details("After RESERVED (1.1) the payee is told the outcome by PATCH /transfers/{id}.")
            .takes_as(BODIES, Shape::written(reference("Fulfilment")))
            .answers_with(200, "Taken, with an empty body; with Prefer: the outcome", reference("Outcome"))
            .answers(202, "With Prefer: the wait is over and the present state is told")
            .refuses(404, "With Prefer: 3208, there is no such transfer"),
        operation(Everywhere, Method::PATCH, "/transfers/{id}", fspiop::patch, "Sent by the hub to payees, not taken by it")
            .open_to(Access::Participant)
            .refuses(501, "2002"),
        message(PUT, "/transfers/{id}/error", fspiop::put_error, "Abort: the payee refuses the transfer")
            .takes_as(BODIES, Shape::written(reference("ErrorInformation")))
            .answers_with(200, "Taken, with an empty body; with Prefer: the outcome", reference("Outcome"))
            .answers(202, "With Prefer: the wait is over and the present state is told")
            .refuses(404, "With Prefer: 3208, there is no such transfer"),
    ]
}
