//! `holdfast load WHAT`: drive a hub that is running already.

use anyhow::{Context, ensure};
use holdfast_bench::options::SINGLE_CONNECTIONS_DEFAULT;
use holdfast_bench::{LoadEnd, LoadOptions, Pace, load_transfers};

use super::bench::told;
use super::{BadInput, Output};

/// Drive a running hub and measure what its callers feel.
#[derive(Debug, clap::Args)]
pub(super) struct Load {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(Transfers),
}

/// Two-phase payments between participants that are made for the run.
///
/// Without --rate each payment begins when another has ended (closed loop). With --rate payments begin at their own
/// places in time and latencies count from there.
#[derive(Debug, clap::Args)]
struct Transfers {
    /// The hub
    #[arg(long, default_value = "http://127.0.0.1:4000", env = "HOLDFAST_URL")]
    url: String,
    /// An operator's key, where the hub asks for one
    #[arg(long, env = "HOLDFAST_KEY", hide_env_values = true)]
    key: Option<String>,
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
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Load {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let What::Transfers(flags) = self.what;
        let address = address_of(&flags.url).map_err(BadInput::from)?;
        let LoadEnd { report, trouble } = load_transfers(&LoadOptions {
            address,
            api_key: flags.key,
            pace: flags.rate.map_or(Pace::Closed, |rate| Pace::Open { rate }),
            in_flight: flags.in_flight,
            connections: flags.connections,
            seconds: flags.seconds,
            payments: flags.payments,
            abort_percent: flags.abort_percent,
            expire_percent: flags.expire_percent,
            accounts: flags.accounts,
            seed: flags.seed.unwrap_or_else(rand::random),
            progress: true,
        })
        .map_err(told)?;
        match flags.output {
            Output::Text => print!("{report}"),
            Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        match trouble {
            Some(error) => Err(anyhow::Error::from(error)
                .context("the hub could not be asked for its own counts at the end")),
            None => Ok(()),
        }
    }
}

/// Host and port of a URL without a path.
fn address_of(url: &str) -> anyhow::Result<String> {
    let address = url.strip_prefix("http://").context("--url must begin with http://")?;
    let address = address.trim_end_matches('/');
    ensure!(!address.contains('/'), "--url names a host and a port, without a path");
    Ok(address.to_owned())
}
