//! The operator's paths: participants, accounts, limits, funds, endpoints.

use axum::handler::Handler;
use axum::http::Method;
use holdfast_wire::JsonSchema;
use holdfast_wire::admin::{
    Account, Activity, Endpoint, Funds, FundsEnd, InitialPositionAndLimits, Limit, NewAccount, NewLimit,
    NewParticipant, OneOrList, Participant, Position, ShownCurrency, Text,
};
use holdfast_wire::amount::Amounts;

use super::operation::{GET, Operation, POST, PUT, operation};
use crate::Edge;
use crate::admin::{accounts, endpoints, funds, limits, participants};
use crate::routes::Handled::Everywhere;

/// A path of the operator, with what most of them refuse.
fn at<H: Handler<T, Edge>, T: 'static>(
    method: Method,
    path: &'static str,
    handler: H,
    summary: &'static str,
) -> Operation {
    operation(Everywhere, method, path, handler, summary)
        .refuses(400, "3100 not of the Hub; 3101 malformed; 3200 there is no such participant")
        .refuses(500, "2001: the rules refuse it; the description says why")
        .asks_the_hub()
}

impl Operation {
    /// A JSON body of this shape, which must arrive in time.
    fn reads<T: JsonSchema>(self) -> Operation {
        self.refuses(408, "2004: the body did not arrive in time").takes::<T>()
    }
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
    vec![
        at(GET, "/participants", participants::list, "All participants")
            .gives::<Vec<Participant>>(200, "A list"),
        at(POST, "/participants", participants::create, "A participant, or a further currency for one")
            .reads::<NewParticipant>()
            .gives::<Participant>(201, "The participant")
            .refuses(400, "3000: it has that currency already; 3101 malformed"),
        showing(at(GET, "/participants/limits", limits::list_all, "The limits of all participants"))
            .query::<Text>("type", "Only NET_DEBIT_CAP")
            .gives::<Vec<Limit>>(200, "A list"),
        at(GET, "/participants/{name}", participants::show, "One participant")
            .gives::<Participant>(200, "The participant"),
        at(PUT, "/participants/{name}", participants::set_active, "Activate or deactivate a participant")
            .details(
                "An inactive participant takes part in no new transfer; those under way end as they would.",
            )
            .reads::<Activity>()
            .gives::<Participant>(200, "The participant"),
        at(
            POST,
            "/participants/{name}/initialPositionAndLimits",
            limits::initialize,
            "The first limit and position; activates both accounts",
        )
        .reads::<InitialPositionAndLimits>()
        .answers(201, "Done"),
        showing(at(GET, "/participants/{name}/limits", limits::list, "The limits of a participant"))
            .query::<Text>("type", "Only NET_DEBIT_CAP")
            .gives::<Vec<Limit>>(200, "A list"),
        at(PUT, "/participants/{name}/limits", limits::set, "Another limit, also below what is in use")
            .reads::<NewLimit>()
            .gives::<Limit>(200, "The limit"),
        showing(at(GET, "/participants/{name}/positions", accounts::positions, "Where a participant stands"))
            .details("With `currency` one object instead of a list, {} if there is none.")
            .gives::<OneOrList<Position>>(200, "A list, or one"),
        showing(at(GET, "/participants/{name}/accounts", accounts::list, "The accounts of a participant"))
            .gives::<Vec<Account>>(200, "A list"),
        at(POST, "/participants/{name}/accounts", accounts::create, "An account of the participant Hub")
            .reads::<NewAccount>()
            .gives::<Participant>(201, "The participant"),
        at(
            POST,
            "/participants/{name}/accounts/{id}",
            funds::record,
            "Funds in, or the first step of funds out",
        )
        .details("The account is the SETTLEMENT account. A repeat of the transferId is ignored.")
        .reads::<Funds>()
        .answers(202, "Taken"),
        at(
            PUT,
            "/participants/{name}/accounts/{id}",
            accounts::set_active,
            "Activate or deactivate a POSITION account",
        )
        .reads::<Activity>()
        .answers(200, "Done"),
        at(
            PUT,
            "/participants/{name}/accounts/{id}/transfers/{transferId}",
            funds::end,
            "The second step of funds out",
        )
        .reads::<FundsEnd>()
        .answers(202, "Taken"),
        at(GET, "/participants/{name}/endpoints", endpoints::list, "Where a participant wants to be called")
            .details("With `type` one object instead of a list, {} if there is none.")
            .query::<Text>("type", "Only this type")
            .gives::<OneOrList<Endpoint>>(200, "A list, or one"),
        at(
            POST,
            "/participants/{name}/endpoints",
            endpoints::set,
            "Set an endpoint; it replaces an earlier one of its type",
        )
        .reads::<Endpoint>()
        .answers(201, "Done"),
    ]
}
