//! The peers' algorithms, from what is known of their sources (Corda token-sdk 1.2, fabric-token-sdk's sherdlock), written in
//! small: in memory, in this process, without their databases, their retries that sleep and their leases. So they look
//! better here than they can at home. Neither orders tokens by amount and neither looks for an exact sum.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_tokens::{Owner, Random, SelectRequest, Token};

use super::engine::{Engine, Taken};

/// How often sherdlock asks for the tokens again, at once, after it has lost some to others.
const REFETCHES: usize = 6;

/// The tokens of each wallet, by number, in an order that has nothing to do with their amounts.
struct Buckets {
    by_wallet: HashMap<Arc<str>, Vec<u32>>,
    quantities: Vec<u64>,
}

impl Buckets {
    fn of(tokens: impl Iterator<Item = Token>, random: &mut Random) -> Self {
        let mut buckets = Buckets { by_wallet: HashMap::new(), quantities: Vec::new() };
        for (number, token) in (0_u32..).zip(tokens) {
            buckets.by_wallet.entry(token.kind.wallet.clone()).or_default().push(number);
            buckets.quantities.push(token.quantity);
        }
        for bucket in buckets.by_wallet.values_mut() {
            let all = bucket.len();
            random.shuffle_front(bucket, all);
        }
        buckets
    }

    fn bucket(&self, request: &SelectRequest) -> &[u32] {
        match &request.scope.owner {
            Owner::Wallet(wallet) => self.by_wallet.get(wallet).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    fn quantity(&self, number: u32) -> u64 {
        self.quantities[place(number)]
    }
}

fn place(number: u32) -> usize {
    usize::try_from(number).expect("a u32 fits")
}

/// Corda's selection in memory: walks the owner's bucket in the order of its hash table and takes each state with a
/// compare-and-set, until there is enough. Here a flag per token stands for Corda's concurrent map.
pub(crate) struct Corda {
    buckets: Buckets,
    taken: Vec<AtomicBool>,
}

impl Corda {
    pub(crate) fn filled(tokens: impl Iterator<Item = Token>, random: &mut Random) -> Self {
        let buckets = Buckets::of(tokens, random);
        let taken = buckets.quantities.iter().map(|_| AtomicBool::new(false)).collect();
        Corda { buckets, taken }
    }

    fn give_back(&self, held: &[u32]) {
        held.iter().for_each(|number| self.taken[place(*number)].store(false, Ordering::Release));
    }
}

impl Engine for Corda {
    type Held = Vec<u32>;

    fn name(&self) -> &'static str {
        "corda"
    }

    fn select(&self, request: &SelectRequest, _: &mut Random) -> Option<(Taken, Vec<u32>)> {
        let (mut held, mut sum) = (Vec::new(), 0_u128);
        for number in self.buckets.bucket(request) {
            let flag = &self.taken[place(*number)];
            if flag.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            held.push(*number);
            sum += u128::from(self.buckets.quantity(*number));
            if sum >= u128::from(request.amount) {
                return Some((Taken { inputs: held.len(), sum }, held));
            }
        }
        self.give_back(&held);
        None
    }

    fn release(&self, _: &Arc<str>, held: Vec<u32>) {
        self.give_back(&held);
    }
}

/// Fabric's sherdlock: each request gets the wallet's tokens in a new permutation and locks them one by one in a table of
/// locks until there is enough; whoever lost some to others asks again, holding what it has.
pub(crate) struct Sherdlock {
    buckets: Buckets,
    /// Which spender holds which token: their in-process table, under one lock.
    locks: Mutex<HashMap<u32, Arc<str>>>,
}

impl Sherdlock {
    pub(crate) fn filled(tokens: impl Iterator<Item = Token>, random: &mut Random) -> Self {
        Sherdlock { buckets: Buckets::of(tokens, random), locks: Mutex::new(HashMap::new()) }
    }

    fn try_lock(&self, number: u32, spender: &Arc<str>) -> bool {
        let mut locks = self.locks.lock().expect("nobody panics with it");
        match locks.entry(number) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(spender.clone());
                true
            }
        }
    }

    fn give_back(&self, held: &[u32]) {
        let mut locks = self.locks.lock().expect("nobody panics with it");
        held.iter().for_each(|number| {
            locks.remove(number);
        });
    }
}

impl Engine for Sherdlock {
    type Held = Vec<u32>;

    fn name(&self) -> &'static str {
        "sherdlock"
    }

    fn select(&self, request: &SelectRequest, random: &mut Random) -> Option<(Taken, Vec<u32>)> {
        let (mut held, mut sum) = (Vec::new(), 0_u128);
        for _ in 0..=REFETCHES {
            let mut fetched = self.buckets.bucket(request).to_vec();
            let all = fetched.len();
            random.shuffle_front(&mut fetched, all);
            let mut lost = false;
            for number in fetched {
                if !self.try_lock(number, &request.spender) {
                    lost = true;
                    continue;
                }
                held.push(number);
                sum += u128::from(self.buckets.quantity(number));
                if sum >= u128::from(request.amount) {
                    return Some((Taken { inputs: held.len(), sum }, held));
                }
            }
            if !lost {
                break;
            }
        }
        self.give_back(&held);
        None
    }

    fn release(&self, _: &Arc<str>, held: Vec<u32>) {
        self.give_back(&held);
    }
}

#[cfg(test)]
mod tests {
    use holdfast_tokens::Scope;

    use super::*;

    fn tokens() -> impl Iterator<Item = Token> {
        (0..10_u64).map(|n| Token::new(format!("t{n}"), format!("w{}", n % 2), "EUR", 1 + n))
    }

    /// w0 has 1 + 3 + 5 + 7 + 9.
    fn no_token_twice_and_all_come_back<E: Engine>(engine: &E) {
        let request = |spender: &str, amount| SelectRequest::new(spender, Scope::wallet("w0", "EUR"), amount);
        let mut random = Random::new(1);
        for _ in 0..50 {
            let (first, held) = engine.select(&request("a", 10), &mut random).expect("25 are there");
            assert!(first.sum >= 10);
            let rest = 25 - u64::try_from(first.sum).expect("small");
            assert!(engine.select(&request("b", rest + 1), &mut random).is_none(), "a holds some");
            if rest > 0 {
                let (second, held) = engine.select(&request("b", rest), &mut random).expect("the rest");
                assert_eq!(first.inputs + second.inputs, 5);
                engine.release(&"b".into(), held);
            }
            engine.release(&"a".into(), held);
        }
        assert_eq!(engine.select(&request("c", 25), &mut random).expect("all are back").0.inputs, 5);
    }

    #[test]
    fn the_peers_select_soundly() {
        no_token_twice_and_all_come_back(&Corda::filled(tokens(), &mut Random::new(1)));
        no_token_twice_and_all_come_back(&Sherdlock::filled(tokens(), &mut Random::new(1)));
    }
}
