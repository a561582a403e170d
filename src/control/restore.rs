//! Making a fleet out of one controller, once more than half of them are lost for good.

use std::collections::BTreeSet;
use std::path::Path;

use super::storage::{RestoreError, Storage};
use crate::model::ids::{LogIndex, NodeId};

/// Makes a node the only controller of everything that its log holds; no node may run on `data_dir` meanwhile. `lost`
/// are all other voters. Gives the number of the last entry.
///
/// # Errors
/// See [`RestoreError`]; the log is left as it was.
pub fn restore(data_dir: &Path, node: NodeId, lost: &BTreeSet<NodeId>) -> Result<LogIndex, RestoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| RestoreError::Failed(error.to_string()))?;
    if !Storage::is_in(data_dir) {
        return Err(RestoreError::Empty);
    }
    let storage = Storage::open(data_dir)?;
    runtime.block_on(storage.restore(node, lost))
}
