//! The operator's API.
