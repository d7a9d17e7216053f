//! `holdfast load transfers`: payments against a hub that is running already.
//!
//! In a closed loop each payment begins when another has ended. In an open loop payments begin at their own places
//! in time and their latency counts from there, so a hub that falls behind cannot hide it by slowing down its
//! callers. Here refusals are counted, not fatal: it is the hub that is looked at, not the benchmark.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_client::{Abort, Client, ClientError, ClientOptions, Reply};
use holdfast_domain::transfers::TransferState;
use serde::Serialize;
use tokio::time::timeout;

use crate::bench::runtime;
use crate::figures::{Counts, Latency, lock, per_second};
use crate::line::CONNECT_WAIT_MAX;
use crate::meter::Books;
use crate::options::{
    ACCOUNTS_MAX, CALL_DEADLINE, CONNECTIONS_MAX, EXPIRY, Hub, IN_FLIGHT_MAX, PAYMENTS_MAX, Pacing,
    SINGLE_CONNECTIONS_DEFAULT, check_range,
};
use crate::pace::{Starts, work};
use crate::payments::{Parties, Payers, Payments, after, mix, seed_of};
use crate::report::{Report, grouped};
use crate::{LoadError, Loaded};

/// The code that a payee gives for an abort: "payee rejected the transaction".
const ABORT_CODE: u16 = 5_104;
/// How long a payment that is never fulfilled waits before it expires.
const SHORT_EXPIRY: Duration = Duration::from_millis(1_500);
/// After the last expiration the hub may take this long until no hold of ours is open.
const EXPIRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it is asked meanwhile.
const EXPIRY_LOOK: Duration = Duration::from_millis(100);

/// Two-phase payments between participants that are made for the run.
///
/// Without --rate each payment begins when another has ended (closed loop). With --rate payments begin at their own
/// places in time and latencies count from there.
#[derive(Debug, Clone, clap::Args)]
pub struct TransferLoad {
    /// The hub.
    #[command(flatten)]
    pub hub: Hub,
    /// When payments begin.
    #[command(flatten)]
    pub pacing: Pacing,
    /// How many payments to make
    #[arg(long)]
    pub payments: Option<u64>,
    /// Connections
    #[arg(long, default_value_t = SINGLE_CONNECTIONS_DEFAULT)]
    pub connections: usize,
    /// Of a hundred payments, how many the payee refuses
    #[arg(long, default_value_t = 0)]
    pub abort_percent: u8,
    /// Of a hundred payments, how many are left to expire
    #[arg(long, default_value_t = 0)]
    pub expire_percent: u8,
    /// Participants, made for this run
    #[arg(long, default_value_t = 100)]
    pub accounts: u32,
    /// From where names, ids and amounts come [default: another one each time]
    #[arg(long)]
    pub seed: Option<u64>,
}

impl TransferLoad {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--payments", self.payments.unwrap_or(1), 1, PAYMENTS_MAX * 1_000)?;
        check_range("--connections", self.connections as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())?;
        self.pacing.check(IN_FLIGHT_MAX)?;
        let ended_early = u64::from(self.abort_percent) + u64::from(self.expire_percent);
        check_range("--abort-percent and --expire-percent together", ended_early, 0, 100)
    }
}

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached or does not take the participants of the run.
pub fn load_transfers(options: &TransferLoad) -> Result<Loaded, LoadError> {
    options.check()?;
    runtime()?.block_on(run(options))
}

/// What became of the payments.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tally {
    settled: u64,
    aborted: u64,
    left_to_expire: u64,
    /// Refusals by the rules, by code.
    refused: Counts,
    /// Calls without a reply, by what they said.
    errors: Counts,
    /// Payments that were settled or aborted: from their start (open loop: their place in time) to the end.
    payment_us: Latency,
    prepare_us: Latency,
    /// Of the fulfil or abort alone.
    second_us: Latency,
}

/// How a payment is meant to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Fulfil,
    Abort,
    Expire,
}

struct Loading {
    client: Client,
    payments: Payments,
    options: TransferLoad,
    seed: u64,
    tally: Mutex<Tally>,
}

async fn run(options: &TransferLoad) -> Result<Loaded, LoadError> {
    let Hub { address, key } = &options.hub;
    let seed = seed_of(options.seed);
    let client = Client::connect(ClientOptions {
        connections: options.connections,
        calls_max: IN_FLIGHT_MAX,
        deadline: CALL_DEADLINE,
        jitter_seed: seed,
        api_key: key.clone(),
        ..ClientOptions::to(address)
    });
    let client = match timeout(CONNECT_WAIT_MAX, client).await {
        Ok(client) => client.map_err(LoadError::of(format!("connecting to {address}")))?,
        Err(_) => return Err(LoadError::NoHub(address.clone())),
    };
    let parties = Parties::create(&client, seed, options.accounts).await?;
    // A database with a long history does not count it; only who waits for expirations needs to know.
    let before = if options.expire_percent > 0 { Books::read(&client).await? } else { Books::default() };
    let payments = Payments::new(parties, Payers::Uniform, seed);
    let tally = Mutex::default();
    let loading = Arc::new(Loading { client, payments, options: options.clone(), seed, tally });
    let starts = Arc::new(Starts::paced("payments", &options.pacing, options.payments));
    let workers = (0..options.pacing.in_flight).map(|_| {
        let (loading, starts) = (Arc::clone(&loading), Arc::clone(&starts));
        async move {
            while let Some((number, begun)) = starts.next().await {
                loading.pay(number, begun).await;
            }
        }
    });
    let took = work(&starts, options.pacing.quiet, workers, |()| Ok(())).await?;
    let (expired, wrong) = match loading.wait_for_expiry(before).await {
        Ok(expired) => (Some(expired), None),
        Err(error) => (None, Some(error)),
    };
    let tally = std::mem::take(&mut *lock(&loading.tally));
    let mut report = tally.report(&starts, &options.pacing, took);
    report.figure("expired", expired);
    let wrong = wrong.map(LoadError::of("the hub could not be asked for its own counts at the end"));
    Ok(Loaded { report, wrong })
}

impl Tally {
    fn report(self, starts: &Starts, pacing: &Pacing, took: Duration) -> Report {
        let Tally { settled, aborted, left_to_expire, refused, errors, .. } = &self;
        let payments = settled + aborted + left_to_expire + refused.total() + errors.total();
        let parts =
            [("payment", &self.payment_us), ("prepare", &self.prepare_us), ("second call", &self.second_us)];
        let mut report = starts.report(pacing, payments, took, &parts);
        report.set_title(format!(
            "{payments} payments in {:.1} s: {}/s; settled {settled}, aborted {aborted}, left to expire {left_to_expire}, \
             refused {}, unknown {}",
            took.as_secs_f64(),
            grouped(per_second(payments, took), 0),
            refused.total(),
            errors.total()
        ));
        refused.iter().for_each(|(code, count)| report.note(format!("  refused with {code}: {count}")));
        errors.iter().for_each(|(error, count)| report.note(format!("  {error}: {count}")));
        report.figures(&self);
        report
    }
}

impl Loading {
    /// Waits until the holds that were left alone have run out; gives how many have.
    async fn wait_for_expiry(&self, before: Books) -> Result<u64, LoadError> {
        let left = lock(&self.tally).left_to_expire;
        if left == 0 {
            return Ok(0);
        }
        let given_up = Instant::now() + SHORT_EXPIRY + EXPIRY_WAIT_MAX;
        let mut look = tokio::time::interval(EXPIRY_LOOK);
        loop {
            look.tick().await;
            let expired = Books::read(&self.client).await?.expired.saturating_sub(before.expired);
            if expired >= left || Instant::now() >= given_up {
                return Ok(expired);
            }
        }
    }

    fn plan(&self, number: u64) -> Plan {
        let dice = mix(self.seed ^ 0x5d, number) % 100;
        let (abort, expire) = (u64::from(self.options.abort_percent), u64::from(self.options.expire_percent));
        match dice {
            dice if dice < abort => Plan::Abort,
            dice if dice < abort + expire => Plan::Expire,
            _ => Plan::Fulfil,
        }
    }

    async fn pay(&self, number: u64, begun: Instant) {
        let plan = self.plan(number);
        let life = if plan == Plan::Expire { SHORT_EXPIRY } else { EXPIRY };
        let prepare = self.payments.prepare(number, self.payments.condition(number), after(life));
        let prepared = self.client.prepare(prepare).await;
        let prepare_took = begun.elapsed();
        if !self.is_in(&prepared, TransferState::Reserved) {
            return;
        }
        if plan == Plan::Expire {
            let mut tally = lock(&self.tally);
            tally.prepare_us.record(prepare_took);
            tally.left_to_expire += 1;
            return;
        }
        let fulfil = self.payments.fulfil(number);
        let second = Instant::now();
        let (ended, state) = match plan {
            Plan::Abort => {
                let abort = Abort { id: fulfil.id, payee: fulfil.payee, code: ABORT_CODE };
                (self.client.abort(abort).await, TransferState::AbortedError)
            }
            _ => (self.client.fulfil(fulfil).await, TransferState::Committed),
        };
        let (second_took, took) = (second.elapsed(), begun.elapsed());
        if self.is_in(&ended, state) {
            let mut tally = lock(&self.tally);
            tally.prepare_us.record(prepare_took);
            tally.second_us.record(second_took);
            tally.payment_us.record(took);
            match plan {
                Plan::Abort => tally.aborted += 1,
                _ => tally.settled += 1,
            }
        }
    }

    /// Whether the transfer is where it should be. What did not go well is counted.
    fn is_in(&self, reply: &Result<Reply, ClientError>, state: TransferState) -> bool {
        match reply {
            Ok(reply) if reply.state == Some(state) => return true,
            Ok(reply) => lock(&self.tally).refused.note(reply.code.to_string()),
            Err(error) => lock(&self.tally).errors.note(error.to_string()),
        }
        false
    }
}
