//! Who is told what, row by row of the standard's table, through the real binary and real callback servers. The rows
//! for a plain commit, RESERVED, a payee's error, expiry and 4001 are in `callbacks.rs`. A PUT after the expiration
//! but before the scan is a race of milliseconds over HTTP: the domain's table test shows it.

use serde_json::{Value, json};

use crate::callbacks::{World, call_at, world};
use crate::support::fspiop::{Message, Payment};
use crate::support::http::send;
use crate::support::server::Server;
use crate::support::sink::{Manner, Received, Sink};

/// What a callback says: method, last part of its path, and error code or state.
fn says(received: &Received) -> (String, String) {
    let what = received.what();
    let (method, path) = what.split_once(' ').unwrap();
    let body = received.json();
    let error = body["errorInformation"]["errorCode"].as_str();
    let told = error.or_else(|| body["transferState"].as_str()).unwrap_or("the transfer");
    let kind = if path.ends_with("/error") { " error" } else { "" };
    (format!("{method}{kind}"), told.to_owned())
}

/// The `count`-th callback of a sink, and that it is the last so far.
#[track_caller]
fn told(sink: &Sink, count: usize, method: &str, what: &str) {
    let received = sink.wait_for(count);
    assert_eq!(received.len(), count, "{received:#?}");
    assert_eq!(says(&received[count - 1]), (method.to_owned(), what.to_owned()), "{:?}", received[count - 1]);
}

/// Sends what must be acknowledged.
#[track_caller]
fn is_taken(server: &Server, message: &Message) {
    let answer = message.send(server);
    assert!(answer.status == 200 || answer.status == 202, "{answer:?}");
}

/// Sends what must be acknowledged, and leads to the `count`-th callback of a sink.
#[track_caller]
fn leads_to(server: &Server, message: &Message, (sink, count): (&Sink, usize), method: &str, what: &str) {
    is_taken(server, message);
    told(sink, count, method, what);
}

#[test]
fn refused_prepares_are_told_to_the_payer_alone() {
    let World { _folder, server, payer, payee } = world();
    leads_to(&server, &Payment::new(1, "45").post(), (&payee, 1), "POST", "the transfer");
    leads_to(&server, &Payment::new(2, "10").post(), (&payer, 1), "PUT error", "4200");
    leads_to(
        &server,
        &Payment::new(3, "5").with("payeeFsp", json!("nobody")).post(),
        (&payer, 2),
        "PUT error",
        "3100",
    );
    leads_to(&server, &Payment::new(4, "0").post(), (&payer, 3), "PUT error", "3100");
    // Run out before it came: never reserved, so the payer alone is told.
    leads_to(
        &server,
        &Payment::until(5, "1", crate::support::world::now() - 1_000).post(),
        (&payer, 4),
        "PUT error",
        "3100",
    );
    let set = send(&server, "PUT", "/participants/fsp2", r#"{"isActive":false}"#);
    assert_eq!(set.status, 200, "{set:?}");
    leads_to(&server, &Payment::new(6, "1").post(), (&payer, 5), "PUT error", "3100");
    server.stop();
    assert_eq!(payee.received().len(), 1, "the payee heard of the first alone");
}

#[test]
fn a_wrong_fulfilment_ends_it_for_both() {
    let World { _folder, server, payer, payee } = world();
    for (number, state, method, code) in
        [(1, "COMMITTED", "PUT error", "3100"), (2, "RESERVED", "PATCH", "ABORTED")]
    {
        let payment = Payment::new(number, "5");
        is_taken(&server, &payment.post());
        let before = usize::try_from(number).unwrap() * 2 - 1;
        told(&payee, before, "POST", "the transfer");
        let other = Value::String(Payment::new(99, "5").fulfilment());
        leads_to(&server, &payment.put(state).but("fulfilment", other), (&payee, before + 1), method, code);
        told(&payer, usize::try_from(number).unwrap(), "PUT error", "3100");
    }
    server.stop();
}

#[test]
fn repeats_and_modified_requests_are_told_apart() {
    let World { _folder, server, payer, payee } = world();
    let payment = Payment::new(1, "5");
    leads_to(&server, &payment.post(), (&payee, 1), "POST", "the transfer");
    // The same again in flight: nobody is called. Another content: 3106, and the first is untouched.
    is_taken(&server, &payment.post());
    leads_to(&server, &Payment::new(1, "6").post(), (&payer, 1), "PUT error", "3106");
    leads_to(&server, &payment.put("COMMITTED"), (&payer, 2), "PUT", "COMMITTED");
    // The same POST and PUT again, finished: each sender gets the stored state.
    leads_to(&server, &payment.post(), (&payer, 3), "PUT", "COMMITTED");
    leads_to(&server, &payment.put("COMMITTED"), (&payee, 2), "PUT", "COMMITTED");
    leads_to(&server, &payment.put_error("5104"), (&payee, 3), "PUT error", "3106");
    // The same refusal again, with another Date, is the same refusal.
    let rejected = Payment::new(2, "5");
    leads_to(&server, &rejected.post(), (&payee, 4), "POST", "the transfer");
    leads_to(&server, &rejected.put_error("5104"), (&payer, 4), "PUT error", "5104");
    leads_to(
        &server,
        &rejected.put_error("5104").with("Date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        (&payee, 5),
        "PUT",
        "ABORTED",
    );
    // The same POST again after the end, and another fulfilment after the commit.
    leads_to(&server, &rejected.post(), (&payer, 5), "PUT", "ABORTED");
    let other = Value::String(Payment::new(99, "5").fulfilment());
    leads_to(&server, &payment.put("COMMITTED").but("fulfilment", other), (&payee, 6), "PUT error", "3106");
    server.stop();
    assert_eq!((payer.received().len(), payee.received().len()), (5, 6), "nobody was told anything else");
}

#[test]
fn who_may_not_is_told_and_nobody_else() {
    let World { _folder, server, payer, payee } = world();
    let stranger = Sink::new(Manner::Good);
    call_at(&server, "fsp3", stranger.address);
    let payment = Payment::new(1, "5");
    leads_to(&server, &payment.post(), (&payee, 1), "POST", "the transfer");
    leads_to(&server, &payment.put("COMMITTED").from("fsp3"), (&stranger, 1), "PUT error", "3100");
    leads_to(&server, &payment.put_error("5104").from("fsp3"), (&stranger, 2), "PUT error", "3100");
    leads_to(&server, &payment.get().from("fsp3"), (&stranger, 3), "PUT error", "3000");
    leads_to(&server, &Payment::new(7, "5").put("COMMITTED"), (&payee, 2), "PUT error", "3208");
    leads_to(&server, &Payment::new(7, "5").get(), (&payer, 1), "PUT error", "3208");
    // Both parties may ask; the transfer still lives, whatever the stranger tried.
    leads_to(&server, &payment.get(), (&payer, 2), "PUT", "RESERVED");
    leads_to(&server, &payment.get().from("fsp2"), (&payee, 3), "PUT", "RESERVED");
    leads_to(&server, &payment.put("COMMITTED"), (&payer, 3), "PUT", "COMMITTED");
    server.stop();
}

#[test]
fn a_put_after_the_end_is_refused_and_a_reserving_payee_hears_the_end() {
    let World { _folder, server, payer, payee } = world();
    let payment = Payment::until(1, "5", crate::support::world::now() + 1_000);
    leads_to(&server, &payment.post(), (&payee, 1), "POST", "the transfer");
    told(&payee, 2, "PUT error", "3303");
    told(&payer, 1, "PUT error", "3303");
    is_taken(&server, &payment.put("RESERVED"));
    let received = payee.wait_for(4);
    let said: Vec<_> = received[2..].iter().map(says).collect();
    let expected = [("PUT error", "3100"), ("PATCH", "ABORTED")];
    assert_eq!(said, expected.map(|(method, what)| (method.to_owned(), what.to_owned())));
    server.stop();
    assert_eq!(payer.received().len(), 1);
}
