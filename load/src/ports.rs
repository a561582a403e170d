//! Ports for programs that are started later.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

/// Below those that systems give to connections by themselves, from 32768 on: one of those may be taken at any moment.
const PORTS: RangeInclusive<u16> = 15_000..=32_000;

/// Whoever holds the UDP port of the same number has claimed a port.
static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// An address of this machine that is free, and that nobody who asks here is given before this process ends.
///
/// # Errors
/// When no port is free.
pub fn free() -> io::Result<SocketAddr> {
    for port in PORTS {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let Ok(claim) = UdpSocket::bind(address) else { continue };
        if TcpListener::bind(address).is_ok() {
            CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return Ok(address);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no port is free"))
}
