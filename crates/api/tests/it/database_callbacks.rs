//! Callbacks of the database profile on real servers, with a real receiver: what was sent arrives byte for byte, a receiver that is
//! down gets all when it is back, and a node that was away ends nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use holdfast_api::{Edge, ServeOptions, router, serve};
use holdfast_database::{DatabaseEngine, Node, NodeHandle, NodeSettings, Part, TopicSettings};
use holdfast_delivery::callbacks::database::{DatabaseCallbackSettings, DatabaseCallbacks};
use holdfast_delivery::options::CallbackOptions;
use holdfast_domain::command::{Admin, Command, SetEndpoint};
use holdfast_domain::effects::{Asked, Subject};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::TransferState;
use holdfast_messages::{Answer, Message, Notice, Notification, Topic, TraceId};
use holdfast_postgres::{Batch, Claim, Incoming, Settings, Source, Store};
use holdfast_services::{Database, PATIENCE};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::world::{call, metrics};

/// A database of its own. To be made on threads that may wait.
struct World {
    database: Arc<Database>,
}

impl World {
    /// `None` if this run has no server.
    fn new() -> Option<World> {
        Some(World { database: Arc::new(Database::new("callbacks")?) })
    }

    fn store(&self) -> Store {
        Store::open(self.database.url(), Settings::default()).unwrap()
    }

    /// Waits until a query gives that number.
    async fn await_count(&self, sql: &'static str, wanted: i64) {
        let database = Arc::clone(&self.database);
        waiting(move || database.await_count(sql, |found| found == wanted)).await;
    }
}

const CALLBACKS: &str = "SELECT count(*) FROM callback";

/// A request that arrived.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What the receiver does with the n-th request.
type Script = dyn Fn(usize, &Seen) -> Reply + Send + Sync;

enum Reply {
    Now(u16),
    /// When that is true.
    Later(watch::Receiver<bool>, u16),
}

/// A participant's server.
#[derive(Clone)]
struct Receiver {
    address: String,
    seen: watch::Sender<Vec<Seen>>,
    script: Arc<Script>,
}

impl Receiver {
    async fn start(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Receiver {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let receiver = Receiver { address, seen: watch::Sender::default(), script: Arc::new(script) };
        let app = Router::new().fallback(take).with_state(receiver.clone());
        tokio::spawn(serve(listener, app, ServeOptions::default(), std::future::pending()));
        receiver
    }

    /// Waits until requests like this one have arrived so often; all of those.
    async fn await_seen(&self, count: usize, like: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let mut seen = self.seen.subscribe();
        let found = |seen: &Vec<Seen>| seen.iter().filter(|seen| like(seen)).count() >= count;
        let arrived = timeout(PATIENCE, seen.wait_for(found)).await;
        let Ok(arrived) = arrived else { panic!("only {:?} arrived", self.seen.borrow()) };
        arrived.unwrap().iter().filter(|seen| like(seen)).cloned().collect()
    }
}

async fn take(
    State(receiver): State<Receiver>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let seen = Seen { method, path: uri.path().to_owned(), headers, body };
    let mut number = 0;
    receiver.seen.send_modify(|all| {
        number = all.len();
        all.push(seen.clone());
    });
    let status = match (receiver.script)(number, &seen) {
        Reply::Now(status) => status,
        Reply::Later(mut when, status) => {
            when.wait_for(|now| *now).await.unwrap();
            status
        }
    };
    StatusCode::from_u16(status).unwrap()
}

fn options() -> CallbackOptions {
    CallbackOptions {
        pause_min: Duration::from_millis(20),
        pause_max: Duration::from_millis(100),
        ..CallbackOptions::default()
    }
}

fn deliver(world: &World, node: i64, options: CallbackOptions) -> DatabaseCallbackSettings {
    let url = world.database.url().to_owned();
    let connect = Box::new(move || Store::open(&url, Settings::default()));
    DatabaseCallbackSettings { connect, node, shards: 8, options, tls: None, part: Part::new("delivery") }
}

fn usd() -> Currency {
    "USD".parse().unwrap()
}

/// A participant that is called at `address` below its own name.
fn register(store: &mut Store, name: &str, address: &str) -> (ParticipantId, AccountId) {
    let create = Admin::CreateParticipant { name: Name::new(name).unwrap(), currency: usd() };
    let made = store.participant(&create).unwrap();
    let Subject::Member(participant, account) = made.subject else { panic!("{made:?}") };
    let address = format!("{address}/{name}/transfers");
    for (kind, value) in [
        ("POST", address.clone()),
        ("PUT", format!("{address}/{{{{transferId}}}}")),
        ("ERROR", format!("{address}/{{{{transferId}}}}/error")),
    ] {
        let kind = format!("FSPIOP_CALLBACK_URL_TRANSFER_{kind}");
        let endpoint = SetEndpoint::new(participant, kind, value).unwrap();
        assert_eq!(store.endpoint(&endpoint).unwrap().code, None);
    }
    (participant, account)
}

/// Runs what may wait on a thread that may.
async fn waiting<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

// ---- A whole node ----------------------------------------------------------------------------------------------------

fn decide(node: &NodeHandle, commands: Vec<Command>) {
    let (send, told) = std::sync::mpsc::channel();
    node.decide(commands, None, Box::new(move |outcomes| send.send(outcomes).unwrap())).unwrap();
    let outcomes = told.recv_timeout(PATIENCE).expect("every caller is told").unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.code.is_none()), "{outcomes:?}");
}

fn start_node(world: &World, kafka: &str, address: &str) -> Node {
    let settings = NodeSettings::new(kafka.parse().unwrap(), world.database.url(), 7);
    let topics = TopicSettings::of(world.database.topic_prefix(), 2);
    let node = Node::start(NodeSettings { topics, ..settings }).unwrap();
    let mut store = world.store();
    for name in ["payerfsp", "payeefsp"] {
        let (participant, account) = register(&mut store, name, address);
        let limits = Admin::InitialPositionAndLimits {
            participant,
            currency: usd(),
            net_debit_cap: Amount::whole(1_000).unwrap(),
            initial_position: Amount::ZERO,
        };
        let funds = Admin::FundsIn {
            id: TransferId(0xf000 + u128::from(account.0)),
            account: AccountId(account.0 + 1),
            currency: usd(),
            amount: Amount::whole(1_000).unwrap(),
        };
        decide(&node.handle(), vec![Command::Admin(limits), Command::Admin(funds)]);
    }
    node
}

const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const FULFILMENT: &str = "mhPUT9ZAwd-BXLfeSd7-YPh46rBWRNBiTCSWjpku90s";

fn id(number: u128) -> String {
    TransferId(0xb51e_c534_ee48_4575_b6a9_ead2_0000_0000 + number).to_string()
}

fn prepare(number: u128, expiration: &str) -> String {
    // Odd spaces: they must survive.
    format!(
        r#"{{ "transferId":"{}", "payeeFsp":"payeefsp","payerFsp":"payerfsp","amount":{{"currency":"USD","amount":"1.5"}},"ilpPacket":"AYIBgQ","condition":"fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs",  "expiration":"{expiration}"}}"#,
        id(number)
    )
}

async fn send(router: &Router, method: Method, path: &str, source: &str, body: &str) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", MEDIA)
        .header("content-type", MEDIA)
        .header("date", "Tue, 15 Nov 1994 08:12:31 GMT")
        .header("fspiop-source", source)
        .body(Body::from(body.to_owned()))
        .unwrap();
    let told = call(router, request).await;
    assert!((200..300).contains(&told.status), "{path}: {told:?}");
}

const FAR: &str = "2096-10-02T07:06:40.000Z";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_arrives_byte_for_byte_and_the_hub_says_the_rest() {
    let Some(world) = waiting(World::new).await else { return };
    let Some(kafka) = holdfast_services::kafka() else { return };
    let receiver = Receiver::start(|_, _| Reply::Now(200)).await;
    let address = receiver.address.clone();
    let (world, node) = waiting(move || {
        let node = start_node(&world, kafka.url(), &address);
        (world, node)
    })
    .await;
    let settings = {
        // Gone before the node: a handle holds connections, which are closed where one may wait.
        let handle = node.handle();
        let part = handle.delivery().expect("this node delivers");
        DatabaseCallbackSettings::of(handle.settings(), part, options(), None)
    };
    let callbacks = DatabaseCallbacks::start(settings).unwrap();
    let router = router(Edge::new(Arc::new(DatabaseEngine::new(node.handle())), metrics()));

    // A caller whose time is up hears that it was taken.
    let request = Request::post("/transfers")
        .header("accept", MEDIA)
        .header("content-type", MEDIA)
        .header("fspiop-source", "payerfsp")
        .header("prefer", "wait=0")
        .body(Body::from(prepare(8, "2000-01-01T00:00:00.000Z")))
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.headers()["preference-applied"].to_str().unwrap(), "wait=0");

    let asked = prepare(1, FAR);
    send(&router, Method::POST, "/transfers", "payerfsp", &asked).await;
    let got = receiver.await_seen(1, |seen| seen.path == "/payeefsp/transfers").await;
    assert_eq!((got[0].method.clone(), &got[0].body[..]), (Method::POST, asked.as_bytes()));
    assert_eq!(
        (got[0].header("fspiop-source"), got[0].header("fspiop-destination"), got[0].header("date")),
        ("payerfsp", "payeefsp", "Tue, 15 Nov 1994 08:12:31 GMT")
    );

    let answer = format!(r#"{{"fulfilment": "{FULFILMENT}",  "transferState":"COMMITTED"}}"#);
    let put = |number| format!("/transfers/{}", id(number));
    send(&router, Method::PUT, &put(1), "payeefsp", &answer).await;
    let to_payer = format!("/payerfsp{}", put(1));
    let got = receiver.await_seen(1, |seen| seen.path == to_payer).await;
    assert_eq!((got[0].method.clone(), &got[0].body[..]), (Method::PUT, answer.as_bytes()));
    assert_eq!(got[0].header("fspiop-source"), "payeefsp");

    send(&router, Method::POST, "/transfers", "payerfsp", &prepare(2, FAR)).await;
    receiver.await_seen(2, |seen| seen.path == "/payeefsp/transfers").await;
    let reserved = format!(r#"{{"fulfilment":"{FULFILMENT}","transferState":"RESERVED"}}"#);
    send(&router, Method::PUT, &put(2), "payeefsp", &reserved).await;
    let to_payee = format!("/payeefsp{}", put(2));
    let got = receiver.await_seen(1, |seen| seen.path == to_payee).await;
    assert_eq!((got[0].method.clone(), got[0].header("fspiop-source")), (Method::PATCH, "Hub"));
    assert_eq!(got[0].json()["transferState"], "COMMITTED");
    // It has looked around several times by now.
    assert_eq!(node.handle().delivery().unwrap().trouble(), None);
    let to_payer = format!("/payerfsp{}", put(2));
    let got = receiver.await_seen(1, |seen| seen.path == to_payer).await;
    assert_eq!((got[0].method.clone(), got[0].header("fspiop-source")), (Method::PUT, "Hub"));
    assert_eq!(got[0].json()["fulfilment"], FULFILMENT);

    let database = Arc::clone(&world.database);
    let soon = waiting(move || {
        let soon = "SELECT to_char((hub_clock() + interval '1 second') AT TIME ZONE 'UTC',
                        'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')";
        database.sql().query_one(soon, &[]).unwrap().get::<_, String>(0)
    })
    .await;
    send(&router, Method::POST, "/transfers", "payerfsp", &prepare(3, &soon)).await;
    for who in ["payerfsp", "payeefsp"] {
        let path = format!("/{who}{}/error", put(3));
        let got = receiver.await_seen(1, |seen| seen.path == path).await;
        assert_eq!(got[0].json()["errorInformation"]["errorCode"], "3303");
    }

    // A question of somebody who may not ask is answered as well: 3208 for an unknown transfer.
    send(&router, Method::GET, &put(9), "payerfsp", "").await;
    let path = format!("/payerfsp{}/error", put(9));
    let got = receiver.await_seen(1, |seen| seen.path == path).await;
    assert_eq!(got[0].json()["errorInformation"]["errorCode"], "3208");

    world.await_count(CALLBACKS, 0).await;
    waiting(move || {
        callbacks.finish();
        // It holds connections, which are closed where one may wait.
        drop(router);
        node.stop();
    })
    .await;
}

// ---- Deliverers alone ------------------------------------------------------------------------------------------------

/// Puts callbacks into the table: `PUT /transfers/{transfer}` to participants.
struct Notices {
    store: Store,
    claim: Claim,
    next: u64,
}

impl Notices {
    fn new(world: &World) -> Notices {
        let mut store = world.store();
        let claim = store.claim(&Source::Consumer(Topic::Notifications, 0)).unwrap();
        Notices { store, claim, next: 0 }
    }

    /// Tells each of these about a transfer.
    async fn told(mut self, whom: Vec<(ParticipantId, u128)>) -> Notices {
        waiting(move || {
            self.tell(&whom);
            self
        })
        .await
    }

    fn tell(&mut self, whom: &[(ParticipantId, u128)]) {
        let messages: Vec<Incoming<Notification>> = (self.next..)
            .zip(whom)
            .map(|(offset, (to, number))| {
                let answer = Answer {
                    to: Some(*to),
                    asked: Asked::Lookup,
                    repeat: false,
                    transfer: Some(TransferId(*number)),
                    state: Some(TransferState::Reserved),
                    error: None,
                    completion: None,
                    subject: 0,
                    value: Balance::ZERO,
                    origin: None,
                };
                let trace = TraceId(u128::from(offset) + 1);
                let told = Notification { trace, notice: Notice::Answer(answer) };
                Incoming::read(offset, told.key().into_bytes(), told.to_json())
            })
            .collect();
        let batch = Batch::new(self.next, &messages);
        self.store.callbacks(&self.claim, &batch).unwrap();
        self.next = batch.next;
    }
}

async fn begin(receiver: &Receiver) -> Option<(World, Notices, [ParticipantId; 2])> {
    let address = receiver.address.clone();
    waiting(move || {
        let world = World::new()?;
        let mut notices = Notices::new(&world);
        let people = ["first", "second"].map(|name| register(&mut notices.store, name, &address).0);
        Some((world, notices, people))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_down_gets_all_when_it_is_back_and_who_hangs_holds_up_nobody() {
    let (well, is_well) = watch::channel(false);
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let receiver = Receiver::start(move |_, seen| match () {
        () if seen.path.starts_with("/second") => Reply::Later(is_well.clone(), 200),
        () if down.load(Ordering::Acquire) => Reply::Now(503),
        () => Reply::Now(202),
    })
    .await;
    let Some((world, notices, [first, second])) = begin(&receiver).await else { return };
    let options = CallbackOptions { attempts_max: 1_000, ..options() };
    let callbacks = DatabaseCallbacks::start(deliver(&world, 1, options)).unwrap();
    // More than fit under way: the second hangs with all of its places.
    let all: Vec<(ParticipantId, u128)> =
        (1..=100).flat_map(|number| [(second, number), (first, number)]).collect();
    let notices = notices.told(all).await;
    receiver.await_seen(50, |seen| seen.path.starts_with("/first")).await;
    is_down.store(false, Ordering::Release);
    world.await_count("SELECT count(*) FROM callback WHERE participant_id = 1", 0).await;
    world.await_count("SELECT count(*) FROM callback WHERE participant_id = 2", 100).await;
    let hanging = receiver.await_seen(32, |seen| seen.path.starts_with("/second")).await;
    assert_eq!(hanging.len(), 32, "so many at once and no more");
    well.send_replace(true);
    world.await_count(CALLBACKS, 0).await;
    waiting(move || {
        callbacks.finish();
        // Its connection must not end where nobody may wait.
        drop(notices);
    })
    .await;
    let held = "SELECT count(*) FROM segment WHERE segment_type = 'callback' AND lease_node = 1";
    world.await_count(held, 0).await;
    let all = receiver.await_seen(100, |seen| seen.path.starts_with("/second")).await;
    assert_eq!(all.len(), 100, "once each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_its_last_attempt_it_is_a_dead_letter_and_can_be_tried_again() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let receiver =
        Receiver::start(move |_, _| Reply::Now(if down.load(Ordering::Acquire) { 500 } else { 200 })).await;
    let Some((world, notices, [first, _])) = begin(&receiver).await else { return };
    let options = CallbackOptions { attempts_max: 3, ..options() };
    let callbacks = DatabaseCallbacks::start(deliver(&world, 1, options)).unwrap();
    let mut notices = notices.told(vec![(first, 5)]).await;
    let dead = "SELECT count(*) FROM callback WHERE dead_date IS NOT NULL AND NOT is_waiting";
    world.await_count(dead, 1).await;
    waiting(move || {
        let dead = notices.store.dead_callbacks(None, None, 10).unwrap();
        assert_eq!(
            (dead[0].attempts, dead[0].last_error.as_str()),
            (3, "answered 500 Internal Server Error")
        );
        let url = dead[0].url.clone().unwrap();
        assert!(url.ends_with(&format!("/first/transfers/{}", TransferId(5))), "{url}");
        is_down.store(false, Ordering::Release);
        assert_eq!(notices.store.retry_callbacks(Some(first), 10).unwrap(), 1);
    })
    .await;
    world.await_count(CALLBACKS, 0).await;
    waiting(move || callbacks.finish()).await;
    assert_eq!(receiver.seen.borrow().len(), 4);
}

/// Node 1 sends, and is then away for longer than its lease. Node 2 takes over, sends again and is told no. When node 1 comes
/// back with its yes, that ends nothing: the callback is node 2's, which delivers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_ends_nothing() {
    let (yes, is_yes) = watch::channel(false);
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let receiver = Receiver::start(move |number, _| match number {
        0 => Reply::Later(is_yes.clone(), 200),
        _ => Reply::Now(if well.load(Ordering::Acquire) { 200 } else { 503 }),
    })
    .await;
    let Some((world, notices, [first, _])) = begin(&receiver).await else { return };
    let options = CallbackOptions { attempts_max: 1_000, ..options() };
    // Its connection can be cut, and another is to be had only when the test says so.
    let backend = Arc::new(Mutex::new(0));
    let (back, is_back) = watch::channel(false);
    let mut settings = deliver(&world, 1, options);
    settings.connect = Box::new({
        let (url, backend, opened) =
            (world.database.url().to_owned(), Arc::clone(&backend), AtomicBool::new(false));
        move || {
            let again = opened.swap(true, Ordering::AcqRel);
            while again && !*is_back.borrow() && is_back.has_changed().is_ok() {
                std::thread::yield_now();
            }
            let mut store = Store::open(&url, Settings::default())?;
            *backend.lock().unwrap() = store.backend()?;
            Ok(store)
        }
    });
    let node_1 = DatabaseCallbacks::start(settings).unwrap();
    let notices = notices.told(vec![(first, 5)]).await;
    receiver.await_seen(1, |_| true).await;
    let cut = *backend.lock().unwrap();
    let database = Arc::clone(&world.database);
    waiting(move || {
        database.sql().query_one("SELECT pg_terminate_backend($1, 10000)", &[&cut]).unwrap();
    })
    .await;
    let node_2 = DatabaseCallbacks::start(deliver(&world, 2, options)).unwrap();
    receiver.await_seen(3, |_| true).await;
    // Now it hears its yes, and comes back.
    yes.send_replace(true);
    back.send_replace(true);
    // It has looked at the leases when it counts itself among the living again.
    let living = "SELECT count(*) FROM node WHERE role = 'callback' AND seen_until >= hub_clock()";
    world.await_count(living, 2).await;
    let so_far = receiver.seen.borrow().len();
    receiver.await_seen(so_far + 2, |_| true).await;
    world.await_count(CALLBACKS, 1).await;
    is_well.store(true, Ordering::Release);
    world.await_count(CALLBACKS, 0).await;
    waiting(move || {
        node_1.finish();
        node_2.finish();
        drop(notices);
    })
    .await;
}
