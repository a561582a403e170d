//! One request of a node on this machine: HTTP/1.1 on a connection of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(3);

/// The longest answer that is read, in bytes.
const LONGEST: u64 = 16 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// The bearer token, where the listener asks for one.
    pub(super) token: Option<&'a str>,
    /// JSON, or nothing.
    pub(super) body: &'a str,
    /// How long the answer may stay out.
    pub(super) patience: Duration,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks and waits for the answer.
///
/// # Errors
/// When nobody answers in time, or not in HTTP.
pub(super) fn ask(address: SocketAddr, question: Question<'_>) -> io::Result<Answer> {
    let Question { method, path, token, body, patience } = question;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_read_timeout(Some(patience))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    if let Some(token) = token {
        request += &format!("Authorization: Bearer {token}\r\n");
    }
    if !body.is_empty() {
        request += "Content-Type: application/json\r\n";
    }
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    read(&String::from_utf8_lossy(&answer))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is no HTTP"))
}

/// An answer whose end is the end of the connection.
fn read(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut first = head.lines().next()?.split(' ');
    first.next().filter(|version| version.starts_with("HTTP/1."))?;
    Some(Answer { status: first.next()?.parse().ok()?, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        let answer = read("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!(answer, Answer { status: 200, body: "{}".to_owned() });
        let bare = read("HTTP/1.0 503\r\n\r\n").unwrap();
        assert_eq!(bare, Answer { status: 503, body: String::new() });
    }

    #[test]
    fn what_is_no_answer_is_not_taken_for_one() {
        for text in ["", "SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 fine\r\n\r\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
