//! How many files this process may open: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer a rush is refused at the door: two files for a visitor who is inside, one for one who waits.
const ENOUGH: u64 = 10_000;

/// Raises the limit as far as the system allows, and warns if that is not far.
pub(super) fn allow_many() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    match limit {
        Some(limit) if limit < ENOUGH => tracing::warn!(
            limit,
            "this process may open few files, and every connection is one; raise the hard limit (ulimit -Hn, \
             LimitNOFILE=)"
        ),
        limit => tracing::debug!(limit, "files that this process may open"),
    }
}
