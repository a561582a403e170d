//! Files that are there whole or not at all, for their owner's eyes only.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a file (0600) of what `write` puts into it, and only then gives it its name in the directory, in the place of what
/// has that name; on disk on return.
///
/// # Errors
/// When the system refuses or `write` fails; what had the name before has it still.
pub fn put(directory: &Path, name: &str, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let unfinished = directory.join(format!("{name}.new"));
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&unfinished)?;
    write(file)?;
    File::open(&unfinished)?.sync_all()?;
    std::fs::rename(&unfinished, directory.join(name))?;
    // The file's own sync does not cover its name.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_takes_the_place_of_the_one_before_once_it_is_whole_and_not_if_it_fails() {
        let dir = tempfile::tempdir().unwrap();
        let read = || std::fs::read(dir.path().join("kept")).unwrap();
        std::fs::write(dir.path().join("kept.new"), "a start that was cut short").unwrap();
        put(dir.path(), "kept", |mut file| file.write_all(b"one")).unwrap();
        assert_eq!(read(), b"one");
        let failed = put(dir.path(), "kept", |mut file| {
            file.write_all(b"t")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(read(), b"one");
        put(dir.path(), "kept", |mut file| file.write_all(b"two")).unwrap();
        assert_eq!(read(), b"two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
