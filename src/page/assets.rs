//! The files of the pages, under names that change with their content.

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::locale::{Standings, Waits};
use crate::model::language::Language;

const CSS: &str = include_str!("../../static/waiting.css");
const JS: &str = include_str!("../../static/waiting.js");
const ICON: &str = include_str!("../../static/icon.svg");

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: Bytes,
}

/// A file and its address.
#[derive(Clone, Debug)]
struct Placed {
    url: String,
    file: Asset,
}

/// The files and their addresses: `{public_path}/_/{name}.{hash}.{ext}`, never gated, cacheable for ever.
#[derive(Clone, Debug)]
pub(super) struct Assets {
    css: Placed,
    icon: Placed,
}

/// What the script of the waiting page says by itself.
#[derive(Serialize)]
pub(super) struct Words<'a> {
    pub(super) standing: &'a Standings,
    pub(super) waits: &'a Waits,
}

/// The script of the waiting page in one language.
#[derive(Clone, Debug)]
pub(super) struct Script(Placed);

impl Script {
    /// Puts the words before the code: the page holds no data that only the script needs, and a browser keeps both.
    pub(super) fn new(public_path: &str, language: Language, words: &Words<'_>) -> serde_json::Result<Self> {
        let words = serde_json::to_string(words)?;
        let content = format!("const words = {words};\n{JS}");
        let name = ["waiting.", language.as_str()].concat();
        let file = Asset { media_type: "text/javascript; charset=utf-8", content: content.into() };
        Ok(Self(place(public_path, &name, "js", file)))
    }

    pub(super) fn url(&self) -> &str {
        &self.0.url
    }

    pub(super) fn find(&self, path: &str) -> Option<Asset> {
        self.0.find(path)
    }
}

impl Assets {
    pub(super) fn new(public_path: &str) -> Self {
        let css =
            Asset { media_type: "text/css; charset=utf-8", content: Bytes::from_static(CSS.as_bytes()) };
        let icon = Asset { media_type: "image/svg+xml", content: Bytes::from_static(ICON.as_bytes()) };
        Self { css: place(public_path, "waiting", "css", css), icon: place(public_path, "icon", "svg", icon) }
    }

    /// The address of the style sheet.
    pub(super) fn css_url(&self) -> &str {
        &self.css.url
    }

    /// The address of the icon; without one a browser asks the origin for its own, for everybody who waits.
    pub(super) fn icon_url(&self) -> &str {
        &self.icon.url
    }

    pub(super) fn find(&self, path: &str) -> Option<Asset> {
        self.css.find(path).or_else(|| self.icon.find(path))
    }
}

impl Placed {
    fn find(&self, path: &str) -> Option<Asset> {
        (path == self.url).then(|| self.file.clone())
    }
}

fn place(public_path: &str, name: &str, ext: &str, file: Asset) -> Placed {
    let hash: String =
        Sha256::digest(&file.content).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Placed { url: format!("{public_path}/_/{name}.{hash}.{ext}"), file }
}
