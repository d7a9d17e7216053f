//! Topics and a database for one test, and nodes on them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use holdfast_cluster::{Node, NodeHandle, NodeSettings, Refusal, TopicSettings};
use holdfast_domain::command::{Admin, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_postgres::{Settings, Store};
use postgres::{Client, NoTls};
use sha2::{Digest, Sha256};

/// Longer than anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    server: String,
    name: String,
    pub url: String,
    brokers: String,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl World {
    /// `None` if this run has no servers.
    pub fn new() -> Option<World> {
        let (server, kafka) = (holdfast_services::postgres()?, holdfast_services::kafka()?);
        let server = server.url().to_owned();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("holdfast_cluster_{}_{number}", std::process::id());
        let mut client = Client::connect(&server, NoTls).unwrap();
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).unwrap();
        client.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        let url = format!("{base}/{name}");
        Some(World { server, name, url, brokers: kafka.url().to_owned() })
    }

    pub fn settings(&self, node_id: u64) -> NodeSettings {
        let settings = NodeSettings::new(self.brokers.parse().unwrap(), &self.url, node_id);
        let topics = TopicSettings {
            prefix: format!("{}-", self.name.replace('_', "-")),
            transfers: 4,
            position: 4,
            notifications: 4,
            ..TopicSettings::default()
        };
        NodeSettings { topics, ..settings }
    }

    pub fn node(&self, node_id: u64) -> Node {
        Node::start(self.settings(node_id)).unwrap()
    }

    /// The cluster's time, and so much more.
    pub fn in_ms(&self, more: i64) -> Millis {
        self.count("SELECT (extract(epoch FROM hub_clock()) * 1000)::bigint") + more
    }

    pub fn sql(&self) -> Client {
        Client::connect(&self.url, NoTls).unwrap()
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.sql().query_one(sql, &[]).unwrap().get(0)
    }

    /// Waits until a query gives that number.
    pub fn await_count(&self, sql: &str, wanted: i64) {
        let mut client = self.sql();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found: i64 = client.query_one(sql, &[]).unwrap().get(0);
            if found == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{sql}: {found}, not {wanted}");
            std::thread::yield_now();
        }
    }

    /// Fails unless everything adds up and nothing waits to be sent.
    pub fn check(&self) {
        self.await_count("SELECT count(*) FROM outbox", 0);
        let mut store = Store::open(&self.url, Settings::default()).unwrap();
        let verified = store.verify().unwrap();
        assert_eq!(verified.findings, vec![], "{verified:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Ok(mut client) = Client::connect(&self.server, NoTls) {
            let _ = client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}

/// Has commands decided by a node.
pub fn decide(node: &NodeHandle, commands: Vec<Command>) -> Result<Vec<Outcome>, Refusal> {
    let (send, told) = mpsc::channel();
    node.decide(commands, Box::new(move |outcomes| send.send(outcomes).unwrap()))?;
    told.recv_timeout(PATIENCE).expect("every caller is told")
}

pub fn usd() -> Currency {
    "USD".parse().unwrap()
}

/// Two participants with money; their position accounts.
pub fn participants(node: &NodeHandle, funds: i64) -> [(ParticipantId, AccountId); 2] {
    ["payer", "payee"].map(|name| {
        let name = Name::new(name).unwrap();
        let made = decide(node, vec![Command::Admin(Admin::CreateParticipant { name, currency: usd() })]);
        let made = made.unwrap();
        assert_eq!(made[0].code, None);
        let participant = ParticipantId(u32::try_from(made[0].subject & 0xffff_ffff).unwrap());
        let account = node.ask(|store| store.position_account(participant, usd())).unwrap().unwrap();
        let admin = vec![
            Command::Admin(Admin::InitialPositionAndLimits {
                participant,
                currency: usd(),
                net_debit_cap: Amount(funds),
                initial_position: Amount::ZERO,
            }),
            Command::Admin(Admin::FundsIn {
                id: TransferId(u128::from(account.0) << 100 | 1),
                account: AccountId(account.0 + 1),
                currency: usd(),
                amount: Amount(funds),
            }),
        ];
        let outcomes = decide(node, admin).unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.code.is_none()), "{outcomes:?}");
        (participant, account)
    })
}

/// The proof of a transfer.
pub fn preimage(id: u128) -> [u8; 32] {
    Sha256::digest(id.to_be_bytes()).into()
}

pub fn prepare(
    id: u128,
    payer: ParticipantId,
    payee: ParticipantId,
    amount: i64,
    expiration: Millis,
) -> Command {
    let prepare = Prepare {
        source: payer,
        id: TransferId(id),
        payer,
        payee,
        amount: Amount(amount),
        expiration,
        currency: usd(),
        condition: Sha256::digest(preimage(id)).into(),
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    Command::Prepare(prepare.hashed_with(&[0; 32], &[0; 32]))
}

pub fn fulfil(id: u128, payee: ParticipantId) -> Command {
    Command::Fulfil(Fulfil::new(payee, TransferId(id), FulfilAction::Commit, preimage(id)))
}
