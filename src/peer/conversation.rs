//! Frames: a length, then postcard.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::refusals::Refusal;
use crate::model::ids::NodeRun;
use crate::model::numbered::Instance;

/// No frame is longer, in bytes: the live set of the largest event takes some 30 MB.
const LONGEST: u32 = 64 << 20;

/// The longest frame of whoever has not been let in, in bytes.
pub(super) const LONGEST_HELLO: u32 = 1024;

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The connection broke, or the peer closed it.
    #[error("the connection to the other node is lost: {0}")]
    Lost(#[from] io::Error),
    /// A frame that nobody should send.
    #[error(
        "the other node sent a frame of {0} bytes, which is too long; do both run versions that know each other?"
    )]
    TooLong(u32),
    /// A frame that does not say what it should.
    #[error("the other node sent what cannot be read ({0}); do both run versions that know each other?")]
    Garbled(postcard::Error),
    /// A message that does not fit a frame.
    #[error("a message cannot be written ({0})")]
    Unwritable(postcard::Error),
}

impl PeerError {
    /// What the peer is refused for, if it has said what no node says; a connection that is lost is nobody's fault.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::TooLong(_) => Some(Refusal::TooLong),
            Self::Garbled(_) => Some(Refusal::Garbage),
            Self::Lost(_) | Self::Unwritable(_) => None,
        }
    }
}

/// A stream of bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// A connection to a node that is who it says it is.
pub struct Conversation {
    peer: NodeRun,
    instance: Option<Instance>,
    saying: Saying,
    hearing: Hearing,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Conversation {
    pub(super) fn new(peer: NodeRun, saying: Saying, hearing: Hearing) -> Self {
        Self { peer, instance: None, saying, hearing }
    }

    /// The same, with what the caller's certificate tells.
    pub(super) fn with_instance(self, instance: Option<Instance>) -> Self {
        Self { instance, ..self }
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> NodeRun {
        self.peer
    }

    /// The key by which a caller has proved who it is; `None` where this node called, and where there is no TLS.
    #[must_use]
    pub fn instance(&self) -> Option<Instance> {
        self.instance
    }

    /// Says one thing.
    ///
    /// # Errors
    /// When the connection is lost: whether the peer has heard it is not known.
    pub async fn say<T: Serialize>(&mut self, message: &T) -> Result<(), PeerError> {
        self.saying.say(message).await
    }

    /// Waits for one thing to be said. Must be heard to its end: who stops in the middle must hang up.
    ///
    /// # Errors
    /// When the connection is lost, or the message is none.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, PeerError> {
        self.hearing.hear().await
    }

    /// The two directions.
    #[must_use]
    pub fn split(self) -> (Saying, Hearing) {
        (self.saying, self.hearing)
    }
}

/// The way to the peer.
pub struct Saying(WriteHalf<Box<dyn Stream>>);

/// The way from the peer.
pub struct Hearing(ReadHalf<Box<dyn Stream>>);

/// Both directions of a stream.
pub(super) fn halves(stream: Box<dyn Stream>) -> (Saying, Hearing) {
    let (hearing, saying) = tokio::io::split(stream);
    (Saying(saying), Hearing(hearing))
}

impl std::fmt::Debug for Saying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Saying")
    }
}

impl std::fmt::Debug for Hearing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hearing")
    }
}

impl Saying {
    /// See [`Conversation::say`].
    ///
    /// # Errors
    /// As there.
    pub async fn say<T: Serialize>(&mut self, message: &T) -> Result<(), PeerError> {
        let mut frame = postcard::to_extend(message, vec![0; 4]).map_err(PeerError::Unwritable)?;
        let length = u32::try_from(frame.len().saturating_sub(4)).unwrap_or(u32::MAX);
        if length > LONGEST {
            return Err(PeerError::TooLong(length));
        }
        if let Some(head) = frame.first_chunk_mut() {
            *head = length.to_be_bytes();
        }
        self.0.write_all(&frame).await?;
        self.0.flush().await?;
        Ok(())
    }

    /// Says bytes that need not be a message.
    #[cfg(test)]
    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        self.0.write_all(bytes).await?;
        Ok(self.0.flush().await?)
    }
}

impl Hearing {
    /// See [`Conversation::hear`].
    ///
    /// # Errors
    /// As there.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, PeerError> {
        self.hear_at_most(LONGEST).await
    }

    /// As [`Hearing::hear`], but takes no frame that is longer, in bytes.
    ///
    /// # Errors
    /// As there.
    pub async fn hear_at_most<T: DeserializeOwned>(&mut self, longest: u32) -> Result<T, PeerError> {
        let length = self.0.read_u32().await?;
        if length > longest {
            return Err(PeerError::TooLong(length));
        }
        // Grows with what comes, not with what was announced.
        let mut frame = Vec::new();
        (&mut self.0).take(u64::from(length)).read_to_end(&mut frame).await?;
        if frame.len() < usize::try_from(length).unwrap_or(usize::MAX) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match postcard::take_from_bytes(&frame) {
            Ok((message, [])) => Ok(message),
            Ok(_) => Err(PeerError::Garbled(postcard::Error::DeserializeBadEncoding)),
            Err(error) => Err(PeerError::Garbled(error)),
        }
    }
}
