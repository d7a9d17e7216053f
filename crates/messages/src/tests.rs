//! The shapes of messages: golden files, what is poison, and that whatever is written is read again.

use proptest::prelude::*;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Abort, Admin, Fulfil, FulfilAction, Funding, Lookup, Prepare};
use holdfast_domain::effects::{Asked, NotificationKind, Outcome, Party, Subject};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::Name;
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::{Code, CompletionKind, ErrorInformation, Reason, TransferState};
use holdfast_tokens::{Fingerprint, Token, Transaction};

use super::*;

const TRACE: TraceId = TraceId(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
const ID: TransferId = TransferId(0x0d6b_1a2c_3f4e_4a5b_8c6d_7e8f_9a0b_1c2d);
const ORIGIN: Option<Place> = Some(Place { partition: 3, offset: 812 });

fn usd() -> Currency {
    "USD".parse().unwrap()
}

fn prepare() -> Prepare {
    let prepare = Prepare {
        source: ParticipantId(3),
        id: ID,
        payer: ParticipantId(3),
        payee: ParticipantId(4),
        amount: Amount(125_000),
        expiration: 1_794_787_200_000,
        currency: usd(),
        condition: [7; 32],
        hash: [0; 32],
        tail: b"{\"ilpPacket\":\"AYIB\"}".to_vec(),
        funding: None,
    };
    prepare.hashed_with(&[1; 32], &[0; 32])
}

fn transfer(command: TransferCommand) -> TransferMessage {
    TransferMessage { trace: TRACE, command }
}

fn step(action: Action) -> PositionMessage {
    let step = Step {
        action,
        transfer: ID,
        amount: Amount(125_000),
        error: (action == Action::Abort).then(|| (Code::of_payee(5104).unwrap(), None)),
        origin: (action != Action::TimeoutReserved).then_some(ORIGIN.unwrap()),
    };
    PositionMessage { trace: TRACE, account: AccountId(7), work: PositionWork::Step(step) }
}

fn admin(admin: Admin) -> PositionMessage {
    PositionMessage::admin(TRACE, AccountId(7), admin).unwrap()
}

/// Each of the operator's commands with the name of its golden file.
fn admins() -> [(&'static str, Admin); 7] {
    let (participant, currency, net_debit_cap) = (ParticipantId(3), usd(), Amount(10_000_000));
    let (id, account, amount, initial_position) = (ID, AccountId(8), Amount(5_000), Amount(-5));
    let limits = Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position };
    [
        ("position-set-active", Admin::SetAccountActive { account: AccountId(7), active: true }),
        ("position-initial", limits),
        (
            "position-set-limit",
            Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage: 80 },
        ),
        ("position-funds-in", Admin::FundsIn { id, account, currency, amount }),
        ("position-funds-out-prepare", Admin::FundsOutReserve { id, account, currency, amount }),
        ("position-funds-out-commit", Admin::FundsOutCommit { id, account }),
        ("position-funds-out-abort", Admin::FundsOutAbort { id, account }),
    ]
}

fn moved() -> Notification {
    let notice = TransferNotice {
        to: Some(ParticipantId(3)),
        party: Party::Payer,
        transfer: ID,
        kind: NotificationKind::Refused,
        action: Some(Action::Prepare),
        state: Some(TransferState::AbortedRejected),
        error: Some((ErrorCode::PayerLimitError.into(), None)),
        completion: None,
        subject: 41,
        value: Balance(9_000_000),
        origin: ORIGIN,
    };
    Notification { trace: TRACE, notice: Notice::Transfer(notice) }
}

fn answer() -> Notification {
    let answer = Answer {
        to: Some(ParticipantId(4)),
        asked: Asked::Reserve,
        repeat: true,
        transfer: Some(ID),
        state: Some(TransferState::Committed),
        error: Some((ErrorCode::ValidationError.into(), Some(Reason::NotReserved))),
        completion: Some(CompletionKind::Commit),
        subject: 41,
        value: Balance(-75_000),
        origin: ORIGIN,
    };
    Notification { trace: TRACE, notice: Notice::Answer(answer) }
}

fn alarm(account: u32, value: i128, net_debit_cap: i64) -> Notification {
    let (account, value, net_debit_cap) = (AccountId(account), Balance(value), Amount(net_debit_cap));
    let alarm = Alarm { to: None, account, value, net_debit_cap };
    Notification { trace: TRACE, notice: Notice::Alarm(alarm) }
}

fn dead_letter() -> DeadLetter {
    let reason = "not a message of this topic: expected value at line 1 column 1";
    DeadLetter::of("position", Place { partition: 2, offset: 9 }, b"7", &[0xff, 0xfe], reason)
}

fn token(id: &str, quantity: u64) -> Token {
    Token::new(id, "alice", "EUR", quantity)
}

fn full_token() -> Token {
    let token = token("t1", u64::MAX).of_type("bond").external_id("account").public_key("key");
    token.issuer("bank").notary("notary").attribute("colour", "blue")
}

fn spent() -> TokenEvent {
    let transaction = Transaction {
        id: "6f1d0a34-55aa-4c11-9d1f-1a2b3c4d5e6f".into(),
        spender: "payment-1".into(),
        consumed: vec!["t1".into(), "t2".into()],
        produced: vec![token("6f1d0a34-55aa-4c11-9d1f-1a2b3c4d5e6f.0", 7)],
    };
    TokenEvent::Spent { fence: 12, body: Fingerprint(0xab << 100), transaction }
}

/// The golden file of that name, without the end of its line.
fn file(name: &str) -> String {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect(name);
    text.trim_end().to_owned()
}

/// What is written is the file, and the file is read as what was written.
fn golden<M: Message + PartialEq + fmt::Debug>(name: &str, key: &str, message: &M) {
    let written = String::from_utf8(message.to_json()).unwrap();
    assert_eq!(written, file(name), "{name}");
    assert_eq!(message.key(), key, "{name}");
    assert_eq!(M::read(key.as_bytes(), written.as_bytes()).as_ref(), Ok(message), "{name}");
}

#[test]
fn messages_are_those_of_the_golden_files() {
    let id = "0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d";
    let plain = prepare();
    golden("transfers-prepare", id, &transfer(TransferCommand::Prepare(plain.clone())));
    let funding = Funding::new(ID, "alice".into(), "bob".into(), vec!["t1".into(), "t2".into()]);
    let funded = Prepare { funding: Some(Box::new(funding)), tail: vec![0xff], ..plain };
    golden("transfers-prepare-funded", id, &transfer(TransferCommand::Prepare(funded)));
    let fulfil = Fulfil::new(ParticipantId(4), ID, FulfilAction::Reserve, [9; 32]).with_tail(b"{}".to_vec());
    golden("transfers-fulfil", id, &transfer(TransferCommand::Fulfil(fulfil)));
    let abort = Abort::new(ParticipantId(4), ID, 5104, b"no".to_vec()).same_as([2; 32]);
    golden("transfers-abort", id, &transfer(TransferCommand::Abort(abort)));
    let lookup = Lookup { source: ParticipantId(4), id: ID };
    golden("transfers-lookup", id, &transfer(TransferCommand::Lookup(lookup)));
    golden("position-prepare", "7", &step(Action::Prepare));
    golden("position-abort", "7", &step(Action::Abort));
    golden("position-timeout-reserved", "7", &step(Action::TimeoutReserved));
    golden("token-events-issued", "alice", &TokenEvent::Issued(vec![full_token(), token("t2", 1)]));
    golden("token-events-spent", "payment-1", &spent());
    let (consumed, produced) = (vec!["t1".into()], vec![token("t3", 2)]);
    let broken = vec![("payment-2".into(), 13)];
    golden("token-events-updated", "alice", &TokenEvent::Updated { consumed, produced, broken });
    let (spender, fence) = ("payment-1".into(), 12);
    golden("token-events-released", "payment-1", &TokenEvent::Released { spender, fence });
    let (spender, expires_at) = ("payment-1".into(), 1_700_000_000_000);
    golden("token-events-shortened", "payment-1", &TokenEvent::Shortened { spender, fence, expires_at });
    let (consumed, produced) = (vec!["t1".into()], vec![token("t3", 2)]);
    golden("token-updates-update", "t1", &TokenUpdate { trace: TRACE, consumed, produced });
    for (name, command) in admins() {
        golden(name, "7", &admin(command));
    }
    golden("notifications-transfer", id, &moved());
    golden("notifications-answer", id, &answer());
    golden("notifications-alarm", "7", &alarm(7, 9_000_000, 10_000_000));
    golden("dead-letters", "position/2/9", &dead_letter());
}

#[test]
fn answers_become_the_outcomes_that_they_were() {
    let Notice::Answer(answer) = answer().notice else { unreachable!() };
    let outcome: Outcome = answer.outcome();
    assert_eq!(
        (outcome.subject, outcome.reason),
        (Subject::Transfer(TransferNo(41)), Some(Reason::NotReserved))
    );
    let stored = Answer { to: None, repeat: false, completion: None, origin: None, ..answer };
    assert_eq!(Answer::of(&outcome, Asked::Reserve, Some(ID)), stored);
}

#[test]
fn commands_about_no_account_have_no_message() {
    let name = Name::new("payerfsp").unwrap();
    for elsewhere in [
        Admin::CreateParticipant { name, currency: usd() },
        Admin::SetParticipantActive { participant: ParticipantId(3), active: false },
        Admin::SetAccountActive { account: AccountId(9), active: true },
        Admin::FundsOutCommit { id: ID, account: AccountId(7) },
    ] {
        assert_eq!(PositionMessage::admin(TRACE, AccountId(7), elsewhere), None, "{elsewhere:?}");
    }
}

mod shop;

/// The message with one piece of its JSON replaced.
fn altered(message: &impl Message, from: &str, to: &str) -> Vec<u8> {
    let json = String::from_utf8(message.to_json()).unwrap();
    assert!(json.contains(from), "{from} is not in {json}");
    json.replacen(from, to, 1).into_bytes()
}

/// The database counts accounts in 31 bits: a larger one would stop whoever stores it.
#[test]
fn an_alarm_about_an_impossible_account_is_poison() {
    assert!(Notification::from_json(&alarm(u32::MAX >> 1, 1, 1).to_json()).is_ok());
    let poison = Notification::from_json(&alarm(1 << 31, 1, 1).to_json()).unwrap_err();
    assert!(poison.to_string().contains("31 bits"), "{poison}");
}

/// Somebody with kcat need not compute one.
#[test]
fn a_prepare_without_a_hash_has_that_of_its_fields() {
    let plain = prepare().hashed_with(&[0; 32], &[0; 32]);
    let message = transfer(TransferCommand::Prepare(plain));
    let mut json: serde_json::Value = serde_json::from_slice(&message.to_json()).unwrap();
    json["body"].as_object_mut().unwrap().remove("hash").unwrap();
    assert_eq!(TransferMessage::from_json(json.to_string().as_bytes()), Ok(message));
}

#[test]
fn what_is_not_a_message_is_poison_with_a_reason() {
    let plain = prepare();
    let message = transfer(TransferCommand::Prepare(plain));
    let reason = |from: &str, to: &str| {
        TransferMessage::from_json(&altered(&message, from, to)).unwrap_err().to_string()
    };
    for (from, to, said) in [
        ("\"v\":1", "\"v\":2", "version 2 is not known"),
        ("\"v\":1,", "\"v\":2,\"new\":[],", "version 2 is not known"),
        ("\"v\":1,", "", "missing field `v`"),
        ("\"v\":1,", "\"v\":1,\"new\":1,", "unknown field `new`"),
        ("\"v\":1,", "\"v\":1,\"v\":1,", "duplicate field `v`"),
        ("\"prepare\"", "\"bulk\"", "'bulk' is not a type of message"),
        ("\"payer\":3", "\"payer\":-3", "invalid value"),
        ("\"payer\":3,", "", "missing field `payer`"),
        ("\"payer\":3,", "\"payer\":3,\"fx\":1,", "unknown field `fx`"),
        ("\"12.5\"", "12.5", "expected a string"),
        ("\"12.5\"", "\"12.5e1\"", "is not a decimal number"),
        ("\"USD\"", "\"usd\"", "is not a currency"),
        ("1794787200000", "-1", "expiration is not between"),
        ("\"4bf9", "\"4BF9", "is not a trace id"),
        ("BwcHBwcH", "BwcHBwc=", "is not 32 bytes"),
    ] {
        let reason = reason(from, to);
        assert!(reason.contains(said), "{reason} does not say {said}");
    }
    for bytes in [&b""[..], b"null", b"[]", b"{", b"\xff", b"{\"v\":\"1\"}"] {
        assert!(matches!(TransferMessage::from_json(bytes), Err(Poison::Shape(_))), "{bytes:?}");
    }
    let value = message.to_json();
    assert!(matches!(TransferMessage::read(b"7", &value), Err(Poison::Key { found, .. }) if found == "7"));
    assert!(matches!(PositionMessage::from_json(&value), Err(Poison::Type(_))));
}

#[test]
fn position_messages_have_exactly_their_fields() {
    let reason = |message: &PositionMessage, from: &str, to: &str| {
        PositionMessage::from_json(&altered(message, from, to)).unwrap_err().to_string()
    };
    assert!(
        reason(&step(Action::Prepare), "\"prepare\"", "\"fx-prepare\"")
            .contains("unknown variant `fx-prepare`")
    );
    assert!(reason(&step(Action::Abort), "5104", "0").contains("error.code must not be 0"));
    for (name, command) in admins() {
        let message = admin(command);
        let more = reason(&message, "\"account\":7,", "\"account\":7,\"more\":1,");
        assert!(more.contains("unknown field"), "{name}");
        let json = String::from_utf8(message.to_json()).unwrap();
        let other = if json.contains("active") { "\"amount\":\"1\"" } else { "\"active\":true" };
        let extra = format!("\"account\":7,{other},");
        assert!(reason(&message, "\"account\":7,", &extra).contains("unknown field"), "{name}");
        if json.contains("settlement") {
            let other = reason(&message, "\"settlement\":8", "\"settlement\":9");
            assert!(other.contains("settlement"), "{name}");
        }
    }
    let funds = admin(admins()[3].1);
    assert!(reason(&funds, ",\"amount\":\"0.5\"", "").contains("missing field `amount`"));
}

#[test]
fn a_dead_letter_can_always_be_sent() {
    let (place, long) = (Place { partition: 0, offset: 1 }, vec![1; 1 << 20]);
    for byte in [0, 0xff] {
        let letter = DeadLetter::of("transfers", place, &long, &vec![byte; 1 << 20], "\0".repeat(1 << 20));
        assert!(letter.to_json().len() < 500_000, "{}", letter.to_json().len());
        assert_eq!((letter.value_bytes, letter.trace), (1 << 20, TraceId(0)));
    }
    let readable = DeadLetter::of("notifications", place, b"", &moved().to_json(), "no such account");
    assert_eq!(readable.trace, TRACE);
    assert_eq!(TraceId::told_by(&altered(&moved(), "\"v\":1", "\"v\":2")), TRACE, "of another version");
    assert_eq!(TraceId::told_by(&altered(&moved(), "\"4bf9", "\"4BF9")), TraceId::NOBODY);
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![any::<i64>(), 0..1_000_000_i64].prop_map(Amount)
}

fn origins() -> impl Strategy<Value = Option<Place>> {
    proptest::option::of(
        (any::<u32>(), any::<u64>()).prop_map(|(partition, offset)| Place { partition, offset }),
    )
}

fn errors() -> impl Strategy<Value = Option<ErrorInformation>> {
    let reasons = proptest::option::of(proptest::sample::select(Reason::ALL.to_vec()));
    proptest::option::of(
        (1..=u16::MAX, reasons).prop_map(|(code, reason)| (Code::of_payee(code).unwrap(), reason)),
    )
}

fn tails() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..60), ".{0,40}".prop_map(String::into_bytes)]
}

fn transfers() -> impl Strategy<Value = TransferCommand> {
    let id = any::<u128>().prop_map(TransferId);
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    let digest = prop_oneof![Just([0; 32]), any::<[u8; 32]>()];
    let funding =
        proptest::option::of(("\\PC{1,20}", "\\PC{1,20}", proptest::collection::vec("\\PC{1,40}", 0..4)));
    let rest = (any::<[u8; 32]>(), 0..=253_402_300_799_999_i64, tails(), funding);
    let prepares = (id, numbers, amounts(), "[A-Z]{3}", (digest.clone(), digest), rest).prop_map(
        |(id, (source, payer, payee), amount, currency, (ilp_packet, extensions), rest)| {
            let (condition, expiration, tail, funding) = rest;
            let funding = funding.map(|(payer, payee, ids)| {
                let ids = ids.iter().map(|id| id.as_str().into()).collect();
                Box::new(Funding::new(id, payer.into(), payee.into(), ids))
            });
            let prepare = Prepare {
                source: ParticipantId(source),
                id,
                payer: ParticipantId(payer),
                payee: ParticipantId(payee),
                amount,
                expiration,
                currency: currency.parse().unwrap(),
                condition,
                hash: [0; 32],
                tail,
                funding,
            };
            TransferCommand::Prepare(prepare.hashed_with(&ilp_packet, &extensions))
        },
    );
    let others =
        (any::<u128>(), any::<u32>(), any::<bool>(), any::<[u8; 32]>(), 1000..=9999_u16, tails(), 0..3_u8)
            .prop_map(|(id, source, reserve, digest, code, tail, which)| {
                let (id, source) = (TransferId(id), ParticipantId(source));
                let action = if reserve { FulfilAction::Reserve } else { FulfilAction::Commit };
                match which {
                    0 => TransferCommand::Fulfil(Fulfil::new(source, id, action, digest).with_tail(tail)),
                    1 => TransferCommand::Abort(Abort::new(source, id, code, tail).same_as(digest)),
                    _ => TransferCommand::Lookup(Lookup { source, id }),
                }
            });
    prop_oneof![prepares, others]
}

proptest! {
    #[test]
    fn transfers_come_back(trace in any::<u128>(), command in transfers()) {
        let message = TransferMessage { trace: TraceId(trace), command };
        let key = message.key();
        prop_assert_eq!(TransferMessage::read(key.as_bytes(), &message.to_json()), Ok(message));
    }

    #[test]
    fn steps_come_back(
        (trace, account, id) in (any::<u128>(), any::<u32>(), any::<u128>()),
        action in proptest::sample::select(Action::ALL.to_vec()),
        (amount, error, origin) in (amounts(), errors(), origins()),
    ) {
        let work = PositionWork::Step(Step { action, transfer: TransferId(id), amount, error, origin });
        let message = PositionMessage { trace: TraceId(trace), account: AccountId(account), work };
        prop_assert_eq!(PositionMessage::from_json(&message.to_json()), Ok(message));
    }

    #[test]
    fn notifications_come_back(
        (trace, to, id, subject, value) in
            (any::<u128>(), proptest::option::of(any::<u32>()), any::<u128>(), any::<u64>(), any::<i64>()),
        state in proptest::option::of(proptest::sample::select(TransferState::ALL.to_vec())),
        action in proptest::option::of(proptest::sample::select(Action::ALL.to_vec())),
        kind in proptest::sample::select(vec![
            NotificationKind::Prepared,
            NotificationKind::Committed,
            NotificationKind::Aborted,
            NotificationKind::Expired,
            NotificationKind::Refused,
        ]),
        completion in proptest::option::of(proptest::sample::select(vec![
            CompletionKind::Commit,
            CompletionKind::Reserve,
            CompletionKind::Abort,
        ])),
        asked in proptest::sample::select(vec![
            Asked::Prepare,
            Asked::Commit,
            Asked::Reserve,
            Asked::Abort,
            Asked::Lookup,
            Asked::Position,
            Asked::Admin,
        ]),
        (payer, about, repeat) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (error, origin) in (errors(), origins()),
    ) {
        let (transfer, value) = (TransferId(id), Balance(i128::from(value) * 1_000_003));
        let to = to.map(ParticipantId);
        let party = if payer { Party::Payer } else { Party::Payee };
        let moved = TransferNotice {
            to, party, transfer, kind, action, state, error, completion, subject, value, origin,
        };
        let transfer = about.then_some(transfer);
        let answer = Answer { to, asked, repeat, transfer, state, error, completion, subject, value, origin };
        for notice in [Notice::Transfer(moved), Notice::Answer(answer)] {
            let message = Notification { trace: TraceId(trace), notice };
            let key = message.key();
            prop_assert_eq!(Notification::read(key.as_bytes(), &message.to_json()), Ok(message));
        }
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..400_usize, byte in any::<u8>()) {
        let plain = prepare();
        let mut damaged = transfer(TransferCommand::Prepare(plain)).to_json();
        if let Some(place) = damaged.get_mut(at) {
            *place = byte;
        }
        for bytes in [bytes, damaged] {
            let _ = TransferMessage::from_json(&bytes);
            let _ = PositionMessage::from_json(&bytes);
            let _ = Notification::from_json(&bytes);
            let _ = DeadLetter::from_json(&bytes);
            let _ = TokenEvent::from_json(&bytes);
            let _ = TokenUpdate::from_json(&bytes);
        }
    }
}
