//! TLS through the binary, with a certificate made for the test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::server::{Server, any_port, folder, run};

/// Writes `certificate.pem` and `key.pem` for localhost.
fn make_certificate(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("certificate.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

fn launch(folder: &Path) -> Server {
    let mut command = Server::command(&folder.join("data"), any_port());
    command.args(["--tls-certificate", folder.join("certificate.pem").to_str().unwrap()]);
    command.args(["--tls-key", folder.join("key.pem").to_str().unwrap()]);
    Server::launch(&mut command)
}

fn client(trusting: Option<&CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if let Some(certificate) = trusting {
        roots.add(certificate.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn get_health(server: &Server, client: &Arc<ClientConfig>) -> std::io::Result<String> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(server.address)?);
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_hub_with_a_certificate_speaks_tls_only() {
    let folder = folder();
    let certificate = make_certificate(folder.path());
    let server = launch(folder.path());
    // Callers that open a connection and say nothing, or say it in the clear, delay nobody.
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let mut clear = TcpStream::connect(server.address).unwrap();
    clear.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _: std::io::Result<usize> = clear.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "no answer in the clear");

    let answer = get_health(&server, &client(Some(&certificate))).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let doubted = get_health(&server, &client(None)).unwrap_err().to_string();
    assert!(doubted.contains("certificate"), "{doubted}");
    server.stop();
}

#[test]
fn files_that_are_no_pair_are_refused_with_a_reason() {
    let folder = folder();
    make_certificate(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).unwrap();
    std::fs::write(path("other.pem"), other.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("empty.pem"), "").unwrap();
    for (certificate, key, reason) in [
        ("empty.pem", "key.pem", "no certificate in PEM form"),
        ("missing.pem", "key.pem", "no certificate in PEM form"),
        ("certificate.pem", "certificate.pem", "no private key in PEM form"),
        ("certificate.pem", "other.pem", "cannot be used"),
    ] {
        let output = run(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            &path("data"),
            "--tls-certificate",
            &path(certificate),
            "--tls-key",
            &path(key),
        ]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(reason), "{certificate} {key}: {said}");
    }
}
