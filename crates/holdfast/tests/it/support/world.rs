//! Participants with funds and limits, and payments between them.

use std::time::Duration;

use holdfast_client::{Admin, Client, ClientOptions, Created, Fulfil, Prepare, Reply};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_engine::clock::{Clock, SystemClock};
use sha2::{Digest, Sha256};

/// Long enough for a restart in the middle of a call.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn usd() -> Currency {
    "USD".parse().unwrap()
}

pub(crate) fn now() -> Millis {
    SystemClock::new().read().wall
}

pub(crate) async fn client(server: &super::server::Server) -> Client {
    let options = ClientOptions { deadline: DEADLINE, ..ClientOptions::to(server.address.to_string()) };
    Client::connect(options).await.expect("the server listens")
}

/// Does work that waits for others.
pub(crate) fn on_runtime<R>(work: impl Future<Output = R>) -> R {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// Makes participants of a hub, as [`set_up`] does.
pub(crate) fn participants(server: &super::server::Server, count: u32, cap: Amount, funds: Amount) {
    on_runtime(async { set_up(&client(server).await, count, cap, funds).await });
}

/// Makes `count` participants, each with this cap and these funds. Their numbers are 1, 2, …
pub(crate) async fn set_up(client: &Client, count: u32, cap: Amount, funds: Amount) {
    for number in 1..=count {
        let name = Name::new(&format!("fsp{number}")).unwrap();
        let created = client.admin(Admin::CreateParticipant { name, currency: usd() }).await.unwrap();
        assert_eq!(
            Created::from_reply(&created).map(|created| created.participant),
            Some(ParticipantId(number))
        );
        let limits = Admin::InitialPositionAndLimits {
            participant: ParticipantId(number),
            currency: usd(),
            net_debit_cap: cap,
            initial_position: Amount::ZERO,
        };
        assert_eq!(client.admin(limits).await.unwrap().code, 0);
        let (id, account) = (TransferId(u128::from(number) << 100), AccountId(2 * number));
        let funded =
            client.admin(Admin::FundsIn { id, account, currency: usd(), amount: funds }).await.unwrap();
        assert_eq!(funded.code, 0);
    }
}

/// One payment that a test makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payment {
    pub(crate) id: u128,
    pub(crate) payer: u32,
    pub(crate) payee: u32,
    pub(crate) amount: i64,
    pub(crate) expiration: Millis,
}

impl Payment {
    fn preimage(&self) -> [u8; 32] {
        Sha256::digest(self.id.to_le_bytes()).into()
    }

    pub(crate) fn prepare(&self) -> Prepare {
        Prepare {
            id: TransferId(self.id),
            payer: ParticipantId(self.payer),
            payee: ParticipantId(self.payee),
            amount: Amount(self.amount),
            currency: usd(),
            expiration: self.expiration,
            condition: Sha256::digest(self.preimage()).into(),
        }
    }

    pub(crate) fn fulfil(&self) -> Fulfil {
        Fulfil { id: TransferId(self.id), payee: ParticipantId(self.payee), fulfilment: self.preimage() }
    }

    pub(crate) fn abort(&self) -> holdfast_client::Abort {
        holdfast_client::Abort { id: TransferId(self.id), payee: ParticipantId(self.payee), code: 5104 }
    }
}

/// State and code of a reply: what must be the same when the question is asked again.
pub(crate) fn verdict(reply: &Reply) -> (Option<holdfast_domain::transfers::TransferState>, u16) {
    (reply.state, reply.code)
}
