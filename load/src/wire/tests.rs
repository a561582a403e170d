use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

async fn answer_one<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(ANSWER).await.unwrap();
    stream.flush().await.unwrap();
}

fn get() -> Request<Full<Bytes>> {
    Request::builder().method(Method::GET).uri("/").header("host", "x").body(Full::default()).unwrap()
}

#[tokio::test]
async fn a_tls_site_is_trusted_by_its_ca_and_asked_for_by_the_name_it_is_told() {
    let made = rcgen::generate_simple_self_signed(vec!["tickets.example.com".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                answer_one(&mut stream).await;
            }
        }
    });
    let ca = std::env::temp_dir().join(format!("anteroom-load-ca-{}.pem", std::process::id()));
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let site = |host| Arc::new(Site::new(&url, Some(host), Some(&ca)).unwrap());
    let answer = Connection::new(site("tickets.example.com")).exchange(get()).await.unwrap();
    assert_eq!(&answer.body[..], b"hi");
    let stranger = Connection::new(site("other.example.com")).exchange(get()).await;
    assert!(matches!(stranger, Err(Lost::Connect(_))), "{stranger:?}");
    std::fs::remove_file(ca).unwrap();
}

#[tokio::test]
async fn a_kept_alive_connection_that_closed_meanwhile_is_opened_again_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = Site::new(&format!("http://{}", listener.local_addr().unwrap()), None, None).unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            answer_one(&mut stream).await;
        }
    });
    let mut connection = Connection::new(Arc::new(site));
    assert_eq!(connection.exchange(get()).await.unwrap().status, 200);
    assert_eq!(connection.exchange(get()).await.unwrap().status, 200);
    server.await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(5), connection.exchange(get())).await.unwrap();
    assert!(lost.is_err(), "{lost:?}");
}
