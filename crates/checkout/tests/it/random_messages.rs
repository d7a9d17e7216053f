//! The messages of many tries, in any order and any number of times, against each of them once and in order.

use holdfast_checkout::participant::{Ledger, Pay, Row, Side, Stock};
use holdfast_checkout::{Answer, Body, Key, Message, Step};
use proptest::prelude::*;

use crate::world::{items, key, payment, whole};

/// What one try sends to both sides: the forward messages, and the rollbacks if it was cancelled.
fn messages_of(tr: u64, (user, amnt, cancelled): (u8, u64, bool)) -> Vec<Message> {
    let key = key("o1", tr);
    let (payment, items) =
        (payment(["u0", "u1"][usize::from(user % 2)], amnt), items(&[("a", amnt), ("b", 1)]));
    let mut bodies =
        vec![Body::Pay(Step::Forward(payment.clone())), Body::Stock(Step::Forward(items.clone()))];
    if cancelled {
        bodies.push(Body::Pay(Step::Rollback(payment)));
        bodies.push(Body::Stock(Step::Rollback(items)));
    }
    bodies.into_iter().map(|body| Message { key: key.clone(), body }).collect()
}

type Books = (Ledger<Pay>, Ledger<Stock>);

fn books(credit: u64, stock: u64) -> Books {
    let mut books: Books = Default::default();
    for user in ["u0", "u1"] {
        books.0.balances.insert(user.parse().unwrap(), whole(credit));
    }
    for item in ["a", "b"] {
        books.1.balances.insert(item.parse().unwrap(), whole(stock));
    }
    books
}

fn take(books: &mut Books, message: &Message) -> Message {
    let (answer, alarms) = match &message.body {
        Body::Pay(_) => books.0.take(message),
        _ => books.1.take(message),
    };
    assert_eq!(alarms, []);
    answer.unwrap()
}

/// The keys of all rows.
fn row_keys(books: &Books) -> Vec<(Key, bool, bool)> {
    fn of<S: Side>(ledger: &Ledger<S>, pay: bool) -> impl Iterator<Item = (Key, bool, bool)> {
        let rows = ledger
            .branches
            .iter()
            .flat_map(|(key, branch)| branch.rows().into_iter().map(move |row| (key, row)));
        rows.map(move |(key, row)| (key.clone(), pay, matches!(row, Row::Rollback(_))))
    }
    of(&books.0, true).chain(of(&books.1, false)).collect()
}

fn is_undone(body: &Body) -> bool {
    matches!(body, Body::Paid(Answer::Undone(_)) | Body::Stocked(Answer::Undone(_)))
}

fn is_rollback(body: &Body) -> bool {
    matches!(body, Body::Pay(Step::Rollback(_)) | Body::Stock(Step::Rollback(_)))
}

fn tries() -> impl Strategy<Value = Vec<(u8, u64, bool)>> {
    proptest::collection::vec((any::<u8>(), 0..9_u64, any::<bool>()), 1..8)
}

fn all(tries: &[(u8, u64, bool)]) -> Vec<Message> {
    (1..).zip(tries).flat_map(|(tr, one)| messages_of(tr, *one)).collect()
}

proptest! {
    /// With too little for all, who comes first matters; how often does not.
    #[test]
    fn repeats_leave_the_same_rows_and_money_and_get_the_same_answers(
        tries in tries(), credit in 0..30_u64, stock in 0..30_u64,
        repeats in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let messages = all(&tries);
        let mut once = books(credit, stock);
        let answers: Vec<Message> = messages.iter().map(|message| take(&mut once, message)).collect();
        let mut often = books(credit, stock);
        let mut repeats = repeats.iter();
        for (place, message) in messages.iter().enumerate() {
            prop_assert_eq!(&take(&mut often, message), &answers[place]);
            for repeat in repeats.by_ref().take(3) {
                let again = repeat.index(place + 1);
                prop_assert_eq!(&take(&mut often, &messages[again]), &answers[again]);
            }
        }
        prop_assert_eq!(once, often);
    }

    /// With enough for all, neither the order nor the repeats matter to the money. The rows are the same too,
    /// but for a forward message that came after its rollback: its row says that it was refused.
    #[test]
    fn any_order_leaves_the_same_money(
        tries in tries(), order in any::<u64>(), repeated in any::<u64>(),
    ) {
        let messages = all(&tries);
        let mut once = books(1_000, 1_000);
        messages.iter().for_each(|message| drop(take(&mut once, message)));
        let mut shuffled = messages.clone();
        let again = messages.iter().enumerate().filter(|(place, _)| repeated >> place & 1 == 1);
        shuffled.extend(again.map(|(_, message)| message.clone()));
        let mut state = order | 1;
        for place in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            shuffled.swap(place, usize::try_from((state >> 33) % (place as u64 + 1)).unwrap());
        }
        let mut mixed = books(1_000, 1_000);
        for message in &shuffled {
            let answer = take(&mut mixed, message);
            prop_assert_eq!(is_undone(&answer.body), is_rollback(&message.body));
        }
        prop_assert_eq!(&once.0.balances, &mixed.0.balances);
        prop_assert_eq!(&once.1.balances, &mixed.1.balances);
        prop_assert_eq!(row_keys(&once), row_keys(&mixed));
        for (key, branch) in &once.0.branches {
            if branch.rows().len() == 1 {
                prop_assert_eq!(branch, &mixed.0.branches[key]);
            }
        }
    }
}
