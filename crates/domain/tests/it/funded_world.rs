//! Short words for tokens and for transfers that they pay for. Quantities and amounts here are whole units.

use std::collections::BTreeMap;

use holdfast_domain::command::Funding;
use holdfast_domain::tokens::{LockTokens, Name, SpendTokens, Token, TokenCommand};

use crate::memory::Memory;
use crate::tokens_world::{as_command, ids, lock_of, spend_of};
use crate::world::*;

pub const ALICE: &str = "alice";
pub const BOB: &str = "bob";
/// One whole unit as an amount.
pub const UNIT: i64 = 10_000;

pub fn usd_token(id: &str, wallet: &str, quantity: u64) -> Token {
    Token::new(id, wallet, "USD", quantity)
}

pub fn issue(tokens: Vec<Token>) -> Command {
    as_command(TokenCommand::Issue { tokens })
}

pub fn lock(spender: &str, names: &[&str], lease_ms: i64) -> Command {
    as_command(TokenCommand::Lock(LockTokens { lease_ms, ..lock_of(spender, names) }))
}

/// A spend of that number, to these wallets.
pub fn spend(spender: &str, outputs: &[(&str, u64)], transaction: u128) -> Command {
    as_command(TokenCommand::Spend(SpendTokens { transaction, ..spend_of(spender, outputs) }))
}

pub fn update(consumed: &[&str], produced: Vec<Token>) -> Command {
    as_command(TokenCommand::Update { consumed: ids(consumed), produced })
}

/// Transfer `n` of so many units from alice's wallet to bob's, with these tokens.
pub fn funded_of(n: u8, units: i64, names: &[&str]) -> Prepare {
    let prepare = prepare_of(n, units * UNIT);
    let funding = Funding::new(prepare.id, ALICE.into(), BOB.into(), ids(names));
    Prepare { amount: Amount(units * UNIT), funding: Some(Box::new(funding)), ..prepare }
}

pub fn funded(n: u8, units: i64, names: &[&str]) -> Command {
    prepared(funded_of(n, units, names))
}

/// The name under which transfer `n` holds tokens.
pub fn spender(n: u8) -> Name {
    id(u128::from(n)).to_string().into()
}

/// What each wallet has, and how much of that is under a lock.
pub fn wallets(memory: &Memory) -> BTreeMap<String, (u64, u64)> {
    let mut wallets: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in memory.tokens.values() {
        let (all, locked) = wallets.entry(row.token.kind.wallet.to_string()).or_default();
        *all += row.token.quantity;
        *locked += if row.holder.is_some() { row.token.quantity } else { 0 };
    }
    wallets
}

pub fn wallet(world: &World, name: &str) -> (u64, u64) {
    wallets(&world.memory).get(name).copied().unwrap_or_default()
}

/// A scheme in which alice has 100 in tokens of 60 and 40, and bob nothing.
pub fn with_tokens() -> World {
    let mut world = World::roomy();
    world.frame(&[issue(vec![usd_token("a60", ALICE, 60), usd_token("a40", ALICE, 40)])]);
    world
}
