//! The material of payments: participants with funds, and for each payment its id, parties, preimage and condition,
//! all derived from a seed.

use std::time::Duration;

use holdfast_client::{Admin, Batch, Client, Command, Created, Fulfil, Prepare, Reply};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
pub use holdfast_domain::series::at as mix;
use sha2::{Digest, Sha256};

use crate::LoadError;

/// Commands per set-up request at most.
const SETUP_BATCH: usize = 4_096;
/// Into how many requests a set-up is divided: a node of the database profile takes the commands of one in turn, each through all hops.
const SETUP_REQUESTS: usize = 24;
/// Cap and funds of each account, in whole units: no limit is reached, every limit is tested.
const FUNDS_UNITS: i64 = 10_000_000_000_000;
/// Amounts are from 1 to this many ten-thousandths.
const AMOUNT_MAX: u64 = 1_000_000;

const CURRENCY: &str = "USD";

/// The wall clock, for expirations.
pub fn now_millis() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

/// So long from now.
pub fn after(time: Duration) -> Millis {
    now_millis().saturating_add(Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX))
}

/// A seed that was given, else another one each time.
pub fn seed_of(given: Option<u64>) -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    given.unwrap_or_else(|| mix(std::process::id().into(), u64::try_from(now).unwrap_or(0)))
}

/// The currency of all payments.
pub fn currency() -> Currency {
    CURRENCY.parse().expect("three capital letters")
}

/// Who pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payers {
    /// Any account.
    Uniform,
    /// Always the same account; the payees are the others.
    Hot,
}

/// Participants that exist on the hub, with funds and a cap.
#[derive(Debug, Clone)]
pub struct Parties(Vec<ParticipantId>);

impl Parties {
    /// Makes `count` participants that no other run has.
    pub async fn create(client: &Client, seed: u64, count: u32) -> Result<Parties, LoadError> {
        let name = |number: u32| {
            Name::new(&format!("p{:012x}-{number}", seed & 0xffff_ffff_ffff)).expect("letters, digits and -")
        };
        let currency = currency();
        let create = (0..count).map(|number| Admin::CreateParticipant { name: name(number), currency });
        let replies = admin(client, "creating participants", create).await?;
        let created: Vec<Created> = replies.iter().filter_map(Created::from_reply).collect();
        let funds = Amount::whole(FUNDS_UNITS).expect("fits");
        let limits = created.iter().map(|created| Admin::InitialPositionAndLimits {
            participant: created.participant,
            currency,
            net_debit_cap: funds,
            initial_position: Amount::ZERO,
        });
        admin(client, "setting limits", limits).await?;
        let funds_in = (0..).zip(&created).map(|(number, created)| Admin::FundsIn {
            id: TransferId(u128::from(mix(!seed, number)) << 64 | u128::from(number)),
            account: AccountId(created.settlement_account.0),
            currency,
            amount: funds,
        });
        admin(client, "paying funds in", funds_in).await?;
        Ok(Parties(created.iter().map(|created| created.participant).collect()))
    }
}

async fn admin(
    client: &Client,
    what: &'static str,
    commands: impl Iterator<Item = Admin>,
) -> Result<Vec<Reply>, LoadError> {
    let commands: Vec<Command> = commands.map(Command::Admin).collect();
    let mut replies = Vec::with_capacity(commands.len());
    let mut requests = Vec::new();
    for chunk in commands.chunks(commands.len().div_ceil(SETUP_REQUESTS).clamp(1, SETUP_BATCH)) {
        let mut batch = Batch::with_capacity(chunk.len());
        for command in chunk {
            batch.push(command).map_err(LoadError::of(what))?;
        }
        let client = client.clone();
        requests.push(tokio::spawn(async move { client.batch(batch).await }));
    }
    for request in requests {
        let answered = request.await.map_err(|error| LoadError::Refused(format!("{what}: {error}")))?;
        replies.extend(answered.map_err(LoadError::of(what))?);
    }
    match replies.iter().find(|reply| reply.code != 0) {
        Some(refused) if refused.code == ErrorCode::ClientError.number() => Err(LoadError::Refused(format!(
            "{what} was refused with {}: this hub has had a run with the same --seed, and names and ids come from \
             it; give another one, or none",
            refused.code
        ))),
        Some(refused) => Err(LoadError::Refused(format!("{what} was refused with {}", refused.code))),
        None => Ok(replies),
    }
}

/// What fulfils the payment of that number.
pub fn preimage(seed: u64, number: u64) -> [u8; 32] {
    let mut preimage = [0; 32];
    for (word, bytes) in (0..).zip(preimage.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&mix(seed ^ (0x3b + word), number).to_le_bytes());
    }
    preimage
}

/// A series of payments.
#[derive(Debug, Clone)]
pub struct Payments {
    parties: Parties,
    payers: Payers,
    seed: u64,
}

impl Payments {
    /// Between these participants.
    pub const fn new(parties: Parties, payers: Payers, seed: u64) -> Payments {
        Payments { parties, payers, seed }
    }

    fn id(&self, number: u64) -> TransferId {
        let high = mix(self.seed ^ 0x1d, number);
        let low = mix(self.seed ^ 0x1e, number);
        TransferId(u128::from(high) << 64 | u128::from(low))
    }

    /// Payer and payee are never the same.
    fn parties(&self, number: u64) -> (ParticipantId, ParticipantId) {
        let parties = &self.parties.0;
        let count = parties.len() as u64;
        let at = |place: u64| parties[usize::try_from(place).expect("below the number of parties")];
        let random = mix(self.seed ^ 0x2a, number);
        let payer = match self.payers {
            Payers::Uniform => (random >> 32) % count,
            Payers::Hot => 0,
        };
        let step = 1 + (random & 0xffff_ffff) % (count - 1);
        (at(payer), at((payer + step) % count))
    }

    /// The conditions of payments `0..count`, in order.
    pub fn conditions(&self, count: u64) -> Vec<[u8; 32]> {
        (0..count).map(|number| self.condition(number)).collect()
    }

    /// The condition of one.
    pub fn condition(&self, number: u64) -> [u8; 32] {
        Sha256::digest(preimage(self.seed, number)).into()
    }

    /// The prepare of one.
    pub fn prepare(&self, number: u64, condition: [u8; 32], expiration: Millis) -> Prepare {
        let (payer, payee) = self.parties(number);
        let amount = 1 + mix(self.seed ^ 0x4c, number) % AMOUNT_MAX;
        let amount = Amount(i64::try_from(amount).expect("below the limit"));
        Prepare { id: self.id(number), payer, payee, amount, currency: currency(), expiration, condition }
    }

    /// The fulfil of one.
    pub fn fulfil(&self, number: u64) -> Fulfil {
        Fulfil { id: self.id(number), payee: self.parties(number).1, fulfilment: preimage(self.seed, number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_are_distinct_and_between_two_parties() {
        let parties = Parties((1..=7).map(ParticipantId).collect());
        for payers in [Payers::Uniform, Payers::Hot] {
            let payments = Payments::new(parties.clone(), payers, 5);
            let mut ids: Vec<_> = (0..1_000).map(|number| payments.id(number)).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), 1_000);
            for number in 0..1_000 {
                let (payer, payee) = payments.parties(number);
                assert_ne!(payer, payee);
                assert!(payers == Payers::Uniform || payer == ParticipantId(1));
                let condition: [u8; 32] = Sha256::digest(payments.fulfil(number).fulfilment).into();
                assert_eq!(condition, payments.condition(number));
            }
        }
    }
}
