//! Paths behind keys: who may use them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use holdfast_api::keys::{ID_BYTES, KeptKey, Keyring, Role, SECRET_BYTES};
use holdfast_api::{Edge, Gate, router};
use holdfast_domain::participants::Name;

use crate::world::call;

/// The paths of an edge that knows one operator and one participant.
pub(crate) struct Guarded {
    router: Router,
    operator: String,
    participant: String,
}

impl Guarded {
    pub(crate) fn new(edge: &Edge) -> Guarded {
        let mut keys = Keyring::default();
        let mut made = |role| {
            let number = u8::try_from(keys.iter().count()).unwrap();
            let (secret, key) = KeptKey::make(role, 0, [number; ID_BYTES], &[number; SECRET_BYTES]);
            assert!(keys.add(key));
            secret.reveal().to_owned()
        };
        let operator = made(Role::Operator);
        let participant = made(Role::Participant(Name::new("fsp1").unwrap()));
        let router = router(edge.clone().behind(Arc::new(Gate::new(Some(keys)))));
        Guarded { router, operator, participant }
    }

    async fn status(&self, method: &str, path: &str, key: Option<&str>) -> u16 {
        let request = Request::builder().method(method).uri(path);
        let request = key.into_iter().fold(request, |request, key| request.header("x-api-key", key));
        call(&self.router, request.body(Body::empty()).unwrap()).await.status
    }

    /// Nobody else gets in. What the operator is answered comes back.
    pub(crate) async fn is_the_operators(&self, method: &str, path: &str) -> u16 {
        assert_eq!(self.status(method, path, None).await, 401, "{method} {path}");
        let participant = self.status(method, path, Some(&self.participant)).await;
        assert_eq!(participant, 403, "{method} {path}");
        let operator = self.status(method, path, Some(&self.operator)).await;
        assert!(![401, 403].contains(&operator), "{method} {path}: {operator}");
        operator
    }
}
