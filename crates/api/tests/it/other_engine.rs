//! The edge before an engine that is no hub: a node of the database profile as a script.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use holdfast_api::{Edge, router};
use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::command::Command;
use holdfast_domain::effects::{Outcome, Subject};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance, OptionalBalance};
use holdfast_domain::participants::Name;
use holdfast_domain::records::{Sealed, batch};
use holdfast_domain::registry::Whose;
use holdfast_domain::shop::{CheckoutOrder, ShopCommand};
use holdfast_domain::transfers::{Proof, Transfer, TransferState};
use holdfast_domain::views::{NamedTransfer, Stats, TransferFilter, TransferPage, TransferStory};
use holdfast_engine::callbacks::in_words;
use holdfast_engine::{
    Answer, Callbacks, Component, DeadLetter, Engine, EngineError, Figures, Health, NodeFigures, Payments,
    Profile, Question, RETRIED_AT_ONCE_MAX, Reading, Refusal, Retried, Retry, Views, Written,
};
use holdfast_hub::EmbeddedEngine;
use serde_json::{Value, json};

use crate::fspiop_takes_anything::{GOOD_BODIES, HEADERS};
use crate::world::{Heard, World, assert_has, call, metrics};

/// What the engine was given, and whether the answer was wanted.
#[derive(Debug, PartialEq, Eq)]
enum Given {
    Decide(usize),
    Take(usize),
    Ask(Whose),
    Page(TransferFilter, Option<String>, usize),
}

#[derive(Default)]
struct Script {
    /// Who takes part is known there.
    hub: Option<World>,
    given: Mutex<Vec<Given>>,
    down: bool,
    /// What is given is written and not decided: the answers stay here.
    slow: Option<Mutex<Vec<Answer>>>,
    /// The transfer that is found.
    row: Option<Transfer>,
}

impl Script {
    fn note(&self, given: Given) {
        self.given.lock().unwrap().push(given);
    }

    fn read<T: Send + 'static>(&self, value: T) -> Reading<'_, T> {
        read(self.down, value)
    }
}

fn read<'a, T: Send + 'static>(down: bool, value: T) -> Reading<'a, T> {
    let read = if down { Err(EngineError::Unreadable("PostgreSQL is gone".into())) } else { Ok(value) };
    Box::pin(std::future::ready(read))
}

fn reserved() -> Outcome {
    Outcome {
        state: Some(TransferState::Reserved),
        code: None,
        reason: None,
        subject: Subject::Transfer(TransferNo(1)),
        value: Balance::ZERO,
        token: None,
        shop: None,
    }
}

impl Payments for Script {
    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        let count = records.commands().len();
        self.note(Given::Decide(count));
        answer(Ok(vec![reserved(); count]));
        Ok(())
    }
    fn decide_telling(&self, records: Sealed, written: Written, answer: Answer) -> Result<(), Refusal> {
        let Some(answers) = &self.slow else { return self.decide(records, answer) };
        self.note(Given::Decide(records.commands().len()));
        answers.lock().unwrap().push(answer);
        written();
        Ok(())
    }
    fn take(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        self.note(Given::Take(records.commands().len()));
        answer(Ok(Vec::new()));
        Ok(())
    }
    fn ask(&self, whose: Whose, question: Question) -> Result<(), Refusal> {
        self.note(Given::Ask(whose));
        if self.down {
            question(Err(EngineError::Unreadable("PostgreSQL is gone".into())));
        } else {
            let hub = self.hub.as_ref().expect("a node has one");
            EmbeddedEngine::new(hub.hub.clone()).ask(whose, question)?;
        }
        Ok(())
    }
}

impl Views for Script {
    fn transfer(&self, _: TransferId) -> Reading<'_, Option<Transfer>> {
        self.read(self.row.clone())
    }
    fn story(&self, _: TransferId) -> Reading<'_, Option<TransferStory>> {
        self.read(None)
    }
    fn transfers(
        &self,
        filter: TransferFilter,
        after: Option<String>,
        limit: usize,
    ) -> Reading<'_, TransferPage> {
        if after.as_deref() == Some("bad") {
            return Box::pin(std::future::ready(Err(EngineError::NoSuchPage("bad".into()))));
        }
        self.note(Given::Page(filter, after, limit));
        self.read(TransferPage { transfers: Vec::new(), next: Some("7".into()) })
    }
    fn holds(&self, _: Millis, _: Option<(Millis, TransferNo)>, _: usize) -> Reading<'_, Vec<NamedTransfer>> {
        self.read(Vec::new())
    }
    fn figures(&self) -> Reading<'_, Figures> {
        let node = NodeFigures { roles: "api".to_owned(), commands_in_flight: 12 };
        let stats = Stats { transfers: 5, ..Stats::default() };
        self.read(Figures { stats, node: Some(node), ..Figures::default() })
    }
}

impl Engine for Script {
    fn profile(&self) -> Profile {
        Profile::Database
    }
    fn callbacks(&self) -> Option<Arc<dyn Callbacks>> {
        Some(Arc::new(Letters { down: self.down }))
    }
}

/// One dead letter for everybody who asks.
struct Letters {
    down: bool,
}

impl Callbacks for Letters {
    fn dead_letters(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        limit: usize,
    ) -> Reading<'_, Vec<DeadLetter>> {
        let letter = DeadLetter {
            number: after.unwrap_or(0) + 1,
            to: to.unwrap_or(ParticipantId(2)),
            participant: Some("payeefsp".to_owned()),
            transfer_id: Some(TransferId(7).to_string()),
            what: in_words(&CallbackMessage::ForwardPrepare, TransferId(7)),
            url: Some("http://payee/transfers".to_owned()),
            last_error: "nobody listens".to_owned(),
            attempts: 9,
            at: 0,
            retrying: false,
        };
        read(self.down, vec![letter].into_iter().take(limit).collect())
    }
    fn retry(&self, number: u64) -> Reading<'_, Retry> {
        read(self.down, if number == 1 { Retry::Taken } else { Retry::Unknown })
    }
    fn retry_all(&self, to: Option<ParticipantId>) -> Reading<'_, Retried> {
        let retried = if to.is_some() { 3 } else { RETRIED_AT_ONCE_MAX as u64 };
        read(self.down, Retried { retried, without_room: 0, more: to.is_none() })
    }
}

impl Health for Script {
    fn health(&self) -> Vec<Component> {
        let fault = self.down.then(|| "PostgreSQL is gone".to_owned());
        vec![Component { name: "kafka", fault: None }, Component { name: "postgres", fault }]
    }
}

struct Node {
    script: Arc<Script>,
    router: Router,
}

impl Node {
    async fn new(down: bool) -> Node {
        Node::of(Script { down, ..Script::default() }).await
    }

    async fn of(script: Script) -> Node {
        let script = Arc::new(Script { hub: Some(World::with_two().await), ..script });
        Node { router: router(Edge::new(script.clone(), metrics())), script }
    }

    fn given(&self) -> Vec<Given> {
        std::mem::take(&mut *self.script.given.lock().unwrap())
    }

    async fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Heard {
        let mut request = Request::builder().method(verb).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        call(&self.router, request.body(body.into()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Heard {
        self.send("GET", path, &[], "").await
    }
}

#[tokio::test]
async fn only_the_paths_of_the_profile_are_there() {
    let node = Node::new(false).await;
    for path in ["/tokens/balance", "/stock/find/1", "/hub/checkouts", "/hub/backup"] {
        node.get(path).await.refused(404, "3002");
    }
    for path in
        ["/participants", "/participants/payerfsp/accounts", "/hub/transfers", "/hub/holds", "/health"]
    {
        assert_eq!(node.get(path).await.status, 200, "{path}");
    }
    let document = node.get("/openapi.json").await.json(200);
    assert_eq!(document, holdfast_api::openapi::document_of(Profile::Database));
    assert_ne!(document, holdfast_api::openapi::document());
}

#[tokio::test]
async fn what_the_hub_never_has_is_the_callers_mistake() {
    let node = Node::new(false).await;
    let limit = br#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1,"alarmPercentage":10}}"#;
    let funds = br#"{"transferId":"00000000-0000-4000-8000-000000000001","externalReference":"r","action":"recordFundsIn",
        "reason":"r","amount":{"amount":5,"currency":"USD"}}"#;
    for (verb, path, body) in [
        ("POST", "/participants/Hub/initialPositionAndLimits", &limit[..]),
        ("PUT", "/participants/Hub/limits", limit),
        ("PUT", "/participants/Hub", br#"{"isActive":false}"#),
        ("PUT", "/participants/Hub/accounts/0", br#"{"isActive":true}"#),
        ("POST", "/participants/Hub/accounts/0", funds),
    ] {
        let answer = node.send(verb, path, &[], body).await;
        assert_eq!(answer.status, 400, "{verb} {path}");
        answer.refused(400, "3100");
    }
    let accounts = node.get("/participants/payerfsp/accounts?amounts=strings").await.json(200);
    assert_has(&accounts[0], &json!({"value": "0", "reservedValue": "0"}));
}

#[tokio::test]
async fn who_does_not_wait_is_answered_when_the_log_has_it() {
    let node = Node::new(false).await;
    let path = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069";
    let [prepare, fulfil, abort] = GOOD_BODIES;
    let error = format!("{path}/error");
    for (verb, path, body, status) in [
        ("POST", "/transfers", prepare, 202),
        ("PUT", path, fulfil, 200),
        ("PUT", error.as_str(), abort, 200),
        ("GET", path, "", 202),
    ] {
        assert_eq!(node.send(verb, path, &HEADERS, body).await.status, status, "{verb} {path}");
        let given = node.given();
        assert!(
            given.contains(&Given::Take(1)) && !given.contains(&Given::Decide(1)),
            "{verb} {path}: {given:?}"
        );
        if verb != "GET" {
            let mut waiting = HEADERS.to_vec();
            waiting.push(("prefer", "wait=5"));
            let answer = node.send(verb, path, &waiting, body).await;
            assert_eq!(answer.status, 200, "{verb} {path}");
            assert_eq!(answer.content()["state"], "RESERVED");
            let given = node.given();
            assert!(given.contains(&Given::Decide(1)) && !given.contains(&Given::Take(1)), "{given:?}");
        }
    }
}

/// Whose time is up hears that the log has it, and where the transfer stands if that can be told.
#[tokio::test]
async fn who_waits_for_a_while_is_answered_when_it_is_over() {
    let row = Transfer {
        no: TransferNo(1),
        id: TransferId(7),
        payer: ParticipantId(1),
        payee: ParticipantId(2),
        payer_account: None,
        payee_account: None,
        currency: "USD".parse().unwrap(),
        amount: Amount(1),
        expiration: 0,
        proof: Proof::Condition([0; 32]),
        hash: [0; 32],
        state: TransferState::ReceivedPrepare,
        code: None,
        reason: None,
        offset: 0,
        prepared_at: 0,
        changed_at: 0,
        reserved_value: OptionalBalance::NONE,
        final_value: OptionalBalance::NONE,
    };
    let mut waiting = HEADERS.to_vec();
    waiting.push(("prefer", "wait=0"));
    for (row, down, told) in [
        (Some(row), false, json!({"state": "RECEIVED_PREPARE", "transferState": "RECEIVED"})),
        (None, false, Value::Null),
    ] {
        let node = Node::of(Script { slow: Some(Mutex::default()), row, down, ..Script::default() }).await;
        let answer = node.send("POST", "/transfers", &waiting, GOOD_BODIES[0]).await;
        assert_eq!(answer.status, 202);
        let answer = answer.content();
        assert_eq!((&answer["state"], &answer["transferState"]), (&told["state"], &told["transferState"]));
        assert!(node.given().contains(&Given::Decide(1)));
    }
    // One that is decided in time is told so.
    let node = Node::new(false).await;
    assert_eq!(node.send("POST", "/transfers", &waiting[..4], GOOD_BODIES[0]).await.status, 202);
    waiting[4] = ("prefer", "wait=5");
    assert_eq!(node.send("POST", "/transfers", &waiting, GOOD_BODIES[0]).await.status, 200);
}

#[tokio::test]
async fn dead_letters_are_those_of_the_engine() {
    let node = Node::new(false).await;
    let page = node.get("/hub/dead-letters?participant=payeefsp&after=4&limit=1").await.json(200);
    assert_eq!(page["next"], "5");
    let letter = &page["deadLetters"][0];
    assert_has(letter, &json!({"number": 5, "participant": "payeefsp"}));
    assert_has(letter, &json!({"lastError": "nobody listens", "attempts": 9}));
    assert_eq!(letter["transferId"], TransferId(7).to_string());
    let post = async |path: &str| node.send("POST", path, &[], "").await;
    assert_eq!(post("/hub/dead-letters/1/retry").await.status, 202);
    assert_eq!(post("/hub/dead-letters/2/retry").await.status, 404);
    let some = post("/hub/dead-letters/retry?participant=payeefsp").await.json(202);
    assert_eq!(some, json!({"retried": 3, "more": false}));
    assert_eq!(post("/hub/dead-letters/retry").await.json(202)["more"], true);
}

#[tokio::test]
async fn names_are_asked_for_one_by_one_and_once() {
    let node = Node::new(false).await;
    let names = ["payerfsp", "payeefsp"].map(|name| Given::Ask(Whose::Named(Name::new(name).unwrap())));
    node.send("POST", "/transfers", &HEADERS, GOOD_BODIES[0]).await;
    let [payer, payee] = names;
    assert_eq!(node.given(), [payer, payee, Given::Take(1)]);
    node.send("POST", "/transfers", &HEADERS, GOOD_BODIES[0]).await;
    assert_eq!(node.given(), [Given::Take(1)]);
}

#[tokio::test]
async fn tokens_and_shop_are_refused_before_anything_is_written() {
    let node = Node::new(false).await;
    let wallets = json!([
        {"key": "holdfast.payerWallet", "value": "payerfsp"}, {"key": "holdfast.payeeWallet", "value": "w"},
    ]);
    let mut prepare: Value = serde_json::from_str(GOOD_BODIES[0]).unwrap();
    prepare["extensionList"]["extension"] = wallets;
    let answer = node.send("POST", "/transfers", &HEADERS, prepare.to_string()).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let order = CheckoutOrder { order: "o".parse().unwrap(), deadline_ms: 10_000, key: None, chosen: None };
    let records = Sealed::of(&[Command::Shop(Box::new(ShopCommand::Checkout(order)))]);
    let mut bytes = batch::request_header(1).to_vec();
    bytes.extend_from_slice(records.bytes());
    let answer = node.send("POST", "/hub/batch", &[("content-type", batch::MEDIA_TYPE)], bytes).await;
    assert!(answer.status == 400 && answer.text.contains("record 0"), "{answer:?}");
    assert!(node.given().iter().all(|given| matches!(given, Given::Ask(_))));
}

#[tokio::test]
async fn views_ask_the_engine_and_show_what_it_knows() {
    let node = Node::new(false).await;
    let answer = node.get("/hub/transfers?state=RESERVED&participant=PayeeFsp&after=3&limit=9").await;
    assert_eq!(answer.json(200), json!({"transfers": [], "next": "7"}));
    let filter = TransferFilter { state: Some(TransferState::Reserved), participant: Some(ParticipantId(2)) };
    assert_eq!(node.given().last(), Some(&Given::Page(filter, Some("3".into()), 9)));
    node.get("/hub/transfers?after=bad").await.refused(400, "3101");
    let stats = node.get("/hub/stats").await.json(200);
    assert_eq!((&stats["transfers"], &stats["node"]["commandsInFlight"]), (&json!(5), &json!(12)));
    assert!(stats.get("reachedState").is_none() && stats.get("limitAlarms").is_none(), "not counted there");
    assert_eq!(node.get("/hub/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069").await.status, 404);
}

#[tokio::test]
async fn what_fails_is_said() {
    let node = Node::new(true).await;
    for path in ["/participants", "/participants/payerfsp", "/hub/stats", "/hub/transfers", "/hub/holds"] {
        let answer = node.get(path).await;
        let said = answer.content()["errorInformation"]["errorDescription"].to_string();
        assert!(answer.status == 503 && said.contains("PostgreSQL is gone"), "{path}: {answer:?}");
    }
    let health = node.get("/health").await.json(503);
    assert_eq!(health["status"], "DOWN");
    assert_eq!(
        health["services"],
        json!([
            {"name": "kafka", "status": "OK"},
            {"name": "postgres", "status": "DOWN", "reason": "PostgreSQL is gone"},
        ])
    );
}

/// A hub has every path, and its document is the one that is committed.
#[test]
fn the_document_of_a_hub_is_the_committed_one() {
    let committed: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    assert_eq!(holdfast_api::openapi::document(), committed);
}
