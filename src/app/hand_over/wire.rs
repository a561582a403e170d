//! What two processes say to each other: lines of text, and once the sockets beside a line.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::sockets::Sockets;

/// The most sockets that the system sends at once.
const MOST_SOCKETS: usize = 253;

/// The longest line, in bytes: more than [`MOST_SOCKETS`] addresses.
const LONGEST: usize = 16 << 10;

/// What the new process says first; the number rises when the two could not understand each other.
pub(super) const HELLO: &str = "anteroom-upgrade 1";
/// What the old process says before why it does not give way.
pub(super) const NO: &str = "no";
/// What it says before the addresses of its sockets.
const SOCKETS: &str = "sockets";
/// The new process lacks nothing but the control log.
pub(super) const READY: &str = "ready";
/// The old process has closed the control log.
pub(super) const YOURS: &str = "yours";
/// The new process serves.
pub(super) const SERVING: &str = "serving";

/// No program that this one starts shall have the sockets.
#[cfg(target_os = "linux")]
const RECEIVED: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVED: RecvFlags = RecvFlags::empty();

/// Says a line.
pub(super) fn say(mut to: &UnixStream, line: &str) -> io::Result<()> {
    to.write_all(format!("{line}\n").as_bytes())
}

/// Hears a line; the time-outs are the stream's.
pub(super) fn hear(mut from: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte)? == 1 {
        match byte {
            [b'\n'] => return text(line),
            [other] => line.push(other),
        }
        if line.len() > LONGEST {
            return Err(strange("a line does not end"));
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Sends every socket.
pub(super) fn send(mut to: &UnixStream, sockets: &Sockets) -> io::Result<()> {
    sockets.lend(|addresses, handles| {
        if handles.len() > MOST_SOCKETS {
            return Err(strange("there are too many sockets"));
        }
        let named = addresses.iter().map(|address| format!(" {address}"));
        let line = format!("{SOCKETS}{}\n", named.collect::<String>());
        let message = SendAncillaryMessage::ScmRights(handles);
        let mut space = vec![MaybeUninit::uninit(); message.size()];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !beside.push(message) {
            return Err(strange("there is no room for the sockets"));
        }
        let sent = sendmsg(to, &[IoSlice::new(line.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
        to.write_all(line.as_bytes().get(sent..).unwrap_or_default())
    })
}

/// Hears an answer with the sockets beside it: `Ok(Err(…))` if it says why there are none.
pub(super) fn receive(from: &UnixStream) -> io::Result<Result<Sockets, String>> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut begun = vec![0; LONGEST];
    // Until it has heard more, the other side says one line.
    let heard = recvmsg(from, &mut [IoSliceMut::new(&mut begun)], &mut beside, RECEIVED)?;
    begun.truncate(heard.bytes);
    let mut handles: Vec<OwnedFd> = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            handles.extend(sent);
        }
    }
    let line = match begun.strip_suffix(b"\n") {
        Some(line) => text(line.to_vec())?,
        None if begun.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
        None => text(begun)? + &hear(from)?,
    };
    let Some((word, rest)) = line.split_once(' ') else { return Err(strange("it says neither yes nor no")) };
    match word {
        NO => Ok(Err(rest.to_owned())),
        SOCKETS => {
            let addresses = rest.split(' ').map(str::parse::<SocketAddr>);
            let addresses = addresses.collect::<Result<Vec<_>, _>>();
            let addresses = addresses.map_err(|_| strange("an address cannot be read"))?;
            Sockets::received(addresses, handles).map(Ok)
        }
        _ => Err(strange("it says neither yes nor no")),
    }
}

fn text(line: Vec<u8>) -> io::Result<String> {
    String::from_utf8(line).map_err(|_| strange("a line is no text"))
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn sockets_go_through_and_listen_on_when_the_first_handles_are_closed() {
        let (old, new) = UnixStream::pair().unwrap();
        let (kept, mut addresses) = (Sockets::default(), Vec::new());
        for _ in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            kept.keep(address, &listener).unwrap();
            addresses.push(address);
        }
        send(&old, &kept).unwrap();
        let received = receive(&new).unwrap().unwrap();
        kept.close();
        for address in addresses {
            let client = TcpStream::connect(address).unwrap();
            let listener = received.take(address).unwrap();
            let (_, from) = listener.accept().unwrap();
            assert_eq!(from, client.local_addr().unwrap());
            assert!(received.take(address).is_none());
        }
    }

    #[test]
    fn a_refusal_is_heard_with_its_reason_and_nonsense_is_none() {
        let (old, new) = UnixStream::pair().unwrap();
        say(&old, "no it drains").unwrap();
        assert_eq!(receive(&new).unwrap().unwrap_err(), "it drains");
        for nonsense in ["no", "sockets 127.0.0.1:80", "sockets here", "yes please"] {
            say(&old, nonsense).unwrap();
            assert!(receive(&new).is_err(), "{nonsense}");
        }
        drop(old);
        assert!(receive(&new).is_err());
    }

    #[test]
    fn a_line_is_heard_to_its_end_and_no_further() {
        let (old, new) = UnixStream::pair().unwrap();
        say(&old, READY).unwrap();
        say(&old, "1 2").unwrap();
        assert_eq!((hear(&new).unwrap().as_str(), hear(&new).unwrap().as_str()), (READY, "1 2"));
        drop(old);
        assert_eq!(hear(&new).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
