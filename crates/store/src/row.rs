//! A transfer's row in few bytes, for the disk.
//!
//! | field | bytes |
//! | --- | --- |
//! | state, and the kind of the completion | 1: low and high half; the high half is 0 without a completion |
//! | which of the options are there | 1, see the constants |
//! | number, payer, payee | varints |
//! | payer's account, payee's account | varints, if there |
//! | id | 16, little-endian |
//! | currency | 3 letters |
//! | amount | zigzag varint |
//! | log offset | varint |
//! | prepared at | zigzag varint |
//! | changed at, expiration | zigzag varints of the difference to `prepared at` |
//! | hash | 32 |
//! | condition | 32, if there |
//! | completion's digest | 32, if there |
//! | code | varint, if there |
//! | reason | 1, if there |
//! | reserved value, final value | zigzag varints of up to 128 bits, if there |
//!
//! Varints are those of [`holdfast_domain::codec`]. Every row has exactly one
//! form, so equal rows have equal bytes, and what is not that form is refused.

use holdfast_domain::codec::{Bad, Bytes, Read, optional, put_signed, put_varint, put_wide};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance, OptionalBalance};
use holdfast_domain::transfers::{Code, Completion, CompletionKind, Proof, Reason, Transfer, TransferState};

const PAYER_ACCOUNT: u8 = 1;
const PAYEE_ACCOUNT: u8 = 1 << 1;
const CONDITION: u8 = 1 << 2;
const CODE: u8 = 1 << 3;
const REASON: u8 = 1 << 4;
const RESERVED_VALUE: u8 = 1 << 5;
const FINAL_VALUE: u8 = 1 << 6;
const ALL: u8 = (1 << 7) - 1;

/// Adds the row to `out`.
pub(crate) fn write(row: &Transfer, out: &mut Vec<u8>) {
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    let flags = flag(row.payer_account.is_some(), PAYER_ACCOUNT)
        | flag(row.payee_account.is_some(), PAYEE_ACCOUNT)
        | flag(row.condition().is_some(), CONDITION)
        | flag(row.code.is_some(), CODE)
        | flag(row.reason.is_some(), REASON)
        | flag(row.reserved_value.is_some(), RESERVED_VALUE)
        | flag(row.final_value.is_some(), FINAL_VALUE);
    let completed = row.completion().map_or(0, |completion| completion.kind as u8);
    out.extend_from_slice(&[row.state.number() | completed << 4, flags]);
    put_varint(out, row.no.0);
    put_varint(out, u64::from(row.payer.0));
    put_varint(out, u64::from(row.payee.0));
    for account in [row.payer_account, row.payee_account].into_iter().flatten() {
        put_varint(out, u64::from(account.0));
    }
    out.extend_from_slice(&row.id.0.to_le_bytes());
    out.extend_from_slice(&row.currency.letters());
    put_signed(out, row.amount.0);
    put_varint(out, row.offset);
    put_signed(out, row.prepared_at);
    // Wrapping: any two times have a difference, and it leads back.
    put_signed(out, row.changed_at.wrapping_sub(row.prepared_at));
    put_signed(out, row.expiration.wrapping_sub(row.prepared_at));
    out.extend_from_slice(&row.hash);
    match &row.proof {
        Proof::Nothing => {}
        Proof::Condition(bytes) | Proof::Completed(Completion { digest: bytes, .. }) => {
            out.extend_from_slice(bytes);
        }
    }
    if let Some(code) = row.code {
        put_varint(out, u64::from(code.number()));
    }
    out.extend(row.reason.map(|reason| reason as u8));
    for value in [row.reserved_value, row.final_value].into_iter().filter_map(OptionalBalance::get) {
        put_wide(out, value.0);
    }
}

/// The row that these bytes are; `None` if they are none.
pub(crate) fn read(bytes: &[u8]) -> Option<Transfer> {
    let mut from = Bytes(bytes);
    let row = take(&mut from).ok()?;
    from.end().is_ok().then_some(row)
}

fn take(from: &mut Bytes<'_>) -> Read<Transfer> {
    const WRONG: Bad = Bad::new("transfer", "is none");
    let [first, flags] = from.array()?;
    let state = TransferState::from_number(first & 15).ok_or(WRONG)?;
    let completed = match first >> 4 {
        0 => None,
        1 => Some(CompletionKind::Commit),
        2 => Some(CompletionKind::Reserve),
        3 => Some(CompletionKind::Abort),
        _ => return Err(WRONG),
    };
    if flags & !ALL != 0 {
        return Err(WRONG);
    }
    let there = |flag: u8| flags & flag != 0;
    let no = TransferNo(from.varint()?);
    let payer = ParticipantId(from.varint()?);
    let payee = ParticipantId(from.varint()?);
    let payer_account = optional(there(PAYER_ACCOUNT), || from.varint().map(AccountId))?;
    let payee_account = optional(there(PAYEE_ACCOUNT), || from.varint().map(AccountId))?;
    let id = TransferId(u128::from_le_bytes(from.array()?));
    let currency = Currency::from_letters(from.array()?).ok_or(WRONG)?;
    let amount = Amount(from.signed()?);
    let offset = from.varint()?;
    let prepared_at: Millis = from.signed()?;
    let changed_at = prepared_at.wrapping_add(from.signed()?);
    let expiration = prepared_at.wrapping_add(from.signed()?);
    let hash = from.array()?;
    let condition: Option<[u8; 32]> = optional(there(CONDITION), || from.array())?;
    let digest = optional(completed.is_some(), || from.array())?;
    let proof = match (completed.zip(digest), condition) {
        (Some((kind, digest)), None) => Proof::Completed(Completion { kind, digest }),
        (None, Some(condition)) => Proof::Condition(condition),
        (None, None) => Proof::Nothing,
        // Who has accepted a fulfil or abort has forgotten the condition.
        (Some(_), Some(_)) => return Err(WRONG),
    };
    let code = optional(there(CODE), || Code::of_payee(from.varint()?).ok_or(WRONG))?;
    let reason = optional(there(REASON), || {
        let [number] = from.array()?;
        Reason::from_number(number).ok_or(WRONG)
    })?;
    let mut value = |flag| match optional(there(flag), || from.wide().map(Balance))? {
        Some(balance) => Some(OptionalBalance::from(balance)).filter(|kept| kept.is_some()).ok_or(WRONG),
        None => Ok(OptionalBalance::NONE),
    };
    let (reserved_value, final_value) = (value(RESERVED_VALUE)?, value(FINAL_VALUE)?);
    Ok(Transfer {
        no,
        id,
        payer,
        payee,
        payer_account,
        payee_account,
        currency,
        amount,
        expiration,
        proof,
        hash,
        state,
        code,
        reason,
        offset,
        prepared_at,
        changed_at,
        reserved_value,
        final_value,
    })
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::held::{Change, comes_back};

    /// A transfer as the bench makes them, some hours into a long run.
    fn committed() -> Transfer {
        Transfer {
            no: TransferNo(150_000_000),
            id: TransferId(0x0d6b_1a2c_3f4e_4a5b_8c6d_7e8f_9a0b_1c2d),
            payer: ParticipantId(3),
            payee: ParticipantId(17),
            payer_account: Some(AccountId(9)),
            payee_account: Some(AccountId(65)),
            currency: "USD".parse().unwrap(),
            amount: Amount(1_000_000),
            expiration: 1_790_000_060_000,
            hash: [0xaa; 32],
            state: TransferState::Committed,
            code: None,
            reason: None,
            proof: Proof::Completed(Completion { kind: CompletionKind::Commit, digest: [0xbb; 32] }),
            offset: 300_000_000,
            prepared_at: 1_790_000_000_000,
            changed_at: 1_790_000_000_350,
            reserved_value: Balance(1_200_000_000).into(),
            final_value: Balance(-1_200_000_001).into(),
        }
    }

    fn reserved() -> Transfer {
        let prepared_at = committed().prepared_at;
        let (proof, final_value) = (Proof::Condition([0xcc; 32]), OptionalBalance::NONE);
        let open = Transfer { proof, final_value, ..committed() };
        Transfer { state: TransferState::Reserved, changed_at: prepared_at, ..open }
    }

    fn invalid() -> Transfer {
        Transfer {
            no: TransferNo(0),
            payer_account: None,
            payee_account: None,
            amount: Amount(-1),
            state: TransferState::Invalid,
            code: Code::of_payee(3100),
            reason: Some(Reason::AmountNotPositive),
            expiration: i64::MIN,
            offset: 0,
            reserved_value: OptionalBalance::NONE,
            ..reserved()
        }
    }

    fn bytes_of(row: &Transfer) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(row, &mut bytes);
        bytes
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn golden_rows() {
        let golden = [
            (
                committed(),
                concat!(
                    "156380a3c347031109412d1c0b9a8f7e6d8c5b4a4e3f2c1a6b0d55534480897a80c6868f0180b083c59868bc05",
                    "c0a907aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbb",
                    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb80b0b4f80881b0b4f808"
                ),
            ),
            (
                reserved(),
                concat!(
                    "032780a3c347031109412d1c0b9a8f7e6d8c5b4a4e3f2c1a6b0d55534480897a80c6868f0180b083c5986800c0",
                    "a907aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaacccccccccccccccccccccc",
                    "cccccccccccccccccccccccccccccccccccccccccc80b0b4f808"
                ),
            ),
            (
                invalid(),
                concat!(
                    "021c0003112d1c0b9a8f7e6d8c5b4a4e3f2c1a6b0d555344010080b083c598680080d0fcbae797ffffff01aaaa",
                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaacccccccccccccccccccccccccccccc",
                    "cccccccccccccccccccccccccccccccccc9c1801"
                ),
            ),
        ];
        for (row, golden) in golden {
            let bytes = bytes_of(&row);
            assert_eq!(hex(&bytes), golden);
            assert_eq!(read(&bytes), Some(row));
        }
    }

    #[test]
    fn a_committed_transfer_takes_less_than_125_bytes() {
        assert!(bytes_of(&committed()).len() < 125, "{}", bytes_of(&committed()).len());
    }

    #[test]
    fn what_is_not_a_row_is_refused() {
        let good = bytes_of(&committed());
        for length in 0..good.len() {
            assert_eq!(read(&good[..length]), None, "cut at {length}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            read(&bytes)
        };
        assert_eq!(read(&[&good[..], &[0]].concat()), None, "trailing byte");
        assert_eq!([changed(0, 0x10), changed(0, 0x1c)], [None, None], "unknown state");
        assert_eq!(changed(0, 0x45), None, "unknown completion");
        assert_eq!(changed(1, good[1] | 128), None, "unknown flag");
        let payer = 2 + 4;
        assert_eq!((good[payer], read(&good).map(|row| row.payer)), (3, Some(ParticipantId(3))));
        let with = |field: &[u8]| read(&[&good[..payer], field, &good[payer + 1..]].concat());
        assert!(with(&[3]).is_some() && with(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_some());
        assert_eq!(with(&[0x83, 0x00]), None, "overlong");
        assert_eq!(with(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None, "more than 32 bits");
        assert_eq!(with(&[0xff; 40]), None, "without an end");
    }

    #[test]
    fn the_widest_numbers_come_back() {
        for value in [i128::MIN, i128::MAX, i128::from(i64::MIN), -1, 0, 1] {
            let mut bytes = Vec::new();
            put_wide(&mut bytes, value);
            assert_eq!(Bytes(&bytes).wide(), Ok(value));
        }
        for value in [i64::MIN, i64::MAX, -1, 0, 1] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            assert_eq!(Bytes(&bytes).signed(), Ok(value));
        }
        let too_wide = [[0xff; 18].as_slice(), &[0x07]].concat();
        assert!(Bytes(&too_wide).wide().is_err());
    }

    prop_compose! {
        fn transfers()(
            (no, id, payer, payee) in any::<(u64, u128, u32, u32)>(),
            (payer_account, payee_account) in any::<(Option<u32>, Option<u32>)>(),
            currency in "[A-Z]{3}",
            (amount, expiration, prepared_at, changed_at) in any::<(i64, i64, i64, i64)>(),
            (condition, hash, offset) in any::<(Option<[u8; 32]>, [u8; 32], u64)>(),
            state in select(TransferState::ALL.to_vec()),
            code in any::<u16>(),
            reason in option::of(select(Reason::ALL.to_vec())),
            kind in select(vec![CompletionKind::Commit, CompletionKind::Reserve, CompletionKind::Abort]),
            digest in any::<Option<[u8; 32]>>(),
            (reserved_value, final_value) in any::<(Option<i128>, Option<i128>)>(),
            // Whether the numbers are of the size they have in life.
            small in any::<bool>(),
        ) -> Transfer {
            let short = |number: i64| if small { number >> 44 } else { number };
            let wide = |number: Option<i128>| match number {
                Some(number) => Balance(if small { number >> 80 } else { number }).into(),
                None => OptionalBalance::NONE,
            };
            Transfer {
                no: TransferNo(if small { no >> 40 } else { no }),
                id: TransferId(id),
                payer: ParticipantId(if small { payer >> 24 } else { payer }),
                payee: ParticipantId(if small { payee >> 24 } else { payee }),
                payer_account: payer_account.map(AccountId),
                payee_account: payee_account.map(AccountId),
                currency: currency.parse().unwrap(),
                amount: Amount(short(amount)),
                expiration: short(expiration),
                proof: match (digest, condition) {
                    (Some(digest), _) => Proof::Completed(Completion { kind, digest }),
                    (None, Some(condition)) => Proof::Condition(condition),
                    (None, None) => Proof::Nothing,
                },
                hash,
                state,
                code: Code::of_payee(code),
                reason,
                offset,
                prepared_at: short(prepared_at),
                changed_at: short(changed_at),
                reserved_value: wide(reserved_value),
                final_value: wide(final_value),
            }
        }
    }

    proptest! {
        #[test]
        fn every_row_comes_back(row in transfers(), change in any::<Change>()) {
            comes_back(&row, change, write, read);
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(row) = read(&bytes) {
                prop_assert_eq!(bytes_of(&row), bytes);
            }
        }
    }
}
