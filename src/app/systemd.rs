//! Word to systemd, where it asks for it (`Type=notify`): that the node serves, and which process it is.

use std::ffi::OsString;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where systemd listens.
const SOCKET: &str = "NOTIFY_SOCKET";

/// This process serves: it is the main one of its service from now on.
pub(super) fn serves() {
    tell(&format!("READY=1\nMAINPID={}", std::process::id()));
}

/// This process is about to end, and no other takes its place.
pub(super) fn stops() {
    tell("STOPPING=1");
}

fn tell(what: &str) {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    if let Err(error) = send(&socket, what) {
        tracing::warn!("systemd cannot be told of this process at {}: {error}", socket.display());
    }
}

fn send(socket: &OsString, what: &str) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        #[cfg(target_os = "linux")]
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address).map(drop)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn word_reaches_a_socket_with_a_path_and_one_without() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("anteroom-{}", std::process::id());
        let with_path = UnixDatagram::bind(&path).unwrap();
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let without = UnixDatagram::bind_addr(&abstract_name).unwrap();
        for (listener, socket) in [(with_path, path.into_os_string()), (without, format!("@{name}").into())] {
            send(&socket, "READY=1").unwrap();
            let mut heard = [0; 16];
            let length = listener.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"READY=1");
        }
    }
}
