//! A disk of a few megabytes: a file system in memory, mounted where only a process of its own and its nodes see it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Bytes that the disk holds.
const SIZE: u32 = 4 << 20;

/// The disk; it is gone when this is dropped.
pub(crate) struct Disk {
    /// Holds the mount, until its input ends.
    holder: Child,
    namespaces: &'static [&'static str],
    at: PathBuf,
}

impl Disk {
    /// Mounts it at a directory, which is made. As root, or else as whom the system lets be root in a name space.
    pub(crate) fn mount(at: &Path) -> Self {
        std::fs::create_dir(at).unwrap();
        let ways: [(&[&str], &'static [&'static str]); 2] = [
            (&["--mount"], &["--mount"]),
            (&["--user", "--map-root-user", "--mount"], &["--user", "--mount"]),
        ];
        let mut refused = String::new();
        for (unshare, namespaces) in ways {
            let script =
                format!("mount -t tmpfs -o size={SIZE},mode=0700 tmpfs \"$0\" && echo mounted && exec cat");
            let mut command = Command::new("unshare");
            command.args(unshare).args(["sh", "-c", &script]).arg(at);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut holder = command.spawn().unwrap_or_else(|error| panic!("unshare (util-linux): {error}"));
            let mut told = String::new();
            BufReader::new(holder.stdout.take().unwrap()).read_line(&mut told).unwrap();
            if told == "mounted\n" {
                return Self { holder, namespaces, at: at.to_owned() };
            }
            let output = holder.wait_with_output().unwrap();
            refused += &String::from_utf8_lossy(&output.stderr);
        }
        panic!(
            "this test mounts a small file system in a name space of its own, which was refused: {refused}"
        );
    }

    /// Runs a command where the disk is seen.
    pub(crate) fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg("--target").arg(self.holder.id().to_string()).args(self.namespaces);
        if self.namespaces.contains(&"--user") {
            inside.arg("--preserve-credentials");
        }
        inside.arg("--").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// The path of a file on the disk, as it is seen from outside.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.at.strip_prefix("/").unwrap()).join(name)
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) {
        let mut filler =
            std::fs::File::options().create(true).append(true).open(self.path("filler")).unwrap();
        for size in [64 << 10, 1 << 10, 1] {
            let chunk = vec![1; size];
            while filler.write_all(&chunk).is_ok() {}
        }
    }

    /// Makes room again.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
