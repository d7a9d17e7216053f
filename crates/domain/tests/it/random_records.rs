//! Any command survives the wire, and no bytes whatever bring the reader down.

use holdfast_domain::command::{
    Abort, Admin, Command, Expire, Fulfil, FulfilAction, Lookup, Prepare, SetEndpoint,
};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::records::{self, UNIT};
use proptest::prelude::*;

use crate::shop_records::shop_command;
use crate::tokens_records::token_command;
use crate::world::written;

fn currency() -> impl Strategy<Value = Currency> {
    proptest::array::uniform3(b'A'..=b'Z').prop_map(|letters| Currency::from_letters(letters).unwrap())
}

fn tail() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..300)
}

fn prepare() -> impl Strategy<Value = Command> {
    let ids = (any::<u32>(), any::<u128>(), any::<u32>(), any::<u32>());
    let until_9999 = 0..=253_402_300_799_999_i64;
    let rest = (any::<i64>(), until_9999, currency(), any::<[u8; 32]>(), any::<[u8; 32]>(), tail());
    (ids, rest).prop_map(
        |((source, id, payer, payee), (amount, expiration, currency, condition, hash, tail))| {
            Command::Prepare(Prepare {
                source: ParticipantId(source),
                id: TransferId(id),
                payer: ParticipantId(payer),
                payee: ParticipantId(payee),
                amount: Amount(amount),
                expiration,
                currency,
                condition,
                hash,
                tail,
                funding: None,
            })
        },
    )
}

fn fulfil() -> impl Strategy<Value = Command> {
    (any::<u32>(), any::<u128>(), any::<bool>(), any::<[u8; 32]>(), tail()).prop_map(
        |(source, id, commit, fulfilment, tail)| {
            let action = if commit { FulfilAction::Commit } else { FulfilAction::Reserve };
            let fulfil = Fulfil::new(ParticipantId(source), TransferId(id), action, fulfilment);
            Command::Fulfil(fulfil.with_tail(tail))
        },
    )
}

fn abort() -> impl Strategy<Value = Command> {
    (any::<u32>(), any::<u128>(), 1000..=9999_u16, tail()).prop_map(|(source, id, code, tail)| {
        Command::Abort(Abort::new(ParticipantId(source), TransferId(id), code, tail))
    })
}

fn admin() -> impl Strategy<Value = Command> {
    let name = "[A-Za-z0-9._-]{2,30}".prop_map(|name| Name::new(&name).unwrap());
    let participant = any::<u32>().prop_map(ParticipantId);
    let account = any::<u32>().prop_map(AccountId);
    let amount = any::<i64>().prop_map(Amount);
    let id = any::<u128>().prop_map(TransferId);
    let fields = (participant, account, currency(), amount, any::<i64>(), id, any::<bool>(), any::<u16>());
    (0..9_u8, name, fields).prop_map(
        |(kind, name, (participant, account, currency, amount, other, id, active, alarm_percentage))| {
            Command::Admin(match kind {
                0 => Admin::CreateParticipant { name, currency },
                1 => Admin::SetParticipantActive { participant, active },
                2 => Admin::SetAccountActive { account, active },
                3 => Admin::InitialPositionAndLimits {
                    participant,
                    currency,
                    net_debit_cap: amount,
                    initial_position: Amount(other),
                },
                4 => Admin::SetLimit { participant, currency, net_debit_cap: amount, alarm_percentage },
                5 => Admin::FundsIn { id, account, currency, amount },
                6 => Admin::FundsOutReserve { id, account, currency, amount },
                7 => Admin::FundsOutCommit { id, account },
                _ => Admin::FundsOutAbort { id, account },
            })
        },
    )
}

fn lookup() -> impl Strategy<Value = Command> {
    (any::<u32>(), any::<u128>()).prop_map(|(source, id)| {
        Command::Lookup(Lookup { source: ParticipantId(source), id: TransferId(id) })
    })
}

fn endpoint() -> impl Strategy<Value = Command> {
    // Any character, zeros and those of several bytes too.
    (any::<u32>(), "(?s).{1,32}", "(?s).{1,256}").prop_map(|(participant, kind, value)| {
        Command::SetEndpoint(SetEndpoint::new(ParticipantId(participant), kind, value).unwrap())
    })
}

fn command() -> impl Strategy<Value = Command> {
    let expire = any::<u32>().prop_map(|holds_max| Command::Expire(Expire { holds_max }));
    prop_oneof![
        prepare(),
        fulfil(),
        abort(),
        expire,
        lookup(),
        admin(),
        endpoint(),
        token_command(),
        shop_command()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(commands in proptest::collection::vec(command(), 1..5)) {
        let payload: Vec<u8> = commands.iter().flat_map(written).collect();
        prop_assert_eq!(payload.len() % UNIT, 0);
        let (first, length) = records::read(&payload).unwrap();
        prop_assert_eq!(&first, &commands[0]);
        prop_assert_eq!(length, written(&commands[0]).len());
        prop_assert_eq!(records::read_all(&payload).unwrap(), commands);
    }

    #[test]
    fn a_record_has_one_form_only(command in command(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = written(&command);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok((read, length)) = records::read(&bytes) {
            prop_assert_eq!(&written(&read)[..], &bytes[..length]);
        }
        let _ = records::seal(&mut bytes);
    }

    #[test]
    fn a_record_cut_short_is_refused(command in command(), place in any::<prop::sample::Index>()) {
        let bytes = written(&command);
        prop_assert!(records::read(&bytes[..place.index(bytes.len())]).is_err());
    }

    #[test]
    fn no_bytes_bring_the_reader_down(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..40_u8) {
        let _ = records::read_all(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if bytes.len() > 3 {
            bytes[1] = 0;
            bytes[2] %= 4;
            bytes[3] = 0;
        }
        let _ = records::read_all(&bytes);
        let _ = records::seal(&mut bytes);
    }
}
