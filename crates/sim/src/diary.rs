//! What the clients know. A command that was answered is known; one that was refused at the door was never stored;
//! everything else is unknown and stays so until it is repeated and learned.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::command::{Admin, Command, Key};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::TransferId;
use holdfast_domain::shop::{CheckoutAnswer, CheckoutOrder, OrderId, ShopCommand, ShopOutcome, ShopRefusal};
use holdfast_domain::tokens::{Name, TokenOutcome};
use holdfast_domain::view::{Checkouts, Keys, Orders, Transfers};
use holdfast_engine::Refusal;
use holdfast_store::MemoryStore;

/// Names a submission.
pub type Ticket = u64;
/// Names a command among all that were ever sent.
pub type CommandNumber = usize;

/// What a client knows of one of its commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It never got past the door, or still waits there.
    NotTaken,
    /// It may have been stored, or not.
    Unknown,
    /// This was the latest answer.
    Answered(Outcome),
}

/// One command and what its sender knows.
#[derive(Debug)]
pub struct Entry {
    /// The command, byte for byte the same each time it is sent.
    pub command: Command,
    /// What is known.
    pub standing: Standing,
    /// How often it was sent.
    pub sent: u32,
}

impl Entry {
    /// Whether it is a spend that happened, or is about an order that was paid.
    pub fn is_spent(&self) -> bool {
        let Standing::Answered(outcome) = &self.standing else { return false };
        let is_paid = |answer: &CheckoutAnswer| {
            matches!(answer, CheckoutAnswer::Paid { .. } | CheckoutAnswer::AlreadyPaid { .. })
        };
        match (outcome.token.as_deref(), outcome.shop.as_deref()) {
            (Some(TokenOutcome::Spent(_)), _) => true,
            (_, Some(ShopOutcome::Checkout(answer) | ShopOutcome::Heard { now: answer, .. })) => {
                is_paid(answer)
            }
            _ => false,
        }
    }
}

/// Every command ever sent.
#[derive(Debug, Default)]
pub struct Diary {
    /// Every command by its place.
    pub entries: Vec<Entry>,
    waiting: BTreeMap<Ticket, Vec<CommandNumber>>,
    next_ticket: Ticket,
    /// Everything that was ever named.
    pub named: Named,
}

/// What was ever named, right or wrong, and can be looked up by its name alone.
#[derive(Debug, Default)]
pub struct Named {
    /// Movements of funds.
    pub funds: BTreeSet<TransferId>,
    /// Orders, those that inits number among them.
    pub orders: BTreeSet<OrderId>,
    /// Idempotency keys.
    pub keys: BTreeSet<Name>,
}

impl Named {
    fn note(&mut self, command: &Command) {
        match command {
            Command::Admin(
                Admin::FundsIn { id, .. }
                | Admin::FundsOutReserve { id, .. }
                | Admin::FundsOutCommit { id, .. }
                | Admin::FundsOutAbort { id, .. },
            ) => drop(self.funds.insert(*id)),
            Command::Shop(command) => {
                command.each_key(&mut |key| match key {
                    Key::Order(order) => drop(self.orders.insert(order.clone())),
                    Key::OrderNumbered(number) => {
                        self.orders.insert(number.to_string().parse().expect("a short text"));
                    }
                    _ => {}
                });
                if let ShopCommand::Checkout(CheckoutOrder { key: Some(key), .. }) = &**command {
                    self.keys.insert(key.key.clone());
                }
            }
            _ => {}
        }
    }
}

impl Diary {
    /// Transfers that may have a row: a prepare was answered, or its outcome is not known. One that was refused
    /// each time it was sent left nothing. Asked when nothing waits for an answer.
    pub fn may_exist(&self) -> BTreeSet<TransferId> {
        let sent = self.entries.iter().filter(|entry| entry.standing != Standing::NotTaken);
        sent.filter_map(|entry| entry.command.transfer()).collect()
    }

    /// Writes down commands that are about to be sent for the first time.
    pub fn write(&mut self, commands: Vec<Command>) -> Vec<CommandNumber> {
        let first = self.entries.len();
        for command in commands {
            self.named.note(&command);
            self.entries.push(Entry { command, standing: Standing::NotTaken, sent: 0 });
        }
        (first..self.entries.len()).collect()
    }

    /// The ticket under which these commands are sent now.
    pub fn send(&mut self, places: &[CommandNumber]) -> Ticket {
        places.iter().for_each(|place| self.entries[*place].sent += 1);
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, places.to_vec());
        self.next_ticket
    }

    /// They were refused at the door.
    pub fn refused(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// How many commands wait under that ticket.
    pub fn waiting(&self, ticket: Ticket) -> u64 {
        self.waiting.get(&ticket).map_or(0, |places| places.len() as u64)
    }

    /// An answer came. Hands back each command's place with what was known of it before and the new outcome.
    pub fn answered(
        &mut self,
        ticket: Ticket,
        answer: &Result<Vec<Outcome>, Refusal>,
    ) -> Vec<(CommandNumber, Standing, Outcome)> {
        let places = self.waiting.remove(&ticket).unwrap_or_default();
        match answer {
            Ok(outcomes) => {
                assert_eq!(outcomes.len(), places.len(), "one outcome per command");
                let learn = |(place, outcome): (CommandNumber, &Outcome)| {
                    let answered = Standing::Answered(outcome.clone());
                    let before = std::mem::replace(&mut self.entries[place].standing, answered);
                    (place, before, outcome.clone())
                };
                places.into_iter().zip(outcomes).map(learn).collect()
            }
            Err(Refusal::Unknown(_)) => {
                self.doubt(&places);
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    fn doubt(&mut self, places: &[CommandNumber]) -> u64 {
        for place in places {
            let standing = &mut self.entries[*place].standing;
            if !matches!(standing, Standing::Answered(_)) {
                *standing = Standing::Unknown;
            }
        }
        places.len() as u64
    }

    /// The hub is gone: whatever waits will get no answer. Returns how many commands that concerns.
    pub fn all_lost(&mut self) -> u64 {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.values().map(|places| self.doubt(places)).sum()
    }

    /// Commands that have had all the effect they can have: sent again, they must change nothing. Those are
    /// prepares that have a row, the fulfil or abort that a transfer took, everything about a transfer that has
    /// ended, movements of funds that were accepted, issues, spends and updates of tokens that were, and in the
    /// shop what is made, what is paid and words about tries that are over.
    pub fn settled(&self, store: &MemoryStore) -> Vec<CommandNumber> {
        let is_settled = |entry: &Entry| match (&entry.command, &entry.standing) {
            (Command::Prepare(_), Standing::Answered(outcome)) => outcome.state.is_some(),
            (Command::Fulfil(_) | Command::Abort(_), Standing::Answered(_)) => {
                let id = entry.command.transfer().expect("both are about one");
                store.transfer(id).is_some_and(|row| row.state.is_final())
            }
            (
                Command::Admin(
                    Admin::FundsIn { .. }
                    | Admin::FundsOutReserve { .. }
                    | Admin::FundsOutCommit { .. }
                    | Admin::FundsOutAbort { .. },
                ),
                Standing::Answered(outcome),
            ) => outcome.code.is_none(),
            // A lock, a renewal or an unlock may well do something the next time.
            (Command::Token(_), Standing::Answered(outcome)) => matches!(
                outcome.token.as_deref(),
                Some(TokenOutcome::Issued | TokenOutcome::Spent(_) | TokenOutcome::Updated { .. })
            ),
            (Command::Shop(command), Standing::Answered(outcome)) => {
                outcome.shop.as_deref().is_some_and(|outcome| shop_is_settled(store, command, outcome))
            }
            _ => false,
        };
        (0..self.entries.len()).filter(|place| is_settled(&self.entries[*place])).collect()
    }

    /// Transfers that were ever named by a command.
    pub fn transfers(&self) -> BTreeSet<TransferId> {
        self.entries.iter().filter_map(|entry| entry.command.transfer()).collect()
    }

    /// The commands whose outcome is not known.
    pub fn unknown(&self) -> Vec<CommandNumber> {
        let unknown = |place: &CommandNumber| self.entries[*place].standing == Standing::Unknown;
        (0..self.entries.len()).filter(unknown).collect()
    }
}

/// Whether a command to the shop, sent again, can change nothing.
fn shop_is_settled(store: &MemoryStore, command: &ShopCommand, outcome: &ShopOutcome) -> bool {
    match (command, outcome) {
        (
            ShopCommand::CreateUser { .. } | ShopCommand::CreateItem { .. } | ShopCommand::CreateOrder { .. },
            ShopOutcome::User(_)
            | ShopOutcome::Item(_)
            | ShopOutcome::Order(_)
            | ShopOutcome::Refused(ShopRefusal::Exists { .. }),
        ) => true,
        (ShopCommand::Checkout(CheckoutOrder { key: Some(key), .. }), _) => {
            // Under a key that is kept it gets the stored answer, or is refused; unless that answer is about an order that
            // another has taken the place of.
            store.request_key(&key.key).is_some_and(|row| {
                let stands = |answer: CheckoutAnswer| {
                    store.order(&row.order).is_some_and(|order| !order.is_of_an_earlier(answer.tr()))
                };
                row.answer.is_none_or(stands)
            })
        }
        (ShopCommand::Checkout(CheckoutOrder { order, key: None, .. }), _) => {
            store.order(order).is_some_and(|row| row.is_paid() || store.checkout(order).is_some())
        }
        (ShopCommand::Answer { key, .. }, _) => {
            store.checkout(&key.order_id).is_none_or(|open| open.tr != key.tr_num)
        }
        _ => false,
    }
}
