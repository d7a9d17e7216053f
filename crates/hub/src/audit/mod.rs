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

/// How many findings are kept; one broken row can have thousands of followers.
const FINDINGS_MAX: usize = 100;

/// What in the books does not add up, in words.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, finding: String) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(finding);
        }
    }

    /// One that shows in the frame with that base offset.
    fn in_frame(&mut self, offset: u64, what: impl std::fmt::Display) {
        self.add(format!("frame at offset {offset}: {what}"));
    }
}

/// Follows the frames and adds up.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    balances: BTreeMap<AccountId, Balance>,
    outside: BTreeMap<Currency, Balance>,
    states: Vec<Option<TransferState>>,
    /// Position change rows seen.
    pub(crate) rows: u64,
    findings: Findings,
    tokens: TokenAudit,
    shop: ShopAudit,
}

impl Auditor {
    /// An auditor that begins with the state as it stands: what led there is taken as right.
    pub(crate) fn from(store: &impl Store) -> Auditor {
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

    /// Takes in a frame that was just replayed, sub-batch by sub-batch.
    pub(crate) fn frame(&mut self, offset: u64, commands: &[Command], effects: &Effects, store: &impl View) {
        let mut commands = commands.iter();
        for step in &effects.steps {
            if let Err(what) = self.shop.step(commands.as_slice().first(), step) {
                self.findings.in_frame(offset, format_args!("the shop: {what}"));
            }
            for (outcome, command) in step.outcomes.iter().zip(&mut commands) {
                if let (Command::Admin(admin), None) = (command, outcome.code) {
                    self.admin(*admin, store);
                }
            }
            step.funds.iter().for_each(|movement| self.funds(movement, store));
            step.state_changes.iter().for_each(|change| self.moved(offset, change));
            step.position_changes.iter().for_each(|row| self.position(offset, row));
            self.tokens.step(offset, &step.tokens, &mut self.findings);
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
            let (transfer, state) = (change.transfer.0, change.state);
            let what = format_args!("transfer number {transfer} moves to {state} from where it cannot");
            self.findings.in_frame(offset, what);
        }
        self.states[at] = Some(change.state);
    }

    fn position(&mut self, offset: u64, row: &PositionChange) {
        self.rows += 1;
        let balance = self.balances.entry(row.account).or_default();
        let before = *balance;
        *balance = before.plus(row.change);
        if *balance != row.value {
            let (account, change, written) = (row.account.0, row.change.wide(), row.value);
            let what = format_args!(
                "account {account} stood at {before}, changed by {change}, and is written as {written}"
            );
            self.findings.in_frame(offset, what);
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
    pub(crate) fn finish(mut self, store: &impl Store) -> Vec<String> {
        for account in store.books().accounts() {
            let rows = self.balances.get(&account.id).copied().unwrap_or_default();
            if rows != account.value {
                let (account, stands) = (account.id.0, account.value);
                self.findings
                    .add(format!("account {account} stands at {stands}, but its rows lead to {rows}"));
            }
        }
        for (currency, is) in store.conserved_sums() {
            let should_be = self.outside.get(&currency).copied().unwrap_or_default();
            if is != should_be {
                self.findings.add(format!(
                    "{currency}: positions less open holds plus settlement is {is}, but funds and initial positions make \
                     {should_be}"
                ));
            }
        }
        self.tokens.finish(store, &mut self.findings);
        self.shop.finish(store, &mut self.findings);
        self.findings.0
    }
}
