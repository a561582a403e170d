//! TLS: HTTP/2 over it, and a certificate that is swapped while the node runs.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::process::{Place, Shop, until};

/// A certificate of its own making, in the files that the node reads.
fn certificate(place: &Place) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(place.dir.path().join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(place.dir.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// The status of a request over HTTP/2 to whom this certificate belongs.
async fn ask(address: SocketAddr, trusted: &CertificateDer<'static>) -> Result<u16, String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| told(&error))?;
    let name = ServerName::try_from("localhost").unwrap();
    let stream =
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| told(&error))?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| told(&error))?;
    tokio::spawn(connection);
    let uri = format!("https://localhost:{}/buy/tickets", address.port());
    let request = http::Request::get(uri).header("Accept", "text/html").body(Empty::<Bytes>::new()).unwrap();
    sender.send_request(request).await.map(|answer| answer.status().as_u16()).map_err(|error| told(&error))
}

#[test]
fn https_speaks_http_2_and_shows_a_new_certificate_after_a_reload() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20, mode: closed");
    let tls = format!("{{ address: \"{}\", tls: {{ certificate: tls.crt, key: tls.key }} }}", place.visitors);
    place.write(
        &place
            .read()
            .replace(&format!("{{ address: \"{}\" }} ]\nadmin", place.visitors), &format!("{tls} ]\nadmin")),
    );
    let first = certificate(&place);
    let node = place.start();
    assert_eq!(runtime.block_on(ask(place.visitors, &first)), Ok(302));
    let second = certificate(&place);
    assert_eq!(runtime.block_on(ask(place.visitors, &first)), Ok(302), "files alone change nothing");
    node.signal("HUP");
    until("the new certificate is shown", || runtime.block_on(ask(place.visitors, &second)) == Ok(302));
    assert!(runtime.block_on(ask(place.visitors, &first)).is_err());
    std::fs::write(place.dir.path().join("tls.key"), "no key").unwrap();
    node.signal("HUP");
    until("the bad key is refused", || place.logged().contains("tls.key"));
    assert_eq!(runtime.block_on(ask(place.visitors, &second)), Ok(302));
}
