//! `anteroom demo`.

use super::{Ended, complain};
use crate::app::Signals;

pub(super) fn demo(_signals: &Signals, _port: u16) -> Ended {
    complain("the demo is not there yet");
    Ended::Badly
}
