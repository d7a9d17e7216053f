//! Every setting, once. The file, the environment, the command line, `holdfast config` and docs/configuration.md are
//! all read off this table.

use std::ops::RangeInclusive;

use holdfast_api::limits as edge;
use holdfast_database::limits as database;
use holdfast_domain::shop::callers::{WAIT_MS_DEFAULT, WAIT_MS_MAX};
use holdfast_domain::shop::limits::{DEADLINE_MS_DEFAULT, DEADLINE_MS_MAX};
use holdfast_hub::limits as hub;
use holdfast_hub::tokens::limits as vault;

use super::value::{INSIDE, Kind, Value};

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its name in the file, with dots for tables.
    pub(crate) key: &'static str,
    /// What it does, in sentences of their own.
    pub(crate) what: &'static str,
    pub(crate) kind: Kind,
    default: Preset,
}

/// A default, in the form that a constant can have.
#[derive(Debug)]
enum Preset {
    Text(&'static str),
    Number(u64),
    Flag(bool),
    Unset,
}

impl Setting {
    /// The value where nobody says otherwise.
    pub(crate) fn default(&self) -> Value {
        match self.default {
            Preset::Text(text) => Value::Text(text.to_owned()),
            Preset::Number(number) => Value::Number(number),
            Preset::Flag(flag) => Value::Flag(flag),
            Preset::Unset => Value::Unset,
        }
    }

    /// Its name in the environment.
    pub(crate) fn variable(&self) -> String {
        format!("{}{}", super::PREFIX, self.key.replace('.', "_").to_uppercase())
    }
}

const fn text(key: &'static str, kind: Kind, default: &'static str, what: &'static str) -> Setting {
    Setting { key, what, kind, default: Preset::Text(default) }
}

const fn number(key: &'static str, bounds: RangeInclusive<u64>, default: u64, what: &'static str) -> Setting {
    let kind = Kind::Number { min: *bounds.start(), max: *bounds.end() };
    Setting { key, what, kind, default: Preset::Number(default) }
}

const fn flag(key: &'static str, default: bool, what: &'static str) -> Setting {
    Setting { key, what, kind: Kind::Flag, default: Preset::Flag(default) }
}

const fn url_or_none(key: &'static str, what: &'static str) -> Setting {
    Setting { key, what, kind: Kind::Url, default: Preset::Unset }
}

const fn text_or_none(key: &'static str, what: &'static str) -> Setting {
    Setting { key, what, kind: Kind::Text, default: Preset::Unset }
}

const fn path_or_none(key: &'static str, what: &'static str) -> Setting {
    Setting { key, what, kind: Kind::Path, default: Preset::Unset }
}

/// An hour, in milliseconds: the longest time that can be set.
const HOUR_MS: u64 = 3_600_000;
/// The largest frame that can be set: the log takes 16 MiB, and one large request may come on top.
const FRAME_BYTES_CEILING: u64 = 8 * 1024 * 1024;
/// One batch of the largest size must fit into the queue, or it would be refused for ever.
const BATCH_BYTES: u64 = edge::BATCH_BODY_MAX as u64;
const BATCH_RECORDS: u64 = hub::SUBMISSION_RECORDS_MAX as u64;
/// Far above what a machine has; a guard against a slip of the hand.
const BYTES_CEILING: u64 = 1 << 40;
const COUNT_CEILING: u64 = 1 << 30;

/// All settings. Those without a table come first, as TOML wants it.
pub(crate) static SETTINGS: [Setting; 48] = [
    text(
        "listen",
        Kind::Address,
        "127.0.0.1:4000",
        "Where the API listens. Any address but a loopback one needs API keys.",
    ),
    text(
        "data",
        Kind::Path,
        "./holdfast-data",
        "Where the log and what is derived from it lie; made if it is not there.",
    ),
    text(
        "trace",
        Kind::Text,
        "info",
        "What is written to standard error: error, warn, info, debug, or per part, such as info,holdfast_api=debug.",
    ),
    number(
        "connections_max",
        1..=COUNT_CEILING,
        edge::CONNECTIONS_MAX as u64,
        "Connections served at once; more wait in the kernel's queue.",
    ),
    text_or_none(
        "log",
        "Where Apache Kafka is, as kafka://HOST:PORT with further brokers behind commas. With `store` this makes the process a node of the database profile; without both it is the embedded profile.",
    ),
    text_or_none(
        "store",
        "Where PostgreSQL is, as postgres://USER@HOST:PORT/DATABASE. A password that is written here is not shown; PGPASSFILE or the settings file keep it from the list of processes.",
    ),
    text(
        "roles",
        Kind::Roles,
        "api,transfers,position,expiry,callbacks,tokens,order,pay,stock",
        "What this node of the database profile does, behind commas; all of it, unless one part is to be scaled alone.",
    ),
    path_or_none(
        "tls.certificate",
        "PEM file with the certificate chain. With tls.key the API speaks TLS only.",
    ),
    path_or_none("tls.key", "PEM file with the private key of the certificate."),
    path_or_none(
        "keys.file",
        "The API keys, as `holdfast keys` keeps them; without it keys.toml in the data directory. Where the file exists keys are needed, on loopback too.",
    ),
    flag("metrics.open", false, "Whether /metrics needs no key."),
    number(
        "rate.per_second",
        0..=1_000_000,
        0,
        "Requests per second that one key (without keys: one address) may send; 0: no limit.",
    ),
    number(
        "rate.burst",
        0..=1_000_000,
        0,
        "Requests that may come at once after a pause; 0: as many as in a second.",
    ),
    text(
        "position.order",
        Kind::Choice(&["arrival", "smallest"]),
        "arrival",
        "In which order the prepares of one account in one batch are tried.",
    ),
    text_or_none(
        "cluster.prefix",
        "Stands before the names of the topics, so that several hubs can share a Kafka.",
    ),
    number(
        "cluster.partitions",
        1..=4_096,
        12,
        "Partitions of each of the topics transfers, position, notifications, orders, pay, stock and outcomes. Fixed for life.",
    ),
    number(
        "cluster.replication",
        0..=32_767,
        0,
        "Copies of each topic that is made; 0: as the brokers have it.",
    ),
    number(
        "cluster.batch_messages",
        1..=10_000,
        database::BATCH_MESSAGES as u64,
        "The most messages that a handler of a node takes into one transaction.",
    ),
    number(
        "cluster.shards",
        1..=1_024,
        8,
        "Into how many shards the expiry scan of the database profile is divided. Fixed for life.",
    ),
    number(
        "clock.jump_max",
        1..=HOUR_MS,
        hub::CLOCK_JUMP_MAX as u64,
        "Milliseconds that the wall clock may move against the monotonic one before nothing is taken any more.",
    ),
    number(
        "checkpoint.log_bytes",
        64 * 1024..=BYTES_CEILING,
        hub::CHECKPOINT_LOG_BYTES,
        "Bytes of log after which a checkpoint is made. Fewer make a start after a crash faster and write more.",
    ),
    number(
        "retention.log_days",
        0..=36_500,
        0,
        "Days that the log is kept; older segments are removed after a checkpoint. 0: for ever. What a removed record led to is kept: its transfer is shown as archived.",
    ),
    number(
        "expiry.holds_max",
        1..=1_048_576,
        hub::EXPIRY_HOLDS_MAX as u64,
        "Holds that one expiry record ends at most, so that mass expiry leaves room for payments.",
    ),
    number(
        "intake.records_max",
        BATCH_RECORDS..=COUNT_CEILING,
        hub::INTAKE_RECORDS_MAX as u64,
        "Records that may wait in front of the writer; more are refused with 429.",
    ),
    number(
        "intake.bytes_max",
        BATCH_BYTES..=BYTES_CEILING,
        hub::INTAKE_BYTES_MAX as u64,
        "Bytes of records that may wait in front of the writer.",
    ),
    number(
        "intake.items_max",
        1..=COUNT_CEILING,
        hub::INTAKE_ITEMS_MAX as u64,
        "Requests, and apart from them questions, that may wait in front of the writer.",
    ),
    number(
        "frame.bytes_max",
        4_096..=FRAME_BYTES_CEILING,
        hub::FRAME_BYTES_MAX as u64,
        "Bytes of records at which a frame of the log is closed.",
    ),
    number(
        "tokens.max",
        1..=COUNT_CEILING,
        vault::MAX as u64,
        "Tokens that live at a time, some 300 bytes of memory each; more are refused. In the database profile: tokens in a node's cache, which begins anew beyond.",
    ),
    number(
        "tokens.claim_attempts",
        1..=1_000,
        vault::CLAIM_ATTEMPTS as u64,
        "How often a select chooses anew when others were faster, before it answers contention.",
    ),
    number(
        "tokens.waiters_max",
        1..=COUNT_CEILING,
        vault::WAITERS_MAX as u64,
        "Selects that wait for locked tokens at a time; more are refused with 503.",
    ),
    text(
        "tokens.indexes",
        Kind::Text,
        "wallet",
        "Index kinds kept from the start, with commas: wallet, external-id, public-key, token-only. Another is built when it is first asked for; each costs every lock and release an update.",
    ),
    number(
        "tokens.consolidate_every",
        0..=86_400,
        0,
        "Seconds between two looks for shattered wallets, whose small tokens are brought together; 0: never.",
    ),
    number(
        "tokens.consolidate_from",
        2..=COUNT_CEILING,
        1_000,
        "Free tokens of one wallet, type and currency from which it counts as shattered.",
    ),
    number(
        "tokens.consolidate_into",
        1..=1_000,
        8,
        "Tokens that one consolidation leaves: as many payments can go on side by side.",
    ),
    number("tokens.consolidate_inputs", 2..=10_000, 256, "Tokens that one consolidation takes at most."),
    number(
        "shop.deadline_ms",
        1..=DEADLINE_MS_MAX as u64,
        DEADLINE_MS_DEFAULT as u64,
        "Milliseconds after which a checkout that is not decided is cancelled and given back.",
    ),
    number(
        "shop.wait_ms",
        0..=WAIT_MS_MAX as u64,
        WAIT_MS_DEFAULT as u64,
        "Milliseconds that a caller waits for a checkout that stays open; then it is told how that stands.",
    ),
    text(
        "shop.payment",
        Kind::Payment,
        INSIDE,
        "Who charges: `inside`, the hub itself, the credit of the shop's users; `transfers`, the hub itself, positions of participants (then shop.payee and shop.currency say who is paid); `tokens`, the hub itself, the wallets of the shop's users (then shop.wallet and shop.currency say who is paid); the http or https URL of a payment provider that is asked; or, in the database profile, `kafka`, a program of its own that reads the topic pay (docs/checkout-topics.md). How callbacks are tried (callbacks.timeout_ms and the pauses) holds for it too.",
    ),
    text_or_none(
        "shop.payee",
        "The participant that is paid, if shop.payment is `transfers`. It must be there, with a position account in shop.currency.",
    ),
    text_or_none("shop.wallet", "The wallet that is paid into, if shop.payment is `tokens`."),
    text_or_none("shop.currency", "The currency of prices, if shop.payment is `transfers` or `tokens`."),
    text(
        "shop.unit",
        Kind::Text,
        "1",
        "What one of the shop's whole numbers is worth in shop.currency: 0.01 where prices are cents. A whole number where tokens pay.",
    ),
    text(
        "shop.stock",
        Kind::InsideOrUrl,
        INSIDE,
        "Who takes the stock: `inside`; the http or https URL of a warehouse that is asked; or, in the database profile, `kafka`, a program of its own that reads the topic stock (docs/checkout-topics.md).",
    ),
    url_or_none(
        "shop.webhook",
        "The http or https URL that is told how each checkout ended, in up to callbacks.attempts_max attempts.",
    ),
    number("callbacks.attempts_max", 1..=1_000, 10, "Attempts before a callback becomes a dead letter."),
    number(
        "callbacks.timeout_ms",
        10..=HOUR_MS,
        20_000,
        "Milliseconds that one attempt may take, from connecting to the end of the answer.",
    ),
    number(
        "callbacks.pause_min_ms",
        1..=HOUR_MS,
        500,
        "Milliseconds between the first attempt and the second, before jitter; doubles from there.",
    ),
    number(
        "callbacks.pause_max_ms",
        1..=HOUR_MS,
        60_000,
        "The longest pause between two attempts, in milliseconds.",
    ),
];
