//! What the shop adds to the audit chain. If these bytes change, every log with a shop fails its check on replay: that is right
//! when the rules changed (raise `RULES_VERSION`), and a mistake otherwise.

use sha2::{Digest, Sha256};

use crate::funded_world::{issue, usd_token};
use crate::shop_world::*;
use crate::world::*;

/// A frame with one of everything that a shop can do, one after another.
fn story() -> Vec<Effects> {
    let mut shop = World::shop_outside(30, 10, Sides { pay: true, stock: false });
    let init = ShopCommand::InitOrders { first: 0, count: 2, items: 3, users: 4, price: whole(5), seed: 9 };
    let commands = [
        keyed("o", "k", 1),
        says("o", 1, Side::Pay, Said::Taken),
        says("o", 1, Side::Pay, Said::Refused),
        ShopCommand::InitUsers { first: 0, count: 2, credit: whole(7) },
        ShopCommand::InitItems { first: 0, count: 2, stock: whole(7), price: whole(1) },
        init,
        checkout("0"),
        cancel("0"),
        says("0", 1, Side::Pay, Said::Undone),
        ShopCommand::SetOutside { outside: Sides::NONE },
        retry("0"),
        checkout("none"),
    ];
    let mut effects: Vec<Effects> = commands.into_iter().map(|command| shop.decided(command).1).collect();
    shop.now += 86_400_000;
    effects.push(shop.expire(10));
    effects
}

/// The same for what is charged in place of credit: transfers that are settled, refused, given back and ended by a deadline, then
/// tokens likewise.
fn charged_story() -> Vec<Effects> {
    let mut shop = World { offset: 100, ..World::with(1_000_000, 2_500) };
    let tokens = [("a", 70), ("b", 50), ("c", 120)];
    shop.frame(&[issue(tokens.into_iter().map(|(id, much)| usd_token(id, "alice", much)).collect())]);
    shop.does(item("i", 5, 5));
    for (name, user, quantity) in [
        ("t1", "payer", 2),
        ("t2", "payer", 9),
        ("t3", "payer", 3),
        ("w1", "alice", 2),
        ("w2", "alice", 9),
        ("w3", "alice", 2),
    ] {
        shop.sells(name, user, "i", quantity);
    }
    let by = by_tokens(10, 8);
    let with = |order: &str, names: &[&str]| with_tokens(&by, order, 1, names);
    let outside = |stock| ShopCommand::SetOutside { outside: Sides { pay: false, stock } };
    let by_transfers = ShopCommand::SetCharging { charging: by_transfers(PAYEE.0, 100, 7) };
    let by_tokens = ShopCommand::SetCharging { charging: Charging::Tokens(by.clone()) };
    let mut effects = Vec::new();
    for commands in [
        vec![by_transfers, checkout("t1"), checkout("t2"), outside(true), checkout("t3")],
        vec![outside(false), by_tokens, with("w1", &["a", "b"]), outside(true), with("w3", &["c"])],
        vec![says("w3", 1, Side::Stock, Said::Refused), with("w2", &["c"])],
    ] {
        effects.extend(commands.into_iter().map(|command| shop.decided(command).1));
        shop.now += i64::from(DEADLINE) + 1;
        effects.push(shop.expire(10));
        let undone = shop.decided(says("t3", 1, Side::Stock, Said::Undone)).1;
        effects.push(undone);
    }
    effects
}

/// Both ways of charging, and each end that a charge can have, are in the story.
#[test]
fn the_charged_story_has_every_end() {
    use ShopEffect;
    use TransferState as S;
    use holdfast_domain::tokens::TokenEffect;
    let story = charged_story();
    let reaches = |state| story.iter().any(|all| all.state_changes().iter().any(|row| row.state == state));
    for state in [S::Reserved, S::Committed, S::AbortedRejected, S::AbortedError] {
        assert!(reaches(state), "{state:?}");
    }
    let tokens = |wanted: fn(&TokenEffect) -> bool| story.iter().any(|all| all.tokens().iter().any(wanted));
    assert!(tokens(|effect| matches!(effect, TokenEffect::Locked(_))));
    assert!(tokens(|effect| matches!(effect, TokenEffect::Spent(_))));
    assert!(tokens(|effect| matches!(effect, TokenEffect::Unlocked { .. })));
    let set = story.iter().flat_map(Flat::shop).filter(|row| matches!(row, ShopEffect::Charging(_)));
    assert_eq!(set.count(), 2);
}

#[test]
fn the_bytes_of_charges_are_what_they_always_were() {
    let mut all = Sha256::new();
    charged_story().iter().for_each(|effects| all.update(digest(effects)));
    assert_eq!(hex(&all.finalize()), "923371d2483e8373d1b7aedabed70f83b54ddd39379b8fb60acd162a49b7aff3");
}

#[test]
fn the_bytes_of_a_shop_are_what_they_always_were() {
    let mut all = Sha256::new();
    story().iter().for_each(|effects| all.update(digest(effects)));
    assert_eq!(hex(&all.finalize()), "880c9221132881fee8a5839e0f9d352d3e6903889e116e4818f09b62aa13ad6b");
}

#[test]
fn every_change_changes_the_bytes() {
    let plain = story();
    let digests: std::collections::BTreeSet<_> = plain.iter().map(digest).collect();
    assert_eq!(digests.len(), plain.len());
    for effects in plain.iter().chain(&charged_story()) {
        let whole = digest(effects);
        for at in 0..effects.shop().len() {
            let mut less = effects.clone();
            less.steps[0].shop.remove(at);
            assert_ne!(digest(&less), whole);
        }
        for at in 0..effects.shop_messages().len() {
            let mut less = effects.clone();
            less.steps[0].shop_messages.remove(at);
            assert_ne!(digest(&less), whole);
            let mut other = effects.clone();
            other.steps[0].shop_messages[at].outside ^= true;
            assert_ne!(digest(&other), whole);
        }
    }
}
