//! Tokens that pay for transfers. A node has locked them for the prepare, under a lease; the step that reserves makes that a
//! hold without an end, and the step that ends the transfer spends it or gives it back, in its own transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{LockRow, NO_END, TokenEffect, TokenRow};
use holdfast_domain::transfers::TransferState;
use holdfast_messages::TokenEvent;
use holdfast_tokens::{LockRecord, Name, TokenId};

use super::claim::fence_of;
use super::rows::{decimal, record_of, records};
use super::seen::tokens_by_id;
use super::spend::{SpendVerdict, Spender, WantedSpend, spend_in};
use super::supply::{Broken, break_selections, tell, tell_in_pieces};
use crate::Error;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::types::{Moment, Uuid, list};
use crate::written::RowWriter;

/// Tokens from which on a statement takes no more holds or spends.
const TOKENS_MAX: usize = 2_000;

/// Lists of thousands are joined by hash here, and not row by row as a handler's connection does otherwise.
const BY_HASH: &str = "SET LOCAL enable_hashjoin = on; SET LOCAL enable_nestloop = off";
const BY_KEY: &str = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = on";

/// Pieces of a list with so many tokens each; one that has more by itself is a piece.
fn pieces<T>(list: &[T], tokens: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let more = |one: &&T| {
            sum += tokens(one);
            sum <= TOKENS_MAX
        };
        let count = rest.iter().take_while(more).count().max(1);
        let (piece, after) = rest.split_at_checked(count)?;
        rest = after;
        Some(piece)
    })
}

/// The tokens that a batch of transfers may take or pay out, and the selections they are under, locked.
#[derive(Default)]
pub(crate) struct Pledged {
    /// Tokens of the selections below. Nobody holds those of a claim but the transfer that it was made for.
    pub(crate) tokens: BTreeMap<TokenId, TokenRow>,
    /// What transfers hold.
    pub(crate) holds: BTreeMap<Name, Arc<LockRow>>,
    /// What nodes have locked for prepares: its number, and the tokens.
    claims: BTreeMap<Name, (u64, Arc<[TokenId]>)>,
    /// Those that a prepare of the batch names as its own.
    named: BTreeSet<Name>,
}

/// The clock is read behind the lock: a row that is waited for is judged when it is there.
const SELECTIONS: &str = records!(
    ", s.payee_wallet, s.expires_at > hub_clock() FROM token_selection s
     WHERE s.spender_tx_id = ANY($1) AND s.state = 'HELD' ORDER BY s.spender_tx_id FOR UPDATE"
);

/// Bounded as a claim is, whatever the plan. What does not hold all of its tokens met somebody; then it is tried again.
const HOLD: &str = "
    WITH held AS (
        UPDATE token_selection s SET expires_at = 'infinity', body = w.body, amount = w.amount, payee_wallet = w.payee,
            changed_at = $1
        FROM unnest($2::text[], $3::bigint[], $4::uuid[], $5::text[], $9::numeric[]) AS w (spender, fence, body, payee, amount)
        WHERE s.spender_tx_id = w.spender AND s.spender_tx_id = ANY($2) AND s.fence = w.fence AND s.state = 'HELD'
        RETURNING 1),
    locked AS (
        UPDATE token_lock l SET expires_at = 'infinity'
        FROM unnest($6::text[], $7::text[], $8::bigint[]) AS p (token_id, spender, fence)
        WHERE l.token_id = p.token_id AND l.token_id = ANY($6) AND l.spender_tx_id = p.spender AND l.fence = p.fence
            AND NOT l.spent
        RETURNING 1)
    SELECT CASE WHEN (SELECT count(*) FROM held) <> cardinality($2) OR (SELECT count(*) FROM locked) <> cardinality($6)
        THEN token_race() END";

impl Loader<'_, '_> {
    /// Locks what transfers of these ids hold, and what was claimed for their prepares.
    pub(crate) fn lock_pledged(&mut self, spenders: &BTreeSet<Name>) -> Result<(), Error> {
        if spenders.is_empty() {
            return Ok(());
        }
        self.forget_clock();
        let mut ids: Vec<TokenId> = Vec::new();
        for row in self.query(SELECTIONS, &[&list(spenders, |name| &**name)])? {
            let LockRecord { spender, fence, since, amount, body, ids: tokens, .. } = record_of(&row)?;
            let (payee, live): (Option<&str>, bool) = (row.get(7), row.get(8));
            let pledged = &mut self.loaded.pledged;
            match payee {
                Some(payee) => {
                    ids.extend(tokens.iter().cloned());
                    let hold = LockRow {
                        spender: spender.clone(),
                        fence,
                        since,
                        expires_at: NO_END,
                        amount,
                        body,
                        tokens,
                        funding: Some(payee.into()),
                    };
                    pledged.holds.insert(spender, Arc::new(hold));
                }
                None if live => {
                    ids.extend(tokens.iter().cloned());
                    pledged.claims.insert(spender, (fence, tokens));
                }
                None => {}
            }
        }
        for token in tokens_by_id(self.tx, self.statements, &ids)? {
            self.loaded.pledged.tokens.insert(token.id.clone(), TokenRow { token, holder: None });
        }
        let Pledged { tokens, holds, .. } = &mut self.loaded.pledged;
        for (hold, id) in holds.values().flat_map(|hold| hold.tokens.iter().map(move |id| (hold, id))) {
            let missing = || Error::corrupt("token_selection", format!("{} holds {id}", hold.spender));
            tokens.get_mut(id).ok_or_else(missing)?.holder = Some(hold.spender.clone());
        }
        self.all_hold()
    }

    /// A reserved transfer that tokens pay for holds them.
    fn all_hold(&self) -> Result<(), Error> {
        let Loaded { transfers, pledged, .. } = &self.loaded;
        let reserved =
            transfers.values().filter(|row| row.is_funded() && row.state == TransferState::Reserved);
        for row in reserved {
            if !pledged.holds.contains_key(&*row.id.to_string()) {
                return Err(Error::corrupt("token_selection", format!("transfer {} holds nothing", row.id)));
            }
        }
        Ok(())
    }
}

impl Pledged {
    /// Takes the tokens out of prepares for which exactly these are not locked: such a one wants for funds.
    pub(crate) fn disarm(&mut self, commands: &mut [Command]) {
        for command in commands {
            let Command::Prepare(prepare) = command else { continue };
            let Some(funding) = prepare.funding.as_deref_mut() else { continue };
            let claimed = self.name(&funding.spender, &funding.ids);
            // A wallet that cannot be stored gets nothing.
            if !claimed || funding.payee_wallet.contains('\0') {
                funding.ids = Arc::new([]);
            }
        }
    }

    /// Whether something is locked for that spender, by a claim or by a hold.
    pub(crate) fn is_locked(&self, spender: &str) -> bool {
        self.claims.contains_key(spender) || self.holds.contains_key(spender)
    }

    /// Whether exactly these tokens are locked for that spender. Then what is not taken of them is given back with the step.
    pub(crate) fn name(&mut self, spender: &Name, wanted: &[TokenId]) -> bool {
        let claimed = self.claims.get(spender).is_some_and(|(_, ids)| ids[..] == *wanted);
        if claimed {
            self.named.insert(spender.clone());
        }
        claimed
    }

    /// Whether a batch with these effects does anything to tokens.
    pub(crate) fn moves(&self, effects: &Effects) -> bool {
        !(effects.all(|step| &step.tokens).next().is_none() && self.named.is_empty())
    }

    /// Writes what a batch did: claims become holds, holds are spent or given back, and so are claims whose prepare did not
    /// take them.
    pub(crate) fn write(
        &self,
        writer: &mut RowWriter<'_, '_>,
        now: Millis,
        effects: &Effects,
    ) -> Result<(), Error> {
        if !self.moves(effects) {
            return Ok(());
        }
        let Pledged { holds, claims, named, .. } = self;
        let mut fences: BTreeMap<&Name, u64> = holds.iter().map(|(name, row)| (name, row.fence)).collect();
        let mut taken: Vec<(&LockRow, u64)> = Vec::new();
        let mut spends: Vec<WantedSpend> = Vec::new();
        let mut over: BTreeSet<&str> = BTreeSet::new();
        let mut spent: BTreeSet<&str> = BTreeSet::new();
        for effect in effects.all(|step| &step.tokens) {
            match effect {
                TokenEffect::Locked(row) => {
                    let (fence, _) = claims.get(&row.spender).expect("only what was claimed is held");
                    fences.insert(&row.spender, *fence);
                    taken.push((row, *fence));
                }
                TokenEffect::Spent(row) => {
                    let transaction = row.transaction.clone();
                    spent.insert(&row.transaction.spender);
                    let fence = fences[&transaction.spender];
                    spends.push(WantedSpend { fence, body: row.body, transaction });
                }
                TokenEffect::Unlocked { spender, .. } => {
                    over.insert(spender);
                }
                // They come with the spend that did it.
                TokenEffect::Produced(_) | TokenEffect::Consumed(_) => {}
                TokenEffect::Renewed(_) => unreachable!("a transfer renews nothing"),
            }
        }
        writer.tx.batch_execute(BY_HASH)?;
        for some in pieces(&taken, |(row, _)| row.tokens.len()) {
            hold(writer, now, some)?;
        }
        for some in pieces(&spends, |spend| spend.transaction.consumed.len()) {
            for WantedSpend { fence, body, transaction } in some {
                let (fence, body, transaction) = (*fence, *body, transaction.clone());
                writer.written.token_event(&TokenEvent::Spent { fence, body, transaction });
            }
            let verdicts = spend_in(writer.tx, writer.statements, some, Some(now), Spender::Transfer)?;
            if verdicts.iter().any(|verdict| *verdict != Some(SpendVerdict::Spent)) {
                return Err(Error::corrupt("token_selection", format!("a transfer's hold is {verdicts:?}")));
            }
        }
        let mut given: BTreeSet<(&str, i64)> = BTreeSet::new();
        for spender in over.difference(&spent) {
            given.insert((*spender, fence_of(fences[&Name::from(*spender)])));
        }
        for spender in named.iter().filter(|spender| !fences.contains_key(spender)) {
            given.insert((spender, fence_of(claims[spender].0)));
        }
        let Broken { selections, gone } = break_selections(writer.tx, &given, Some(Moment(now)))?;
        for (spender, fence) in selections {
            let event = TokenEvent::Released { spender, fence };
            writer.written.token_event(&event);
            tell(writer.tx, &event)?;
        }
        if !gone.is_empty() {
            // Behind the release: whoever follows frees them first.
            let (produced, broken) = (Vec::new(), Vec::new());
            let event = TokenEvent::Updated { consumed: gone, produced, broken };
            writer.written.token_event(&event);
            tell_in_pieces(writer.tx, &event)?;
        }
        writer.tx.batch_execute(BY_KEY)?;
        Ok(())
    }
}

fn hold(writer: &mut RowWriter<'_, '_>, now: Millis, taken: &[(&LockRow, u64)]) -> Result<(), Error> {
    fn payee(row: &LockRow) -> &str {
        row.funding.as_deref().expect("the hold of a transfer names the payee's wallet")
    }
    let mut ids: Vec<(&str, &str, i64)> = Vec::new();
    for (row, fence) in taken {
        ids.extend(row.tokens.iter().map(|id| (id.as_str(), &*row.spender, fence_of(*fence))));
    }
    ids.sort_unstable();
    writer.execute(
        HOLD,
        &[
            &Moment(now),
            &list(taken, |(row, _)| &*row.spender),
            &list(taken, |(_, fence)| fence_of(*fence)),
            &list(taken, |(row, _)| Uuid(row.body.0)),
            &list(taken, |(row, _)| payee(row)),
            &list(&ids, |(id, ..)| *id),
            &list(&ids, |(_, holder, _)| *holder),
            &list(&ids, |(.., fence)| *fence),
            &list(taken, |(row, _)| decimal(row.amount)),
        ],
    )?;
    Ok(())
}
