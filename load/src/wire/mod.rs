//! A plain HTTP/1.1 client that keeps connections alive, over TCP or TLS.

mod connection;
mod edges;
mod site;

pub use connection::{Answer, Connection, Lost};
pub use edges::{Edges, Roaming};
pub use site::{Site, SiteError};

#[cfg(test)]
mod tests;
