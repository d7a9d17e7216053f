//! What was selected is spent, and tokens are locked for who will pay.

use std::time::Instant;

use holdfast_engine::Wallets as _;
use holdfast_postgres::tokens::{SpendVerdict, StoredSelection, WantedSpend, of_transfer};
use holdfast_tokens::{
    Fingerprint, Name, Refusal, Scope, SelectRequest, Selection, SpendRequest, Transaction, plan_spend,
};
use tokio::sync::oneshot;

use super::claims::Origin;
use super::limits::FUNDING_WAIT_MS;
use super::vault::{TokenVault, ended};
use super::workers::SpendJob;

/// Where a selection is known from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    FromCache,
    FromDatabase,
}

/// Tokens that are locked for a prepare.
#[derive(Debug, Clone)]
pub struct Funded {
    /// The tokens, and the lock's number.
    pub selection: Selection,
    /// Whether this call has locked them. Else an earlier one has, whose prepare may be on its way: then they are its.
    pub made: bool,
}

fn lost(spender: &Name, reason: &'static str) -> Refusal {
    Refusal::LeaseLost { spender: spender.clone(), reason }
}

fn spent_otherwise(spender: &Name) -> Refusal {
    Refusal::SpenderInUse { spender: spender.clone(), reason: "it has spent to other outputs" }
}

impl TokenVault {
    /// Locks tokens of a wallet that shall pay for a transfer, under the transfer's id. What never comes to its step is free at the
    /// end of the lease.
    ///
    /// # Errors
    /// As [`TokenVault::select_where`]. The same again finds the same tokens.
    pub async fn fund_for(
        &self,
        lease_ms: i64,
        transfer: &str,
        wallet: Name,
        currency: &str,
        amount: u64,
    ) -> Result<Funded, Refusal> {
        let mut request = SelectRequest::new(transfer, Scope::wallet(wallet, currency), amount);
        request.lease_ms = lease_ms;
        // On a node that ends nobody waits, and steps go on: what others hold is theirs then.
        let wait_ms = if self.feed.is_ending() { 0 } else { FUNDING_WAIT_MS };
        let (selection, origin) = self.select_counted(request, None, wait_ms).await?;
        if origin == Origin::Found {
            // It may be about to end, and this one is to travel as long as any. If the transfer has it by now, it has no end.
            drop(self.renew(selection.spender.clone(), Some(selection.fence), lease_ms).await);
        }
        Ok(Funded { selection, made: origin == Origin::Made })
    }

    /// Consumes what the spender has selected; what outputs and redeemed part leave over returns.
    pub(super) async fn spend_under(
        &self,
        request: &SpendRequest,
        body: Fingerprint,
    ) -> Result<Transaction, Refusal> {
        let spender = &request.spender;
        let seen = self.feed.cache().selector.held(spender);
        // What the cache tells is right nearly always; if the database disagrees, it is asked what is so.
        if let Some(selection) = seen
            && let Some(done) = self.spend_selection(request, body, &selection, Known::FromCache).await?
        {
            return Ok(done);
        }
        match self.stored(spender).await? {
            None => Err(lost(spender, "it holds nothing")),
            Some(StoredSelection::Spent { body: known, transaction }) if known == body => Ok(transaction),
            Some(StoredSelection::Spent { .. }) => Err(spent_otherwise(spender)),
            Some(StoredSelection::Held { of_transfer: true, .. }) => Err(of_transfer(spender.clone())),
            Some(StoredSelection::Held { selection, .. }) => {
                let done = self.spend_selection(request, body, &selection, Known::FromDatabase).await?;
                done.ok_or_else(|| lost(spender, "its lease has ended"))
            }
        }
    }

    /// Spends a selection; `None` if it is not what the database has, or its lease has ended.
    async fn spend_selection(
        &self,
        request: &SpendRequest,
        body: Fingerprint,
        selection: &Selection,
        known: Known,
    ) -> Result<Option<Transaction>, Refusal> {
        let spender = &request.spender;
        if request.fence.is_some_and(|fence| fence != selection.fence) {
            return match known {
                Known::FromCache => Ok(None),
                Known::FromDatabase => Err(lost(spender, "the fence is of another selection")),
            };
        }
        let id = uuid(self.new_id());
        let produced = match plan_spend(&selection.tokens, request, &id) {
            Ok(produced) => produced,
            // Who has lost its lease hears that first.
            Err(_) if known == Known::FromCache => return Ok(None),
            Err(_) if selection.expires_at <= self.clock.now() => return Ok(None),
            Err(refusal) => return Err(refusal),
        };
        let consumed = selection.tokens.iter().map(|token| token.id.clone()).collect();
        let transaction = Transaction { id: id.into(), spender: spender.clone(), consumed, produced };
        let wanted = WantedSpend { fence: selection.fence, body, transaction: transaction.clone() };
        let (answer, receive) = oneshot::channel();
        self.queue.spend(SpendJob { wanted, since: Instant::now(), answer })?;
        match receive.await.map_err(|_| ended())?? {
            SpendVerdict::Spent => Ok(Some(transaction)),
            SpendVerdict::Repeated(earlier) => Ok(Some(earlier)),
            SpendVerdict::Other => Err(spent_otherwise(spender)),
            SpendVerdict::Lost => Ok(None),
        }
    }
}

/// A drawn number as a UUID is written.
fn uuid(number: u128) -> String {
    holdfast_domain::ids::TransferId(number).to_string()
}
