//! The auditor's tokens: which live, by the rows of the frames alone.

use std::collections::BTreeMap;

use holdfast_domain::tokens::{TokenEffect, TokenId};
use holdfast_store::Store;

use crate::audit::Finding;

/// Quantities of the tokens that should live, and what was consumed since the last spend was seen.
#[derive(Debug, Default)]
pub(crate) struct TokenAudit {
    live: BTreeMap<TokenId, u64>,
    /// What the frame has consumed and produced and no spend has accounted for: an issue or update is free to.
    consumed: BTreeMap<TokenId, u64>,
}

impl TokenAudit {
    pub(crate) fn from(store: &impl Store) -> TokenAudit {
        let mut live = BTreeMap::new();
        store.tokens(&mut |row| {
            live.insert(row.token.id.clone(), row.token.quantity);
        });
        TokenAudit { live, consumed: BTreeMap::new() }
    }

    pub(crate) fn take_in(&mut self, offset: u64, effect: &TokenEffect) -> Option<Finding> {
        let broken = |token: &str, what| Some(Finding::BrokenToken { offset, token: token.to_owned(), what });
        match effect {
            TokenEffect::Produced(token) => match self.live.insert(token.id.clone(), token.quantity) {
                Some(_) => broken(token.id.as_str(), "it is produced and lived already"),
                None => None,
            },
            TokenEffect::Consumed(id) => {
                if let Some(quantity) = self.live.remove(id) {
                    self.consumed.insert(id.clone(), quantity);
                }
                None
            }
            TokenEffect::Spent(row) => {
                let spend = &row.transaction;
                let mut inputs = 0_u128;
                for id in &spend.consumed {
                    match self.consumed.remove(id) {
                        Some(quantity) => inputs += u128::from(quantity),
                        None => return broken(id.as_str(), "it is spent and did not live"),
                    }
                }
                self.consumed.clear();
                let outputs: u128 = spend.produced.iter().map(|token| u128::from(token.quantity)).sum();
                if outputs > inputs { broken(&spend.id, "the spend pays more than its inputs") } else { None }
            }
            TokenEffect::Locked(_) | TokenEffect::Unlocked { .. } | TokenEffect::Renewed(_) => {
                // What was consumed before this belonged to an update.
                self.consumed.clear();
                None
            }
        }
    }

    /// The frame is over: what it consumed without a spend is accounted for.
    pub(crate) fn end_frame(&mut self) {
        self.consumed.clear();
    }

    /// Compares with the tokens that live.
    pub(crate) fn finish(mut self, store: &impl Store) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut wrong = |token: &TokenId, what| {
            findings.push(Finding::WrongToken { token: token.as_str().to_owned(), what });
        };
        store.tokens(&mut |row| match self.live.remove(&row.token.id) {
            Some(quantity) if quantity == row.token.quantity => {}
            Some(_) => wrong(&row.token.id, "it lives with another quantity than its rows say"),
            None => wrong(&row.token.id, "it lives, and no row says so"),
        });
        self.live.keys().for_each(|id| wrong(id, "its rows say that it lives, and it does not"));
        findings
    }
}
