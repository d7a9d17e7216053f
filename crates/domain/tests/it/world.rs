//! A world to decide in, and a small scheme for it: three participants with funds and limits, and short words for commands and
//! rows. Words for tokens stand in `tokens_world`, those for the shop in `shop_world`.
//!
//! Amounts are raw (1 = 0.0001). Transfer number `n` has the id `n` and the fulfilment of 32 bytes `n`. Frames follow each other
//! in the log, so fences rise as they do in the hub.

// What nearly every test speaks of.
pub use holdfast_domain::callbacks::{Callback, callbacks};
pub use holdfast_domain::codes::ErrorCode;
pub use holdfast_domain::command::{
    Abort, Admin, Command, Expire, Fulfil, FulfilAction, Lookup, Prepare, SetEndpoint,
};
pub use holdfast_domain::effects::{
    Answer, Asked, CompletionRow, DeadLetter, Effects, LimitAlarm, Notification, NotificationKind, Outcome,
    Party, PositionChange, StateChange, Subject,
};
pub use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId, TransferNo};
pub use holdfast_domain::money::{Amount, Balance};
pub use holdfast_domain::positions::{Action, PrepareOrder};
pub use holdfast_domain::transfers::{Code, Completion, CompletionKind, Reason, Transfer, TransferState};

use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::records;
use holdfast_domain::shop::{Alarm, ShopEffect, ShopMessage};
use holdfast_domain::tokens::TokenEffect;
use holdfast_domain::{FrameInput, decide};

use crate::memory::Memory;

pub const PAYER: ParticipantId = ParticipantId(1);
pub const PAYEE: ParticipantId = ParticipantId(2);
pub const OTHER: ParticipantId = ParticipantId(3);
pub const PAYER_POSITION: AccountId = AccountId(1);
pub const PAYER_SETTLEMENT: AccountId = AccountId(2);
pub const PAYEE_POSITION: AccountId = AccountId(3);
pub const PAYEE_SETTLEMENT: AccountId = AccountId(4);
/// The time of frames that do not say another.
pub const NOW: Millis = 1_000_000;
/// When prepares run out that do not say another time.
pub const EXPIRATION: Millis = NOW + 10_000;

pub fn usd() -> Currency {
    "USD".parse().unwrap()
}

/// The rows, the clock, and where the log ends.
#[derive(Clone)]
pub struct World {
    pub memory: Memory,
    pub now: Millis,
    pub order: PrepareOrder,
    pub offset: u64,
}

impl World {
    pub fn empty() -> World {
        World { memory: Memory::default(), now: NOW, order: PrepareOrder::Arrival, offset: 100 }
    }

    /// The payer with this cap and these funds, payee and another with plenty. No alarm goes off.
    pub fn with(payer_cap: i64, payer_funds: i64) -> World {
        let mut world = World::empty();
        for (name, participant, cap, funds) in [
            ("payer", PAYER, payer_cap, payer_funds),
            ("payee", PAYEE, 1_000_000, 1_000_000),
            ("other", OTHER, 1_000_000, 1_000_000),
        ] {
            let settlement = AccountId(participant.0 * 2);
            let effects = world.frame(&[
                create(name, usd()),
                initial(participant, cap, 0),
                set_limit(participant, cap, 100),
                funds_in(1000 + u128::from(participant.0), settlement, funds),
            ]);
            assert!(effects.outcomes().iter().all(|outcome| outcome.code.is_none()), "{effects:?}");
        }
        world
    }

    /// A scheme in which no limit is near.
    pub fn roomy() -> World {
        World::with(1_000_000, 1_000_000)
    }

    /// What the next record's lock is fenced with.
    pub fn fence(&self) -> u64 {
        self.offset + 1
    }

    /// Decides the commands as one frame and keeps what it does.
    pub fn frame(&mut self, commands: &[Command]) -> Effects {
        let effects = self.foreseen(commands);
        assert_eq!(effects.outcomes().len(), commands.len());
        effects.apply(self.now, &mut self.memory);
        self.offset += commands.len() as u64;
        effects
    }

    /// Decides without keeping anything. The same frame has the same effects.
    pub fn foreseen(&self, commands: &[Command]) -> Effects {
        let (base_offset, time, order) = (self.offset, self.now, self.order);
        let frame = FrameInput { base_offset, time, order, commands };
        let effects = decide(&self.memory, &frame);
        assert_eq!(decide(&self.memory, &frame), effects, "the same frame, the same effects");
        effects
    }

    /// Decides the commands as one frame, keeps what it does, and says who is called for it.
    pub fn calls(&mut self, commands: &[Command]) -> Vec<Callback> {
        let effects = self.frame(commands);
        callbacks(&effects, &self.memory)
    }

    pub fn transfer(&self, no: u64) -> &Transfer {
        &self.memory.transfers[&TransferNo(no)]
    }

    pub fn value(&self, account: AccountId) -> i128 {
        self.memory.accounts[&account].value.0
    }
}

macro_rules! lists {
    ($($list:ident: $row:ty),* $(,)?) => {
        /// Every list of effects; of new transfers their ids.
        #[derive(Debug, Default, PartialEq, Eq)]
        pub struct Lists {
            pub transfers: Vec<TransferId>,
            $(pub $list: Vec<$row>,)*
        }

        impl From<Effects> for Lists {
            fn from(effects: Effects) -> Lists {
                let transfers = effects.transfers().iter().map(|row| row.id).collect();
                Lists { transfers, $($list: effects.$list(),)* }
            }
        }

        /// The lists of all steps, each as one.
        pub trait Flat {
            fn transfers(&self) -> Vec<Transfer>;
            $(fn $list(&self) -> Vec<$row>;)*
        }

        impl Flat for Effects {
            fn transfers(&self) -> Vec<Transfer> {
                self.all(|step| &step.transfers).cloned().collect()
            }

            $(fn $list(&self) -> Vec<$row> {
                self.all(|step| &step.$list).cloned().collect()
            })*
        }
    };
}

lists! {
    participants: Participant,
    accounts: Account,
    funds: FundsMovement,
    endpoints: SetEndpoint,
    state_changes: StateChange,
    completions: CompletionRow,
    position_changes: PositionChange,
    notifications: Notification,
    answers: Answer,
    alarms: LimitAlarm,
    dead_letters: DeadLetter,
    tokens: TokenEffect,
    shop: ShopEffect,
    shop_messages: ShopMessage,
    shop_alarms: Alarm,
    outcomes: Outcome,
}

/// The effects are exactly these; lists that are not named are empty.
#[track_caller]
pub fn assert_effects(effects: Effects, expected: Lists) {
    assert_eq!(Lists::from(effects), expected);
}

/// What enters the audit chain.
pub fn digest(effects: &Effects) -> Vec<u8> {
    let mut bytes = Vec::new();
    effects.write_digest(&mut bytes);
    bytes
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The record of a command.
pub fn written(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    records::write(command, &mut bytes);
    bytes
}

/// How the frame's commands ended, each with the state of its transfer.
pub fn states(effects: &Effects) -> Vec<Option<TransferState>> {
    effects.all(|step| &step.outcomes).map(|outcome| outcome.state).collect()
}

/// Which of the frame's commands were not refused.
pub fn accepted(effects: &Effects) -> Vec<bool> {
    effects.all(|step| &step.outcomes).map(|outcome| outcome.code.is_none()).collect()
}

// Commands.

pub fn fulfilment(n: u8) -> [u8; 32] {
    [n; 32]
}

/// A prepare whose fields can still be changed; `Command::from` takes it with its hash.
pub fn prepare_of(n: u8, amount: i64) -> Prepare {
    Prepare {
        source: PAYER,
        id: TransferId(u128::from(n)),
        payer: PAYER,
        payee: PAYEE,
        amount: Amount(amount),
        expiration: EXPIRATION,
        currency: usd(),
        condition: Fulfil::new(PAYEE, TransferId(0), FulfilAction::Commit, fulfilment(n)).digest,
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    }
}

pub fn prepare(n: u8, amount: i64) -> Command {
    prepared(prepare_of(n, amount))
}

/// The command, with the hash of what it says now.
pub fn prepared(prepare: Prepare) -> Command {
    Command::Prepare(prepare.hashed())
}

pub fn fulfil_by(source: ParticipantId, n: u8, action: FulfilAction, fulfilment: [u8; 32]) -> Command {
    Command::Fulfil(Fulfil::new(source, TransferId(u128::from(n)), action, fulfilment))
}

pub fn fulfil(n: u8) -> Command {
    fulfil_by(PAYEE, n, FulfilAction::Commit, fulfilment(n))
}

/// A fulfil that waits to be told.
pub fn reserve(n: u8) -> Command {
    fulfil_by(PAYEE, n, FulfilAction::Reserve, fulfilment(n))
}

pub fn abort_by(source: ParticipantId, n: u8, code: u16) -> Command {
    Command::Abort(Abort::new(source, TransferId(u128::from(n)), code, Vec::new()))
}

pub fn abort(n: u8) -> Command {
    abort_by(PAYEE, n, 5104)
}

pub fn lookup_by(source: ParticipantId, n: u8) -> Command {
    Command::Lookup(Lookup { source, id: TransferId(u128::from(n)) })
}

pub fn endpoint_of(participant: ParticipantId, kind: &str, value: &str) -> SetEndpoint {
    SetEndpoint::new(participant, kind.to_owned(), value.to_owned()).unwrap()
}

pub fn expire(holds_max: u32) -> Command {
    Command::Expire(Expire { holds_max })
}

pub fn create(name: &str, currency: Currency) -> Command {
    Command::Admin(Admin::CreateParticipant { name: Name::new(name).unwrap(), currency })
}

pub fn initial(participant: ParticipantId, cap: i64, position: i64) -> Command {
    Command::Admin(Admin::InitialPositionAndLimits {
        participant,
        currency: usd(),
        net_debit_cap: Amount(cap),
        initial_position: Amount(position),
    })
}

pub fn set_limit(participant: ParticipantId, cap: i64, alarm_percentage: u16) -> Command {
    let net_debit_cap = Amount(cap);
    Command::Admin(Admin::SetLimit { participant, currency: usd(), net_debit_cap, alarm_percentage })
}

pub fn funds_in(id: u128, account: AccountId, amount: i64) -> Command {
    let (id, amount) = (TransferId(id), Amount(amount));
    Command::Admin(Admin::FundsIn { id, account, currency: usd(), amount })
}

pub fn funds_out(id: u128, account: AccountId, amount: i64) -> Command {
    let (id, amount) = (TransferId(id), Amount(amount));
    Command::Admin(Admin::FundsOutReserve { id, account, currency: usd(), amount })
}

pub fn funds_out_commit(id: u128, account: AccountId) -> Command {
    Command::Admin(Admin::FundsOutCommit { id: TransferId(id), account })
}

pub fn funds_out_abort(id: u128, account: AccountId) -> Command {
    Command::Admin(Admin::FundsOutAbort { id: TransferId(id), account })
}

// Rows.

pub fn id(n: u128) -> TransferId {
    TransferId(n)
}

pub fn moved(no: u64, state: TransferState) -> StateChange {
    StateChange { transfer: TransferNo(no), state, code: None, reason: None }
}

pub fn moved_with(no: u64, state: TransferState, code: ErrorCode) -> StateChange {
    StateChange { code: Some(code.into()), ..moved(no, state) }
}

pub fn changed(account: AccountId, no: u64, change: i64, value: i128) -> PositionChange {
    PositionChange { account, transfer: TransferNo(no), change: Amount(change), value: Balance(value) }
}

pub fn told(no: u64, to: Party, kind: NotificationKind) -> Notification {
    let transfer = TransferNo(no);
    let (action, completion) = match kind {
        NotificationKind::Prepared | NotificationKind::Refused => (Action::Prepare, None),
        NotificationKind::Committed => (Action::Commit, Some(CompletionKind::Commit)),
        NotificationKind::Aborted => (Action::Abort, Some(CompletionKind::Abort)),
        NotificationKind::Expired => (Action::TimeoutReserved, None),
    };
    let (action, error) = (Some(action), None);
    Notification { cause: 0, transfer, to, kind, action, completion, error, silent: false }
}

pub fn told_with(no: u64, to: Party, kind: NotificationKind, code: ErrorCode) -> Notification {
    Notification { error: Some((code.into(), None)), ..told(no, to, kind) }
}

/// COMMITTED, to a party of a transfer whose payee said RESERVED.
pub fn told_reserved(no: u64, to: Party) -> Notification {
    Notification {
        action: Some(Action::Reserve),
        completion: Some(CompletionKind::Reserve),
        ..told(no, to, NotificationKind::Committed)
    }
}

/// What the sender of the only command is answered, which moved nothing.
pub fn asked(to: ParticipantId, transfer: TransferId, asked: Asked, repeat: bool) -> Answer {
    Answer { cause: 0, to, transfer, asked, repeat, completion: None }
}

pub fn completed(no: u64, kind: CompletionKind, digest: [u8; 32]) -> CompletionRow {
    CompletionRow { cause: 0, transfer: TransferNo(no), completion: Completion { kind, digest } }
}

/// The answer about a transfer.
pub fn answer(no: u64, state: TransferState, value: i128) -> Outcome {
    let about = no_transfer(None, Subject::Transfer(TransferNo(no)), value);
    Outcome { state: Some(state), ..about }
}

pub fn refused(outcome: Outcome, code: ErrorCode, reason: Option<Reason>) -> Outcome {
    Outcome { code: Some(code.into()), reason, ..outcome }
}

/// The answer to a command that is about no transfer or a transfer that is not there.
pub fn no_transfer(code: Option<ErrorCode>, subject: Subject, value: i128) -> Outcome {
    Outcome {
        state: None,
        code: code.map(Code::from),
        reason: None,
        subject,
        value: Balance(value),
        token: None,
        shop: None,
    }
}
