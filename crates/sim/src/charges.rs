//! What a shop charges in place of its users' credit, in some of the runs: positions of participants, or tokens of wallets. An
//! operator sets it, whoever checks out chooses the tokens, and payees meddle with the transfers.

use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction};
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::{Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::shop::{
    ByTokens, ByTransfers, Charge, Charging, CheckoutOrder, ChosenTokens, OrderId, Secret, ShopCommand,
    ShopEffect, TrNum, TryKey, UserId, Whole,
};
use holdfast_domain::tokens::{Name, Token, TokenId};
use holdfast_domain::view::Orders;
use holdfast_store::{MemoryStore, Tables};

use crate::random::Random;
use crate::vault_clients::WALLETS;
use crate::world::{UNIT, World};

/// What an order is taken to cost that nobody has seen yet.
const UNSEEN_COST: u64 = 12;

/// A transfer that waits for the decision of its checkout.
#[derive(Debug, Clone, Copy)]
struct WaitingCharge {
    id: TransferId,
    payer: ParticipantId,
    payee: ParticipantId,
}

/// What is known of the charges of one run.
#[derive(Debug, Default)]
pub struct Charges {
    positions: bool,
    tokens: bool,
    participants: u32,
    /// What was last seen to be charged.
    now: Charging,
    waiting: Vec<WaitingCharge>,
}

impl Charges {
    /// Those of one run; more often than not there are none. Tokens need a vault.
    pub fn draw(vault: bool, random: &mut Random) -> Charges {
        let (positions, tokens) =
            *random.pick(&[(false, false), (false, false), (true, false), (false, true), (true, true)]);
        Charges { positions, tokens: tokens && vault, ..Charges::default() }
    }

    /// Whether anything but credit is ever charged.
    pub const fn are_there(&self) -> bool {
        self.positions || self.tokens
    }

    /// Now and then the operator has something else charged: at once if it is still credit. Open checkouts go on as they began.
    pub fn set(&mut self, world: &World, random: &mut Random) -> Option<ShopCommand> {
        self.participants = world.participants;
        let often = if self.now.is_credit() { 60 } else { 4 };
        if !self.are_there() || !random.chance(often) {
            return None;
        }
        let secret = Secret(random.bytes());
        let by_position = self.positions && (!self.tokens || random.chance(50));
        let charging = match random.below(20) {
            0 => Charging::Credit,
            _ if by_position => {
                let seat = *random.pick(&world.seats);
                let unit = Amount(*random.pick(&[UNIT, UNIT / 4, UNIT / 10, 1_234, 0]));
                let stranger = ParticipantId(world.participants + 3);
                let payee = if random.chance(4) { stranger } else { seat.participant };
                Charging::Transfers(ByTransfers { payee, currency: seat.currency, unit, secret })
            }
            _ => {
                let currency = Currency::from_letters(*b"USD").expect("three capital letters");
                let wallet = if random.chance(70) { "shop" } else { *random.pick(&WALLETS) };
                let unit = *random.pick(&[1, 1, 1, 3, 0]);
                Charging::Tokens(ByTokens { wallet: wallet.into(), currency, unit, secret })
            }
        };
        Some(ShopCommand::SetCharging { charging })
    }

    /// Who pays an order: somebody who has what is charged.
    pub fn payer(&self, random: &mut Random) -> Option<UserId> {
        if !self.are_there() || random.chance(12) {
            return None;
        }
        let name = match &self.now {
            Charging::Credit => return None,
            Charging::Transfers(_) => format!("bank-{}", 1 + random.below(self.participants.into())),
            Charging::Tokens(_) => (*random.pick(&WALLETS)).to_owned(),
        };
        Some(name.parse().expect("a short text"))
    }

    /// A frame became durable.
    pub fn see(&mut self, effects: &Effects) {
        for effect in effects.all(|step| &step.shop) {
            match effect {
                ShopEffect::Charging(charging) => self.now = charging.clone(),
                ShopEffect::Opened(row) => {
                    let Some(Charge::Transfer { transfer, .. }) = row.charge else { continue };
                    let new = effects.all(|step| &step.transfers).find(|row| row.id == transfer);
                    self.waiting.extend(new.map(|row| WaitingCharge {
                        id: transfer,
                        payer: row.payer,
                        payee: row.payee,
                    }));
                }
                _ => {}
            }
        }
    }

    /// The names in which checkouts of a frame hold tokens.
    pub fn named(&self, effects: &Effects) -> impl Iterator<Item = Name> {
        effects.all(|step| &step.shop).filter_map(|effect| match effect {
            ShopEffect::Opened(row) => match row.charge {
                Some(Charge::Tokens { spender }) => Some(spender.to_string().into()),
                _ => None,
            },
            _ => None,
        })
    }

    /// The payee of a checkout's transfer gives it up, or guesses at its fulfilment; or somebody else tries to.
    pub fn meddle(&self, random: &mut Random) -> Option<Command> {
        if self.waiting.is_empty() || !random.chance(10) {
            return None;
        }
        let back = if random.chance(80) { random.index(3) } else { random.index(self.waiting.len()) };
        let WaitingCharge { id, payer, payee } = self.waiting[self.waiting.len().saturating_sub(1 + back)];
        Some(match random.below(10) {
            0..6 => Command::Abort(Abort::new(payee, id, 5104, Vec::new())),
            6..8 => Command::Abort(Abort::new(payer, id, 5104, Vec::new())),
            _ => Command::Fulfil(Fulfil::new(payee, id, FulfilAction::Commit, random.bytes())),
        })
    }

    /// Where tokens are charged, whoever checks out chooses some from what it sees in the vault.
    pub fn choose(&self, commands: &mut [ShopCommand], store: &MemoryStore, random: &mut Random) {
        let Charging::Tokens(by) = &self.now else { return };
        let mut made: Vec<(OrderId, UserId)> = Vec::new();
        for command in commands {
            match command {
                ShopCommand::CreateOrder { id, user } => made.push((id.clone(), user.clone())),
                ShopCommand::Checkout(CheckoutOrder { order, chosen, .. }) => {
                    let user = made.iter().find(|(id, _)| id == order).map(|(_, user)| user);
                    *chosen = tokens_for(by, order, user, store, random);
                }
                _ => {}
            }
        }
    }
}

/// Tokens for the next try of an order; now and then for another, or too few, or somebody else's, or none.
fn tokens_for(
    by: &ByTokens,
    order: &OrderId,
    user: Option<&UserId>,
    store: &MemoryStore,
    random: &mut Random,
) -> Option<Box<ChosenTokens>> {
    let known = store.order(order).map(|row| &row.order);
    let user = known.map(|known| &known.user_id).or(user)?;
    let unseen = Whole::new(UNSEEN_COST).expect("a small number");
    let wanted = by.quantity(known.map_or(unseen, |known| known.amount))?;
    let tried = known.and_then(|known| known.state.tr_num()).map_or(0, TrNum::get);
    let next = if random.chance(4) { tried + 2 } else { tried + 1 };
    let key = TryKey { order_id: order.clone(), tr_num: TrNum::try_from(u64::from(next)).ok()? };
    let (mut free, mut held, mut others) = (Vec::new(), Vec::new(), Vec::new());
    store.tokens(&mut |row| {
        let token = &row.token;
        let pays = &*token.kind.wallet == user.as_str()
            && token.kind.currency.as_bytes() == by.currency.letters()
            && &*token.kind.token_type == "token";
        match (pays, &row.holder) {
            (true, None) => free.push(token.clone()),
            (true, Some(_)) => held.push(token.id.clone()),
            (false, _) => others.push(token.id.clone()),
        }
    });
    held.sort_unstable();
    others.sort_unstable();
    let mut ids = enough(free, wanted, random).unwrap_or_default();
    match random.below(24) {
        0 if !others.is_empty() => ids.push(random.pick(&others).clone()),
        1..3 if !held.is_empty() => ids.push(random.pick(&held).clone()),
        3 => drop(ids.pop()),
        4 => ids.clear(),
        5 => return None,
        _ => {}
    }
    Some(Box::new(ChosenTokens::new(by.spender(&key), ids)))
}

/// Some that are worth so much, all of one notary; `None` if there are too few.
fn enough(mut free: Vec<Token>, wanted: u64, random: &mut Random) -> Option<Vec<TokenId>> {
    free.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let notary = free.get(random.index(free.len()))?.kind.notary.clone();
    free.retain(|token| token.kind.notary == notary);
    let (mut ids, mut worth) = (Vec::new(), 0);
    while worth < wanted && !free.is_empty() {
        let token = free.swap_remove(random.index(free.len()));
        worth += token.quantity;
        ids.push(token.id);
    }
    (worth >= wanted).then_some(ids)
}
