//! What must always hold (design section 9), one file each. Every auditor keeps its own books, in the simplest way
//! that can be thought of, and shares no code with what it audits.

mod acknowledged_survives;
mod checkout_holds;
mod every_id_is_found;
mod faults_are_never_believed;
mod holds_end_once;
mod jumped_clock_is_refused;
mod legal_moves;
mod limits_hold;
mod money_is_conserved;
mod orders_are_paid_once;
mod positions_add_up;
mod replay_changes_nothing;
mod shop_books;
mod shop_charges;
mod shop_tries;
mod token_books;
mod tokens_are_held_once;
mod transfer_holds;

pub use acknowledged_survives::AcknowledgedSurvives;
pub use every_id_is_found::{every_id_is_found, every_order_is_found};
pub use faults_are_never_believed::{
    Blame, FaultsAreNeverBelieved, blame, marked_end, names_a_file, tells_damage,
};
pub use holds_end_once::HoldsEndOnce;
pub use jumped_clock_is_refused::JumpedClockIsRefused;
pub use limits_hold::LimitsHold;
pub use money_is_conserved::MoneyIsConserved;
pub use orders_are_paid_once::OrdersArePaidOnce;
pub use positions_add_up::PositionsAddUp;
pub use replay_changes_nothing::{ReplayChangesNothing, same_in_memory};
pub use tokens_are_held_once::TokensAreHeldOnce;

use std::fmt;

use holdfast_domain::ids::Millis;
use holdfast_hub::Core;
use holdfast_store::MemoryStore;

use crate::diary::Diary;
use crate::witness::Decided;

/// What an auditor says: `what`, unless it is so.
fn expect(is: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is { Ok(()) } else { Err(what()) }
}

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each has a file that says what it means")]
pub enum Invariant {
    MoneyIsConserved,
    LimitsHold,
    HoldsEndOnce,
    TokensAreHeldOnce,
    OrdersArePaidOnce,
    AcknowledgedSurvives,
    ReplayChangesNothing,
    PositionsAddUp,
    JumpedClockIsRefused,
    EveryIdIsFound,
    FaultsAreNeverBelieved,
    /// The hub starts again after every fault, and an assertion of its own never fires.
    TheHubGoesOn,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

/// Violations found so far.
#[derive(Debug, Default)]
pub struct Findings(Vec<Violation>);

impl Findings {
    /// Writes down what an auditor says.
    pub fn take(&mut self, invariant: Invariant, said: Result<(), String>) {
        if let Err(detail) = said {
            self.broken(invariant, detail);
        }
    }

    /// Writes down what is broken.
    pub fn broken(&mut self, invariant: Invariant, detail: impl Into<String>) {
        self.0.push(Violation { invariant, detail: detail.into() });
    }

    /// Whether nothing was found.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn into_list(self) -> Vec<Violation> {
        self.0
    }
}

/// The auditors that listen to frames.
#[derive(Default)]
pub struct Auditors {
    money: MoneyIsConserved,
    limits: LimitsHold,
    /// Audits holds.
    pub holds: HoldsEndOnce,
    /// Audits positions.
    pub positions: PositionsAddUp,
    /// Audits the vault.
    pub tokens: TokensAreHeldOnce,
    /// Audits the shop.
    pub shop: OrdersArePaidOnce,
    /// Audits answers and restarts.
    pub acknowledged: AcknowledgedSurvives,
    /// Audits what comes of faults.
    pub faults: FaultsAreNeverBelieved,
    /// Audits times.
    pub clock: JumpedClockIsRefused,
}

impl Auditors {
    /// A frame became durable.
    pub fn see(&mut self, frame: &Decided<'_>, findings: &mut Findings) {
        findings.take(Invariant::MoneyIsConserved, self.money.see(frame));
        findings.take(Invariant::LimitsHold, self.limits.see(frame));
        findings.take(Invariant::HoldsEndOnce, self.holds.see(frame));
        findings.take(Invariant::TokensAreHeldOnce, self.tokens.see(frame));
        findings.take(Invariant::OrdersArePaidOnce, self.shop.see(frame));
        findings.take(Invariant::PositionsAddUp, self.positions.see(frame));
        findings.take(Invariant::JumpedClockIsRefused, self.clock.see(frame));
        self.acknowledged.see(frame);
    }

    /// What should have ended by `time` and has not: holds, leases, checkouts and keys.
    pub fn overdue(&self, time: Millis) -> [(Invariant, Result<(), String>); 3] {
        [
            (Invariant::HoldsEndOnce, self.holds.none_open_before(time)),
            (Invariant::TokensAreHeldOnce, self.tokens.none_open_at(time)),
            (Invariant::OrdersArePaidOnce, self.shop.none_due_at(time)),
        ]
    }

    /// A hub came back with this state: is what clients were told there?
    pub fn restarted(&self, core: &Core<MemoryStore>, diary: &Diary) -> [(Invariant, Result<(), String>); 3] {
        [
            (Invariant::AcknowledgedSurvives, self.acknowledged.restarted(core, diary)),
            (Invariant::TokensAreHeldOnce, self.tokens.restarted(core.store(), diary)),
            (Invariant::OrdersArePaidOnce, self.shop.restarted(core.store(), diary)),
        ]
    }

    /// The state between two frames, all of it durable.
    pub fn inspect(&self, core: &Core<MemoryStore>, findings: &mut Findings) {
        let store = core.store();
        findings.take(Invariant::MoneyIsConserved, self.money.inspect(store));
        findings.take(Invariant::HoldsEndOnce, self.holds.inspect(store));
        findings.take(Invariant::TokensAreHeldOnce, self.tokens.inspect(store));
        findings.take(Invariant::OrdersArePaidOnce, self.shop.inspect(store));
        findings.take(Invariant::PositionsAddUp, self.positions.inspect(store));
    }
}
