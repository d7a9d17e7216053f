//! A node of the database profile inside this process: the store's own handlers, with what they send handed on in memory in place of
//! Kafka. Only what an expiry needs: payments from prepare to fulfil, and the position step.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use holdfast_domain::command::{Admin, Fulfil, FulfilAction, Prepare};
use holdfast_domain::effects::Subject;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_load::payments::{currency, mix, now_millis};
use holdfast_messages::{Message, PositionMessage, Topic, TraceId, TransferCommand, TransferMessage};
use holdfast_postgres::{Batch, Claim, Done, Incoming, Settings, Source, Step, Store};

/// Messages of one batch.
pub(crate) const BATCH: usize = 1_000;
/// Participants that pay each other.
const PARTIES: u32 = 16;
/// What each of them has: more than any run moves.
const FUNDS: i64 = 1_000_000_000;
const PREIMAGE: [u8; 32] = [7; 32];
/// Rows that are taken from an outbox at once.
const OUTBOX_MAX: usize = 10_000;
/// A position worker that hears nothing for so long looks whether all is done.
const QUIET: Duration = Duration::from_millis(20);

/// A source with the place in it that comes next.
struct Reader {
    claim: Claim,
    at: u64,
}

/// Payments through both handlers, one batch after the other.
pub(crate) struct Handlers {
    store: Store,
    transfers: Reader,
    position: Reader,
    parties: Vec<ParticipantId>,
    made: u64,
    /// Messages of transfers that the position step took, and the time that it took them.
    pub(crate) positions: (u64, Duration),
}

impl Handlers {
    pub(crate) fn open(url: &str) -> anyhow::Result<Handlers> {
        let mut store = Store::open(url, Settings::default())?;
        let transfers = reader(&mut store, Topic::Transfers, 0)?;
        let position = reader(&mut store, Topic::Position, 0)?;
        let mut node = Handlers {
            store,
            transfers,
            position,
            parties: Vec::new(),
            made: 0,
            positions: (0, Duration::ZERO),
        };
        for at in 0..PARTIES {
            node.join(at)?;
        }
        Ok(node)
    }

    /// A participant with funds and a cap.
    fn join(&mut self, at: u32) -> anyhow::Result<()> {
        let name = Name::new(&format!("benchparty{at}")).expect("a short name");
        let outcome = self.store.participant(&Admin::CreateParticipant { name, currency: currency() })?;
        let (None, Subject::Member(participant, account)) = (outcome.code, outcome.subject) else {
            bail!("participant benchparty{at} could not be made");
        };
        let amount = Amount::whole(FUNDS).expect("within bounds");
        let limits = Admin::InitialPositionAndLimits {
            participant,
            currency: currency(),
            net_debit_cap: amount,
            initial_position: Amount::ZERO,
        };
        let funds = Admin::FundsIn {
            id: TransferId(u128::from(mix(u64::MAX, at.into()))),
            account: AccountId(account.0 + 1),
            currency: currency(),
            amount,
        };
        let message = |admin| {
            PositionMessage::admin(TraceId::NOBODY, account, admin).expect("it is about that account")
        };
        self.positions(vec![message(limits), message(funds)])?;
        self.parties.push(participant);
        Ok(())
    }

    /// Makes `count` payments, a batch of prepares and a batch of their fulfils in turn; each could run out after `life`.
    /// `before` is told the number of each batch before it begins.
    pub(crate) fn pay(
        &mut self,
        count: u64,
        life: Millis,
        mut before: impl FnMut(u64),
    ) -> anyhow::Result<()> {
        let mut left = count;
        while left > 0 {
            before(count - left);
            let now = now_millis();
            let batch = left.min(BATCH as u64);
            let ids: Vec<u64> = (self.made..self.made + batch).collect();
            let prepares = ids.iter().map(|number| self.prepare(*number, now + life)).collect();
            self.commands(prepares)?;
            let fulfils = ids.iter().map(|number| self.fulfil(*number)).collect();
            self.commands(fulfils)?;
            self.made += batch;
            left -= batch;
        }
        Ok(())
    }

    fn payee(&self, number: u64) -> ParticipantId {
        self.parties[usize::try_from((number + 1) % self.parties.len() as u64).expect("an index")]
    }

    fn prepare(&self, number: u64, expiration: Millis) -> TransferCommand {
        let payer = self.parties[usize::try_from(number % self.parties.len() as u64).expect("an index")];
        let (id, payee) = (id_of(number), self.payee(number));
        let prepare = Prepare {
            source: payer,
            id,
            payer,
            payee,
            amount: Amount(10_000),
            expiration,
            currency: currency(),
            condition: Fulfil::new(payee, id, FulfilAction::Commit, PREIMAGE).digest,
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        };
        TransferCommand::Prepare(prepare.hashed())
    }

    fn fulfil(&self, number: u64) -> TransferCommand {
        TransferCommand::Fulfil(Fulfil::new(
            self.payee(number),
            id_of(number),
            FulfilAction::Commit,
            PREIMAGE,
        ))
    }

    fn commands(&mut self, commands: Vec<TransferCommand>) -> anyhow::Result<()> {
        let message = |command| TransferMessage { trace: TraceId::NOBODY, command };
        let messages = incoming(self.transfers.at, commands.into_iter().map(message));
        let batch = Batch::new(self.transfers.at, &messages);
        done(self.store.transfers(&self.transfers.claim, &batch)?)?;
        self.transfers.at = batch.next;
        let sent = relay(&mut self.store, &self.transfers.claim)?;
        self.positions(sent)
    }

    fn positions(&mut self, requests: Vec<PositionMessage>) -> anyhow::Result<()> {
        let count = requests.len() as u64;
        let took = step_positions(&mut self.store, &mut self.position, requests)?;
        self.positions = (self.positions.0 + count, self.positions.1 + took);
        Ok(())
    }
}

/// Ends all that is due, on several connections: `scanners` share the shards, `positions` share the accounts. Every message
/// goes through the outbox and is marked sent. Gives how many holds ended, and in what time.
pub(crate) fn end_all(
    url: &str,
    shards: i16,
    scanners: usize,
    positions: usize,
) -> anyhow::Result<(u64, Duration)> {
    let mut stores = Vec::new();
    for _ in 0..scanners + positions {
        stores.push(Store::open(url, Settings::default())?);
    }
    let mut claims = Vec::new();
    for shard in 0..shards {
        claims.push((shard, stores[0].claim(&Source::Timeout(shard.into()))?));
    }
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..positions).map(|_| channel::<Vec<PositionMessage>>()).unzip();
    let mut readers = Vec::new();
    for (partition, receiver) in (0..).zip(receivers) {
        readers.push((reader(&mut stores[0], Topic::Position, partition)?, receiver));
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (number, store) in stores.drain(..scanners).enumerate() {
            let own: Vec<_> = claims.iter().skip(number).step_by(scanners).copied().collect();
            let senders = senders.clone();
            workers.push(scope.spawn(move || scan_all(store, &own, &senders)));
        }
        drop(senders);
        for (store, (reader, receiver)) in stores.drain(..).zip(readers) {
            workers.push(scope.spawn(move || take_all(store, reader, &receiver).map(|()| 0)));
        }
        let mut ended = 0;
        for worker in workers {
            ended += worker.join().map_err(|_| anyhow!("a worker stopped"))??;
        }
        Ok((ended, begun.elapsed()))
    })
}

/// Scans the shards in turn until a whole round finds nothing due.
fn scan_all(
    mut store: Store,
    shards: &[(i16, Claim)],
    to: &[Sender<Vec<PositionMessage>>],
) -> anyhow::Result<u64> {
    let mut ended = 0;
    loop {
        let mut round = 0;
        for (shard, claim) in shards {
            round += done(store.expire(claim, *shard, 1_000)?)?.messages as u64;
            let mut parts = vec![Vec::new(); to.len()];
            for message in relay(&mut store, claim)? {
                parts[partition_of(message.account, to.len())].push(message);
            }
            for (part, sender) in parts.into_iter().zip(to).filter(|(part, _)| !part.is_empty()) {
                sender.send(part).map_err(|_| anyhow!("a position worker stopped"))?;
            }
        }
        ended += round;
        if round == 0 {
            return Ok(ended);
        }
    }
}

/// Takes the position step for all that comes, until nobody is left to send.
fn take_all(
    mut store: Store,
    mut reader: Reader,
    from: &Receiver<Vec<PositionMessage>>,
) -> anyhow::Result<()> {
    let mut open = true;
    while open {
        let mut requests = Vec::new();
        while requests.len() < BATCH {
            match from.recv_timeout(if requests.is_empty() { QUIET } else { Duration::ZERO }) {
                Ok(part) => requests.extend(part),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    open = false;
                    break;
                }
            }
        }
        if !requests.is_empty() {
            step_positions(&mut store, &mut reader, requests)?;
        }
    }
    Ok(())
}

/// The position step over these; how long it took, without what was sent before and after.
fn step_positions(
    store: &mut Store,
    reader: &mut Reader,
    requests: Vec<PositionMessage>,
) -> anyhow::Result<Duration> {
    if requests.is_empty() {
        return Ok(Duration::ZERO);
    }
    let messages = incoming(reader.at, requests.into_iter());
    let batch = Batch::new(reader.at, &messages);
    let begun = Instant::now();
    let step = done(store.positions(&reader.claim, &batch)?)?;
    let took = begun.elapsed();
    ensure!(step.dead_letters == 0, "{} messages became dead letters", step.dead_letters);
    reader.at = batch.next;
    // What is left are notifications, for which nobody waits here.
    relay(store, &reader.claim)?;
    Ok(took)
}

/// Takes everything out of a source's outbox, as the relay does that sends it; gives what goes to the position step.
fn relay(store: &mut Store, claim: &Claim) -> anyhow::Result<Vec<PositionMessage>> {
    let mut messages = Vec::new();
    loop {
        let rows = store.unsent(claim, OUTBOX_MAX)?;
        let Some(last) = rows.last().map(|row| row.number) else { return Ok(messages) };
        for row in rows.iter().filter(|row| row.topic == Topic::Position) {
            let message = PositionMessage::from_json(&row.value);
            messages.push(message.map_err(|poison| anyhow!("{poison}"))?);
        }
        if !store.mark_sent(claim, last + 1)? {
            return Err(fenced());
        }
    }
}

fn reader(store: &mut Store, topic: Topic, partition: u32) -> anyhow::Result<Reader> {
    let claim = store.claim(&Source::Consumer(topic, partition))?;
    Ok(Reader { claim, at: claim.offset })
}

/// The messages as they would lie in a partition. Nobody here needs the bytes of dead letters.
fn incoming<M>(from: u64, messages: impl Iterator<Item = M>) -> Vec<Incoming<M>> {
    let one =
        |(offset, message)| Incoming { offset, key: Vec::new(), body: Vec::new(), message: Ok(message) };
    (from..).zip(messages).map(one).collect()
}

pub(crate) fn done(step: Step) -> anyhow::Result<Done> {
    match step {
        Step::Done(done) => Ok(done),
        Step::Fenced => Err(fenced()),
    }
}

fn fenced() -> anyhow::Error {
    anyhow!("somebody else works on the run's database")
}

/// Position accounts have every other number.
fn partition_of(account: AccountId, partitions: usize) -> usize {
    usize::try_from(account.0 / 2).expect("32 bits") % partitions
}

/// Ids as clients choose them: spread over the whole range.
fn id_of(number: u64) -> TransferId {
    TransferId(u128::from(mix(0x6265_6e63, number)) << 64 | u128::from(mix(0x6865_7870, number)))
}
