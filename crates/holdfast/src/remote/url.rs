//! Where a hub listens, as `--url` says it.

use std::fmt;
use std::str::FromStr;

use anyhow::{anyhow, ensure};
use hyper::Uri;

/// Scheme, host and port of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubUrl {
    /// Speak TLS.
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", if self.tls { "https" } else { "http" }, self.host, self.port)
    }
}

impl FromStr for HubUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<HubUrl> {
        let uri: Uri = text.parse().map_err(|error| anyhow!("'{text}' is no URL: {error}"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(anyhow!("'{text}' does not begin with http:// or https://")),
        };
        ensure!(
            matches!(uri.path(), "" | "/") && uri.query().is_none(),
            "'{text}' must end after host and port"
        );
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or_else(|| anyhow!("'{text}' names no host"))?;
        Ok(HubUrl { tls, host: host.to_owned(), port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port() {
        for (text, read) in [
            ("http://127.0.0.1:4000", "http://127.0.0.1:4000"),
            ("http://hub/", "http://hub:80"),
            ("https://hub.example", "https://hub.example:443"),
            ("http://[::1]:4000", "http://[::1]:4000"),
        ] {
            assert_eq!(text.parse::<HubUrl>().unwrap().to_string(), read);
        }
        for bad in ["127.0.0.1:4000", "ftp://hub", "http://", "http://hub/prefix", "hub", "http://hub?x=1"] {
            assert!(bad.parse::<HubUrl>().is_err(), "{bad}");
        }
    }
}
