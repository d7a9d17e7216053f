//! Participants, limits, funds and endpoints on the wire.

use super::codec::{Cursor, Writer, bad, from_hub, only_flags};
use super::{Kind, RecordError};
use crate::command::{Admin, Command, SetEndpoint};
use crate::ids::{AccountId, HUB, ParticipantId, TransferId};
use crate::participants::Name;

const FLAG_ACTIVE: u8 = 1;

pub(super) fn read(kind: Kind, cursor: &mut Cursor<'_>) -> Result<Command, RecordError> {
    let (flags, source) = cursor.header();
    let with_active = matches!(kind, Kind::SetParticipantActive | Kind::SetAccountActive);
    only_flags(flags, if with_active { FLAG_ACTIVE } else { 0 })?;
    from_hub(source)?;
    let active = flags & FLAG_ACTIVE != 0;
    let admin = match kind {
        Kind::CreateParticipant => {
            let name = Name::from_padded(cursor.array())
                .ok_or_else(|| bad("name", "is not 2 to 30 letters, digits or -._ padded with zeros"))?;
            let currency = cursor.currency()?;
            cursor.zeros(20)?;
            Admin::CreateParticipant { name, currency }
        }
        Kind::SetParticipantActive => {
            let participant = ParticipantId(cursor.u32());
            cursor.zeros(52)?;
            Admin::SetParticipantActive { participant, active }
        }
        Kind::SetAccountActive => {
            let account = AccountId(cursor.u32());
            cursor.zeros(52)?;
            Admin::SetAccountActive { account, active }
        }
        Kind::InitialPositionAndLimits => {
            let participant = ParticipantId(cursor.u32());
            let currency = cursor.currency()?;
            let net_debit_cap = cursor.amount();
            let initial_position = cursor.amount();
            cursor.zeros(32)?;
            Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position }
        }
        Kind::SetLimit => {
            let participant = ParticipantId(cursor.u32());
            let currency = cursor.currency()?;
            let net_debit_cap = cursor.amount();
            let alarm_percentage = cursor.u16();
            cursor.zeros(38)?;
            Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage }
        }
        Kind::FundsIn | Kind::FundsOutReserve => {
            let id = TransferId(cursor.u128());
            let account = AccountId(cursor.u32());
            let currency = cursor.currency()?;
            let amount = cursor.amount();
            cursor.zeros(24)?;
            match kind {
                Kind::FundsIn => Admin::FundsIn { id, account, currency, amount },
                _ => Admin::FundsOutReserve { id, account, currency, amount },
            }
        }
        Kind::FundsOutCommit | Kind::FundsOutAbort => {
            let id = TransferId(cursor.u128());
            let account = AccountId(cursor.u32());
            cursor.zeros(36)?;
            match kind {
                Kind::FundsOutCommit => Admin::FundsOutCommit { id, account },
                _ => Admin::FundsOutAbort { id, account },
            }
        }
        _ => unreachable!("read by their own functions"),
    };
    Ok(Command::Admin(admin))
}

pub(super) fn write(admin: &Admin, out: &mut Vec<u8>) {
    let open = |out, kind, active: bool| Writer::new(out, kind, u8::from(active) * FLAG_ACTIVE, HUB);
    match *admin {
        Admin::CreateParticipant { name, currency } => {
            open(out, Kind::CreateParticipant, false).put(&name.padded()).currency(currency)
        }
        Admin::SetParticipantActive { participant, active } => {
            open(out, Kind::SetParticipantActive, active).put(&participant.0.to_le_bytes())
        }
        Admin::SetAccountActive { account, active } => {
            open(out, Kind::SetAccountActive, active).put(&account.0.to_le_bytes())
        }
        Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => {
            open(out, Kind::InitialPositionAndLimits, false)
                .put(&participant.0.to_le_bytes())
                .currency(currency)
                .put(&net_debit_cap.0.to_le_bytes())
                .put(&initial_position.0.to_le_bytes())
        }
        Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage } => {
            open(out, Kind::SetLimit, false)
                .put(&participant.0.to_le_bytes())
                .currency(currency)
                .put(&net_debit_cap.0.to_le_bytes())
                .put(&alarm_percentage.to_le_bytes())
        }
        Admin::FundsIn { id, account, currency, amount } => {
            movement(open(out, Kind::FundsIn, false), id, account)
                .currency(currency)
                .put(&amount.0.to_le_bytes())
        }
        Admin::FundsOutReserve { id, account, currency, amount } => {
            movement(open(out, Kind::FundsOutReserve, false), id, account)
                .currency(currency)
                .put(&amount.0.to_le_bytes())
        }
        Admin::FundsOutCommit { id, account } => {
            movement(open(out, Kind::FundsOutCommit, false), id, account)
        }
        Admin::FundsOutAbort { id, account } => movement(open(out, Kind::FundsOutAbort, false), id, account),
    }
    .finish();
}

fn movement(writer: Writer<'_>, id: TransferId, account: AccountId) -> Writer<'_> {
    writer.put(&id.0.to_le_bytes()).put(&account.0.to_le_bytes())
}

pub(super) fn read_endpoint(cursor: &mut Cursor<'_>) -> Result<SetEndpoint, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, 0)?;
    from_hub(source)?;
    let participant = ParticipantId(cursor.u32());
    let (kind_length, value_length) = (cursor.u16(), cursor.u16());
    cursor.zeros(48)?;
    let tail = cursor.tail(u32::from(kind_length) + u32::from(value_length))?;
    let (kind, value) = tail.split_at(usize::from(kind_length));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| bad("endpoint", "is not UTF-8"));
    SetEndpoint::new(participant, text(kind)?, text(value)?)
        .ok_or_else(|| bad("endpoint", "is empty or too long"))
}

pub(super) fn write_endpoint(endpoint: &SetEndpoint, out: &mut Vec<u8>) {
    let length = |text: &str| u16::try_from(text.len()).expect("bounded where it was made").to_le_bytes();
    Writer::new(out, Kind::SetEndpoint, 0, HUB)
        .put(&endpoint.participant().0.to_le_bytes())
        .put(&length(endpoint.kind()))
        .put(&length(endpoint.value()))
        .pad_to(1)
        .put(endpoint.kind().as_bytes())
        .put(endpoint.value().as_bytes())
        .finish();
}
