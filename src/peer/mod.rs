//! The port between nodes: one TLS port on which only nodes of this fleet talk, one purpose to a connection.
//!
//! Frames of postcard over TLS 1.3 with certificates on both sides. The certificate says which node talks; what it says
//! of itself is checked against that before anything else is read. A simulation has streams in memory in place of TLS
//! over TCP ([`Way`]), and everything else as it is.

mod conversation;
mod dial;
mod examine;
mod hello;
mod identity;
mod issue;
mod numbering;
mod port;
mod refusals;

pub use conversation::{Conversation, Hearing, PeerError, Saying, Stream};
pub use dial::{Address, DialError, Dialer, Way};
pub use examine::{IdentityError, IdentityFiles, IdentityPart};
pub use hello::Purpose;
pub use identity::Identity;
pub use issue::{IssueError, Issued, issue_ca, issue_node, issue_numbering, issue_unnumbered, node_name};
pub use numbering::{Applicant, EdgeKey, Given, NoNumber, Numbering, NumberingError, Unnumbered};
pub use port::{Arrived, Port, Reception, Usher};
pub use refusals::{Refusal, Refusals};

#[cfg(test)]
mod tests;
