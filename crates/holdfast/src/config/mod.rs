//! Configuration: flags over environment (`HOLDFAST_…`) over a TOML file over defaults.
//!
//! Whoever mistypes a setting must be told, not ignored: an unknown name in any layer is refused, with the nearest
//! known one. Names, kinds, bounds, defaults and explanations stand once, in `table`.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `table` | every setting |
//! | `value` | kinds of values, and text read as one |
//! | `layers` | file, environment and flags laid over each other |
//! | `settings` | the result as the program uses it |
//! | `show` | the result for people and programs, and a file of defaults |

mod layers;
mod settings;
pub(crate) mod show;
mod table;
mod value;

use std::path::PathBuf;

pub(crate) use layers::InForce;
use layers::{Given, PREFIX};
pub(crate) use settings::{Rate, Settings, ShopCharging, ShopPayee};

/// The options that every command with settings takes.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConfigOptions {
    /// Read settings from this file; without it ./holdfast.toml, if it is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:4000]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where the log lies; made if it is not there [default: ./holdfast-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Where Apache Kafka is, as kafka://HOST:PORT; with --store: be a node of the database profile
    #[arg(long, value_name = "URL")]
    log: Option<String>,
    /// Where PostgreSQL is, as postgres://USER@HOST:PORT/DATABASE; with --log: be a node of the database profile
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// What this node of the database profile does, behind commas [default: api,transfers,position,expiry,callbacks,tokens,order,pay,stock]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// In which order the prepares of one account in one batch are tried: arrival or smallest [default: arrival]
    #[arg(long, value_name = "ORDER")]
    position_order: Option<String>,
    /// The file of API keys [default: keys.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// PEM file with the certificate chain
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Any setting by its name in the file; `holdfast config` lists them
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_pair)]
    set: Vec<(String, String)>,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it must read KEY=VALUE, such as clock.jump_max=5000")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl ConfigOptions {
    /// What matters to a command that only looks for the keys file.
    pub(crate) fn for_keys(
        config: Option<PathBuf>,
        data: Option<String>,
        keys: Option<String>,
    ) -> ConfigOptions {
        ConfigOptions { config, data, keys, ..ConfigOptions::default() }
    }

    /// Lays these options over environment, file and defaults.
    pub(crate) fn load(&self) -> anyhow::Result<InForce> {
        let named = [
            ("--listen", "listen", &self.listen),
            ("--data", "data", &self.data),
            ("--log", "log", &self.log),
            ("--store", "store", &self.store),
            ("--roles", "roles", &self.roles),
            ("--position-order", "position.order", &self.position_order),
            ("--keys", "keys.file", &self.keys),
            ("--tls-certificate", "tls.certificate", &self.tls_certificate),
            ("--tls-key", "tls.key", &self.tls_key),
        ];
        let named = named.into_iter().filter_map(|(flag, key, value)| {
            let value = value.clone()?;
            Some(Given { key: key.to_owned(), value, flag: flag.to_owned() })
        });
        let set = self.set.iter().map(|(key, value)| Given {
            key: key.clone(),
            value: value.clone(),
            flag: format!("--set {key}"),
        });
        let given: Vec<Given> = named.chain(set).collect();
        InForce::load(self.config.as_deref(), layers::our_variables(), &given)
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        Settings::read(&self.load()?)
    }
}
