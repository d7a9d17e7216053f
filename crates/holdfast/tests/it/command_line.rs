//! What commands do when the hub is not there yet, does not take what it is told, or what was asked for makes no sense.

use std::process::Stdio;

use crate::support::command::{done, refused};
use crate::support::server::{Server, binary, folder, path, run};
use crate::support::sink::{Manner, Sink};

#[test]
fn a_hub_that_is_being_started_is_waited_for() {
    let (folder, place) = (folder(), Sink::nowhere());
    let url = format!("http://{place}");
    let asking = binary()
        .args(["participants", "list", "--url", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let server = Server::start(folder.path(), place);
    let answered = asking.wait_with_output().unwrap();
    done(&answered);
    server.stop();
    refused(&run(&["participants", "list", "--url", &url]), 1, &["no hub answers"]);
}

#[test]
fn a_payer_says_that_the_hub_does_not_take_it_and_ends() {
    let hub = Sink::new(Manner::Status(503));
    let url = format!("http://{}", hub.address);
    let paid = run(&["dfsp", "payer", "--pay", "payee", "5", "USD", "--register=false", "--url", &url]);
    assert_eq!(paid.status.code(), Some(1));
    let lines = String::from_utf8(paid.stdout).unwrap();
    let posts: Vec<&str> = lines.lines().filter(|line| line.contains("-> POST /transfers")).collect();
    assert_eq!((posts.len(), hub.received().len()), (3, 3), "a line for each attempt: {lines}");
    assert!(posts[..2].iter().all(|line| line.contains("503") && line.contains("repeating")), "{lines}");
    assert!(posts[2].contains("503") && !posts[2].contains("repeating"), "{lines}");
}

#[test]
fn what_makes_no_sense_is_told_with_what_would() {
    let folder = folder();
    let here = folder.path().join("nothing");
    let here = path(&here);
    let id = "01234567-89ab-4cde-8fab-0123456789ab";
    for (arguments, words) in [
        (&["transfers", "why", id, "--data", here][..], &["no Holdfast data", "transfers show"][..]),
        (&["generate", "transfers", "--data", here, "--total", "10"], &["--expired", "1000"]),
        (&["config", "--roles", ""], &["api,transfers,position"]),
    ] {
        refused(&run(arguments), 2, words);
    }
}
