//! `holdfast dfsp NAME`: a simulated participant, to see money move without writing one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use holdfast_domain::ids::Currency;
use holdfast_domain::money::Amount;

use super::{AlreadySaid, BadInput, Output, asked_to_end};
use crate::dfsp::{DEFAULT_SECRET, Diary, Manner, Order, Participant, listen, pay};
use crate::remote::{RemoteArgs, block_on};

/// Be a participant: take callbacks, print each in a line, and answer transfers; or pay somebody.
///
/// It must have been made before (holdfast participants create). Payer and payee of this tool know each other's
/// fulfilments by a shared secret: HMAC-SHA-256 under it of the text of ilpPacket.
#[derive(Debug, clap::Args)]
pub(super) struct Dfsp {
    /// Its name at the hub
    name: String,
    #[command(flatten)]
    manner: MannerArgs,
    /// Where to take callbacks; port 0 takes any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How the hub reaches that address, if not under itself
    #[arg(long, value_name = "URL")]
    callbacks: Option<String>,
    /// Register the callback endpoints at the hub; =false leaves them as they are
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = clap::ArgAction::Set)]
    register: bool,
    /// The secret that makes fulfilments; payer and payee need the same
    #[arg(long, value_name = "TEXT", default_value = DEFAULT_SECRET, env = "HOLDFAST_DFSP_SECRET")]
    secret: String,
    /// Pay somebody, wait for the callback, and end; the exit code is 1 if it was not committed
    #[arg(long, num_args = 3, value_names = ["PAYEE", "AMOUNT", "CURRENCY"])]
    pay: Option<Vec<String>>,
    /// How many times to pay
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pay")]
    count: u64,
    /// How long each transfer may take, such as 30s or 500ms
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lifetime, requires = "pay")]
    expires: Duration,
    /// Have the hub answer the POST with the transfer's state (Prefer: wait); with --register=false no callback is
    /// waited for, and the hub is asked for the end
    #[arg(long, requires = "pay")]
    prefer_wait: bool,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Lines for people or lines of JSON
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct MannerArgs {
    /// As a payee, fulfil (the default)
    #[arg(long)]
    fulfil: bool,
    /// As a payee, fulfil with RESERVED and wait for the hub's PATCH
    #[arg(long)]
    reserve: bool,
    /// As a payee, reject with 5104
    #[arg(long)]
    reject: bool,
    /// As a payee, do not answer
    #[arg(long)]
    silent: bool,
}

impl MannerArgs {
    const fn manner(&self) -> Manner {
        match (self.reserve, self.reject, self.silent) {
            (true, ..) => Manner::Reserve,
            (_, true, _) => Manner::Reject,
            (_, _, true) => Manner::Silent,
            _ => Manner::Fulfil,
        }
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time such as 30s, 500ms or 2m");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    // A day is longer than anybody watches.
    millis.filter(|millis| (1..=86_400_000).contains(millis)).map(Duration::from_millis).ok_or_else(wrong)
}

impl Dfsp {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let order = self.order().map_err(BadInput::from)?;
        let remote = self.remote.clone().open().map_err(BadInput::from)?;
        let diary = Diary::new(self.output == Output::Json);
        let participant = Arc::new(Participant::new(
            self.name.clone(),
            self.secret.clone(),
            self.manner.manner(),
            diary,
            remote,
        ));
        block_on(self.live(participant, order))
    }

    fn order(&self) -> anyhow::Result<Option<Order>> {
        let Some(pay) = &self.pay else { return Ok(None) };
        let [payee, amount, currency] = pay.as_slice() else { bail!("--pay takes PAYEE AMOUNT CURRENCY") };
        let amount: Amount = amount.parse()?;
        ensure!(amount > Amount::ZERO, "an amount must be more than zero");
        let currency: Currency = currency.parse()?;
        let (count, expires, prefer_wait) = (self.count, self.expires, self.prefer_wait);
        // Whoever registered nothing and asks for answers is not called here.
        let ask_for_end = prefer_wait && !self.register;
        Ok(Some(Order { payee: payee.clone(), amount, currency, count, expires, prefer_wait, ask_for_end }))
    }

    async fn live(self, participant: Arc<Participant>, order: Option<Order>) -> anyhow::Result<()> {
        let listener =
            holdfast_api::listen(self.listen).with_context(|| format!("cannot listen on {}", self.listen))?;
        let base = match &self.callbacks {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{}", listener.local_addr()?),
        };
        tokio::spawn(listen(listener, Arc::clone(&participant)));
        if self.register {
            participant.register(&base).await?;
            participant.diary.note(&format!("endpoints of {} now point here ({base})", participant.name));
        }
        let Some(order) = order else {
            participant.diary.note(&format!(
                "{} listens on {base} and {}",
                participant.name,
                participant.manner.words()
            ));
            asked_to_end()?.await;
            return Ok(());
        };
        let totals = pay(&participant, &order).await?;
        if order.count == 1 && totals.not_committed == 1 {
            return Err(AlreadySaid.into());
        }
        ensure!(
            totals.committed == order.count,
            "{} of {} committed, {} not, of {} nothing was heard",
            totals.committed,
            order.count,
            totals.not_committed,
            totals.unknown
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes() {
        for (text, millis) in [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1440m", 86_400_000)] {
            assert_eq!(lifetime(text), Ok(Duration::from_millis(millis)));
        }
        for bad in [
            "",
            "30",
            "s",
            "0s",
            "-1s",
            "1.5s",
            "1h",
            "1441m",
            "99999999999999999999s",
            "18446744073709551615m",
        ] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
    }
}
