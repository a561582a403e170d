//! A node's disk: what was synced outlives the node, the rest may be lost or torn.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use rand::RngExt;
use rand::rngs::SmallRng;
use redb::StorageBackend;

/// What a sector holds: a torn write loses some of them.
const SECTOR: usize = 512;

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
struct Platter {
    durable: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<(usize, usize)>,
    honesty: Honesty,
    earlier: VecDeque<Vec<u8>>,
    /// Counts the lives of the node: what an earlier one still has open writes nothing.
    life: u64,
    /// Who has the log open holds this, as the lock beside the file.
    lock: Weak<()>,
}

/// A disk; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<Platter>>);

impl Disk {
    pub(crate) fn new(honesty: Honesty) -> Self {
        Self(Arc::new(Mutex::new(Platter {
            durable: Vec::new(),
            current: Vec::new(),
            unsynced: Vec::new(),
            honesty,
            earlier: VecDeque::new(),
            life: 0,
            lock: Weak::new(),
        })))
    }

    /// The disk as the node that runs now sees it; it answers nothing while the node has it open already.
    pub(crate) fn open(&self) -> Opened {
        let mut platter = self.0.lock().unwrap();
        let lock = Arc::new(());
        let is_free = platter.lock.strong_count() == 0;
        if is_free {
            platter.lock = Arc::downgrade(&lock);
        }
        Opened { disk: self.clone(), life: is_free.then_some(platter.life), _lock: lock }
    }

    /// The node ends at once: of what was not synced every sector is the old or the new one.
    pub(crate) fn end_life(&self, dice: &mut SmallRng) {
        let mut platter = self.0.lock().unwrap();
        platter.life += 1;
        platter.lock = Weak::new();
        if platter.honesty == Honesty::Forgets
            && let Some(earlier) = platter.earlier.pop_front()
        {
            platter.earlier.clear();
            platter.durable = earlier;
            platter.unsynced.clear();
        }
        let mut image = std::mem::take(&mut platter.durable);
        if platter.current.len() > image.len() && !platter.unsynced.is_empty() && dice.random_bool(0.5) {
            image.resize(platter.current.len(), 0);
        }
        for &(from, to) in &platter.unsynced {
            for start in (from..to).step_by(SECTOR) {
                let end = (start + SECTOR).min(to).min(image.len()).min(platter.current.len());
                if start < end && dice.random_bool(0.5) {
                    image[start..end].copy_from_slice(&platter.current[start..end]);
                }
            }
        }
        platter.unsynced.clear();
        platter.current.clone_from(&image);
        platter.durable = image;
    }

    /// A new disk takes the place of this one.
    pub(crate) fn wipe(&self) {
        let mut platter = self.0.lock().unwrap();
        platter.life += 1;
        platter.lock = Weak::new();
        (platter.durable, platter.current) = (Vec::new(), Vec::new());
        platter.unsynced.clear();
        platter.earlier.clear();
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
    fn with<T>(&self, work: impl FnOnce(&mut Platter) -> T) -> io::Result<T> {
        let mut platter = self.disk.0.lock().unwrap();
        if Some(platter.life) != self.life {
            return Err(io::Error::other("the node has ended, or has its log open already"));
        }
        Ok(work(&mut platter))
    }
}

impl StorageBackend for Opened {
    fn len(&self) -> io::Result<u64> {
        self.with(|platter| platter.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|platter| {
            let from = usize::try_from(offset).unwrap();
            out.copy_from_slice(&platter.current[from..from + out.len()]);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|platter| platter.current.resize(usize::try_from(len).unwrap(), 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|platter| {
            if platter.honesty == Honesty::Forgets {
                platter.earlier.push_back(platter.durable.clone());
                if platter.earlier.len() > TAKEN_BACK {
                    platter.earlier.pop_front();
                }
            }
            platter.durable.resize(platter.current.len(), 0);
            for (from, to) in std::mem::take(&mut platter.unsynced) {
                let to = to.min(platter.current.len());
                if from < to {
                    platter.durable[from..to].copy_from_slice(&platter.current[from..to]);
                }
            }
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|platter| {
            let from = usize::try_from(offset).unwrap();
            platter.current[from..from + data.len()].copy_from_slice(data);
            platter.unsynced.push((from, from + data.len()));
        })
    }
}
