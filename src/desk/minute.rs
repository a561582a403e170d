//! Counts of the last minute.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::time::BootTime;

const MINUTE: Duration = Duration::from_secs(60);

/// How often something happened in the last minute, second by second.
#[derive(Clone, Debug, Default)]
pub(super) struct Minute {
    seconds: VecDeque<(BootTime, u32)>,
}

impl Minute {
    /// It happened.
    pub(super) fn note(&mut self, now: BootTime) {
        self.forget(now);
        match self.seconds.back_mut() {
            Some((second, count)) if now.since(*second) < Duration::from_secs(1) => *count += 1,
            _ => self.seconds.push_back((now, 1)),
        }
    }

    /// How often in the last minute.
    pub(super) fn count(&mut self, now: BootTime) -> u32 {
        self.forget(now);
        self.seconds.iter().map(|(_, count)| count).sum()
    }

    /// How often a second, over the last ten.
    pub(super) fn recent_rate(&mut self, now: BootTime) -> f32 {
        self.forget(now);
        let window = Duration::from_secs(10);
        let recent = self.seconds.iter().filter(|(second, _)| now.since(*second) <= window);
        recent.map(|(_, count)| *count as f32).sum::<f32>() / window.as_secs_f32()
    }

    fn forget(&mut self, now: BootTime) {
        while self.seconds.front().is_some_and(|(second, _)| now.since(*second) > MINUTE) {
            self.seconds.pop_front();
        }
    }
}
