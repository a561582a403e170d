//! The bearer token of the operator's API: in a file, never in a log.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustix::fs::{Access, access};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The shortest token that is accepted, in bytes.
const SHORTEST: usize = 16;

/// The token, as its hash: comparing two hashes in constant time tells nothing of the token, its length included.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(..)")
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum AdminTokenError {
    /// The file cannot be read.
    #[error("the token file {0} cannot be read: {1}")]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// The file cannot be made.
    #[error("the token file {0} does not exist and cannot be made: {1}")]
    Unwritable(PathBuf, #[source] std::io::Error),
    /// What it holds is too short to be a secret.
    #[error("the token in {0} is shorter than 16 characters; delete the file to have one made")]
    TooShort(PathBuf),
}

impl AdminToken {
    /// A token of the operator's choice, if it is at least 16 bytes long; blanks around it do not count.
    #[must_use]
    pub fn new(token: &str) -> Option<Self> {
        let token = token.trim();
        (token.len() >= SHORTEST).then(|| Self(Sha256::digest(token.as_bytes()).into()))
    }

    /// The token in a file; where there is none, a new one is made of `entropy` and written there (mode 0600).
    ///
    /// # Errors
    /// If the file can be neither read nor made, or holds no token.
    pub fn load_or_make(path: &Path, entropy: [u8; 32]) -> Result<Self, AdminTokenError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::new(&text).ok_or_else(|| AdminTokenError::TooShort(path.to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = URL_SAFE_NO_PAD.encode(entropy);
                let mut file = OpenOptions::new();
                let made = file.write(true).create_new(true).mode(0o600).open(path);
                let written = made.and_then(|mut file| writeln!(file, "{text}"));
                written.map_err(|error| AdminTokenError::Unwritable(path.to_owned(), error))?;
                Self::new(&text).ok_or_else(|| AdminTokenError::TooShort(path.to_owned()))
            }
            Err(error) => Err(AdminTokenError::Unreadable(path.to_owned(), error)),
        }
    }

    /// What [`AdminToken::load_or_make`] would refuse once `data_dir` is there; makes nothing.
    ///
    /// # Errors
    /// As of the loading itself.
    pub fn look(path: &Path, data_dir: &Path) -> Result<(), AdminTokenError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::new(&text).map(drop).ok_or_else(|| AdminTokenError::TooShort(path.to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(Path::new(""));
                if data_dir.starts_with(parent) {
                    return Ok(());
                }
                access(parent, Access::WRITE_OK | Access::EXEC_OK)
                    .map_err(|error| AdminTokenError::Unwritable(path.to_owned(), error.into()))
            }
            Err(error) => Err(AdminTokenError::Unreadable(path.to_owned(), error)),
        }
    }

    /// Whether a request shows the token, as `Authorization: Bearer <token>`.
    pub(super) fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let Some(shown) = headers.get(AUTHORIZATION) else { return false };
        let Some((scheme, token)) = shown.as_bytes().split_at_checked(7) else { return false };
        let hash: [u8; 32] = Sha256::digest(token.trim_ascii()).into();
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(hash.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn shown(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_token_is_made_once_and_only_its_owner_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.token");
        let made = AdminToken::load_or_make(&path, [7; 32]).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(AdminToken::load_or_make(&path, [8; 32]).unwrap(), made);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(made.is_shown_by(&shown(&format!("Bearer {}", text.trim()))));
        assert!(!format!("{made:?}").contains(text.trim()));
    }

    #[test]
    fn only_the_token_is_the_token() {
        let token = AdminToken::new("0123456789abcdef\n").unwrap();
        assert!(token.is_shown_by(&shown("bearer 0123456789abcdef")));
        for other in
            ["0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcdeF", "Bearer", "Bearer "]
        {
            assert!(!token.is_shown_by(&shown(other)), "{other}");
        }
        assert!(!token.is_shown_by(&HeaderMap::new()));
        assert!(AdminToken::new("short").is_none());
    }
}
