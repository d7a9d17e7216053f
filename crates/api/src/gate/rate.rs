//! How often a caller may come: a token bucket for each, in one number.
//!
//! The number is the instant at which the bucket would be full again. A request moves it on by the time that one token
//! takes to come back; a request that would move it more than a whole bucket past now is refused. An instant in the
//! past is a full bucket and may be forgotten, which is how memory stays bounded.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::keys::KeyId;

/// Callers that are told apart at once; those beyond it share one bucket.
const CLIENTS_MAX: usize = 8_192;
/// How often full buckets are looked for when there is no room.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Whose bucket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Key(KeyId),
    V4([u8; 4]),
    /// The network of an IPv6 address: a host has a whole one to choose addresses from.
    V6([u8; 8]),
    /// All for whom there is no room.
    Rest,
}

impl Client {
    pub(crate) fn of(key: Option<KeyId>, address: Option<IpAddr>) -> Client {
        match (key, address.map(|address| address.to_canonical())) {
            (Some(key), _) => Client::Key(key),
            (None, Some(IpAddr::V4(address))) => Client::V4(address.octets()),
            (None, Some(IpAddr::V6(address))) => {
                Client::V6(*address.octets().first_chunk().expect("sixteen bytes"))
            }
            (None, None) => Client::Rest,
        }
    }
}

struct Buckets {
    full_at: HashMap<Client, Instant>,
    swept: Instant,
}

/// So many requests per second for each caller, and so many at once.
pub struct RateLimit {
    per_second: NonZeroU32,
    token: Duration,
    bucket: Duration,
    buckets: Mutex<Buckets>,
}

impl RateLimit {
    /// A limit of `per_second`, with `burst` at once after a pause.
    #[must_use]
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> RateLimit {
        let token = Duration::from_secs(1) / per_second.get();
        let buckets = Mutex::new(Buckets { full_at: HashMap::new(), swept: Instant::now() });
        RateLimit { per_second, token, bucket: token.saturating_mul(burst.get()), buckets }
    }

    pub(crate) const fn per_second(&self) -> NonZeroU32 {
        self.per_second
    }

    /// Takes a token, or says how long until there is one.
    pub(crate) fn admit(&self, client: Client, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let client = buckets.place(client, now);
        let full_at = buckets.full_at.entry(client).or_insert(now);
        let next = (*full_at).max(now) + self.token;
        let ahead = next.saturating_duration_since(now);
        if ahead > self.bucket {
            return Err(ahead - self.bucket);
        }
        *full_at = next;
        Ok(())
    }
}

impl Buckets {
    fn place(&mut self, client: Client, now: Instant) -> Client {
        if self.full_at.contains_key(&client) || self.full_at.len() < CLIENTS_MAX {
            return client;
        }
        if now.saturating_duration_since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        if self.full_at.len() < CLIENTS_MAX { client } else { Client::Rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: u32, burst: u32) -> RateLimit {
        RateLimit::new(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let (limit, now) = (limit(10, 3), Instant::now());
        let one = Client::Key(KeyId([1; 4]));
        let at = |millis: u64| now + Duration::from_millis(millis);
        for _ in 0..3 {
            assert_eq!(limit.admit(one, at(0)), Ok(()));
        }
        assert_eq!(limit.admit(one, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(limit.admit(one, at(40)), Err(Duration::from_millis(60)), "a refusal costs nothing");
        assert_eq!(limit.admit(Client::Key(KeyId([2; 4])), at(40)), Ok(()), "others have their own");
        assert_eq!(limit.admit(one, at(100)), Ok(()));
        assert!(limit.admit(one, at(100)).is_err());
        for _ in 0..3 {
            assert_eq!(
                limit.admit(one, at(10_000)),
                Ok(()),
                "a pause fills the bucket, and no more than that"
            );
        }
        assert!(limit.admit(one, at(10_000)).is_err());
    }

    #[test]
    fn memory_is_bounded_and_idle_callers_make_room() {
        let (limit, now) = (limit(1, 1), Instant::now());
        let client = |number: usize| Client::V6((number as u64).to_be_bytes());
        for number in 0..3 * CLIENTS_MAX {
            // Those beyond the bound share a bucket, so most of them are refused.
            let _: Result<(), Duration> = limit.admit(client(number), now);
        }
        let held = || limit.buckets.lock().unwrap().full_at.len();
        assert!(held() <= CLIENTS_MAX + 1, "and the shared one");
        assert_eq!(limit.admit(client(9 * CLIENTS_MAX), now + Duration::from_secs(2)), Ok(()));
        assert!(held() <= 2, "all buckets had filled up again");
    }

    #[test]
    fn a_key_counts_before_an_address() {
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(Client::of(Some(KeyId([1; 4])), Some(v4)), Client::Key(KeyId([1; 4])));
        assert_eq!(Client::of(None, Some("::ffff:192.0.2.1".parse().unwrap())), Client::of(None, Some(v4)));
        let network = |text: &str| Client::of(None, Some(text.parse().unwrap()));
        assert_eq!(network("2001:db8::1"), network("2001:db8::2"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }
}
