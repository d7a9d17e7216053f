//! The bytes of every kind of record. They lie in logs and come from clients, so they may never change: a test
//! here that has to be edited means that old logs can no longer be read.
//!
//! Each golden record is written out field by field, as `docs/batch.md` describes them.

use holdfast_domain::command::{
    Abort, Admin, Command, ENDPOINT_KIND_BYTES_MAX, ENDPOINT_VALUE_BYTES_MAX, Expire, Fulfil, FulfilAction,
    Lookup, Prepare, SetEndpoint,
};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::records::{self, Kind, RecordError, UNIT};

use crate::tokens_records;
use crate::world::{usd, written};

const ID: TransferId = TransferId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);
const ID_HEX: &str = "1f1e1d1c1b1a19181716151413121110";
/// SHA-256 over the fields of [`prepare`] and 64 zero bytes, computed outside this program.
const SEALED_HASH: &str = "6748fc59256c9da5be4ab8f67e9a88d1ef34f4b8b150a7413cd5033a506a0aaa";

pub fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The fields, then zeros up to the end of the record.
pub fn record(fields: &[&str], units: usize) -> Vec<u8> {
    let mut bytes = bytes_of(&fields.concat());
    assert!(bytes.len() <= units * UNIT);
    bytes.resize(units * UNIT, 0);
    bytes
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

/// Kind to currency of [`prepare`], with the given length in units.
fn prepare_head(units: &str) -> String {
    ["01 00", units, "01000000", ID_HEX, "01000000 02000000 08e2010000000000 0068e5cf8b010000 55534400"]
        .concat()
}

/// Every kind of record: its name, the command, its bytes.
fn golden() -> Vec<(&'static str, Command, Vec<u8>)> {
    let condition = "c0".repeat(32);
    let hash = "aa".repeat(32);
    let fulfilment = "f0".repeat(32);
    let fulfil_of = |action| Fulfil::new(ParticipantId(2), ID, action, [0xf0; 32]);
    let fulfil = |action| Command::Fulfil(fulfil_of(action));
    let abort = |tail: &[u8]| Command::Abort(Abort::new(ParticipantId(2), ID, 5104, tail.to_vec()));
    let (participant, account, id) = (ParticipantId(7), AccountId(14), ID);
    let (currency, amount) = (usd(), Amount(123_400));
    let admin = |name, admin, fields: &[&str]| (name, Command::Admin(admin), record(fields, 1));
    let endpoint = |kind: &str, value: &str| {
        Command::SetEndpoint(SetEndpoint::new(participant, kind.to_owned(), value.to_owned()).unwrap())
    };
    let mut all = vec![
        (
            "prepare",
            Command::Prepare(prepare()),
            record(&[&prepare_head("0200"), "00000000 00000000 00000000", &condition, &hash], 2),
        ),
        (
            "prepare with a tail of five bytes",
            Command::Prepare(Prepare { tail: b"hello".to_vec(), ..prepare() }),
            record(
                &[&prepare_head("0300"), "00000000 05000000 00000000", &condition, &hash, "68656c6c6f"],
                3,
            ),
        ),
        (
            "prepare with a tail of exactly one unit",
            Command::Prepare(Prepare { tail: vec![0xee; 64], ..prepare() }),
            record(
                &[&prepare_head("0300"), "00000000 40000000 00000000", &condition, &hash, &"ee".repeat(64)],
                3,
            ),
        ),
        (
            "fulfil by commit",
            fulfil(FulfilAction::Commit),
            record(&["02 00 0100 02000000", ID_HEX, &fulfilment], 1),
        ),
        (
            "fulfil by reserve",
            fulfil(FulfilAction::Reserve),
            record(&["02 01 0100 02000000", ID_HEX, &fulfilment], 1),
        ),
        (
            "fulfil with a tail",
            Command::Fulfil(fulfil_of(FulfilAction::Commit).with_tail(b"yes".to_vec())),
            record(&["02 00 0200 02000000", ID_HEX, &fulfilment, "03000000 00000000", "796573"], 2),
        ),
        (
            "fulfil by reserve with a tail of exactly one unit",
            Command::Fulfil(fulfil_of(FulfilAction::Reserve).with_tail(vec![0xee; 64])),
            record(&["02 01 0200 02000000", ID_HEX, &fulfilment, "40000000 00000000", &"ee".repeat(64)], 2),
        ),
        ("abort", abort(b""), record(&["03 00 0100 02000000", ID_HEX, "f013 0000 00000000"], 1)),
        (
            "abort with a tail",
            abort(b"no"),
            record(&["03 00 0200 02000000", ID_HEX, "f013 0000 02000000", &"00".repeat(32), "6e6f"], 2),
        ),
        (
            "expire",
            Command::Expire(Expire { holds_max: 0x0102_0304 }),
            record(&["04 00 0100 00000000 04030201"], 1),
        ),
        (
            "lookup",
            Command::Lookup(Lookup { source: ParticipantId(2), id }),
            record(&["05 00 0100 02000000", ID_HEX], 1),
        ),
        admin(
            "create participant",
            Admin::CreateParticipant { name: Name::new("payer-fsp").unwrap(), currency },
            &["10 00 0100 00000000", "70617965722d667370", &"00".repeat(23), "55534400"],
        ),
        admin(
            "set participant active",
            Admin::SetParticipantActive { participant, active: true },
            &["11 01 0100 00000000 07000000"],
        ),
        admin(
            "set participant inactive",
            Admin::SetParticipantActive { participant, active: false },
            &["11 00 0100 00000000 07000000"],
        ),
        admin(
            "set account active",
            Admin::SetAccountActive { account, active: true },
            &["12 01 0100 00000000 0e000000"],
        ),
        admin(
            "initial position and limits",
            Admin::InitialPositionAndLimits {
                participant,
                currency,
                net_debit_cap: amount,
                initial_position: Amount(-70_000),
            },
            &["13 00 0100 00000000 07000000 55534400 08e2010000000000 90eefeffffffffff"],
        ),
        admin(
            "set limit",
            Admin::SetLimit { participant, currency, net_debit_cap: amount, alarm_percentage: 80 },
            &["14 00 0100 00000000 07000000 55534400 08e2010000000000 5000"],
        ),
        admin(
            "funds in",
            Admin::FundsIn { id, account, currency, amount },
            &["15 00 0100 00000000", ID_HEX, "0e000000 55534400 08e2010000000000"],
        ),
        admin(
            "funds out reserve",
            Admin::FundsOutReserve { id, account, currency, amount },
            &["16 00 0100 00000000", ID_HEX, "0e000000 55534400 08e2010000000000"],
        ),
        admin(
            "funds out commit",
            Admin::FundsOutCommit { id, account },
            &["17 00 0100 00000000", ID_HEX, "0e000000"],
        ),
        admin(
            "funds out abort",
            Admin::FundsOutAbort { id, account },
            &["18 00 0100 00000000", ID_HEX, "0e000000"],
        ),
        (
            "set endpoint",
            endpoint("KIND", "http://a"),
            record(
                &["19 00 0200 00000000 07000000 0400 0800", &"00".repeat(48), "4b494e44 687474703a2f2f61"],
                2,
            ),
        ),
        (
            "set endpoint of exactly two units",
            endpoint(&"K".repeat(31), &"v".repeat(97)),
            record(
                &[
                    "19 00 0300 00000000 07000000 1f00 6100",
                    &"00".repeat(48),
                    &"4b".repeat(31),
                    &"76".repeat(97),
                ],
                3,
            ),
        ),
    ];
    all.extend(tokens_records::golden());
    all.extend(crate::shop_records::golden());
    all
}

fn named(name: &str) -> Vec<u8> {
    golden().into_iter().find(|(of, ..)| *of == name).unwrap_or_else(|| panic!("no {name}")).2
}

pub fn bad(field: &'static str, why: &'static str) -> RecordError {
    RecordError::BadField { field, why }
}

#[test]
fn every_kind_is_written_and_read_as_it_always_was() {
    let golden = golden();
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
    let reserved: [(&str, &[(usize, usize)]); 38] = [
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
        ("token issue", &[(12, 64)]),
        ("token lock", &[(12, 64)]),
        ("token spend", &[(12, 64)]),
        ("token update", &[(12, 64)]),
        ("token unlock", &[(12, 64)]),
        ("token renew", &[(12, 64)]),
        ("shop create user", &[(12, 64)]),
        ("shop create item", &[(12, 64)]),
        ("shop create order", &[(12, 64)]),
        ("shop init users", &[(12, 64)]),
        ("shop init items", &[(12, 64)]),
        ("shop init orders", &[(12, 64)]),
        ("shop add item", &[(12, 64)]),
        ("shop add funds", &[(12, 64)]),
        ("shop take funds", &[(12, 64)]),
        ("shop add stock", &[(12, 64)]),
        ("shop take stock", &[(12, 64)]),
        ("shop checkout", &[]),
        ("shop answer", &[(12, 64)]),
        ("shop cancel", &[(12, 64)]),
        ("shop retry", &[(12, 64)]),
        ("shop set outside", &[(12, 64)]),
        ("shop set charging to credit", &[(12, 64)]),
    ];
    assert_eq!(reserved.len(), Kind::ALL.len());
    for (name, ranges) in reserved {
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

#[test]
fn fields_that_hold_no_value_of_theirs_are_refused() {
    let currency = bad("currency", "is not three capital letters followed by a zero byte");
    let code = bad("error code", "is not of four digits");
    let name = bad("name", "is not 2 to 30 letters, digits or -._ padded with zeros");
    let expiration = bad("expiration", "is not between the years 1970 and 9999");
    let tail = bad("tail length", "does not fit the record's length");
    let padding = bad("padding", "must be zero");
    let endpoint = bad("endpoint", "is empty or too long");
    let text = bad("endpoint", "is not UTF-8");
    let cases: [(&str, usize, &[u8], &RecordError); 33] = [
        ("prepare", 48, b"usd\0", &currency),
        ("prepare", 48, b"US\0\0", &currency),
        ("prepare", 48, b"USDX", &currency),
        ("prepare", 40, &(-1_i64).to_le_bytes(), &expiration),
        ("prepare", 40, &253_402_300_800_000_i64.to_le_bytes(), &expiration),
        ("prepare", 56, &[1], &tail),
        ("prepare with a tail of five bytes", 56, &[0], &tail),
        ("prepare with a tail of five bytes", 56, &[65], &tail),
        ("prepare with a tail of five bytes", 56, &[255; 4], &tail),
        ("prepare with a tail of five bytes", 56, &[4], &padding),
        ("prepare with a tail of five bytes", 133, &[1], &padding),
        ("fulfil by commit", 56, &[1], &tail),
        ("fulfil by commit", 56, &[255; 4], &tail),
        ("fulfil with a tail", 56, &[0], &tail),
        ("fulfil with a tail", 56, &[65], &tail),
        ("fulfil with a tail", 56, &[2], &padding),
        ("fulfil with a tail", 67, &[1], &padding),
        ("abort", 24, &[0, 0], &code),
        ("abort", 24, &999_u16.to_le_bytes(), &code),
        ("abort", 24, &10_000_u16.to_le_bytes(), &code),
        ("abort with a tail", 127, &[1], &padding),
        ("create participant", 8, &[0], &name),
        ("create participant", 20, b"x", &name),
        ("create participant", 40, b"usd\0", &currency),
        ("initial position and limits", 12, b"us1\0", &currency),
        ("set endpoint", 12, &[0, 0, 12, 0], &endpoint),
        ("set endpoint", 12, &[12, 0, 0, 0], &endpoint),
        ("set endpoint", 12, &[0, 0, 0, 0], &tail),
        ("set endpoint", 12, &[255; 4], &tail),
        ("set endpoint", 14, &[7], &padding),
        ("set endpoint", 76, &[1], &padding),
        ("set endpoint", 64, &[0xff], &text),
        ("set endpoint", 67, &[0xc3], &text),
    ];
    for (name, place, field, refusal) in cases {
        let mut bytes = named(name);
        bytes[place..place + field.len()].copy_from_slice(field);
        assert_eq!(records::read(&bytes).as_ref(), Err(refusal), "{name} with {field:?} at {place}");
    }
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
