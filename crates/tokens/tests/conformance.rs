//! The selector in memory keeps the contract.

use holdfast_tokens::{Config, MemorySelector, OwnerKind};

#[test]
fn with_wallets_indexed() {
    holdfast_tokens::conformance::run_all(|| MemorySelector::new(Config::default()));
}

#[test]
fn with_every_index_kept_from_the_start_on_one_stripe() {
    let indexes = vec![OwnerKind::Wallet, OwnerKind::ExternalId, OwnerKind::PublicKey, OwnerKind::TokenOnly];
    let config = Config { indexes, stripes: 1, hash_seed: Some(1), ..Config::default() };
    for (name, promise) in holdfast_tokens::conformance::suite::<MemorySelector>() {
        eprintln!("conformance: {name}");
        promise(&|| MemorySelector::new(config.clone()));
    }
}
