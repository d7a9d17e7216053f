//! The auditor: recomputes the books from the rows that the frames left, and compares them with the state.
//!
//! It shares no arithmetic with the decisions. It only adds up: every position from its change rows, every
//! settlement account from the funds, per currency the sum that must not change, and which tokens live.
//!
//! | room | what happens there |
//! | --- | --- |
//! | here | accounts, conservation, moves of transfers |
//! | `tokens` | which tokens live, and what each spend took and gave |
//! | `shop` | what users and items have, and what checkouts took |

mod shop;
mod tokens;

use std::collections::BTreeMap;

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::effects::{Effects, PositionChange, StateChange};
use holdfast_domain::ids::{AccountId, Currency, TransferNo};
use holdfast_domain::money::Balance;
use holdfast_domain::participants::{FundsMovement, FundsState};
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::View;
use holdfast_store::Store;

use shop::ShopAudit;
use tokens::TokenAudit;

/// Something in the books that does not add up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A change row whose running value does not follow from the one before.
    #[error(
        "frame at offset {offset}: account {account} stood at {before}, changed by {change}, and is written as {written}"
    )]
    BrokenRow {
        /// Base offset of the frame.
        offset: u64,
        /// The account's number.
        account: u32,
        /// The value before, from the rows.
        before: Balance,
        /// The row's change.
        change: Balance,
        /// The row's value.
        written: Balance,
    },
    /// An account that does not stand where its rows lead.
    #[error("account {account} stands at {stands}, but its rows lead to {rows}")]
    WrongBalance {
        /// The account's number.
        account: u32,
        /// What the state says.
        stands: Balance,
        /// What the rows say.
        rows: Balance,
    },
    /// Money appeared or went.
    #[error(
        "{currency}: positions less open holds plus settlement is {is}, but funds and initial positions make {should_be}"
    )]
    NotConserved {
        /// The currency.
        currency: Currency,
        /// The sum of invariant 1.
        is: Balance,
        /// What the operator's commands account for.
        should_be: Balance,
    },
    /// A token that came or went twice, or a spend that did something else than it says.
    #[error("frame at offset {offset}: token {token}: {what}")]
    BrokenToken {
        /// Base offset of the frame.
        offset: u64,
        /// The token's id, or the transaction's.
        token: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The live tokens are not those that the rows lead to.
    #[error("token {token}: {what}")]
    WrongToken {
        /// The token's id.
        token: String,
        /// What is wrong.
        what: &'static str,
    },
    /// Credit or stock that went nowhere, or an order that moved as it cannot.
    #[error("frame at offset {offset}: the shop: {what}")]
    BrokenShop {
        /// Base offset of the frame.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A row of the shop that the rows of the frames do not lead to.
    #[error("the shop has {row}, and its rows say otherwise")]
    WrongShop {
        /// The row as it is.
        row: String,
    },
    /// A transfer that was reserved more or less than once, or ended more than once.
    #[error("frame at offset {offset}: transfer number {transfer} moves to {state} from where it cannot")]
    IllegalMove {
        /// Base offset of the frame.
        offset: u64,
        /// The transfer's number.
        transfer: u64,
        /// The state it moved to.
        state: TransferState,
    },
}

/// How many findings are kept; one broken row can have thousands of followers.
pub const FINDINGS_MAX: usize = 100;

/// Follows the frames and adds up.
#[derive(Debug, Default)]
pub struct Auditor {
    balances: BTreeMap<AccountId, Balance>,
    outside: BTreeMap<Currency, Balance>,
    states: Vec<Option<TransferState>>,
    /// Position change rows seen.
    pub rows: u64,
    findings: Vec<Finding>,
    tokens: TokenAudit,
    shop: ShopAudit,
}

impl Auditor {
    /// An auditor that begins with the state as it stands: what led there is taken as right.
    #[must_use]
    pub fn from(store: &impl Store) -> Auditor {
        let balances = store.books().accounts().iter().map(|account| (account.id, account.value)).collect();
        let outside = store.conserved_sums().into_iter().collect();
        let count = usize::try_from(store.next_transfer().0).unwrap_or(usize::MAX);
        // Those that have ended never move again, whatever their end was.
        let mut states = vec![Some(TransferState::Committed); count];
        for open in store.open_transfers(TransferNo(0), usize::MAX) {
            if let Some(state) = usize::try_from(open.no.0).ok().and_then(|at| states.get_mut(at)) {
                *state = Some(open.state);
            }
        }
        Auditor {
            balances,
            outside,
            states,
            tokens: TokenAudit::from(store),
            shop: ShopAudit::from(store),
            ..Auditor::default()
        }
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Takes in a frame that was just replayed, sub-batch by sub-batch.
    pub fn frame(&mut self, offset: u64, commands: &[Command], effects: &Effects, store: &impl View) {
        let mut commands = commands.iter();
        for step in &effects.steps {
            if let Some(finding) = self.shop.step(offset, commands.as_slice().first(), step) {
                self.find(finding);
            }
            for (outcome, command) in step.outcomes.iter().zip(&mut commands) {
                if let (Command::Admin(admin), None) = (command, outcome.code) {
                    self.admin(*admin, store);
                }
            }
            step.funds.iter().for_each(|movement| self.funds(movement, store));
            step.state_changes.iter().for_each(|change| self.moved(offset, change));
            step.position_changes.iter().for_each(|row| self.position(offset, row));
            self.tokens.step(offset, &step.tokens).into_iter().for_each(|finding| self.find(finding));
        }
    }

    fn funds(&mut self, movement: &FundsMovement, store: &impl View) {
        let Some(account) = store.account(movement.account) else { return };
        let change = match movement.state {
            FundsState::ReceivedIn | FundsState::OutAborted => Balance::ZERO.minus(movement.amount),
            FundsState::OutReserved => movement.amount.wide(),
            FundsState::OutCommitted => Balance::ZERO,
        };
        self.add_from_outside(movement.account, account.currency, change);
    }

    /// Money that comes or goes by the operator's word.
    fn add_from_outside(&mut self, account: AccountId, currency: Currency, change: Balance) {
        let balance = self.balances.entry(account).or_default();
        *balance = *balance + change;
        let outside = self.outside.entry(currency).or_default();
        *outside = *outside + change;
    }

    fn moved(&mut self, offset: u64, change: &StateChange) {
        let at = usize::try_from(change.transfer.0).unwrap_or(usize::MAX);
        if self.states.len() <= at {
            self.states.resize(at + 1, None);
        }
        if !change.state.may_follow(self.states[at]) {
            self.find(Finding::IllegalMove { offset, transfer: change.transfer.0, state: change.state });
        }
        self.states[at] = Some(change.state);
    }

    fn position(&mut self, offset: u64, row: &PositionChange) {
        self.rows += 1;
        let balance = self.balances.entry(row.account).or_default();
        let before = *balance;
        *balance = before.plus(row.change);
        if *balance != row.value {
            let (account, change) = (row.account.0, row.change.wide());
            self.find(Finding::BrokenRow { offset, account, before, change, written: row.value });
        }
    }

    fn admin(&mut self, admin: Admin, store: &impl View) {
        let Admin::InitialPositionAndLimits { participant, currency, initial_position, .. } = admin else {
            return;
        };
        let Some(account) = store.participant(participant).and_then(|row| row.position_account(currency))
        else {
            return;
        };
        self.add_from_outside(account, currency, initial_position.wide());
    }

    /// Compares what was added up with where the accounts stand.
    #[must_use]
    pub fn finish(mut self, store: &impl Store) -> Vec<Finding> {
        for account in store.books().accounts() {
            let rows = self.balances.get(&account.id).copied().unwrap_or_default();
            if rows != account.value {
                let (account, stands) = (account.id.0, account.value);
                self.find(Finding::WrongBalance { account, stands, rows });
            }
        }
        for (currency, is) in store.conserved_sums() {
            let should_be = self.outside.get(&currency).copied().unwrap_or_default();
            if is != should_be {
                self.find(Finding::NotConserved { currency, is, should_be });
            }
        }
        let tokens = std::mem::take(&mut self.tokens);
        tokens.finish(store).into_iter().for_each(|finding| self.find(finding));
        let shop = std::mem::take(&mut self.shop);
        shop.finish(store).into_iter().for_each(|finding| self.find(finding));
        self.findings
    }
}
