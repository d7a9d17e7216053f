//! Which commands about tokens met which answer, counted as cells of the coverage: a refusal that never happens proves
//! nothing either.

use holdfast_domain::command::{Command, Prepare};
use holdfast_domain::effects::Step;
use holdfast_domain::tokens::{TokenCommand, TokenEffect, TokenOutcome, TokenRefusal};
use holdfast_domain::transfers::TransferState;

use crate::coverage::Coverage;
use crate::tally::Tally;
use crate::witness::Decided;

/// Adds a durable frame to the counts.
pub fn count(frame: &Decided<'_>, tally: &mut Tally, coverage: &mut Coverage) {
    for (offset, commands, step) in frame.steps() {
        match (commands, &step.outcomes[..]) {
            ([Command::Token(command)], [outcome]) => {
                if let Some(outcome) = &outcome.token {
                    let in_frame = offset - frame.header.base_offset;
                    let how = how(command, outcome, step, offset, in_frame);
                    coverage.vault(name(command), how);
                    count_one(outcome, step, tally);
                }
            }
            ([Command::Expire(_)], [outcome]) if ends_locks(step) => {
                let leases = outcome.subject.ended() - (frame.holds_ended() + frame.shop_ended()) as u64;
                tally.leases_ended += leases;
                coverage.vault(
                    "expiry",
                    match (leases, &step.state_changes[..]) {
                        (0, []) => "tokens of a checkout",
                        (0, _) => "tokens of a transfer",
                        (_, []) => "leases",
                        _ => "holds and leases",
                    },
                );
            }
            ([Command::Shop(_)], _) => {}
            (commands, _) => count_transfers(commands, step, tally, coverage),
        }
    }
}

fn count_transfers(commands: &[Command], step: &Step, tally: &mut Tally, coverage: &mut Coverage) {
    for effect in &step.tokens {
        match effect {
            TokenEffect::Locked(_) => {
                tally.transfers_on_tokens += 1;
                coverage.vault("transfer", "held");
            }
            TokenEffect::Spent(_) => coverage.vault("transfer", "paid out"),
            _ => {}
        }
    }
    let funded = |command| matches!(command, &Command::Prepare(Prepare { funding: Some(_), .. }));
    if let ([prepare], [outcome]) = (commands, &step.outcomes[..])
        && funded(prepare)
        && !step.transfers.is_empty()
        && outcome.state != Some(TransferState::Reserved)
    {
        let invalid = outcome.state == Some(TransferState::Invalid);
        coverage.vault("transfer", if invalid { "invalid" } else { "no cover" });
    }
    let ended = step.tokens.iter().filter(|effect| matches!(effect, TokenEffect::Unlocked { .. })).count();
    let spent = step.tokens.iter().filter(|effect| matches!(effect, TokenEffect::Spent(_))).count();
    let put_on = step.tokens.iter().any(|effect| matches!(effect, TokenEffect::Locked(_)));
    if ended > spent && !put_on {
        coverage.vault("transfer", "given back");
    }
}

fn count_one(outcome: &TokenOutcome, step: &Step, tally: &mut Tally) {
    let changed = !step.tokens.is_empty();
    match outcome {
        TokenOutcome::Issued => tally.tokens_issued += step.tokens.len() as u64,
        TokenOutcome::Locked(_) if changed => tally.locks += 1,
        TokenOutcome::Spent(_) if changed => tally.spends += 1,
        TokenOutcome::Updated { .. } if changed => tally.token_updates += 1,
        TokenOutcome::Refused(_) => tally.tokens_refused += 1,
        _ => {}
    }
}

const fn name(command: &TokenCommand) -> &'static str {
    match command {
        TokenCommand::Issue { .. } => "issue",
        TokenCommand::Lock(_) => "lock",
        TokenCommand::Spend(_) => "spend",
        TokenCommand::Update { .. } => "update",
        TokenCommand::Unlock { .. } => "unlock",
        TokenCommand::Renew { .. } => "renew",
    }
}

fn ends_locks(step: &Step) -> bool {
    step.tokens.iter().any(|effect| matches!(effect, TokenEffect::Unlocked { .. }))
}

fn how(
    command: &TokenCommand,
    outcome: &TokenOutcome,
    step: &Step,
    offset: u64,
    in_frame: u64,
) -> &'static str {
    match (command, outcome) {
        (_, TokenOutcome::Refused(refusal)) => why(refusal),
        (_, TokenOutcome::Locked(_) | TokenOutcome::Spent(_)) if step.tokens.is_empty() => "the same again",
        (_, TokenOutcome::Locked(_)) if ends_locks(step) => "done over an ended lease",
        (TokenCommand::Spend(spend), _) if spend.request.redeem > 0 => "redeemed",
        (TokenCommand::Spend(_), _) => {
            // A fence is the offset of the lock's record and one.
            let fence = step.tokens.iter().find_map(|effect| match effect {
                TokenEffect::Unlocked { fence, .. } => Some(*fence),
                _ => None,
            });
            let same_frame = fence.is_some_and(|fence| fence > offset - in_frame);
            if same_frame { "done in the frame of its lock" } else { "done" }
        }
        (TokenCommand::Update { produced, .. }, TokenOutcome::Updated { produced: came, consumed: went }) => {
            let gone = step.tokens.iter().filter(|effect| matches!(effect, TokenEffect::Consumed(_))).count();
            if ends_locks(step) {
                "broke a lock"
            } else if gone > *went {
                "consumed before produced"
            } else if step.tokens.is_empty() {
                "nothing new"
            } else if *came < produced.len() {
                "came too late"
            } else {
                "done"
            }
        }
        (_, TokenOutcome::Released(0)) => "nothing",
        _ => "done",
    }
}

const fn why(refusal: &TokenRefusal) -> &'static str {
    match refusal {
        TokenRefusal::Taken(_) => "taken",
        TokenRefusal::Consumed(_) => "consumed",
        TokenRefusal::Unknown(_) => "unknown",
        TokenRefusal::Exists(_) => "exists",
        TokenRefusal::LeaseLost(why) | TokenRefusal::SpenderInUse(why) => why,
        TokenRefusal::Invalid(_) => "invalid",
    }
}
