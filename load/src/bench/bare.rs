//! `anteroom-load bare`: Pingora and nothing else, to measure against.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use clap::Args;
use pingora::http::ResponseHeader;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;

/// Serves with bare Pingora: a proxy of one origin, or one fixed answer.
#[derive(Args, Clone, Debug)]
pub struct BareArgs {
    /// Where to listen.
    #[arg(long)]
    pub listen: SocketAddr,
    /// The origin.
    #[arg(long)]
    pub upstream: SocketAddr,
    /// A file with an answer, head and body, that is sent instead of asking the origin.
    #[arg(long)]
    pub answer: Option<PathBuf>,
    /// Threads that serve.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

struct Bare {
    upstream: SocketAddr,
    answer: Option<Fixed>,
}

struct Fixed {
    header: ResponseHeader,
    body: Bytes,
}

impl Fixed {
    fn parse(answer: &[u8]) -> anyhow::Result<Self> {
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .context("the answer has no end of head")?;
        let (head, body) = answer.split_at(end);
        let body = Bytes::copy_from_slice(body.get(4..).unwrap_or_default());
        let head = std::str::from_utf8(head)?;
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).context("the answer has no status")?;
        let mut header = ResponseHeader::build_no_case(status.parse::<u16>()?, Some(16))?;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            // Pingora writes these two itself.
            if !["date", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
                header.append_header(name.to_owned(), value.trim())?;
            }
        }
        Ok(Self { header, body })
    }
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn request_filter(&self, session: &mut Session, _: &mut Self::CTX) -> pingora::Result<bool> {
        let Some(fixed) = &self.answer else { return Ok(false) };
        session.write_response_header(Box::new(fixed.header.clone()), false).await?;
        session.write_response_body(Some(fixed.body.clone()), true).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _: &mut Session, _: &mut Self::CTX) -> pingora::Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

/// Serves until it is killed.
///
/// # Errors
/// When the answer cannot be read.
pub fn serve_bare(args: &BareArgs) -> anyhow::Result<ExitCode> {
    let answer = match &args.answer {
        Some(path) => Some(Fixed::parse(&std::fs::read(path)?)?),
        None => None,
    };
    let conf = ServerConf { threads: args.threads, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, Bare { upstream: args.upstream, answer });
    proxy.add_tcp(&args.listen.to_string());
    server.add_service(proxy);
    server.run_forever();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_parsed_into_what_pingora_sends() {
        let fixed =
            Fixed::parse(b"HTTP/1.1 200 OK\r\nDate: x\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n{}").unwrap();
        assert_eq!((fixed.header.status.as_u16(), &fixed.body[..]), (200, &b"{}"[..]));
        assert_eq!(fixed.header.headers.get_all("set-cookie").iter().count(), 2);
        assert!(!fixed.header.headers.contains_key("date"));
        assert!(Fixed::parse(b"HTTP/1.1 200").is_err());
        assert!(Fixed::parse(b"\r\n\r\n").is_err());
    }
}
