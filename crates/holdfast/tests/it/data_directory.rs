//! The data directory through the binary: locked, checkpointed at a clean stop, verified while served, backed up under
//! load and restored.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use holdfast_client::Client;
use holdfast_domain::command::{Command, Lookup};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::command::{assert_says, done, json_of, refused};
use crate::support::http::get;
use crate::support::server::{Server, any_port, folder, fresh_hub, path, run, verify};
use crate::support::world::{Payment, client, now, set_up};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn payment(id: u128) -> Payment {
    Payment { id, payer: 1, payee: 2, amount: 1, expiration: now() + 600_000 }
}

/// Prepares, and fulfils all but every tenth.
async fn pay(client: &Client, id: u128) {
    let payment = payment(id);
    client.prepare(payment.prepare()).await.unwrap();
    if !id.is_multiple_of(10) {
        client.fulfil(payment.fulfil()).await.unwrap();
    }
}

async fn pay_all(client: &Client, ids: std::ops::Range<u128>) {
    let tasks: Vec<_> = ids
        .map(|id| {
            let client = client.clone();
            tokio::spawn(async move { pay(&client, id).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn shown(server: &Server, id: u128) -> Value {
    get(server, &format!("/hub/transfers/{}", TransferId(id))).json()
}

/// Changes one bit of the byte at that place.
fn damage(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, &bytes).unwrap();
}

/// Two participants, and payments of these ids.
fn pay_on(server: &Server, ids: std::ops::Range<u128>) {
    runtime().block_on(async {
        let client = client(server).await;
        set_up(&client, 2, Amount(1_000_000), Amount(1_000_000)).await;
        pay_all(&client, ids).await;
    });
}

/// Records and checkpoint that a start tells of.
fn banner(data: &Path) -> (u64, u64) {
    let mut command = Server::command(data, any_port());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|line| line.starts_with("data in ")).expect("the start tells");
    child.kill().unwrap();
    child.wait().unwrap();
    let number = |before: &str, after: &str| {
        let rest = line.rsplit_once(before).expect(before).1;
        rest.split(after).next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"))
    };
    (number("(", " records"), number("checkpoint at ", ","))
}

#[test]
fn a_clean_stop_leaves_a_checkpoint_at_the_very_end() {
    let (folder, server) = fresh_hub();
    pay_on(&server, 1..200);
    server.stop();
    let (records, checkpoint) = banner(folder.path());
    assert!(records > 300);
    assert_eq!(checkpoint, records, "nothing is left to replay");
    // After a kill there is.
    let server = Server::start(folder.path(), any_port());
    runtime().block_on(async { pay_all(&client(&server).await, 1_000..1_020).await });
    server.kill();
    let (later, checkpoint) = banner(folder.path());
    assert!(later > records && checkpoint == records, "{later} {checkpoint} {records}");
}

#[test]
fn a_directory_in_use_is_refused_to_others() {
    let (folder, other) = (folder(), folder());
    let server = Server::start(folder.path(), any_port());
    let second = Server::command(folder.path(), any_port()).output().unwrap();
    refused(&second, 1, &["another holdfast serves from"]);
    let target = other.path().join("backup");
    let offline = run(&["backup", path(&target), "--data", path(folder.path())]);
    refused(&offline, 1, &["a hub is at work on"]);
    assert!(!target.exists());
    // Reading is open to everybody.
    let report = verify(folder.path());
    assert_eq!(report["served"], true);
    assert_eq!(get(&server, "/health").json()["status"], "OK", "the hub did not notice");
    server.stop();
    assert_eq!(verify(folder.path())["served"], false);
}

#[test]
fn a_backup_under_load_is_restored_to_the_state_at_its_frame() {
    let (folder, other) = (folder(), folder());
    let server = Server::start(folder.path(), any_port());
    let url = server.url();
    let runtime = runtime();
    let (over, paid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (connected, payers) = runtime.block_on(async {
        let connected = client(&server).await;
        set_up(&connected, 2, Amount(1_000_000_000), Amount(1_000_000_000)).await;
        pay_all(&connected, 1..500).await;
        let payers: Vec<_> = (1..=8_u128)
            .map(|payer| {
                let (client, over, paid) = (connected.clone(), Arc::clone(&over), Arc::clone(&paid));
                tokio::spawn(async move {
                    for id in (payer << 32).. {
                        if over.load(Ordering::Relaxed) {
                            return;
                        }
                        pay(&client, id).await;
                        paid.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        (connected, payers)
    });
    let before = [5, 10, 77, 499].map(|id| shown(&server, id));
    let backup = other.path().join("backup");
    let copying = paid.load(Ordering::Relaxed);
    let answer = json_of(&run(&["backup", path(&backup), "--url", &url, "--output", "json"]));
    assert!(paid.load(Ordering::Relaxed) > copying, "payments went on");
    assert_eq!(answer["verified"], true);
    refused(&run(&["backup", path(&backup), "--url", &url]), 1, &["is not empty"]);
    over.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for payer in payers {
            payer.await.unwrap();
        }
        pay(&connected, 1 << 100 | 7).await;
    });
    let hub_end = get(&server, "/hub/stats").json()["log"]["records"].as_u64().unwrap();
    drop(connected);
    server.stop();

    let data = other.path().join("data");
    let restored = json_of(&run(&["restore", path(&backup), path(&data), "--output", "json"]));
    let records = restored["records"].as_u64().unwrap();
    assert!(records >= answer["offset"].as_u64().unwrap() && records < hub_end);
    // The original log up to that record leads to the same state: its frames are the copy's.
    let (copy, original) = (Server::start(&data, any_port()), Server::start(folder.path(), any_port()));
    assert_eq!(before, [5, 10, 77, 499].map(|id| shown(&copy, id)));
    assert_eq!(before, [5, 10, 77, 499].map(|id| shown(&original, id)));
    assert_eq!(get(&copy, "/hub/stats").json()["log"]["records"], json!(records));
    let unknown = get(&copy, &format!("/hub/transfers/{}", TransferId(1 << 100 | 7)));
    assert_eq!(unknown.status, 404, "what came later is not in it");
    // Nobody can spend twice what was spent: the copy answers a repeat, and goes on with new ones.
    runtime.block_on(async {
        let client = client(&copy).await;
        let repeated = client.prepare(payment_as_shown(&before[0], 5)).await.unwrap();
        assert_eq!(repeated.code, 3106, "another expiration is another request");
        pay(&client, 1 << 101 | 3).await;
    });
    copy.stop();
    original.stop();
    verify(&data);

    // A backup that was changed is not restored.
    damage(&backup.join("log/00000000000000000000.seg"), 5_000);
    let again = run(&["restore", path(&backup), path(&other.path().join("again"))]);
    refused(&again, 1, &["is not what was backed up"]);
    std::fs::remove_file(backup.join("backup.json")).unwrap();
    let once_more = run(&["restore", path(&backup), path(&other.path().join("once-more"))]);
    refused(&once_more, 1, &["this is no backup, or one that was not finished"]);
}

/// The same transfer with another expiration.
fn payment_as_shown(shown: &Value, id: u128) -> holdfast_client::Prepare {
    assert_eq!(shown["state"], "COMMITTED");
    payment(id).prepare()
}

#[test]
fn a_stopped_hub_is_backed_up_offline() {
    let (folder, other) = (folder(), folder());
    let server = Server::start(folder.path(), any_port());
    pay_on(&server, 1..50);
    server.kill();
    let backup = other.path().join("backup");
    let made = done(&run(&["backup", path(&backup), "--data", path(folder.path())]));
    assert_says(&made, &[", verified"]);
    let server = Server::start(&backup, any_port());
    assert_eq!(shown(&server, 7)["state"], "COMMITTED");
    assert!(shown(&server, 7).get("archived").is_none(), "nothing is archived");
    server.stop();
    let nowhere = run(&["backup", path(&other.path().join("b")), "--data", path(&other.path().join("none"))]);
    refused(&nowhere, 2, &[]);
}

/// A directory whose log no longer begins at 0: payments 1 to 399 in it, then its oldest segments removed.
fn archived(data: &Path) {
    use holdfast_engine::clock::SystemClock;
    use holdfast_hub::limits::HubOptions;
    use holdfast_hub::{Hub, Opened, Submission, log_folder};
    use holdfast_log::{LogId, RealFs, SegmentLog, SegmentOptions};
    let small = || SegmentOptions { segment_bytes: 4 << 20, ..SegmentOptions::default() };
    // The first segment is a small one too, so that it can be filled and left behind.
    drop(Opened::open(Arc::new(RealFs), data, small(), LogId([3; 16])).unwrap());
    let server = Server::start(data, any_port());
    pay_on(&server, 1..200);
    server.stop();
    // The rest in small segments, with two checkpoints behind it.
    for round in 1..=3_u128 {
        let opened = Opened::open(Arc::new(RealFs), data, small(), LogId([0; 16])).unwrap();
        let hub = Hub::start(opened, Arc::new(SystemClock::new()), HubOptions::default()).unwrap();
        for batch in 0..20_u128 {
            let commands: Vec<Command> = (0..5_000)
                .map(|at| {
                    let id = TransferId(round << 64 | batch << 32 | at);
                    Command::Lookup(Lookup { source: ParticipantId(1), id })
                })
                .collect();
            let (send, receive) = std::sync::mpsc::channel();
            let answer = Box::new(move |answer| send.send(answer).unwrap());
            let records = holdfast_domain::records::Sealed::of(&commands);
            hub.handle().submit(Submission::new(records, answer)).unwrap();
            receive.recv().unwrap().unwrap();
        }
        hub.stop();
    }
    let fs: Arc<dyn holdfast_log::FileSystem> = Arc::new(RealFs);
    let oldest = std::fs::read_dir(data.join("store/checkpoints")).unwrap();
    let oldest = oldest.map(|entry| entry.unwrap().file_name().into_string().unwrap()).min().unwrap();
    let offset: u64 = oldest.trim_end_matches(".ckp").parse().unwrap();
    let (log, _) = SegmentLog::open(fs, &log_folder(data), small(), LogId([0; 16])).unwrap();
    assert!(log.retention().remove_before(offset).unwrap() > 0, "segments were removed");
}

#[test]
fn an_archived_transfer_says_so_everywhere() {
    let folder = folder();
    archived(folder.path());
    let (data, id) = (path(folder.path()), TransferId(7).to_string());
    let server = Server::start(folder.path(), any_port());
    let seven = shown(&server, 7);
    assert_eq!((&seven["state"], &seven["archived"]), (&json!("COMMITTED"), &json!(true)));
    let text = done(&run(&["transfers", "show", &id, "--url", &server.url()]));
    assert_says(&text, &["archived: retention has removed its records from the log"]);
    runtime().block_on(async {
        let client = client(&server).await;
        // A repeat of the fulfil is answered as before; another prepare under that id is told apart.
        assert_eq!(
            client.fulfil(payment(7).fulfil()).await.unwrap().state,
            Some(holdfast_domain::transfers::TransferState::Committed)
        );
        assert_eq!(client.prepare(payment(7).prepare()).await.unwrap().code, 3106);
        pay(&client, 5_001).await;
    });
    let fresh = shown(&server, 5_001);
    assert!(fresh["state"] == "COMMITTED" && fresh.get("archived").is_none(), "{fresh}");
    server.stop();
    refused(&run(&["transfers", "why", &id, "--data", data]), 1, &["were removed by retention"]);
    let read = run(&["log", "read", "transfers", "--from", "3", "--data", data]);
    refused(&read, 1, &["were removed by retention"]);
    let report = verify(folder.path());
    assert!(
        report["logStart"].as_u64() > Some(0)
            && report["replayedFrom"].as_u64() >= report["logStart"].as_u64()
    );
}

#[test]
fn damage_is_named_with_its_file_and_what_to_do() {
    let (folder, server) = fresh_hub();
    pay_on(&server, 1..200);
    server.stop();
    let ids = std::fs::read_dir(folder.path().join("store/ids")).unwrap();
    let run_file = ids.map(|entry| entry.unwrap().path()).next().expect("a run");
    damage(&run_file, 4_100);
    let output = run(&["verify", "--output", "json", "--data", path(folder.path())]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["good"], &answer["details"][0]["file"]), (&json!(false), &json!(run_file)));
    assert!(answer["details"][0]["whatToDo"].as_str().unwrap().contains("derived again from the log"));
    let text = run(&["verify", "--data", path(folder.path())]).stdout;
    assert_says(&String::from_utf8(text).unwrap(), &["WRONG", path(&run_file)]);
    // It is so: without the store the log leads back to it.
    std::fs::rename(folder.path().join("store"), folder.path().join("renamed")).unwrap();
    let server = Server::start(folder.path(), any_port());
    assert_eq!(shown(&server, 7)["state"], "COMMITTED");
    server.stop_and_verify(folder.path());
}
