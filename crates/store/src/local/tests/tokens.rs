//! Tokens of the store of the embedded profile, against the plain store and against files that are not right.

use holdfast_domain::effects::Effects;
use holdfast_domain::tokens::{
    Fingerprint, LockTokens, Output, SpendRequest, SpendTokens, Token, TokenCommand, TokenId,
};
use holdfast_domain::view::{Leases, Spenders, Spends, Tokens};

use super::voyage::{begin, checkpoint, effects_of, recovered, report, store_of};
use super::*;
use crate::StoreCheck;
use crate::archive::Which;
use crate::checkpoint::Part;

const TOKENS: usize = 40;
const SPENDERS: usize = 16;
/// More than the logs below name.
const CHECKED: usize = 250;

fn id(number: usize) -> TokenId {
    // Some ids are long, so that records of one block and of several are met.
    TokenId::from(format!("{number:0width$}", width = if number.is_multiple_of(7) { 1_500 } else { 3 }))
}

fn spender(number: usize) -> String {
    format!("spender {number}")
}

/// A command in numbers: what, who, with which tokens, and how much.
type Wish = (u8, usize, Vec<usize>, u64);

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let wish = (0..8_u8, 0..SPENDERS, prop::collection::vec(0..TOKENS, 1..12), 1..300_u64);
    prop::collection::vec(wish, 1..6)
}

fn token(number: usize, quantity: u64) -> Token {
    let token = Token::new(id(number), format!("wallet {}", number % 4), "USD", quantity);
    if number.is_multiple_of(5) { token.issuer("issuer").attribute("colour", "red") } else { token }
}

fn command(transaction: u128, (what, who, tokens, amount): &Wish) -> Command {
    let name = spender(*who).into();
    let ids = || tokens.iter().copied().map(id).collect();
    let lease_ms = i64::try_from(*amount).unwrap();
    Command::Token(Box::new(match what {
        0 | 1 => {
            TokenCommand::Issue { tokens: tokens.iter().map(|number| token(*number, *amount)).collect() }
        }
        2 | 3 => TokenCommand::Lock(LockTokens {
            spender: name,
            ids: ids(),
            amount: *amount,
            lease_ms,
            body: Fingerprint(1),
        }),
        4 => TokenCommand::Spend(SpendTokens {
            request: SpendRequest::new(name, vec![Output::new("receiver", *amount)]),
            body: Fingerprint(u128::from(*amount)),
            transaction,
        }),
        5 => {
            let (consumed, produced) = tokens.split_at(tokens.len() / 2);
            TokenCommand::Update {
                consumed: consumed.iter().copied().map(id).collect(),
                produced: produced.iter().map(|number| token(*number, *amount)).collect(),
            }
        }
        6 => TokenCommand::Unlock { spender: name, fence: None },
        _ => TokenCommand::Renew { spender: name, fence: None, lease_ms },
    }))
}

/// The commands of a frame; each is tried, few are refused.
fn frame_of(now: Millis, wanted: &[Wish]) -> Frame {
    let transaction = |at: usize| u128::from(now.unsigned_abs()) << 32 | at as u128;
    super::frame_of(now, wanted.iter().enumerate().map(|(at, wish)| command(transaction(at), wish)))
}

fn rows<S: Store>(
    store: &S,
) -> (Vec<holdfast_domain::tokens::TokenRow>, Vec<holdfast_domain::tokens::LockRow>) {
    let (mut tokens, mut locks) = (Vec::new(), Vec::new());
    store.tokens(&mut |row| tokens.push(row.clone()));
    store.locks(&mut |row| locks.push((**row).clone()));
    tokens.sort_by(|one, other| one.token.id.cmp(&other.token.id));
    locks.sort_by(|one, other| one.spender.cmp(&other.spender));
    (tokens, locks)
}

fn same_tokens(local: &mut LocalStore, plain: &MemoryStore) {
    assert_eq!(rows(local), rows(plain));
    assert_eq!(local.token_count(), plain.token_count());
    assert_eq!(
        (local.open_leases(), local.next_expiration()),
        (plain.open_leases(), plain.next_expiration())
    );
    for (now, max) in [(Millis::MAX, 100), (3_000, 100), (3_000, 2)] {
        assert_eq!(local.due_leases(now, max), plain.due_leases(now, max));
    }
    let ids: Vec<TokenId> = (0..CHECKED).map(id).collect();
    let spenders: Vec<String> = (0..CHECKED).map(spender).collect();
    let keys = ids.iter().map(Key::Token).chain(spenders.iter().map(|name| Key::Spender(name)));
    local.load(&mut keys.collect::<Vec<_>>().into_iter()).unwrap();
    for id in &ids {
        assert_eq!(local.token(id), plain.token(id));
        assert_eq!(local.is_consumed(id), plain.is_consumed(id), "{id}");
    }
    for name in &spenders {
        assert_eq!(local.lock(name), plain.lock(name));
        assert_eq!(local.spend(name), plain.spend(name));
    }
    // What was loaded is forgotten again.
    local.settle(&Effects::default());
    assert!(ids.iter().all(|id| !local.is_consumed(id)));
    assert!(spenders.iter().all(|name| local.spend(name).is_none()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Whatever is checkpointed, merged and lost when: tokens, locks and the past are those of the plain store.
    #[test]
    fn tokens_are_those_of_the_plain_store(moves in moves(wishes(), 100)) {
        let mut voyage = Voyage::new();
        let frame_of = |number: u64, wanted: &[Wish]| frame_of(100 * (1 + number.cast_signed()), wanted);
        for one in moves {
            if voyage.make(one, frame_of) {
                same_tokens(&mut voyage.local, &voyage.plain);
            }
        }
        same_tokens(&mut voyage.local, &voyage.plain);
    }
}

/// Frames in which tokens come, are locked, spent and consumed.
fn busy_log(frames: usize) -> Vec<Frame> {
    let one = |at: usize| {
        let tokens = vec![100 + 3 * at, 101 + 3 * at, 102 + 3 * at];
        let now = 100 * (1 + i64::try_from(at).unwrap());
        let wanted = [
            (0, 0, tokens.clone(), 50),
            (2, at, tokens.clone(), 299),
            (if at.is_multiple_of(3) { 7 } else { 4 }, at, tokens, 120),
            (5, 0, vec![36 + at % 4, 0], 20),
        ];
        frame_of(now, &wanted)
    };
    (0..frames).map(one).collect()
}

#[test]
fn the_past_is_found_after_many_checkpoints_and_merges() {
    let fs = SimFs::new(3);
    let (mut local, mut plain) = (empty_on(&fs), MemoryStore::new(0));
    let log = busy_log(40);
    // Merges come late, when there is a run more than they were begun with.
    let mut merges: Vec<Job> = Vec::new();
    for (offset, frame) in (0..).zip(&log) {
        effects_of(&mut plain, offset, frame);
        effects_of(&mut local, offset, frame);
        assert!(begin(&mut local, offset + 1));
        let begun = std::mem::take(&mut merges);
        while let Some(job) = local.take_job() {
            if job.is_merge() {
                merges.push(job);
                continue;
            }
            local.absorb(job.run(&mut || {}).unwrap());
        }
        begun.into_iter().for_each(|job| local.absorb(job.run(&mut || {}).unwrap()));
    }
    let runs = &local.spent.runs;
    assert!(runs.ids() > 100 && runs.len() < 14, "{} ids in {} runs", runs.ids(), runs.len());
    same_tokens(&mut local, &plain);
    drop(local);
    same_tokens(&mut recovered(&fs.crash(1), &log), &plain);
}

#[test]
fn a_hub_without_tokens_writes_no_part_of_them() {
    let fs = SimFs::new(3);
    let mut local = empty_on(&fs);
    effects_of(&mut local, 0, &super::first_frame());
    checkpoint(&mut local, 1);
    let mut parts = 0;
    crate::checkpoint::read(&fs, &Path::new(DIR).join("checkpoints"), 1, |_, part| {
        let is_of_payments = match part {
            Part::Run(which, _) | Part::NextRun(which, _) | Part::Records(which, _) => which == Which::Ended,
            Part::Progress(_) | Part::Next(_) | Part::Open(_) | Part::Callbacks(_) => true,
            Part::Participant(_) | Part::Account(_) | Part::Funds(_) | Part::Endpoint(_) => true,
            _ => false,
        };
        assert!(is_of_payments, "{part:?}");
        parts += 1;
    })
    .unwrap();
    assert!(parts > 5);
    // Such a checkpoint is read as one without tokens.
    let mut local = recovered(&fs, &[super::first_frame()]);
    assert_eq!((local.token_count(), local.open_leases()), (0, 0));
    effects_of(&mut local, 1, &busy_log(1)[0]);
    assert!(local.token_count() > 0);
}

/// A log whose spends fill several blocks.
fn long_log() -> Vec<Frame> {
    let mut log = busy_log(12);
    for round in 0..4_usize {
        let numbers: Vec<usize> = (1_001 + 70 * round..).step_by(7).take(10).collect();
        let wanted = [
            (0, 0, numbers.clone(), 9),
            (2, 150 + round, numbers.clone(), 200),
            (4, 150 + round, numbers, 70),
        ];
        log.push(frame_of(100 * (1 + log.len() as i64), &wanted));
    }
    log
}

#[test]
fn verify_compares_tokens_spends_and_their_ids() {
    let (fs, log) = (SimFs::new(3), long_log());
    let end = log.len() as u64;
    drop(store_of(&fs, &log, &[5, 9, end]));
    let right = store_of(&SimFs::new(4), &log, &[end]);
    let sound = report(&fs, &right, end);
    assert_eq!((&sound.findings[..], sound.left_out), (&[][..], 0));
    assert!(sound.spent_ids > 40 && sound.block_bytes >= 4 * 4096, "{sound:?}");
    assert_eq!(sound.leftovers, Vec::<std::path::PathBuf>::new());

    // A log with another end leads to other locks and tokens.
    let mut other = log;
    other.pop();
    other.push(frame_of(100 * (1 + other.len() as i64), &[(2, 3, vec![1_001], 1), (5, 0, vec![36, 37], 1)]));
    let wrong = report(&fs, &store_of(&SimFs::new(5), &other, &[end]), end);
    let said = |word: &str| wrong.findings.iter().any(|finding| finding.found.contains(word));
    assert!(said("token") && said("spends end at"), "{:?}", wrong.findings);

    let dir = Path::new(DIR);
    let block = dir.join("spends").join(format!("{:020}.blk", 0));
    fs.flip_byte(&block, 5_000, 1);
    let damaged = report(&fs, &right, end);
    assert!(damaged.findings.iter().any(|finding| finding.file == block), "{:?}", damaged.findings);
    fs.flip_byte(&block, 5_000, 1);

    let run = fs.list(&dir.join("spent-ids")).unwrap().remove(0);
    fs.remove(&dir.join("spent-ids").join(&run)).unwrap();
    let lost = report(&fs, &right, end);
    assert!(lost.findings.iter().any(|finding| finding.file.ends_with(&run)), "{:?}", lost.findings);
}

#[test]
fn a_store_alone_is_searched_for_spends_that_are_not_found() {
    let (fs, log) = (SimFs::new(3), long_log());
    let store = store_of(&fs, &log, &[9, log.len() as u64]);
    let open = || StoreCheck::open(&fs.shared(), Path::new(DIR), LOG).unwrap();
    let mut check = open();
    check.outcomes_are_found(&store);
    assert_eq!(check.finish().findings, []);
    // A spend that no checkpoint has sealed is in no run.
    let mut store = store;
    effects_of(&mut store, log.len() as u64, &frame_of(9_000, &[(5, 0, vec![500, 500], 1)]));
    let mut check = open();
    check.outcomes_are_found(&store);
    assert_eq!(check.finish().findings.len(), 2);
}

#[test]
fn a_file_that_a_checkpoint_needs_is_among_its_files() {
    let (fs, log) = (SimFs::new(3), long_log());
    let end = log.len() as u64;
    drop(store_of(&fs, &log, &[9, end]));
    let files = crate::files_of(&fs.shared(), Path::new(DIR), end).unwrap().files;
    let in_folder =
        |folder: &str| files.iter().filter(|file| file.path.parent().unwrap().ends_with(folder)).count();
    assert_eq!((in_folder("spends"), in_folder("spent-ids")), (1, 2));
}

#[test]
fn damage_in_the_past_is_told_and_not_guessed() {
    let (fs, log) = (SimFs::new(3), long_log());
    let mut store = store_of(&fs, &log, &[log.len() as u64]);
    let block = Path::new(DIR).join("spends").join(format!("{:020}.blk", 0));
    for at in (0..4 * 4096).step_by(509) {
        fs.flip_byte(&block, at, 4);
    }
    let spenders: Vec<String> = (0..160).map(spender).collect();
    let load = |store: &mut LocalStore, name: &String| store.load(&mut std::iter::once(Key::Spender(name)));
    let refused = spenders.iter().filter(|name| load(&mut store, name).is_err()).count();
    assert!(refused >= 4, "{refused}");
}

#[test]
fn a_rotten_checkpoint_or_run_leads_back_to_the_one_before() {
    let log = long_log();
    let end = log.len() as u64;
    let mut plain = MemoryStore::new(0);
    (0..).zip(&log).for_each(|(offset, frame)| drop(effects_of(&mut plain, offset, frame)));
    let newest_run = |fs: &SimFs| {
        let folder = Path::new(DIR).join("spent-ids");
        folder.join(fs.list(&folder).unwrap().pop().unwrap())
    };
    let newest_checkpoint = |_: &SimFs| Path::new(DIR).join("checkpoints").join(format!("{end:020}.ckp"));
    let rots: [&dyn Fn(&SimFs) -> std::path::PathBuf; 2] = [&newest_checkpoint, &newest_run];
    for rot in rots {
        let fs = SimFs::new(3);
        drop(store_of(&fs, &log, &[9, end]));
        fs.flip_byte(&rot(&fs), 60, 1);
        assert_eq!(recover(&fs.shared(), Path::new(DIR)).unwrap().map(|found| found.offset), Some(9));
        same_tokens(&mut recovered(&fs, &log), &plain);
    }
}
