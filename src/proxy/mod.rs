//! Pingora's hooks.
