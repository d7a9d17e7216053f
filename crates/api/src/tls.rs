//! TLS by rustls with ring: our certificate for callers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The one protocol that is spoken inside TLS.
const ALPN: &[u8] = b"http/1.1";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file cannot be read, or has nothing of the kind in it.
    #[error("{file} has no {what} in PEM form")]
    Pem {
        /// Which file.
        file: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// Why it was not found.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key are not a pair, or of a kind that is not known.
    #[error("this certificate and key cannot be used")]
    Unusable(#[source] rustls::Error),
}

/// What a listener needs: the chain in `certificate`, the private key in `key`, both PEM.
///
/// # Errors
/// If a file cannot be read, or the two do not fit.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let bad_chain = |source| TlsError::Pem { file: certificate.to_owned(), what: "certificate", source };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(bad_chain)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(bad_chain)?;
    if chain.is_empty() {
        return Err(bad_chain(rustls::pki_types::pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Pem {
        file: key.to_owned(),
        what: "private key",
        source,
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
