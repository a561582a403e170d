//! Addresses: reserved before anything starts, since Pingora binds late and tells nobody when it fails.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with};

use super::hand_over::Sockets;

/// Why an address cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system refuses.
    #[error("`{name}`: {address} cannot be listened at: {source}")]
    Refused {
        /// The setting.
        name: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// How many connections may wait to be accepted; the system cuts it to `net.core.somaxconn`. A rush begins with all of
/// its visitors at once.
const BACKLOG: i32 = 65_535;

/// An address that is this process's, at which nobody is answered yet: visitors are refused, and go to another node, until
/// it listens.
#[derive(Debug)]
pub(super) struct Reserved {
    name: &'static str,
    /// With the port that the system gave where any was asked for.
    pub(super) address: SocketAddr,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Bound(OwnedFd),
    HandedOver(TcpListener),
}

impl Reserved {
    /// Reserves an address, or takes the socket of it that another process has handed over.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn new(
        name: &'static str,
        address: SocketAddr,
        inherited: &Sockets,
    ) -> Result<Self, BindError> {
        if let Some(listener) = inherited.take(address) {
            return Ok(Self { name, address, socket: Socket::HandedOver(listener) });
        }
        let refused = |error: Errno| BindError::Refused { name, address, source: error.into() };
        // Who binds without it shares the address with nobody. What a process of before has left open asks for it.
        let socket = bound(address, Reuse::No).or_else(|_| bound(address, Reuse::Yes)).map_err(refused)?;
        let at = getsockname(&socket).map_err(refused)?;
        let at = SocketAddr::try_from(at).map_err(refused)?;
        Ok(Self { name, address: at, socket: Socket::Bound(socket) })
    }

    /// Listens from now on; the socket is kept too.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn listen(self, kept: &Sockets) -> Result<TcpListener, BindError> {
        let Self { name, address, socket } = self;
        let refused = |source| BindError::Refused { name, address, source };
        let listener = match socket {
            Socket::HandedOver(listener) => listener,
            Socket::Bound(socket) => {
                // The next process finds connections of this one on their way out.
                set_socket_reuseaddr(&socket, true)
                    .and_then(|()| listen(&socket, BACKLOG))
                    .map_err(|error| refused(error.into()))?;
                socket.into()
            }
        };
        listener.set_nonblocking(true).map_err(refused)?;
        kept.keep(address, &listener).map_err(refused)?;
        Ok(listener)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    No,
    Yes,
}

fn bound(address: SocketAddr, reuse: Reuse) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, reuse == Reuse::Yes)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Where this machine reaches an address that it listens at.
#[must_use]
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn reserve(address: SocketAddr) -> Result<Reserved, BindError> {
        Reserved::new("listeners", address, &Sockets::default())
    }

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn an_address_in_use_is_refused_by_its_name() {
        let taken = TcpListener::bind(ANY).unwrap();
        let address = taken.local_addr().unwrap();
        let refusal = reserve(address).unwrap_err().to_string();
        assert!(refusal.contains(&address.to_string()) && refusal.contains("listeners"), "{refusal}");
    }

    #[test]
    fn a_reserved_address_is_nobody_elses_and_refuses_visitors_until_it_listens() {
        let reserved = reserve(ANY).unwrap();
        let address = reserved.address;
        assert_ne!(address.port(), 0);
        assert!(TcpListener::bind(address).is_err());
        assert!(TcpStream::connect(address).is_err());
        let kept = Sockets::default();
        let listener = reserved.listen(&kept).unwrap();
        let _visitor = TcpStream::connect(address).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
        assert!(kept.take(address).is_some());
    }

    #[test]
    fn an_address_is_reserved_though_connections_of_the_last_process_are_on_their_way_out() {
        let listener = reserve(ANY).unwrap().listen(&Sockets::default()).unwrap();
        listener.set_nonblocking(false).unwrap();
        let address = listener.local_addr().unwrap();
        let visitor = TcpStream::connect(address).unwrap();
        let (connection, _) = listener.accept().unwrap();
        // Who closes first is the one who waits for what may still come.
        drop((connection, listener));
        drop(visitor);
        reserve(address).unwrap().listen(&Sockets::default()).unwrap();
    }

    #[test]
    fn two_that_ask_for_any_port_get_two() {
        let (one, other) = (reserve(ANY).unwrap(), reserve(ANY).unwrap());
        assert_ne!(one.address, other.address);
    }
}
