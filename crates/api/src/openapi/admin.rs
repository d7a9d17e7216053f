//! The operator's paths: participants, accounts, limits, funds, endpoints.

use axum::http::Method;
use holdfast_wire::admin::{
    Account, Activity, Endpoint, Funds, FundsEnd, InitialPositionAndLimits, Limit, NewAccount, NewLimit,
    NewParticipant, OneOrList, Participant, Position, ShownCurrency, Text,
};
use holdfast_wire::amount::Amounts;

use super::operation::{Operation, operation};

/// A path of the operator, with what most of them refuse.
fn at(method: Method, path: &'static str, summary: &'static str) -> Operation {
    operation(method, path, summary)
        .refuses(400, "3100 not of the Hub; 3101 malformed; 3200 there is no such participant")
        .refuses(500, "2001: the rules refuse it; the description says why")
        .asks_the_hub()
}

/// A path that takes a body.
fn taking(method: Method, path: &'static str, summary: &'static str) -> Operation {
    at(method, path, summary).refuses(408, "2004: the body did not arrive in time")
}

/// One that shows amounts.
fn showing(operation: Operation) -> Operation {
    operation
        .query::<Amounts>(
            "amounts",
            "`strings`: amounts are strings; a program that reads numbers as doubles asks for it",
        )
        .query::<ShownCurrency>("currency", "Only of this currency")
}

pub(super) fn operations() -> Vec<Operation> {
    let (get, post, put) = (|| Method::GET, || Method::POST, || Method::PUT);
    vec![
        at(get(), "/participants", "All participants").gives::<Vec<Participant>>(200, "A list"),
        taking(post(), "/participants", "A participant, or a further currency for one")
            .takes::<NewParticipant>()
            .gives::<Participant>(201, "The participant")
            .refuses(400, "3000: it has that currency already; 3101 malformed"),
        showing(at(get(), "/participants/limits", "The limits of all participants"))
            .query::<Text>("type", "Only NET_DEBIT_CAP")
            .gives::<Vec<Limit>>(200, "A list"),
        at(get(), "/participants/{name}", "One participant").gives::<Participant>(200, "The participant"),
        taking(put(), "/participants/{name}", "Activate or deactivate a participant")
            .details(
                "An inactive participant takes part in no new transfer; those under way end as they would.",
            )
            .takes::<Activity>()
            .gives::<Participant>(200, "The participant"),
        taking(
            post(),
            "/participants/{name}/initialPositionAndLimits",
            "The first limit and position; activates both accounts",
        )
        .takes::<InitialPositionAndLimits>()
        .answers(201, "Done"),
        showing(at(get(), "/participants/{name}/limits", "The limits of a participant"))
            .query::<Text>("type", "Only NET_DEBIT_CAP")
            .gives::<Vec<Limit>>(200, "A list"),
        taking(put(), "/participants/{name}/limits", "Another limit, also below what is in use")
            .takes::<NewLimit>()
            .gives::<Limit>(200, "The limit"),
        showing(at(get(), "/participants/{name}/positions", "Where a participant stands"))
            .details("With `currency` one object instead of a list, {} if there is none.")
            .gives::<OneOrList<Position>>(200, "A list, or one"),
        showing(at(get(), "/participants/{name}/accounts", "The accounts of a participant"))
            .gives::<Vec<Account>>(200, "A list"),
        taking(post(), "/participants/{name}/accounts", "An account of the participant Hub")
            .takes::<NewAccount>()
            .gives::<Participant>(201, "The participant"),
        taking(post(), "/participants/{name}/accounts/{id}", "Funds in, or the first step of funds out")
            .details("The account is the SETTLEMENT account. A repeat of the transferId is ignored.")
            .takes::<Funds>()
            .answers(202, "Taken"),
        taking(put(), "/participants/{name}/accounts/{id}", "Activate or deactivate a POSITION account")
            .takes::<Activity>()
            .answers(200, "Done"),
        taking(
            put(),
            "/participants/{name}/accounts/{id}/transfers/{transferId}",
            "The second step of funds out",
        )
        .takes::<FundsEnd>()
        .answers(202, "Taken"),
        at(get(), "/participants/{name}/endpoints", "Where a participant wants to be called")
            .details("With `type` one object instead of a list, {} if there is none.")
            .query::<Text>("type", "Only this type")
            .gives::<OneOrList<Endpoint>>(200, "A list, or one"),
        taking(
            post(),
            "/participants/{name}/endpoints",
            "Set an endpoint; it replaces an earlier one of its type",
        )
        .takes::<Endpoint>()
        .answers(201, "Done"),
    ]
}
