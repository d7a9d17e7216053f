//! Words for tokens: the vault, its commands, and the rows and effects that they lead to.

use std::sync::Arc;

pub use holdfast_domain::tokens::{
    Fingerprint, LEASE_MS_MAX, LockRow, LockTokens, NO_END, Output, SpendRequest, SpendRow, SpendTokens,
    Token, TokenCommand, TokenEffect, TokenId, TokenOutcome, TokenRefusal, Transaction,
};

use crate::world::*;

/// The lease of locks that do not say another.
pub const LEASE: i64 = 1_000;

impl World {
    /// With tokens of 10, 20, 30 … that `alice` owns, named `t1`, `t2`, `t3` …
    pub fn vault(count: u64) -> World {
        let mut vault = World::empty();
        let tokens = (1..=count).map(|n| token(&format!("t{n}"), n * 10)).collect();
        vault.frame(&[as_command(TokenCommand::Issue { tokens })]);
        vault
    }

    /// Decides one frame of token commands, of which only tokens and answers are looked at.
    pub fn tokens(&mut self, commands: Vec<TokenCommand>) -> (Vec<TokenOutcome>, Vec<TokenEffect>) {
        let commands: Vec<Command> = commands.into_iter().map(as_command).collect();
        let effects = self.frame(&commands);
        let answers = effects
            .all(|step| &step.outcomes)
            .map(|outcome| TokenOutcome::clone(outcome.token.as_ref().unwrap()));
        (answers.collect(), effects.tokens())
    }

    /// One command in a frame of its own has this answer and does exactly this.
    #[track_caller]
    pub fn gives(&mut self, command: TokenCommand, outcome: TokenOutcome, tokens: Vec<TokenEffect>) {
        let effects = self.frame(&[as_command(command)]);
        let outcomes = vec![of_tokens(outcome)];
        assert_effects(effects, Lists { tokens, outcomes, ..Lists::default() });
    }

    /// One command is refused and leaves nothing behind.
    #[track_caller]
    pub fn declines(&mut self, command: TokenCommand, refusal: TokenRefusal) {
        let before = self.memory.clone();
        self.gives(command, TokenOutcome::Refused(refusal), Vec::new());
        assert_eq!(self.memory, before);
    }

    /// Locks these, which must go well.
    #[track_caller]
    pub fn locked(&mut self, spender: &str, ids: &[&str]) -> Arc<LockRow> {
        match &self.tokens(vec![lock(spender, ids)]).0[0] {
            TokenOutcome::Locked(row) => Arc::clone(row),
            other => panic!("{other:?}"),
        }
    }

    /// Spends what is locked, which must go well.
    #[track_caller]
    pub fn spent(&mut self, command: TokenCommand) -> Arc<SpendRow> {
        match &self.tokens(vec![command]).0[0] {
            TokenOutcome::Spent(row) => Arc::clone(row),
            other => panic!("{other:?}"),
        }
    }

    /// Lets a transfer hold what `spender` has locked, as a prepare would.
    pub fn held_by_transfer(&mut self, spender: &str) {
        let row = Arc::make_mut(self.memory.locks.get_mut(spender).unwrap());
        (row.expires_at, row.funding) = (NO_END, Some("payee".into()));
    }

    pub fn holder(&self, id: &str) -> Option<&str> {
        self.memory.tokens[&TokenId::from(id)].holder.as_deref()
    }
}

pub fn as_command(command: TokenCommand) -> Command {
    Command::Token(Box::new(command))
}

pub fn of_tokens(outcome: TokenOutcome) -> Outcome {
    Outcome { token: Some(Arc::new(outcome)), ..no_transfer(None, Subject::Nothing, 0) }
}

// Commands.

pub fn token(id: &str, quantity: u64) -> Token {
    Token::new(id, "alice", "EUR", quantity)
}

pub fn ids(ids: &[&str]) -> Vec<TokenId> {
    ids.iter().map(|id| TokenId::from(*id)).collect()
}

pub fn issue(tokens: &[Token]) -> TokenCommand {
    TokenCommand::Issue { tokens: tokens.to_vec() }
}

/// A lock whose fields can still be changed.
pub fn lock_of(spender: &str, of: &[&str]) -> LockTokens {
    LockTokens {
        spender: spender.into(),
        ids: ids(of).into(),
        amount: 5,
        lease_ms: LEASE,
        body: Fingerprint(7),
    }
}

pub fn lock(spender: &str, of: &[&str]) -> TokenCommand {
    TokenCommand::Lock(lock_of(spender, of))
}

/// A spend of what `spender` holds, to these wallets.
pub fn spend_of(spender: &str, outputs: &[(&str, u64)]) -> SpendTokens {
    let outputs = outputs.iter().map(|(wallet, quantity)| Output::new(*wallet, *quantity)).collect();
    let request = SpendRequest::new(spender, outputs);
    SpendTokens { body: request.fingerprint(), request, transaction: 0xabc }
}

pub fn spend(spender: &str, outputs: &[(&str, u64)]) -> TokenCommand {
    TokenCommand::Spend(spend_of(spender, outputs))
}

pub fn fenced(spend: SpendTokens, fence: u64) -> TokenCommand {
    let request = SpendRequest { fence: Some(fence), ..spend.request };
    TokenCommand::Spend(SpendTokens { request, ..spend })
}

pub fn redeem(spender: &str, quantity: u64) -> TokenCommand {
    let request = SpendRequest::redeem(spender, quantity);
    TokenCommand::Spend(SpendTokens { body: request.fingerprint(), request, transaction: 0xabc })
}

pub fn update(consumed: &[&str], produced: &[Token]) -> TokenCommand {
    TokenCommand::Update { consumed: ids(consumed), produced: produced.to_vec() }
}

pub fn unlock(spender: &str, fence: Option<u64>) -> TokenCommand {
    TokenCommand::Unlock { spender: spender.into(), fence }
}

pub fn renew(spender: &str, fence: Option<u64>, lease_ms: i64) -> TokenCommand {
    TokenCommand::Renew { spender: spender.into(), fence, lease_ms }
}

// Rows and effects.

/// The id that transaction 0xabc gives its output number `n`.
pub fn made(n: usize) -> String {
    format!("00000000-0000-0000-0000-000000000abc.{n}")
}

/// The row that [`lock`] leaves.
pub fn lock_row(spender: &str, fence: u64, now: Millis, of: &[&str]) -> Arc<LockRow> {
    Arc::new(LockRow {
        spender: spender.into(),
        fence,
        since: now,
        expires_at: now + LEASE,
        amount: 5,
        body: Fingerprint(7),
        tokens: ids(of).into(),
        funding: None,
    })
}

pub fn spend_row(command: &SpendTokens, consumed: &[&str], produced: &[Token]) -> Arc<SpendRow> {
    let transaction = Transaction {
        id: "00000000-0000-0000-0000-000000000abc".into(),
        spender: command.request.spender.clone(),
        consumed: ids(consumed),
        produced: produced.to_vec(),
    };
    Arc::new(SpendRow { transaction, body: command.body })
}

pub fn produced(token: &Token) -> TokenEffect {
    TokenEffect::Produced(token.clone())
}

pub fn consumed(id: &str) -> TokenEffect {
    TokenEffect::Consumed(id.into())
}

pub fn locked(row: &Arc<LockRow>) -> TokenEffect {
    TokenEffect::Locked(Arc::clone(row))
}

pub fn unlocked(row: &LockRow) -> TokenEffect {
    TokenEffect::Unlocked { spender: row.spender.clone(), fence: row.fence }
}
