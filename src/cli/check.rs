//! `anteroom check`.

use std::path::Path;

use super::{Ended, complain, say};
use crate::app;

pub(super) fn check(config: &Path) -> Ended {
    match app::rehearse(config) {
        Ok(settings) => {
            settings.warnings().iter().for_each(|warning| complain(&format!("warning: {warning}")));
            say(&format!("{} is in order", config.display()));
            Ended::Well
        }
        Err(faults) => {
            complain(&faults.to_string());
            Ended::Misconfigured
        }
    }
}
