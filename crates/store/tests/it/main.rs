//! Every store against the one suite.

use holdfast_store::{MemoryStore, conformance};

#[test]
fn the_memory_store_conforms() {
    conformance::run_all(|| MemoryStore::new(42));
}
