//! Short ways to write the things of a checkout, and a shop in memory whose topics and crashes the test
//! controls.

use std::collections::BTreeMap;

use holdfast_checkout::coordinator::{Effects, LogBounds, Record, Told};
use holdfast_checkout::order::Checkout;
use holdfast_checkout::participant::{Ledger, Pay, Stock};
use holdfast_checkout::*;

pub(crate) fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

pub(crate) fn key(order: &str, tr: u64) -> Key {
    Key { order_id: order.parse().unwrap(), tr_num: tr.try_into().unwrap() }
}

pub(crate) fn payment(user: &str, amnt: u64) -> Payment {
    Payment { user_id: user.parse().unwrap(), amnt: whole(amnt) }
}

pub(crate) fn items(lines: &[(&str, u64)]) -> Items {
    let line = |(id, amnt): &(&str, u64)| Line { id: id.parse().unwrap(), amnt: whole(*amnt) };
    Items::new(lines.iter().map(line).collect()).unwrap()
}

/// A message written as its JSON value.
pub(crate) fn message(key: &Key, value: &str) -> Message {
    let (key, _) = codec::to_json(&Message { key: key.clone(), body: Body::Decided(Verdict::Failed) });
    codec::decode(key.to_string().as_bytes(), value.as_bytes()).unwrap()
}

/// The types of messages, for a glance at what was sent.
pub(crate) fn types(messages: &[Message]) -> Vec<&'static str> {
    messages.iter().map(|message| message.body.type_name()).collect()
}

/// A shop in memory. Nothing moves unless the test moves it.
#[derive(Default)]
pub(crate) struct Shop {
    pub(crate) orders: BTreeMap<OrderId, Order>,
    pub(crate) pay: Ledger<Pay>,
    pub(crate) stock: Ledger<Stock>,
    /// Sent to the participants and not delivered.
    pub(crate) to_participants: Vec<Message>,
    /// Delivered, and may be delivered again.
    pub(crate) delivered: Vec<Message>,
    /// The topic `outcomes`. The place is the offset.
    pub(crate) log: Vec<Message>,
    /// Records before this one are no longer there.
    pub(crate) log_start: usize,
    /// The next record that the coordinator reads.
    pub(crate) read: usize,
    pub(crate) coordinator: Coordinator,
    /// The topic `outcome-offsets`.
    pub(crate) outcome_offset: Option<Offset>,
    /// How often each decision was sent.
    pub(crate) decisions: BTreeMap<Key, Vec<Verdict>>,
    pub(crate) alarms: Vec<Alarm>,
}

impl Shop {
    pub(crate) fn with(users: &[(&str, u64)], stock: &[(&str, u64)]) -> Shop {
        let mut shop = Shop::default();
        shop.pay.balances = users.iter().map(|(id, n)| (id.parse().unwrap(), whole(*n))).collect();
        shop.stock.balances = stock.iter().map(|(id, n)| (id.parse().unwrap(), whole(*n))).collect();
        shop
    }

    /// An order of these items at price 1 each.
    pub(crate) fn add_order(&mut self, id: &str, user: &str, lines: &[(&str, u64)]) {
        let mut order = Order::new(id.parse().unwrap(), user.parse().unwrap());
        for (item, amnt) in lines {
            order = order.with_item(item.parse().unwrap(), whole(*amnt), whole(1)).unwrap();
        }
        self.orders.insert(order.order_id.clone(), order);
    }

    pub(crate) fn order(&self, id: &str) -> &Order {
        &self.orders[&id.parse::<OrderId>().unwrap()]
    }

    /// The key of the order's last try.
    pub(crate) fn last_try(&self, id: &str) -> Option<Key> {
        let order = self.order(id);
        order.state.tr_num().map(|tr| order.key(tr))
    }

    pub(crate) fn checkout(&mut self, id: &str) -> Checkout {
        let checkout = self.order(id).checkout();
        if let Checkout::Started(moved) = &checkout {
            self.orders.insert(moved.order.order_id.clone(), moved.order.clone());
            self.send(moved.sent.clone());
        }
        checkout
    }

    /// Keeps what a handler of the coordinator did.
    pub(crate) fn keep(&mut self, effects: Effects) -> Vec<Message> {
        let sent = effects.sent.clone();
        for order in effects.orders {
            let before = self.orders.insert(order.order_id.clone(), order.clone()).unwrap();
            // A step may pass through `cancelling`, and a rebuild may make several moves of one order.
            assert_eq!(before.state.tr_num(), order.state.tr_num().min(before.state.tr_num()));
            assert!(!matches!(before.state, OrderState::Paid(_)), "{before:?} became {order:?}");
        }
        if let Some(offset) = effects.outcome_offset {
            assert!(self.outcome_offset < Some(offset), "outcome_offset fell to {offset}");
            self.outcome_offset = Some(offset);
        }
        self.alarms.extend(effects.alarms);
        self.send(effects.sent);
        sent
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            match (message.body.topic(), &message.body) {
                (Topic::Outcomes, Body::Decided(verdict)) => {
                    self.decisions.entry(message.key.clone()).or_default().push(*verdict);
                    self.log.push(message);
                }
                (Topic::Outcomes, _) => self.log.push(message),
                (Topic::Pay | Topic::Stock, _) => self.to_participants.push(message),
            }
        }
    }

    /// A participant handles a message.
    pub(crate) fn deliver(&mut self, message: &Message) {
        let (answer, alarms) = match message.body.topic() {
            Topic::Pay => self.pay.take(message),
            Topic::Stock => self.stock.take(message),
            Topic::Outcomes => unreachable!("participants do not read outcomes"),
        };
        self.alarms.extend(alarms);
        self.log.extend(answer);
    }

    pub(crate) fn deliver_next(&mut self, place: usize) {
        if !self.to_participants.is_empty() {
            let message = self.to_participants.remove(place % self.to_participants.len());
            self.deliver(&message);
            self.delivered.push(message);
        }
    }

    /// The coordinator reads one record.
    pub(crate) fn read_next(&mut self) -> Vec<Message> {
        let Some(message) = self.log.get(self.read) else { return Vec::new() };
        let record = Record { offset: self.read as Offset, message: message.clone() };
        self.read += 1;
        let effects = self.coordinator.handle(&self.orders, &record);
        self.keep(effects)
    }

    /// Everything that is left of the log is handled, but not stored, and taken back.
    pub(crate) fn read_in_vain(&mut self) {
        let known = self.coordinator.clone();
        let left = &self.log[self.read..];
        let before = self.coordinator.before(left.iter().map(|message| &message.key));
        let mut orders = self.orders.clone();
        for (offset, message) in (self.read as Offset..).zip(left) {
            let record = Record { offset, message: message.clone() };
            let moved = self.coordinator.handle(&orders, &record).orders;
            orders.extend(moved.into_iter().map(|order| (order.order_id.clone(), order)));
        }
        self.coordinator.take_back(before);
        assert_eq!(self.coordinator, known);
    }

    /// The coordinator is lost, and a new one starts.
    pub(crate) fn crash(&mut self) -> Vec<Message> {
        let bounds = LogBounds { start: self.log_start as Offset, end: self.log.len() as Offset };
        let records: Vec<Record> = (self.log_start..self.log.len())
            .map(|place| Record { offset: place as Offset, message: self.log[place].clone() })
            .collect();
        let (coordinator, effects) =
            Coordinator::rebuild(&self.orders, self.outcome_offset, bounds, &records);
        let brief = self.rebuilt_without_what_is_over(bounds, &records);
        assert_eq!(brief, (coordinator.clone(), effects.sent.clone(), effects.orders.clone()));
        self.coordinator = coordinator;
        self.read = self.log.len();
        self.keep(effects)
    }

    /// The same by whoever passes over tries that the log has ended, if their orders are not open.
    fn rebuilt_without_what_is_over(
        &self,
        bounds: LogBounds,
        records: &[Record],
    ) -> (Coordinator, Vec<Message>, Vec<Order>) {
        let (first, _) = bounds.first_to_read(self.outcome_offset);
        let mut told = Told::default();
        records.iter().filter(|record| record.offset >= first).for_each(|record| told.hear(&record.message));
        let is_open = |id: &OrderId| {
            let state = self.orders.get(id).map(|order| order.state);
            matches!(state, Some(OrderState::Pending(_) | OrderState::Cancelling(_)))
        };
        let wanted = |key: &Key| is_open(&key.order_id) || !told.is_over(key);
        let some = records.iter().filter(|record| wanted(&record.message.key));
        let (coordinator, effects) = Coordinator::rebuild(&self.orders, self.outcome_offset, bounds, some);
        (coordinator, effects.sent, effects.orders)
    }

    pub(crate) fn cancel(&mut self, key: &Key) -> Vec<Message> {
        let effects = self.coordinator.cancel(&self.orders, key);
        self.keep(effects)
    }

    pub(crate) fn retry(&mut self, key: &Key) -> Vec<Message> {
        let effects = self.coordinator.retry(&self.orders, key);
        self.keep(effects)
    }

    /// Everything that was sent is delivered and read.
    pub(crate) fn run(&mut self) {
        while !self.to_participants.is_empty() || self.read < self.log.len() {
            self.deliver_next(0);
            self.read_next();
        }
    }

    pub(crate) fn credit(&self, user: &str) -> u64 {
        self.pay.balances[&user.parse::<UserId>().unwrap()].get()
    }

    pub(crate) fn stock_of(&self, item: &str) -> u64 {
        self.stock.balances[&item.parse::<ItemId>().unwrap()].get()
    }

    pub(crate) fn credit_in_all(&self) -> u64 {
        self.pay.balances.values().map(|credit| credit.get()).sum()
    }

    pub(crate) fn stock_in_all(&self) -> u64 {
        self.stock.balances.values().map(|stock| stock.get()).sum()
    }
}
