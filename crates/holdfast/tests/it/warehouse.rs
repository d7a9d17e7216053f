//! Stock outside, in the sample docs/samples/warehouse.py: paid, refused, compensated; the warehouse killed in the middle, every
//! request sent twice; and who is told of outcomes.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::command::refused;
use crate::support::http::{Asked, exchange, get};
use crate::support::server::{Running, Server, any_port, folder};
use crate::support::shop::{checkout, new_item, order, post, shown, text, user};
use crate::support::sink::{read_request, serve_each};
use crate::support::wait::PATIENCE;

/// Short pauses between attempts.
const HASTE: [&str; 2] = ["callbacks.pause_min_ms=10", "callbacks.pause_max_ms=50"];

/// The sample as a child process. Killed when dropped.
struct Warehouse {
    child: Running,
    address: SocketAddr,
}

impl Warehouse {
    fn start(db: &Path) -> Warehouse {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/samples/warehouse.py");
        let child = Command::new("python3")
            .arg(&sample)
            .args(["--port", "0", "--db"])
            .arg(db)
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!("this test runs {} and needs python3 in the PATH: {error}", sample.display())
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").and_then(|place| place.parse().ok());
        let address =
            address.unwrap_or_else(|| panic!("the warehouse says '{line}', and ended: {:?}", child.wait()));
        Warehouse { child: Running(child), address }
    }

    fn put(&self, item: &str, amount: u64) {
        let (status, said) = call(self.address, "POST", &format!("/stock/{item}/{amount}"), "").unwrap();
        assert_eq!(status, 200, "{said}");
    }

    fn amount(&self, item: &str) -> u64 {
        let (status, said) = call(self.address, "GET", &format!("/stock/{item}"), "").unwrap();
        assert_eq!(status, 200, "{said}");
        said["amount"].as_u64().unwrap()
    }
}

/// One request on a connection of its own. `None`: there was no whole answer.
fn call(address: SocketAddr, verb: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let asked = Asked::send(address, (verb, path, ""), body.as_bytes(), PATIENCE).ok()?;
    let answer = asked.answer().ok()?;
    Some((answer.status, serde_json::from_str(&answer.body).ok()?))
}

/// A request that came in, and its connection.
struct Incoming {
    body: Value,
    stream: TcpStream,
}

impl Incoming {
    fn answer(mut self, status: u16, said: &Value) {
        let (said, head) = (said.to_string(), "Content-Type: application/json\r\nConnection: close");
        let length = said.len();
        let answer = format!("HTTP/1.1 {status} X\r\n{head}\r\nContent-Length: {length}\r\n\r\n{said}");
        // Whoever asked may be gone.
        let _: std::io::Result<()> = self.stream.write_all(answer.as_bytes());
        let _: std::io::Result<()> = self.stream.shutdown(Shutdown::Both);
    }
}

/// Takes requests, one connection for each, and has somebody see to them. It ends with the test.
fn listen(see_to: impl Fn(Incoming) + Send + Sync + 'static) -> SocketAddr {
    serve_each(any_port(), move |stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        if let Some(request) = read_request(&mut reader) {
            see_to(Incoming { body: request.json(), stream });
        }
    })
}

/// What the hub asked and what it was answered; `None`: it was not.
type Seen = (String, u64, Option<String>);

/// The way to the warehouse: everything goes there twice, and both must be answered alike.
struct Way {
    address: SocketAddr,
    warehouse: Arc<Mutex<SocketAddr>>,
    /// The answer to the next step of this type gets lost on the way back.
    lose: Arc<Mutex<Option<&'static str>>>,
    /// Repeats that were answered differently: a thread that fails would not fail the test.
    differ: Arc<Mutex<Vec<String>>>,
    seen: Receiver<Seen>,
}

impl Way {
    fn to(warehouse: SocketAddr) -> Way {
        let warehouse = Arc::new(Mutex::new(warehouse));
        let lose: Arc<Mutex<Option<&'static str>>> = Arc::default();
        let differ: Arc<Mutex<Vec<String>>> = Arc::default();
        let (tell, seen) = channel();
        let tell = Mutex::new(tell);
        let address = listen({
            let (warehouse, lose, differ) = (Arc::clone(&warehouse), Arc::clone(&lose), Arc::clone(&differ));
            move |incoming| {
                let to = *warehouse.lock().unwrap();
                let text = incoming.body.to_string();
                let kind = incoming.body["value"]["type"].as_str().unwrap().to_owned();
                let tr = incoming.body["key"]["tr_num"].as_u64().unwrap();
                let answers = [0, 1].map(|_| call(to, "POST", "/steps", &text));
                if let [Some(first), Some(second)] = &answers
                    && (first != second || first.0 != 200)
                {
                    differ.lock().unwrap().push(format!("{text}: {first:?}, then {second:?}"));
                }
                let outcome = |(_, said): &(u16, Value)| said["outcome"].as_str().map(str::to_owned);
                let told = answers[1].as_ref().and_then(outcome);
                let lost = lose.lock().unwrap().take_if(|lose| *lose == kind).is_some();
                let told = told.filter(|_| !lost);
                // The test may be over.
                drop(tell.lock().unwrap().send((kind, tr, told.clone())));
                if let Some(outcome) = told {
                    incoming.answer(200, &json!({"outcome": outcome}));
                }
            }
        });
        Way { address, warehouse, lose, differ, seen }
    }

    fn lead_to(&self, warehouse: &Warehouse) {
        *self.warehouse.lock().unwrap() = warehouse.address;
    }

    fn lose_the_answer_to(&self, kind: &'static str) {
        *self.lose.lock().unwrap() = Some(kind);
    }

    /// Waits for a step with that answer, whatever comes before it.
    #[track_caller]
    fn until(&self, kind: &str, answer: Option<&str>) {
        loop {
            match self.seen.recv_timeout(PATIENCE) {
                Ok((seen, _, told)) if seen == kind && told.as_deref() == answer => return,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no {kind} that was answered with {answer:?}")
                }
            }
        }
    }
}

/// A hub whose stock is outside.
struct Shop {
    data: tempfile::TempDir,
    way: Way,
    warehouse: Warehouse,
    server: Option<Server>,
    item: String,
}

impl Shop {
    fn open(stock: u64) -> Shop {
        let data = folder();
        let warehouse = Warehouse::start(&Shop::db(data.path()));
        let way = Way::to(warehouse.address);
        let mut shop = Shop { data, way, warehouse, server: None, item: String::new() };
        shop.serve();
        shop.item = new_item(shop.server(), 5);
        shop.warehouse.put(&shop.item, stock);
        shop
    }

    fn db(data: &Path) -> PathBuf {
        data.join("warehouse.sqlite")
    }

    fn serve(&mut self) {
        let stock = format!("shop.stock=http://{}/steps", self.way.address);
        let times = ["shop.deadline_ms=600000", "shop.wait_ms=30000"];
        let settings = [&[stock.as_str()], &HASTE[..], &times].concat();
        self.server = Some(Server::with(&self.data.path().join("hub"), any_port(), &settings));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it serves")
    }

    /// A user with that credit and an order of two units for 10.
    fn order(&self, credit: u64) -> (String, String) {
        let user = user(self.server(), credit);
        let order = order(self.server(), &user, &self.item, 2);
        (user, order)
    }

    fn credit(&self, user: &str) -> u64 {
        let found = get(self.server(), &format!("/payment/find_user/{user}"));
        found.json()["credit"].as_u64().unwrap()
    }

    fn stock(&self) -> u64 {
        self.warehouse.amount(&self.item)
    }

    fn checkout(&self, order: &str) -> (u16, Value) {
        let answer = checkout(self.server(), order);
        (answer.status, answer.json())
    }

    /// Begins a checkout and does not wait for it.
    fn begin(&self, order: &str) {
        let begun = self.checkout(&format!("{order}?waitMs=0")).1;
        assert_eq!(begun["state"], "pending", "{begun}");
    }

    fn restart_warehouse(&mut self) {
        self.warehouse = Warehouse::start(&Shop::db(self.data.path()));
        self.way.lead_to(&self.warehouse);
    }

    fn close(mut self) {
        let differ = self.way.differ.lock().unwrap().clone();
        assert!(differ.is_empty(), "a repeat is answered alike: {differ:#?}");
        self.server.take().expect("it serves").stop_and_verify(&self.data.path().join("hub"));
    }
}

#[test]
fn stock_outside_is_taken_once_or_given_back() {
    let shop = Shop::open(5);
    let (user, order) = shop.order(15);
    let (status, paid) = shop.checkout(&order);
    assert_eq!((status, &paid["state"]), (200, &json!("paid")), "{paid}");
    assert_eq!((shop.credit(&user), shop.stock()), (5, 3));
    assert_eq!(shop.checkout(&order).1["charged"], false);

    // Too little credit: the warehouse has taken by then, and gives back before the caller is told.
    let (poor, order) = shop.order(9);
    let (status, failed) = shop.checkout(&order);
    assert_eq!((status, &failed["why"]), (402, &json!("pay")), "{failed}");
    assert_eq!((shop.credit(&poor), shop.stock()), (9, 3));
    shop.way.until("add", Some("asucc"));
    // The same order again is another try, which the warehouse does not take for the first.
    post(shop.server(), &format!("/payment/add_funds/{poor}/1"));
    assert_eq!(shop.checkout(&order).1, json!({"order": order, "tr": 2, "state": "paid", "charged": true}));
    assert_eq!((shop.credit(&poor), shop.stock()), (0, 1));

    let (late, order) = shop.order(10);
    let (status, failed) = shop.checkout(&order);
    assert_eq!((status, &failed["why"]), (402, &json!("stock")), "{failed}");
    assert_eq!((shop.credit(&late), shop.stock()), (10, 1));
    shop.close();
}

#[test]
fn a_warehouse_killed_in_the_middle_has_taken_once_and_given_back_once() {
    let mut shop = Shop::open(10);
    // It has taken, its answer is lost, and it is gone: asked again, it remembers.
    let (user, order) = shop.order(10);
    shop.way.lose_the_answer_to("sub");
    shop.begin(&order);
    shop.way.until("sub", None);
    shop.warehouse.child.kill();
    let row = shown(shop.server(), &order);
    assert_eq!((&row["state"], &row["waitsFor"]), (&json!("pending"), &json!(["stock"])), "{row}");
    shop.restart_warehouse();
    let (status, paid) = shop.checkout(&order);
    assert_eq!((status, &paid["tr"]), (200, &json!(1)), "the same try: {paid}");
    assert_eq!((shop.credit(&user), shop.stock()), (0, 8));

    // It has given back, its answer is lost, it is gone, and so is the hub: what is open is asked again after a start.
    let (poor, order) = shop.order(9);
    shop.way.lose_the_answer_to("add");
    shop.begin(&order);
    shop.way.until("add", None);
    shop.warehouse.child.kill();
    let row = shown(shop.server(), &order);
    assert_eq!((&row["state"], &row["why"]), (&json!("cancelling"), &json!("pay")), "{row}");
    shop.server.take().expect("it serves").kill();
    shop.restart_warehouse();
    shop.serve();
    shop.way.until("add", Some("asucc"));
    let (status, again) = shop.checkout(&order);
    // Whether it joined the first try or came after it: there is too little credit for either.
    assert_eq!((status, &again["why"]), (402, &json!("pay")), "{again}");
    assert_eq!((shop.credit(&poor), shop.stock()), (9, 8));
    shop.close();
}

#[test]
fn a_side_does_not_turn_inside_while_checkouts_wait_for_it() {
    let mut shop = Shop::open(10);
    shop.warehouse.child.kill();
    let (_, order) = shop.order(10);
    shop.begin(&order);
    shop.server.take().expect("it serves").stop();
    let hub = shop.data.path().join("hub");
    let inside = Server::command(&hub, any_port()).output().expect("it ends");
    refused(&inside, 1, &["shop.stock is inside", "1 open checkouts", &order, "/stock"]);
    // With its address it goes on; when nothing waits any more the side may turn inside.
    shop.restart_warehouse();
    shop.serve();
    assert_eq!(shop.checkout(&order).0, 200);
    shop.server.take().expect("it serves").stop();
    shop.server = Some(Server::start(&hub, any_port()));
    let (_, order) = shop.order(10);
    let (status, failed) = shop.checkout(&order);
    assert_eq!((status, &failed["why"]), (402, &json!("stock")), "the hub itself has none: {failed}");
    shop.close();
}

/// A caller that waits for a checkout does not hold up the end: it is told where the checkout stands.
#[test]
fn who_waits_for_a_silent_warehouse_does_not_hold_up_the_end() {
    let data = folder();
    let (tell, asked) = channel();
    let tell = Mutex::new(tell);
    let address = listen(move |incoming| {
        // Nobody listens once the test is over.
        let _ = tell.lock().unwrap().send(());
        // It has heard, and will answer later.
        incoming.answer(202, &json!({}));
    });
    let server = Server::with(data.path(), any_port(), &[&format!("shop.stock=http://{address}/steps")]);
    let order = order(&server, &user(&server, 1), &new_item(&server, 0), 1);
    let path = format!("/shop/orders/checkout/{order}?deadlineMs=60000&waitMs=60000");
    let place = server.address;
    let waiting = std::thread::spawn(move || call(place, "POST", &path, ""));
    asked.recv_timeout(PATIENCE).expect("the warehouse is asked");
    let started = Instant::now();
    server.stop();
    let took = started.elapsed();
    // Half of what the end would wait for answers under way.
    assert!(took < Duration::from_secs(5), "it ended after {took:?}");
    let (status, said) = waiting.join().unwrap().expect("the caller is answered");
    assert_eq!((status, &said["state"], &said["waitsFor"]), (504, &json!("pending"), &json!(["stock"])));
}

#[test]
fn whoever_wants_to_know_is_told_of_outcomes_also_after_a_stop() {
    let data = folder();
    let (tell, told) = channel();
    let (tell, refusing) = (Mutex::new(tell), Arc::new(Mutex::new(false)));
    let address = listen({
        let refusing = Arc::clone(&refusing);
        move |incoming| {
            let is_refusing = *refusing.lock().unwrap();
            drop(tell.lock().unwrap().send((is_refusing, incoming.body.clone())));
            incoming.answer(if is_refusing { 503 } else { 200 }, &json!({}));
        }
    });
    let start = || {
        let webhook = format!("shop.webhook=http://{address}/outcomes");
        let settings = [&[webhook.as_str(), "callbacks.attempts_max=1000"], &HASTE[..]].concat();
        Server::with(data.path(), any_port(), &settings)
    };
    let course_checkout = |server: &Server, order: &str| {
        exchange(server, "POST", &format!("/orders/checkout/{order}"), "", b"").status
    };
    let server = start();
    let user = text(&post(&server, "/payment/create_user"), "user_id");
    let first = order(&server, &user, &new_item(&server, 1), 1);
    let second = text(&post(&server, &format!("/orders/create/{user}")), "order_id");
    assert_eq!(course_checkout(&server, &first), 400);
    let (_, heard) = told.recv_timeout(PATIENCE).expect("the failure is told");
    assert_eq!(
        (&heard["order"], &heard["tr"], &heard["state"], &heard["why"]),
        (&json!(first), &json!(1), &json!("not_paid"), &json!("both")),
    );
    assert!(heard["at"].as_str().unwrap().ends_with('Z'), "{heard}");

    *refusing.lock().unwrap() = true;
    // An order of nothing costs nothing.
    assert_eq!(course_checkout(&server, &second), 200);
    let (refused, heard) = told.recv_timeout(PATIENCE).expect("it is tried");
    assert_eq!((refused, &heard["order"]), (true, &json!(second)));
    server.stop();
    assert!(data.path().join("shop/outcomes.jsonl").is_file(), "what was not told is kept");
    *refusing.lock().unwrap() = false;
    let server = start();
    let (_, after) = told.iter().find(|(refused, _)| !refused).expect("it is told after the next start");
    assert_eq!(after, heard, "the same, and the time when it ended");
    assert_eq!((&after["state"], &after["tr"], after.get("why")), (&json!("paid"), &json!(1), None));
    server.stop();
    assert!(!data.path().join("shop/outcomes.jsonl").exists(), "nothing is left");
}
