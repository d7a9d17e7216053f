//! `holdfast load WHAT`: drive a hub that is running already.

use anyhow::{Context, ensure};
use holdfast_bench::options::{LINES_DEFAULT, SINGLE_CONNECTIONS_DEFAULT, parse_count};
use holdfast_bench::shop::options as shop;
use holdfast_bench::tokens::load::Ending;
use holdfast_bench::tokens::load::options::{AMOUNT_MAX_DEFAULT, TOKENS_DEFAULT, WALLETS_DEFAULT};
use holdfast_bench::{
    CheckoutLoadOptions, LoadEnd, LoadOptions, Pace, TokenLoadOptions, load_checkouts, load_tokens,
    load_transfers,
};

use super::bench::{print_report, told};
use super::{AlreadySaid, BadInput, Output};

/// Drive a running hub and measure what its callers feel.
#[derive(Debug, clap::Args)]
pub(super) struct Load {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(Transfers),
    Tokens(Tokens),
    Checkout(Checkout),
}

/// The hub that is driven, and who reads what it did.
#[derive(Debug, clap::Args)]
struct Hub {
    /// The hub
    #[arg(long, default_value = "http://127.0.0.1:4000", env = "HOLDFAST_URL")]
    url: String,
    /// An operator's key, where the hub asks for one
    #[arg(long, env = "HOLDFAST_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Hub {
    fn address(&self) -> anyhow::Result<String> {
        Ok(address_of(&self.url).map_err(BadInput::from)?)
    }

    fn print(&self, report: &(impl std::fmt::Display + serde::Serialize)) -> anyhow::Result<()> {
        print_report(report, self.output)
    }
}

/// Two-phase payments between participants that are made for the run.
///
/// Without --rate each payment begins when another has ended (closed loop). With --rate payments begin at their own
/// places in time and latencies count from there.
#[derive(Debug, clap::Args)]
struct Transfers {
    #[command(flatten)]
    hub: Hub,
    /// Payments per second (open loop)
    #[arg(long)]
    rate: Option<u64>,
    /// Payments under way at once, at most
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Connections
    #[arg(long, default_value_t = SINGLE_CONNECTIONS_DEFAULT)]
    connections: usize,
    /// How long to go on [default: 10, or until --payments are made]
    #[arg(long)]
    seconds: Option<u64>,
    /// How many payments to make
    #[arg(long)]
    payments: Option<u64>,
    /// Of a hundred payments, how many the payee refuses
    #[arg(long, default_value_t = 0)]
    abort_percent: u8,
    /// Of a hundred payments, how many are left to expire
    #[arg(long, default_value_t = 0)]
    expire_percent: u8,
    /// Participants, made for this run
    #[arg(long, default_value_t = 100)]
    accounts: u32,
    /// From where names, ids and amounts come [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
}

/// Selections of tokens, each followed by its spend or release, from wallets that are made for the run.
///
/// Each of --in-flight rounds has a connection of its own. Without --rate each round begins when another has ended
/// (closed loop). With --rate rounds begin at their own places in time and latencies count from there. At the end the
/// wallets must have what was issued to them.
#[derive(Debug, clap::Args)]
struct Tokens {
    #[command(flatten)]
    hub: Hub,
    /// Rounds per second (open loop)
    #[arg(long)]
    rate: Option<u64>,
    /// Rounds under way at once, at most
    #[arg(long, default_value_t = LINES_DEFAULT)]
    in_flight: usize,
    /// How long to go on [default: 10, or until --rounds are made]
    #[arg(long)]
    seconds: Option<u64>,
    /// How many rounds to make, such as 500000 or 500k
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    rounds: Option<u64>,
    /// What follows each selection
    #[arg(long, value_enum, default_value = "spend")]
    then: Then,
    /// Wallets, made for this run
    #[arg(long, default_value_t = WALLETS_DEFAULT)]
    wallets: u32,
    /// Tokens issued to each wallet
    #[arg(long, default_value_t = TOKENS_DEFAULT)]
    tokens: u32,
    /// Amounts and quantities are drawn from 1 up to this
    #[arg(long, value_name = "AMOUNT", default_value_t = AMOUNT_MAX_DEFAULT)]
    amount_max: u64,
    /// How long a selection may wait for funds that others hold
    #[arg(long, value_name = "MS", default_value_t = 0)]
    wait_ms: u32,
    /// From where names and amounts come [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Then {
    /// A spend to another wallet of the run
    Spend,
    /// A release
    Release,
}

impl Tokens {
    fn run(self) -> anyhow::Result<()> {
        let report = load_tokens(&TokenLoadOptions {
            address: self.hub.address()?,
            api_key: self.hub.key.clone(),
            pace: pace(self.rate),
            in_flight: self.in_flight,
            seconds: self.seconds,
            rounds: self.rounds,
            ending: match self.then {
                Then::Spend => Ending::Spend,
                Then::Release => Ending::Release,
            },
            wallets: self.wallets,
            tokens: self.tokens,
            amount_max: self.amount_max,
            wait_ms: self.wait_ms,
            seed: self.seed.unwrap_or_else(rand::random),
            progress: true,
        })
        .map_err(told)?;
        self.hub.print(&report)?;
        match &report.worth_found {
            Some(found) if *found == report.worth_issued => Ok(()),
            Some(_) => Err(AlreadySaid.into()),
            None => anyhow::bail!("the hub could not be asked for the wallets' balances at the end"),
        }
    }
}

/// Checkouts over HTTP, one request each, of orders that are made for the run.
///
/// Users, items and orders are made by their numbers from 0 on, as the shop's batch_init does. Orders are checked out one
/// after another; when all have been, they begin again and are answered as paid. Without --rate each checkout begins when
/// another has ended (closed loop). With --rate checkouts begin at their own places in time and latencies count from there.
/// A checkout whose answer is lost is asked for again, which pays nothing twice. At the end the credit that is gone must be the
/// price of the units that are gone, and something must have been paid; else the exit code is 1.
#[derive(Debug, clap::Args)]
struct Checkout {
    #[command(flatten)]
    hub: Hub,
    /// Checkouts per second (open loop)
    #[arg(long)]
    rate: Option<u64>,
    /// Checkouts under way at once, at most; each has a connection of its own
    #[arg(long, default_value_t = LINES_DEFAULT)]
    in_flight: usize,
    /// How long to go on [default: 10, or until --checkouts are made]
    #[arg(long)]
    seconds: Option<u64>,
    /// How many checkouts to make, such as 500000 or 500k
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    checkouts: Option<u64>,
    /// Users, made for this run
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = shop::USERS_DEFAULT)]
    users: u64,
    /// Items, made for this run; 1: everybody buys the same
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = shop::ITEMS_DEFAULT)]
    items: u64,
    /// Orders, made for this run
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = shop::ORDERS_DEFAULT)]
    orders: u64,
    /// Of a hundred orders, about how many fail: half for want of credit, half for want of stock
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    failing_percent: u8,
    /// Replace users, items and orders that have the numbers of this run
    #[arg(long)]
    replace: bool,
}

impl Checkout {
    fn run(self) -> anyhow::Result<()> {
        let report = load_checkouts(&CheckoutLoadOptions {
            address: self.hub.address()?,
            api_key: self.hub.key.clone(),
            pace: pace(self.rate),
            in_flight: self.in_flight,
            seconds: self.seconds,
            checkouts: self.checkouts,
            users: self.users,
            items: self.items,
            orders: self.orders,
            first_order: 0,
            failing_percent: self.failing_percent,
            replace: self.replace,
            gone_max: shop::GONE_MAX,
            progress: true,
        })
        .map_err(told)?;
        self.hub.print(&report)?;
        match report.trouble {
            Some(_) => Err(AlreadySaid.into()),
            None => Ok(()),
        }
    }
}

impl Load {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Transfers(flags) => flags.run(),
            What::Tokens(flags) => flags.run(),
            What::Checkout(flags) => flags.run(),
        }
    }
}

impl Transfers {
    fn run(self) -> anyhow::Result<()> {
        let LoadEnd { report, trouble } = load_transfers(&LoadOptions {
            address: self.hub.address()?,
            api_key: self.hub.key.clone(),
            pace: pace(self.rate),
            in_flight: self.in_flight,
            connections: self.connections,
            seconds: self.seconds,
            payments: self.payments,
            abort_percent: self.abort_percent,
            expire_percent: self.expire_percent,
            accounts: self.accounts,
            seed: self.seed.unwrap_or_else(rand::random),
            progress: true,
        })
        .map_err(told)?;
        self.hub.print(&report)?;
        match trouble {
            Some(error) => Err(anyhow::Error::from(error)
                .context("the hub could not be asked for its own counts at the end")),
            None => Ok(()),
        }
    }
}

/// Open if there is a rate.
fn pace(rate: Option<u64>) -> Pace {
    rate.map_or(Pace::Closed, |rate| Pace::Open { rate })
}

/// Host and port of a URL without a path.
fn address_of(url: &str) -> anyhow::Result<String> {
    let address = url.strip_prefix("http://").context("--url must begin with http://")?;
    let address = address.trim_end_matches('/');
    ensure!(!address.contains('/'), "--url names a host and a port, without a path");
    Ok(address.to_owned())
}
