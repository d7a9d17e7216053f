//! The fields of participants, accounts and funds as they lie in checkpoints.

use super::{Account, AccountKind, FundsMovement, FundsState, Name, Participant};
use crate::codec::{Bad, Take, byte, field, row};
use crate::money::Amount;

row!(Account {
    id,
    participant,
    currency,
    kind,
    active,
    value,
    reserved,
    net_debit_cap,
    alarm_percentage,
    created_at,
    changed_at,
});
row!(FundsMovement { id, account, amount, state });
byte!(FundsState: STATES, "funds" "are in no state");

const STATES: [FundsState; 4] =
    [FundsState::ReceivedIn, FundsState::OutReserved, FundsState::OutCommitted, FundsState::OutAborted];

// The accounts come last and go on to the end.
field!(Participant, F: |row, out| {
    row.id.put::<F>(out);
    out.extend_from_slice(&row.name.padded());
    (row.active, row.created_at).put::<F>(out);
    row.accounts.iter().for_each(|account| account.put::<F>(out));
}, |from| {
    let id = Take::take::<F>(from)?;
    let name = Name::from_padded(from.array()?).ok_or(Bad::new("name", "is none"))?;
    let (active, created_at) = Take::take::<F>(from)?;
    let mut accounts = Vec::new();
    while !from.0.is_empty() {
        accounts.push(Take::take::<F>(from)?);
    }
    Ok(Participant { id, name, active, accounts, created_at })
});

field!(AccountKind, F: |kind, out| {
    out.push(match kind {
        AccountKind::Position => 1,
        AccountKind::Settlement => 2,
    });
}, |from| match from.array()? {
    [1] => Ok(AccountKind::Position),
    [2] => Ok(AccountKind::Settlement),
    _ => Err(Bad::new("kind", "is not 1 or 2")),
});

// A cap has its place also where there is none.
field!(Option<Amount>, F: |cap, out| (cap.is_some(), cap.unwrap_or(Amount::ZERO)).put::<F>(out), |from| {
    let (there, amount): (bool, Amount) = Take::take::<F>(from)?;
    Ok(there.then_some(amount))
});
