//! What edges ask: the same as the rows say, page by page, and without waiting for anybody.

use std::collections::BTreeSet;

use holdfast_domain::command::{Admin, SetEndpoint};
use holdfast_domain::ids::{HUB, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::{AccountKind, Name};
use holdfast_domain::registry::{Registry, Whose};
use holdfast_domain::transfers::TransferState;
use holdfast_domain::views::{NamedTransfer, TransferFilter};
use holdfast_postgres::Store;

use crate::world::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn balance(amount: Amount) -> Balance {
    Balance(i128::from(amount.0))
}

fn endpoint(participant: ParticipantId, kind: &str, value: &str) -> SetEndpoint {
    SetEndpoint::new(participant, kind.into(), value.into()).unwrap()
}

/// Transfers 1 to 24 between three participants, in every state that lasts; those that are open run out in FAR and the
/// three milliseconds after, several together.
fn lively(world: &World) -> (Node, [ParticipantId; 3]) {
    let mut node = Node::new(world, 2);
    let (one, _) = node.participant("one", 1_000, 1_000);
    let (two, _) = node.participant("two", 1_000, 32);
    let (three, _) = node.participant("Three", 0, 10);
    let parties = [one, two, three];
    let asked: Vec<_> = (0..24_u32)
        .map(|at| {
            let (payer, payee) = (parties[at as usize % 2], parties[2]);
            // Two has room for six of these only, and some ran out long ago.
            let expiration = if at % 8 == 7 { 1 } else { FAR + Millis::from(at / 3 % 4) };
            prepare(u128::from(at) + 1, payer.0, payee.0, 5, expiration)
        })
        .collect();
    node.ask(&asked);
    let ends: Vec<_> = (1..=24_u32)
        .filter_map(|id| match id % 4 {
            1 => Some(fulfil(u128::from(id), parties[2].0)),
            3 if id < 12 => Some(abort(u128::from(id), parties[2].0)),
            _ => None,
        })
        .collect();
    node.ask(&ends);
    (node, parties)
}

#[test]
fn the_registry_is_what_the_rows_say() {
    let Some((_world, mut node)) = node(1) else { return };
    let (payer, account) = node.participant("Payer", 1_000, 10);
    let (payee, _) = node.participant("payee", 0, 20);
    let eur = Admin::CreateParticipant { name: name("payer"), currency: "EUR".parse().unwrap() };
    assert_eq!(node.store.participant(&eur).unwrap().code, None);
    let inactive = Admin::SetParticipantActive { participant: payee, active: false };
    for (whose, kind, value) in [
        (payer, "B", "http://b"),
        (payer, "A", "http://a"),
        (HUB, "ALARM", "http://hub"),
        (payer, "B", "new"),
    ] {
        node.store.endpoint(&endpoint(whose, kind, value)).unwrap();
    }
    node.ask(&[prepare(1, payer.0, payee.0, 7, FAR)]);
    node.store.participant(&inactive).unwrap();

    let all = node.store.registry(Whose::Everybody).unwrap();
    let shown: Vec<_> =
        all.participants().iter().map(|row| (row.id, row.name.as_str().to_owned(), row.active)).collect();
    assert_eq!(shown, [(payer, "Payer".into(), true), (payee, "payee".into(), false)]);
    assert_eq!(all.accounts().len(), 6);
    assert_eq!(all.participant(ParticipantId(99)), None);
    let row = all.participant_named(name("PAYER")).unwrap();
    let currencies: Vec<String> = row.accounts.iter().map(|(currency, _)| currency.to_string()).collect();
    assert_eq!(currencies, ["USD", "EUR"], "in the order in which they were made");
    let position = all.account(account).unwrap();
    assert_eq!((position.kind, position.participant), (AccountKind::Position, payer));
    assert_eq!(position.value, balance(Amount::whole(7).unwrap()));
    assert_eq!(position.net_debit_cap, Amount::whole(10));
    let settlement = all.account(position.settlement()).unwrap();
    assert_eq!(settlement.kind, AccountKind::Settlement);
    assert_eq!(settlement.value, balance(Amount::whole(-1_000).unwrap()));
    let unlimited = all.account(row.accounts[1].1).unwrap();
    assert_eq!((unlimited.net_debit_cap, unlimited.active), (None, false));
    assert_eq!(all.endpoints(payer), [("A", "http://a"), ("B", "new")]);
    assert_eq!(all.endpoint(HUB, "ALARM"), Some("http://hub"));
    assert_eq!((all.endpoint(payee, "A"), all.endpoints(payee)), (None, vec![]));

    for whose in [Whose::Named(name("pAYER")), Whose::Numbered(payer)] {
        let one = node.store.registry(whose).unwrap();
        assert_eq!(one.participants(), [row], "{whose:?}");
        let own: Vec<_> = all.accounts().into_iter().filter(|row| row.participant == payer).collect();
        assert_eq!(one.accounts(), own, "{whose:?}");
        assert_eq!(one.endpoints(payer), all.endpoints(payer), "{whose:?}");
    }
    for whose in [Whose::Named(name("nobody")), Whose::Numbered(ParticipantId(u32::MAX))] {
        let none = node.store.registry(whose).unwrap();
        assert!(none.participants().is_empty() && none.accounts().is_empty(), "{whose:?}");
    }
    let hub = node.store.registry(Whose::Numbered(HUB)).unwrap();
    assert_eq!(hub.endpoint(HUB, "ALARM"), Some("http://hub"));
}

#[test]
fn a_transfer_is_shown_with_its_past() {
    let Some(world) = World::new() else { return };
    let (mut node, _) = lively(&world);
    world.set_clock(FAR + 2);
    node.expire();
    let mut states = BTreeSet::new();
    for id in 1..=24 {
        let story = node.store.transfer_shown(TransferId(id)).unwrap().unwrap();
        let row = &story.transfer.row;
        assert_eq!(node.store.transfer_now(TransferId(id)).unwrap().as_ref(), Some(row));
        states.insert(row.state);
        assert_eq!(story.history.last().unwrap().0, row.state, "{id}");
        let names: Vec<_> = story.history.iter().map(|(state, _)| *state).collect();
        let derived: Vec<_> = row.history().iter().map(|(state, _)| *state).collect();
        assert_eq!(names, derived, "{id}");
        assert!(story.history.is_sorted_by_key(|(_, at)| *at), "{id}");
        assert_eq!((story.history[0].1, story.history.last().unwrap().1), (row.prepared_at, row.changed_at));
        // Held against the append-only rows, which the story does not read.
        let rows = world.sql().query(
            "SELECT p.name, c.change::text, c.value::text FROM participant_position_change c
             JOIN participant_currency USING (participant_currency_id) JOIN participant p USING (participant_id)
             WHERE c.transfer_no = $1 ORDER BY c.batch_id",
            &[&i64::try_from(row.no.0).unwrap()],
        );
        let expected: Vec<(String, Balance, Balance)> = rows
            .unwrap()
            .iter()
            .map(|row| {
                let decimal = |at: usize| row.get::<_, String>(at).parse().unwrap();
                (row.get(0), decimal(1), decimal(2))
            })
            .collect();
        let changes = story.changes.iter();
        let shown: Vec<_> = changes
            .map(|change| {
                (change.participant.unwrap().as_str().to_owned(), balance(change.change), change.value)
            })
            .collect();
        assert_eq!(shown, expected, "{id}");
        assert!(!story.archived);
    }
    use TransferState as S;
    let ends =
        [S::Invalid, S::Reserved, S::Committed, S::AbortedError, S::AbortedRejected, S::ExpiredReserved];
    assert_eq!(states, BTreeSet::from(ends), "the test sees every kind of end");
    assert_eq!(node.store.transfer_shown(TransferId(99)).unwrap(), None);
    assert_eq!(node.store.transfer_now(TransferId(99)).unwrap(), None);
}

#[test]
fn an_invalid_transfer_may_name_nobody() {
    let Some((_world, mut node)) = node(1) else { return };
    let (payer, _) = node.participant("payer", 1_000, 10);
    node.ask(&[prepare(1, payer.0, u32::MAX, 5, FAR)]);
    let story = node.store.transfer_shown(TransferId(1)).unwrap().unwrap();
    assert_eq!(story.transfer.row.state, TransferState::Invalid);
    assert_eq!((story.transfer.payer, story.transfer.payee), (Some(name("payer")), None));
    assert_eq!((story.history.len(), story.changes.len()), (1, 0));
}

/// All pages one after another.
fn walk(store: &mut Store, filter: TransferFilter, limit: usize, look_at: usize) -> Vec<NamedTransfer> {
    let (mut all, mut after): (Vec<NamedTransfer>, Option<TransferNo>) = (Vec::new(), None);
    loop {
        let (rows, next) = store.transfers_page_within(filter, after, limit, look_at).unwrap();
        assert!(rows.len() <= limit);
        all.extend(rows);
        match next {
            None => return all,
            Some(next) => assert!(after.replace(next).is_none_or(|before| before < next), "no step forward"),
        }
    }
}

#[test]
fn pages_show_every_transfer_once_whatever_their_size() {
    let Some(world) = World::new() else { return };
    let (mut node, parties) = lively(&world);
    let mut all: Vec<NamedTransfer> =
        (1..=24).map(|id| node.store.transfer_shown(TransferId(id)).unwrap().unwrap().transfer).collect();
    all.sort_by_key(|shown| shown.row.no);
    let states = TransferState::ALL.map(Some).into_iter().chain([None]);
    let people = parties.map(Some).into_iter().chain([None, Some(ParticipantId(99))]);
    for (state, participant) in states.flat_map(|state| people.clone().map(move |party| (state, party))) {
        let filter = TransferFilter { state, participant };
        let wanted: Vec<_> = all.iter().filter(|shown| filter.lets_through(&shown.row)).cloned().collect();
        for (limit, look_at) in [(1, 1), (1, 7), (3, 2), (5, 24), (24, 24), (100, 10_000)] {
            let shown = walk(&mut node.store, filter, limit, look_at);
            assert_eq!(shown, wanted, "{filter:?}, pages of {limit}, {look_at} looked at");
        }
    }
    let (first, next) = node.store.transfers_page(TransferFilter::default(), None, 10).unwrap();
    assert_eq!((first, next), (all[..10].to_vec(), Some(all[9].row.no)));
    let (rest, next) = node.store.transfers_page(TransferFilter::default(), next, 1_000).unwrap();
    assert_eq!((rest, next), (all[10..].to_vec(), None));
}

#[test]
fn holds_come_in_the_order_in_which_they_run_out() {
    let Some(world) = World::new() else { return };
    let (mut node, _) = lively(&world);
    let filter = TransferFilter { state: Some(TransferState::Reserved), participant: None };
    let mut open = walk(&mut node.store, filter, 1_000, 1_000);
    open.sort_by_key(|shown| (shown.row.expiration, shown.row.no));
    let ties = open.windows(2).filter(|pair| pair[0].row.expiration == pair[1].row.expiration).count();
    assert!(open.len() > 4 && ties > 1, "the test needs holds that run out together");
    for before in [FAR, FAR + 1, FAR + 2, Millis::MAX] {
        let wanted: Vec<_> = open.iter().filter(|shown| shown.row.expiration < before).cloned().collect();
        for limit in [1, 2, 3, 1_000] {
            let (mut shown, mut after): (Vec<NamedTransfer>, _) = (Vec::new(), None);
            loop {
                let page = node.store.holds_page(before, after, limit).unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some((last.row.expiration, last.row.no));
                shown.extend(page);
            }
            assert_eq!(shown, wanted, "before {before}, pages of {limit}");
        }
    }
}

#[test]
fn stats_count_what_there_is() {
    let Some(world) = World::new() else { return };
    let mut empty = world.store();
    let nothing = empty.stats().unwrap();
    assert_eq!((nothing.transfers, nothing.open_holds, nothing.next_expiration), (0, 0, None));
    let (mut node, _) = lively(&world);
    let stats = node.store.stats().unwrap();
    let count = |sql: &str| u64::try_from(world.count(sql)).unwrap();
    assert_eq!(stats.transfers, 24);
    assert_eq!(stats.open_holds, count("SELECT count(*) FROM transfer_timeout"));
    assert_eq!((stats.participants, stats.accounts, stats.dead_letters), (3, 6, 0));
    let first = node.store.holds_page(Millis::MAX, None, 1).unwrap();
    assert_eq!(stats.next_expiration, Some(first[0].row.expiration));
    for (state, reached) in stats.reached.unwrap() {
        let sql = format!(
            "SELECT count(*) FROM transfer_state_change WHERE transfer_state_id = {}",
            state.number()
        );
        assert_eq!(reached, count(&sql), "{state:?}");
    }
    // A history that is too large to be counted: the server's estimate, and nothing about states.
    world.run("ANALYZE transfer");
    let estimated = node.store.stats_within(0).unwrap();
    assert_eq!((estimated.transfers, estimated.reached), (24, None));
    assert_eq!(estimated.open_holds, stats.open_holds);
}

#[test]
fn nobody_who_asks_waits_for_a_handler() {
    let Some(world) = World::new() else { return };
    let (mut node, _) = lively(&world);
    let mut other = world.sql();
    let mut tx = other.transaction().unwrap();
    for table in ["segment", "transfer", "transfer_timeout", "participant_position"] {
        tx.execute(&format!("SELECT 1 FROM {table} FOR UPDATE"), &[]).unwrap();
    }
    node.store.registry(Whose::Everybody).unwrap();
    node.store.transfer_shown(TransferId(1)).unwrap().unwrap();
    node.store.transfers_page(TransferFilter::default(), None, 10).unwrap();
    node.store.holds_page(Millis::MAX, None, 10).unwrap();
    node.store.stats().unwrap();
    // And it leaves nothing open that would hold up anybody else.
    let own = node.store.backend().unwrap();
    let idle: String =
        tx.query_one("SELECT state FROM pg_stat_activity WHERE pid = $1", &[&own]).unwrap().get(0);
    assert_eq!(idle, "idle");
}
