//! Time in a run: it passes, and now and then somebody sets the wall clock wrong.

use holdfast_domain::view::Checkouts;
use holdfast_engine::clock::Clock;
use holdfast_store::Tables;

use crate::process::CLOCK_JUMP_MAX;
use crate::run::Simulation;
use crate::shop_clients::ShopClients;

impl Simulation {
    /// Time goes on by a little or by a lot; now and then somebody sets the wall clock.
    pub(crate) fn pass_time(&mut self) {
        let ms = match self.random.below(20) {
            0..2 => 0,
            2..4 => self.until_next_expiration(),
            4..15 => self.random.between(1, 250),
            15..19 => self.random.between(250, 1_500),
            _ => self.random.between(1_500, 9_000),
        };
        self.clock.pass(ms);
        if self.shop_share > 0 && self.random.chance(1) {
            // A day and more: keys end that were given in this run.
            self.clock.pass(ShopClients::LONGEST_WAIT + self.random.between(-1, 1));
        }
        if self.skew == 0 && self.random.chance(4) {
            let far = if self.random.chance(70) { CLOCK_JUMP_MAX + 1 } else { 1 };
            let by = self.random.between(far, 60_000) * if self.random.chance(50) { 1 } else { -1 };
            self.clock.jump(by);
            self.skew = by;
        } else if self.skew != 0 && self.random.chance(40) {
            self.settle_clock();
        }
        self.trace.note(format_args!("clock {:?}, set wrong by {}", self.clock.read(), self.skew));
    }

    /// Exactly to where the next hold, lease or checkout runs out, or a millisecond past it.
    fn until_next_expiration(&mut self) -> i64 {
        let past = self.random.between(0, 1);
        let wall = self.clock.read().wall;
        let holds = self.hub.as_ref().map(|hub| hub.core().store().holds(i64::MAX, None, 1));
        let next = holds.and_then(|holds| Some(holds.first()?.expiration));
        let mut ends = Vec::new();
        self.hub.iter().for_each(|hub| hub.core().store().locks(&mut |row| ends.push(row.expires_at)));
        let due = self.hub.as_ref().map(|hub| hub.core().store().due_checkouts(i64::MAX, 1));
        ends.extend(due.and_then(|due| Some(due.first()?.deadline)));
        let next = ends.into_iter().chain(next).min();
        next.map_or(0, |next| (next - wall).clamp(0, 9_000) + past)
    }

    /// The wall clock is set right again, or the operator says that it is right as it is.
    pub(crate) fn settle_clock(&mut self) {
        let now = self.clock.read();
        let jumped = self.auditors.clock.is_jumped(now);
        let skew = std::mem::take(&mut self.skew);
        if self.random.chance(50) {
            self.clock.jump(-skew);
            self.tally.jumps_undone += u64::from(jumped);
        }
        self.believe_clock();
    }

    /// If the hub still finds fault with the clock, the operator confirms it.
    pub(crate) fn believe_clock(&mut self) {
        let now = self.clock.read();
        if self.auditors.clock.is_jumped(now)
            && let Some(hub) = &self.hub
        {
            hub.intake.confirm_clock(now);
            self.auditors.clock.confirmed(now);
            self.tally.jumps_confirmed += 1;
            self.trace.note(format_args!("clock confirmed"));
            // The confirmation wakes the writer.
            self.turn();
        }
    }
}
