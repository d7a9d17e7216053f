//! What the shop adds to the audit chain. If these bytes change, every log with a shop fails its check on replay: that is right
//! when the rules changed (raise `RULES_VERSION`), and a mistake otherwise.

use holdfast_domain::effects::Effects;
use holdfast_domain::shop::{Said, ShopCommand, Side, Sides};
use sha2::{Digest, Sha256};

use crate::shop_world::*;

fn digest(effects: &Effects) -> Vec<u8> {
    let mut bytes = Vec::new();
    effects.write_digest(&mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A frame with one of everything that a shop can do, one after another.
fn story() -> Vec<Effects> {
    let mut shop = Shop::outside(30, 10, Sides { pay: true, stock: false });
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

#[test]
fn the_bytes_of_a_shop_are_what_they_always_were() {
    let mut all = Sha256::new();
    story().iter().for_each(|effects| all.update(digest(effects)));
    assert_eq!(hex(&all.finalize()), "880c9221132881fee8a5839e0f9d352d3e6903889e116e4818f09b62aa13ad6b");
}

#[test]
fn every_change_changes_the_bytes() {
    let story = story();
    let digests: std::collections::BTreeSet<_> = story.iter().map(digest).collect();
    assert_eq!(digests.len(), story.len());
    for effects in &story {
        let whole = digest(effects);
        for at in 0..effects.shop.len() {
            let mut less = effects.clone();
            less.shop.remove(at);
            assert_ne!(digest(&less), whole);
        }
        for at in 0..effects.shop_messages.len() {
            let mut less = effects.clone();
            less.shop_messages.remove(at);
            assert_ne!(digest(&less), whole);
            let mut other = effects.clone();
            other.shop_messages[at].outside ^= true;
            assert_ne!(digest(&other), whole);
        }
    }
}
