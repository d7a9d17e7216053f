//! The edge before an engine that is no hub: a node of the cluster as a script.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use holdfast_api::engine::{Answer, Component, EngineError, Figures, Question, Reading, Refusal};
use holdfast_api::{Edge, Engine, Profile, router};
use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::{Account, AccountKind, Name, Participant};
use holdfast_domain::records::{Sealed, batch};
use holdfast_domain::registry::{Registry, Whose};
use holdfast_domain::shop::{CheckoutOrder, ShopCommand};
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_domain::views::{NamedTransfer, Stats, TransferFilter, TransferPage, TransferStory};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Two participants with an account each.
struct Rows(Vec<Participant>, Vec<Account>);

impl Rows {
    fn new() -> Rows {
        let usd = "USD".parse().unwrap();
        let participant = |number: u32, name| Participant {
            id: ParticipantId(number),
            name: Name::new(name).unwrap(),
            active: true,
            accounts: vec![(usd, AccountId(2 * number - 1))],
            created_at: 0,
        };
        let account = |id: u32| Account {
            id: AccountId(id),
            participant: ParticipantId(id.div_ceil(2)),
            currency: usd,
            kind: if id % 2 == 1 { AccountKind::Position } else { AccountKind::Settlement },
            active: true,
            value: Balance::ZERO,
            reserved: Balance::ZERO,
            net_debit_cap: Amount::whole(10).filter(|_| id % 2 == 1),
            alarm_percentage: 10,
            created_at: 0,
            changed_at: 0,
        };
        let participants = vec![participant(1, "payerfsp"), participant(2, "payeefsp")];
        Rows(participants, (1..=4).map(account).collect())
    }
}

impl Registry for Rows {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.0.iter().find(|row| row.id == id)
    }
    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.0.iter().find(|row| row.name.folded() == name.folded())
    }
    fn participants(&self) -> Vec<&Participant> {
        self.0.iter().collect()
    }
    fn account(&self, id: AccountId) -> Option<&Account> {
        self.1.iter().find(|row| row.id == id)
    }
    fn accounts(&self) -> Vec<&Account> {
        self.1.iter().collect()
    }
    fn endpoints(&self, _: ParticipantId) -> Vec<(&str, &str)> {
        Vec::new()
    }
    fn endpoint(&self, _: ParticipantId, _: &str) -> Option<&str> {
        None
    }
}

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
    given: Mutex<Vec<Given>>,
    down: bool,
}

impl Script {
    fn note(&self, given: Given) {
        self.given.lock().unwrap().push(given);
    }

    fn read<T: Send + 'static>(&self, value: T) -> Reading<'_, T> {
        let read =
            if self.down { Err(EngineError::Unreadable("PostgreSQL is gone".into())) } else { Ok(value) };
        Box::pin(std::future::ready(read))
    }
}

fn reserved() -> Outcome {
    Outcome {
        state: Some(TransferState::Reserved),
        code: None,
        reason: None,
        subject: 1,
        value: Balance::ZERO,
        token: None,
        shop: None,
    }
}

impl Engine for Script {
    fn profile(&self) -> Profile {
        Profile::Cluster
    }
    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        let count = records.commands().len();
        self.note(Given::Decide(count));
        answer(Ok(vec![reserved(); count]));
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
            question(Ok(&Rows::new()));
        }
        Ok(())
    }
    fn transfer(&self, _: TransferId) -> Reading<'_, Option<Transfer>> {
        self.read(None)
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
        let more = json!({"partitions": 12}).as_object().unwrap().clone();
        self.read(Figures { stats: Stats { transfers: 5, ..Stats::default() }, more })
    }
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
    fn new(down: bool) -> Node {
        let script = Arc::new(Script { down, ..Script::default() });
        Node { router: router(Edge::before(script.clone(), crate::metrics())), script }
    }

    fn given(&self) -> Vec<Given> {
        std::mem::take(&mut *self.script.given.lock().unwrap())
    }

    async fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (StatusCode, Vec<u8>) {
        let mut request = Request::builder().method(verb).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = response.status();
        (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.send("GET", path, &[], Vec::new()).await;
        (status.as_u16(), serde_json::from_slice(&body).unwrap())
    }
}

const FSPIOP: [(&str, &str); 4] = [
    ("accept", "application/vnd.interoperability.transfers+json;version=1.1"),
    ("content-type", "application/vnd.interoperability.transfers+json;version=1.1"),
    ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
    ("fspiop-source", "payerfsp"),
];

fn body(extensions: &Value) -> Vec<u8> {
    let mut body = json!({
        "transferId": "b51ec534-ee48-4575-b6a9-ead2955b8069", "payeeFsp": "payeefsp", "payerFsp": "payerfsp",
        "amount": {"currency": "USD", "amount": "12.5"}, "ilpPacket": "AYIBgQ",
        "condition": "fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs", "expiration": "2030-11-15T08:24:36.120Z",
    });
    if !extensions.is_null() {
        body["extensionList"] = json!({"extension": extensions});
    }
    body.to_string().into_bytes()
}

#[tokio::test]
async fn only_the_paths_of_the_profile_are_there() {
    let node = Node::new(false);
    for path in ["/tokens/balance", "/stock/find/1", "/hub/checkouts", "/hub/dead-letters", "/hub/backup"] {
        let (status, answer) = node.get(path).await;
        assert_eq!((status, &answer["errorInformation"]["errorCode"]), (404, &json!("3002")), "{path}");
    }
    for path in
        ["/participants", "/participants/payerfsp/accounts", "/hub/transfers", "/hub/holds", "/health"]
    {
        assert_eq!(node.get(path).await.0, 200, "{path}");
    }
    let (_, document) = node.get("/openapi.json").await;
    assert_eq!(document, holdfast_api::openapi::document_of(Profile::Cluster));
    assert_ne!(document, holdfast_api::openapi::document());
}

#[tokio::test]
async fn who_does_not_wait_is_answered_when_the_log_has_it() {
    let node = Node::new(false);
    let path = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069";
    let fulfil =
        br#"{"fulfilment":"mhPUT9ZAwd-BXLfeSd7-YPh46rBWRNBiTCSWjpku90s","transferState":"COMMITTED"}"#;
    let abort = br#"{"errorInformation":{"errorCode":"5104","errorDescription":"no"}}"#;
    let error = format!("{path}/error");
    for (verb, path, body, status) in [
        ("POST", "/transfers", body(&Value::Null), 202),
        ("PUT", path, fulfil.to_vec(), 200),
        ("PUT", error.as_str(), abort.to_vec(), 200),
        ("GET", path, Vec::new(), 202),
    ] {
        let (answered, _) = node.send(verb, path, &FSPIOP, body.clone()).await;
        assert_eq!(answered.as_u16(), status, "{verb} {path}");
        let given = node.given();
        assert!(
            given.contains(&Given::Take(1)) && !given.contains(&Given::Decide(1)),
            "{verb} {path}: {given:?}"
        );
        if verb != "GET" {
            let mut waiting = FSPIOP.to_vec();
            waiting.push(("prefer", "wait=5"));
            let (answered, answer) = node.send(verb, path, &waiting, body).await;
            assert_eq!(answered.as_u16(), 200, "{verb} {path}");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["state"], "RESERVED");
            let given = node.given();
            assert!(given.contains(&Given::Decide(1)) && !given.contains(&Given::Take(1)), "{given:?}");
        }
    }
}

#[tokio::test]
async fn names_are_asked_for_one_by_one_and_once() {
    let node = Node::new(false);
    let names = ["payerfsp", "payeefsp"].map(|name| Given::Ask(Whose::Named(Name::new(name).unwrap())));
    node.send("POST", "/transfers", &FSPIOP, body(&Value::Null)).await;
    let [payer, payee] = names;
    assert_eq!(node.given(), [payer, payee, Given::Take(1)]);
    node.send("POST", "/transfers", &FSPIOP, body(&Value::Null)).await;
    assert_eq!(node.given(), [Given::Take(1)]);
}

#[tokio::test]
async fn tokens_and_shop_are_refused_before_anything_is_written() {
    let node = Node::new(false);
    let wallets = json!([
        {"key": "holdfast.payerWallet", "value": "payerfsp"}, {"key": "holdfast.payeeWallet", "value": "w"},
    ]);
    let (status, answer) = node.send("POST", "/transfers", &FSPIOP, body(&wallets)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{}", String::from_utf8_lossy(&answer));
    let order = CheckoutOrder { order: "o".parse().unwrap(), deadline_ms: 10_000, key: None, chosen: None };
    let records = Sealed::of(&[Command::Shop(Box::new(ShopCommand::Checkout(order)))]);
    let mut bytes = batch::request_header(1).to_vec();
    bytes.extend_from_slice(records.bytes());
    let (status, answer) =
        node.send("POST", "/hub/batch", &[("content-type", batch::MEDIA_TYPE)], bytes).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(status == StatusCode::BAD_REQUEST && answer.contains("record 0"), "{status}: {answer}");
    assert!(node.given().iter().all(|given| matches!(given, Given::Ask(_))));
}

#[tokio::test]
async fn views_ask_the_engine_and_show_what_it_knows() {
    let node = Node::new(false);
    let (status, answer) =
        node.get("/hub/transfers?state=RESERVED&participant=PayeeFsp&after=3&limit=9").await;
    assert_eq!((status, answer), (200, json!({"transfers": [], "next": "7"})));
    let filter = TransferFilter { state: Some(TransferState::Reserved), participant: Some(ParticipantId(2)) };
    assert_eq!(node.given().last(), Some(&Given::Page(filter, Some("3".into()), 9)));
    let (status, answer) = node.get("/hub/transfers?after=bad").await;
    assert_eq!((status, &answer["errorInformation"]["errorCode"]), (400, &json!("3101")));
    let (_, stats) = node.get("/hub/stats").await;
    assert_eq!((&stats["transfers"], &stats["partitions"]), (&json!(5), &json!(12)));
    assert!(stats.get("reachedState").is_none() && stats.get("limitAlarms").is_none(), "not counted there");
    assert_eq!(node.get("/hub/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069").await.0, 404);
}

#[tokio::test]
async fn what_fails_is_said() {
    let node = Node::new(true);
    for path in ["/participants", "/participants/payerfsp", "/hub/stats", "/hub/transfers", "/hub/holds"] {
        let (status, answer) = node.get(path).await;
        let text = answer["errorInformation"]["errorDescription"].as_str().unwrap();
        assert!(status == 503 && text.contains("PostgreSQL is gone"), "{path}: {status} {answer}");
    }
    let (status, health) = node.get("/health").await;
    assert_eq!((status, &health["status"]), (503, &json!("DOWN")));
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
