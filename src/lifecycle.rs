//! Where in its life the process is; readiness is read from it.

use std::sync::atomic::{AtomicU8, Ordering};

/// A stage in the life of the process; they follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LifeStage {
    /// Not everything listens yet.
    Starting,
    /// Serves.
    Serving,
    /// On its way out: serves who is here, and wants nobody new.
    Draining,
}

/// The stage that the process has reached, shared by everything that tells or asks it.
#[derive(Debug, Default)]
pub struct Lifecycle(AtomicU8);

impl Lifecycle {
    /// The stage now.
    #[must_use]
    pub fn stage(&self) -> LifeStage {
        match self.0.load(Ordering::Acquire) {
            0 => LifeStage::Starting,
            1 => LifeStage::Serving,
            _ => LifeStage::Draining,
        }
    }

    /// Everything listens.
    pub fn serve(&self) {
        self.reach(LifeStage::Serving);
    }

    /// The process is to end.
    pub fn drain(&self) {
        self.reach(LifeStage::Draining);
    }

    fn reach(&self, stage: LifeStage) {
        self.0.fetch_max(stage as u8, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_never_goes_back() {
        let life = Lifecycle::default();
        assert_eq!(life.stage(), LifeStage::Starting);
        life.serve();
        assert_eq!(life.stage(), LifeStage::Serving);
        life.drain();
        life.serve();
        assert_eq!(life.stage(), LifeStage::Draining);
    }
}
