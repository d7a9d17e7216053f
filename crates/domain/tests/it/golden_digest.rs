//! The bytes of effects that enter the audit chain. If they change, every log written before fails its check on
//! replay: that is right when the rules changed (raise `RULES_VERSION`), and a mistake otherwise.

use holdfast_domain::effects::{DeadLetterReason, Step};
use holdfast_domain::participants::{Account, AccountKind, FundsMovement, FundsState, Name, Participant};

use crate::world::*;

#[track_caller]
fn assert_digest(effects: &Effects, fields: &[&str]) {
    let mut bytes = vec![0x99];
    effects.write_digest(&mut bytes);
    assert_eq!(bytes[0], 0x99, "it appends");
    let expected: String = fields.concat().split_whitespace().collect();
    assert_eq!(hex(&bytes[1..]), expected);
}

/// A count as it is written.
fn count(count: u64) -> String {
    hex(&count.to_le_bytes())
}

fn frame_of(step: Step) -> Effects {
    Effects { steps: vec![step] }
}

/// One row in each list, each field with a value that shows.
fn one_of_each() -> Step {
    let transfer = TransferNo(0x0102);
    let mut effects = Step::default();
    effects.participants.push(Participant {
        id: PAYEE,
        name: Name::new("fsp").unwrap(),
        active: true,
        accounts: vec![(usd(), AccountId(3))],
        created_at: 0,
    });
    effects.accounts.push(Account {
        id: AccountId(3),
        participant: PAYEE,
        currency: usd(),
        kind: AccountKind::Settlement,
        active: true,
        value: Balance(-2),
        reserved: Balance(5),
        net_debit_cap: Some(Amount(0x0a0b)),
        alarm_percentage: 80,
        created_at: 0,
        changed_at: 0,
    });
    effects.funds.push(FundsMovement {
        id: id(0xfe),
        account: AccountId(4),
        amount: Amount(1),
        state: FundsState::OutCommitted,
    });
    effects.endpoints.push(endpoint_of(OTHER, "KIND", "http://a"));
    effects.state_changes.push(StateChange {
        reason: Some(Reason::WrongFulfilment),
        ..moved_with(0x0102, TransferState::ReceivedError, ErrorCode::ValidationError)
    });
    let completion = Completion { kind: CompletionKind::Abort, digest: [1; 32] };
    effects.completions.push(CompletionRow { cause: 0, transfer, completion });
    effects.position_changes.push(changed(AccountId(3), 0x0102, -3, -4));
    effects.notifications.push(told_with(
        0x0102,
        Party::Payee,
        NotificationKind::Expired,
        ErrorCode::TransferExpired,
    ));
    let value = Balance(6);
    effects.alarms.push(LimitAlarm { account: AccountId(3), value, net_debit_cap: Amount(7) });
    let reason = DeadLetterReason::WrongState(TransferState::Reserved);
    effects.dead_letters.push(DeadLetter { cause: 0, transfer, action: Action::TimeoutReserved, reason });
    effects.outcomes.push(Outcome {
        reason: Some(Reason::NotReserved),
        ..refused(answer(0x0102, TransferState::Reserved, 9), ErrorCode::ValidationError, None)
    });
    effects
}

#[test]
fn nothing_is_thirteen_counts_of_zero() {
    assert_digest(&Effects::default(), &[&"00".repeat(13 * 8)]);
}

#[test]
fn one_row_of_each_kind() {
    let one = count(1);
    assert_digest(
        &frame_of(one_of_each()),
        &[
            // participants, accounts, funds, endpoints, transfers, state changes, completions
            &[&one, &one, &one, &one, &count(0), &one, &one].map(String::as_str).concat(),
            // position changes, notifications, alarms, dead letters, outcomes, steps
            &[&one, &one, &one, &one, &one, &one].map(String::as_str).concat(),
            // participant: id, name, active, accounts
            "02000000 667370",
            &"00".repeat(29),
            "01 0100000000000000 555344 03000000",
            // account: id, participant, kind, active, value, reserved, cap, alarm
            "03000000 02000000 01 01",
            "feffffffffffffffffffffffffffffff 05000000000000000000000000000000",
            "0b0a000000000000 5000",
            // funds: id, state
            "fe000000000000000000000000000000 03",
            // endpoint: participant
            "03000000",
            // state change: transfer, state, code, reason
            "0201000000000000 06 1c0c 0c",
            // completion: transfer, kind
            "0201000000000000 03",
            // position change: account, transfer, change, value
            "03000000 0201000000000000 fdffffffffffffff fcffffffffffffffffffffffffffffff",
            // notification: transfer, party, kind, code
            "0201000000000000 02 04 e70c",
            // alarm: account, value, cap
            "03000000 06000000000000000000000000000000 0700000000000000",
            // dead letter: transfer, action, reason
            "0201000000000000 03 02 03000000",
            // outcome: state, code, reason, subject, value
            "03 1c0c 0e 0201000000000000 09000000000000000000000000000000",
        ],
    );
}

#[test]
fn a_prepare_that_is_reserved() {
    let effects = World::roomy().frame(&[prepare(0, 5)]);
    let (none, one, two) = (count(0), count(1), count(2));
    assert_digest(
        &effects,
        &[
            &[&none, &none, &none, &none, &one, &two, &none].map(String::as_str).concat(),
            &[&one, &one, &none, &none, &one, &one].map(String::as_str).concat(),
            // transfer: number, payer's account, payee's account
            "0000000000000000 01000000 03000000",
            "0000000000000000 01 0000 00 0000000000000000 03 0000 00",
            "01000000 0000000000000000 0500000000000000 05000000000000000000000000000000",
            "0000000000000000 02 01 0000",
            "03 0000 00 0000000000000000 05000000000000000000000000000000",
        ],
    );
}

#[test]
fn absent_values_have_a_form_of_their_own() {
    let change = |edit: fn(&mut Step)| {
        let mut effects = one_of_each();
        edit(&mut effects);
        frame_of(effects)
    };
    let others = [
        change(|effects| effects.accounts[0].net_debit_cap = None),
        change(|effects| effects.accounts[0].net_debit_cap = Some(Amount(0))),
        change(|effects| effects.accounts[0].active = false),
        change(|effects| effects.accounts[0].kind = AccountKind::Position),
        change(|effects| effects.participants[0].active = false),
        change(|effects| effects.state_changes[0].code = None),
        change(|effects| effects.state_changes[0].reason = None),
        change(|effects| effects.notifications[0].error = None),
        change(|effects| effects.notifications[0].to = Party::Payer),
        change(|effects| effects.alarms[0].value = Balance(7)),
        change(|effects| effects.dead_letters[0].reason = DeadLetterReason::UnknownAccount(AccountId(3))),
        change(|effects| effects.outcomes[0].state = None),
        change(|effects| effects.outcomes[0].reason = None),
    ];
    let mut digests: Vec<Vec<u8>> = others.iter().map(digest).collect();
    digests.push(digest(&frame_of(one_of_each())));
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count, "whatever differs digests differently");
}
