//! Whatever is sent to the transfers paths, no handler panics, every answer is one of the standard, and a refusal
//! at the edge stores nothing.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request};
use holdfast_engine::clock::{Clock, SystemClock};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::world::{Heard, World};

/// The hub of the random cases; they come one after another.
static WORLD: LazyLock<(Runtime, World)> = LazyLock::new(world);

/// A hub with two participants.
fn world() -> (Runtime, World) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::with_two());
    (runtime, world)
}

/// Records in the log.
fn records(world: &World) -> u64 {
    let (send, receive) = std::sync::mpsc::channel();
    world.hub.ask(Box::new(move |core| send.send(core.counts().records).unwrap())).unwrap();
    receive.recv().unwrap()
}

/// A request with what was made up for it.
#[derive(Debug, Clone)]
struct Made {
    method: Method,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

const ID: &str = "b51ec534-ee48-4575-b6a9-ead2955b8069";

const MEDIA_TYPE: &str = "application/vnd.interoperability.transfers+json;version=1.1";

/// The headers of the payer's messages.
pub(crate) const HEADERS: [(&str, &str); 4] = [
    ("accept", MEDIA_TYPE),
    ("content-type", MEDIA_TYPE),
    ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
    ("fspiop-source", "payerfsp"),
];

fn good_headers() -> Vec<(&'static str, Vec<u8>)> {
    HEADERS.map(|(name, value)| (name, value.as_bytes().to_vec())).into()
}

/// A prepare, a fulfil and an abort.
pub(crate) const GOOD_BODIES: [&str; 3] = [
    r#"{"transferId":"b51ec534-ee48-4575-b6a9-ead2955b8069","payeeFsp":"payeefsp","payerFsp":"payerfsp","amount":{"currency":"USD","amount":"12.5"},"ilpPacket":"AYIBgQ","condition":"fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs","expiration":"2030-11-15T08:24:36.120Z","extensionList":{"extension":[{"key":"a","value":"b"}]}}"#,
    r#"{"fulfilment":"mhPUT9ZAwd-BXLfeSd7-YPh46rBWRNBiTCSWjpku90s","transferState":"COMMITTED"}"#,
    r#"{"errorInformation":{"errorCode":"5104","errorDescription":"no"}}"#,
];

fn any_header_value() -> impl Strategy<Value = Vec<u8>> {
    let pieces = select(vec![
        "application/vnd.interoperability.transfers+json",
        ";",
        " ",
        "version=",
        "1",
        ".",
        "2",
        ",",
        "*/*",
        "wait=",
        "application/json",
        "payerfsp",
        "payeefsp",
        "Tue, 15 Nov 1994 08:12:31 GMT",
        "\t",
        "=",
        "é",
        "\"",
    ]);
    prop_oneof![vec(pieces, 0..8).prop_map(|pieces| pieces.concat().into_bytes()), vec(any::<u8>(), 0..40),]
}

fn any_headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    const NAMES: [&str; 9] = [
        "accept",
        "content-type",
        "date",
        "fspiop-source",
        "fspiop-destination",
        "prefer",
        "content-length",
        "connection",
        "x-unknown",
    ];
    let changes = vec((select(&NAMES[..]), proptest::option::of(any_header_value())), 0..3);
    changes.prop_map(|changes| {
        let mut headers = good_headers();
        for (name, value) in changes {
            match value {
                None => headers.retain(|(other, _)| *other != name),
                Some(value) => headers.push((name, value)),
            }
        }
        headers
    })
}

/// Bodies from noise to almost right: bytes overwritten, cut out, doubled.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let cut = (select(&GOOD_BODIES[..]), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let spoiled = (cut.clone(), vec(any::<u8>(), 0..4)).prop_map(|((body, from, to), noise)| {
        let (from, to) = (from.index(body.len()), to.index(body.len()));
        let (from, to) = (from.min(to), from.max(to));
        [&body.as_bytes()[..from], &noise, &body.as_bytes()[to..]].concat()
    });
    let values = select(vec![
        "null",
        "1",
        "-1.5",
        "true",
        "[]",
        "{}",
        "\"\"",
        "\"\\u0000\"",
        "\"x\"",
        "[[[[",
        "1e999",
    ]);
    let swapped =
        (select(&GOOD_BODIES[..]), any::<prop::sample::Index>(), values).prop_map(|(body, at, value)| {
            // Some text of the body, with its quotes, becomes another value.
            let quotes: Vec<usize> = body.match_indices('"').map(|(at, _)| at).collect();
            let pair = at.index(quotes.len() / 2) * 2;
            format!("{}{value}{}", &body[..quotes[pair]], &body[quotes[pair + 1] + 1..]).into_bytes()
        });
    prop_oneof![
        2 => select(&GOOD_BODIES[..]).prop_map(|body| body.as_bytes().to_vec()),
        2 => spoiled,
        3 => swapped,
        1 => vec(any::<u8>(), 0..200),
    ]
}

fn any_request() -> impl Strategy<Value = Made> {
    let paths = prop_oneof![
        3 => Just("/transfers".to_owned()),
        3 => Just(format!("/transfers/{ID}")),
        3 => Just(format!("/transfers/{ID}/error")),
        1 => "/transfers/[a-fA-F0-9-]{0,40}",
        1 => "/transfers/(%[0-9a-fF]{2}){0,6}(/error)?",
    ];
    let methods =
        select(vec![Method::POST, Method::PUT, Method::GET, Method::PATCH, Method::DELETE, Method::HEAD]);
    (methods, paths, any_headers(), any_body()).prop_map(|(method, path, headers, body)| Made {
        method,
        path,
        headers,
        body,
    })
}

impl Made {
    /// The request, if HTTP allows it.
    fn build(&self) -> Option<Request<Body>> {
        let mut request = Request::builder().method(&self.method).uri(&self.path);
        for (name, value) in &self.headers {
            let value = HeaderValue::from_bytes(value).ok()?;
            request = request.header(HeaderName::from_static(name), value);
        }
        request.body(Body::from(self.body.clone())).ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_a_refusal_stores_nothing(made in any_request()) {
        let Some(request) = made.build() else { return Ok(()) };
        let (runtime, world) = &*WORLD;
        let before = records(world);
        let Heard { status, text, .. } = runtime.block_on(world.call(request));
        let stored = records(world) - before;
        let known = [200, 202, 400, 404, 405, 406, 501];
        prop_assert!(known.contains(&status), "{status}");
        if matches!(status, 400 | 405 | 406 | 501) {
            prop_assert_eq!(stored, 0, "{}: {}", status, text);
        }
        prop_assert!(stored <= 1);
        if (400..500).contains(&status) && made.method != Method::HEAD {
            let body: Value = serde_json::from_str(&text).unwrap();
            let error = &body["errorInformation"];
            prop_assert_eq!(error["errorCode"].as_str().map(str::len), Some(4), "{}", body);
            let length = error["errorDescription"].as_str().map_or(0, |text| text.chars().count());
            prop_assert!((1..=128).contains(&length), "{}", body);
        }
    }
}

#[test]
fn the_headers_and_bodies_that_are_spoiled_are_good_ones() {
    let (runtime, world) = world();
    for (method, path, body, status) in [
        (Method::POST, "/transfers".to_owned(), GOOD_BODIES[0], 202),
        (Method::PUT, format!("/transfers/{ID}"), GOOD_BODIES[1], 200),
        (Method::PUT, format!("/transfers/{ID}/error"), GOOD_BODIES[2], 200),
        (Method::GET, format!("/transfers/{ID}"), "", 202),
    ] {
        let made = Made { method, path, headers: good_headers(), body: body.as_bytes().to_vec() };
        let heard = runtime.block_on(world.call(made.build().unwrap()));
        assert_eq!((heard.status, heard.text.as_str()), (status, ""), "{made:?}");
    }
    assert!(SystemClock::new().read().wall < 1_920_961_476_120, "the sample's expiration is ahead");
}
