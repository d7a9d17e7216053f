//! `/participants/{name}/endpoints`: where a participant wants to be called, by type.
//!
//! Scripts register many types that a transfers hub never calls, so every type is kept. A type that is a URL by its
//! name must have one as its value, though: a bad address is better refused now than found out by a lost callback.

use axum::Json;
use axum::extract::State;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Uri};
use holdfast_domain::command::{Command, SetEndpoint};
use holdfast_wire::admin::{Bounded, Endpoint, OneOrList};

use super::body::Body;
use super::extract::{Filter, Place};
use super::{about, change};
use crate::Edge;
use crate::error::ApiError;

/// `GET /participants/{name}/endpoints[?type=]`: a list, or one object, empty if there is none.
pub(crate) async fn list(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Json<OneOrList<Endpoint>>, ApiError> {
    let wanted = filter.kind;
    let one = wanted.is_some();
    let endpoints: Vec<Endpoint> = about(&edge, &name, move |store, whom| {
        let all = store.endpoints(whom.id()).into_iter();
        let matching = all.filter(|(kind, _)| wanted.as_ref().is_none_or(|it| it == kind));
        matching
            .map(|(kind, value)| Endpoint {
                kind: Bounded(kind.to_owned()),
                value: Bounded(value.to_owned()),
            })
            .collect()
    })
    .await?;
    Ok(Json(if one { OneOrList::one(endpoints) } else { OneOrList::List(endpoints) }))
}

/// `POST /participants/{name}/endpoints`: sets one; it replaces an earlier one of its type.
pub(crate) async fn set(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    Body(Endpoint { kind: Bounded(kind), value: Bounded(value) }): Body<Endpoint>,
) -> Result<StatusCode, ApiError> {
    let wrong = |problem: String| ApiError::malformed(format!("value: {problem}"));
    if is_url_by_name(&kind) {
        check_template(&kind, &value).map_err(wrong)?;
    }
    let participant = about(&edge, &name, |_, whom| whom.id()).await?;
    let endpoint = SetEndpoint::new(participant, kind, value)
        .ok_or_else(|| wrong("cannot be kept with this type".to_owned()))?;
    let done = change(&edge, Command::SetEndpoint(endpoint), |_| format!("{name} has no endpoints"));
    done.await.map(|_| StatusCode::CREATED)
}

/// `FSPIOP_CALLBACK_URL_…`, `TP_CB_URL_…`, `ALARM_NOTIFICATION_URL`; others are mail addresses, topics and the like.
fn is_url_by_name(kind: &str) -> bool {
    kind.contains("_URL_") || kind.ends_with("_URL")
}

/// The types that this hub calls, all about one transfer.
const TRANSFER_TYPES: &str = "FSPIOP_CALLBACK_URL_TRANSFER_";

/// Whether the value is an http(s) URL once its Mustache tags, `{{name}}`, are filled in.
fn check_template(kind: &str, value: &str) -> Result<(), String> {
    let mut url = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("{{") {
        let (tag, after) = after.split_once("}}").ok_or("has a '{{' without its '}}'")?;
        // `{{{name}}}` and `{{&name}}` mean the same here: nothing is escaped.
        let (tag, after) = match (tag.strip_prefix('{'), after.strip_prefix('}')) {
            (Some(tag), Some(after)) => (tag, after),
            _ => (tag.strip_prefix('&').unwrap_or(tag), after),
        };
        check_name(kind, tag.trim())?;
        url.push_str(before);
        url.push('x');
        rest = after;
    }
    url.push_str(rest);
    let not_a_url = || "must be a URL such as http://host/transfers/{{transferId}}".to_owned();
    let uri: Uri = url.parse().map_err(|_| not_a_url())?;
    let good = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(is_host_and_port)
        && !url.contains(['{', '}']);
    if good { Ok(()) } else { Err(not_a_url()) }
}

/// The parser lets a port through that is no number.
fn is_host_and_port(authority: &Authority) -> bool {
    let behind_host = authority.as_str().rsplit_once(authority.host()).map(|(_, port)| port);
    !authority.host().is_empty() && (behind_host == Some("") || authority.port_u16().is_some())
}

fn check_name(kind: &str, name: &str) -> Result<(), String> {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return Err("has a '{{…}}' that is not a plain name such as {{transferId}}".to_owned());
    }
    if kind.starts_with(TRANSFER_TYPES) && name != "transferId" {
        let name = super::shortened(name);
        return Err(format!("'{name}' is not known about transfers; use {{{{transferId}}}}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: &str = "FSPIOP_CALLBACK_URL_TRANSFER_PUT";
    const PARTIES: &str = "FSPIOP_CALLBACK_URL_PARTIES_GET";

    #[test]
    fn types_that_are_urls_are_known_by_their_names() {
        for kind in [PUT, PARTIES, "ALARM_NOTIFICATION_URL", "TP_CB_URL_TRANSACTION_REQUEST_GET"] {
            assert!(is_url_by_name(kind), "{kind}");
        }
        for kind in ["NET_DEBIT_CAP_ADJUSTMENT_EMAIL", "ALARM_NOTIFICATION_TOPIC", "CURLED"] {
            assert!(!is_url_by_name(kind), "{kind}");
        }
    }

    #[test]
    fn a_template_is_a_url_with_names_in_it() {
        for good in [
            "http://host/transfers/{{transferId}}",
            "https://host:8443/a/b/transfers/{{transferId}}/error?x=1",
            "http://127.0.0.1:4001/transfers",
            "http://[::1]:4001/transfers",
            "http://host/{{ transferId }}/{{{transferId}}}/{{&transferId}}",
        ] {
            assert_eq!(check_template(PUT, good), Ok(()), "{good}");
        }
        assert_eq!(check_template(PARTIES, "http://h/parties/{{partyIdType}}/{{partyIdentifier}}"), Ok(()));
        for bad in [
            "host/transfers",
            "ftp://host/transfers",
            "/transfers",
            "http://",
            "http:///transfers",
            "http://host/ transfers",
            "http://host/{{transferId",
            "http://host/{transferId}",
            "http://host/{{}}",
            "http://host/{{ID}}",
            "http://host/{{#transferId}}",
            "http://host:port/",
            "mail@host",
        ] {
            assert!(check_template(PUT, bad).is_err(), "{bad}");
        }
    }
}
