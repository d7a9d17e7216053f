//! Topics and a database for one test, and nodes on them.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use holdfast_database::{Node, NodeHandle, NodeSettings, TopicSettings};
use holdfast_domain::command::{Admin, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::effects::{Outcome, Subject};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::TransferState;
use holdfast_engine::Refusal;
use holdfast_postgres::{Settings, Store};
use holdfast_services::{Database, PATIENCE};
use sha2::{Digest, Sha256};

pub struct World {
    pub database: Database,
    brokers: String,
    partitions: u32,
}

impl World {
    /// `None` if this run has no servers.
    pub fn new() -> Option<World> {
        World::with_partitions(4)
    }

    /// With topics of so many partitions each.
    pub fn with_partitions(partitions: u32) -> Option<World> {
        let brokers = holdfast_services::kafka()?.url().to_owned();
        Some(World { database: Database::new("node")?, brokers, partitions })
    }

    pub fn settings(&self, node_id: u64) -> NodeSettings {
        let settings = NodeSettings::new(self.brokers.parse().unwrap(), self.database.url(), node_id);
        let topics = TopicSettings::of(self.database.topic_prefix(), self.partitions);
        NodeSettings { topics, ..settings }
    }

    pub fn node(&self, node_id: u64) -> Node {
        Node::start(self.settings(node_id)).unwrap()
    }

    /// A node that does these parts of the work.
    pub fn node_with(&self, node_id: u64, roles: &str) -> Node {
        let roles = roles.parse().unwrap();
        Node::start(NodeSettings { roles, ..self.settings(node_id) }).unwrap()
    }

    /// Where a position account stands.
    pub fn position(&self, account: AccountId) -> i64 {
        let of = account.0;
        self.count(&format!(
            "SELECT (value * 10000)::bigint FROM participant_position WHERE participant_currency_id = {of}"
        ))
    }

    /// The database's time, and so much more.
    pub fn in_ms(&self, more: i64) -> Millis {
        self.count("SELECT (extract(epoch FROM hub_clock()) * 1000)::bigint") + more
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.database.count(sql)
    }

    /// Waits until a query gives that number.
    pub fn await_count(&self, sql: &str, wanted: i64) {
        self.database.await_count(sql, |found| found == wanted);
    }

    /// Fails unless everything adds up and nothing waits to be sent.
    pub fn check(&self) {
        self.await_count("SELECT count(*) FROM outbox", 0);
        let mut store = Store::open(self.database.url(), Settings::default()).unwrap();
        let verified = store.verify().unwrap();
        assert_eq!(verified.findings, vec![], "{verified:?}");
    }
}

/// Waits until a part has such trouble, or none.
pub fn await_part(node: &NodeHandle, name: &str, like: impl Fn(Option<&str>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let part =
            node.health().parts().iter().find(|part| part.name() == name).expect("there is such a part");
        let trouble = part.trouble();
        if like(trouble.as_deref()) {
            return;
        }
        assert!(Instant::now() < deadline, "{name}: {trouble:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Has commands decided by a node.
pub fn decide(node: &NodeHandle, commands: Vec<Command>) -> Result<Vec<Outcome>, Refusal> {
    let (send, told) = mpsc::channel();
    node.decide(commands, None, Box::new(move |outcomes| send.send(outcomes).unwrap()))?;
    told.recv_timeout(PATIENCE).expect("every caller is told")
}

/// Has commands decided by a node, all to that state.
#[track_caller]
pub fn all_to(node: &NodeHandle, state: TransferState, commands: Vec<Command>) {
    let count = commands.len();
    let outcomes = decide(node, commands).unwrap();
    assert_eq!(outcomes.len(), count);
    assert!(outcomes.iter().all(|outcome| outcome.state == Some(state)), "{outcomes:?}");
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
        let Subject::Member(participant, _) = made[0].subject else { panic!("{made:?}") };
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
