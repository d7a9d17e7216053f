//! What a caller says: the fields of each call, and batches of records.

use bytes::Bytes;
use holdfast_domain::command::{self, Command, FulfilAction};
use holdfast_domain::effects::Subject;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::records::batch::{HEADER_LEN, Reply, request_header};
use holdfast_domain::records::{self, PREPARE_LEN};

use crate::ClientError;
use crate::options::BATCH_RECORDS_MAX;

/// Reserve `amount` on the payer's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepare {
    /// The transfer's id. A repeat has the same.
    pub id: TransferId,
    /// Whose position is reserved; also the sender.
    pub payer: ParticipantId,
    /// Who may fulfil or abort.
    pub payee: ParticipantId,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// After this instant it can only expire.
    pub expiration: Millis,
    /// SHA-256 of the fulfilment.
    pub condition: [u8; 32],
}

impl From<Prepare> for Command {
    fn from(call: Prepare) -> Command {
        let Prepare { id, payer, payee, amount, currency, expiration, condition } = call;
        let (source, hash, tail) = (payer, [0; 32], Vec::new());
        Command::Prepare(command::Prepare {
            source,
            id,
            payer,
            payee,
            amount,
            expiration,
            currency,
            condition,
            hash,
            tail,
            funding: None,
        })
    }
}

/// Settle a transfer by showing the preimage of its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fulfil {
    /// Which transfer.
    pub id: TransferId,
    /// The sender.
    pub payee: ParticipantId,
    /// The preimage.
    pub fulfilment: [u8; 32],
}

impl From<Fulfil> for Command {
    /// The digest is left to the hub: it is no part of the record.
    fn from(call: Fulfil) -> Command {
        Command::Fulfil(command::Fulfil {
            source: call.payee,
            id: call.id,
            action: FulfilAction::Commit,
            fulfilment: call.fulfilment,
            digest: [0; 32],
            tail: Vec::new(),
        })
    }
}

/// Release a transfer, because the payee refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abort {
    /// Which transfer.
    pub id: TransferId,
    /// The sender.
    pub payee: ParticipantId,
    /// The reason, four digits.
    pub code: u16,
}

impl From<Abort> for Command {
    fn from(call: Abort) -> Command {
        let (source, digest, tail) = (call.payee, [0; 32], Vec::new());
        Command::Abort(command::Abort { source, id: call.id, code: call.code, digest, tail })
    }
}

/// What `create_participant` made, as its reply tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The participant.
    pub participant: ParticipantId,
    /// Its position account in the currency; the settlement account is the next number.
    pub position_account: AccountId,
    /// Its settlement account in the currency.
    pub settlement_account: AccountId,
}

impl Created {
    /// Reads the reply to `create_participant`; `None` if it was refused.
    #[must_use]
    pub fn from_reply(reply: &Reply) -> Option<Created> {
        if reply.code != 0 {
            return None;
        }
        let (participant, position_account) = Subject::member(reply.subject);
        let settlement_account = AccountId(position_account.0.checked_add(1)?);
        Some(Created { participant, position_account, settlement_account })
    }
}

/// Records that travel as one request and are decided in this order.
#[derive(Debug, Clone)]
pub struct Batch {
    body: Vec<u8>,
    count: u32,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::with_capacity(0)
    }
}

impl Batch {
    /// An empty batch with room for so many records.
    #[must_use]
    pub fn with_capacity(records: usize) -> Batch {
        let mut body = Vec::with_capacity(HEADER_LEN + records.min(BATCH_RECORDS_MAX) * PREPARE_LEN);
        body.resize(HEADER_LEN, 0);
        Batch { body, count: 0 }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If the batch is full, or no record can say this.
    pub fn push(&mut self, command: &Command) -> Result<(), ClientError> {
        check(command)?;
        if self.len() >= BATCH_RECORDS_MAX {
            return Err(ClientError::NotARecord("the batch is full"));
        }
        records::write(command, &mut self.body);
        self.count += 1;
        Ok(())
    }

    /// How many records it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The finished body, which can be sent any number of times without another copy.
    #[must_use]
    pub fn seal(mut self) -> SealedBatch {
        self.body[..HEADER_LEN].copy_from_slice(&request_header(self.count));
        SealedBatch { body: self.body.into(), count: self.count }
    }
}

/// A batch that is ready to be sent.
#[derive(Debug, Clone)]
pub struct SealedBatch {
    pub(crate) body: Bytes,
    pub(crate) count: u32,
}

impl SealedBatch {
    /// How many records it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl From<Batch> for SealedBatch {
    fn from(batch: Batch) -> SealedBatch {
        batch.seal()
    }
}

/// Refuses what the hub would refuse for its shape: one such record would hold up the others of its batch.
pub(crate) fn check(command: &Command) -> Result<(), ClientError> {
    match command {
        Command::Abort(abort) if !(1000..=9999).contains(&abort.code) => {
            Err(ClientError::NotARecord("the code of an abort has four digits"))
        }
        Command::Prepare(prepare) if !prepare.tail.is_empty() || prepare.hash != [0; 32] => {
            Err(ClientError::NotARecord("a batch record carries no tail, and the hub fills in the hash"))
        }
        Command::Abort(abort) if !abort.tail.is_empty() => {
            Err(ClientError::NotARecord("a batch record carries no tail"))
        }
        Command::Expire(_) => Err(ClientError::NotARecord("only the hub itself ends what ran out")),
        Command::Token(_) | Command::SetEndpoint(_) => {
            Err(ClientError::NotARecord("tokens and endpoints have paths of their own; use HTTP"))
        }
        Command::Shop(command) => crate::checkouts::check(command),
        _ => Ok(()),
    }
}
