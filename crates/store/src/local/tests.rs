//! The store of the embedded profile, against the suite and against the plain store.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

mod golden;
mod golden_shop;
mod measure;
mod shop;
mod tokens;
mod voyage;

use std::path::Path;
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId, SimFs};
use holdfast_domain::command::{Admin, Command, Expire, Fulfil, FulfilAction, Key, Prepare, SetEndpoint};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::{FrameInput, decide};
use proptest::prelude::*;

use super::{Job, LocalStore, recover};
use crate::{MemoryStore, Store, Tables, conformance};

const DIR: &str = "/store";
const LOG: LogId = LogId([7; 16]);

fn empty_on(fs: &SimFs) -> LocalStore {
    let fs: Arc<dyn FileSystem> = Arc::new(fs.clone());
    LocalStore::create(&fs, Path::new(DIR), LOG).unwrap()
}

#[test]
fn conforms() {
    conformance::run_all(|| empty_on(&SimFs::new(1)));
}

/// A frame: when, and what.
type Frame = (Millis, Vec<Command>);

fn step(store: &mut impl Store, base_offset: u64, (time, commands): &Frame) {
    let mut keys = Vec::new();
    commands.iter().for_each(|command| command.each_key(&mut |key| keys.push(key)));
    store.load(&mut keys.into_iter()).unwrap();
    store.sort_due(*time);
    let input = FrameInput { base_offset, time: *time, order: PrepareOrder::Arrival, commands };
    let effects = decide(store, &input);
    store.apply(&effects, *time);
    store.keep_callbacks(std::iter::once(base_offset.to_le_bytes()));
    store.settle(&effects);
}

fn opening() -> Frame {
    let usd: Currency = "USD".parse().unwrap();
    let name = |text| Name::new(text).unwrap();
    let (payer, payee) = (ParticipantId(1), ParticipantId(2));
    let limit = |participant| Admin::InitialPositionAndLimits {
        participant,
        currency: usd,
        net_debit_cap: Amount(300),
        initial_position: Amount::ZERO,
    };
    let admin = [
        Admin::CreateParticipant { name: name("payer"), currency: usd },
        Admin::CreateParticipant { name: name("payee"), currency: usd },
        limit(payer),
        limit(payee),
        Admin::FundsIn {
            id: TransferId(1 << 100),
            account: AccountId(2),
            currency: usd,
            amount: Amount(400),
        },
    ];
    let endpoint = SetEndpoint::new(payer, "KIND".to_owned(), "http://there".to_owned()).unwrap();
    let mut commands: Vec<Command> = admin.into_iter().map(Command::Admin).collect();
    commands.push(Command::SetEndpoint(endpoint));
    (1, commands)
}

fn prepare(id: u128, amount: i64, expiration: Millis) -> Command {
    let fulfil = Fulfil::new(ParticipantId(2), TransferId(id), FulfilAction::Commit, [id as u8; 32]);
    Command::Prepare(
        Prepare {
            source: ParticipantId(1),
            id: TransferId(id),
            payer: ParticipantId(1),
            payee: ParticipantId(2),
            amount: Amount(amount),
            expiration,
            currency: "USD".parse().unwrap(),
            condition: fulfil.digest,
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        }
        .hashed(),
    )
}

#[derive(Debug, Clone)]
enum Move {
    Frame(Vec<(u8, u128, i64)>),
    Checkpoint,
    RunJob(prop::sample::Index),
    Crash(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let command = (0..4_u8, 1..60_u128, 1..50_i64);
    let one = prop_oneof![
        6 => prop::collection::vec(command, 1..6).prop_map(Move::Frame),
        2 => Just(Move::Checkpoint),
        6 => any::<prop::sample::Index>().prop_map(Move::RunJob),
        1 => any::<u64>().prop_map(Move::Crash),
    ];
    prop::collection::vec(one, 1..120)
}

fn commands(now: Millis, wanted: &[(u8, u128, i64)]) -> Vec<Command> {
    let expire = Command::Expire(Expire { holds_max: 2 });
    let rest = wanted.iter().map(|(kind, id, amount)| match kind {
        0 | 1 => prepare(*id, *amount, now + 40 * amount),
        _ => {
            let fulfilment = [*id as u8 ^ u8::from(*kind == 3); 32];
            Command::Fulfil(Fulfil::new(ParticipantId(2), TransferId(*id), FulfilAction::Commit, fulfilment))
        }
    });
    std::iter::once(expire).chain(rest).collect()
}

fn same(local: &mut LocalStore, plain: &MemoryStore) {
    use holdfast_domain::view::{Funds, Holds, TransferNumbers, Transfers};
    assert_eq!(local.next_transfer(), plain.next_transfer());
    assert_eq!(local.books().accounts(), plain.books().accounts());
    assert_eq!(local.books().participants(), plain.books().participants());
    assert_eq!(local.books().endpoints(ParticipantId(1)), plain.books().endpoints(ParticipantId(1)));
    assert_eq!(local.open_holds(), plain.open_holds());
    assert_eq!(local.due(Millis::MAX, 1_000), plain.due(Millis::MAX, 1_000));
    assert_eq!(local.open_transfers(TransferNo(0), 1_000), plain.open_transfers(TransferNo(0), 1_000));
    assert_eq!(local.conserved_sums(), plain.conserved_sums());
    assert_eq!(local.funds(TransferId(1 << 100)), plain.funds(TransferId(1 << 100)));
    for id in (0..61).map(TransferId) {
        let known = plain.transfer(id).cloned();
        assert_eq!(local.seek(id).get().unwrap(), known, "{id} beside the thread");
        local.load(&mut std::iter::once(Key::Transfer(id))).unwrap();
        assert_eq!(local.transfer(id).cloned(), known, "{id} loaded");
    }
    let history = local.history();
    let mut ended: Vec<_> = history.scan(0, history.end()).map(|row| row.unwrap().1).collect();
    ended.sort_by_key(|row| row.no);
    let plain: Vec<_> =
        plain.transfers_from(TransferNo(0)).filter(|row| row.state.is_final()).cloned().collect();
    assert_eq!(ended, plain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// Whatever is checkpointed, merged and lost when: the answers are those of the plain store.
    #[test]
    fn answers_as_the_plain_store_does(moves in moves()) {
        let mut fs = SimFs::new(3);
        let mut local = empty_on(&fs);
        let mut plain = MemoryStore::new(0);
        let mut log: Vec<Frame> = Vec::new();
        let mut waiting: Vec<Job> = Vec::new();
        let mut now = 1;
        for one in std::iter::once(None).chain(moves.into_iter().map(Some)) {
            match one {
                None => log.push(opening()),
                Some(Move::Frame(wanted)) => {
                    now += 100;
                    log.push((now, commands(now, &wanted)));
                }
                Some(Move::Checkpoint) => {
                    local.begin_checkpoint(log.len() as u64, vec![9; log.len()]);
                    continue;
                }
                Some(Move::RunJob(which)) => {
                    waiting.extend(std::iter::from_fn(|| local.take_job()));
                    // Merges may overtake and be overtaken; all else keeps its order.
                    let merge = waiting.iter().position(Job::is_merge).filter(|_| which.index(2) == 0);
                    let next = merge.or_else(|| waiting.iter().position(|job| !job.is_merge()));
                    if let Some(at) = next {
                        let done = waiting.remove(at).run(&mut || {}).unwrap();
                        local.absorb(done);
                    }
                    continue;
                }
                Some(Move::Crash(seed)) => {
                    waiting.clear();
                    drop(local);
                    fs = fs.crash(seed);
                    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
                    let recovered = recover(&shared, Path::new(DIR)).unwrap();
                    let from = recovered.as_ref().map_or(0, |found| found.offset);
                    local = match recovered {
                        Some(found) => {
                            found.remove_unneeded().unwrap();
                            prop_assert_eq!((found.log_id, found.progress.len() as u64), (LOG, from));
                            found.store
                        }
                        None => empty_on(&fs),
                    };
                    for (offset, frame) in (0..).zip(&log).skip(from as usize) {
                        step(&mut local, offset, frame);
                    }
                    same(&mut local, &plain);
                    continue;
                }
            }
            let offset = log.len() as u64 - 1;
            step(&mut local, offset, &log[offset as usize]);
            step(&mut plain, offset, &log[offset as usize]);
        }
        same(&mut local, &plain);
        let rows = local.callback_rows();
        let kept: Vec<u64> = rows
            .scan(rows.start(), rows.end())
            .map(|row| u64::from_le_bytes(row.unwrap().1.try_into().unwrap()))
            .collect();
        prop_assert_eq!(kept, (0..log.len() as u64).collect::<Vec<_>>());
    }
}
