//! The settings as the program uses them.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use holdfast_database::{NodeSettings, StoreSettings, TopicSettings, VaultSettings, WantedCharging};
use holdfast_delivery::ShopAddresses;
use holdfast_delivery::options::CallbackOptions;
use holdfast_domain::ids::Currency;
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::shop::{Secret, Sides};
use holdfast_engine::CheckoutTimes;
use holdfast_hub::keys_mark::KEYS_FILE;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::{ConsolidationOptions, TokenIndexes, TokenOptions};
use holdfast_wire::limits::TOKEN_NAME_CHARS_MAX;

use super::layers::InForce;
use super::value::{KAFKA, TOKENS, TRANSFERS, Value, read_url};

/// Everything that can be set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) trace: String,
    pub(crate) connections_max: usize,
    /// Certificate chain and private key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) keys_file: PathBuf,
    /// Whether the file was named by somebody, and so must be there.
    pub(crate) keys_named: bool,
    pub(crate) metrics_open: bool,
    pub(crate) rate: Option<Rate>,
    pub(crate) hub: HubOptions,
    pub(crate) consolidation: Option<ConsolidationOptions>,
    pub(crate) callbacks: CallbackSettings,
    pub(crate) shop: ShopAddresses,
    pub(crate) charging: Option<ShopCharging>,
    /// A node of the database profile, if the servers are named.
    pub(crate) node: Option<NodeSettings>,
}

/// Checkouts charge positions or tokens: who is paid, and how much one of the shop's whole numbers is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShopCharging {
    pub(crate) payee: ShopPayee,
    pub(crate) currency: Currency,
}

/// As the start tells it: `positions in EUR, paid to shopfsp, 1 = 0.01`.
impl fmt::Display for ShopCharging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let currency = self.currency;
        match &self.payee {
            ShopPayee::Participant { name, unit } => {
                write!(f, "positions in {currency}, paid to {name}, 1 = {unit}")
            }
            ShopPayee::Wallet { name, unit } => {
                write!(f, "tokens in {currency}, paid into the wallet '{name}', 1 = {unit}")
            }
        }
    }
}

impl ShopCharging {
    /// The same as nodes of a hub agree on it; `None` is credit.
    fn wanted(charging: Option<ShopCharging>) -> holdfast_database::ShopCharging {
        let Some(ShopCharging { payee, currency }) = charging else {
            return holdfast_database::ShopCharging::default();
        };
        let wanted = match payee {
            ShopPayee::Participant { name, unit } => {
                WantedCharging::Transfers { payee: name, currency, unit }
            }
            ShopPayee::Wallet { name, unit } => WantedCharging::Tokens { wallet: name, currency, unit },
        };
        holdfast_database::ShopCharging { wanted, secret: Secret(rand::random()) }
    }
}

/// Who is paid for orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShopPayee {
    Participant { name: Name, unit: Amount },
    Wallet { name: String, unit: u64 },
}

/// Requests per second, and at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) per_second: NonZeroU32,
    pub(crate) burst: NonZeroU32,
}

/// How hard callbacks are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallbackSettings {
    pub(crate) attempts_max: u32,
    pub(crate) timeout: Duration,
    pub(crate) pause_min: Duration,
    pub(crate) pause_max: Duration,
}

impl CallbackSettings {
    /// For the deliverer of callbacks. Two hubs that fail together are to come back apart.
    pub(crate) fn options(self) -> CallbackOptions {
        let CallbackSettings { attempts_max, timeout, pause_min, pause_max } = self;
        let (attempt_time_max, jitter_seed) = (timeout, rand::random());
        CallbackOptions {
            attempts_max,
            attempt_time_max,
            pause_min,
            pause_max,
            jitter_seed,
            ..CallbackOptions::default()
        }
    }
}

impl Settings {
    /// Takes the values out of the layers and checks what concerns more than one of them.
    pub(crate) fn read(all: &InForce) -> anyhow::Result<Settings> {
        let tls = match (all.path("tls.certificate"), all.path("tls.key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => bail!("tls.certificate and tls.key go together: one of them is not set"),
        };
        let data = all.path("data").unwrap_or_default();
        let keys = all.path("keys.file");
        let hub = HubOptions {
            position_order: read_order(all),
            frame_bytes_max: all.number("frame.bytes_max"),
            intake_records_max: all.number("intake.records_max"),
            intake_bytes_max: all.number("intake.bytes_max"),
            intake_items_max: all.number("intake.items_max"),
            expiry_holds_max: all.number("expiry.holds_max"),
            clock_jump_max: all.number("clock.jump_max"),
            checkpoint_log_bytes: all.number("checkpoint.log_bytes"),
            retention_log_days: all.number("retention.log_days"),
            tokens: TokenOptions {
                max: all.number("tokens.max"),
                claim_attempts: all.number("tokens.claim_attempts"),
                waiters_max: all.number("tokens.waiters_max"),
                indexes: read_indexes(all.text("tokens.indexes"))?,
            },
            shop: read_times(all),
        };
        let consolidation = read_consolidation(all);
        let per_second = NonZeroU32::new(all.number("rate.per_second"));
        let burst = NonZeroU32::new(all.number("rate.burst"));
        let callbacks = CallbackSettings {
            attempts_max: all.number("callbacks.attempts_max"),
            timeout: Duration::from_millis(all.number("callbacks.timeout_ms")),
            pause_min: Duration::from_millis(all.number("callbacks.pause_min_ms")),
            pause_max: Duration::from_millis(all.number("callbacks.pause_max_ms")),
        };
        if callbacks.pause_min > callbacks.pause_max {
            bail!("callbacks.pause_min_ms is above callbacks.pause_max_ms");
        }
        Ok(Settings {
            listen: all.text("listen").parse()?,
            trace: all.text("trace").to_owned(),
            connections_max: all.number("connections_max"),
            tls,
            keys_named: keys.is_some(),
            keys_file: keys.unwrap_or_else(|| data.join(KEYS_FILE)),
            data,
            metrics_open: all.flag("metrics.open"),
            rate: per_second.map(|per_second| Rate { per_second, burst: burst.unwrap_or(per_second) }),
            hub,
            consolidation,
            callbacks,
            shop: addresses(all),
            charging: read_charging(all)?,
            node: read_node(all)?,
        })
    }
}

fn read_node(all: &InForce) -> anyhow::Result<Option<NodeSettings>> {
    let given = |key: &str| match all.value(key) {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    let (log, store) = match (given("log"), given("store")) {
        (Some(log), Some(store)) => (log, store),
        (None, None) if all.text("roles") != holdfast_database::Roles::default().to_string() => {
            bail!("roles are those of a node of the database profile: give log and store, or leave them out")
        }
        (None, None) if on_kafka(all).is_none() => return Ok(None),
        (None, None) => bail!(
            "shop.payment or shop.stock is {KAFKA}, and the embedded profile has no topics: give log and store, or set a URL"
        ),
        _ => bail!(
            "log and store go together: a node of the database profile needs both, the embedded profile none of them"
        ),
    };
    if !store.starts_with("postgres://") && !store.starts_with("postgresql://") {
        bail!(
            "store: it must be the address of a PostgreSQL, such as postgres://holdfast@127.0.0.1:5432/holdfast"
        );
    }
    let partitions = all.number("cluster.partitions");
    let topics = TopicSettings {
        shop: Some(partitions),
        replication: Some(all.number("cluster.replication")).filter(|copies| *copies > 0),
        ..TopicSettings::of(given("cluster.prefix").unwrap_or_default(), partitions)
    };
    let node = NodeSettings::new(log.parse().context("log")?, store, rand::random());
    Ok(Some(NodeSettings {
        topics,
        roles: all.text("roles").parse().map_err(|error| anyhow::anyhow!("roles: {error}"))?,
        batch_messages: all.number("cluster.batch_messages"),
        store: StoreSettings {
            expiry_shards: all.number("cluster.shards"),
            order: read_order(all),
            outside: addresses(all).outside(),
            on_kafka: on_kafka(all),
            tells_outcomes: all.url("shop.webhook").is_some(),
            ..StoreSettings::default()
        },
        tokens: VaultSettings {
            cache_tokens_max: all.number("tokens.max"),
            claim_attempts: all.number("tokens.claim_attempts"),
            waiters_max: all.number("tokens.waiters_max"),
            indexes: read_indexes(all.text("tokens.indexes"))?.kinds(),
            consolidation: read_consolidation(all),
        },
        charging: ShopCharging::wanted(read_charging(all)?),
        checkout: read_times(all),
        ..node
    }))
}

fn read_order(all: &InForce) -> PrepareOrder {
    match all.text("position.order") {
        "smallest" => PrepareOrder::Smallest,
        _ => PrepareOrder::Arrival,
    }
}

fn read_times(all: &InForce) -> CheckoutTimes {
    CheckoutTimes { deadline_ms: all.number("shop.deadline_ms"), wait_ms: all.number("shop.wait_ms") }
}

/// Who is called for the shop.
fn addresses(all: &InForce) -> ShopAddresses {
    ShopAddresses {
        payment: all.url("shop.payment"),
        stock: all.url("shop.stock"),
        webhook: all.url("shop.webhook"),
    }
}

/// The sides of checkouts that programs of their own serve.
fn on_kafka(all: &InForce) -> Sides {
    Sides { pay: all.text("shop.payment") == KAFKA, stock: all.text("shop.stock") == KAFKA }
}

/// What is done about shattered wallets; `None`: nothing.
fn read_consolidation(all: &InForce) -> Option<ConsolidationOptions> {
    let every = all.number("tokens.consolidate_every");
    (every > 0).then(|| ConsolidationOptions {
        every: Duration::from_secs(every),
        tokens_min: all.number("tokens.consolidate_from"),
        outputs: all.number("tokens.consolidate_into"),
        inputs_max: all.number("tokens.consolidate_inputs"),
    })
}

/// Settings that only some ways to charge use, and what each names.
const OF_CHARGING: [(&str, &str); 3] = [
    ("shop.payee", "the participant that is paid"),
    ("shop.wallet", "the wallet that is paid into"),
    ("shop.currency", "the currency of prices"),
];

/// Refuses those that `payment` does not use, and misses those that it needs; all at once.
fn check_charging(all: &InForce, payment: &str, needed: &[&str]) -> anyhow::Result<()> {
    let is_set = |key: &str| !matches!(all.value(key), Value::Unset);
    let list = |found: &[(&str, &str)]| {
        let keys: Vec<&str> = found.iter().map(|(key, _)| *key).collect();
        format!("{} {}", keys.join(" and "), if keys.len() == 1 { "is" } else { "are" })
    };
    let of = |wanted: fn(bool, bool) -> bool| {
        OF_CHARGING.into_iter().filter(move |(key, _)| wanted(is_set(key), needed.contains(key)))
    };
    let unused: Vec<(&str, &str)> = of(|set, needed| set && !needed).collect();
    if !unused.is_empty() {
        bail!(
            "{} set, and shop.payment, which is \"{payment}\", does not use that: take it out, or set shop.payment",
            list(&unused)
        );
    }
    let missing: Vec<(&str, &str)> = of(|set, needed| !set && needed).collect();
    if !missing.is_empty() {
        let meant: Vec<String> = missing.iter().map(|(key, what)| format!("{key} names {what}")).collect();
        bail!("shop.payment is \"{payment}\", and {} not set: {}", list(&missing), meant.join(", "));
    }
    Ok(())
}

fn read_charging(all: &InForce) -> anyhow::Result<Option<ShopCharging>> {
    let payment = all.text("shop.payment");
    let needed: &[&str] = match payment {
        TRANSFERS => &["shop.payee", "shop.currency"],
        TOKENS => &["shop.wallet", "shop.currency"],
        _ => &[],
    };
    check_charging(all, payment, needed)?;
    if needed.is_empty() {
        return Ok(None);
    }
    let currency = all.text("shop.currency").parse().context("shop.currency")?;
    let unit: Amount = all.text("shop.unit").parse().context("shop.unit")?;
    if unit <= Amount::ZERO {
        bail!("shop.unit must be worth more than zero");
    }
    let payee = if payment == TOKENS {
        let name = all.text("shop.wallet").to_owned();
        holdfast_tokens::check_name("the shop's wallet", &name).context("shop.wallet")?;
        // What is paid into a wallet that no request can name would stay there.
        let chars = name.chars().count();
        if chars > TOKEN_NAME_CHARS_MAX {
            bail!(
                "shop.wallet has {chars} characters, and the API takes names of up to {TOKEN_NAME_CHARS_MAX}: set a \
                 shorter one, or nobody can spend what is paid into it"
            );
        }
        let Some(unit) = unit.whole_units() else {
            bail!("shop.unit: {unit} is not a whole number, and shop.payment is {TOKENS}: tokens are whole");
        };
        ShopPayee::Wallet { name, unit }
    } else {
        let name = all.text("shop.payee");
        let Some(name) = Name::new(name) else { bail!("shop.payee: '{name}' is not a participant's name") };
        ShopPayee::Participant { name, unit }
    };
    Ok(Some(ShopCharging { payee, currency }))
}

fn read_indexes(list: &str) -> anyhow::Result<TokenIndexes> {
    let mut indexes = TokenIndexes::default();
    for kind in list.split(',').map(str::trim) {
        match kind {
            "wallet" => {}
            "external-id" => indexes.external_id = true,
            "public-key" => indexes.public_key = true,
            "token-only" => indexes.token_only = true,
            other => bail!("tokens.indexes: '{other}' is not wallet, external-id, public-key or token-only"),
        }
    }
    Ok(indexes)
}

/// Reading by key. The table says of which kind a value is, and the layers have checked it.
impl InForce {
    fn text(&self, key: &str) -> &str {
        match self.value(key) {
            Value::Text(text) => text,
            other => panic!("{key} is {other}, not a text"),
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        match self.value(key) {
            Value::Unset => None,
            _ => Some(PathBuf::from(self.text(key))),
        }
    }

    /// `None` for one that is not set, and for one that is inside.
    fn url(&self, key: &str) -> Option<hyper::Uri> {
        match self.value(key) {
            Value::Unset => None,
            _ => read_url(self.text(key)),
        }
    }

    fn number<T: TryFrom<u64>>(&self, key: &str) -> T {
        match self.value(key) {
            Value::Number(number) => {
                T::try_from(*number).unwrap_or_else(|_| panic!("{key}: its bounds in the table are too wide"))
            }
            other => panic!("{key} is {other}, not a number"),
        }
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.value(key), Value::Flag(true))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::Sides;

    use super::super::layers::Given;
    use super::*;

    #[test]
    fn a_node_of_the_database_profile_is_named_by_its_servers() {
        assert!(read(&[]).unwrap().node.is_none());
        let servers = [("log", "kafka://a:9092,b:9092"), ("store", "postgres://h@c/d")];
        let node = read(&servers).unwrap().node.unwrap();
        let topics = TopicSettings::default();
        let shop = Some(topics.transfers);
        assert_eq!(
            node.topics,
            TopicSettings { shop, ..topics },
            "the defaults are those of the room they belong to"
        );
        assert_eq!(node.roles, holdfast_database::Roles::default());
        assert!(node.store.outside == Sides::NONE && !node.store.tells_outcomes);
        let calling = [("shop.stock", "http://warehouse/"), ("shop.webhook", "http://w/")];
        let node = read(&[servers[0], servers[1], calling[0], calling[1]]).unwrap().node.unwrap();
        assert_eq!(node.store.outside, Sides { pay: false, stock: true });
        assert!(node.store.tells_outcomes);
        let kafka = ("shop.stock", "kafka");
        let node = read(&[servers[0], servers[1], kafka]).unwrap().node.unwrap();
        assert_eq!(
            (node.store.outside, node.store.on_kafka),
            (Sides::NONE, Sides { pay: false, stock: true })
        );
        assert!(why(&[kafka]).contains("no topics"));
        let paid = [("shop.payment", "transfers"), ("shop.payee", "shop"), ("shop.currency", "EUR")];
        let charges = read(&[&servers[..], &paid].concat()).unwrap().node.unwrap().charging;
        let WantedCharging::Transfers { payee, currency, unit } = charges.wanted else {
            panic!("{charges:?}")
        };
        assert_eq!(
            (payee.as_str(), currency.to_string(), unit),
            ("shop", "EUR".into(), Amount::whole(1).unwrap())
        );
        assert_ne!(charges.secret, Secret([0; 32]), "it is drawn");
        assert_eq!(node.store.expiry_shards, StoreSettings::default().expiry_shards);
        assert!(why(&servers[..1]).contains("go together"));
        let refused = |pair| read(&[servers[0], servers[1], pair]).unwrap_err();
        assert!(refused(("roles", "")).to_string().contains("any of api,transfers"));
        assert!(refused(("roles", "api,cook")).to_string().contains("'cook' is not a role"));
        assert!(format!("{:#}", refused(("log", "nats://a:1"))).starts_with("log"));
        assert!(refused(("store", "mysql://a")).to_string().starts_with("store"));
    }

    fn read(pairs: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let given: Vec<Given> = pairs
            .iter()
            .map(|(key, value)| Given { key: (*key).into(), value: (*value).into(), flag: "--set".into() })
            .collect();
        Settings::read(&InForce::load(None, std::iter::empty(), &given)?)
    }

    /// Why these are refused.
    fn why(pairs: &[(&str, &str)]) -> String {
        read(pairs).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_those_of_the_rooms_they_belong_to() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.hub, HubOptions::default());
        assert_eq!(settings.connections_max, holdfast_api::limits::CONNECTIONS_MAX);
        let callbacks = settings.callbacks.options();
        let jitter_seed = callbacks.jitter_seed;
        assert_eq!(callbacks, CallbackOptions { jitter_seed, ..CallbackOptions::default() });
        assert_eq!(settings.keys_file, PathBuf::from("./holdfast-data/keys.toml"));
        assert!(settings.rate.is_none() && settings.tls.is_none() && !settings.keys_named);
    }

    #[test]
    fn a_side_is_inside_or_has_an_address() {
        assert_eq!(read(&[]).unwrap().shop, ShopAddresses::default());
        let url = "https://warehouse.example/steps";
        let settings =
            read(&[("shop.stock", url), ("shop.payment", "inside"), ("shop.wait_ms", "0")]).unwrap();
        assert_eq!(settings.shop, ShopAddresses { stock: url.parse().ok(), ..ShopAddresses::default() });
        assert_eq!(settings.hub.shop, CheckoutTimes { wait_ms: 0, ..CheckoutTimes::default() });
    }

    #[test]
    fn who_charges_positions_says_who_is_paid() {
        let transfers = ("shop.payment", "transfers");
        let (payee, currency) = (("shop.payee", "shopfsp"), ("shop.currency", "EUR"));
        let settings = read(&[transfers, payee, currency, ("shop.unit", "0.01")]).unwrap();
        let name = Name::new("shopfsp").unwrap();
        let paid = ShopPayee::Participant { name, unit: Amount(100) };
        let charging = settings.charging.unwrap();
        assert_eq!(charging.to_string(), "positions in EUR, paid to shopfsp, 1 = 0.01");
        assert_eq!(charging.payee, paid);
        assert_eq!(settings.shop, ShopAddresses::default(), "nobody is called");
        assert!(why(&[transfers, currency]).contains("shop.payee is not set"));
        assert!(why(&[transfers, payee]).contains("shop.currency is not set"));
        assert_eq!(
            why(&[transfers]),
            "shop.payment is \"transfers\", and shop.payee and shop.currency are not set: shop.payee names the participant that \
             is paid, shop.currency names the currency of prices"
        );
        assert!(why(&[transfers, payee, ("shop.currency", "euro")]).contains("shop.currency"));
        assert!(why(&[transfers, ("shop.payee", "?"), currency]).contains("shop.payee"));
        for unit in ["0", "-1", "0.00001", "x"] {
            assert!(why(&[transfers, payee, currency, ("shop.unit", unit)]).contains("shop.unit"), "{unit}");
        }
    }

    #[test]
    fn who_charges_tokens_says_whose_wallet_is_paid() {
        let (tokens, currency) = (("shop.payment", "tokens"), ("shop.currency", "EUR"));
        let wallet = ("shop.wallet", "the shop");
        let paid = |unit| ShopPayee::Wallet { name: "the shop".to_owned(), unit };
        let settings = read(&[tokens, wallet, currency]).unwrap();
        assert_eq!(settings.charging.unwrap().payee, paid(1));
        assert_eq!(settings.shop, ShopAddresses::default(), "nobody is called");
        let settings = read(&[tokens, wallet, currency, ("shop.unit", "100")]).unwrap();
        assert_eq!(settings.charging.unwrap().payee, paid(100));
        assert!(why(&[tokens, currency]).contains("shop.wallet is not set"));
        assert!(why(&[tokens, wallet]).contains("shop.currency is not set"));
        for unit in ["0", "-1", "0.5", "x"] {
            assert!(why(&[tokens, wallet, currency, ("shop.unit", unit)]).contains("shop.unit"), "{unit}");
        }
    }

    /// Characters, not bytes, as the API counts them.
    #[test]
    fn a_wallet_that_no_request_can_name_is_refused() {
        let named = |name: &str| {
            let common = [("shop.payment", "tokens"), ("shop.currency", "EUR"), ("shop.wallet", name)];
            read(&common).map(|settings| settings.charging.unwrap().payee)
        };
        let longest = "é".repeat(TOKEN_NAME_CHARS_MAX);
        assert_eq!(named(&longest).unwrap(), ShopPayee::Wallet { name: longest.clone(), unit: 1 });
        let why = named(&format!("{longest}é")).unwrap_err().to_string();
        assert!(
            why.starts_with("shop.wallet has 129 characters, and the API takes names of up to 128"),
            "{why}"
        );
    }

    /// A file that says who is paid and charges something else is not what somebody meant.
    #[test]
    fn what_the_payment_does_not_use_is_refused() {
        let (payee, wallet) = (("shop.payee", "shopfsp"), ("shop.wallet", "the shop"));
        let currency = ("shop.currency", "EUR");
        assert!(
            why(&[payee, currency]).starts_with("shop.payee and shop.currency are set, and shop.payment")
        );
        assert!(why(&[wallet]).starts_with("shop.wallet is set, and shop.payment, which is \"inside\""));
        let tokens = ("shop.payment", "tokens");
        assert!(why(&[tokens, payee, wallet, currency]).starts_with("shop.payee is set"));
        assert!(
            why(&[("shop.payment", "transfers"), payee, wallet, currency]).contains("shop.wallet is set")
        );
        assert!(why(&[("shop.payment", "http://bank.example/"), currency]).contains("shop.currency is set"));
    }

    #[test]
    fn index_kinds_are_a_list() {
        let indexes =
            |list: &str| read(&[("tokens.indexes", list)]).map(|settings| settings.hub.tokens.indexes);
        assert_eq!(indexes("wallet").unwrap(), TokenIndexes::default());
        let two = TokenIndexes { external_id: true, token_only: true, ..TokenIndexes::default() };
        assert_eq!(indexes("token-only, wallet,external-id").unwrap(), two);
        assert!(indexes("wallets").unwrap_err().to_string().contains("'wallets'"));
        assert!(read(&[]).unwrap().consolidation.is_none());
        assert_eq!(read(&[("tokens.consolidate_every", "5")]).unwrap().consolidation.unwrap().outputs, 8);
    }

    #[test]
    fn settings_that_go_together_are_checked_together() {
        assert!(why(&[("tls.key", "k")]).contains("go together"));
        assert!(read(&[("tls.key", "k"), ("tls.certificate", "c")]).unwrap().tls.is_some());
        assert!(read(&[("callbacks.pause_min_ms", "2000"), ("callbacks.pause_max_ms", "1000")]).is_err());
        let rate = read(&[("rate.per_second", "5")]).unwrap().rate.unwrap();
        assert_eq!((rate.per_second.get(), rate.burst.get()), (5, 5));
    }

    #[test]
    fn every_number_fits_at_the_ends_of_its_range() {
        use super::super::table::SETTINGS;
        use super::super::value::Kind;
        for end in [0, 1] {
            let ends: Vec<(&str, String)> = SETTINGS
                .iter()
                .filter_map(|setting| match setting.kind {
                    Kind::Number { min, max } => Some((setting.key, [min, max][end].to_string())),
                    _ => None,
                })
                .collect();
            let pairs: Vec<(&str, &str)> = ends.iter().map(|(key, value)| (*key, value.as_str())).collect();
            assert!(read(&pairs).is_ok());
        }
    }
}
