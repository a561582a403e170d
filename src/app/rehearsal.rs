//! What a start would meet beyond its configuration file: its data directory, its control log, its token.

use std::path::Path;

use super::node::check;
use super::numbered::Numbered;
use crate::admin::AdminToken;
use crate::config::{Faults, Settings};
use crate::control::{OpenControl, OpenError};
use crate::model::policy::Fault;

/// Does everything that a start does with a configuration file and what it finds beside it, but makes, writes, locks and
/// binds nothing.
///
/// # Errors
/// Every fault.
pub fn rehearse(file: &Path) -> Result<Settings, Faults> {
    let settings = check(file)?;
    let node = &settings.node;
    let look = |number| OpenControl::look(&node.data_dir, number).err();
    let log = Numbered::last(&settings).and_then(look).map(|error| {
        let path = if matches!(error, OpenError::OtherNode { .. }) { "node.id" } else { "node.data_dir" };
        Fault { path: path.to_owned(), problem: error.to_string() }
    });
    let token = AdminToken::look(&settings.admin.token_file, &node.data_dir)
        .err()
        .map(|error| Fault { path: "admin.token_file".to_owned(), problem: error.to_string() });
    let faults: Vec<_> = log.into_iter().chain(token).collect();
    if faults.is_empty() { Ok(settings) } else { Err(Faults::around(file, faults)) }
}
