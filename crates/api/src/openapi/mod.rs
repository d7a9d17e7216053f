//! Every path, once: verb, path, handler, who may call it, what it takes and what it answers. From these rows the router is made,
//! and an OpenAPI 3.1 document at `/openapi.json` with a page for it at `/docs`.
//!
//! What a row says of bodies is data: handlers parse bytes exactly where types derived for a document could only approximate
//! them (amounts that never pass through a float, bodies handed on unread). docs/openapi.json is this document, committed, so
//! that a change shows.

mod admin;
mod fspiop;
mod hub;
mod operation;
mod schemas;
mod shop;
mod tokens;

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::Edge;
use holdfast_engine::Profile;
pub(crate) use operation::Operation;

/// Groups of paths, in the order of the page: name, what they are, the operations.
fn groups() -> [(&'static str, &'static str, Vec<Operation>); 6] {
    [
        (
            "FSPIOP transfers",
            "What participants call: transfers of the Open API for FSP Interoperability, versions 1.0 and 1.1.",
            fspiop::operations(),
        ),
        ("Admin", "What the operator calls, as Mojaloop's central-ledger has it.", admin::operations()),
        (
            "Tokens",
            "What wallets call: tokens issued, selected, spent. Refusals are problems of RFC 9457; those of the gate (401, 403, 429) are as elsewhere.",
            tokens::operations(),
        ),
        (
            "Shop",
            "Users, items, orders and their checkout. Refusals are problems of RFC 9457; those of the gate (401, 403, 429) are as elsewhere.",
            shop::operations(),
        ),
        (
            "Shop, as the course has it",
            "The same as the template of TU Delft's course has them: empty bodies, every business failure 400 and text.",
            shop::course_operations(),
        ),
        ("Hub", "Views, batches and operations of the hub itself.", hub::operations()),
    ]
}

/// All rows, group by group.
pub(crate) fn operations() -> impl Iterator<Item = Operation> {
    groups().into_iter().flat_map(|(_, _, operations)| operations)
}

/// The document of the embedded profile, which has every path.
#[must_use]
pub fn document() -> Value {
    document_of(Profile::Embedded)
}

/// The document of a profile: the paths that it has.
#[must_use]
pub fn document_of(profile: Profile) -> Value {
    let (mut paths, mut named) = (Map::new(), Map::new());
    let mut tags = Vec::new();
    for (tag, what, operations) in groups() {
        let served = operations.into_iter().filter(|operation| operation.handler.is_in(profile));
        let mut served = served.peekable();
        if served.peek().is_some() {
            tags.push(json!({"name": tag, "description": what}));
        }
        for operation in served {
            let verb = operation.method.as_str().to_lowercase();
            let path = paths.entry(operation.path).or_insert_with(|| json!({}));
            path[verb] = operation.describe(tag, &mut named);
        }
    }
    let components = components(&Value::Object(paths.clone()), named);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Reserves value, moves it exactly once, and gives it back on time.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "paths": paths,
        "components": components,
    })
}

/// Schemas and answers that the paths speak of, and what these speak of in turn.
fn components(paths: &Value, mut named: Map<String, Value>) -> Value {
    let (mut schemas, mut responses) = (schemas::schemas(), schemas::responses());
    let mut used = BTreeSet::new();
    references(paths, &mut used);
    loop {
        let before = used.len();
        for (room, known) in [("schemas", &schemas), ("responses", &responses)] {
            let known = known.as_object().into_iter().flatten();
            let of_use = known.filter(|(name, _)| used.contains(&format!("#/components/{room}/{name}")));
            let of_use: Vec<&Value> = of_use.map(|(_, value)| value).collect();
            of_use.into_iter().for_each(|value| references(value, &mut used));
        }
        if used.len() == before {
            break;
        }
    }
    for (room, known) in [("schemas", &mut schemas), ("responses", &mut responses)] {
        if let Some(known) = known.as_object_mut() {
            known.retain(|name, _| used.contains(&format!("#/components/{room}/{name}")));
        }
    }
    if let Value::Object(schemas) = schemas {
        named.extend(schemas);
    }
    json!({
        "schemas": named,
        "responses": responses,
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A key from `holdfast keys create`. A hub without keys listens on loopback only and takes everything.",
            },
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key in another header."},
        },
    })
}

/// Every `$ref` in a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| match (name.as_str(), value) {
            ("$ref", Value::String(target)) => {
                found.insert(target.clone());
            }
            _ => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// `GET /openapi.json`.
pub(crate) async fn document_as_json(State(edge): State<Edge>) -> Response {
    let document = document_of(edge.engine.profile());
    ([(CONTENT_TYPE, "application/json")], format!("{document:#}\n")).into_response()
}

const PAGE: &str = include_str!("page.html");
/// The page may run its own script and ask this hub for the document; it can load and send nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /docs`: one file that reads the document and shows it. Nothing is loaded from elsewhere.
pub(crate) async fn page() -> Response {
    let mut response = ([(CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response();
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: [Profile; 2] = [Profile::Embedded, Profile::Database];

    /// Path, verb and object of every operation of a document.
    fn described(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
        document["paths"].as_object().unwrap().iter().flat_map(|(path, verbs)| {
            let verbs = verbs.as_object().unwrap().iter();
            verbs.map(|(verb, operation)| (path.as_str(), verb.as_str(), operation))
        })
    }

    /// Verb and path of these rows.
    fn named<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Vec<String> {
        operations.into_iter().map(|row| format!("{} {}", row.method, row.path)).collect()
    }

    #[test]
    fn no_path_is_served_or_described_twice() {
        let rows: Vec<Operation> = operations().collect();
        let distinct: BTreeSet<String> = named(&rows).into_iter().collect();
        assert_eq!(distinct.len(), rows.len());
    }

    #[test]
    fn the_document_of_a_profile_has_the_paths_of_that_profile() {
        for profile in PROFILES {
            let rows: Vec<Operation> = operations().filter(|row| row.handler.is_in(profile)).collect();
            let served: BTreeSet<String> = named(&rows).into_iter().collect();
            let document = document_of(profile);
            let paths = described(&document).map(|(path, verb, _)| format!("{} {path}", verb.to_uppercase()));
            assert_eq!(served, paths.collect(), "{profile:?}");
            for (_, _, operation) in described(&document) {
                let known = |tag: &Value| *tag == operation["tags"][0];
                let names = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]);
                assert_eq!(names.filter(|tag| known(tag)).count(), 1, "{profile:?}: {operation}");
            }
        }
    }

    #[test]
    fn the_database_profile_has_all_but_what_is_of_one_process() {
        let document = document_of(Profile::Database);
        for path in [
            "/participants",
            "/transfers",
            "/tokens/select",
            "/shop/orders/checkout/{order_id}",
            "/hub/checkouts/{order}/{tr}/stock",
            "/hub/batch",
            "/health",
        ] {
            assert!(document["paths"][path].is_object(), "{path}");
        }
        for path in ["/hub/backup", "/hub/clock/confirm"] {
            assert!(document["paths"][path].is_null(), "{path}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        for profile in PROFILES {
            let document = document_of(profile);
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            for target in &found {
                let pointer = target.strip_prefix('#').expect("references stay inside the document");
                assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
            }
            for room in ["schemas", "responses"] {
                for name in document["components"][room].as_object().unwrap().keys() {
                    assert!(found.contains(&format!("#/components/{room}/{name}")), "{name} is not used");
                }
            }
        }
        // The embedded profile has every path, so it leaves out nothing.
        for (room, all) in [("schemas", schemas::schemas()), ("responses", schemas::responses())] {
            for (name, schema) in all.as_object().unwrap() {
                assert_eq!(document()["components"][room][name], *schema, "{name} is not used");
            }
        }
    }

    #[test]
    fn operation_ids_are_unique_and_every_operation_has_a_good_answer() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, verb, operation) in described(&document) {
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{verb} {path}");
            assert!(!operation["responses"].as_object().unwrap().is_empty(), "{verb} {path}");
            for parameter in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                let mut described = operation["parameters"].as_array().unwrap().iter();
                assert!(described.any(|other| other["name"] == parameter), "{parameter} of {path}");
            }
        }
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        for sign in ["http://", "https://", "src=", "<link", "@import", "innerHTML"] {
            assert!(!PAGE.contains(sign), "{sign}");
        }
    }
}
