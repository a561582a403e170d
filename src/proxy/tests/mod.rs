//! The gate behind real sockets: a scripted desk, an origin that keeps what it was sent, and clients of bare bytes.

mod exceptions;
mod house;
mod languages;
mod limits;
mod protected;
mod room;

use house::{House, Reply, Script, pass, waiting};

/// A script whose event has these fields changed.
fn with_fields(change: serde_json::Value) -> Script {
    let mut script = Script::default();
    for (name, value) in change.as_object().unwrap() {
        script.fields[name] = value.clone();
    }
    script
}

/// Whether a reply sets no cookie.
fn cookieless(reply: &Reply) -> bool {
    reply.header("set-cookie").is_none()
}
