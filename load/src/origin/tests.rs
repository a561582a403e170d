use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::wire::{Answer, Connection, Site};

async fn origin() -> (Origin, Connection) {
    let origin = Origin::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let site = Site::new(&format!("http://{}", origin.address), None, None).unwrap();
    (origin, Connection::new(Arc::new(site)))
}

async fn get(connection: &mut Connection, path: &str, cookie: &str) -> Answer {
    let request =
        Request::builder().method(Method::GET).uri(path).header("host", "x").header("cookie", cookie);
    connection.exchange(request.body(Full::default()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn pages_echoes_and_statuses_are_answered_and_marked() {
    let (origin, mut connection) = origin().await;
    let page = get(&mut connection, "/buy/now", "").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.headers.contains_key(crate::visitor::ORIGIN_HEADER));
    assert_eq!(get(&mut connection, "/buy/status?code=418", "").await.status, StatusCode::IM_A_TEAPOT);
    let request = Request::builder().method(Method::POST).uri("/buy/echo?q=1").header("host", "x");
    let request = request.body(Full::new(Bytes::from_static(b"hello"))).unwrap();
    let echo: serde_json::Value =
        serde_json::from_slice(&connection.exchange(request).await.unwrap().body).unwrap();
    assert_eq!(
        (&echo["method"], &echo["path"], &echo["body"]),
        (&"POST".into(), &"/buy/echo?q=1".into(), &"hello".into())
    );
    assert_eq!(origin.counts.requests.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn tokens_that_leak_through_are_counted() {
    let (origin, mut connection) = origin().await;
    get(&mut connection, "/", "a=1; other=2").await;
    assert_eq!(origin.counts.leaked.load(Ordering::Relaxed), 0);
    get(&mut connection, "/", "a=1; wr_pass=secret").await;
    assert_eq!(origin.counts.leaked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_web_socket_echoes_frames() {
    let (origin, _) = origin().await;
    let mut stream = TcpStream::connect(origin.address).await.unwrap();
    stream
        .write_all(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream.write_all(&[0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2]).await.unwrap();
    let mut frame = [0; 4];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame, [0x81, 2, b'h', b'i']);
}
