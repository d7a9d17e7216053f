//! Those who buy and sell: a few users, items and orders, so few that they meet all the time; callers who check out with and
//! without keys and ask again; an operator who cancels, retries, moves a side outside and back, and has other things charged.

use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::limits::{DEADLINE_MS_MAX, KEY_MS};
use holdfast_domain::shop::{
    CheckoutOrder, CheckoutRow, IdempotencyKey, ItemId, OrderId, ShopCommand, ShopEffect, Side, Sides, TrNum,
    TryKey, UserId, Whole,
};
use holdfast_domain::tokens::Fingerprint;
use holdfast_store::MemoryStore;

use crate::charges::Charges;
use crate::outside_sides::OutsideSides;
use crate::random::Random;
use crate::world::World;

/// How many users and items are made at most; more than are ever there at once are named.
const GOODS: u64 = 5;
/// Keys that callers share, right and wrong.
const KEYS: u64 = 14;
/// Orders that an init makes and replaces: their ids are numbers.
const NUMBERED: u64 = 3;

/// What the people of a shop remember.
#[derive(Debug, Default)]
pub struct ShopClients {
    users: u64,
    items: u64,
    orders: u64,
    /// What they have seen in the shop.
    seen: Seen,
    /// Whether this run ever moves a side outside.
    moves_outside: bool,
    /// The sides that are outside, and what they were asked.
    pub outside: OutsideSides,
    /// What is charged in place of credit.
    pub charges: Charges,
}

#[derive(Debug, Default)]
struct Seen {
    users: Vec<UserId>,
    items: Vec<ItemId>,
    orders: Vec<OrderId>,
}

impl ShopClients {
    /// The longest that anything of the shop takes to end by itself.
    pub const LONGEST_WAIT: Millis = KEY_MS;

    /// The people of one run.
    pub fn draw(charges: Charges, random: &mut Random) -> ShopClients {
        ShopClients {
            moves_outside: random.chance(75),
            outside: OutsideSides::draw(random),
            charges,
            ..ShopClients::default()
        }
    }

    /// The commands of one submission.
    pub fn act(&mut self, world: &World, store: &MemoryStore, random: &mut Random) -> Vec<Command> {
        if let Some(word) = self.charges.meddle(random) {
            return vec![word];
        }
        let mut commands = match random.below(100) {
            _ if self.seen.users.len() < 2 || self.seen.items.len() < 2 => self.open_shop(random),
            0..20 => self.order_at_once(random),
            20..30 => self.rush(random),
            _ => (0..random.size(1, 4)).map(|_| self.one(random)).collect(),
        };
        if let Some(charging) = self.charges.set(world, random) {
            commands.push(charging);
        }
        self.charges.choose(&mut commands, store, random);
        commands.into_iter().map(|command| Command::Shop(Box::new(command))).collect()
    }

    /// A frame became durable: what it made can be seen, and what it sent to outside sides is delivered.
    pub fn see(&mut self, effects: &Effects) {
        self.charges.see(effects);
        for effect in effects.all(|step| &step.shop) {
            match effect {
                ShopEffect::User(row) => note(&mut self.seen.users, &row.id),
                ShopEffect::Item(row) => note(&mut self.seen.items, &row.id),
                ShopEffect::Order(row) => note(&mut self.seen.orders, &row.order.order_id),
                _ => {}
            }
        }
        let sent = effects.all(|step| &step.shop_messages).filter(|message| message.outside);
        sent.for_each(|message| self.outside.asked(&message.message));
    }

    /// All that outside sides still owe to open checkouts.
    pub fn give_back(&mut self, open: &[std::sync::Arc<CheckoutRow>]) -> Vec<Command> {
        let mut commands = Vec::new();
        for row in open.iter().filter(|row| row.undo.is_some()) {
            let (owes, key) = (row.waits_for(), TryKey { order_id: row.order.clone(), tr_num: row.tr });
            for side in Side::ALL.into_iter().filter(|side| owes.has(*side) && row.outside.has(*side)) {
                commands.push(Command::Shop(Box::new(self.outside.undoes(&key, side))));
            }
        }
        commands
    }

    fn open_shop(&mut self, random: &mut Random) -> Vec<ShopCommand> {
        let mut commands = vec![self.create_user(random), self.create_item(random)];
        if self.moves_outside && random.chance(60) {
            commands.push(self.set_outside(random));
        }
        commands
    }

    fn create_user(&mut self, random: &mut Random) -> ShopCommand {
        self.users += 1;
        let id = user(if random.chance(90) { self.users } else { 1 });
        ShopCommand::CreateUser { id, credit: some(0, 90, random) }
    }

    fn create_item(&mut self, random: &mut Random) -> ShopCommand {
        self.items += 1;
        let id = item(if random.chance(90) { self.items } else { 1 });
        ShopCommand::CreateItem { id, stock: some(0, 20, random), price: some(0, 7, random) }
    }

    fn create_order(&mut self, random: &mut Random) -> ShopCommand {
        self.orders += 1;
        let id = if random.chance(5) { self.order(random) } else { named(&format!("o-{}", self.orders)) };
        let user = self.charges.payer(random).unwrap_or_else(|| self.user(random));
        ShopCommand::CreateOrder { id, user }
    }

    /// Made, filled and checked out in one submission.
    fn order_at_once(&mut self, random: &mut Random) -> Vec<ShopCommand> {
        let create = self.create_order(random);
        let ShopCommand::CreateOrder { id: order, .. } = create.clone() else { return vec![create] };
        let mut commands = vec![create];
        for _ in 0..random.size(1, 2) {
            commands.push(self.add_item(order.clone(), random));
        }
        if random.chance(70) {
            commands.push(self.checkout(order, random));
        }
        commands
    }

    /// Several callers at once: for one order, or for the last of an item.
    fn rush(&mut self, random: &mut Random) -> Vec<ShopCommand> {
        let one = self.order(random);
        let same = random.chance(50);
        (0..random.size(2, 4))
            .map(|_| {
                let order = if same { one.clone() } else { self.order(random) };
                self.checkout(order, random)
            })
            .collect()
    }

    fn one(&mut self, random: &mut Random) -> ShopCommand {
        let order = self.order(random);
        match random.below(100) {
            0..3 if self.users < GOODS => self.create_user(random),
            3..6 if self.items < GOODS => self.create_item(random),
            0..14 => self.create_order(random),
            14..26 => self.add_item(order, random),
            26..32 => ShopCommand::AddFunds { user: self.user(random), amount: some(0, 40, random) },
            32..36 => ShopCommand::TakeFunds { user: self.user(random), amount: some(0, 20, random) },
            36..42 => ShopCommand::AddStock { item: self.item(random), amount: some(0, 8, random) },
            42..45 => ShopCommand::TakeStock { item: self.item(random), amount: some(0, 4, random) },
            45..47 => init(random),
            47..50 if self.moves_outside => self.set_outside(random),
            50..55 => ShopCommand::Cancel { order: self.open_order(random).unwrap_or(order) },
            55..60 => {
                let order = self.open_order(random).unwrap_or(order);
                ShopCommand::Retry { order, deadline_ms: deadline(random) }
            }
            60..84 => {
                self.outside.answer(random).unwrap_or_else(|| self.checkout(self.order(random), random))
            }
            84..86 => self.stray_answer(order, random),
            _ => self.checkout(order, random),
        }
    }

    /// Where it is not credit that is charged, the payment side is mostly inside.
    fn set_outside(&self, random: &mut Random) -> ShopCommand {
        let (pay, stock) = *random.pick(&[(true, false), (false, true), (true, true), (false, false)]);
        let pay = pay && (!self.charges.are_there() || random.chance(20));
        ShopCommand::SetOutside { outside: Sides { pay, stock } }
    }

    /// An order that waited for somebody outside not long ago.
    fn open_order(&self, random: &mut Random) -> Option<OrderId> {
        self.outside.last_asked(random).filter(|_| random.chance(70))
    }

    /// Somebody speaks of a try that may never have been, for a side that may be inside.
    fn stray_answer(&mut self, order: OrderId, random: &mut Random) -> ShopCommand {
        let order = self.open_order(random).unwrap_or(order);
        let tr_num = TrNum::try_from(1 + random.below(3)).expect("a small number");
        let key = TryKey { order_id: order, tr_num };
        self.outside.stray(key, random)
    }

    fn checkout(&self, order: OrderId, random: &mut Random) -> ShopCommand {
        let key = random.chance(40).then(|| {
            let body = if random.chance(90) { 1 } else { 2 };
            // Mostly a caller has a key of its own for an order.
            let key = if random.chance(60) {
                format!("{order}/{}", random.below(2))
            } else {
                format!("k{}", random.below(KEYS))
            };
            IdempotencyKey { key: key.into(), body: Fingerprint(body) }
        });
        ShopCommand::Checkout(CheckoutOrder { order, deadline_ms: deadline(random), key, chosen: None })
    }

    fn add_item(&self, order: OrderId, random: &mut Random) -> ShopCommand {
        ShopCommand::AddItem { order, item: self.item(random), quantity: some(0, 3, random) }
    }

    fn user(&self, random: &mut Random) -> UserId {
        one_of(&self.seen.users, self.seen.users.len(), random).unwrap_or_else(|| numbered(random))
    }

    fn item(&self, random: &mut Random) -> ItemId {
        one_of(&self.seen.items, self.seen.items.len(), random).unwrap_or_else(|| numbered(random))
    }

    /// Mostly one of the latest; at times one that an init made, or that nobody did.
    fn order(&self, random: &mut Random) -> OrderId {
        one_of(&self.seen.orders, 8, random).unwrap_or_else(|| numbered(random))
    }
}

fn named<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a short text")
}

fn note<T: Clone + PartialEq>(seen: &mut Vec<T>, id: &T) {
    if !seen.contains(id) {
        seen.push(id.clone());
    }
}

/// One that was seen, mostly of the latest few; now and then none.
fn one_of<T: Clone>(seen: &[T], few: usize, random: &mut Random) -> Option<T> {
    let back = if random.chance(75) { random.index(few) } else { random.index(seen.len()) };
    let last = seen.len().checked_sub(1).filter(|_| !random.chance(7))?;
    Some(seen[last.saturating_sub(back)].clone())
}

fn user(number: u64) -> UserId {
    named(&format!("u-{number}"))
}

fn item(number: u64) -> ItemId {
    named(&format!("i-{number}"))
}

fn numbered<T: std::str::FromStr<Err: std::fmt::Debug>>(random: &mut Random) -> T {
    named(&random.below(NUMBERED).to_string())
}

fn some(low: u64, high: u64, random: &mut Random) -> Whole {
    Whole::new(low + random.below(high - low + 1)).expect("a small number")
}

fn init(random: &mut Random) -> ShopCommand {
    let count = u32::try_from(1 + random.below(NUMBERED)).expect("a few");
    let first = random.below(2);
    match random.below(5) {
        0 => ShopCommand::InitUsers { first, count, credit: some(0, 60, random) },
        1 => ShopCommand::InitItems { first, count, stock: some(0, 9, random), price: some(1, 6, random) },
        _ => {
            let seed = random.next();
            let (items, users) = (NUMBERED, NUMBERED);
            ShopCommand::InitOrders { first, count, items, users, price: some(1, 6, random), seed }
        }
    }
}

/// From a millisecond to a day; mostly so that it comes within the run.
fn deadline(random: &mut Random) -> u32 {
    let ms = match random.below(20) {
        0..3 => random.between(1, 5),
        3..8 => random.between(1, 300),
        8..17 => random.between(300, 6_000),
        17..19 => random.between(6_000, 30_000),
        _ => i64::from(DEADLINE_MS_MAX),
    };
    u32::try_from(ms).expect("at most a day")
}
