//! What happened to tokens, read while others write: nothing is passed over, whatever commits when.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_messages::{Message as _, TokenEvent};
use holdfast_postgres::tokens::{Next, Page, Position, Seen};
use holdfast_postgres::{Settings, Source, Store};
use holdfast_services::Database;
use holdfast_tokens::Random;
use postgres::Client;

use crate::token_world::rows_read;

fn event(name: &str) -> String {
    let event = TokenEvent::Released { spender: name.into(), fence: 1 };
    String::from_utf8(event.to_json()).unwrap()
}

fn name_of(event: &TokenEvent) -> String {
    let TokenEvent::Released { spender, .. } = event else { panic!("{event:?}") };
    spender.to_string()
}

fn write(client: &mut Client, name: &str) {
    client.execute("INSERT INTO token_change (event) VALUES ($1)", &[&event(name)]).unwrap();
}

fn opened(database: &Database) -> Store {
    Store::open_for_changes(database.url(), Settings::default()).unwrap()
}

/// Waits until nothing older than these changes can come any more: transactions run in other databases, too.
fn await_settled(database: &Database, changes: i64) {
    let settled = "SELECT count(*) FROM token_change WHERE xid < pg_snapshot_xmin(pg_current_snapshot())";
    database.await_count(settled, |settled| settled == changes);
}

/// A node that reads page by page.
struct Reader {
    store: Store,
    seen: Seen,
    page: Option<Page>,
    read: BTreeMap<String, usize>,
}

impl Reader {
    fn new(database: &Database) -> Reader {
        let mut store = opened(database);
        let (seen, _) = store.all_token_changes_seen().unwrap();
        Reader { store, seen, page: None, read: BTreeMap::new() }
    }

    /// Reads a page; whether that was the last one.
    fn look(&mut self, rows: usize) -> bool {
        let unseen = self.store.unseen_token_changes(&self.seen, self.page.as_ref(), rows).unwrap();
        assert!(!unseen.gap, "nothing was removed");
        for event in &unseen.events {
            *self.read.entry(name_of(event)).or_default() += 1;
        }
        self.page = match unseen.next {
            Next::Page(page) => Some(page),
            Next::Seen(seen) => {
                self.seen = seen;
                None
            }
        };
        self.page.is_none()
    }

    fn read_all(&mut self, rows: usize) {
        while !self.look(rows) {}
    }
}

/// A connection, with what its open transaction has written.
struct Writer {
    client: Client,
    open: Option<Vec<String>>,
}

impl Writer {
    /// Begins, writes, commits or gives up; what it has committed.
    fn step(&mut self, random: &mut Random, next: &mut usize) -> Vec<String> {
        let Some(written) = &mut self.open else {
            // Some take their number long before they have anything to tell.
            let begin = if random.below(2) == 0 { "BEGIN" } else { "BEGIN; SELECT pg_current_xact_id()" };
            self.client.batch_execute(begin).unwrap();
            self.open = Some(Vec::new());
            return Vec::new();
        };
        match random.below(8) {
            0..4 => {
                let name = format!("c-{next}");
                *next += 1;
                let within = random.below(4);
                if within < 2 {
                    self.client.batch_execute("SAVEPOINT within").unwrap();
                }
                write(&mut self.client, &name);
                match within {
                    0 => self.client.batch_execute("ROLLBACK TO within").unwrap(),
                    1 => self.client.batch_execute("RELEASE within").unwrap(),
                    _ => {}
                }
                if within > 0 {
                    written.push(name);
                }
                Vec::new()
            }
            4..7 => {
                self.client.batch_execute("COMMIT").unwrap();
                self.open.take().unwrap()
            }
            _ => {
                self.client.batch_execute("ROLLBACK").unwrap();
                self.open = None;
                Vec::new()
            }
        }
    }
}

/// Writers that begin and commit in any order, and a reader of small pages that comes in between.
#[test]
fn each_change_is_read_once_whatever_commits_when() {
    let Some(database) = Database::new("token_changes") else { return };
    drop(opened(&database));
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut reader = Reader::new(&database);
        let mut writers: Vec<Writer> =
            (0..6).map(|_| Writer { client: database.sql(), open: None }).collect();
        let (mut next, mut committed) = (0, Vec::new());
        // What had been committed when the reading on its way began.
        let mut due = 0;
        for _ in 0..400 {
            let who = usize::try_from(random.below(9)).unwrap();
            if let Some(writer) = writers.get_mut(who) {
                committed.extend(writer.step(&mut random, &mut next));
                continue;
            }
            if reader.page.is_none() {
                due = committed.len();
            }
            if reader.look(3) {
                let missing: Vec<&String> =
                    committed[..due].iter().filter(|name| !reader.read.contains_key(*name)).collect();
                assert!(missing.is_empty(), "seed {seed}: {missing:?} were passed over");
            }
        }
        for writer in &mut writers {
            writer.client.batch_execute("COMMIT").unwrap();
            committed.extend(writer.open.take().into_iter().flatten());
        }
        reader.read_all(3);
        reader.read_all(3);
        let expected: BTreeMap<String, usize> = committed.into_iter().map(|name| (name, 1)).collect();
        assert!(expected.len() > 30, "seed {seed}: only {} changes", expected.len());
        assert_eq!(reader.read, expected, "seed {seed}");
    }
}

/// What one needs of another comes behind it, also if its transaction began before.
#[test]
fn what_builds_on_another_comes_behind_it() {
    let Some(database) = Database::new("token_causes") else { return };
    let mut reader = Reader::new(&database);
    let mut early = database.sql();
    early.batch_execute("BEGIN; SELECT pg_current_xact_id()").unwrap();
    write(&mut database.sql(), "cause");
    write(&mut early, "effect");
    early.batch_execute("COMMIT").unwrap();
    let unseen = reader.store.unseen_token_changes(&reader.seen, None, 10).unwrap();
    assert_eq!(unseen.events.iter().map(name_of).collect::<Vec<_>>(), ["cause", "effect"]);
}

/// Far more than one look may read.
const ROWS: i64 = 50_000;

/// A look costs what is new, though it was planned while there was nothing, and a transaction stays open.
#[test]
fn a_look_reads_what_is_new() {
    let Some(database) = Database::new("token_look") else { return };
    let mut reader = Reader::new(&database);
    reader.read_all(1_000);
    let mut sql = database.sql();
    sql.batch_execute("ALTER TABLE token_change SET (autovacuum_enabled = off)").unwrap();
    let mut open = database.sql();
    open.batch_execute("BEGIN; SELECT pg_current_xact_id()").unwrap();
    let fill = format!("INSERT INTO token_change (event) SELECT $1 FROM generate_series(1, {ROWS})");
    sql.execute(&fill, &[&event("old")]).unwrap();
    // As if it had been read.
    (reader.seen, _) = opened(&database).all_token_changes_seen().unwrap();
    write(&mut open, "late");
    open.batch_execute("COMMIT").unwrap();
    write(&mut sql, "new");
    drop((sql, open));
    let before = rows_read(&database, 1, "'token_change'");
    reader.read_all(1_000);
    let names: Vec<&str> = reader.read.keys().map(String::as_str).collect();
    assert_eq!(names, ["late", "new"]);
    drop(reader);
    let read = rows_read(&database, 0, "'token_change'") - before;
    assert!(read < ROWS / 100, "a look has read {read} rows");
}

/// What was removed before it was read is missed; what was removed afterwards is not.
#[test]
fn a_reader_knows_what_it_missed() {
    let Some(database) = Database::new("token_missed") else { return };
    let (mut here, mut behind) = (Reader::new(&database), Reader::new(&database));
    let mut sql = database.sql();
    write(&mut sql, "first");
    write(&mut sql, "second");
    // The topic has only what is settled, and nobody looks so seldom that it is removed before the next look.
    await_settled(&database, 2);
    here.read_all(10);
    let sent = "UPDATE token_progress SET (sent_xid, sent_no) =
                   (SELECT xid, change_no FROM token_change ORDER BY 1 DESC, 2 DESC LIMIT 1)";
    sql.batch_execute(sent).unwrap();
    let mut keeper = opened(&database);
    let claim = keeper.claim(&Source::Tokens).unwrap();
    let all = Position { xid: u64::MAX, change_no: 0 };
    let gone = keeper.tidy_changes(&claim, Position::default(), Duration::ZERO, 10, None).unwrap();
    assert!(gone.is_nothing(), "it is not their time yet");
    assert_eq!(keeper.tidy_changes(&claim, all, Duration::ZERO, 10, None).unwrap().changes, 2);
    here.read_all(10);
    assert!(behind.store.unseen_token_changes(&behind.seen, None, 10).unwrap().gap);
    (behind.seen, _) = behind.store.all_token_changes_seen().unwrap();
    write(&mut sql, "third");
    behind.read_all(10);
    here.read_all(10);
    assert_eq!(here.read.len(), 3);
    assert_eq!(behind.read.len(), 1);
}

/// Tables that were dumped and restored into a new server, whose transactions have low numbers.
#[test]
fn changes_of_another_server_are_taken_over() {
    let Some(database) = Database::new("token_restored") else { return };
    let mut store = opened(&database);
    let mut sql = database.sql();
    assert!(!store.adopt_token_changes().unwrap(), "they are of this one");
    for (xid, name) in [("8999999999", "sent"), ("9000000001", "unsent"), ("9000000002", "unsent too")] {
        let insert = "INSERT INTO token_change (xid, event) VALUES ($1::text::xid8, $2)";
        sql.execute(insert, &[&xid, &event(name)]).unwrap();
    }
    let before = "UPDATE token_progress SET sent_xid = '9000000000', sent_no = 1, removed_xid = '8999999998'";
    sql.batch_execute(before).unwrap();
    // Somebody was faster than whoever keeps house.
    write(&mut sql, "new");
    assert!(store.adopt_token_changes().unwrap());
    assert!(!store.adopt_token_changes().unwrap(), "once is enough");
    await_settled(&database, 4);
    let mut reader = Reader::new(&database);
    let (sent, _) = store.tokens_sent().unwrap();
    let unsent = store.settled_token_changes(sent, 10).unwrap();
    let names: Vec<String> = unsent.iter().map(|(_, event)| name_of(event)).collect();
    assert_eq!(names, ["new", "unsent", "unsent too"]);
    // Nothing goes that was not sent; what was, goes.
    let claim = store.claim(&Source::Tokens).unwrap();
    let all = Position { xid: u64::MAX, change_no: 0 };
    assert_eq!(store.tidy_changes(&claim, all, Duration::ZERO, 10, None).unwrap().changes, 1);
    assert!(store.mark_tokens_sent(&claim, unsent[2].0).unwrap());
    assert_eq!(store.tidy_changes(&claim, all, Duration::ZERO, 10, None).unwrap().changes, 3);
    write(&mut sql, "after");
    reader.read_all(10);
    assert_eq!(reader.read.into_keys().collect::<Vec<_>>(), ["after"]);
    await_settled(&database, 1);
    assert_eq!(store.settled_token_changes(unsent[2].0, 10).unwrap().len(), 1);
}

/// Changes may be large: a page is bounded by its bytes too, and nothing is passed over or comes twice.
#[test]
fn pages_of_large_changes_are_small() {
    const CHANGES: usize = 5;
    let Some(database) = Database::new("token_changes_large") else { return };
    drop(Store::open(database.url(), Settings::default()).unwrap());
    let mut reader = Reader::new(&database);
    let mut sql = database.sql();
    for number in 0..CHANGES {
        // Three of these are more than a page.
        write(&mut sql, &format!("{number}{}", "x".repeat(1_800_000)));
    }
    let mut looks = 1;
    while !reader.look(1_000) {
        looks += 1;
        assert!(reader.read.len() <= 3 * looks, "{} after {looks} looks", reader.read.len());
    }
    assert_eq!((reader.read.len(), looks), (CHANGES, 2));
    assert!(reader.read.values().all(|times| *times == 1));
    await_settled(&database, i64::try_from(CHANGES).unwrap());
    let mut store = opened(&database);
    let (mut after, mut pages) = (Position::default(), Vec::new());
    loop {
        let page = store.settled_token_changes(after, 1_000).unwrap();
        let Some((last, _)) = page.last() else { break };
        (after, _) = (*last, pages.push(page.len()));
    }
    assert_eq!(pages, [3, 2]);
}
