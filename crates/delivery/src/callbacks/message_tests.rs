//! Every message as data: what is known goes in, method, headers and body come out.

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction, Lookup, Prepare};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance, OptionalBalance};
use holdfast_domain::transfers::{Completion, CompletionKind, Proof, Reason, Transfer, TransferState as S};
use holdfast_hub::CallbackRow;
use hyper::http::Method;
use serde_json::{Value, json};

use super::message::{Facts, compose};
use crate::request::Outgoing;
use holdfast_wire::forward::Forwarded;

const PAYER: ParticipantId = ParticipantId(1);
const PAYEE: ParticipantId = ParticipantId(2);
const ID: TransferId = TransferId(0x0d6b_1a2c_3f4e_4a5b_8c6d_7e8f_9a0b_1c2d);
const PATH: &str = "/transfers/0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d";
/// 2025-11-15T08:24:36.120Z.
const NOW: i64 = 1_763_195_076_120;
const VND_1_1: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const VND_1_0: &str = "application/vnd.interoperability.transfers+json;version=1.0";
/// 32 bytes of 7 in base64url.
const SEVENS: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";

fn row(to: ParticipantId, message: CallbackMessage) -> CallbackRow {
    CallbackRow { number: 1, offset: 2, time: NOW - 60_000, to, transfer: ID, message }
}

fn transfer(state: S) -> Transfer {
    Transfer {
        no: TransferNo(0),
        id: ID,
        payer: PAYER,
        payee: PAYEE,
        payer_account: Some(AccountId(1)),
        payee_account: Some(AccountId(3)),
        currency: "USD".parse().unwrap(),
        amount: Amount(125_000),
        expiration: NOW + 30_000,
        proof: Proof::Condition([7; 32]),
        offset: 0,
        hash: [0; 32],
        state,
        code: None,
        reason: None,
        prepared_at: NOW - 2_000,
        changed_at: NOW - 1_000,
        reserved_value: OptionalBalance::NONE,
        final_value: OptionalBalance::NONE,
    }
}

fn facts(receiver: &str, transfer: Transfer) -> Facts {
    Facts {
        receiver: receiver.to_owned(),
        endpoint: None,
        payer: Some("payerfsp".to_owned()),
        payee: Some("payeefsp".to_owned()),
        transfer: Some(transfer),
        alarmed: None,
    }
}

fn committed() -> Transfer {
    let completion = Completion { kind: CompletionKind::Reserve, digest: [7; 32] };
    Transfer { proof: Proof::Completed(completion), ..transfer(S::Committed) }
}

fn prepare(source: ParticipantId, tail: Vec<u8>) -> Command {
    let known = transfer(S::Reserved);
    let Transfer { id, payer, payee, amount, expiration, currency, hash, .. } = known;
    Command::Prepare(Prepare {
        source,
        id,
        payer,
        payee,
        amount,
        expiration,
        currency,
        condition: *known.condition().unwrap(),
        hash,
        tail,
        funding: None,
    })
}

fn tail(headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    Forwarded { headers: headers.collect(), body: body.as_bytes().to_vec() }.encode().unwrap()
}

fn headers(message: &Outgoing) -> Vec<(&str, &str)> {
    let mut headers: Vec<_> =
        message.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.sort_unstable();
    headers
}

fn body(message: &Outgoing) -> Value {
    serde_json::from_slice(&message.body).unwrap()
}

fn by_hub<'a>(receiver: &'a str, method: &'a str, uri: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("content-type", VND_1_1),
        ("date", "Sat, 15 Nov 2025 08:24:36 GMT"),
        ("fspiop-destination", receiver),
        ("fspiop-http-method", method),
        ("fspiop-source", "Hub"),
        ("fspiop-uri", uri),
    ]
}

#[test]
fn a_prepare_goes_on_as_it_was_sent() {
    let sent = "{ \"transferId\" : \"x\",\t\"unknown\":1.50}\n";
    let kept = [
        ("accept", "application/vnd.interoperability.transfers+json;version=1"),
        ("content-type", VND_1_0),
        ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        ("fspiop-destination", "PayeeFSP"),
        ("fspiop-signature", "{\"signature\":\"abc\"}"),
        ("fspiop-source", "payerfsp"),
        ("traceparent", "00-1-2-3"),
    ];
    let origin = prepare(PAYER, tail(&kept, sent));
    let facts = facts("payeefsp", transfer(S::Reserved));
    let message = compose(&row(PAYEE, CallbackMessage::ForwardPrepare), &facts, Some(&origin), NOW);
    assert_eq!(message.method, Method::POST);
    assert_eq!(headers(&message), kept);
    assert_eq!(message.body, sent.as_bytes());
}

#[test]
fn what_a_sender_may_leave_out_is_filled_in() {
    let tail = tail(&[("content-type", VND_1_0), ("fspiop-source", "payerfsp")], "{}");
    let facts = facts("payeefsp", transfer(S::Reserved));
    let origin = prepare(PAYER, tail);
    let message = compose(&row(PAYEE, CallbackMessage::ForwardPrepare), &facts, Some(&origin), NOW);
    assert_eq!(
        headers(&message),
        [
            ("accept", "application/vnd.interoperability.transfers+json;version=1"),
            ("content-type", VND_1_0),
            ("date", "Sat, 15 Nov 2025 08:24:36 GMT"),
            ("fspiop-destination", "payeefsp"),
            ("fspiop-source", "payerfsp"),
        ]
    );
}

#[test]
fn nothing_is_added_to_what_is_signed() {
    let kept = [
        ("content-type", VND_1_1),
        ("fspiop-signature", "{\"signature\":\"abc\"}"),
        ("fspiop-source", "payerfsp"),
    ];
    let reserved = facts("payeefsp", transfer(S::Reserved));
    let origin = prepare(PAYER, tail(&kept, "{}"));
    let message = compose(&row(PAYEE, CallbackMessage::ForwardPrepare), &reserved, Some(&origin), NOW);
    assert_eq!(headers(&message), kept);
    let fulfil = Fulfil::new(PAYEE, ID, FulfilAction::Commit, [7; 32]).with_tail(tail(&kept, "{}"));
    let origin = Command::Fulfil(fulfil);
    let ended = facts("payerfsp", committed());
    let message = compose(&row(PAYER, CallbackMessage::ForwardFulfil), &ended, Some(&origin), NOW);
    assert_eq!(headers(&message), kept);
}

#[test]
fn an_answer_goes_on_without_accept() {
    let kept = [
        ("content-type", VND_1_1),
        ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        ("fspiop-destination", "payerfsp"),
        ("fspiop-source", "payeefsp"),
    ];
    let with_accept = [&kept[..], &[("accept", "*/*")]].concat();
    let fulfil = Fulfil::new(PAYEE, ID, FulfilAction::Commit, [7; 32]);
    let commands = [
        (
            CallbackMessage::ForwardFulfil,
            Command::Fulfil(fulfil.with_tail(tail(&with_accept, "{\"transferState\": \"COMMITTED\"}"))),
            "{\"transferState\": \"COMMITTED\"}",
        ),
        (
            CallbackMessage::ForwardError,
            Command::Abort(Abort::new(PAYEE, ID, 5104, tail(&with_accept, "{\"errorInformation\": {}}"))),
            "{\"errorInformation\": {}}",
        ),
    ];
    for (message, origin, body) in commands {
        let message = compose(&row(PAYER, message), &facts("payerfsp", committed()), Some(&origin), NOW);
        assert_eq!(message.method, Method::PUT);
        assert_eq!(headers(&message), kept);
        assert_eq!(message.body, body.as_bytes());
    }
}

#[test]
fn what_came_as_a_batch_is_written_in_the_name_of_its_sender() {
    let reserved = facts("payeefsp", transfer(S::Reserved));
    let origin = prepare(PAYER, Vec::new());
    let message = compose(&row(PAYEE, CallbackMessage::ForwardPrepare), &reserved, Some(&origin), NOW);
    assert_eq!(
        headers(&message),
        [
            ("accept", "application/vnd.interoperability.transfers+json;version=1"),
            ("content-type", VND_1_1),
            ("date", "Sat, 15 Nov 2025 08:24:36 GMT"),
            ("fspiop-destination", "payeefsp"),
            ("fspiop-source", "payerfsp"),
        ]
    );
    assert_eq!(
        body(&message),
        json!({
            "transferId": "0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d",
            "payerFsp": "payerfsp",
            "payeeFsp": "payeefsp",
            "amount": {"currency": "USD", "amount": "12.5"},
            "condition": SEVENS,
            "expiration": "2025-11-15T08:25:06.120Z",
        })
    );

    let origin = Command::Fulfil(Fulfil::new(PAYEE, ID, FulfilAction::Commit, [7; 32]));
    let ended = facts("payerfsp", committed());
    let message = compose(&row(PAYER, CallbackMessage::ForwardFulfil), &ended, Some(&origin), NOW);
    assert_eq!(message.headers["fspiop-source"], "payeefsp");
    assert_eq!(message.headers.get("accept"), None);
    let completed = "2025-11-15T08:24:35.120Z";
    assert_eq!(
        body(&message),
        json!({"transferState": "COMMITTED", "fulfilment": SEVENS, "completedTimestamp": completed})
    );

    let origin = Command::Abort(Abort::new(PAYEE, ID, 5104, Vec::new()));
    let message = compose(&row(PAYER, CallbackMessage::ForwardError), &ended, Some(&origin), NOW);
    assert_eq!(message.headers["fspiop-source"], "payeefsp");
    assert_eq!(
        body(&message),
        json!({"errorInformation": {"errorCode": "5104", "errorDescription": "Payee rejected transaction"}})
    );
}

#[test]
fn the_hub_says_where_a_transfer_stands() {
    let lookup = Command::Lookup(Lookup { source: PAYER, id: ID });
    let completed = "2025-11-15T08:24:35.120Z";
    let cases = [
        (
            committed(),
            json!({"transferState": "COMMITTED", "fulfilment": SEVENS, "completedTimestamp": completed}),
        ),
        (transfer(S::AbortedError), json!({"transferState": "ABORTED", "completedTimestamp": completed})),
        (transfer(S::Invalid), json!({"transferState": "ABORTED", "completedTimestamp": completed})),
        (transfer(S::Reserved), json!({"transferState": "RESERVED"})),
        (transfer(S::ReceivedPrepare), json!({"transferState": "RECEIVED"})),
    ];
    for (known, expected) in cases {
        let put = CallbackMessage::Put(known.state);
        let message = compose(&row(PAYER, put), &facts("payerfsp", known), Some(&lookup), NOW);
        assert_eq!(message.method, Method::PUT);
        assert_eq!(headers(&message), by_hub("payerfsp", "PUT", PATH));
        assert_eq!(body(&message), expected);
    }
    // Asked while it was reserved, sent when it had ended: what was true for the question is said.
    let put = CallbackMessage::Put(S::Reserved);
    let message = compose(&row(PAYER, put), &facts("payerfsp", committed()), Some(&lookup), NOW);
    assert_eq!(body(&message), json!({"transferState": "RESERVED"}));
}

#[test]
fn a_payee_that_said_reserved_is_told_the_end() {
    let fulfil = Command::Fulfil(Fulfil::new(PAYEE, ID, FulfilAction::Reserve, [7; 32]));
    let of = |state, known| {
        let patch = CallbackMessage::Patch(state);
        compose(&row(PAYEE, patch), &facts("payeefsp", known), Some(&fulfil), NOW)
    };
    let message = of(S::Committed, committed());
    assert_eq!(message.method, Method::PATCH);
    assert_eq!(headers(&message), by_hub("payeefsp", "PATCH", PATH));
    let completed = "2025-11-15T08:24:35.120Z";
    assert_eq!(body(&message), json!({"completedTimestamp": completed, "transferState": "COMMITTED"}));

    let wrong = Transfer {
        code: Some(ErrorCode::ValidationError.into()),
        reason: Some(Reason::WrongFulfilment),
        ..transfer(S::AbortedError)
    };
    let cause = "3100: Generic validation error - the fulfilment does not match the condition";
    assert_eq!(
        body(&of(S::AbortedError, wrong)),
        json!({
            "completedTimestamp": completed,
            "transferState": "ABORTED",
            "extensionList": {"extension": [{"key": "cause", "value": cause}]},
        })
    );
    // It ran out and awaits the scan.
    assert_eq!(
        body(&of(S::ExpiredReserved, transfer(S::Reserved))),
        json!({
            "completedTimestamp": "2025-11-15T08:23:36.120Z",
            "transferState": "ABORTED",
            "extensionList": {"extension": [{"key": "cause", "value": "3303: Transfer expired"}]},
        })
    );
}

#[test]
fn an_error_has_its_code_name_and_reason() {
    let cases = [
        (ErrorCode::TransferExpired, None, "Transfer expired"),
        (
            ErrorCode::ValidationError,
            Some(Reason::NotReserved),
            "Generic validation error - the transfer is not RESERVED",
        ),
    ];
    for (code, reason, description) in cases {
        let error = CallbackMessage::Error(code.into(), reason);
        let message = compose(&row(PAYER, error), &facts("payerfsp", transfer(S::Reserved)), None, NOW);
        assert_eq!(message.method, Method::PUT);
        assert_eq!(headers(&message), by_hub("payerfsp", "PUT", &format!("{PATH}/error")));
        assert_eq!(
            body(&message),
            json!({"errorInformation": {"errorCode": code.to_string(), "errorDescription": description}})
        );
    }
}

#[test]
fn the_hub_speaks_the_version_that_was_asked_for() {
    let any = "application/vnd.interoperability.transfers+json;version=1";
    let error = |to| row(to, CallbackMessage::Error(ErrorCode::PayerLimitError.into(), None));
    let known = facts("payerfsp", transfer(S::AbortedRejected));
    let both = format!("{VND_1_0}, {VND_1_1}");
    let spaced = "application/vnd.interoperability.transfers+json ; version=1.0";
    for (accept, version) in
        [(any, VND_1_1), (VND_1_1, VND_1_1), (VND_1_0, VND_1_0), (spaced, VND_1_0), (&both, VND_1_1)]
    {
        let origin = prepare(PAYER, tail(&[("accept", accept)], "{}"));
        let message = compose(&error(PAYER), &known, Some(&origin), NOW);
        assert_eq!(message.headers["content-type"], version, "{accept}");
        let message = compose(&error(PAYEE), &known, Some(&origin), NOW);
        assert_eq!(message.headers["content-type"], VND_1_1, "the payee did not ask");
    }
}

#[test]
fn an_alarm_is_a_small_json() {
    let alarm = CallbackMessage::Alarm {
        account: AccountId(1),
        value: Balance(85_000),
        net_debit_cap: Amount(100_000),
    };
    let row = CallbackRow { transfer: NO_TRANSFER, ..row(ParticipantId(0), alarm) };
    let alarmed = Some(("payerfsp".to_owned(), "USD".parse().unwrap(), 80));
    let facts = Facts { receiver: "Hub".to_owned(), alarmed, ..Facts::default() };
    let message = compose(&row, &facts, None, NOW);
    assert_eq!(message.method, Method::POST);
    assert_eq!(
        headers(&message),
        [("content-type", "application/json"), ("date", "Sat, 15 Nov 2025 08:24:36 GMT")]
    );
    assert_eq!(
        body(&message),
        json!({
            "participant": "payerfsp",
            "currency": "USD",
            "position": "8.5",
            "netDebitCap": "10",
            "alarmPercentage": 80,
            "at": "2025-11-15T08:23:36.120Z",
        })
    );
}
