//! Payments to all nodes, some aborted and some left to expire; whoever hears nothing repeats with the same ids.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::records::{Sealed, batch};
use holdfast_domain::transfers::TransferState;
use holdfast_services::PATIENCE;
use sha2::{Digest, Sha256};

use crate::inbox::LISTENERS;
use crate::support::http::{Asked, send};
use crate::support::world::{participants, usd};
use crate::workers::Workers;
use crate::world::World;

const WORKERS: u64 = 4;
const BATCH: u64 = 20;
const PARTIES: u32 = 6;
/// What each participant may owe, in whole units: some prepares are refused for it.
const CAP: i64 = 20;
const AMOUNT: i64 = 10_000;
/// How long an answer may take before the caller tries elsewhere.
const ANSWER_WAIT: Duration = Duration::from_secs(15);
/// What is left to expire does so after this many milliseconds.
const SHORT_LIFE: Millis = 4_000;
const LONG_LIFE: Millis = 3_600_000;

/// The last answer to each transfer, and who pays whom.
#[derive(Default, Clone)]
pub struct Ledger {
    pub answers: BTreeMap<u128, (Option<TransferState>, u16)>,
    pub parties: BTreeMap<u128, (ParticipantId, ParticipantId)>,
    /// Who has endpoints.
    pub listeners: Vec<ParticipantId>,
}

pub struct Load {
    listeners: Vec<ParticipantId>,
    pub workers: Workers<Worker>,
}

impl Load {
    pub fn start(world: &World) -> Load {
        let addresses = Arc::clone(&world.addresses);
        let cap = Amount::whole(CAP).expect("within bounds");
        participants(world.node(0), PARTIES, cap, cap);
        let parties: Arc<Vec<_>> = Arc::new((1..=PARTIES).map(ParticipantId).collect());
        let listeners = parties[..LISTENERS].to_vec();
        for listener in &listeners {
            let path = format!("/participants/fsp{}/endpoints", listener.0);
            for endpoint in world.inbox.endpoints(*listener) {
                let answer = send(world.node(0), "POST", &path, &endpoint);
                assert_eq!(answer.status, 201, "{answer:?}");
            }
        }
        let now = world.count("SELECT (extract(epoch FROM hub_clock()) * 1000)::bigint");
        let began = Instant::now();
        let workers = (0..WORKERS).map(|number| Worker {
            number,
            rounds: 0,
            addresses: Arc::clone(&addresses),
            parties: Arc::clone(&parties),
            clock: (now, began),
            ledger: Ledger::default(),
        });
        Load { listeners, workers: Workers::start(workers, Worker::round) }
    }

    pub fn end(self) -> Ledger {
        let mut all = Ledger { listeners: self.listeners, ..Ledger::default() };
        for Worker { ledger, .. } in self.workers.end() {
            all.answers.extend(ledger.answers);
            all.parties.extend(ledger.parties);
        }
        all
    }
}

pub struct Worker {
    number: u64,
    rounds: u64,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    parties: Arc<Vec<ParticipantId>>,
    clock: (Millis, Instant),
    ledger: Ledger,
}

impl Worker {
    /// Prepares a batch and completes it: of ten, one is aborted and one left alone.
    fn round(&mut self) -> u64 {
        let round = self.rounds;
        self.rounds += 1;
        let ids: Vec<u128> =
            (0..BATCH).map(|at| u128::from(self.number + 1) << 64 | u128::from(round * BATCH + at)).collect();
        let now = self.clock.0 + i64::try_from(self.clock.1.elapsed().as_millis()).expect("a short test");
        let prepares: Vec<Command> = ids.iter().map(|id| self.prepare(*id, now)).collect();
        let mut answers = self.ask(&prepares);
        // A repeat may be answered while the first is still between two hops.
        let between = |answers: &[batch::Reply]| {
            answers.iter().any(|answer| answer.state == Some(TransferState::ReceivedPrepare))
        };
        while between(&answers) {
            answers = self.ask(&prepares);
        }
        let completions: Vec<Command> = ids
            .iter()
            .zip(&answers)
            .filter(|(id, answer)| answer.state == Some(TransferState::Reserved) && **id % 10 != 9)
            .map(|(id, _)| self.complete(*id))
            .collect();
        if !completions.is_empty() {
            self.ask(&completions);
        }
        BATCH
    }

    fn prepare(&mut self, id: u128, now: Millis) -> Command {
        let count = self.parties.len();
        let at = usize::try_from(id % 1_000_003).expect("small");
        let (payer, payee) =
            (self.parties[at % count], self.parties[(at + 1 + at / count % (count - 1)) % count]);
        self.ledger.parties.insert(id, (payer, payee));
        let prepare = Prepare {
            source: payer,
            id: TransferId(id),
            payer,
            payee,
            amount: Amount(AMOUNT),
            expiration: now + if id % 10 == 9 { SHORT_LIFE } else { LONG_LIFE },
            currency: usd(),
            condition: Sha256::digest(preimage(id)).into(),
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        };
        Command::Prepare(prepare)
    }

    fn complete(&self, id: u128) -> Command {
        let (_, payee) = self.ledger.parties[&id];
        match id % 10 {
            8 => Command::Abort(Abort::new(payee, TransferId(id), 5_104, Vec::new())),
            _ => Command::Fulfil(Fulfil::new(payee, TransferId(id), FulfilAction::Commit, preimage(id))),
        }
    }

    fn ask(&mut self, commands: &[Command]) -> Vec<batch::Reply> {
        let replies = ask(&self.addresses, self.number, commands);
        for (command, reply) in commands.iter().zip(&replies) {
            let id = command.transfer().expect("all are about transfers").0;
            self.ledger.answers.insert(id, (reply.state, reply.code));
        }
        replies
    }
}

fn preimage(id: u128) -> [u8; 32] {
    Sha256::digest(id.to_be_bytes()).into()
}

/// Asks one node after the other until one answers.
fn ask(addresses: &Mutex<Vec<SocketAddr>>, first: u64, commands: &[Command]) -> Vec<batch::Reply> {
    let deadline = Instant::now() + PATIENCE;
    for turn in first.. {
        let address = {
            let all = addresses.lock().expect("whole");
            all.get(usize::try_from(turn).expect("small") % all.len().max(1)).copied()
        };
        let failure = match address.map(|address| post(address, commands)) {
            Some(Ok(replies)) => return replies,
            Some(Err(failure)) => failure,
            None => "there is no node".to_owned(),
        };
        assert!(Instant::now() < deadline, "nobody answers; the last failure was: {failure}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    unreachable!("it is asked without end")
}

/// A batch over a connection of its own; a failure leaves the outcome unknown.
fn post(address: SocketAddr, commands: &[Command]) -> Result<Vec<batch::Reply>, String> {
    let records = Sealed::of(commands);
    let header = batch::request_header(u32::try_from(commands.len()).expect("a small batch"));
    let headers = format!("Content-Type: {}\r\n", batch::MEDIA_TYPE);
    let body = [&header, records.bytes()].concat();
    let answer = Asked::send(address, ("POST", "/hub/batch", &headers), &body, ANSWER_WAIT)?.bytes()?;
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("it broke off")? + 4;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&answer).into_owned());
    }
    batch::read_replies(&answer[body..]).map_err(|error| error.to_string())
}
