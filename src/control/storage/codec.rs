//! How a record looks in the file: one format byte, then postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The format of every record; a record of another one is refused.
const FORMAT: u8 = 4;

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CodecError {
    /// Another format.
    #[error("a record has format {0}, this version reads format {FORMAT}")]
    Format(u8),
    /// No bytes at all.
    #[error("a record is empty")]
    Empty,
    /// The bytes do not spell the record.
    #[error("a record cannot be read: {0}")]
    Damaged(postcard::Error),
    /// The value does not fit a record.
    #[error("a record cannot be made: {0}")]
    Unwritable(postcard::Error),
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    postcard::to_extend(value, vec![FORMAT]).map_err(CodecError::Unwritable)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match bytes {
        [] => Err(CodecError::Empty),
        [FORMAT, record @ ..] => match postcard::take_from_bytes(record) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(CodecError::Damaged(postcard::Error::DeserializeUnexpectedEnd)),
            Err(error) => Err(CodecError::Damaged(error)),
        },
        [format, ..] => Err(CodecError::Format(*format)),
    }
}
