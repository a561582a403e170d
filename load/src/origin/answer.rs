//! The origin's answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{Counts, socket};
use crate::visitor::ORIGIN_HEADER;

/// Longer bodies are cut off in the echo.
const ECHOED: usize = 1 << 20;

pub(super) async fn answer(request: Request<Incoming>, counts: &Counts) -> Response<Full<Bytes>> {
    if shows_tokens(request.headers()) {
        counts.leaked.fetch_add(1, Ordering::Relaxed);
    }
    match request.uri().path() {
        "/ws" => socket::upgrade(request),
        "/counts" => json_answer(&counts_of(counts)),
        path if path.ends_with("/echo") => echo(request).await,
        path if path.ends_with("/slow") => {
            tokio::time::sleep(Duration::from_millis(asked(&request, "ms").unwrap_or(1_000))).await;
            page("slow")
        }
        path if path.ends_with("/status") => {
            let status = asked(&request, "code").and_then(|code| u16::try_from(code).ok());
            let mut answer = page("as you asked");
            *answer.status_mut() =
                status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK);
            answer
        }
        path => page(path),
    }
}

fn shows_tokens(headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(http::header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let ours = |line: &str| line.split(';').any(|pair| pair.trim().starts_with("wr_"));
    headers.contains_key("anteroom-ticket")
        || headers.contains_key("anteroom-pass")
        || cookies.into_iter().any(ours)
}

fn asked(request: &Request<Incoming>, name: &str) -> Option<u64> {
    let pairs = request.uri().query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name)?.1.parse().ok()
}

async fn echo(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, ECHOED).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]));
    json_answer(&json!({
        "method": parts.method.as_str(),
        "path": parts.uri.to_string(),
        "headers": headers.collect::<Vec<Value>>(),
        "body": String::from_utf8_lossy(&body),
    }))
}

fn counts_of(counts: &Counts) -> Value {
    json!({
        "requests": counts.requests.load(Ordering::Relaxed),
        "active": counts.active.load(Ordering::Relaxed),
        "most_active": counts.most_active.load(Ordering::Relaxed),
        "leaked": counts.leaked.load(Ordering::Relaxed),
    })
}

fn json_answer(value: &Value) -> Response<Full<Bytes>> {
    with_type("application/json", value.to_string())
}

fn page(title: &str) -> Response<Full<Bytes>> {
    let title: String =
        title.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '/').collect();
    with_type(
        "text/html; charset=utf-8",
        format!("<!doctype html><title>{title}</title><p>This is the shop, at {title}.</p>"),
    )
}

fn with_type(kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    headers.insert(ORIGIN_HEADER, http::HeaderValue::from_static("1"));
    answer
}
