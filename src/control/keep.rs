//! The file in which a node of a fleet keeps what it heard last: a format byte, a digest, then postcard.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::desk::{Desk, Keepsake};
use crate::model::ids::{LedgerEpoch, NodeId};
use crate::whole_file;

/// The file's name in the data directory.
const FILE: &str = "heard";

/// The format that this version writes and reads.
const FORMAT: u8 = 1;

/// How long a digest is, in bytes.
const DIGEST: usize = 32;

/// The file is written no oftener.
const GAP: Duration = Duration::from_secs(1);

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it is damaged")]
    Damaged,
    #[error("it has format {0}, this version reads format {FORMAT}")]
    Format(u8),
    #[error("it is of node {0}")]
    OtherNode(NodeId),
    #[error("it is of another ledger than the control log beside it")]
    OtherLedger,
}

/// What `node` kept in its data directory; says in one line why a file is not used. `ledger` is that of the control
/// log beside it, where there is one.
pub(super) fn load(data_dir: &Path, node: NodeId, ledger: Option<LedgerEpoch>) -> Option<Keepsake> {
    let path = data_dir.join(FILE);
    match read(&path, node, ledger) {
        Ok(kept) => kept,
        Err(why) => {
            tracing::warn!(
                "{} is not used: {why}; it is written anew when the leader is heard",
                path.display()
            );
            None
        }
    }
}

fn read(path: &Path, node: NodeId, ledger: Option<LedgerEpoch>) -> Result<Option<Keepsake>, Unusable> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let kept = decode(&bytes)?;
    if kept.node != node {
        return Err(Unusable::OtherNode(kept.node));
    }
    if ledger.is_some_and(|ledger| ledger != kept.ledger) {
        return Err(Unusable::OtherLedger);
    }
    Ok(Some(kept))
}

fn decode(bytes: &[u8]) -> Result<Keepsake, Unusable> {
    let (format, rest) = bytes.split_first().ok_or(Unusable::Damaged)?;
    if *format != FORMAT {
        return Err(Unusable::Format(*format));
    }
    let (digest, record) = rest.split_at_checked(DIGEST).ok_or(Unusable::Damaged)?;
    if digest != Sha256::digest(record).as_slice() {
        return Err(Unusable::Damaged);
    }
    match postcard::take_from_bytes(record) {
        Ok((kept, [])) => Ok(kept),
        Ok(_) | Err(_) => Err(Unusable::Damaged),
    }
}

fn encode(kept: &Keepsake) -> io::Result<Vec<u8>> {
    let record = postcard::to_stdvec(kept).map_err(io::Error::other)?;
    let digest = Sha256::digest(&record);
    Ok([&[FORMAT], digest.as_slice(), record.as_slice()].concat())
}

fn save(data_dir: &Path, kept: &Keepsake) -> io::Result<()> {
    let bytes = encode(kept)?;
    whole_file::put(data_dir, FILE, |mut file| file.write_all(&bytes))
}

/// Keeps the file as new as what the desk hears, for as long as the node runs. `kept` is what the file holds.
pub(super) async fn keep_in_file(desk: Arc<Desk>, data_dir: PathBuf, kept: Option<Keepsake>) {
    let in_file = |new: Keepsake| {
        let directory = data_dir.clone();
        async move {
            let saved = tokio::task::spawn_blocking(move || {
                let told = |error| io::Error::other(format!("{}: {error}", directory.display()));
                save(&directory, &new).map_err(told)
            });
            saved.await.unwrap_or_else(|error| Err(io::Error::other(error)))
        }
    };
    keep_up(desk, kept, in_file).await;
}

/// Saves what the desk hears whenever it is news, for as long as the node runs. `kept` is what is saved already.
pub(super) async fn keep_up<F>(desk: Arc<Desk>, mut kept: Option<Keepsake>, save: impl Fn(Keepsake) -> F)
where
    F: Future<Output = io::Result<()>>,
{
    let mut pulses = desk.pulses();
    let mut said = false;
    while pulses.changed().await.is_ok() {
        let Some(now) = desk.keepsake() else { continue };
        if kept.as_ref().is_none_or(|kept| now.is_news_to(kept)) {
            match save(now.clone()).await {
                Ok(()) => (kept, said) = (Some(now), false),
                Err(error) if !said => {
                    tracing::error!(
                        "what the leader says cannot be kept ({error}): without a controller this node would not start; \
                         trying again"
                    );
                    said = true;
                }
                Err(_) => {}
            }
        }
        tokio::time::sleep(GAP).await;
    }
}

#[cfg(test)]
mod tests;
