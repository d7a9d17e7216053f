//! The shop in the hub: users with credit, items with stock, orders, and the checkout that takes both or neither.
//!
//! The saga itself is `holdfast-checkout`: its participants, order row and coordinator know nothing of the hub. Here their
//! messages are handed on inside the frame until none is left, so with both sides inside a checkout comes to its end within
//! its own record. A side may be outside: then its messages are only sent, its answers come back as commands, and the
//! checkout stays open between frames as a [`CheckoutRow`] until it is decided and all is given back, or its deadline ends
//! it.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `decide` | users, items, orders: made, filled, changed |
//! | `init` | many rows at once, by their numbers |
//! | `checkout` | checkout, answers from outside, cancel, retry, deadlines |
//! | `asked` | the same where both sides are outside for good |
//! | `bytes` | the fields of rows and commands, in every form of bytes |
//! | `charge` | payments by transfers or tokens in place of the users' credit |
//! | `charges` | the same where the steps of a checkout are transactions of their own |
//! | `hold` | which tokens pay, and in whose name they are locked |
//! | `run` | the messages of one try, handed on until none is left |
//! | `digest` | what enters the audit chain |
//! | `overlay` | changes inside a frame |
//! | `rows` | what is stored, what changes it, what is answered |
//! | `tally` | what checkouts came to, counted |
//! | `limits` | every bound, with its name |

mod asked;
mod bytes;
pub mod callers;
mod charge;
mod charges;
mod checkout;
mod decide;
mod digest;
mod hold;
mod init;
pub mod limits;
mod overlay;
mod rows;
mod run;
mod tally;

pub use asked::{cancel_due, decide_asked};
pub use charge::{ByTokens, ByTransfers, CHARGE_ABORTED, CHARGE_MARGIN_MS, Charge, Charging, Secret};
pub use charges::{Charges, Reserved};
pub use checkout::spoken;
pub use hold::{ChosenTokens, Met};
pub use holdfast_checkout::{
    Alarm, Answer, Body, ItemId, Items, Key as TryKey, Line, Message, Order, OrderId, OrderState, Payment,
    Step as AskedStep, Topic, TrNum, UserId, Verdict, Whole,
};
pub use init::init_in_pieces;
pub use rows::{
    CheckoutAnswer, CheckoutEnd, CheckoutRow, ItemRow, KeyRow, OrderRow, ShopCounts, ShopEffect, ShopMessage,
    ShopOutcome, ShopRefusal, SideBranch, SideRow, SideSaid, UserRow, Waits, Why,
};
pub use tally::Tally;

pub(crate) use checkout::end_due;
pub(crate) use decide::decide_shop;
pub(crate) use overlay::ShopChanges;

use crate::command::Key;
use crate::numbered::numbered;
use crate::tokens::{Fingerprint, Name};

numbered! {
    /// One of the two sides of a checkout, with the name of the topic that it reads.
    pub enum Side: u8, name {
        /// Takes the user's credit.
        Pay = 1 => "pay",
        /// Takes the items' stock.
        Stock = 2 => "stock",
    }
}

/// Some of the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sides {
    /// The payment side is one of them.
    pub pay: bool,
    /// The stock side is one of them.
    pub stock: bool,
}

impl Sides {
    /// Neither.
    pub const NONE: Sides = Sides { pay: false, stock: false };
    /// Both.
    pub const BOTH: Sides = Sides { pay: true, stock: true };

    /// Whether that side is one of them.
    #[must_use]
    pub const fn has(self, side: Side) -> bool {
        match side {
            Side::Pay => self.pay,
            Side::Stock => self.stock,
        }
    }

    /// These, and the payment side too if it is said so.
    #[must_use]
    pub const fn and_pay(self, pay: bool) -> Sides {
        Sides { pay: self.pay || pay, ..self }
    }

    /// Whether it is neither.
    #[must_use]
    pub const fn is_none(self) -> bool {
        !self.pay && !self.stock
    }
}

numbered! {
    /// What an outside participant says about a step of one try.
    pub enum Said: u8 {
        /// It has taken: `psucc`, `ssucc`.
        Taken = 1,
        /// It has not, and never will: `pfail`, `sfail`.
        Refused = 2,
        /// It has given back, or never took and never will: `csucc`, `asucc`.
        Undone = 3,
    }
}

/// The key under which a checkout is asked for: the same key with the same content gets the stored answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key, as the caller chose it: 1 to [`limits::KEY_BYTES_MAX`] bytes.
    pub key: Name,
    /// The content of the request.
    pub body: Fingerprint,
}

/// A call to check out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckoutOrder {
    /// The order.
    pub order: OrderId,
    /// How long it may stay undecided, from the frame's time: 1 to [`limits::DEADLINE_MS_MAX`].
    pub deadline_ms: u32,
    /// Under which key it is asked for.
    pub key: Option<IdempotencyKey>,
    /// What pays for it, where tokens do.
    pub chosen: Option<Box<ChosenTokens>>,
}

/// What is asked of the shop. Ids are given by the edge and never drawn here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each command says what its fields are")]
pub enum ShopCommand {
    /// A new user with its first credit.
    CreateUser { id: UserId, credit: Whole },
    /// A new item: how many there are, and what one costs.
    CreateItem { id: ItemId, stock: Whole, price: Whole },
    /// A new order without items, and who pays. Whether the user is there is not asked, as in the reference.
    CreateOrder { id: OrderId, user: UserId },
    /// Users of that credit each whose ids are `first`, `first + 1`, …, made or replaced, at most [`limits::INIT_ROWS_MAX`]. Like
    /// the other inits it is refused whole if it would replace something while a checkout is open.
    InitUsers { first: u64, count: u32, credit: Whole },
    /// Items likewise.
    InitItems { first: u64, count: u32, stock: Whole, price: Whole },
    /// Orders likewise, each with two lines of quantity 1 and of any user. Lines are of items `0` to `items` and orders of users
    /// `0` to `users`, neither included; the seed, which the edge draws, decides which. One of any item costs that price. Refused
    /// whole if one of the orders is pending or cancelling.
    InitOrders { first: u64, count: u32, items: u64, users: u64, price: Whole, seed: u64 },
    /// A line more for an order. The item gives the price.
    AddItem { order: OrderId, item: ItemId, quantity: Whole },
    /// More credit.
    AddFunds { user: UserId, amount: Whole },
    /// Less credit, if there is so much.
    TakeFunds { user: UserId, amount: Whole },
    /// More stock.
    AddStock { item: ItemId, amount: Whole },
    /// Less stock, if there is so much.
    TakeStock { item: ItemId, amount: Whole },
    /// Check an order out, or join the try that is under way.
    Checkout(CheckoutOrder),
    /// An outside participant answers about a try: which side speaks, and what it says.
    Answer { key: TryKey, side: Side, said: Said },
    /// An operator ends a try of this order that is not decided.
    Cancel { order: OrderId },
    /// An operator has what was not answered sent again, or a failed order checked out anew with that deadline.
    Retry { order: OrderId, deadline_ms: u32 },
    /// From here on these sides are outside. Tries that are open go on with the sides that they began with.
    SetOutside { outside: Sides },
    /// From here on the payment side charges these, while it is inside. Tries that are open go on as they began.
    SetCharging { charging: Charging },
}

/// The most bytes that numbers, presence marks and lengths of a checkout take beside its texts.
const OVERHEAD: usize = 128;

impl CheckoutOrder {
    /// As many bytes as its record may take, or a few more.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        let ids = self.chosen.iter().flat_map(|chosen| &chosen.ids);
        let chosen = self.chosen.as_ref().map_or(0, |chosen| chosen.spender.len())
            + ids.map(|id| id.as_str().len() + 2).sum::<usize>();
        let key = self.key.as_ref().map_or(0, |key| key.key.len());
        self.order.as_str().len() + key + chosen + OVERHEAD + crate::records::UNIT
    }
}

impl ShopCommand {
    /// Shows the orders whose past the decision may read, and tokens that pay for one.
    pub fn each_key<'a>(&'a self, show: &mut dyn FnMut(Key<'a>)) {
        if let ShopCommand::Checkout(CheckoutOrder { chosen: Some(chosen), .. }) = self {
            show(Key::Spender(&chosen.spender));
            chosen.ids.iter().for_each(|id| show(Key::Token(id)));
        }
        match self {
            ShopCommand::CreateOrder { id: order, .. }
            | ShopCommand::AddItem { order, .. }
            | ShopCommand::Checkout(CheckoutOrder { order, .. })
            | ShopCommand::Answer { key: TryKey { order_id: order, .. }, .. }
            | ShopCommand::Cancel { order }
            | ShopCommand::Retry { order, .. } => show(Key::Order(order)),
            ShopCommand::InitOrders { first, count, .. } => {
                (*first..).take(*count as usize).for_each(|number| show(Key::OrderNumbered(number)));
            }
            ShopCommand::CreateUser { .. }
            | ShopCommand::CreateItem { .. }
            | ShopCommand::InitUsers { .. }
            | ShopCommand::InitItems { .. }
            | ShopCommand::AddFunds { .. }
            | ShopCommand::TakeFunds { .. }
            | ShopCommand::AddStock { .. }
            | ShopCommand::TakeStock { .. }
            | ShopCommand::SetOutside { .. }
            | ShopCommand::SetCharging { .. } => {}
        }
    }
}
