//! When sherdlock takes another token, reads the wallet again, waits, or gives up.

use std::time::Duration;

use holdfast_tokens::Random;

/// Readings of the wallet after the last lock that was won; one more, the first, is no repetition.
pub(crate) const IMMEDIATE_RETRIES: u32 = 5;
/// Attempts after the first.
pub(crate) const RETRIES: u32 = 3;
/// A pause after a failed attempt is drawn below this.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// One attempt to lock enough. Own locks of before are met again after a reading and count as another's, as they do there.
#[derive(Debug)]
pub(crate) struct Attempt {
    target: u64,
    sum: u64,
    locked_by_others: bool,
    immediate_retries: u32,
}

/// What follows when all tokens that were read have been tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RanOut {
    ReadAgain,
    /// Nobody was in the way, and still it is too little.
    Insufficient,
    /// There would be enough, but others hold it.
    Locked,
}

impl Attempt {
    pub(crate) const fn new(target: u64) -> Attempt {
        // As if locked, so that the first reading is made.
        Attempt { target, sum: 0, locked_by_others: true, immediate_retries: 0 }
    }

    /// A token was locked; whether it is enough now.
    pub(crate) const fn won(&mut self, quantity: u64) -> bool {
        self.immediate_retries = 0;
        self.sum = self.sum.saturating_add(quantity);
        self.sum >= self.target
    }

    pub(crate) const fn lost(&mut self) {
        self.locked_by_others = true;
    }

    pub(crate) const fn ran_out(&mut self) -> RanOut {
        if !self.locked_by_others {
            return RanOut::Insufficient;
        }
        if self.immediate_retries > IMMEDIATE_RETRIES {
            return RanOut::Locked;
        }
        self.immediate_retries += 1;
        self.locked_by_others = false;
        RanOut::ReadAgain
    }

    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }
}

/// The pause after a failed attempt.
pub(crate) fn pause(random: &mut Random) -> Duration {
    let nanos = u64::try_from(RETRY_INTERVAL.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random.below(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_that_nobody_stood_in_the_way_of_ends_at_once() {
        let mut attempt = Attempt::new(10);
        assert_eq!(attempt.ran_out(), RanOut::ReadAgain, "the first reading");
        assert!(!attempt.won(3));
        assert_eq!(attempt.ran_out(), RanOut::Insufficient);
    }

    #[test]
    fn six_readings_without_a_lock_are_the_end() {
        let mut attempt = Attempt::new(10);
        for _ in 0..=IMMEDIATE_RETRIES {
            assert_eq!(attempt.ran_out(), RanOut::ReadAgain);
            attempt.lost();
        }
        assert_eq!(attempt.ran_out(), RanOut::Locked);
    }

    #[test]
    fn a_lock_that_is_won_allows_as_many_readings_again() {
        let mut attempt = Attempt::new(10);
        for _ in 0..=IMMEDIATE_RETRIES {
            attempt.ran_out();
            attempt.lost();
        }
        assert!(!attempt.won(4));
        for _ in 0..=IMMEDIATE_RETRIES {
            assert_eq!(attempt.ran_out(), RanOut::ReadAgain);
            attempt.lost();
        }
        assert_eq!(attempt.ran_out(), RanOut::Locked);
        assert!(attempt.won(6), "four before and six now");
    }

    #[test]
    fn pauses_lie_below_the_interval() {
        let mut random = Random::new(1);
        let pauses: Vec<Duration> = (0..1_000).map(|_| pause(&mut random)).collect();
        assert!(pauses.iter().all(|pause| *pause < RETRY_INTERVAL));
        let sum: Duration = pauses.iter().sum();
        assert!((2_000..3_000).contains(&(sum / 1_000).as_millis()), "half of it on average");
    }
}
