//! What a store with tokens writes, committed.

use holdfast_domain::effects::{Effects, TokenRows};
use holdfast_domain::tokens::{
    Fingerprint, LockRow, NO_END, SpendRow, Token, TokenEffect, TokenId, Transaction,
};
use holdfast_domain::view::{Spenders, Spends, Tokens};

use super::voyage::run_all_jobs;
use super::*;
use crate::held::committed;

const GOLDEN_LOG: LogId = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
const OFFSET: u64 = 77;

/// Files of the store, and the fixtures that they must equal.
const FILES: [(&str, &str); 3] = [
    ("checkpoints/00000000000000000077.ckp", "v1-tokens.ckp"),
    ("spends/00000000000000000000.blk", "v1-spends.blk"),
    ("spent-ids/00000000000000000001.run", "v1-spent.run"),
];

/// What a new store leaves on the disk: it is filled, and a checkpoint is made.
pub(super) fn written_by(fill: impl FnOnce(&mut LocalStore)) -> SimFs {
    let fs = SimFs::new(1);
    let mut store = LocalStore::create(&fs.shared(), Path::new(DIR), GOLDEN_LOG).unwrap();
    fill(&mut store);
    assert!(store.begin_checkpoint(OFFSET, vec![1, 2, 3]));
    run_all_jobs(&mut store, &mut Vec::new());
    fs
}

/// Fails unless a file of the store is, byte for byte, the fixture.
#[track_caller]
pub(super) fn assert_committed(fs: &SimFs, (file, name): (&str, &str)) {
    crate::held::assert_committed(&fs.bytes_of(&Path::new(DIR).join(file)).unwrap(), name);
}

/// The store of a directory with these fixtures.
pub(super) fn read_committed(files: &[(&str, &str)]) -> LocalStore {
    let fs = SimFs::new(1);
    for folder in crate::FOLDERS {
        fs.create_dir_all(&Path::new(DIR).join(folder)).unwrap();
    }
    files.iter().for_each(|(file, name)| fs.put(&Path::new(DIR).join(file), &committed(name)));
    let found = recover(&fs.shared(), Path::new(DIR)).unwrap().expect("a checkpoint");
    assert_eq!((found.log_id, found.offset, &found.progress[..]), (GOLDEN_LOG, OFFSET, &[1, 2, 3][..]));
    found.store
}

fn id(number: usize) -> TokenId {
    TokenId::from(format!("token-{number}"))
}

fn spend(number: usize) -> Arc<SpendRow> {
    // One of them needs several pieces.
    let inputs = if number == 5 { 900 } else { 2 };
    let produced = |n: u64| {
        let token = Token::new(format!("tx-{number}.{n}"), "receiver", "USD", 100 + n);
        if n == 1 { token.issuer("bank").attribute("series", "a") } else { token }
    };
    let transaction = Transaction {
        id: format!("tx-{number}").into(),
        spender: format!("spender-{number}").into(),
        consumed: (0..inputs).map(|n| id(1_000 * number + n)).collect(),
        produced: (0..3).map(produced).collect(),
    };
    Arc::new(SpendRow { transaction, body: Fingerprint(number as u128) })
}

fn lock(number: usize, expires_at: Millis) -> Arc<LockRow> {
    Arc::new(LockRow {
        spender: format!("holder-{number}").into(),
        fence: 500 + number as u64,
        since: 1_790_000_000_000,
        expires_at,
        amount: 33,
        body: Fingerprint(0xfeed),
        tokens: [id(number), id(number + 10)].into(),
        funding: (expires_at == NO_END).then(|| "payee".into()),
    })
}

fn effects() -> Vec<TokenEffect> {
    let live = |number: usize| {
        let token = Token::new(id(number), format!("wallet-{}", number % 3), "EUR", 7 * number as u64 + 1);
        match number % 4 {
            0 => token.external_id("ext").public_key("key"),
            1 => token.notary("notary").of_type("bond"),
            _ => token,
        }
    };
    let mut effects: Vec<TokenEffect> = (0..20).map(|number| TokenEffect::Produced(live(number))).collect();
    effects.push(TokenEffect::Locked(lock(1, 1_790_000_060_000)));
    effects.push(TokenEffect::Locked(lock(2, NO_END)));
    for number in 1..40 {
        let row = spend(number);
        effects.extend(row.transaction.consumed.iter().cloned().map(TokenEffect::Consumed));
        effects.push(TokenEffect::Spent(row));
    }
    effects.extend((0..3).map(|number| TokenEffect::Consumed(id(900_000 + number))));
    effects
}

#[test]
fn todays_code_writes_the_committed_bytes() {
    let fs = written_by(|store| {
        effects().iter().for_each(|effect| store.token_effect(effect));
        store.settle(&Effects::default());
    });
    FILES.into_iter().for_each(|file| assert_committed(&fs, file));
}

#[test]
fn todays_code_reads_the_committed_bytes() {
    let mut store = read_committed(&FILES);
    for effect in effects() {
        match effect {
            TokenEffect::Produced(token) => {
                let row = store.token(&token.id).expect("it lives");
                let holder = match token.id.as_str() {
                    "token-1" | "token-11" => Some("holder-1"),
                    "token-2" | "token-12" => Some("holder-2"),
                    _ => None,
                };
                assert_eq!((row.token, row.holder.map(|holder| &**holder)), (&token, holder));
            }
            TokenEffect::Consumed(id) => {
                store.load(&mut std::iter::once(Key::Token(&id))).unwrap();
                assert!(store.is_consumed(&id), "{id}");
            }
            TokenEffect::Locked(row) => assert_eq!(store.lock(&row.spender), Some(&row)),
            TokenEffect::Spent(row) => {
                let spender = &row.transaction.spender;
                store.load(&mut std::iter::once(Key::Spender(spender))).unwrap();
                assert_eq!(store.spend(spender), Some(&row));
            }
            _ => unreachable!("none of them"),
        }
    }
    assert_eq!((store.token_count(), store.open_leases()), (20, 1));
    store.load(&mut std::iter::once(Key::Token(&id(5)))).unwrap();
    assert!(!store.is_consumed(&id(5)));
}

/// The tables of the document, independent of the code that writes them.
#[test]
fn the_fields_stand_where_the_document_says() {
    let block = committed("v1-spends.blk");
    assert_eq!((block.len() % 4096, block[6], block[7]), (0, 1, 3));
    // The first record: the whole spend of spender-1.
    let length = usize::from(u16::from_le_bytes([block[16], block[17]]));
    let record = &block[18..18 + length];
    let expected = [
        &[16][..],
        &1_u128.to_le_bytes(),
        b"\x04tx-1\x09spender-1",
        b"\x02\x0atoken-1000\x0atoken-1001",
        b"\x03\x06tx-1.0\x64\x00\x00\x08receiver\x05token\x03USD",
        b"\x06tx-1.1\x65\x01\x14\x08receiver\x05token\x03USD\x04bank\x01\x06series\x01a",
        b"\x06tx-1.2\x66\x00",
    ]
    .concat();
    assert_eq!(record, expected);
    // Its ids in the run: keyed BLAKE3, the first 16 bytes.
    let key: [u8; 32] = [GOLDEN_LOG.0, GOLDEN_LOG.0].concat().try_into().unwrap();
    let entry = |text: &[u8]| {
        let hash = blake3::keyed_hash(&key, text);
        [&hash.as_bytes()[..16], &16_u64.to_le_bytes()].concat()
    };
    let run = committed("v1-spent.run");
    for text in [&b"Sspender-1"[..], b"Ttoken-1000", b"Ttoken-1001"] {
        assert!(run.windows(24).any(|bytes| bytes == entry(text)), "{}", String::from_utf8_lossy(text));
    }
    let checkpoint = committed("v1-tokens.ckp");
    let holds = |part: &[u8]| checkpoint.windows(part.len()).any(|bytes| bytes == part);
    // Token 1, held, of a kind that comes for the first time; token 13 of the same kind has its number.
    assert!(holds(b"\x03\x01\x08\x08wallet-1\x04bond\x03EUR\x06notary\x08\x08holder-1token-1"));
    assert!(holds(b"\x00\x01\x5ctoken-13"));
    let lock = [
        &b"\x01\x08holder-2\xf6\x03\x80\xb0\x83\xc5\x98\x68"[..],
        &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        b"\x21",
        &0xfeed_u128.to_le_bytes(),
        b"\x05payee\x02\x07token-2\x08token-12",
    ]
    .concat();
    assert!(holds(&lock));
}
