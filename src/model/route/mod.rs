//! Which event a request belongs to (design §6).
//!
//! A path can be read in more than one way: some origins merge `//` or take it for the beginning of a host, take `\`
//! or `%2f` for `/`, or cut `;parameters` off. [`NormalPath`] holds every reading; dot segments are refused. An event guards a request if it guards *any* reading of it, a bypass rule
//! holds only if it holds for *every* one, and what two events would both guard is refused.

mod host;
mod path;
mod table;
#[cfg(test)]
mod tests;

pub use host::normalise_host;
pub use path::{NormalPath, normalise};
pub use table::{RouteTable, covers, is_same_route};

/// Why a request is refused (400) before anything is asked about its visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The path does not begin with `/`, or contains `#` or a control character.
    #[error(
        "the request path is not well formed; ask for an absolute path without '#' or control characters"
    )]
    NotAPath,
    /// The path is longer than 8 KiB.
    #[error("the request path is longer than 8 KiB; shorten it")]
    TooLong,
    /// A `%` that two hexadecimal digits do not follow, or that hides a second encoding of a dot or slash.
    #[error("the request path is not percent-encoded properly; encode it once")]
    BadEscape,
    /// A segment is `.` or `..`, plainly or in disguise.
    #[error("the request path contains '.' or '..'; ask for the path that they lead to")]
    DotSegment,
    /// Different servers would read the path differently, and two events would each guard one reading.
    #[error(
        "the request path can be read in two ways that belong to two events; leave out '//', ';', '\\' and '%2f'"
    )]
    Ambiguous,
    /// The host is no host.
    #[error("the Host header is not well formed; send a name or address and at most a port")]
    NotAHost,
}
