//! A disk in memory that can lose power: what was synced stays, of the rest every sector is the old or the new one.

use rand::RngExt;

/// What a sector holds: a torn write loses some of them.
const SECTOR: usize = 512;

/// What a disk holds, for certain and as it is shown.
#[derive(Debug, Default)]
pub(crate) struct Platter {
    durable: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<(usize, usize)>,
}

impl Platter {
    /// A disk with this on it, all of it synced.
    pub(crate) fn holding(image: Vec<u8>) -> Self {
        Self { current: image.clone(), durable: image, unsynced: Vec::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.current.len() as u64
    }

    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let from = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.current[from..from + out.len()]);
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let from = usize::try_from(offset).unwrap();
        self.current[from..from + bytes.len()].copy_from_slice(bytes);
        self.unsynced.push((from, from + bytes.len()));
    }

    /// What it grows by is zeros, also where something else stood before it shrank.
    pub(crate) fn set_len(&mut self, len: u64) {
        let (before, len) = (self.current.len(), usize::try_from(len).unwrap());
        self.current.resize(len, 0);
        if len > before {
            self.unsynced.push((before, len));
        }
    }

    pub(crate) fn sync(&mut self) {
        self.durable.resize(self.current.len(), 0);
        for (from, to) in std::mem::take(&mut self.unsynced) {
            let to = to.min(self.current.len());
            if from < to {
                self.durable[from..to].copy_from_slice(&self.current[from..to]);
            }
        }
    }

    /// What is there for certain.
    pub(crate) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// What is found after the power went.
    pub(crate) fn after_the_cut(&self, dice: &mut impl RngExt) -> Vec<u8> {
        let mut image = self.durable.clone();
        if self.current.len() > image.len() && dice.random_bool(0.5) {
            image.resize(self.current.len(), 0);
        }
        for &(from, to) in &self.unsynced {
            for start in (from..to).step_by(SECTOR) {
                let end = (start + SECTOR).min(to).min(image.len()).min(self.current.len());
                if start < end && dice.random_bool(0.5) {
                    image[start..end].copy_from_slice(&self.current[start..end]);
                }
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_beyond_the_end_is_gone_when_the_disk_grows_again() {
        let mut platter = Platter::holding(vec![7; 1024]);
        platter.set_len(100);
        platter.set_len(1024);
        platter.sync();
        assert_eq!(platter.durable(), [vec![7; 100], vec![0; 924]].concat());
        assert_eq!((platter.len(), platter.durable()), (1024, platter.current.as_slice()));
    }
}
