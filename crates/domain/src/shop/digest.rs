//! The bytes of shop effects that enter the audit chain. A frame without any adds none, so the chain of a log from before
//! there was a shop stays what it was.

use super::{
    Alarm, Answer, AskedStep, Body, Charge, Charging, CheckoutAnswer, CheckoutRow, KeyRow, Message, OrderRow,
    OrderState, ShopEffect, ShopMessage, ShopOutcome, ShopRefusal, SideRow, Sides, TryKey, Verdict, Waits,
    Why,
};
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
        counts.iter().for_each(|count| number(out, *count as u64));
        effects.for_each(|effect| effect.write(out));
        let mut before = None;
        for ShopMessage { outside, message, .. } in messages {
            write_message(out, *outside, message, before.replace(&message.key));
        }
        alarms.for_each(|alarm| write_alarm(out, alarm));
        outcomes.for_each(|outcome| outcome.write(out));
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u32::try_from(text.len()).expect("ids and names are short").to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn sides(sides: Sides) -> u8 {
    u8::from(sides.pay) | u8::from(sides.stock) << 1
}

fn why(why: Option<Why>) -> u8 {
    why.map_or(0, |why| why as u8)
}

fn state(out: &mut Vec<u8>, state: OrderState) {
    out.push(match state {
        OrderState::NotPaid(_) => 1,
        OrderState::Pending(_) => 2,
        OrderState::Paid(_) => 3,
        OrderState::Cancelling(_) => 4,
    });
    out.extend_from_slice(&state.tr_num().map_or(0, |tr| tr.get()).to_le_bytes());
}

fn order(out: &mut Vec<u8>, row: &OrderRow) {
    text(out, row.order.order_id.as_str());
    text(out, row.order.user_id.as_str());
    number(out, row.order.items.lines().len() as u64);
    for line in row.order.items.lines() {
        text(out, line.id.as_str());
        number(out, line.amnt.get());
    }
    number(out, row.order.amount.get());
    state(out, row.order.state);
    out.push(why(row.failed));
    out.extend_from_slice(&row.life.to_le_bytes());
}

fn side(out: &mut Vec<u8>, row: &SideRow) {
    let said = row.said.map_or(0, |said| said as u8);
    out.extend_from_slice(&[said, u8::from(row.undone), row.branch.map_or(0, |branch| branch as u8)]);
}

fn checkout(out: &mut Vec<u8>, row: &CheckoutRow) {
    text(out, row.order.as_str());
    out.extend_from_slice(&row.tr.get().to_le_bytes());
    number(out, row.start);
    for time in [row.started_at, row.deadline, row.waits_since] {
        out.extend_from_slice(&time.to_le_bytes());
    }
    out.push(sides(row.outside));
    side(out, &row.pay);
    side(out, &row.stock);
    out.extend_from_slice(&[row.undo.map_or(u8::MAX, sides), why(row.why)]);
    number(out, row.keys.len() as u64);
    row.keys.iter().for_each(|key| text(out, key));
    // Without one there are the bytes from before there were any.
    if let Some(charge) = &row.charge {
        if let Charge::Tokens { .. } = charge {
            out.push(TOKENS);
        }
        out.extend_from_slice(&charge.id().0.to_le_bytes());
    }
}

/// The secret shows in the ids of transfers and in the names in which tokens are locked.
fn charging(out: &mut Vec<u8>, charging: &Charging) {
    match charging {
        Charging::Credit => out.push(0),
        Charging::Transfers(by) => {
            out.push(1);
            out.extend_from_slice(&by.payee.0.to_le_bytes());
            out.extend_from_slice(&by.currency.letters());
            out.extend_from_slice(&by.unit.0.to_le_bytes());
        }
        Charging::Tokens(by) => {
            out.push(2);
            text(out, &by.wallet);
            out.extend_from_slice(&by.currency.letters());
            number(out, by.unit);
        }
    }
}

fn key(out: &mut Vec<u8>, row: &KeyRow) {
    text(out, &row.key);
    out.extend_from_slice(&row.body.0.to_le_bytes());
    text(out, row.order.as_str());
    out.push(u8::from(row.answer.is_some()));
    row.answer.iter().for_each(|given| answer(out, *given));
    out.extend_from_slice(&row.ends_at.to_le_bytes());
}

fn answer(out: &mut Vec<u8>, answer: CheckoutAnswer) {
    let (tag, detail) = match answer {
        CheckoutAnswer::Paid { .. } => (1, 0),
        CheckoutAnswer::AlreadyPaid { .. } => (2, 0),
        CheckoutAnswer::Failed { why, .. } => (3, why as u8),
        CheckoutAnswer::Open { waits: Waits { sides: waited, cancelling, .. }, .. } => {
            (4, sides(waited) | u8::from(cancelling) << 2)
        }
    };
    out.extend_from_slice(&[tag, detail]);
    out.extend_from_slice(&answer.tr().get().to_le_bytes());
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
        out.extend_from_slice(&key.tr_num.get().to_le_bytes());
        text(out, key.order_id.as_str());
    }
}

fn write_alarm(out: &mut Vec<u8>, alarm: &Alarm) {
    text(out, alarm.name());
    alarm.key().iter().for_each(|key| text(out, key.order_id.as_str()));
}

impl ShopEffect {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            ShopEffect::User(row) => {
                out.push(1);
                text(out, row.id.as_str());
                number(out, row.credit.get());
            }
            ShopEffect::Item(row) => {
                out.push(2);
                text(out, row.id.as_str());
                number(out, row.stock.get());
                number(out, row.price.get());
            }
            ShopEffect::Order(row) => {
                out.push(3);
                order(out, row);
            }
            ShopEffect::Credit { user, credit } => {
                out.push(4);
                text(out, user.as_str());
                number(out, credit.get());
            }
            ShopEffect::Stock { item, stock } => {
                out.push(5);
                text(out, item.as_str());
                number(out, stock.get());
            }
            ShopEffect::Moved { order, state: next, failed } => {
                out.push(6);
                text(out, order.as_str());
                state(out, *next);
                out.push(why(*failed));
            }
            ShopEffect::Opened(row) => {
                out.push(7);
                checkout(out, row);
            }
            ShopEffect::Closed(end) => {
                out.push(8);
                text(out, end.order.as_str());
                answer(out, end.answer);
            }
            ShopEffect::KeyPut(row) => {
                out.push(9);
                key(out, row);
            }
            ShopEffect::KeyEnded(key) => {
                out.push(10);
                text(out, key);
            }
            ShopEffect::Outside(outside) => out.extend_from_slice(&[11, sides(*outside)]),
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
            ShopOutcome::User(row) => {
                out.push(65);
                text(out, row.id.as_str());
                number(out, row.credit.get());
            }
            ShopOutcome::Item(row) => {
                out.push(66);
                text(out, row.id.as_str());
                number(out, row.stock.get());
            }
            ShopOutcome::Order(row) => {
                out.push(67);
                text(out, row.order.order_id.as_str());
                number(out, row.order.amount.get());
            }
            ShopOutcome::Initialised(count) => {
                out.push(68);
                number(out, u64::from(*count));
            }
            ShopOutcome::Checkout(given) => {
                out.push(69);
                answer(out, *given);
            }
            ShopOutcome::Heard { counts, now } => {
                out.extend_from_slice(&[70, u8::from(*counts)]);
                answer(out, *now);
            }
            ShopOutcome::Outside(outside) => out.extend_from_slice(&[71, sides(*outside)]),
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
