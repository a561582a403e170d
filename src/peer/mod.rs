//! The mTLS port between nodes.

mod issue;

pub use issue::{IssueError, Issued, issue_ca, issue_node, node_name};
