//! A node's disk: what was synced outlives the node, the rest may be lost or torn.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use rand::rngs::SmallRng;
use redb::StorageBackend;

use super::platter::Platter;

/// Syncs that a disk that lies takes back.
const TAKEN_BACK: usize = 12;

/// Whether the disk does what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Honesty {
    Honest,
    /// What was synced lately is not there after the node ended.
    Forgets,
}

#[derive(Debug)]
struct Drive {
    platter: Platter,
    honesty: Honesty,
    earlier: VecDeque<Vec<u8>>,
    /// Counts the lives of the node: what an earlier one still has open writes nothing.
    life: u64,
    /// Who has the log open holds this, as the lock beside the file.
    lock: Weak<()>,
}

/// A disk; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<Drive>>);

impl Disk {
    pub(crate) fn new(honesty: Honesty) -> Self {
        Self(Arc::new(Mutex::new(Drive {
            platter: Platter::default(),
            honesty,
            earlier: VecDeque::new(),
            life: 0,
            lock: Weak::new(),
        })))
    }

    /// The disk as the node that runs now sees it; it answers nothing while the node has it open already.
    pub(crate) fn open(&self) -> Opened {
        let mut drive = self.0.lock().unwrap();
        let lock = Arc::new(());
        let is_free = drive.lock.strong_count() == 0;
        if is_free {
            drive.lock = Arc::downgrade(&lock);
        }
        Opened { disk: self.clone(), life: is_free.then_some(drive.life), _lock: lock }
    }

    /// The node ends at once.
    pub(crate) fn end_life(&self, dice: &mut SmallRng) {
        let mut drive = self.0.lock().unwrap();
        drive.life += 1;
        drive.lock = Weak::new();
        let image = match drive.earlier.pop_front() {
            Some(earlier) => earlier,
            None => drive.platter.after_the_cut(dice),
        };
        drive.earlier.clear();
        drive.platter = Platter::holding(image);
    }

    /// A new disk takes the place of this one.
    pub(crate) fn wipe(&self) {
        let mut drive = self.0.lock().unwrap();
        drive.life += 1;
        drive.lock = Weak::new();
        drive.platter = Platter::default();
        drive.earlier.clear();
    }
}

/// The disk in one life of the node.
#[derive(Debug)]
pub(crate) struct Opened {
    disk: Disk,
    /// `None`: somebody else has it.
    life: Option<u64>,
    _lock: Arc<()>,
}

impl Opened {
    fn with<T>(&self, work: impl FnOnce(&mut Drive) -> T) -> io::Result<T> {
        let mut drive = self.disk.0.lock().unwrap();
        if Some(drive.life) != self.life {
            return Err(io::Error::other("the node has ended, or has its log open already"));
        }
        Ok(work(&mut drive))
    }
}

impl StorageBackend for Opened {
    fn len(&self) -> io::Result<u64> {
        self.with(|drive| drive.platter.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|drive| drive.platter.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|drive| drive.platter.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|drive| {
            if drive.honesty == Honesty::Forgets {
                drive.earlier.push_back(drive.platter.durable().to_vec());
                if drive.earlier.len() > TAKEN_BACK {
                    drive.earlier.pop_front();
                }
            }
            drive.platter.sync();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|drive| drive.platter.write(offset, data))
    }
}
