//! The document of the API: served, printed and committed alike.

use std::path::Path;

use crate::support::http::exchange;
use crate::support::server::{fresh_hub, run};

#[test]
fn the_document_is_served_printed_and_committed_alike() {
    let printed = String::from_utf8(run(&["openapi"]).stdout).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = std::fs::read_to_string(committed).unwrap_or_default();
    assert!(printed == committed, "docs/openapi.json is old: cargo xtask generate");
    let (_folder, server) = fresh_hub();
    let served = exchange(&server, "GET", "/openapi.json", "", b"");
    assert_eq!((served.status, served.body.as_str()), (200, committed.as_str()));
    assert!(served.head_has("content-type: application/json"));
    let page = exchange(&server, "GET", "/docs", "", b"");
    assert_eq!(page.status, 200);
    assert!(page.head_has("content-type: text/html"));
    assert!(page.head_has("default-src 'none'"), "{}", page.head);
    server.stop();
}
