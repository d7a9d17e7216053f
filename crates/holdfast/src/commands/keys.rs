//! `holdfast keys create|list|revoke`: who may call this hub.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use holdfast_api::keys::{ID_BYTES, KEYS_MAX, KeptKey, KeyId, KeysFile, Role, SECRET_BYTES};
use holdfast_domain::participants::Name;
use holdfast_engine::clock::{Clock, SystemClock};
use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::{Value, json};

use super::{BadInput, Output, bad_input};
use crate::config::ConfigOptions;

/// Make, list and revoke API keys.
///
/// A running hub takes over changes within a second. From the first key on it refuses calls without one.
#[derive(Debug, clap::Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    what: What,
    /// The file of API keys [default: keys.toml in the data directory]
    #[arg(long, value_name = "FILE", global = true)]
    keys: Option<String>,
    /// The data directory [default: ./holdfast-data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<String>,
    /// Read settings from this file; without it ./holdfast.toml, if it is there
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a key and print it; it is not kept and cannot be shown again
    #[command(group(clap::ArgGroup::new("holder").required(true)))]
    Create {
        /// A key with which this participant sends transfers, and nothing else
        #[arg(long, value_name = "NAME", group = "holder")]
        participant: Option<String>,
        /// A key that may do everything
        #[arg(long, group = "holder")]
        operator: bool,
    },
    /// The keys that are good, without their secrets
    List,
    /// Make a key useless
    Revoke {
        /// The eight digits after hf_
        id: String,
    },
}

impl Keys {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let options = ConfigOptions::for_keys(self.config, self.data, self.keys);
        let file = KeysFile::at(options.settings().map_err(BadInput::from)?.keys_file);
        match self.what {
            What::Create { participant, .. } => create(&file, participant.as_deref(), self.output),
            What::List => list(&file, self.output),
            What::Revoke { id } => revoke(&file, &id, self.output),
        }
    }
}

fn create(file: &KeysFile, participant: Option<&str>, output: Output) -> anyhow::Result<()> {
    let role = match participant {
        None => Role::Operator,
        Some(text) => Role::Participant(Name::new(text).ok_or_else(|| {
            let rule = "has 2 to 30 letters, digits, '-', '.' or '_'";
            bad_input(format!("'{text}' is not a participant's name: it {rule}"))
        })?),
    };
    // Straight from the operating system: nothing of this process stands between it and the key.
    let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
    SysRng.try_fill_bytes(&mut id).context("the operating system gives no random bytes")?;
    SysRng.try_fill_bytes(&mut secret).context("the operating system gives no random bytes")?;
    let (secret, kept) = KeptKey::make(role, SystemClock::new().read().wall, id, &secret);
    let added = file.change(|ring| ring.add(kept))?;
    if !added {
        bail!("there are {KEYS_MAX} keys already, or the id {} is taken by chance: try again", kept.id);
    }
    let mut shown = describe(&kept);
    shown["key"] = json!(secret.reveal());
    match output {
        Output::Json => print(&format!("{shown}\n")),
        Output::Text => {
            print(&format!("{}\n", secret.reveal()))?;
            let place = file.path().display();
            eprintln!("key {} for {role}, kept as a hash in {place}; it is shown this once", kept.id);
            Ok(())
        }
    }
}

fn list(file: &KeysFile, output: Output) -> anyhow::Result<()> {
    let ring = file.read()?.unwrap_or_default();
    let rows: Vec<Value> = ring.iter().map(describe).collect();
    match output {
        Output::Json => print(&format!("{:#}\n", json!({"keys": rows}))),
        Output::Text if rows.is_empty() => {
            eprintln!("there are no keys in {}", file.path().display());
            Ok(())
        }
        Output::Text => {
            let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("").to_owned();
            let lines = rows.iter().map(|row| {
                let (id, created) = (text(row, "id"), text(row, "created"));
                format!("{id}  {created}  {:<11}  {}", text(row, "role"), text(row, "participant"))
            });
            print(&lines.map(|line| format!("{}\n", line.trim_end())).collect::<String>())
        }
    }
}

fn revoke(file: &KeysFile, id: &str, output: Output) -> anyhow::Result<()> {
    let parsed = KeyId::parse(id).ok_or_else(|| {
        bad_input(format!("'{id}' is not the id of a key: it has eight hexadecimal digits"))
    })?;
    let Some(key) = file.change(|ring| ring.revoke(parsed))? else {
        bail!("there is no key {id} in {}", file.path().display());
    };
    match output {
        Output::Json => print(&format!("{}\n", json!({"revoked": describe(&key)}))),
        Output::Text => print(&format!("revoked {id} of {}\n", key.role)),
    }
}

fn describe(key: &KeptKey) -> Value {
    let (role, participant) = match key.role {
        Role::Operator => ("operator", None),
        Role::Participant(name) => ("participant", Some(name.to_string())),
    };
    let created = crate::log_view::time(key.created);
    json!({"id": key.id.to_string(), "role": role, "participant": participant, "created": created})
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}
