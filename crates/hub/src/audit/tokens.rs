//! The auditor's tokens: which live, by the rows of the frames alone, and what each spend took and gave.

use std::collections::BTreeMap;

use holdfast_domain::tokens::{Name, SpendRow, Token, TokenEffect, TokenId};
use holdfast_store::Store;

use super::Findings;

/// Quantities of the tokens that should live.
#[derive(Debug, Default)]
pub(super) struct TokenAudit {
    live: BTreeMap<TokenId, u64>,
}

/// What came and went since a spender's lock ended. A spend that follows has to account for all of it; issues and
/// updates are free to.
struct Exchange<'a> {
    spender: &'a Name,
    /// With its quantity, if it lived.
    consumed: BTreeMap<&'a TokenId, Option<u64>>,
    produced: Vec<&'a Token>,
}

impl TokenAudit {
    pub(super) fn from(store: &impl Store) -> TokenAudit {
        let mut live = BTreeMap::new();
        store.tokens(&mut |row| {
            live.insert(row.token.id.clone(), row.token.quantity);
        });
        TokenAudit { live }
    }

    /// Takes in what one sub-batch did. Commands about tokens have one each, so nothing of another command is taken
    /// for a spend's doing. Fulfils share one; each of their spends begins with the end of its lock.
    pub(super) fn step(&mut self, offset: u64, effects: &[TokenEffect], findings: &mut Findings) {
        let mut broken =
            |token: &str, what: &str| findings.in_frame(offset, format_args!("token {token}: {what}"));
        let mut exchange: Option<Exchange<'_>> = None;
        for effect in effects {
            match effect {
                TokenEffect::Produced(token) => {
                    if self.live.insert(token.id.clone(), token.quantity).is_some() {
                        broken(token.id.as_str(), "it is produced and lived already");
                    }
                    if let Some(exchange) = &mut exchange {
                        exchange.produced.push(token);
                    }
                }
                TokenEffect::Consumed(id) => {
                    let quantity = self.live.remove(id);
                    if let Some(exchange) = &mut exchange {
                        exchange.consumed.insert(id, quantity);
                    }
                }
                TokenEffect::Unlocked { spender, .. } => {
                    let (consumed, produced) = (BTreeMap::new(), Vec::new());
                    exchange = Some(Exchange { spender, consumed, produced });
                }
                TokenEffect::Spent(row) => {
                    let spender = &row.transaction.spender;
                    match exchange.take().filter(|exchange| exchange.spender == spender) {
                        Some(exchange) => {
                            if let Some((token, what)) = self.judge(row, exchange) {
                                broken(token, what);
                            }
                        }
                        None => broken(&row.transaction.id, "the spend does not follow the end of its lock"),
                    }
                }
                TokenEffect::Locked(_) | TokenEffect::Renewed(_) => exchange = None,
            }
        }
    }

    /// Whether a spend did what its row says; the first thing that is wrong with it.
    fn judge<'a>(&self, row: &'a SpendRow, mut exchange: Exchange<'a>) -> Option<(&'a str, &'static str)> {
        let spend = &row.transaction;
        let mut inputs = 0_u128;
        for id in &spend.consumed {
            match exchange.consumed.remove(id) {
                Some(Some(quantity)) => inputs += u128::from(quantity),
                None if self.live.contains_key(id) => return Some((id.as_str(), "it is spent and lives on")),
                Some(None) | None => return Some((id.as_str(), "it is spent and did not live")),
            }
        }
        if let Some((id, _)) = exchange.consumed.first_key_value() {
            return Some((id.as_str(), "it goes in a spend that does not name it"));
        }
        if !spend.produced.iter().eq(exchange.produced) {
            return Some((&spend.id, "the spend names other outputs than it makes"));
        }
        let outputs: u128 = spend.produced.iter().map(|token| u128::from(token.quantity)).sum();
        (outputs > inputs).then_some((&*spend.id, "the spend pays more than its inputs"))
    }

    /// Compares with the tokens that live.
    pub(super) fn finish(mut self, store: &impl Store, findings: &mut Findings) {
        let mut wrong =
            |token: &TokenId, what: &str| findings.add(format!("token {}: {what}", token.as_str()));
        store.tokens(&mut |row| match self.live.remove(&row.token.id) {
            Some(quantity) if quantity == row.token.quantity => {}
            Some(_) => wrong(&row.token.id, "it lives with another quantity than its rows say"),
            None => wrong(&row.token.id, "it lives, and no row says so"),
        });
        self.live.keys().for_each(|id| wrong(id, "its rows say that it lives, and it does not"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_domain::command::Command;
    use holdfast_domain::effects::TokenRows;
    use holdfast_domain::positions::PrepareOrder;
    use holdfast_domain::tokens::{
        Fingerprint, LockTokens, Output, SpendRequest, SpendTokens, TokenCommand, TokenOutcome, Transaction,
    };
    use holdfast_domain::{FrameInput, decide};
    use holdfast_store::MemoryStore;

    use super::super::{Auditor, FINDINGS_MAX};
    use super::*;

    const OFFSET: u64 = 7;

    fn token(id: &str, quantity: u64) -> Token {
        Token::new(id, "alice", "USD", quantity)
    }

    fn produced(id: &str, quantity: u64) -> TokenEffect {
        TokenEffect::Produced(token(id, quantity))
    }

    fn consumed(id: &str) -> TokenEffect {
        TokenEffect::Consumed(id.into())
    }

    fn unlocked(spender: &str) -> TokenEffect {
        TokenEffect::Unlocked { spender: spender.into(), fence: 1 }
    }

    /// What the spend `tx` of `bob` says that it did.
    fn spent(inputs: &[&str], outputs: &[(&str, u64)]) -> TokenEffect {
        let transaction = Transaction {
            id: "tx".into(),
            spender: "bob".into(),
            consumed: inputs.iter().copied().map(TokenId::from).collect(),
            produced: outputs.iter().map(|(id, quantity)| token(id, *quantity)).collect(),
        };
        TokenEffect::Spent(Arc::new(SpendRow { transaction, body: Fingerprint(1) }))
    }

    /// An audit that has seen tokens `a` of 10 and `b` of 20 come.
    fn audit() -> TokenAudit {
        audit_of(&[produced("a", 10), produced("b", 20)])
    }

    /// An audit that has seen this, and found nothing wrong with it.
    #[track_caller]
    fn audit_of(effects: &[TokenEffect]) -> TokenAudit {
        let mut audit = TokenAudit::default();
        sees(&mut audit, effects, &[]);
        audit
    }

    /// What a step does to the audit, and what is found.
    #[track_caller]
    fn sees(audit: &mut TokenAudit, effects: &[TokenEffect], found: &[(&str, &str)]) {
        let mut findings = Findings::default();
        audit.step(OFFSET, effects, &mut findings);
        let found =
            found.iter().map(|(token, what)| format!("frame at offset {OFFSET}: token {token}: {what}"));
        assert_eq!(findings.0, found.collect::<Vec<_>>());
    }

    #[track_caller]
    fn finds(effects: &[TokenEffect], token: &str, what: &str) {
        sees(&mut audit(), effects, &[(token, what)]);
    }

    #[track_caller]
    fn finds_nothing(effects: &[TokenEffect]) {
        sees(&mut audit(), effects, &[]);
    }

    /// A spend of `bob` after the end of his lock: what goes and comes, and what its row says of both.
    fn spend(
        gone: &[&str],
        come: &[(&str, u64)],
        inputs: &[&str],
        outputs: &[(&str, u64)],
    ) -> Vec<TokenEffect> {
        let gone = gone.iter().map(|id| consumed(id));
        let come = come.iter().map(|(id, quantity)| produced(id, *quantity));
        [unlocked("bob")].into_iter().chain(gone).chain(come).chain([spent(inputs, outputs)]).collect()
    }

    /// One that does what its row says.
    fn plain_spend(inputs: &[&str], outputs: &[(&str, u64)]) -> Vec<TokenEffect> {
        spend(inputs, outputs, inputs, outputs)
    }

    fn store_of(tokens: &[(&str, u64)]) -> MemoryStore {
        let mut store = MemoryStore::new(1);
        tokens.iter().for_each(|(id, quantity)| store.token_effect(&produced(id, *quantity)));
        store
    }

    #[track_caller]
    fn ends_with(audit: TokenAudit, store: &[(&str, u64)], found: &[(&str, &str)]) {
        let mut findings = Findings::default();
        audit.finish(&store_of(store), &mut findings);
        let found = found.iter().map(|(token, what)| format!("token {token}: {what}"));
        assert_eq!(findings.0, found.collect::<Vec<_>>());
    }

    #[test]
    fn a_spend_that_adds_up_is_no_finding() {
        let (mut audit, outputs) = (audit(), [("tx:0", 25), ("tx:1", 5)]);
        sees(&mut audit, &plain_spend(&["a", "b"], &outputs), &[]);
        ends_with(audit, &outputs, &[]);
    }

    #[test]
    fn a_token_is_produced_once() {
        finds(&[produced("a", 10)], "a", "it is produced and lived already");
        finds_nothing(&[produced("c", 10)]);
    }

    #[test]
    fn what_is_spent_has_lived() {
        let what = "it is spent and did not live";
        finds(&plain_spend(&["ghost"], &[("tx:0", 1)]), "ghost", what);
        // An update has taken it away in the same frame.
        let mut audit = audit();
        sees(&mut audit, &[consumed("a")], &[]);
        sees(&mut audit, &plain_spend(&["a"], &[("tx:0", 10)]), &[("a", what)]);
    }

    #[test]
    fn what_is_spent_does_not_live_on() {
        let outputs = [("tx:0", 30)];
        finds(&spend(&["b"], &outputs, &["a", "b"], &outputs), "a", "it is spent and lives on");
    }

    #[test]
    fn an_input_counts_once() {
        let outputs = [("tx:0", 20)];
        finds(&spend(&["a"], &outputs, &["a", "a"], &outputs), "a", "it is spent and did not live");
    }

    #[test]
    fn a_spend_pays_no_more_than_its_inputs() {
        finds(&plain_spend(&["a"], &[("tx:0", 11)]), "tx", "the spend pays more than its inputs");
        // Less is paid by one that redeems.
        finds_nothing(&plain_spend(&["a"], &[("tx:0", 9)]));
        // Sums beyond 64 bits are sums.
        let mut audit = audit_of(&[produced("x", u64::MAX), produced("y", u64::MAX)]);
        sees(&mut audit, &plain_spend(&["x", "y"], &[("tx:0", u64::MAX), ("tx:1", u64::MAX)]), &[]);
    }

    #[test]
    fn a_spend_takes_and_gives_what_it_says() {
        finds(&spend(&["a", "b"], &[], &["a"], &[]), "b", "it goes in a spend that does not name it");
        let what = "the spend names other outputs than it makes";
        finds(&spend(&["a"], &[("tx:0", 10)], &["a"], &[]), "tx", what);
        finds(&spend(&["a"], &[], &["a"], &[("tx:0", 10)]), "tx", what);
        finds(&spend(&["a"], &[("tx:0", 10)], &["a"], &[("tx:0", 1)]), "tx", what);
    }

    #[test]
    fn a_spend_follows_the_end_of_its_own_lock() {
        let what = "the spend does not follow the end of its lock";
        let after = |before: &[TokenEffect]| {
            let spend = [consumed("a"), produced("tx:0", 10), spent(&["a"], &[("tx:0", 10)])];
            [before, &spend].concat()
        };
        finds(&after(&[]), "tx", what);
        finds(&after(&[unlocked("carol")]), "tx", what);
        finds_nothing(&after(&[unlocked("carol"), unlocked("bob")]));
    }

    #[test]
    fn what_an_update_takes_no_spend_can_name() {
        let mut audit = audit();
        // It breaks the lock of bob, who then spends what is gone.
        sees(&mut audit, &[unlocked("bob"), consumed("a"), produced("c", 99)], &[]);
        let what = "the spend does not follow the end of its lock";
        sees(&mut audit, &[spent(&["a"], &[("c", 99)])], &[("tx", what)]);
    }

    #[test]
    fn updates_make_and_take_as_they_like() {
        finds_nothing(&[consumed("a"), unlocked("carol"), consumed("b"), produced("c", 1_000)]);
        finds_nothing(&[consumed("never-seen")]);
    }

    #[test]
    fn an_update_between_a_lock_and_its_spend_is_no_finding() {
        let command = |command| Command::Token(Box::new(command));
        let lock = |spender: &str, id: &str| {
            let (spender, ids, body) = (spender.into(), vec![id.into()], Fingerprint(1));
            command(TokenCommand::Lock(LockTokens {
                spender,
                ids: ids.into(),
                amount: 10,
                lease_ms: 1_000,
                body,
            }))
        };
        let request = SpendRequest::new("bob", vec![Output::new("dave", 4)]);
        let tokens = vec![token("a", 10), token("b", 20), token("c", 30)];
        let (gone, new) = (vec!["b".into(), "c".into()], vec![token("d", 500)]);
        let commands = [
            command(TokenCommand::Issue { tokens }),
            lock("bob", "a"),
            lock("carol", "b"),
            command(TokenCommand::Update { consumed: gone, produced: new }),
            command(TokenCommand::Spend(SpendTokens { request, body: Fingerprint(2), transaction: 5 })),
            command(TokenCommand::Issue { tokens: vec![token("e", 1)] }),
        ];
        let mut store = MemoryStore::new(1);
        let input =
            FrameInput { base_offset: OFFSET, time: 1, order: PrepareOrder::Arrival, commands: &commands };
        let effects = decide(&store, &input);
        effects.apply(1, &mut store);
        assert!(matches!(effects.outcome(4).token.as_deref(), Some(TokenOutcome::Spent(_))));
        let mut auditor = Auditor::default();
        auditor.frame(OFFSET, &commands, &effects, &store);
        assert_eq!(auditor.finish(&store), Vec::<String>::new());
    }

    #[test]
    fn what_lives_is_what_the_rows_say() {
        ends_with(audit(), &[("a", 10), ("b", 20)], &[]);
        let what = "it lives with another quantity than its rows say";
        ends_with(audit(), &[("a", 10), ("b", 21)], &[("b", what)]);
        ends_with(audit(), &[("a", 10), ("b", 20), ("c", 1)], &[("c", "it lives, and no row says so")]);
        ends_with(audit(), &[("a", 10)], &[("b", "its rows say that it lives, and it does not")]);
        // One that begins with what there is has nothing to add.
        ends_with(TokenAudit::from(&store_of(&[("z", 1)])), &[("z", 1)], &[]);
    }

    #[test]
    fn findings_are_bounded() {
        let count = u64::try_from(FINDINGS_MAX).unwrap() + 5;
        let all: Vec<TokenEffect> = (0..count).map(|number| produced(&number.to_string(), 1)).collect();
        let mut findings = Findings::default();
        audit_of(&all).finish(&store_of(&[]), &mut findings);
        assert_eq!(findings.0.len(), FINDINGS_MAX);
    }
}
