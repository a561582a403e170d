//! The files of the pages, under names that change with their content.

use sha2::{Digest as _, Sha256};

const CSS: &str = include_str!("../../static/waiting.css");
const JS: &str = include_str!("../../static/waiting.js");
const ICON: &str = include_str!("../../static/icon.svg");

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

/// The files and their addresses: `{public_path}/_/{name}.{hash}.{ext}`, never gated, cacheable for ever.
#[derive(Clone, Debug)]
pub struct Assets {
    css: String,
    js: String,
    icon: String,
}

impl Assets {
    pub(super) fn new(public_path: &str) -> Self {
        let address = |name: &str, content: &str, ext: &str| {
            let hash: String =
                Sha256::digest(content).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("{public_path}/_/{name}.{hash}.{ext}")
        };
        Self {
            css: address("waiting", CSS, "css"),
            js: address("waiting", JS, "js"),
            icon: address("icon", ICON, "svg"),
        }
    }

    /// The address of the style sheet.
    #[must_use]
    pub fn css_url(&self) -> &str {
        &self.css
    }

    /// The address of the script.
    #[must_use]
    pub fn js_url(&self) -> &str {
        &self.js
    }

    /// The address of the icon; without one a browser asks the origin for its own, for everybody who waits.
    #[must_use]
    pub fn icon_url(&self) -> &str {
        &self.icon
    }

    /// The file of a path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<Asset> {
        if path == self.css {
            Some(Asset { media_type: "text/css; charset=utf-8", content: CSS })
        } else if path == self.js {
            Some(Asset { media_type: "text/javascript; charset=utf-8", content: JS })
        } else if path == self.icon {
            Some(Asset { media_type: "image/svg+xml", content: ICON })
        } else {
            None
        }
    }
}
