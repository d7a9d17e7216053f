//! The bytes of shop effects that enter the audit chain. A frame without any adds none, so the chain of a log from before
//! there was a shop stays what it was.

use super::bytes::{UNDECIDED, sides_byte};
use super::{
    Alarm, Answer, AskedStep, Body, Charge, Charging, CheckoutAnswer, CheckoutRow, KeyRow, Message,
    ShopEffect, ShopMessage, ShopOutcome, ShopRefusal, TryKey, Verdict, Waits,
};
use crate::codec::{Chained, Put};
use crate::effects::Effects;

/// Stands before the shop's part, which only frames with a shop have.
const SHOP: u8 = b'S';
/// Stands before a charge by tokens.
const TOKENS: u8 = b'T';

impl Effects {
    pub(crate) fn write_shop_digest(&self, out: &mut Vec<u8>) {
        let outcomes = self.all(|step| &step.outcomes);
        let mut outcomes = outcomes.filter_map(|outcome| outcome.shop.as_deref()).peekable();
        let (effects, messages) = (self.all(|step| &step.shop), self.all(|step| &step.shop_messages));
        let alarms = self.all(|step| &step.shop_alarms);
        let counts = [effects.clone().count(), messages.clone().count(), alarms.clone().count()];
        if counts == [0; 3] && outcomes.peek().is_none() {
            return;
        }
        out.push(SHOP);
        counts.iter().for_each(|count| put(out, *count as u64));
        effects.for_each(|effect| effect.write(out));
        let mut before = None;
        for ShopMessage { outside, message, .. } in messages {
            write_message(out, *outside, message, before.replace(&message.key));
        }
        alarms.for_each(|alarm| write_alarm(out, alarm));
        outcomes.for_each(|outcome| outcome.write(out));
    }
}

/// The form of the shop's part.
type Lies = Chained<4>;

fn put(out: &mut Vec<u8>, fields: impl Put) {
    fields.put::<Lies>(out);
}

/// Adds fields behind the number of what they are.
fn tagged(out: &mut Vec<u8>, tag: u8, fields: impl Put) {
    out.push(tag);
    put(out, fields);
}

fn checkout(out: &mut Vec<u8>, row: &CheckoutRow) {
    put(out, (&row.order, row.tr, row.start, row.started_at, row.deadline, row.waits_since));
    put(out, (row.outside, row.pay, row.stock));
    out.push(row.undo.map_or(UNDECIDED, sides_byte));
    put(out, (row.why, &row.keys));
    // Without one there are the bytes from before there were any.
    if let Some(charge) = &row.charge {
        if let Charge::Tokens { .. } = charge {
            out.push(TOKENS);
        }
        put(out, charge.id());
    }
}

/// The secret shows in the ids of transfers and in the names in which tokens are locked.
fn charging(out: &mut Vec<u8>, charging: &Charging) {
    match charging {
        Charging::Credit => out.push(0),
        Charging::Transfers(by) => tagged(out, 1, (by.payee, by.currency, by.unit)),
        Charging::Tokens(by) => tagged(out, 2, (&by.wallet, by.currency, by.unit)),
    }
}

fn key(out: &mut Vec<u8>, row: &KeyRow) {
    put(out, (&row.key, row.body, &row.order, row.answer.is_some()));
    row.answer.iter().for_each(|given| answer(out, *given));
    put(out, row.ends_at);
}

fn answer(out: &mut Vec<u8>, answer: CheckoutAnswer) {
    let (tag, detail) = match answer {
        CheckoutAnswer::Paid { .. } => (1, 0),
        CheckoutAnswer::AlreadyPaid { .. } => (2, 0),
        CheckoutAnswer::Failed { why, .. } => (3, why as u8),
        CheckoutAnswer::Open { waits: Waits { sides: waited, cancelling, .. }, .. } => {
            (4, sides_byte(waited) | u8::from(cancelling) << 2)
        }
    };
    out.extend_from_slice(&[tag, detail]);
    put(out, answer.tr());
}

/// The value follows from the order, so type and try tell a message. Messages of one try stand together and name it once.
fn write_message(out: &mut Vec<u8>, outside: bool, message: &Message, before: Option<&TryKey>) {
    let tag = match &message.body {
        Body::Pay(AskedStep::Forward(_)) => 1,
        Body::Pay(AskedStep::Rollback(_)) => 2,
        Body::Stock(AskedStep::Forward(_)) => 3,
        Body::Stock(AskedStep::Rollback(_)) => 4,
        Body::Paid(Answer::Taken(_)) => 5,
        Body::Paid(Answer::Refused(_)) => 6,
        Body::Paid(Answer::Undone(_)) => 7,
        Body::Stocked(Answer::Taken(_)) => 8,
        Body::Stocked(Answer::Refused(_)) => 9,
        Body::Stocked(Answer::Undone(_)) => 10,
        Body::Decided(Verdict::Succeeded) => 11,
        Body::Decided(Verdict::Failed) => 12,
    };
    let key = &message.key;
    let same = before == Some(key);
    out.push(tag | u8::from(outside) << 6 | u8::from(same) << 7);
    if !same {
        put(out, (key.tr_num, &key.order_id));
    }
}

fn write_alarm(out: &mut Vec<u8>, alarm: &Alarm) {
    put(out, alarm.name());
    alarm.key().iter().for_each(|key| put(out, &key.order_id));
}

impl ShopEffect {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            ShopEffect::User(row) => tagged(out, 1, row),
            ShopEffect::Item(row) => tagged(out, 2, row),
            ShopEffect::Order(row) => tagged(out, 3, &**row),
            ShopEffect::Credit { user, credit } => tagged(out, 4, (user, credit)),
            ShopEffect::Stock { item, stock } => tagged(out, 5, (item, stock)),
            ShopEffect::Moved { order, state, failed } => tagged(out, 6, (order, state, failed)),
            ShopEffect::Opened(row) => {
                out.push(7);
                checkout(out, row);
            }
            ShopEffect::Closed(end) => {
                tagged(out, 8, &end.order);
                answer(out, end.answer);
            }
            ShopEffect::KeyPut(row) => {
                out.push(9);
                key(out, row);
            }
            ShopEffect::KeyEnded(key) => tagged(out, 10, key),
            ShopEffect::Outside(outside) => tagged(out, 11, outside),
            ShopEffect::Charging(now) => {
                out.push(12);
                charging(out, now);
            }
        }
    }
}

impl ShopOutcome {
    /// Effects say what was done; here it is enough to tell the answers apart.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            ShopOutcome::User(row) => tagged(out, 65, row),
            ShopOutcome::Item(row) => tagged(out, 66, (&row.id, row.stock)),
            ShopOutcome::Order(row) => tagged(out, 67, (&row.order.order_id, row.order.amount)),
            ShopOutcome::Initialised(count) => tagged(out, 68, u64::from(*count)),
            ShopOutcome::Checkout(given) => {
                out.push(69);
                answer(out, *given);
            }
            ShopOutcome::Heard { counts, now } => {
                tagged(out, 70, *counts);
                answer(out, *now);
            }
            ShopOutcome::Outside(outside) => tagged(out, 71, outside),
            ShopOutcome::Charging(now) => {
                out.push(73);
                charging(out, now);
            }
            ShopOutcome::Refused(refusal) => out.extend_from_slice(&[72, refusal.number()]),
        }
    }
}

impl ShopRefusal {
    const fn number(&self) -> u8 {
        match self {
            ShopRefusal::UnknownUser(_) => 1,
            ShopRefusal::UnknownItem(_) => 2,
            ShopRefusal::UnknownOrder(_) => 3,
            ShopRefusal::Exists { .. } => 4,
            ShopRefusal::InsufficientCredit { .. } => 5,
            ShopRefusal::InsufficientStock { .. } => 6,
            ShopRefusal::NotNow { .. } => 7,
            ShopRefusal::TooLarge(_) => 8,
            ShopRefusal::KeyReused => 9,
            ShopRefusal::Full { .. } => 10,
            ShopRefusal::TriesUsedUp(_) => 11,
            ShopRefusal::NotOutside(_) => 12,
            ShopRefusal::UnknownTry(_) => 13,
            ShopRefusal::Invalid(_) => 14,
            ShopRefusal::ChooseTokens { .. } => 20,
            ShopRefusal::CheckoutsOpen { .. } => 15,
            ShopRefusal::Replaced(_) => 16,
        }
    }
}
