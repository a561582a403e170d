//! /ws: a WebSocket whose frames come back as they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::visitor::ORIGIN_HEADER;

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Longer frames end the connection.
const LONGEST: u64 = 1 << 20;

pub(super) fn upgrade(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    answer.headers_mut().insert(ORIGIN_HEADER, HeaderValue::from_static("1"));
    let key = request.headers().get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let accept = key.and_then(|key| HeaderValue::from_str(&accept(key)).ok());
    let Some(accept) = accept else {
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        return answer;
    };
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    answer.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            // Visitors may break off as they like.
            let _ = echo(TokioIo::new(upgraded)).await;
        }
    });
    answer
}

fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::digest(format!("{key}{GUID}")))
}

async fn echo(mut stream: TokioIo<Upgraded>) -> std::io::Result<()> {
    loop {
        let first = stream.read_u8().await?;
        let second = stream.read_u8().await?;
        let length = match second & 0x7f {
            126 => u64::from(stream.read_u16().await?),
            127 => stream.read_u64().await?,
            short => u64::from(short),
        };
        if length > LONGEST {
            return Ok(());
        }
        let mut mask = [0; 4];
        if second & 0x80 != 0 {
            stream.read_exact(&mut mask).await?;
        }
        let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
        stream.read_exact(&mut payload).await?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        let opcode = match first & 0x0f {
            0x9 => 0xa,
            other => other,
        };
        let mut frame = vec![(first & 0xf0) | opcode];
        match u8::try_from(length) {
            Ok(short @ 0..=125) => frame.push(short),
            _ => match u16::try_from(length) {
                Ok(middle) => {
                    frame.push(126);
                    frame.extend(middle.to_be_bytes());
                }
                Err(_) => {
                    frame.push(127);
                    frame.extend(length.to_be_bytes());
                }
            },
        }
        frame.extend(payload);
        stream.write_all(&frame).await?;
        if opcode == 0x8 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_answers_as_the_rfc_shows() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
