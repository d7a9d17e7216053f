//! Callbacks to https addresses: a second hub with a certificate stands in for the participant's server.

use std::path::Path;

use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::fspiop::Payment;
use crate::support::http::{figure, get, send};
use crate::support::server::{Server, any_port, folder};
use crate::support::wait::{await_that, wait_for};
use crate::support::world::participants;

fn make_certificate(folder: &Path, name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let path = |ending: &str| folder.join(format!("{name}.{ending}")).to_str().unwrap().to_owned();
    std::fs::write(path("pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
    (path("pem"), path("key"))
}

fn receiver(folder: &Path, (certificate, key): &(String, String)) -> Server {
    let mut command = Server::command(&folder.join("receiver"), any_port());
    Server::launch(command.args(["--tls-certificate", certificate, "--tls-key", key]))
}

/// A hub that trusts this certificate, with a participant whose alarms go to the receiver.
fn hub(folder: &Path, trusted: &str, receiver: &Server) -> Server {
    let mut command = Server::command(&folder.join("hub"), any_port());
    command.env("SSL_CERT_FILE", trusted).env("HOLDFAST_CALLBACKS_ATTEMPTS_MAX", "2");
    let server = Server::launch(command.env("HOLDFAST_CALLBACKS_PAUSE_MIN_MS", "5"));
    participants(&server, 2, Amount(500_000), Amount(1_000_000));
    // Any path that takes a POST and answers with 2xx.
    let url = format!("https://localhost:{}/hub/clock/confirm", receiver.address.port());
    let body = json!({"type": "ALARM_NOTIFICATION_URL", "value": url}).to_string();
    let set = send(&server, "POST", "/participants/fsp1/endpoints", &body);
    assert_eq!(set.status, 201);
    Payment::new(1, "40").post().send(&server);
    server
}

#[test]
fn a_trusted_certificate_is_called_and_another_is_not() {
    let folder = folder();
    let own = make_certificate(folder.path(), "own");
    let other = make_certificate(folder.path(), "other");
    let receiver = receiver(folder.path(), &own);

    let hub_that_trusts = hub(&folder.path().join("trusts"), &own.0, &receiver);
    let delivered = || figure(&hub_that_trusts, "holdfast_callbacks_delivered_total");
    await_that("a delivered alarm", delivered, |delivered| *delivered == Some(1));
    hub_that_trusts.stop();

    let hub_that_does_not = hub(&folder.path().join("doubts"), &other.0, &receiver);
    let letter = wait_for("a dead letter", || {
        let page = get(&hub_that_does_not, "/hub/dead-letters").json();
        page["deadLetters"].get(0).cloned().ok_or(page)
    });
    assert_eq!((&letter["what"], &letter["transferId"]), (&json!("limit alarm"), &Value::Null));
    let why = letter["lastError"].as_str().unwrap();
    assert!(why.contains("TLS") && why.contains("certificate"), "{why}");
    hub_that_does_not.stop();
    receiver.stop();
}
