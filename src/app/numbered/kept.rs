//! The file in which an edge that the leader numbers keeps its key and its number: a format byte, then postcard.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::ids::NodeId;
use crate::peer::EdgeKey;
use crate::whole_file;

/// The file's name in the data directory.
const FILE: &str = "number";

/// The format that this version writes and reads.
const FORMAT: u8 = 1;

#[derive(Default, Serialize, Deserialize)]
struct Record {
    key: String,
    /// The number, and the certificates that prove it.
    number: Option<(NodeId, Vec<Vec<u8>>)>,
}

/// What an edge keeps.
#[derive(Debug)]
pub(super) struct Kept {
    key: EdgeKey,
    number: Option<(NodeId, Vec<Vec<u8>>)>,
}

impl Kept {
    /// What is in a data directory; a new key, on disk on return, where there is nothing that can be read. The directory is
    /// made (0700) if missing.
    pub(super) fn load_or_make(data_dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
        match std::fs::read(data_dir.join(FILE)) {
            Ok(bytes) => match decode(&bytes) {
                Some(kept) => return Ok(kept),
                None => tracing::warn!(
                    "{} is damaged or of another version: this edge asks for a new number",
                    data_dir.join(FILE).display()
                ),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let made = Self { key: EdgeKey::make().map_err(io::Error::other)?, number: None };
        made.save(data_dir)?;
        Ok(made)
    }

    /// The number in a data directory, if there is one.
    pub(super) fn look(data_dir: &Path) -> Option<NodeId> {
        let kept = decode(&std::fs::read(data_dir.join(FILE)).ok()?)?;
        kept.number.map(|(node, _)| node)
    }

    pub(super) fn key(&self) -> &EdgeKey {
        &self.key
    }

    /// The number, and the certificates that prove it.
    pub(super) fn number(&self) -> Option<(NodeId, &[Vec<u8>])> {
        self.number.as_ref().map(|(node, chain)| (*node, chain.as_slice()))
    }

    /// Keeps a number, on disk on return.
    pub(super) fn keep(&mut self, data_dir: &Path, node: NodeId, chain: Vec<Vec<u8>>) -> io::Result<()> {
        self.number = Some((node, chain));
        self.save(data_dir)
    }

    fn save(&self, data_dir: &Path) -> io::Result<()> {
        let record = Record { key: self.key.pem(), number: self.number.clone() };
        let bytes = postcard::to_extend(&record, vec![FORMAT]).map_err(io::Error::other)?;
        whole_file::put(data_dir, FILE, |mut file| file.write_all(&bytes))
    }
}

fn decode(bytes: &[u8]) -> Option<Kept> {
    let record = bytes.strip_prefix(&[FORMAT])?;
    let (Record { key, number }, rest) = postcard::take_from_bytes(record).ok()?;
    let key = EdgeKey::from_pem(&key).ok().filter(|_| rest.is_empty())?;
    Some(Kept { key, number })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_and_a_number_are_kept_for_their_owner_alone_and_a_damaged_file_makes_a_new_key() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        let mut made = Kept::load_or_make(&data_dir).unwrap();
        assert_eq!((made.number(), Kept::look(&data_dir)), (None, None));
        let again = Kept::load_or_make(&data_dir).unwrap();
        assert_eq!(again.key.pem(), made.key.pem(), "the key is there before any number");
        let node = NodeId(NonZeroU16::new(10_007).unwrap());
        made.keep(&data_dir, node, vec![vec![1, 2]]).unwrap();
        let again = Kept::load_or_make(&data_dir).unwrap();
        assert_eq!((again.number(), again.key.pem()), (Some((node, &[vec![1, 2]][..])), made.key.pem()));
        assert_eq!(Kept::look(&data_dir), Some(node));
        let file = data_dir.join(FILE);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let mut bytes = std::fs::read(&file).unwrap();
        bytes.truncate(40);
        std::fs::write(&file, bytes).unwrap();
        let new = Kept::load_or_make(&data_dir).unwrap();
        assert!(new.number().is_none() && new.key.pem() != made.key.pem());
    }
}
