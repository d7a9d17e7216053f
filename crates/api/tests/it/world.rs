//! A hub with its paths, and what it answers.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use holdfast_api::{Edge, ServeOptions, router, serve};
use holdfast_engine::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{EmbeddedEngine, Hub, HubHandle, Opened};
use holdfast_log::{LogId, RealFs, SegmentOptions};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// What a test waits for takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A recorder of its own.
pub(crate) fn metrics() -> PrometheusHandle {
    PrometheusBuilder::new().build_recorder().handle()
}

/// A hub and its paths.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) edge: Edge,
    pub(crate) hub: HubHandle,
    _running: Hub,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(HubOptions::default())
    }

    pub(crate) fn with(options: HubOptions) -> World {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let segments = SegmentOptions { segment_bytes: 1 << 20, ..SegmentOptions::default() };
        let opened = Opened::open(Arc::new(RealFs), folder.path(), segments, LogId([7; 16])).unwrap();
        let running = Hub::start(opened, Arc::new(SystemClock::new()), options).unwrap();
        let hub = running.handle();
        let edge = Edge::new(Arc::new(EmbeddedEngine::new(hub.clone())), metrics());
        World { router: router(edge.clone()), edge, hub, _running: running, _folder: folder }
    }

    /// A hub with two participants, the first of which has a limit.
    pub(crate) async fn with_two() -> World {
        let world = World::new();
        for name in ["payerfsp", "payeefsp"] {
            world.post("/participants", json!({"name": name, "currency": "USD"})).await.json(201);
        }
        let limit = json!({"currency": "USD", "limit": {"type": "NET_DEBIT_CAP", "value": 10}});
        let initialised = world.post("/participants/payerfsp/initialPositionAndLimits", limit).await;
        assert_eq!(initialised.status, 201, "{initialised:?}");
        world
    }

    pub(crate) async fn call(&self, request: Request<Body>) -> Heard {
        call(&self.router, request).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: impl Into<Body>) -> Heard {
        self.call(Request::builder().method(method).uri(path).body(body.into()).unwrap()).await
    }

    /// A POST of JSON.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Heard {
        self.ask(Method::POST, path, body.to_string()).await
    }

    /// A POST without a body.
    pub(crate) async fn posted(&self, path: &str) -> Heard {
        self.ask(Method::POST, path, Body::empty()).await
    }

    pub(crate) async fn got(&self, path: &str) -> Heard {
        self.ask(Method::GET, path, Body::empty()).await
    }

    /// The member `rows` of every page of a list, whose `path` ends in a parameter.
    pub(crate) async fn all_pages(&self, path: &str, rows: &str) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), String::new());
        for _ in 0..10 {
            let mut page = self.got(&format!("{path}{after}")).await.json(200);
            all.append(page[rows].as_array_mut().unwrap());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return all,
            }
        }
        panic!("{path} has no end: {all:?}")
    }
}

/// Sends a request to these paths.
pub(crate) async fn call(router: &Router, request: Request<Body>) -> Heard {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let media_type = head.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let bytes = body.collect().await.unwrap().to_bytes();
    Heard {
        status: head.status.as_u16(),
        media_type: media_type.unwrap_or_default(),
        later: head.headers.contains_key("retry-after"),
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) media_type: String,
    /// It says when to come again.
    pub(crate) later: bool,
    pub(crate) text: String,
}

impl Heard {
    /// A good answer in JSON.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        let media_type = "application/json";
        assert_eq!((self.status, self.media_type.as_str()), (status, media_type), "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }

    /// What it says in JSON, whatever its kind; null if it says nothing.
    pub(crate) fn content(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// An answer in text, as the course has it.
    #[track_caller]
    pub(crate) fn text(&self, status: u16) -> &str {
        let media_type = "text/plain; charset=utf-8";
        assert_eq!((self.status, self.media_type.as_str()), (status, media_type), "{}", self.text);
        assert_eq!(self.later, status == 429 || status == 503);
        assert!(!self.text.is_empty());
        &self.text
    }

    /// A problem.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, name: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.media_type, "application/problem+json", "{}", self.text);
        let body: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(body["type"], format!("/problems/{name}"), "{body}");
        assert_eq!(body["status"], status);
        assert_eq!(self.later, status == 429 || status == 503, "{body}");
        for member in ["title", "detail"] {
            assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{member}");
        }
        body
    }

    /// A refusal under `/hub`.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let body = self.json(status);
        assert_eq!(body["errorInformation"]["errorCode"], code, "{body}");
        body["errorInformation"]["errorDescription"].as_str().unwrap().to_owned()
    }
}

/// Members of an object, whatever else stands there.
#[track_caller]
pub(crate) fn assert_has(object: &Value, members: &Value) {
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(object[name], *value, "{name} of {object}");
    }
}

/// Waits until a look gives something, and fails if it never does.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let seen = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// A world behind a real socket.
pub(crate) struct Served {
    pub(crate) world: World,
    address: SocketAddr,
    _runtime: Runtime,
}

impl Served {
    pub(crate) fn start(options: HubOptions) -> Served {
        let world = World::with(options);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = world.router.clone();
        runtime.spawn(serve(listener, router, ServeOptions::default(), std::future::pending()));
        Served { world, address, _runtime: runtime }
    }

    /// Sends a request and leaves the answer to come.
    pub(crate) fn send(&self, request: &str, media_type: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        stream
    }
}
