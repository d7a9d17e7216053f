//! Sides of a checkout that are outside the hub. They get the messages of durable frames and answer late, twice, out of
//! order, or never. In some runs they are honest and keep rows of their own; in others they say what they like.

use std::collections::BTreeMap;

use holdfast_domain::shop::{AskedStep, Body, Message, OrderId, Said, ShopCommand, Side, TryKey};

use crate::random::Random;

/// What an honest side has done for a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// It took.
    Taken,
    /// It did not, and never will.
    Refused,
    /// It took and gave back.
    GivenBack,
}

/// A step that was asked for.
#[derive(Debug, Clone)]
struct HeardQuestion {
    key: TryKey,
    side: Side,
    rollback: bool,
    answers: u32,
}

/// Both sides, as far as they are outside.
#[derive(Debug, Default)]
pub struct OutsideSides {
    honest: bool,
    asked: Vec<HeardQuestion>,
    branches: BTreeMap<(TryKey, Side), Branch>,
}

impl OutsideSides {
    /// Those of one run.
    pub fn draw(random: &mut Random) -> OutsideSides {
        OutsideSides { honest: random.chance(60), ..OutsideSides::default() }
    }

    /// What honest sides did for each try; `None` if they are not honest.
    pub fn rows(&self) -> Option<&BTreeMap<(TryKey, Side), Branch>> {
        Some(&self.branches).filter(|_| self.honest)
    }

    /// A message arrived.
    pub fn asked(&mut self, message: &Message) {
        let (side, rollback) = match &message.body {
            Body::Pay(step) => (Side::Pay, matches!(step, AskedStep::Rollback(_))),
            Body::Stock(step) => (Side::Stock, matches!(step, AskedStep::Rollback(_))),
            Body::Paid(_) | Body::Stocked(_) | Body::Decided(_) => return,
        };
        self.asked.push(HeardQuestion { key: message.key.clone(), side, rollback, answers: 0 });
    }

    /// The order of something that was asked lately.
    pub fn last_asked(&self, random: &mut Random) -> Option<OrderId> {
        Some(self.asked[self.lately(random)?].key.order_id.clone())
    }

    fn lately(&self, random: &mut Random) -> Option<usize> {
        let known = self.asked.len();
        let back = if random.chance(85) { random.index(6) } else { random.index(known) };
        known.checked_sub(1).map(|last| last.saturating_sub(back))
    }

    /// An answer to something that was asked: mostly to what has none yet.
    pub fn answer(&mut self, random: &mut Random) -> Option<ShopCommand> {
        let mut place = self.lately(random)?;
        for _ in 0..3 {
            if self.asked[place].answers > 0 && random.chance(75) {
                place = self.lately(random)?;
            }
        }
        self.asked[place].answers += 1;
        let HeardQuestion { key, side, rollback, .. } = self.asked[place].clone();
        let said = if self.honest {
            self.does(&key, side, rollback, random)
        } else {
            match random.below(10) {
                0..5 if rollback => Said::Undone,
                0..5 => Said::Taken,
                5..7 => Said::Refused,
                7..8 => Said::Taken,
                _ => Said::Undone,
            }
        };
        Some(ShopCommand::Answer { key, side, said })
    }

    /// An honest side takes once, gives back once, and repeats itself for ever.
    fn does(&mut self, key: &TryKey, side: Side, rollback: bool, random: &mut Random) -> Said {
        let row = self.branches.entry((key.clone(), side));
        if rollback {
            // Asked to give back before it was asked to take: it will refuse.
            let row = row.or_insert(Branch::Refused);
            if *row == Branch::Taken {
                *row = Branch::GivenBack;
            }
            return Said::Undone;
        }
        let take = if random.chance(70) { Branch::Taken } else { Branch::Refused };
        match *row.or_insert(take) {
            Branch::Taken | Branch::GivenBack => Said::Taken,
            Branch::Refused => Said::Refused,
        }
    }

    /// It gives back what it has, whenever it was asked.
    pub fn undoes(&mut self, key: &TryKey, side: Side) -> ShopCommand {
        let row = self.branches.entry((key.clone(), side)).or_insert(Branch::Refused);
        if *row == Branch::Taken {
            *row = Branch::GivenBack;
        }
        ShopCommand::Answer { key: key.clone(), side, said: Said::Undone }
    }

    /// Words about any try. An honest side that was never asked has refused with them, and keeps to it.
    pub fn stray(&mut self, key: TryKey, random: &mut Random) -> ShopCommand {
        let side = *random.pick(&Side::ALL);
        let said = if self.honest {
            match *self.branches.entry((key.clone(), side)).or_insert(Branch::Refused) {
                Branch::Taken | Branch::GivenBack => Said::Taken,
                Branch::Refused => *random.pick(&[Said::Refused, Said::Undone]),
            }
        } else {
            *random.pick(&[Said::Taken, Said::Refused, Said::Undone])
        };
        ShopCommand::Answer { key, side, said }
    }
}
