//! The story in sentences.

use std::fmt;

use holdfast_domain::ids::Millis;
use holdfast_domain::money::Balance;

use super::position::{Limits, Neighbour};
use super::{Asked, Because, Difference, Event, PositionStep, Story, Subject, Told};
use crate::log_view::time;

/// Neighbours that a sentence names before it counts.
const NAMED_MAX: usize = 3;

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transfer {
            None => writeln!(f, "{}: no prepare of this id was stored.", self.transfer_id)?,
            Some(subject) => writeln!(
                f,
                "{}: {} {} from {} to {}, {}.",
                self.transfer_id,
                subject.amount,
                subject.currency,
                subject.payer_fsp,
                subject.payee_fsp,
                subject.state
            )?,
        }
        for event in &self.events {
            writeln!(f, "\n{} offset {}: {}", time(event.at), event.offset, event.sentence())?;
            event.details().iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        if let Some(subject) = &self.transfer {
            writeln!(f, "\n{}", subject.end(self.log_time))?;
        }
        Ok(())
    }
}

impl Subject {
    fn end(&self, log_time: Millis) -> String {
        if self.is_final {
            let took = lasting(self.since - self.prepared_at);
            return format!("It ended as {} at {}, {took} after its prepare.", self.state, time(self.since));
        }
        let expiration = time(self.expiration);
        if self.expiration < log_time {
            return format!("It is {} and ran out at {expiration}; the next expiry ends it.", self.state);
        }
        format!("It is {} and open: {} may end it until {expiration}.", self.state, self.payee_fsp)
    }
}

impl Event {
    /// What happened, in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let verdict = match (self.state, self.error_code) {
            (Some(state), Some(code)) => format!("{state} {code}"),
            (Some(state), None) => state.to_owned(),
            (None, Some(code)) => format!("refused with {code}"),
            (None, None) => "done".to_owned(),
        };
        format!("{} → {verdict}: {}.", self.asked.words(), self.reason())
    }

    fn reason(&self) -> String {
        match &self.because {
            Because::WithinLimits | Because::OverCover | Because::OverCap => self.limits_said(),
            Because::TokensHeld { tokens: 1 } => "a token of the payer's wallet is held for it".to_owned(),
            Because::TokensHeld { tokens } => {
                format!("{tokens} tokens of the payer's wallet are held for it")
            }
            Because::NoTokens => "the payer's wallet has too few free tokens".to_owned(),
            Because::RuleBroken { rule } => {
                format!("{rule}; it was stored as INVALID and touched no position")
            }
            Because::FulfilmentFits { before_expiration_ms } => {
                let before = lasting(*before_expiration_ms);
                let fits = "the fulfilment is the preimage of the condition";
                format!("{fits}, {before} before the expiration; {}", self.moved())
            }
            Because::FulfilmentWrong => {
                let wrong = "the fulfilment is not the preimage of the condition, so it is aborted";
                format!("{wrong}; {}", self.moved())
            }
            Because::PayeeGaveUp => format!("the payee gave it up; {}", self.moved()),
            Because::RanOut { late_ms } => {
                format!("it had run out {} before; {}", lasting(*late_ms), self.moved())
            }
            Because::TooLate { late_ms: 0 } => {
                "it came at the very instant of the expiration, from which on a transfer can only expire"
                    .to_owned()
            }
            Because::TooLate { late_ms } => {
                format!("it came {} after the expiration; nothing changed", lasting(*late_ms))
            }
            Because::Repeat => {
                "the same message again; it was answered from the books and changed nothing".to_owned()
            }
            Because::Modified { differences } => modified(differences),
            Because::OtherCompletion => {
                "another fulfil or abort had been taken before; it is untouched".to_owned()
            }
            Because::WrongSender { only } => format!("only {only} may do this; nothing changed"),
            Because::UnknownTransfer => "there was no transfer of this id; nothing was stored".to_owned(),
            Because::NotReserved => "it was not RESERVED; nothing changed".to_owned(),
            Because::NotAParty => "the one who asked is no party to it and was told nothing of it".to_owned(),
            Because::Asked => "a party asked where it stands".to_owned(),
            Because::OrderPaid => {
                let paid = "both sides have taken, so it is fulfilled and the order is paid";
                format!("{paid}; {}", self.moved())
            }
            Because::OrderFailed { order, tr, why } => {
                let failed = order_failed(order.as_deref().zip(*tr), *why);
                format!("{failed}, and what it reserved is given back; {}", self.moved())
            }
            Because::OutOfPlace => "the message fitted nowhere; nothing changed".to_owned(),
        }
    }

    /// How the position moved.
    fn moved(&self) -> String {
        match &self.position {
            Some(step) => step.moved(),
            None => "no position moved: tokens of a wallet pay for it".to_owned(),
        }
    }

    /// What the payer's limits said, with their figures where those are known.
    fn limits_said(&self) -> String {
        let Some((step, limits)) = self.position.as_ref().and_then(|step| Some((step, step.limits?))) else {
            let plain = match self.because {
                Because::OverCover => "the funds do not cover it",
                Because::OverCap => "the cap does not allow it",
                _ => "the limits leave room",
            };
            return plain.to_owned();
        };
        match self.because {
            Because::OverCover => {
                let cover = limits.settlement.negated();
                format!("the cover is {cover}, {}", step.beyond(&limits, cover))
            }
            Because::OverCap => {
                let cap = limits.net_debit_cap.unwrap_or_default().wide();
                format!("the cap is {cap}, {}", step.beyond(&limits, cap))
            }
            _ => step.within(&limits),
        }
    }

    /// What else there is to say, line by line.
    pub(crate) fn details(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(step) = &self.position {
            lines.extend(step.details());
        }
        if self.frame.records > 1 {
            let place = self.offset - self.frame.base_offset + 1;
            let cut = match self.frame.sub_batches {
                1 => String::new(),
                parts => format!(", part {} of {parts}", self.frame.sub_batch + 1),
            };
            let records = self.frame.records;
            lines.push(format!(
                "It was record {place} of {records} in the frame at {}{cut}.",
                self.frame.base_offset
            ));
        }
        lines.extend(self.told.iter().map(Told::sentence));
        lines
    }
}

/// Where another prepare under the same id differs from the first.
fn modified(differences: &[Difference]) -> String {
    let one =
        |Difference { field, first, here }: &Difference| format!("{field} was {first} and is {here} here");
    let list = match differences {
        [] => "the ILP packet or the extensions differ".to_owned(),
        some => some.iter().map(one).collect::<Vec<_>>().join(", "),
    };
    format!("this id stands for another prepare ({list}); the first is untouched")
}

/// Which try of a checkout failed, and why.
fn order_failed(order_and_try: Option<(&str, u32)>, why: Option<&str>) -> String {
    let which = match order_and_try {
        Some((order, tr)) => format!("try {tr} of order {order}"),
        None => "the checkout".to_owned(),
    };
    let why = match why {
        Some("pay") => " (the payment was refused)",
        Some("stock") => " (the stock was refused)",
        Some("both") => " (payment and stock were refused)",
        Some("cancelled") => " (it was cancelled)",
        Some("deadline") => " (its deadline passed)",
        _ => "",
    };
    format!("{which} failed{why}")
}

impl Asked {
    fn words(&self) -> String {
        match self {
            Asked::Prepare { by, payee_fsp, amount, currency, .. } => {
                format!("prepare of {amount} {currency} by {by} for {payee_fsp}")
            }
            Asked::Commit { by } => format!("fulfil by {by}"),
            Asked::Reserve { by } => format!("fulfil by {by}, who waits to be told (RESERVED)"),
            Asked::Abort { by, payee_error } => format!("abort by {by} with {payee_error}"),
            Asked::Expire { .. } => "expiry".to_owned(),
            Asked::Lookup { by } => format!("question by {by}"),
            Asked::Checkout { what, order, tr: Some(tr) } => format!("{what} order {order}, try {tr}"),
            Asked::Checkout { what, order, tr: None } => format!("{what} order {order}"),
        }
    }
}

impl PositionStep {
    fn amount(&self, limits: &Limits) -> Balance {
        limits.would_use + (self.before + limits.reserved).negated()
    }

    /// `10 + 5`, or with what is reserved besides `10 + 2 reserved + 5`.
    fn sum(&self, limits: &Limits) -> String {
        let reserved = match limits.reserved == Balance::ZERO {
            true => String::new(),
            false => format!(" + {} reserved", limits.reserved),
        };
        format!("{}{reserved} + {}", self.before, self.amount(limits))
    }

    fn beyond(&self, limits: &Limits, limit: Balance) -> String {
        format!("the position was {}{}, {} > {limit}", self.before, self.company(), self.sum(limits))
    }

    fn within(&self, limits: &Limits) -> String {
        let cover = limits.settlement.negated();
        let cap = limits.net_debit_cap.map_or_else(String::new, |cap| format!(" and the cap of {cap}"));
        let (before, sum, would_use) = (self.before, self.sum(limits), limits.would_use);
        format!(
            "the position was {before}{}, {sum} = {would_use} is within the cover of {cover}{cap}",
            self.company()
        )
    }

    /// What a release or a settlement did: `the position of payee was 0, 0 - 5 = -5`.
    fn moved(&self) -> String {
        let Some(after) = self.after else { return "no position changed".to_owned() };
        let (whose, before, back) = (&self.participant, self.before, self.before + after.negated());
        format!("the position of {whose} was {before}{}, {before} - {back} = {after}", self.company())
    }

    /// Who was there before it in the same batch.
    fn company(&self) -> String {
        let id = |one: &Neighbour| {
            one.transfer_id.map_or_else(|| "an unknown one".to_owned(), |id| id.to_string())
        };
        match (self.earlier_in_batch, self.earlier.as_slice()) {
            (0, _) | (_, []) => String::new(),
            (count, named) if count <= NAMED_MAX && named.len() == count => {
                let ids: Vec<String> = named.iter().map(id).collect();
                format!(" (after {} in the same batch)", ids.join(" and "))
            }
            (count, named) => {
                let last = named.last().map_or_else(String::new, id);
                format!(" (after {count} others in the same batch, the last of them {last})")
            }
        }
    }

    fn details(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.before != self.at_batch_start {
            lines.push(format!(
                "The position of {} (account {}) was {} before the batch and {} when its turn came.",
                self.participant, self.account, self.at_batch_start, self.before
            ));
        }
        if let Some(limits) = &self.limits {
            let cap = limits.net_debit_cap.map_or_else(|| "no cap".to_owned(), |cap| format!("cap {cap}"));
            lines.push(format!(
                "Limits at that instant: settlement {}, so cover {}; {cap}; reserved besides {}.",
                limits.settlement,
                limits.settlement.negated(),
                limits.reserved
            ));
        }
        if self.later_in_batch > 0 {
            lines.push(format!(
                "{} more on the same account came after it in the same batch.",
                self.later_in_batch
            ));
        }
        lines
    }
}

impl Told {
    pub(crate) fn sentence(&self) -> String {
        let says = match (self.forwarded, self.transfer_state, self.error_code) {
            (true, ..) => ", the other party's own message".to_owned(),
            (false, Some(state), _) => format!(" with {state}"),
            (false, None, Some(code)) => format!(" with {code}"),
            (false, None, None) => String::new(),
        };
        let call = self.call;
        match (&self.endpoint, self.callback) {
            (Some(endpoint), Some(number)) => {
                format!("{} is to be told: {call}{says} (callback {number} to {endpoint}).", self.to)
            }
            _ => format!(
                "{} would be told: {call}{says}; it had registered no {}.",
                self.to, self.endpoint_type
            ),
        }
    }
}

/// A stretch of time for people.
fn lasting(millis: i64) -> String {
    match millis {
        ..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        120_000..7_200_000 => format!("{} min", millis / 60_000),
        7_200_000..172_800_000 => format!("{} h", millis / 3_600_000),
        _ => format!("{} days", millis / 86_400_000),
    }
}
