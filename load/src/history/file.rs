//! Writing and reading histories.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::Record;

/// Why a history could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be opened, read or written.
    #[error("history {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is no record.
    #[error(
        "history {path}, line {line}: {source}; a history is one JSON record per line, as `rush` writes it"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Takes records from any number of visitors and writes them on a thread of its own.
#[derive(Clone, Debug)]
pub struct Recorder {
    records: Sender<Record>,
}

impl Recorder {
    /// Starts writing to `path`; the thread ends when the last recorder is gone, and returns how many it wrote.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> Result<(Self, JoinHandle<std::io::Result<u64>>), HistoryError> {
        let file =
            File::create(path).map_err(|source| HistoryError::File { path: path.to_owned(), source })?;
        let (records, taken) = channel();
        let thread = std::thread::spawn(move || write_all(file, &taken));
        Ok((Self { records }, thread))
    }

    /// Records it. A full disk shows when the thread is joined.
    pub fn take(&self, record: Record) {
        let _ = self.records.send(record);
    }
}

fn write_all(file: File, taken: &Receiver<Record>) -> std::io::Result<u64> {
    let mut out = BufWriter::new(file);
    let mut written = 0;
    while let Ok(record) = taken.recv() {
        serde_json::to_writer(&mut out, &record)?;
        out.write_all(b"\n")?;
        written += 1;
    }
    out.flush()?;
    Ok(written)
}

/// Reads one history. A last line that was cut off by a crash is left out.
///
/// # Errors
/// When the file cannot be read, or a line that is not the last is no record.
pub fn read(path: &Path) -> Result<Vec<Record>, HistoryError> {
    let in_file = |source| HistoryError::File { path: path.to_owned(), source };
    let lines = BufReader::new(File::open(path).map_err(in_file)?).lines();
    let mut records = Vec::new();
    let mut broken = None;
    for (at, line) in lines.enumerate() {
        let line = line.map_err(in_file)?;
        if let Some(error) = broken.take() {
            return Err(error);
        }
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(record) => records.push(record),
            Err(source) if source.is_eof() => {
                broken = Some(HistoryError::Line { path: path.to_owned(), line: at + 1, source });
            }
            Err(source) => {
                return Err(HistoryError::Line { path: path.to_owned(), line: at + 1, source });
            }
        }
    }
    Ok(records)
}

/// Reads several histories of one run into one, in the order of sending.
///
/// # Errors
/// As [`read`].
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Record>, HistoryError> {
    let mut records = Vec::new();
    for path in paths {
        records.extend(read(path)?);
    }
    records.sort_by_key(|record: &Record| (record.t_sent_us, record.t_answered_us));
    Ok(records)
}
