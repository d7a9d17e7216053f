//! What sides outside answer over HTTP, at whichever node; or an operator for a program on Kafka that is gone.

use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutRow, Said, ShopRefusal, Side, SideSaid, TrNum, TryKey, Why,
};
use holdfast_engine::ShopError;
use holdfast_postgres::shop::Served;
use tokio::time::Instant;

use super::SharedShop;
use super::limits::{HEARD_LOOK_EVERY, HEARD_LOOK_EVERY_MAX, HEARD_WAIT};
use super::shared::publish;
use super::trouble::{after_sending, unknown as not_known};
use metrics::counter;

/// A side outside has said at this node what changed nothing.
fn answer_repeated() {
    counter!("holdfast_checkout_repeats_total").increment(1);
}

/// Whether what a side said about a try is what counts, now that something was heard from that side or the try is over. Another
/// may have said something else at the same time, and was first.
fn counted(
    (side, said): (Side, Said),
    tr: TrNum,
    open: Option<&CheckoutRow>,
    stands: &CheckoutAnswer,
) -> bool {
    if let Some(open) = open.filter(|open| open.tr == tr) {
        let heard = open.side(side);
        return match said {
            Said::Taken => heard.said == Some(SideSaid::Taken),
            Said::Refused => heard.said == Some(SideSaid::Refused),
            Said::Undone => heard.undone,
        };
    }
    let refused = match (stands, side) {
        (CheckoutAnswer::Failed { tr: of, why: Why::Both }, _)
        | (CheckoutAnswer::Failed { tr: of, why: Why::Pay }, Side::Pay)
        | (CheckoutAnswer::Failed { tr: of, why: Why::Stock }, Side::Stock) => *of == tr,
        _ => false,
    };
    match said {
        Said::Taken => stands.tr() == tr && !refused,
        Said::Refused => refused,
        // A try that failed is over when all is given back.
        Said::Undone => !matches!(stands, CheckoutAnswer::Paid { tr: of } if *of == tr),
    }
}

impl SharedShop {
    /// An outside side answers about a try, at whichever node. Gives whether that counted, and how the checkout stands. It goes by
    /// the log, where what was recorded first counts; this waits until the order's row shows it.
    ///
    /// # Errors
    /// If order or try are not known, or the side is inside; or if it is not known whether it was heard: say it again.
    pub(super) async fn hear(
        &self,
        key: TryKey,
        side: Side,
        said: Said,
    ) -> Result<(bool, CheckoutAnswer), ShopError> {
        let unknown = || ShopRefusal::UnknownOrder(key.order_id.clone());
        let (row, open) = self.order_row(key.order_id.clone()).await?.ok_or_else(unknown)?;
        if row.order.state.tr_num() < Some(key.tr_num) {
            return Err(ShopRefusal::UnknownTry(key.order_id).into());
        }
        if row.is_of_an_earlier(key.tr_num) {
            return Err(ShopRefusal::Replaced(key.order_id).into());
        }
        let stands = row.stands(open.as_ref(), key.tr_num).ok_or_else(unknown)?;
        let Some(open) = open.filter(|open| open.tr == key.tr_num) else {
            answer_repeated();
            return Ok((false, stands));
        };
        if self.node.settings.store.serving().of(side) == Served::Inside {
            return Err(ShopRefusal::NotOutside(side).into());
        }
        if said == Said::Undone && open.undo.is_none() {
            // Nobody has asked for that yet. In the log it would be taken for the answer once somebody has.
            answer_repeated();
            return Ok((false, stands));
        }
        publish(&self.node, &row.order, key.clone(), side, said).await?;
        let before = open.side(side);
        let is_new = match said {
            Said::Taken | Said::Refused => before.said.is_none(),
            Said::Undone => !before.undone,
        };
        if !is_new {
            answer_repeated();
            return Ok((false, stands));
        }
        let (until, mut pause) = (Instant::now() + HEARD_WAIT, HEARD_LOOK_EVERY);
        loop {
            let found = self.order_row(key.order_id.clone()).await.map_err(after_sending)?;
            let (row, now) = found.ok_or_else(unknown)?;
            let is_heard = now.as_ref().is_none_or(|now| now.tr != key.tr_num || now.side(side) != before);
            if is_heard {
                let stands = row.stands(now.as_ref(), key.tr_num).ok_or_else(unknown)?;
                let counted = counted((side, said), key.tr_num, now.as_ref(), &stands);
                if !counted {
                    answer_repeated();
                }
                return Ok((counted, stands));
            }
            if Instant::now() >= until {
                let why = "the log has the answer, but the order has not heard it yet";
                return Err(not_known(why));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(HEARD_LOOK_EVERY_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::{SideRow, Sides};

    use super::*;

    fn open(pay: Option<SideSaid>, undone: bool) -> CheckoutRow {
        CheckoutRow {
            order: "o".parse().unwrap(),
            tr: TrNum::FIRST,
            start: 0,
            started_at: 0,
            deadline: 9,
            outside: Sides { pay: true, stock: true },
            pay: SideRow { said: pay, undone, branch: None },
            stock: SideRow::default(),
            undo: None,
            why: None,
            waits_since: 0,
            keys: Vec::new(),
            charge: None,
        }
    }

    #[test]
    fn what_counts_is_what_the_row_has() {
        let (tr, next) = (TrNum::FIRST, TrNum::FIRST.next().unwrap());
        let row = open(Some(SideSaid::Refused), false);
        let standing = CheckoutAnswer::Open { tr, waits: row.waits() };
        let now = |said| counted((Side::Pay, said), tr, Some(&row), &standing);
        assert_eq!([Said::Taken, Said::Refused, Said::Undone].map(now), [false, true, false]);
        assert!(counted((Side::Pay, Said::Undone), tr, Some(&open(None, true)), &standing));
        let over = |said, stands| counted((Side::Pay, said), tr, None, &stands);
        for (stands, counts) in [
            (CheckoutAnswer::Paid { tr }, [true, false, false]),
            (CheckoutAnswer::Failed { tr, why: Why::Pay }, [false, true, true]),
            (CheckoutAnswer::Failed { tr, why: Why::Both }, [false, true, true]),
            (CheckoutAnswer::Failed { tr, why: Why::Stock }, [true, false, true]),
            (CheckoutAnswer::Failed { tr, why: Why::Deadline }, [true, false, true]),
            (CheckoutAnswer::Paid { tr: next }, [false, false, true]),
        ] {
            let found = [Said::Taken, Said::Refused, Said::Undone].map(|said| over(said, stands));
            assert_eq!(found, counts, "{stands:?}");
        }
    }
}
