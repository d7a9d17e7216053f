//! The participants' side: payments and everything that clients do with them, right and wrong.

use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction, Funding, Prepare};
use holdfast_domain::ids::{Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::tokens::{Name, TokenId};

use crate::random::Random;
use crate::vault_clients::VaultClients;
use crate::world::{UNIT, World};

/// A payment that somebody wants to make.
#[derive(Debug, Clone)]
struct Payment {
    prepare: Prepare,
    preimage: [u8; 32],
}

/// All payments so far.
#[derive(Debug, Default)]
pub struct Clients {
    payments: Vec<Payment>,
    latest_expiration: Millis,
    /// Tokens that pay for the next payment.
    means: Option<TokenMeans>,
}

/// Tokens of a wallet, and how much is to be paid with them.
#[derive(Debug, Clone)]
pub struct TokenMeans {
    /// Whose they are.
    pub wallet: Name,
    /// Who gets the amount.
    pub payee: Name,
    /// Their currency.
    pub currency: Currency,
    /// Which.
    pub ids: Vec<TokenId>,
    /// How much.
    pub quantity: i64,
}

impl Clients {
    /// No payment runs out after this.
    pub const fn latest_expiration(&self) -> Millis {
        self.latest_expiration
    }

    /// The commands of one submission.
    pub fn act(
        &mut self,
        world: &World,
        now: Millis,
        vault: Option<&VaultClients>,
        random: &mut Random,
    ) -> Vec<Command> {
        self.fund(vault, now, random);
        if random.chance(15) {
            return self.all_about_one(world, now, random);
        }
        let count = if random.chance(10) { random.size(6, 14) } else { random.size(1, 4) };
        (0..count).map(|_| self.one(world, now, random)).collect()
    }

    /// Where there are tokens, some of the payments are made with them.
    fn fund(&mut self, vault: Option<&VaultClients>, now: Millis, random: &mut Random) {
        self.means = vault.filter(|_| random.chance(45)).and_then(|vault| vault.means(now, random));
    }

    fn one(&mut self, world: &World, now: Millis, random: &mut Random) -> Command {
        if self.payments.is_empty() || random.chance(42) {
            return self.new_payment(world, now, random);
        }
        // Mostly the latest payments, so that many are still open.
        let back = if random.chance(75) { random.index(12) } else { random.index(self.payments.len()) };
        let place = self.payments.len().saturating_sub(1 + back);
        let payment = &self.payments[place];
        match random.below(100) {
            0..55 => fulfil(payment, random),
            55..70 => abort(payment, random),
            70..76 => wrong_preimage(payment, random),
            76..84 => wrong_party(payment, world, random),
            84..90 => modified(payment, random),
            _ => Command::Prepare(payment.prepare.clone()),
        }
    }

    /// Several commands for one new transfer in one submission, in a sensible order or in any.
    fn all_about_one(&mut self, world: &World, now: Millis, random: &mut Random) -> Vec<Command> {
        let prepare = self.new_payment(world, now, random);
        let payment = self.payments.last().expect("just made");
        let mut commands = vec![prepare];
        for _ in 0..random.size(1, 4) {
            commands.push(match random.below(6) {
                0 => Command::Prepare(payment.prepare.clone()),
                1 => modified(payment, random),
                2 => abort(payment, random),
                3 => wrong_preimage(payment, random),
                _ => fulfil(payment, random),
            });
        }
        if random.chance(25) {
            let last = commands.len() - 1;
            commands.swap(0, last);
        }
        commands
    }

    fn new_payment(&mut self, world: &World, now: Millis, random: &mut Random) -> Command {
        let (payer, payee) = world.pair(random);
        let preimage = random.bytes();
        let id = TransferId(random.wide());
        let fraction = if random.chance(30) { random.between(0, 9_999) } else { 0 };
        let expiration = now
            + match random.below(10) {
                0 => random.between(1, 30),
                1..=4 => random.between(200, 2_500),
                _ => random.between(2_500, 15_000),
            };
        let mut prepare = Prepare {
            source: payer.participant,
            id,
            payer: payer.participant,
            payee: payee.participant,
            amount: Amount(random.between(1, 7) * UNIT + fraction),
            expiration,
            currency: payer.currency,
            condition: Fulfil::new(payee.participant, id, FulfilAction::Commit, preimage).digest,
            hash: [0; 32],
            funding: None,
            tail: match random.below(20) {
                0 => random.bytes().repeat(random.size(100, 250)),
                1 => random.bytes().repeat(random.size(1, 5)),
                _ => Vec::new(),
            },
        };
        if let Some(TokenMeans { wallet, payee, currency, ids, quantity }) = self.means.take() {
            prepare.currency = currency;
            prepare.amount = Amount(quantity * UNIT + if random.chance(4) { 1 } else { 0 });
            prepare.funding = Some(Box::new(Funding::new(id, wallet, payee, ids)));
        }
        if random.chance(8) {
            break_a_rule(&mut prepare, world, now, random);
        }
        let prepare = prepare.hashed();
        self.latest_expiration = self.latest_expiration.max(prepare.expiration + 1);
        self.payments.push(Payment { prepare: prepare.clone(), preimage });
        Command::Prepare(prepare)
    }
}

fn break_a_rule(prepare: &mut Prepare, world: &World, now: Millis, random: &mut Random) {
    match random.below(6) {
        0 => prepare.amount = Amount(0),
        1 => prepare.amount = Amount(i64::MAX),
        2 => prepare.payee = ParticipantId(world.participants + 7),
        3 => prepare.payee = prepare.payer,
        4 => prepare.expiration = now - random.between(0, 500),
        _ => prepare.source = prepare.payee,
    }
}

fn fulfil(payment: &Payment, random: &mut Random) -> Command {
    let action = if random.chance(70) { FulfilAction::Commit } else { FulfilAction::Reserve };
    let Prepare { payee, id, .. } = payment.prepare;
    Command::Fulfil(Fulfil::new(payee, id, action, payment.preimage))
}

fn abort(payment: &Payment, random: &mut Random) -> Command {
    let code = *random.pick(&[5000, 5101, 5104]);
    let tail = if random.chance(20) { random.bytes().to_vec() } else { Vec::new() };
    Command::Abort(Abort::new(payment.prepare.payee, payment.prepare.id, code, tail))
}

fn wrong_preimage(payment: &Payment, random: &mut Random) -> Command {
    let Prepare { payee, id, .. } = payment.prepare;
    Command::Fulfil(Fulfil::new(payee, id, FulfilAction::Commit, random.bytes()))
}

fn wrong_party(payment: &Payment, world: &World, random: &mut Random) -> Command {
    let stranger = ParticipantId(1 + payment.prepare.payee.0 % world.participants);
    let id = payment.prepare.id;
    if random.chance(50) {
        Command::Fulfil(Fulfil::new(stranger, id, FulfilAction::Commit, payment.preimage))
    } else {
        Command::Abort(Abort::new(stranger, id, 5000, Vec::new()))
    }
}

fn modified(payment: &Payment, random: &mut Random) -> Command {
    let mut prepare = payment.prepare.clone();
    match random.below(3) {
        0 => prepare.amount.0 = prepare.amount.0.wrapping_add(1).max(1),
        1 => prepare.expiration += 1,
        _ => prepare.condition[0] ^= 1,
    }
    Command::Prepare(prepare.hashed())
}
