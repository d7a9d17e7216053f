//! TLS by rustls with ring, for calls to others: trusted is what the machine trusts, not a list compiled in. Schemes often run a
//! certificate authority of their own, which an operator adds to the machine (or names in `SSL_CERT_FILE`), and a list in a
//! binary ages.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The one protocol that is spoken inside TLS.
const ALPN: &[u8] = b"http/1.1";

/// Why no https address can be called.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Unusable(#[source] rustls::Error),
    /// The machine trusts nobody.
    #[error("this machine has no root certificates; SSL_CERT_FILE names a file of them")]
    NoRoots,
}

/// Opens TLS on outgoing connections. Made once: reading the roots takes milliseconds.
#[derive(Clone)]
pub struct OutgoingTls {
    connector: TlsConnector,
}

impl OutgoingTls {
    /// Trusting whom the machine trusts.
    ///
    /// # Errors
    /// If it trusts nobody.
    pub fn new() -> Result<OutgoingTls, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (used, _) = roots.add_parsable_certificates(found.certs);
        if used == 0 {
            return Err(TlsError::NoRoots);
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(OutgoingTls { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// The same trust for a client that makes its own connections, and says itself which protocols it speaks.
    #[must_use]
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::clone(self.connector.config());
        config.alpn_protocols.clear();
        config
    }

    /// Makes a connection to `host` a TLS one. The caller bounds its time.
    ///
    /// # Errors
    /// If the name is none, or the other side's certificate is not for it or not trusted.
    pub async fn open(&self, host: &str, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned())
            .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error))?;
        self.connector.connect(name, stream).await
    }
}

impl std::fmt::Debug for OutgoingTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutgoingTls")
    }
}
