//! Hubs with keys: what each of three participants is told of a transfer, and what changes with the first key.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use holdfast_client::{Client, ClientOptions, Command, Reply};
use holdfast_domain::command::Lookup;
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::transfers::TransferState::{self, AbortedError, Committed, Reserved};
use serde_json::Value;

use super::command::{assert_says, complaint, done};
use super::fspiop::{self, Message};
use super::http::exchange;
use super::server::{Server, path, run};
use super::wait::await_that;
use super::world::{DEADLINE, Payment, now, on_runtime, set_up};

/// The keys of a hub.
pub(crate) struct Keys {
    pub(crate) operator: String,
    /// Of fsp1, fsp2 and fsp3.
    participants: [String; 3],
}

/// Makes a key, which is the one line on standard output.
pub(crate) fn create_key(place: [&str; 2], holder: &[&str]) -> String {
    done(&run(&[&["keys", "create"], &place[..], holder].concat())).trim_end().to_owned()
}

impl Keys {
    pub(crate) fn create(file: &Path) -> Keys {
        let place = ["--keys", path(file)];
        let of = |name| create_key(place, &["--participant", name]);
        Keys { operator: create_key(place, &["--operator"]), participants: ["fsp1", "fsp2", "fsp3"].map(of) }
    }
}

async fn connect(server: &Server, key: &str) -> Client {
    let options = ClientOptions::to(server.address.to_string());
    let options = ClientOptions { deadline: DEADLINE, api_key: Some(key.to_owned()), ..options };
    Client::connect(options).await.expect("the server listens")
}

/// What a caller is told: state, code and balance. Where there is no state there is no number either.
async fn told(caller: &Client, command: impl Into<Command>) -> (Option<TransferState>, u16, i128) {
    let reply: Reply = caller.call(command.into()).await.expect("an answer");
    assert!(reply.state.is_some() || reply.subject == 0, "{reply:?}");
    (reply.state, reply.code, reply.value.0)
}

/// On a hub with these keys and nothing else.
pub(crate) fn each_sees_its_own(server: &Server, keys: &Keys) {
    on_runtime(batches(server, keys));
    messages(server, keys);
}

async fn batches(server: &Server, keys: &Keys) {
    let operator = connect(server, &keys.operator).await;
    set_up(&operator, 3, Amount(500_000), Amount(1_000_000)).await;
    let [payer, payee, stranger] = &keys.participants;
    let (payer, payee) = (connect(server, payer).await, connect(server, payee).await);
    let stranger = connect(server, stranger).await;
    let payment = |id| Payment { id, payer: 1, payee: 2, amount: 10_000, expiration: now() + 600_000 };
    let lookup = |source| Command::Lookup(Lookup { source: ParticipantId(source), id: TransferId(1) });
    let kept = payment(1);

    assert_eq!(told(&payer, kept.prepare()).await, (Some(Reserved), 0, 10_000), "its own position");
    assert_eq!(told(&payee, lookup(2)).await, (Some(Reserved), 0, 0), "the payer's position is hidden");
    assert_eq!(told(&operator, lookup(2)).await, (Some(Reserved), 0, 10_000));
    let taken = Payment { payer: 3, ..kept };
    let hidden = async || {
        assert_eq!(told(&stranger, taken.prepare()).await, (None, 3106, 0));
        let (fulfil, abort) = (Payment { payee: 3, ..kept }.fulfil(), Payment { payee: 3, ..kept }.abort());
        assert_eq!(told(&stranger, fulfil).await, (None, 3100, 0));
        assert_eq!(told(&stranger, abort).await, (None, 3100, 0));
        assert_eq!(told(&stranger, lookup(3)).await, (None, 3000, 0));
    };
    hidden().await;
    assert_eq!(told(&operator, taken.prepare()).await, (Some(Reserved), 3106, 10_000));

    assert_eq!(told(&payee, kept.fulfil()).await, (Some(Committed), 0, -10_000), "its own position");
    assert_eq!(told(&payer, kept.prepare()).await, (Some(Committed), 0, 0), "the payee's position is hidden");
    assert_eq!(told(&payer, lookup(1)).await, (Some(Committed), 0, 0));
    assert_eq!(told(&operator, kept.prepare()).await, (Some(Committed), 0, -10_000));
    hidden().await;

    let refused = payment(2);
    assert_eq!(told(&payer, refused.prepare()).await, (Some(Reserved), 0, 20_000));
    assert_eq!(told(&payee, refused.abort()).await, (Some(AbortedError), 5104, 0));
    assert_eq!(told(&payer, refused.prepare()).await, (Some(AbortedError), 5104, 10_000));
}

/// The same over FSPIOP, for callers who wait.
fn messages(server: &Server, keys: &Keys) {
    let [payer, payee, stranger] = &keys.participants;
    let ask = |message: Message, key: &str| {
        let answer = message.waiting().with("Authorization", &format!("Bearer {key}")).send(server);
        let (body, (status, code)) = (answer.json(), answer.refusal());
        let state = body["state"].as_str().unwrap_or("none").to_owned();
        assert!(state != "none" || body["transferState"] == Value::Null, "{body}");
        (status, state, code)
    };
    let is = |status, state: &str, code: &str| (status, state.to_owned(), code.to_owned());
    let payment = fspiop::Payment::new(1, "1");
    assert_eq!(ask(payment.post(), payer), is(200, "RESERVED", "none"));
    let hidden = || {
        let taken = payment.post().but("payerFsp", "fsp3".into()).from("fsp3");
        assert_eq!(ask(taken, stranger), is(400, "none", "3106"));
        for end in [payment.put("COMMITTED"), payment.put("RESERVED"), payment.put_error("5104")] {
            assert_eq!(ask(end.from("fsp3"), stranger), is(400, "none", "3100"));
        }
        assert_eq!(ask(payment.get().from("fsp3"), stranger), is(400, "none", "3000"));
    };
    hidden();
    assert_eq!(ask(payment.put("COMMITTED").from("fsp3"), &keys.operator), is(200, "RESERVED", "3100"));
    assert_eq!(ask(payment.put("COMMITTED"), payee), is(200, "COMMITTED", "none"));
    assert_eq!(ask(payment.post(), payer), is(200, "COMMITTED", "none"));
    hidden();
}

/// On a hub that was started without keys and looks for them in this file.
pub(crate) fn asks_for_keys_from_the_first_one_on(server: &Server, file: &Path) {
    let status = |headers: &str| exchange(server, "GET", "/hub/stats", headers, b"").status;
    assert_eq!(status(""), 200, "everybody on this machine may do everything");
    let made = create_key(["--keys", path(file)], &["--operator"]);
    await_that("calls without a key are refused", || status(""), |status| *status == 401);
    assert_eq!(status(&format!("Authorization: Bearer {made}\r\n")), 200);
    std::fs::remove_file(file).expect("the keys are gone");
    std::thread::park_timeout(Duration::from_millis(1_500));
    assert_eq!(status(""), 401, "what asks for keys never stops asking");
}

/// Starts what must be refused, and gives what it says.
pub(crate) fn refused(serve: &mut Program) -> String {
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut said = lines.map_while(Result::ok);
    if said.any(|line| line.starts_with("listening on")) {
        child.kill().expect("it was running");
        panic!("it runs open");
    }
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    complaint(&ended)
}

/// The same where keys were needed before: the refusal says what can be done.
pub(crate) fn refused_without_keys(serve: &mut Program) {
    let parts = ["needed keys", "Bring that file back", "holdfast keys create --operator", "--without-keys"];
    assert_says(&refused(serve), &parts);
}
