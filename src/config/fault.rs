//! What is wrong with a configuration file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use super::position;
use crate::model::policy;

/// A place in the text of the file, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One fault of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the key, as `events[0].match[1].host`; empty if the text is no YAML.
    pub path: String,
    /// What is wrong and what to write instead.
    pub problem: String,
    /// Where the key, or the nearest one above it, stands.
    pub position: Option<Position>,
}

/// All faults of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    file: Option<PathBuf>,
    faults: Vec<Fault>,
}

impl Faults {
    /// The faults, in the order of the text.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.faults
    }

    pub(super) fn in_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    pub(super) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        let problem = format!("cannot be read: {error}");
        Self {
            file: Some(file.to_owned()),
            faults: vec![Fault { path: String::new(), problem, position: None }],
        }
    }

    pub(super) fn malformed(problem: String, position: Option<Position>) -> Self {
        Self { file: None, faults: vec![Fault { path: String::new(), problem, position }] }
    }

    /// Finds where in `text` each fault stands.
    pub(super) fn located(faults: Vec<policy::Fault>, text: &str) -> Self {
        let locate = |fault: policy::Fault| {
            let position = position::find(text, &fault.path);
            Fault { path: fault.path, problem: fault.problem, position }
        };
        let mut faults: Vec<_> = faults.into_iter().map(locate).collect();
        faults.sort_by_key(|fault| fault.position.map(|position| (position.line, position.column)));
        Self { file: None, faults }
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            if let Some(file) = &self.file {
                write!(f, "{}:", file.display())?;
            }
            if let Some(Position { line, column }) = fault.position {
                write!(f, "{line}:{column}:")?;
            }
            let space = if self.file.is_some() || fault.position.is_some() { " " } else { "" };
            let colon = if fault.path.is_empty() { "" } else { ": " };
            write!(f, "{space}{}{colon}{}", fault.path, fault.problem)?;
        }
        Ok(())
    }
}
