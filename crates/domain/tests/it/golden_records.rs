//! The bytes of every kind of record. They lie in logs and come from clients, so they may never change: a line of
//! `golden_records.txt` that has to be edited means that old logs can no longer be read. `refused_records.txt` has what is no record.

use std::collections::BTreeMap;

use holdfast_domain::command::{
    Abort, Admin, Command, ENDPOINT_KIND_BYTES_MAX, ENDPOINT_VALUE_BYTES_MAX, Expire, Fulfil, FulfilAction,
    Lookup, Prepare,
};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::records::{self, Kind, RecordError, UNIT};

use crate::tokens_records;
use crate::world::{endpoint_of, usd, written};

const ID: TransferId = TransferId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);
/// SHA-256 over the fields of [`prepare`] and 64 zero bytes, computed outside this program.
const SEALED_HASH: &str = "6748fc59256c9da5be4ab8f67e9a88d1ef34f4b8b150a7413cd5033a506a0aaa";

/// Bytes in hex, a field after a field; `00*52` is the byte 52 times.
fn bytes_of(hex: &str) -> Vec<u8> {
    let of_field = |field: &str| {
        let (digits, times) = field.split_once('*').unwrap_or((field, "1"));
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.as_bytes().chunks(2).map(byte).collect::<Vec<u8>>().repeat(times.parse().unwrap())
    };
    hex.split_whitespace().flat_map(of_field).collect()
}

/// The lines of a file, but for what is said about them. One that is indented goes on with the one before.
fn lines_of(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut joined: Vec<String> = Vec::new();
    for line in lines {
        match joined.last_mut() {
            Some(last) if line.starts_with(' ') => last.push_str(line),
            _ => joined.push(line.to_owned()),
        }
    }
    joined
}

/// Every golden record by its name, with zeros up to the end that it says it has.
fn golden_bytes() -> BTreeMap<String, Vec<u8>> {
    let lines = lines_of(include_str!("golden_records.txt"));
    let record = |line: &String| {
        let (name, hex) = line.split_once(" = ").unwrap();
        let mut bytes = bytes_of(hex);
        let length = usize::from(bytes[2]) * UNIT;
        assert!((length - UNIT..=length).contains(&bytes.len()), "{name}");
        bytes.resize(length, 0);
        (name.to_owned(), bytes)
    };
    lines.iter().map(record).collect()
}

/// These commands with their golden bytes.
pub fn with_bytes(commands: Vec<(&'static str, Command)>) -> Vec<(&'static str, Command, Vec<u8>)> {
    let golden = golden_bytes();
    let of = |(name, command)| (name, command, golden.get(name).expect(name).clone());
    commands.into_iter().map(of).collect()
}

fn prepare() -> Prepare {
    Prepare {
        source: ParticipantId(1),
        id: ID,
        payer: ParticipantId(1),
        payee: ParticipantId(2),
        amount: Amount(123_400),
        expiration: 1_700_000_000_000,
        currency: usd(),
        condition: [0xc0; 32],
        hash: [0xaa; 32],
        tail: Vec::new(),
        funding: None,
    }
}

fn commands() -> Vec<(&'static str, Command)> {
    let prepare_with = |tail: Vec<u8>| Command::Prepare(Prepare { tail, ..prepare() });
    let fulfil = |action, tail: Vec<u8>| {
        Command::Fulfil(Fulfil::new(ParticipantId(2), ID, action, [0xf0; 32]).with_tail(tail))
    };
    let (commit, reserve) = (FulfilAction::Commit, FulfilAction::Reserve);
    let abort = |tail: &[u8]| Command::Abort(Abort::new(ParticipantId(2), ID, 5104, tail.to_vec()));
    let (participant, account, id) = (ParticipantId(7), AccountId(14), ID);
    let (currency, amount) = (usd(), Amount(123_400));
    let (name, net_debit_cap) = (Name::new("payer-fsp").unwrap(), amount);
    let limits = Admin::InitialPositionAndLimits {
        participant,
        currency,
        net_debit_cap,
        initial_position: Amount(-70_000),
    };
    let set_limit = Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage: 80 };
    let endpoint = |kind: &str, value: &str| Command::SetEndpoint(endpoint_of(participant, kind, value));
    let admin = |name, admin| (name, Command::Admin(admin));
    vec![
        ("prepare", prepare_with(Vec::new())),
        ("prepare with a tail of five bytes", prepare_with(b"hello".to_vec())),
        ("prepare with a tail of exactly one unit", prepare_with(vec![0xee; 64])),
        ("fulfil by commit", fulfil(commit, Vec::new())),
        ("fulfil by reserve", fulfil(reserve, Vec::new())),
        ("fulfil with a tail", fulfil(commit, b"yes".to_vec())),
        ("fulfil by reserve with a tail of exactly one unit", fulfil(reserve, vec![0xee; 64])),
        ("abort", abort(b"")),
        ("abort with a tail", abort(b"no")),
        ("expire", Command::Expire(Expire { holds_max: 0x0102_0304 })),
        ("lookup", Command::Lookup(Lookup { source: ParticipantId(2), id })),
        admin("create participant", Admin::CreateParticipant { name, currency }),
        admin("set participant active", Admin::SetParticipantActive { participant, active: true }),
        admin("set participant inactive", Admin::SetParticipantActive { participant, active: false }),
        admin("set account active", Admin::SetAccountActive { account, active: true }),
        admin("initial position and limits", limits),
        admin("set limit", set_limit),
        admin("funds in", Admin::FundsIn { id, account, currency, amount }),
        admin("funds out reserve", Admin::FundsOutReserve { id, account, currency, amount }),
        admin("funds out commit", Admin::FundsOutCommit { id, account }),
        admin("funds out abort", Admin::FundsOutAbort { id, account }),
        ("set endpoint", endpoint("KIND", "http://a")),
        ("set endpoint of exactly two units", endpoint(&"K".repeat(31), &"v".repeat(97))),
    ]
}

/// Every kind of record: its name, the command, its bytes.
fn golden() -> Vec<(&'static str, Command, Vec<u8>)> {
    let of_transfers = with_bytes(commands());
    [of_transfers, tokens_records::golden(), crate::shop_records::golden()].concat()
}

fn named(name: &str) -> Vec<u8> {
    golden_bytes().remove(name).expect(name)
}

pub fn bad(field: &'static str, why: &'static str) -> RecordError {
    RecordError::BadField { field, why }
}

#[test]
fn every_kind_is_written_and_read_as_it_always_was() {
    let golden = golden();
    assert_eq!(golden.len(), golden_bytes().len());
    for (name, command, bytes) in &golden {
        assert_eq!(&written(command), bytes, "{name}");
        assert_eq!(records::read(bytes), Ok((command.clone(), bytes.len())), "{name}");
    }
    for kind in Kind::ALL {
        assert!(golden.iter().any(|(.., bytes)| bytes[0] == kind as u8), "{kind:?} has no golden record");
    }
    let payload: Vec<u8> = golden.iter().flat_map(|(.., bytes)| bytes.clone()).collect();
    let commands: Vec<Command> = golden.into_iter().map(|(_, command, _)| command).collect();
    assert_eq!(records::read_all(&payload), Ok(commands));
}

#[test]
fn a_bad_record_in_a_payload_is_named_by_its_index() {
    let mut payload = [named("fulfil by commit"), named("abort"), named("expire")].concat();
    payload[2 * UNIT] = 99;
    assert_eq!(records::read_all(&payload), Err((2, RecordError::UnknownKind(99))));
    assert_eq!(records::read_all(&[]), Ok(Vec::new()));
}

#[test]
fn kinds_that_do_not_exist_are_refused() {
    for kind in (0..=u8::MAX).filter(|kind| Kind::ALL.iter().all(|known| *known as u8 != *kind)) {
        let mut bytes = named("expire");
        bytes[0] = kind;
        assert_eq!(records::read(&bytes), Err(RecordError::UnknownKind(kind)));
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    for (name, _, bytes) in golden() {
        for have in [0, 1, UNIT - 1, bytes.len() - 1] {
            let need = if have < UNIT { UNIT } else { bytes.len() };
            assert_eq!(records::read(&bytes[..have]), Err(RecordError::CutShort { have, need }), "{name}");
        }
        let mut none = bytes.clone();
        none[2] = 0;
        let kind = Kind::from_number(bytes[0]).unwrap();
        assert_eq!(records::read(&none), Err(RecordError::WrongLength { kind, units: 0 }), "{name}");
        let mut longer = bytes.clone();
        longer[2] += 1;
        longer.extend_from_slice(&[0; UNIT]);
        let units = usize::from(longer[2]);
        let refusal = match kind {
            kind if kind as u8 >= 32 => bad("tail length", "does not fit the record's length"),
            Kind::Prepare | Kind::Fulfil | Kind::Abort | Kind::SetEndpoint => {
                bad("tail length", "does not fit the record's length")
            }
            _ => RecordError::WrongLength { kind, units },
        };
        assert_eq!(records::read(&longer), Err(refusal), "{name}");
    }
    let mut half = named("prepare");
    half[2] = 1;
    assert_eq!(records::read(&half), Err(RecordError::WrongLength { kind: Kind::Prepare, units: 1 }));
}

#[test]
fn flags_without_a_meaning_are_refused() {
    for (name, _, bytes) in golden() {
        let allowed = match bytes[0] {
            1 | 2 | 17 | 18 => 1,
            59 => 3,
            _ => 0,
        };
        for bit in (0..8).map(|bit| 1_u8 << bit).filter(|bit| bit & allowed == 0) {
            let mut bytes = bytes.clone();
            bytes[1] |= bit;
            let refusal = bad("flags", "hold a bit that this kind does not have");
            assert_eq!(records::read(&bytes), Err(refusal), "{name} with bit {bit}");
        }
    }
}

#[test]
fn only_the_hub_may_be_the_source_of_what_is_its_own() {
    let its_own = |bytes: &[u8]| bytes[0] == Kind::Expire as u8 || bytes[0] >= 16;
    for (name, _, mut bytes) in golden().into_iter().filter(|(.., bytes)| its_own(bytes)) {
        bytes[4] = 1;
        let refusal = bad("source", "must be 0: only the hub sends this kind");
        assert_eq!(records::read(&bytes), Err(refusal), "{name}");
    }
}

#[test]
fn reserved_bytes_must_be_zero() {
    let reserved: [(&str, &[(usize, usize)]); 15] = [
        ("prepare", &[(52, 56), (60, 64)]),
        ("fulfil by commit", &[(60, 64)]),
        ("abort", &[(26, 28)]),
        ("expire", &[(12, 64)]),
        ("lookup", &[(24, 64)]),
        ("create participant", &[(44, 64)]),
        ("set participant active", &[(12, 64)]),
        ("set account active", &[(12, 64)]),
        ("initial position and limits", &[(32, 64)]),
        ("set limit", &[(26, 64)]),
        ("funds in", &[(40, 64)]),
        ("funds out reserve", &[(40, 64)]),
        ("funds out commit", &[(28, 64)]),
        ("funds out abort", &[(28, 64)]),
        ("set endpoint", &[(16, 64)]),
    ];
    // Of the vault and the shop the unit says how long the tail is, but for the checkout, which has all of it.
    let all = golden();
    let of_tails = all.iter().filter(|(.., bytes)| bytes[0] >= 32 && bytes[0] != Kind::ShopCheckout as u8);
    let of_tails = of_tails.map(|(name, ..)| (*name, &[(12, 64)][..]));
    assert!(Kind::ALL.into_iter().filter(|kind| (*kind as u8) < 32).count() == reserved.len());
    for (name, ranges) in reserved.into_iter().chain(of_tails) {
        for place in ranges.iter().flat_map(|(from, to)| *from..*to) {
            let mut bytes = named(name);
            bytes[place] = 1;
            assert_eq!(
                records::read(&bytes),
                Err(bad("reserved bytes", "must be zero")),
                "{name} at {place}"
            );
        }
    }
}

/// A record of the kind of that one, with any tail.
pub fn with_tail(kind: Kind, tail: &[u8]) -> Vec<u8> {
    let units = u16::try_from(1 + tail.len().div_ceil(UNIT)).unwrap();
    let mut bytes = vec![kind as u8, 0];
    bytes.extend_from_slice(&units.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&u32::try_from(tail.len()).unwrap().to_le_bytes());
    bytes.resize(UNIT, 0);
    bytes.extend_from_slice(tail);
    bytes.resize(usize::from(units) * UNIT, 0);
    bytes
}

/// The cases of `refused_records.txt`: the name of a record with a place and what is changed there, or with another tail.
#[test]
fn what_is_no_record_is_refused_for_what_is_wrong_with_it() {
    let (mut cases, mut short): (usize, Vec<(String, String)>) = (0, Vec::new());
    for line in lines_of(include_str!("refused_records.txt")) {
        let Some((record, comes_of_it)) = line.split_once(" -> ") else {
            let (name, hex) = line.split_once(" = ").unwrap();
            short.push((name.to_owned(), hex.to_owned()));
            continue;
        };
        let (name, hex) = record.split_once(':').unwrap();
        let hex = short.iter().fold(hex.to_owned(), |hex, (name, stands_for)| hex.replace(name, stands_for));
        let bytes = match name.split_once(" at ") {
            Some((name, place)) => {
                let (mut bytes, place, new) = (named(name), place.parse::<usize>().unwrap(), bytes_of(&hex));
                bytes[place..place + new.len()].copy_from_slice(&new);
                bytes
            }
            None => with_tail(Kind::from_number(named(name)[0]).unwrap(), &bytes_of(&hex)),
        };
        match records::read(&bytes) {
            Err(refusal) => assert_eq!(refusal.to_string(), comes_of_it, "{line}"),
            Ok((command, length)) => {
                assert_eq!(("read", length, written(&command)), (comes_of_it, bytes.len(), bytes), "{line}");
            }
        }
        cases += 1;
    }
    assert_eq!(cases, 150);
}

#[test]
fn an_endpoint_of_the_greatest_length_is_read_and_no_longer_one() {
    let texts = |kind: usize, value: usize| {
        let mut bytes = [named("set endpoint")[..UNIT].to_vec(), vec![b'x'; kind + value]].concat();
        bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
        bytes[2] = u8::try_from(bytes.len() / UNIT).unwrap();
        bytes[12..14].copy_from_slice(&u16::try_from(kind).unwrap().to_le_bytes());
        bytes[14..16].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
        bytes
    };
    let (kind, value) = (ENDPOINT_KIND_BYTES_MAX, ENDPOINT_VALUE_BYTES_MAX);
    assert!(records::read(&texts(kind, value)).is_ok());
    for (kind, value) in [(kind + 1, value), (kind, value + 1)] {
        assert_eq!(records::read(&texts(kind, value)), Err(bad("endpoint", "is empty or too long")));
    }
}

#[test]
fn the_last_millisecond_of_9999_is_an_expiration() {
    let mut bytes = named("prepare");
    bytes[40..48].copy_from_slice(&253_402_300_799_999_i64.to_le_bytes());
    assert!(records::read(&bytes).is_ok());
}

#[test]
fn sealing_fills_in_the_hash_and_nothing_else() {
    let mut bytes = named("prepare");
    bytes[records::PREPARE_HASH].fill(0);
    let (command, length) = records::seal(&mut bytes).unwrap();
    let hash: [u8; 32] = bytes_of(SEALED_HASH).try_into().unwrap();
    let sealed = Prepare { hash, ..prepare() };
    assert_eq!(command, Command::Prepare(sealed.clone()));
    assert_eq!(prepare().hashed(), sealed, "a client of the library gets the same hash");
    assert_eq!(length, records::PREPARE_LEN);
    let mut expected = named("prepare");
    expected[records::PREPARE_HASH].copy_from_slice(&hash);
    assert_eq!(bytes, expected);

    let without_hash_or_tail = |bytes: &[u8]| bytes.len() == UNIT && bytes[0] != Kind::Expire as u8;
    assert!(without_hash_or_tail(&named("lookup")), "a client may ask");
    for (name, command, before) in golden().into_iter().filter(|(.., bytes)| without_hash_or_tail(bytes)) {
        let mut bytes = before.clone();
        assert_eq!(records::seal(&mut bytes), Ok((command, UNIT)), "{name}");
        assert_eq!(bytes, before, "{name}");
    }
}

#[test]
fn sealing_takes_only_what_a_client_may_send() {
    assert_eq!(records::seal(&mut named("prepare")), Err(bad("hash", "must be zero: the hub fills it in")));
    for name in ["prepare with a tail of five bytes", "fulfil with a tail", "abort with a tail"] {
        let refused = records::seal(&mut named(name));
        assert!(matches!(refused, Err(RecordError::WrongLength { .. })), "{name}: {refused:?}");
    }
    assert_eq!(records::seal(&mut named("expire")), Err(RecordError::NotForClients(Kind::Expire)));
    let endpoint = records::seal(&mut named("set endpoint"));
    assert_eq!(endpoint, Err(RecordError::NotForClients(Kind::SetEndpoint)));
    assert!(records::seal(&mut []).is_err());
}

/// The log's aborts may say themselves by what a repeat of them is told; a client's may not.
#[test]
fn an_abort_may_carry_its_own_digest_in_the_log_only() {
    let own = Abort::new(ParticipantId(2), ID, 5104, b"tail".to_vec()).same_as([0xd1; 32]);
    let bytes = written(&Command::Abort(own.clone()));
    assert_eq!(&bytes[records::ABORT_DIGEST], &[0xd1; 32]);
    assert_eq!(records::read(&bytes), Ok((Command::Abort(own), 2 * UNIT)));
    let mut sent = named("abort");
    sent[records::ABORT_DIGEST].fill(1);
    assert_eq!(records::seal(&mut sent), Err(bad("reserved bytes", "must be zero")));
}
