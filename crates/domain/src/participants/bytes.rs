//! The fields of participants, accounts and funds as they lie in checkpoints.

use super::{Account, AccountKind, FundsMovement, FundsState, Name, Participant};
use crate::codec::{Bad, Take, byte, field, row};

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
byte!(FundsState, "funds" "are in no state");
byte!(AccountKind, "kind" "is not 1 or 2");

field!(Name, F: |name, out| name.padded().put::<F>(out), |from| {
    const WRONG: Bad = Bad::new("name", "is not 2 to 30 letters, digits or -._ padded with zeros");
    Name::from_padded(from.array()?).ok_or(WRONG)
});

// The accounts come last and go on to the end.
field!(Participant, F: |row, out| {
    (row.id, row.name, row.active, row.created_at).put::<F>(out);
    row.accounts.iter().for_each(|account| account.put::<F>(out));
}, |from| {
    let (id, name) = Take::take::<F>(from)?;
    let (active, created_at) = Take::take::<F>(from)?;
    let mut accounts = Vec::new();
    while !from.0.is_empty() {
        accounts.push(Take::take::<F>(from)?);
    }
    Ok(Participant { id, name, active, accounts, created_at })
});
