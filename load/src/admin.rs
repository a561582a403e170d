//! The operator's API, as far as the load tool needs it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use crate::check::EventLog;
use crate::wire::{Connection, Site};

/// Records that are fetched at once.
const PAGE: usize = 1_000;

/// Who asks the operator's API.
#[derive(Debug)]
pub struct Admin {
    site: Arc<Site>,
    token: Option<String>,
}

impl Admin {
    /// An operator with the token of a file.
    ///
    /// # Errors
    /// When the URL is none or the file cannot be read.
    pub fn new(url: &str, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let token = token_file.map(|path| {
            std::fs::read_to_string(path).with_context(|| format!("admin token file {}", path.display()))
        });
        let token = token.transpose()?.map(|token| token.trim().to_owned());
        Ok(Self { site: Arc::new(Site::new(url, None, None)?), token })
    }

    /// Asks, and takes the JSON of a 2xx answer.
    ///
    /// # Errors
    /// When there is no answer, it is no success, or no JSON.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        Ok(self.answer(method, path, body).await?.1)
    }

    /// As [`Admin::ask`], with the status.
    ///
    /// # Errors
    /// As [`Admin::ask`].
    pub async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.site.authority());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let bytes = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(bytes))?;
        let answer = Connection::new(Arc::clone(&self.site)).exchange(request).await?;
        if !answer.status.is_success() {
            bail!("{path}: HTTP {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
        }
        if answer.body.is_empty() {
            return Ok((answer.status, Value::Null));
        }
        let json = serde_json::from_slice(&answer.body);
        Ok((answer.status, json.with_context(|| format!("{path} answered no JSON"))?))
    }

    /// Whether the metrics listener says that the node is ready.
    pub async fn is_ready(&self) -> bool {
        let request = Request::builder().uri("/readyz").header(HOST, self.site.authority());
        let Ok(request) = request.body(Full::default()) else { return false };
        let answer = Connection::new(Arc::clone(&self.site)).exchange(request).await;
        answer.is_ok_and(|answer| answer.status.is_success())
    }

    /// All that the event's log still holds, as the admin API shows it.
    ///
    /// # Errors
    /// As [`Admin::ask`].
    pub async fn event_log_json(&self, event: &str) -> anyhow::Result<Vec<Value>> {
        let mut after = 0u64;
        let mut all: Vec<Value> = Vec::new();
        loop {
            let path = format!("/admin/events/{event}/log?after={after}&limit={PAGE}");
            let page = self.ask(Method::GET, &path, None).await?;
            let records = match &page {
                Value::Array(records) => records.clone(),
                other => ["records", "log", "entries"]
                    .iter()
                    .find_map(|name| other.get(*name)?.as_array().cloned())
                    .unwrap_or_default(),
            };
            let last = records.iter().filter_map(|record| record.get("index")?.as_u64()).max();
            all.extend(records);
            match last {
                Some(last) if last > after => after = last,
                _ => return Ok(all),
            }
        }
    }

    /// The event's log, understood.
    ///
    /// # Errors
    /// As [`Admin::ask`].
    pub async fn event_log(&self, event: &str) -> anyhow::Result<EventLog> {
        let mut log = EventLog::default();
        log.take(&Value::Array(self.event_log_json(event).await?));
        Ok(log)
    }
}
