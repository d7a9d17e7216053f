//! The operator's paths: participants, accounts, limits, funds, endpoints.

use axum::http::Method;
use serde_json::json;

use super::operation::{Operation, operation};
use super::schemas::{list_of, reference};

/// What most of these paths refuse.
fn common(operation: Operation) -> Operation {
    operation
        .refuses(400, "3101 malformed; 3200 there is no such participant")
        .refuses(500, "2001: the rules refuse it; the description says why")
        .asks_the_hub()
}

pub(super) fn operations() -> Vec<Operation> {
    let participant = reference("Participant");
    let one_or_list = |name: &str| json!({"oneOf": [reference(name), list_of(name)]});
    let at =
        |method: Method, path: &'static str, summary: &'static str| common(operation(method, path, summary));
    vec![
        at(Method::GET, "/participants", "All participants").answers_with(
            200,
            "A list",
            &list_of("Participant"),
        ),
        at(Method::POST, "/participants", "A participant, or a further currency for one")
            .takes_named("NewParticipant")
            .answers_with(201, "The participant", &participant)
            .refuses(400, "3000: it has that currency already; 3101 malformed"),
        at(Method::GET, "/participants/limits", "The limits of all participants")
            .query("currency", "Only of this currency")
            .query("type", "Only NET_DEBIT_CAP")
            .answers_with(200, "A list", &list_of("LimitOfParticipant")),
        at(Method::GET, "/participants/{name}", "One participant").answers_with(
            200,
            "The participant",
            &participant,
        ),
        at(Method::PUT, "/participants/{name}", "Activate or deactivate a participant")
            .details(
                "An inactive participant takes part in no new transfer; those under way end as they would.",
            )
            .takes_named("Activity")
            .answers_with(200, "The participant", &participant),
        at(
            Method::POST,
            "/participants/{name}/initialPositionAndLimits",
            "The first limit and position; activates both accounts",
        )
        .takes_named("InitialPositionAndLimits")
        .answers(201, "Done"),
        at(Method::GET, "/participants/{name}/limits", "The limits of a participant")
            .query("currency", "Only of this currency")
            .query("type", "Only NET_DEBIT_CAP")
            .answers_with(200, "A list", &list_of("Limit")),
        at(Method::PUT, "/participants/{name}/limits", "Another limit, also below what is in use")
            .takes_named("Limit")
            .answers_with(200, "The limit", &reference("Limit")),
        at(Method::GET, "/participants/{name}/positions", "Where a participant stands")
            .query("currency", "Only this one, as an object instead of a list")
            .answers_with(200, "A list, or one ({} if there is none)", &one_or_list("Position")),
        at(Method::GET, "/participants/{name}/accounts", "The accounts of a participant").answers_with(
            200,
            "A list",
            &list_of("Account"),
        ),
        at(Method::POST, "/participants/{name}/accounts", "An account of the participant Hub")
            .takes_named("NewAccount")
            .answers_with(201, "The participant", &participant),
        at(Method::POST, "/participants/{name}/accounts/{id}", "Funds in, or the first step of funds out")
            .details("The account is the SETTLEMENT account. A repeat of the transferId is ignored.")
            .takes_named("Funds")
            .answers(202, "Taken"),
        at(Method::PUT, "/participants/{name}/accounts/{id}", "Activate or deactivate a POSITION account")
            .takes_named("Activity")
            .answers(200, "Done"),
        at(
            Method::PUT,
            "/participants/{name}/accounts/{id}/transfers/{transferId}",
            "The second step of funds out",
        )
        .takes_named("FundsEnd")
        .answers(202, "Taken"),
        at(Method::GET, "/participants/{name}/endpoints", "Where a participant wants to be called")
            .query("type", "Only this type, as an object instead of a list")
            .answers_with(200, "A list, or one ({} if there is none)", &one_or_list("Endpoint")),
        at(
            Method::POST,
            "/participants/{name}/endpoints",
            "Set an endpoint; it replaces an earlier one of its type",
        )
        .takes_named("Endpoint")
        .answers(201, "Done"),
    ]
}
