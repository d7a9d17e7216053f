//! The operator of the hub: moves limits and funds and switches participants off and on, with transfers in flight.

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::money::Amount;

use crate::random::Random;
use crate::world::{UNIT, World, first_limit};

/// What the operator remembers.
#[derive(Debug, Default)]
pub struct Operator {
    /// Funds that were asked to leave, with their settlement account.
    leaving: Vec<(TransferId, AccountId)>,
    /// Somebody or something that was switched off and is to be switched on again.
    switched_off: Vec<Admin>,
}

impl Operator {
    /// One thing an operator might do now.
    pub fn act(&mut self, world: &World, random: &mut Random) -> Command {
        let seat = *random.pick(&world.seats);
        let id = TransferId(random.wide());
        let amount = Amount(random.between(1, 12) * UNIT + random.between(0, 9) * 1_111);
        Command::Admin(match random.below(100) {
            0..30 => Admin::SetLimit {
                participant: seat.participant,
                currency: seat.currency,
                net_debit_cap: Amount(random.between(0, 20) * UNIT),
                alarm_percentage: u16::try_from(random.below(101)).expect("a percentage"),
            },
            30..45 => Admin::FundsIn { id, account: seat.settlement(), currency: seat.currency, amount },
            45..60 => {
                self.leaving.push((id, seat.settlement()));
                Admin::FundsOutReserve { id, account: seat.settlement(), currency: seat.currency, amount }
            }
            60..75 => self.end_leaving(id, seat.settlement(), random),
            75..92 => self.switch(seat.account, seat.participant, random),
            _ => first_limit(world.latecomer, random),
        })
    }

    /// Commits or aborts funds that are leaving; some of them a second time, or the other way round.
    fn end_leaving(&self, unknown: TransferId, account: AccountId, random: &mut Random) -> Admin {
        let (id, account) =
            if self.leaving.is_empty() { (unknown, account) } else { *random.pick(&self.leaving) };
        if random.chance(50) {
            Admin::FundsOutCommit { id, account }
        } else {
            Admin::FundsOutAbort { id, account }
        }
    }

    fn switch(&mut self, account: AccountId, participant: ParticipantId, random: &mut Random) -> Admin {
        if random.chance(70)
            && let Some(on_again) = self.switched_off.pop()
        {
            return on_again;
        }
        let (off, on) = if random.chance(50) {
            let set = |active| Admin::SetAccountActive { account, active };
            (set(false), set(true))
        } else {
            let set = |active| Admin::SetParticipantActive { participant, active };
            (set(false), set(true))
        };
        self.switched_off.push(on);
        off
    }
}
