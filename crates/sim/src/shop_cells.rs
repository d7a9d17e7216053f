//! Which commands to the shop met which answer, counted as cells of the coverage.

use holdfast_domain::command::Command;
use holdfast_domain::effects::Step;
use holdfast_domain::shop::{
    Charge, CheckoutAnswer, CheckoutOrder, CheckoutRow, OrderState, Said, ShopCommand, ShopEffect,
    ShopOutcome, ShopRefusal, Side, SideBranch, Why,
};
use holdfast_domain::tokens::TokenEffect;
use holdfast_domain::transfers::TransferState;

use crate::coverage::Coverage;
use crate::tally::Tally;
use crate::witness::Decided;

/// Adds a durable frame to the counts.
pub fn count(frame: &Decided<'_>, tally: &mut Tally, coverage: &mut Coverage) {
    tally.shop_alarms += frame.effects.all(|step| &step.shop_alarms).count() as u64;
    for (_, commands, step) in frame.steps() {
        count_effects(step, matches!(commands, [Command::Expire(_)]), tally, coverage);
        if let [command @ (Command::Shop(_) | Command::Expire(_))] = commands {
            count_charges(command, step, tally, coverage);
        }
        if let ([Command::Shop(command)], [outcome]) = (commands, &step.outcomes[..])
            && let Some(outcome) = outcome.shop.as_deref()
        {
            tally.shop_refused += u64::from(matches!(outcome, ShopOutcome::Refused(_)));
            coverage.shop(name(command), how(command, outcome, step));
        }
    }
}

fn count_effects(step: &Step, expires: bool, tally: &mut Tally, coverage: &mut Coverage) {
    for effect in &step.shop {
        match effect {
            ShopEffect::Moved { state: OrderState::Paid(_), .. } => tally.orders_paid += 1,
            ShopEffect::Moved { state: OrderState::NotPaid(_), .. } => tally.checkouts_failed += 1,
            ShopEffect::Moved { state: OrderState::Pending(_), .. } => tally.checkouts_opened += 1,
            ShopEffect::KeyEnded(_) => {
                tally.keys_ended += 1;
                coverage.shop("expiry", "key");
            }
            _ => {}
        }
        match effect {
            ShopEffect::Moved { state: OrderState::Cancelling(_), .. } if expires => {
                tally.deadlines += 1;
                coverage.shop("expiry", "deadline with something to undo outside");
            }
            ShopEffect::Moved { .. } if expires => {
                tally.deadlines += 1;
                coverage.shop("expiry", "deadline with nothing to undo outside");
            }
            _ => {}
        }
    }
}

/// What became of the positions and tokens that checkouts charge.
fn count_charges(command: &Command, step: &Step, tally: &mut Tally, coverage: &mut Coverage) {
    let expires = matches!(command, Command::Expire(_));
    for change in &step.state_changes {
        let how = match change.state {
            TransferState::Committed => {
                tally.paid_by_position += 1;
                "paid"
            }
            TransferState::AbortedError if expires => "given back at the deadline",
            TransferState::AbortedError => "given back",
            TransferState::AbortedRejected => "refused by the limits",
            TransferState::Invalid => "nobody there to pay or be paid",
            _ => continue,
        };
        coverage.shop("position", how);
    }
    let spent = step.tokens.iter().any(|effect| matches!(effect, TokenEffect::Spent(_)));
    let ended = step.tokens.iter().any(|effect| matches!(effect, TokenEffect::Unlocked { .. }));
    let opened = step.shop.iter().find_map(|effect| match effect {
        ShopEffect::Opened(row) => Some((row, row.charge?)),
        _ => None,
    });
    let is_held = |row: &CheckoutRow| row.undo.is_none() && row.pay.branch == Some(SideBranch::Taken);
    match (opened, command) {
        (Some((row, Charge::Transfer { .. })), _) if is_held(row) => coverage.shop("position", "held"),
        (Some((row, Charge::Tokens { .. })), _) if is_held(row) => coverage.shop("tokens", "held"),
        (Some((row, Charge::Transfer { .. })), Command::Shop(command))
            if row.why == Some(Why::Pay) && is_a_yes(command) =>
        {
            coverage.shop("position", "ended by its payee before the decision");
        }
        (Some((row, Charge::Tokens { .. })), Command::Expire(_)) if row.why == Some(Why::Deadline) => {
            coverage.shop("tokens", "given back at the deadline");
        }
        _ => {}
    }
    if spent {
        tally.paid_by_tokens += 1;
        coverage.shop("tokens", "paid");
    } else if ended && !expires {
        coverage.shop("tokens", "given back");
    }
    let outcome = step.outcomes.first().and_then(|outcome| outcome.shop.as_deref());
    match (outcome, command) {
        (Some(ShopOutcome::Refused(ShopRefusal::ChooseTokens { taken: Some(_), .. })), _) => {
            coverage.shop("tokens", "another was faster");
        }
        (
            Some(ShopOutcome::Checkout(CheckoutAnswer::Failed { why: Why::Pay, .. })),
            Command::Shop(command),
        ) => {
            if let ShopCommand::Checkout(CheckoutOrder { chosen: Some(_), .. }) = &**command {
                coverage.shop("tokens", "none to be had");
            }
        }
        _ => {}
    }
}

/// Whether the stock side says that it has taken.
const fn is_a_yes(command: &ShopCommand) -> bool {
    matches!(command, ShopCommand::Answer { side: Side::Stock, said: Said::Taken, .. })
}

const fn name(command: &ShopCommand) -> &'static str {
    match command {
        ShopCommand::CreateUser { .. } => "user",
        ShopCommand::CreateItem { .. } => "item",
        ShopCommand::CreateOrder { .. } => "order",
        ShopCommand::InitUsers { .. } | ShopCommand::InitItems { .. } | ShopCommand::InitOrders { .. } => {
            "init"
        }
        ShopCommand::AddItem { .. } => "add item",
        ShopCommand::AddFunds { .. } | ShopCommand::TakeFunds { .. } => "funds",
        ShopCommand::AddStock { .. } | ShopCommand::TakeStock { .. } => "stock",
        ShopCommand::Checkout(CheckoutOrder { key: None, .. }) => "checkout",
        ShopCommand::Checkout(_) => "keyed",
        ShopCommand::Answer { .. } => "answer",
        ShopCommand::Cancel { .. } => "cancel",
        ShopCommand::Retry { .. } => "retry",
        _ => "settings",
    }
}

fn how(command: &ShopCommand, outcome: &ShopOutcome, step: &Step) -> &'static str {
    let moves = step.shop.iter().any(|effect| matches!(effect, ShopEffect::Moved { .. }));
    match (command, outcome) {
        (_, ShopOutcome::Refused(refusal)) => refused(refusal),
        (ShopCommand::Checkout(CheckoutOrder { key: Some(_), .. }), _) if step.shop.is_empty() => {
            "the same again"
        }
        (ShopCommand::Checkout(_), ShopOutcome::Checkout(answer)) => match answer {
            CheckoutAnswer::Open { .. } if moves => "opened",
            CheckoutAnswer::Open { .. } => "joined",
            answer => ended(answer),
        },
        (ShopCommand::Retry { .. }, _) if moves => "a new try",
        (_, ShopOutcome::Heard { counts: false, .. }) => "changes nothing",
        (_, ShopOutcome::Heard { now, .. }) => match now {
            CheckoutAnswer::Paid { .. } | CheckoutAnswer::AlreadyPaid { .. } => "counts: paid",
            CheckoutAnswer::Failed { .. } => "counts: failed",
            CheckoutAnswer::Open { .. } => "counts: open",
        },
        (_, ShopOutcome::Checkout(answer)) => ended(answer),
        _ => "done",
    }
}

const fn ended(answer: &CheckoutAnswer) -> &'static str {
    match answer {
        CheckoutAnswer::Paid { .. } => "paid",
        CheckoutAnswer::AlreadyPaid { .. } => "already paid",
        CheckoutAnswer::Failed { why: Why::Pay, .. } => "failed: pay",
        CheckoutAnswer::Failed { why: Why::Stock, .. } => "failed: stock",
        CheckoutAnswer::Failed { why: Why::Both, .. } => "failed: both",
        CheckoutAnswer::Failed { why: Why::Cancelled, .. } => "failed: cancelled",
        CheckoutAnswer::Failed { why: Why::Deadline, .. } => "failed: deadline",
        CheckoutAnswer::Open { .. } => "open",
    }
}

const fn refused(refusal: &ShopRefusal) -> &'static str {
    match refusal {
        ShopRefusal::UnknownUser(_)
        | ShopRefusal::UnknownItem(_)
        | ShopRefusal::UnknownOrder(_)
        | ShopRefusal::UnknownTry(_) => "unknown",
        ShopRefusal::Exists { .. } => "exists",
        ShopRefusal::InsufficientCredit { .. } | ShopRefusal::InsufficientStock { .. } => "insufficient",
        ShopRefusal::NotNow { .. } => "not now",
        ShopRefusal::CheckoutsOpen { .. } => "checkouts open",
        ShopRefusal::Replaced(_) => "replaced",
        ShopRefusal::KeyReused => "key of another request",
        ShopRefusal::NotOutside(_) => "not outside",
        ShopRefusal::TooLarge(_)
        | ShopRefusal::Full { .. }
        | ShopRefusal::TriesUsedUp(_)
        | ShopRefusal::Invalid(_) => "invalid",
        ShopRefusal::ChooseTokens { .. } => "tokens to be chosen anew",
    }
}
