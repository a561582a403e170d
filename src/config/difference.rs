//! How two configurations differ: what a reload can swap, and what needs a restart.

use super::settings::Settings;

/// The names of what differs between two settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What is bound, opened or promised at start: a reload that changes it is refused.
    pub needs_restart: Vec<&'static str>,
    /// What a reload swaps.
    pub reloadable: Vec<&'static str>,
}

impl Settings {
    /// How `new` differs from these settings.
    #[must_use]
    pub fn difference(&self, new: &Self) -> Difference {
        // Taken apart so that a new field cannot be forgotten here.
        let Self {
            node,
            listeners,
            trusted_proxies,
            admin,
            metrics,
            public_path,
            default_origin,
            origins,
            events,
            limits,
            cluster,
        } = self;
        let named = |pairs: &[(&'static str, bool)]| {
            pairs.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
        };
        Difference {
            needs_restart: named(&[
                ("node.id", node.id != new.node.id),
                ("node.data_dir", node.data_dir != new.node.data_dir),
                ("node.upgrade_sock", node.upgrade_sock != new.node.upgrade_sock),
                ("node.farewell_s", node.farewell != new.node.farewell),
                ("listeners", *listeners != new.listeners),
                ("admin.address", admin.address != new.admin.address),
                ("admin.token_file", admin.token_file != new.admin.token_file),
                ("metrics.address", metrics.address != new.metrics.address),
                ("public_path", *public_path != new.public_path),
                ("cluster", *cluster != new.cluster),
            ]),
            reloadable: named(&[
                ("trusted_proxies", *trusted_proxies != new.trusted_proxies),
                ("default_origin", *default_origin != new.default_origin),
                ("origins", *origins != new.origins),
                ("events", *events != new.events),
                ("limits", *limits != new.limits),
            ]),
        }
    }
}
