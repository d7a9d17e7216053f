//! Participants, limits, funds and endpoints on the wire.

use super::Kind;
use super::codec::{Writer, listed, tail, take, zeros};
use crate::codec::{Bad, Bytes, Put, Read, Take, Unit};
use crate::command::{Admin, SetEndpoint};
use crate::ids::HUB;

/// A participant or an account is to be active.
pub(super) const FLAG_ACTIVE: u8 = 1;

listed!(Admin in Unit but for SetParticipantActive, SetAccountActive; {
    CreateParticipant = CreateParticipant { name, currency },
    InitialPositionAndLimits =
        InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position },
    SetLimit = SetLimit { participant, currency, net_debit_cap, alarm_percentage },
    FundsIn = FundsIn { id, account, currency, amount },
    FundsOutReserve = FundsOutReserve { id, account, currency, amount },
    FundsOutCommit = FundsOutCommit { id, account },
    FundsOutAbort = FundsOutAbort { id, account },
});

pub(super) fn read(kind: Kind, flags: u8, from: &mut Bytes<'_>) -> Read<Admin> {
    let active = flags & FLAG_ACTIVE != 0;
    let admin = match kind {
        Kind::SetParticipantActive => Admin::SetParticipantActive { participant: take(from)?, active },
        Kind::SetAccountActive => Admin::SetAccountActive { account: take(from)?, active },
        kind => read_fields(kind, from)?,
    };
    zeros(from, from.0.len())?;
    Ok(admin)
}

pub(super) fn write(admin: &Admin, out: &mut Vec<u8>) {
    let mut fields = Vec::new();
    let (kind, active) = match *admin {
        Admin::SetParticipantActive { participant, active } => {
            participant.put::<Unit>(&mut fields);
            (Kind::SetParticipantActive, active)
        }
        Admin::SetAccountActive { account, active } => {
            account.put::<Unit>(&mut fields);
            (Kind::SetAccountActive, active)
        }
        _ => (put_fields(admin, &mut fields), false),
    };
    Writer::new(out, kind, if active { FLAG_ACTIVE } else { 0 }, HUB).bytes(&fields).finish();
}

pub(super) fn read_endpoint(from: &mut Bytes<'_>) -> Read<SetEndpoint> {
    let participant = take(from)?;
    let (kind_length, value_length): (u16, u16) = take(from)?;
    zeros(from, 48)?;
    let tail = tail(from, u32::from(kind_length) + u32::from(value_length))?;
    let (kind, value) = tail.split_at(usize::from(kind_length));
    let text =
        |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Bad::new("endpoint", "is not UTF-8"));
    let endpoint = SetEndpoint::new(participant, text(kind)?, text(value)?);
    endpoint.ok_or(Bad::new("endpoint", "is empty or too long"))
}

pub(super) fn write_endpoint(endpoint: &SetEndpoint, out: &mut Vec<u8>) {
    let length = |text: &str| u16::try_from(text.len()).expect("bounded where it was made");
    Writer::new(out, Kind::SetEndpoint, 0, HUB)
        .put((endpoint.participant(), length(endpoint.kind()), length(endpoint.value())))
        .pad_to(1)
        .bytes(endpoint.kind().as_bytes())
        .bytes(endpoint.value().as_bytes())
        .finish();
}
