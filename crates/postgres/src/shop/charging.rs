//! What checkouts charge: one row that all nodes read, so that none can charge otherwise than the others.

use holdfast_domain::ids::{Currency, ParticipantId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::shop::{ByTokens, ByTransfers, Charging, Secret};
use postgres::GenericClient;

use crate::Error;
use crate::guard::{signed, unsigned};
use crate::load::{currency_of, number};
use crate::session::{Statements, Store};

/// A change of the row keeps others from changing it for so long: nodes that start together see each other by this.
const SETTLES_IN: &str = "10 seconds";

const TABLE: &str = "shop_charging";

/// What a node was told to charge. Whose name the payee has is looked up where it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WantedCharging {
    /// The users' credit.
    #[default]
    Credit,
    /// Positions of participants.
    Transfers {
        /// Who is paid.
        payee: Name,
        /// In which currency.
        currency: Currency,
        /// What one of the shop's whole numbers is worth.
        unit: Amount,
    },
    /// Tokens in wallets.
    Tokens {
        /// Whose wallet is paid into.
        wallet: String,
        /// In which currency.
        currency: Currency,
        /// How many units of a token one of the shop's whole numbers is worth.
        unit: u64,
    },
}

impl Store {
    /// What checkouts charge. A database that was never told charges credit.
    pub fn charging(&mut self) -> Result<Charging, Error> {
        charging(&mut self.client, &self.statements)
    }

    /// Agrees with the other nodes on what checkouts charge: the first one writes it, with a `secret` that it has drawn, and
    /// whoever says the same goes with it. To change it is for a node that is alone; tries that are open keep what they
    /// began with. Where nobody ever said anything, credit is charged and nothing written.
    ///
    /// # Errors
    /// [`Error::Charging`] if other nodes charge something else, or the payee has no account.
    pub fn agree_on_charging(
        &mut self,
        wanted: &WantedCharging,
        secret: Secret,
        node: i64,
    ) -> Result<Charging, Error> {
        let wanted = self.resolve(wanted, secret)?;
        let mut tx = self.client.transaction()?;
        // Also where there is no row yet, one node comes after the other.
        tx.batch_execute("LOCK TABLE shop_charging IN EXCLUSIVE MODE")?;
        let before = charging(&mut tx, &self.statements)?;
        if before.is_like(&wanted) {
            return Ok(before);
        }
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM node WHERE node_id <> $1 AND seen_until >= hub_clock()) OR EXISTS
                 (SELECT 1 FROM shop_charging WHERE changed_date > hub_clock() - interval '{SETTLES_IN}')"
        );
        if tx.query_one(&sql, &[&node])?.get(0) {
            return Err(Error::Charging(format!(
                "shop.payment and what goes with it say that checkouts charge {}, and the other nodes charge {}: say the \
                 same at every node; to change it, stop all nodes, and start them {SETTLES_IN} later with the new settings",
                words(&wanted),
                words(&before)
            )));
        }
        tracing::info!(
            before = words(&before),
            now = words(&wanted),
            "checkouts charge something else from now on"
        );
        let (kind, payee, wallet, of) = match &wanted {
            Charging::Credit => ("credit", None, None, None),
            Charging::Transfers(by) => {
                ("transfers", i32::try_from(by.payee.0).ok(), None, Some((by.currency, by.unit.0)))
            }
            Charging::Tokens(by) => ("tokens", None, Some(&*by.wallet), Some((by.currency, signed(by.unit)))),
        };
        let (currency, unit) = of.map(|(currency, unit)| (currency.to_string(), unit)).unzip();
        tx.execute(
            "INSERT INTO shop_charging (kind, payee_id, wallet, currency_id, unit, secret, changed_date)
             VALUES ($1, $2, $3, $4, $5, $6, hub_clock())
             ON CONFLICT (singleton) DO UPDATE SET kind = excluded.kind, payee_id = excluded.payee_id,
                 wallet = excluded.wallet, currency_id = excluded.currency_id, unit = excluded.unit,
                 secret = excluded.secret, changed_date = excluded.changed_date",
            &[&kind, &payee, &wallet, &currency, &unit, &secret.0.as_slice()],
        )?;
        tx.commit()?;
        Ok(wanted)
    }

    fn resolve(&mut self, wanted: &WantedCharging, secret: Secret) -> Result<Charging, Error> {
        match wanted {
            WantedCharging::Credit => Ok(Charging::Credit),
            WantedCharging::Tokens { wallet, currency, unit } => Ok(Charging::Tokens(ByTokens {
                wallet: wallet.as_str().into(),
                currency: *currency,
                unit: *unit,
                secret,
            })),
            WantedCharging::Transfers { payee, currency, unit } => {
                let make = format!(
                    "start a node without shop.payment, shop.payee and shop.currency, run `holdfast participants create \
                     {payee} --currency {currency} --cap 0`, stop it, and start anew with them"
                );
                let sql = "SELECT participant_id FROM participant WHERE lower(name) = $1";
                let found = self.client.query_opt(sql, &[&payee.folded().as_str()])?;
                let Some(found) = found else {
                    return Err(Error::Charging(format!(
                        "shop.payee: there is no participant {payee}; {make}"
                    )));
                };
                let id = ParticipantId(number("participant", found.get(0))?);
                if self.position_account(id, *currency)?.is_none() {
                    let why = format!("shop.payee: {payee} has no position account in {currency}; {make}");
                    return Err(Error::Charging(why));
                }
                Ok(Charging::Transfers(ByTransfers { payee: id, currency: *currency, unit: *unit, secret }))
            }
        }
    }
}

/// What checkouts charge, as a step reads it.
pub(super) fn charging(client: &mut impl GenericClient, statements: &Statements) -> Result<Charging, Error> {
    let sql = "SELECT kind, payee_id, wallet, currency_id, unit, secret FROM shop_charging";
    let Some(row) = statements.query_opt(client, sql, &[])? else { return Ok(Charging::Credit) };
    let currency = || -> Result<Currency, Error> {
        let text: Option<&str> = row.get(3);
        currency_of(text.ok_or_else(|| Error::corrupt(TABLE, "no currency"))?)
    };
    let unit: Option<i64> = row.get(4);
    let unit = unit.unwrap_or_default();
    let secret = Secret(
        <[u8; 32]>::try_from(row.get::<_, &[u8]>(5)).map_err(|_| Error::corrupt(TABLE, "the secret"))?,
    );
    match (row.get(0), row.get::<_, Option<i32>>(1), row.get::<_, Option<&str>>(2)) {
        ("credit", _, _) => Ok(Charging::Credit),
        ("transfers", Some(payee), _) => {
            let payee = ParticipantId(number(TABLE, payee)?);
            Ok(Charging::Transfers(ByTransfers { payee, currency: currency()?, unit: Amount(unit), secret }))
        }
        ("tokens", _, Some(wallet)) => {
            let (wallet, unit) = (wallet.into(), unsigned(TABLE, unit)?);
            Ok(Charging::Tokens(ByTokens { wallet, currency: currency()?, unit, secret }))
        }
        (kind, ..) => Err(Error::corrupt(TABLE, format!("the kind '{kind}', or what it needs is missing"))),
    }
}

fn words(charging: &Charging) -> String {
    match charging {
        Charging::Credit => "credit".to_owned(),
        Charging::Transfers(by) => {
            let ByTransfers { payee, currency, unit, .. } = by;
            format!("transfers to participant number {}, in units of {unit} {currency}", payee.0)
        }
        Charging::Tokens(by) => {
            let ByTokens { wallet, currency, unit, .. } = by;
            format!("tokens to the wallet '{wallet}', in units of {unit} {currency}")
        }
    }
}
