//! The shop of a run: users, items and orders, made by their numbers through `batch_init`, and what is left of them at the end.
//!
//! The first few users are poor and the first few items sold out, as many as it takes for the wanted share of orders to fail,
//! half of them by credit and half by stock. A second `batch_init` makes them: it replaces what the first one made.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::LoadError;
use crate::batches::worker_lost;
use crate::line::{Head, Line};
use crate::options::parse_count;

/// What each user has who is not poor: enough for every order.
const CREDIT: u64 = 1_000_000_000_000;
/// How many there are of each item that is not sold out: enough for every order.
const STOCK: u64 = 1_000_000_000;
/// What one of any item costs. Not 1, so that money and units cannot be taken for each other.
pub const PRICE: u64 = 3;
/// Units of each order: `batch_init` gives each two lines of one unit.
pub const UNITS: u64 = 2;
/// How long a `batch_init` may take.
const INIT_WAIT_MAX: Duration = Duration::from_secs(150);

/// What a shop holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
pub struct Goods {
    /// Users, made for this run
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 1_000)]
    pub users: u64,
    /// Items, made for this run; 1: everybody buys the same
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 1_000)]
    pub items: u64,
    /// Orders, made for this run
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 100_000)]
    pub orders: u64,
    /// Of a hundred orders, about how many fail: half for want of credit, half for want of stock
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub failing_percent: u8,
}

impl Goods {
    /// Each side alone fails this share of the orders.
    fn failing_of_one_side(&self) -> f64 {
        1.0 - (1.0 - f64::from(self.failing_percent) / 100.0).sqrt()
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share"
    )]
    fn share(count: u64, share: f64) -> u64 {
        (count as f64 * share).round() as u64
    }

    /// Users without credit.
    pub fn poor(&self) -> u64 {
        Goods::share(self.users, self.failing_of_one_side())
    }

    /// Items without stock: one of either line is enough to fail an order.
    pub fn sold_out(&self) -> u64 {
        Goods::share(self.items, 1.0 - (1.0 - self.failing_of_one_side()).sqrt())
    }

    /// The calls that make it, in this order.
    fn inits(&self) -> Vec<String> {
        let Goods { users, items, orders, .. } = self;
        let mut calls = vec![
            format!("/payment/batch_init/{users}/{CREDIT}"),
            format!("/stock/batch_init/{items}/{STOCK}/{PRICE}"),
        ];
        if self.poor() > 0 {
            calls.push(format!("/payment/batch_init/{}/0", self.poor()));
        }
        if self.sold_out() > 0 {
            calls.push(format!("/stock/batch_init/{}/0/{PRICE}", self.sold_out()));
        }
        calls.push(format!("/orders/batch_init/{orders}/{items}/{users}/{PRICE}"));
        calls
    }

    /// Makes it all.
    pub async fn fill(&self, line: &mut Line, head: &Head) -> Result<(), LoadError> {
        let mut out = Vec::new();
        for path in self.inits() {
            head.post(&path, &mut out);
            let filled = line.ask(&out, INIT_WAIT_MAX, |status, body| match status {
                200 => Ok(()),
                _ => Err(format!("{status} {}", String::from_utf8_lossy(body))),
            });
            let told = filled.await.unwrap_or_else(|lost| Err(lost.name().to_owned()));
            told.map_err(|said| LoadError::Refused(format!("POST {path}: {said}")))?;
        }
        Ok(())
    }

    /// Whether the hub has users, items or orders of these numbers.
    pub async fn are_there(line: &mut Line, head: &Head) -> Result<bool, LoadError> {
        let mut out = Vec::new();
        for path in ["/payment/find_user/0", "/stock/find/0", "/orders/find/0"] {
            head.get(&path, &mut out);
            let found = line.ask(&out, Duration::ZERO, |status, body| match status {
                200 => Ok(true),
                400 => Ok(false),
                _ => Err(format!("GET {path}: {status} {}", String::from_utf8_lossy(body))),
            });
            let found = found.await.unwrap_or_else(|lost| Err(format!("GET {path}: {}", lost.name())));
            if found.map_err(LoadError::Refused)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Counts what is gone, on several connections at once.
    pub async fn count(&self, lines: Vec<Line>, head: &Head) -> Result<Books, LoadError> {
        let step = lines.len() as u64;
        let mut counters = JoinSet::new();
        for (first, mut line) in (0..).zip(lines) {
            let (head, goods) = (head.clone(), *self);
            counters.spawn(async move { goods.count_some(&mut line, &head, first, step).await });
        }
        let (mut credit, mut stock) = (0, 0);
        while let Some(ended) = counters.join_next().await {
            let some = ended.map_err(worker_lost)??;
            credit += some.0;
            stock += some.1;
        }
        let gone = |had: u128, has: u128| {
            had.checked_sub(has).and_then(|gone| u64::try_from(gone).ok()).ok_or_else(|| {
                LoadError::Books(format!(
                    "there are {has} where {had} were put in: something came from nowhere"
                ))
            })
        };
        Ok(Books {
            credit_gone: gone(u128::from(self.users - self.poor()) * u128::from(CREDIT), credit)?,
            units_gone: gone(u128::from(self.items - self.sold_out()) * u128::from(STOCK), stock)?,
        })
    }

    /// Credit of every `step`th user and stock of every `step`th item.
    async fn count_some(
        &self,
        line: &mut Line,
        head: &Head,
        first: u64,
        step: u64,
    ) -> Result<(u128, u128), LoadError> {
        let (mut out, mut sums) = (Vec::new(), [0, 0]);
        let kinds = [(self.users, "/payment/find_user", "credit"), (self.items, "/stock/find", "stock")];
        for ((count, path, field), sum) in kinds.into_iter().zip(&mut sums) {
            for number in (first..count).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
                head.get(&format_args!("{path}/{number}"), &mut out);
                let read = |body: &[u8]| serde_json::from_slice::<Value>(body).ok()?[field].as_u64();
                *sum += u128::from(line.must("asking what is left", &out, 200, read).await?);
            }
        }
        Ok(sums.into())
    }
}

/// What is gone from a shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Books {
    pub credit_gone: u64,
    pub units_gone: u64,
}

impl Books {
    /// What is wrong, if `paid` orders were seen paid and of `unknown` more nobody knows.
    pub fn trouble(&self, paid: u64, unknown: u64) -> Option<String> {
        let Books { credit_gone, units_gone } = *self;
        if credit_gone != units_gone.saturating_mul(PRICE) {
            return Some(format!("{units_gone} units at {PRICE} are gone, and {credit_gone} of credit"));
        }
        let few = paid.saturating_mul(UNITS);
        let many = paid.saturating_add(unknown).saturating_mul(UNITS);
        let fits = units_gone.is_multiple_of(UNITS) && (few..=many).contains(&units_gone);
        (!fits).then(|| {
            format!("{units_gone} units are gone where {paid} orders of {UNITS} were paid and {unknown} may have been")
        })
    }
}

/// What the hub's checkouts charge and from where they take stock, as `GET /hub/stats` has it.
#[derive(Debug, Deserialize)]
pub struct Sides {
    payment: String,
    stock: String,
}

impl Sides {
    pub async fn of(line: &mut Line, head: &Head) -> Result<Sides, LoadError> {
        #[derive(Deserialize)]
        struct Stats {
            shop: Sides,
        }
        let mut out = Vec::new();
        head.get(&"/hub/stats", &mut out);
        let read = |body: &[u8]| Some(serde_json::from_slice::<Stats>(body).ok()?.shop);
        line.must("asking what checkouts charge (GET /hub/stats)", &out, 200, read).await
    }

    /// What is charged instead.
    pub fn charges_no_credit(&self) -> Option<&str> {
        ["positions", "tokens"].into_iter().find(|other| *other == self.payment)
    }

    /// Whether the hub can tell what is gone.
    pub fn are_inside(&self) -> bool {
        self.payment != "outside" && self.stock != "outside"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payments::mix;

    const GOODS: Goods = Goods { users: 10_000, items: 10_000, orders: 100_000, failing_percent: 20 };

    #[test]
    fn a_fifth_fails_half_by_credit_and_half_by_stock() {
        let (mut by_credit, mut by_stock, mut failed) = (0_u64, 0_u64, 0_u64);
        for order in 0..GOODS.orders {
            let draw = |what: u64, bound: u64| mix(what, order) % bound;
            let poor = draw(1, GOODS.users) < GOODS.poor();
            let out = draw(2, GOODS.items) < GOODS.sold_out() || draw(3, GOODS.items) < GOODS.sold_out();
            by_credit += u64::from(poor);
            by_stock += u64::from(out);
            failed += u64::from(poor || out);
        }
        assert!((19_000..21_000).contains(&failed), "{failed}");
        assert!(by_credit.abs_diff(by_stock) < 1_000, "{by_credit} and {by_stock}");
    }

    #[test]
    fn shares_end_where_they_should() {
        let none = Goods { failing_percent: 0, ..GOODS };
        assert_eq!((none.poor(), none.sold_out(), none.inits().len()), (0, 0, 3));
        let all = Goods { failing_percent: 100, ..GOODS };
        assert_eq!((all.poor(), all.sold_out()), (10_000, 10_000));
        assert_eq!(GOODS.inits().last().unwrap(), "/orders/batch_init/100000/10000/10000/3");
    }

    #[test]
    fn books_that_do_not_balance_are_found() {
        let books = |credit_gone, units_gone| Books { credit_gone, units_gone };
        assert_eq!(books(60, 20).trouble(10, 0), None);
        assert_eq!(books(60, 20).trouble(8, 2), None);
        for (wrong, paid, unknown) in
            [(books(59, 20), 10, 0), (books(60, 20), 9, 0), (books(60, 20), 11, 5), (books(63, 21), 10, 9)]
        {
            assert!(wrong.trouble(paid, unknown).is_some(), "{wrong:?}");
        }
    }
}
