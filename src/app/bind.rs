//! Addresses: tried before anything starts, since Pingora binds late and tells nobody when it fails.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

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

/// Listens at an address.
///
/// # Errors
/// When the system refuses.
pub(super) fn bind(name: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    let refused = |source| BindError::Refused { name, address, source };
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

/// Listens at an address: at the socket of it that another process has handed over, if there is one. The socket that is
/// used is kept too.
///
/// # Errors
/// When the system refuses.
pub(super) fn listen(
    name: &'static str,
    address: SocketAddr,
    inherited: &Sockets,
    kept: &Sockets,
) -> Result<TcpListener, BindError> {
    let refused = |source| BindError::Refused { name, address, source };
    let listener = match inherited.take(address) {
        Some(inherited) => inherited,
        None => bind(name, address)?,
    };
    listener.set_nonblocking(true).map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    kept.keep(at, &listener).map_err(refused)?;
    Ok(listener)
}

/// Tries all addresses of visitors together, but those whose sockets were handed over, and fills in a port where 0 asks
/// for any.
///
/// # Errors
/// At the first address that the system refuses.
pub(super) fn try_listeners(
    addresses: &[SocketAddr],
    inherited: &Sockets,
) -> Result<Vec<SocketAddr>, BindError> {
    let name = "listeners";
    let try_one = |address: &SocketAddr| {
        let bound = if inherited.has(*address) { None } else { Some(bind(name, *address)?) };
        Ok((*address, bound))
    };
    let bound = addresses.iter().map(try_one).collect::<Result<Vec<_>, BindError>>()?;
    let actual = bound.iter().map(|(address, listener)| match listener {
        None => Ok(*address),
        Some(listener) => {
            listener.local_addr().map_err(|source| BindError::Refused { name, address: *address, source })
        }
    });
    actual.collect()
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
    use super::*;

    #[test]
    fn an_address_in_use_is_refused_by_its_name() {
        let taken = bind("admin.address", ([127, 0, 0, 1], 0).into()).unwrap();
        let address = taken.local_addr().unwrap();
        let refusal = try_listeners(&[address], &Sockets::default()).unwrap_err().to_string();
        assert!(refusal.contains(&address.to_string()) && refusal.contains("listeners"), "{refusal}");
    }

    #[test]
    fn port_zero_becomes_a_port_that_is_free() {
        let any = ([127, 0, 0, 1], 0).into();
        let actual = try_listeners(&[any, any], &Sockets::default()).unwrap();
        assert_ne!(actual[0], actual[1]);
        assert!(actual.iter().all(|address| address.port() != 0));
    }
}
