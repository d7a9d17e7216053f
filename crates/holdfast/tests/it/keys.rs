//! API keys through the binary: making them, and what each of them opens.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use holdfast_domain::command::{Admin, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::records::{self, PREPARE_HASH, batch};
use serde_json::json;

use crate::support::command::{assert_says, done, json_of, refused};
use crate::support::http::{Answer, exchange};
use crate::support::keys::{self as story, Keys, create_key};
use crate::support::server::{Server, any_port, folder, path, run};
use crate::support::wait::await_that;
use crate::support::world::{now, on_runtime, usd};

/// Makes a key in a data directory.
fn create(data: &Path, holder: &[&str]) -> String {
    let key = create_key(["--data", path(data)], holder);
    assert!(key.starts_with("hf_") && key.len() == 3 + 8 + 1 + 64, "only the key: {key}");
    key
}

fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}

fn get(server: &Server, path: &str, headers: &str) -> Answer {
    exchange(server, "GET", path, headers, b"")
}

fn send(server: &Server, key: &str, commands: &[Command]) -> Answer {
    let mut body = batch::request_header(u32::try_from(commands.len()).unwrap()).to_vec();
    for command in commands {
        let at = body.len();
        records::write(command, &mut body);
        if matches!(command, Command::Prepare(_)) {
            body[at..][PREPARE_HASH].fill(0);
        }
    }
    // Replies are binary; what matters here is the status.
    let headers = format!("Content-Type: {}\r\n{}", batch::MEDIA_TYPE, bearer(key));
    exchange(server, "POST", "/hub/batch", &headers, &body)
}

fn prepare(id: u128, source: u32, payer: u32, payee: u32) -> Command {
    let prepare = Prepare {
        source: ParticipantId(source),
        id: TransferId(id),
        payer: ParticipantId(payer),
        payee: ParticipantId(payee),
        amount: Amount(10_000),
        expiration: now() + 60_000,
        currency: usd(),
        condition: [7; 32],
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    Command::Prepare(prepare.hashed())
}

/// A backup of a stopped hub's data, and where it may be restored to.
fn backed_up(data: &Path, other: &Path) -> (PathBuf, PathBuf) {
    let backup = other.join("backup");
    done(&run(&["backup", path(&backup), "--data", path(data)]));
    (backup, other.join("restored"))
}

fn participant(name: &str) -> Command {
    Command::Admin(Admin::CreateParticipant { name: Name::new(name).unwrap(), currency: usd() })
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let folder = folder();
    let data = folder.path().join("data");
    let operator = create(&data, &["--operator"]);
    let fsp = create(&data, &["--participant", "fsp1"]);
    let file = data.join("keys.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&operator[12..]) && !text.contains(&fsp[12..]), "hashes only");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let place = file.to_str().unwrap();
    let list = || json_of(&run(&["keys", "list", "--keys", place, "--output", "json"]));
    let keys = list();
    let find =
        |id: &str| keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == id).unwrap().clone();
    assert_eq!(find(&operator[3..11])["role"], "operator");
    assert_eq!(find(&fsp[3..11])["participant"], "fsp1");
    done(&run(&["keys", "revoke", &fsp[3..11], "--keys", place]));
    assert_eq!(list()["keys"].as_array().unwrap().len(), 1);
    // It is gone already.
    refused(&run(&["keys", "revoke", &fsp[3..11], "--keys", place]), 1, &[]);
    for wrong in [
        &["keys", "revoke", "xyz", "--keys", place][..],
        &["keys", "create", "--keys", place],
        &["keys", "create", "--operator", "--participant", "fsp1", "--keys", place],
        &["keys", "create", "--participant", "a name", "--keys", place],
    ] {
        refused(&run(wrong), 2, &[]);
    }
}

#[test]
fn an_address_that_others_reach_needs_keys() {
    let folder = folder();
    let data = folder.path();
    let serve = |listen: &str, more: &[&str]| {
        run(&[&["serve", "--listen", listen, "--data", path(data)], more].concat())
    };
    refused(&serve("0.0.0.0:0", &[]), 1, &["not a loopback address", "holdfast keys create"]);
    refused(&serve("127.0.0.1:0", &["--keys", "no.toml"]), 1, &["there is no keys file no.toml"]);

    let operator = create(data, &["--operator"]);
    let server = Server::launch(&mut Server::command(data, SocketAddr::from(([0, 0, 0, 0], 0))));
    get(&server, "/hub/stats", "").is_refused(401, "3000");
    assert_eq!(get(&server, "/hub/stats", &bearer(&operator)).status, 200);
    server.stop();
    run(&["keys", "revoke", &operator[3..11], "--data", path(data)]);
    refused(&serve("127.0.0.1:0", &[]), 1, &["nobody could call this hub"]);
}

#[test]
fn each_key_opens_what_it_is_for() {
    let folder = folder();
    let operator = create(folder.path(), &["--operator"]);
    let fsp1 = create(folder.path(), &["--participant", "fsp1"]);
    let server = Server::start(folder.path(), any_port());
    let source = |name: &str| format!("{}FSPIOP-Source: {name}\r\n", bearer(&fsp1));
    let id = "b51ec534-ee48-4575-b6a9-ead2955b8069";
    let transfer = format!("/transfers/{id}");
    let wrong = format!("{}0", &operator[..operator.len() - 1]);
    let wrong = if wrong == operator { format!("{}1", &operator[..operator.len() - 1]) } else { wrong };
    let cases: [(&str, &str, String, u16); 22] = [
        ("GET", "/health", String::new(), 200),
        ("GET", "/docs", String::new(), 200),
        ("GET", "/openapi.json", String::new(), 200),
        ("GET", "/health", bearer(&wrong), 401),
        ("GET", "/metrics", String::new(), 401),
        ("GET", "/metrics", bearer(&fsp1), 403),
        ("GET", "/metrics", bearer(&operator), 200),
        ("GET", "/hub/stats", String::new(), 401),
        ("HEAD", "/hub/stats", String::new(), 401),
        ("GET", "/hub/stats", bearer(&wrong), 401),
        ("GET", "/hub/stats", "Authorization: Basic aGY6aGY=\r\n".to_owned(), 401),
        ("GET", "/hub/stats", bearer(&fsp1), 403),
        ("GET", "/hub/stats", bearer(&operator), 200),
        ("GET", "/hub/stats", format!("X-API-Key: {operator}\r\n"), 200),
        ("POST", "/hub/clock/confirm", bearer(&fsp1), 403),
        ("POST", "/hub/clock/confirm", bearer(&operator), 202),
        ("GET", "/participants", bearer(&fsp1), 403),
        ("GET", "/participants", bearer(&operator), 200),
        ("GET", &transfer, String::new(), 401),
        ("GET", &transfer, source("fsp2"), 403),
        // Past the gate: the handler misses the headers of the standard.
        ("GET", &transfer, source("FSP1"), 400),
        ("GET", "/nowhere", String::new(), 404),
    ];
    for (verb, path, headers, status) in cases {
        let answer = exchange(&server, verb, path, &headers, b"");
        let beginning = &headers[..headers.len().min(30)];
        assert_eq!(answer.status, status, "{verb} {path} {beginning}: {}", answer.body);
        assert_eq!(answer.head_has("www-authenticate: bearer"), status == 401, "{path}");
    }
    let refused = get(&server, &transfer, &source("fsp2"));
    refused.is_refused(403, "3000");
    assert!(refused.description().contains("this key is for fsp1"), "{}", refused.body);
    server.stop();
}

#[test]
fn a_participant_sends_its_own_records_only() {
    let folder = folder();
    let operator = create(folder.path(), &["--operator"]);
    let fsp1 = create(folder.path(), &["--participant", "FSP1"]);
    let server = Server::start(folder.path(), any_port());
    let early = send(&server, &fsp1, &[prepare(1, 1, 1, 2)]);
    assert_eq!(early.refusal(), (403, "3000".to_owned()), "it does not exist yet: {}", early.body);
    assert_eq!(send(&server, &operator, &[participant("fsp1"), participant("fsp2")]).status, 200);
    let records =
        |server: &Server| get(server, "/hub/stats", &bearer(&operator)).json()["log"]["records"].clone();
    assert_eq!(records(&server), json!(2));

    let others_fulfil =
        Command::Fulfil(Fulfil::new(ParticipantId(2), TransferId(1), FulfilAction::Commit, [7; 32]));
    for (what, bad) in [
        ("another's prepare", prepare(2, 2, 2, 1)),
        ("another's fulfil", others_fulfil),
        ("the operator's record", participant("fsp3")),
    ] {
        let refused = send(&server, &fsp1, &[prepare(3, 1, 1, 2), bad]);
        assert_eq!(refused.refusal(), (403, "3000".to_owned()), "{what}");
        assert!(refused.description().contains("record 1"), "{what}: {}", refused.body);
    }
    assert_eq!(records(&server), json!(2), "nothing was stored");
    assert_eq!(send(&server, &fsp1, &[prepare(3, 1, 1, 2)]).status, 200);
    assert_eq!(records(&server), json!(3));
    server.stop();
}

#[test]
fn a_participant_sees_its_own_transfers_and_balance() {
    let folder = folder();
    let keys = Keys::create(&folder.path().join("keys.toml"));
    let server = Server::start(folder.path(), any_port());
    story::each_sees_its_own(&server, &keys);
    server.stop();
}

#[test]
fn the_rust_client_sends_its_key() {
    use holdfast_client::{Client, ClientError, ClientOptions};
    let folder = folder();
    let operator = create(folder.path(), &["--operator"]);
    let server = Server::start(folder.path(), any_port());
    let connect = |api_key| ClientOptions { api_key, ..ClientOptions::to(server.address.to_string()) };
    let make = Admin::CreateParticipant { name: Name::new("fsp1").unwrap(), currency: usd() };
    on_runtime(async {
        let stranger = Client::connect(connect(None)).await.unwrap();
        assert!(matches!(stranger.admin(make).await, Err(ClientError::Refused { status: 401, .. })));
        let known = Client::connect(connect(Some(operator.clone()))).await.unwrap();
        assert_eq!(known.admin(make).await.unwrap().code, 0);
        assert!(known.get("/hub/stats").await.unwrap().contains("participants"));
    });
    assert!(!format!("{:?}", connect(Some(operator.clone()))).contains(&operator), "a key is not printed");
    server.stop();
}

#[test]
fn a_running_hub_takes_over_new_and_revoked_keys() {
    let folder = folder();
    let data = folder.path();
    let first = create(data, &["--operator"]);
    let server = Server::start(data, any_port());
    let becomes = |key: &str, status: u16| {
        let told = || get(&server, "/hub/stats", &bearer(key)).status;
        await_that("the key is taken over", told, |told| *told == status);
    };
    let second = create(data, &["--operator"]);
    becomes(&second, 200);
    done(&run(&["keys", "revoke", &first[3..11], "--data", path(data)]));
    becomes(&first, 401);
    // Without its file a hub with keys lets nobody in rather than everybody.
    std::fs::remove_file(data.join("keys.toml")).unwrap();
    becomes(&second, 401);
    server.stop();
}

#[test]
fn a_running_hub_asks_for_keys_from_the_first_one_on() {
    let folder = folder();
    let traces = folder.path().join("traces");
    let mut command = Server::command(folder.path(), any_port());
    let server = Server::launch(command.stderr(std::fs::File::create(&traces).unwrap()));
    let keys = folder.path().join("keys.toml");
    story::asks_for_keys_from_the_first_one_on(&server, &keys);
    server.stop();
    let text = std::fs::read_to_string(&traces).unwrap();
    assert!(text.contains("the first keys are here"), "{text}");
}

#[test]
fn what_needed_keys_needs_them_after_a_restore() {
    let (folder, other) = (folder(), folder());
    let data = folder.path();
    let made = create(data, &["--operator"]);
    Server::start(data, any_port()).stop();
    let (backup, restored) = backed_up(data, other.path());
    let said = done(&run(&["restore", path(&backup), path(&restored)]));
    assert_says(&said, &["callers of this hub need keys"]);
    let keys = restored.join("keys.toml");
    story::refused_without_keys(&mut Server::command(&restored, any_port()));
    story::refused_without_keys(&mut Server::command(&backup, any_port()));

    std::fs::copy(data.join("keys.toml"), &keys).unwrap();
    let waived = |data| {
        let mut command = Server::command(data, any_port());
        command.arg("--without-keys");
        command
    };
    assert!(story::refused(&mut waived(&restored)).contains("take --without-keys out"));
    let server = Server::start(&restored, any_port());
    assert_eq!(get(&server, "/hub/stats", "").status, 401);
    assert_eq!(get(&server, "/hub/stats", &bearer(&made)).status, 200);
    server.stop();

    // The way out is said aloud, and it is for good.
    std::fs::remove_file(&keys).unwrap();
    let traces = other.path().join("traces");
    let server = Server::launch(waived(&restored).stderr(std::fs::File::create(&traces).unwrap()));
    assert_eq!(get(&server, "/hub/stats", "").status, 200);
    server.stop();
    let told = std::fs::read_to_string(&traces).unwrap();
    assert!(told.contains("callers need no keys from now on"), "{told}");
    Server::start(&restored, any_port()).stop();

    // A key that came while the hub ran counts as well.
    let server = Server::start(&restored, any_port());
    story::asks_for_keys_from_the_first_one_on(&server, &keys);
    server.stop();
    story::refused_without_keys(&mut Server::command(&restored, any_port()));
}

/// No hub was started with the keys yet, so nothing but their file says that they are needed.
#[test]
fn a_backup_knows_of_keys_that_no_hub_was_started_with() {
    let (folder, other) = (folder(), folder());
    let data = folder.path();
    Server::start(data, any_port()).stop();
    create(data, &["--operator"]);
    let (backup, restored) = backed_up(data, other.path());
    let said = json_of(&run(&["restore", path(&backup), path(&restored), "--output", "json"]));
    assert_eq!(said["keysRequired"], json!(true), "{said}");
    story::refused_without_keys(&mut Server::command(&restored, any_port()));
}

#[test]
fn what_is_left_of_a_restore_that_broke_off_needs_keys() {
    let (folder, other) = (folder(), folder());
    let data = folder.path();
    create(data, &["--operator"]);
    Server::start(data, any_port()).stop();
    let (backup, restored) = backed_up(data, other.path());
    std::fs::write(backup.join("log/end.mark"), b"rotten").unwrap();
    refused(&run(&["restore", path(&backup), path(&restored)]), 1, &[]);
    assert!(restored.join("keys.required").exists());
}

#[test]
fn traces_have_the_request_and_not_the_key() {
    let folder = folder();
    let operator = create(folder.path(), &["--operator"]);
    let fsp1 = create(folder.path(), &["--participant", "fsp1"]);
    let traces = folder.path().join("traces");
    let mut command = Server::command(folder.path(), any_port());
    command.env("HOLDFAST_TRACE", "trace").stderr(std::fs::File::create(&traces).unwrap());
    let server = Server::launch(&mut command);
    let headers = format!(
        "{}x-request-id: order-17\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
        bearer(&operator)
    );
    let answer =
        get(&server, "/hub/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069?x=secret-in-query", &headers);
    assert!(answer.head_has("x-request-id: order-17"), "{}", answer.head);
    assert_eq!(get(&server, "/hub/stats", &format!("X-API-Key: {fsp1}\r\n")).status, 403);
    let made = get(&server, "/health", "x-request-id: not sane\r\n").head.to_lowercase();
    let id = made.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    server.stop();
    let text = std::fs::read_to_string(&traces).unwrap();
    let line =
        text.lines().find(|line| line.contains("answered") && line.contains("order-17")).unwrap_or_default();
    for part in ["GET", "/hub/transfers/{id}", "status=404", "operator", "0af7651916cd43dd8448eb211c80319c"] {
        assert!(line.contains(part), "{part} is missing in: {line}");
    }
    assert!(!text.contains(&operator[12..]) && !text.contains(&fsp1[12..]), "a key was traced");
    assert!(!text.lines().any(|line| line.contains("answered") && line.contains("secret-in-query")));
}
