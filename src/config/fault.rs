//! What is wrong with a configuration file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::position;
use crate::model::policy;

/// A place in the text of the file, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One fault of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The path of the key, as `events[0].match[1].host`; empty if the text is no YAML.
    pub path: String,
    /// What is wrong and what to write instead.
    pub problem: String,
    /// Where the key, or the nearest one above it, stands.
    #[serde(flatten)]
    pub position: Option<Position>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.path, self.problem)
    }
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

    /// The faults, in the order of the text.
    #[must_use]
    pub fn into_vec(self) -> Vec<Fault> {
        self.faults
    }

    /// Faults that show only beside the file, in the file's surroundings.
    #[must_use]
    pub fn around(file: &Path, faults: Vec<policy::Fault>) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        Self::located(faults, &text).in_file(file)
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
                let space = if fault.position.is_some() { "" } else { " " };
                write!(f, "{}:{space}", file.display())?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}
