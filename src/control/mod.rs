//! The control log: openraft over one redb file, and the loop that leads.

mod storage;

pub use storage::OpenError;
