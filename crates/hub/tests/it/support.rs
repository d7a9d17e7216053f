//! A hub on a simulated disk and clock, driven turn by turn.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use holdfast_disk::DirLock;
use holdfast_domain::command::{Admin, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::records::Sealed;
use holdfast_domain::transfers::Transfer;
use holdfast_engine::Refusal;
use holdfast_engine::clock::{Clock, Reading, SystemClock};
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{
    Core, Health, Hub, HubHandle, Intake, Journal, Keeper, OpenError, Opened, Status, Submission, Turn,
    Writer,
};
use holdfast_log::{LogId, SegmentOptions, SimFs};
use holdfast_store::LocalStore;
use sha2::{Digest, Sha256};
use tokio::runtime::{Builder, Runtime};

/// Where a hub has its data.
pub(crate) const DATA: &str = "/data";
pub(crate) const PAYER: ParticipantId = ParticipantId(1);
pub(crate) const PAYEE: ParticipantId = ParticipantId(2);
pub(crate) const LOG_ID: LogId = LogId([7; 16]);
pub(crate) const START: Millis = 1_800_000_000_000;

/// A clock that a test sets.
pub(crate) struct TestClock(Mutex<Reading>);

impl TestClock {
    pub(crate) fn new() -> Arc<TestClock> {
        Arc::new(TestClock(Mutex::new(Reading { wall: START, monotonic: 0 })))
    }

    /// Time passes on both clocks.
    pub(crate) fn pass(&self, time: Millis) {
        let mut now = self.0.lock().unwrap();
        now.wall += time;
        now.monotonic += time;
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_by(&self, time: Millis) {
        self.0.lock().unwrap().wall += time;
    }
}

impl Clock for TestClock {
    fn read(&self) -> Reading {
        *self.0.lock().unwrap()
    }
}

/// What one submission was answered; a refusal by the intake comes as an error too.
pub(crate) type Answered = Result<Vec<Outcome>, Refusal>;

pub(crate) struct TestHub {
    _lock: DirLock,
    pub(crate) writer: Writer,
    pub(crate) intake: Arc<Intake>,
    pub(crate) health: Arc<Health>,
}

pub(crate) fn open(fs: &SimFs, clock: &Arc<TestClock>, options: HubOptions) -> Result<TestHub, OpenError> {
    Ok(by_hand(opened(fs)?, clock.clone(), options))
}

/// A hub on that disk, with a clock of its own.
pub(crate) fn reopen(fs: &SimFs) -> TestHub {
    open(fs, &TestClock::new(), HubOptions::default()).unwrap()
}

fn opened(fs: &SimFs) -> Result<Opened, OpenError> {
    Opened::open(Arc::new(fs.clone()), Path::new(DATA), small_segments(), LOG_ID)
}

/// A new hub on a disk of its own, with two participants whose payer may owe so much.
pub(crate) fn in_business(cap: i64) -> (SimFs, Arc<TestClock>, TestHub) {
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let mut hub = open(&fs, &clock, HubOptions::default()).unwrap();
    hub.open_for_business(cap);
    (fs, clock, hub)
}

/// A hub with its threads.
pub(crate) fn start(fs: &SimFs, clock: Arc<dyn Clock>, options: HubOptions) -> Hub {
    Hub::start(opened(fs).unwrap(), clock, options).unwrap()
}

/// A hub with its threads and the machine's clock.
pub(crate) fn start_now(fs: &SimFs) -> Hub {
    start(fs, Arc::new(SystemClock::new()), HubOptions::default())
}

/// Puts commands in line at a running hub; where its answer comes.
pub(crate) fn submitted(hub: &HubHandle, commands: &[Command]) -> mpsc::Receiver<Answered> {
    let (submission, answer) = submission(commands);
    hub.submit(submission).unwrap();
    answer
}

/// What a running hub has decided about these.
pub(crate) fn decided(hub: &HubHandle, commands: &[Command]) -> Vec<Outcome> {
    submitted(hub, commands).recv().unwrap().unwrap()
}

/// What a running hub says to a question between two frames.
pub(crate) fn asked<R: Send + 'static>(
    hub: &HubHandle,
    question: impl FnOnce(&Core<LocalStore>) -> R + Send + 'static,
) -> R {
    let (send, receive) = mpsc::channel();
    hub.ask(Box::new(move |core| send.send(question(core)).unwrap())).unwrap();
    receive.recv().unwrap()
}

/// Where callers of a running hub run.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap()
}

/// Lets callers run, who all get their answers.
pub(crate) fn in_time(work: impl Future<Output = ()>) {
    let patience = Duration::from_secs(60);
    runtime().block_on(async { tokio::time::timeout(patience, work).await.expect("nobody hangs") });
}

/// A hub without threads.
pub(crate) fn by_hand(opened: Opened, clock: Arc<dyn Clock>, options: HubOptions) -> TestHub {
    let (log, core, lock) = opened.into_parts();
    let (intake, health) = (Arc::new(Intake::new(options)), Arc::new(Health::default()));
    let journal = Journal::inline(Box::new(log), &intake, &health);
    let hands = (journal, Keeper::by_hand());
    let writer = Writer::new(core, Arc::clone(&intake), hands, clock, Arc::clone(&health), options);
    TestHub { _lock: lock, writer, intake, health }
}

pub(crate) fn small_segments() -> SegmentOptions {
    SegmentOptions { segment_bytes: 256 * 1024, ..SegmentOptions::default() }
}

pub(crate) fn submission(commands: &[Command]) -> (Submission, mpsc::Receiver<Answered>) {
    let (send, receive) = mpsc::channel();
    let answer = Box::new(move |answered| send.send(answered).unwrap());
    (Submission::new(Sealed::of(commands), answer), receive)
}

impl TestHub {
    /// Submits without giving the writer a turn.
    pub(crate) fn submit(&self, commands: &[Command]) -> Result<mpsc::Receiver<Answered>, Refusal> {
        let (submission, receive) = submission(commands);
        self.intake.submit(submission).map(|()| receive)
    }

    /// One submission, one frame, its answer.
    pub(crate) fn frame(&mut self, commands: &[Command]) -> Answered {
        let receive = self.submit(commands)?;
        self.writer.turn();
        receive.try_recv().expect("answered in this turn")
    }

    pub(crate) fn turn(&mut self) -> Turn {
        self.writer.turn()
    }

    /// The transfer of that id, open or ended.
    pub(crate) fn row(&self, id: u128) -> Option<Transfer> {
        self.core().store().seek(TransferId(id)).get().unwrap()
    }

    pub(crate) fn core(&self) -> &Core<LocalStore> {
        self.writer.core()
    }

    pub(crate) fn status(&self) -> Status {
        self.health.status()
    }

    /// [Two participants](two_participants).
    pub(crate) fn open_for_business(&mut self, cap: i64) {
        let outcomes = self.frame(&two_participants(cap)).unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.code.is_none()));
    }
}

/// Two participants; the payer may owe `cap` and has funds for it.
pub(crate) fn two_participants(cap: i64) -> [Command; 5] {
    let make = |name| {
        let name = Name::new(name).unwrap();
        Command::Admin(Admin::CreateParticipant { name, currency: usd() })
    };
    let limit = |participant| {
        let (currency, net_debit_cap, initial_position) = (usd(), Amount(cap), Amount::ZERO);
        let limit =
            Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position };
        Command::Admin(limit)
    };
    [make("payer"), make("payee"), limit(PAYER), limit(PAYEE), funds_in(1, AccountId(2), cap)]
}

/// Money on a settlement account; `number` tells it from others.
pub(crate) fn funds_in(number: u128, account: AccountId, amount: i64) -> Command {
    let (id, amount) = (TransferId(number << 100), Amount(amount));
    Command::Admin(Admin::FundsIn { id, account, currency: usd(), amount })
}

pub(crate) fn usd() -> Currency {
    "USD".parse().unwrap()
}

pub(crate) fn preimage(id: u128) -> [u8; 32] {
    Sha256::digest(id.to_le_bytes()).into()
}

pub(crate) fn prepare(
    from: ParticipantId,
    to: ParticipantId,
    id: u128,
    amount: i64,
    expiration: Millis,
) -> Command {
    let prepare = Prepare {
        source: from,
        id: TransferId(id),
        payer: from,
        payee: to,
        amount: Amount(amount),
        expiration,
        currency: usd(),
        condition: Sha256::digest(preimage(id)).into(),
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    Command::Prepare(prepare.hashed())
}

/// A payment of 1 from the payer to the payee.
pub(crate) fn pay(id: u128) -> Command {
    prepare(PAYER, PAYEE, id, 1, START + 60_000)
}

pub(crate) fn fulfil(by: ParticipantId, id: u128) -> Command {
    Command::Fulfil(Fulfil::new(by, TransferId(id), FulfilAction::Commit, preimage(id)))
}
