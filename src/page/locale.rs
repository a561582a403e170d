//! The sentences of the pages in one language: a file of `static/locales/`.

use serde::{Deserialize, Serialize};

use super::plural::Plural;
use crate::model::edge::Phase;
use crate::model::language::Language;

/// Everything that pages say in one language.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Locale {
    /// The language's name for itself.
    pub(super) name: String,
    pub(super) waiting: Labels,
    pub(super) standing: Standings,
    pub(super) waits: Waits,
    pub(super) notices: Notices,
    pub(super) links: Links,
}

/// What the waiting page says whatever the line is like.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Labels {
    title: String,
    progress: String,
    place: String,
    wait: String,
    #[serde(skip_serializing)]
    pub(super) lost: Plural,
    enter: String,
    #[serde(skip_serializing)]
    pub(super) stay: Plural,
    #[serde(skip_serializing)]
    pub(super) renews: Plural,
    leave: String,
    reference: String,
    language: String,
    choose: String,
}

/// How a visitor in line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the visitor's turn.
    Called,
    /// The visitor waits, and the line is as this says.
    InLine(Phase),
}

/// One sentence for every [`Standing`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Standings {
    called: String,
    queueing: String,
    prequeue: String,
    paused: String,
    frozen: String,
    sold_out: String,
    closed: String,
    full: String,
}

impl Standings {
    pub(super) fn sentence(&self, standing: Standing) -> &str {
        match standing {
            Standing::Called => &self.called,
            Standing::InLine(Phase::Queueing) => &self.queueing,
            Standing::InLine(Phase::Prequeue) => &self.prequeue,
            Standing::InLine(Phase::Paused) => &self.paused,
            Standing::InLine(Phase::Frozen) => &self.frozen,
            Standing::InLine(Phase::SoldOut) => &self.sold_out,
            Standing::InLine(Phase::Closed) => &self.closed,
            Standing::InLine(Phase::Full) => &self.full,
        }
    }
}

/// How waits are told; the script of the waiting page tells them alike.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waits {
    pub(super) moment: String,
    pub(super) up_to_a_minute: String,
    pub(super) a_minute: String,
    pub(super) seconds: Span<Plural>,
    /// Minutes and seconds, as `2:15`: no number that a plural goes with.
    pub(super) clock: Span<String>,
    pub(super) minutes: Span<Plural>,
}

/// A time that is known exactly, from above alone, or between two.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Span<T> {
    pub(super) exact: T,
    pub(super) up_to: T,
    pub(super) between: T,
}

/// What a page that tells one thing says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Told {
    pub(super) title: String,
    pub(super) sentence: String,
}

/// One text for every [`super::Notice`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notices {
    pub(super) missed_heartbeat: Told,
    pub(super) missed_turn: Told,
    pub(super) too_old: Told,
    pub(super) reset: Told,
    pub(super) left: Told,
    pub(super) closed: Told,
    pub(super) full: Told,
    pub(super) busy: Told,
    pub(super) cookies_needed: Told,
    pub(super) not_sent: Told,
    pub(super) not_found: Told,
    pub(super) origin_down: Told,
}

/// The texts of links and buttons of notices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
    pub(super) rejoin: String,
    pub(super) join_again: String,
    pub(super) try_again: String,
    pub(super) go_on: String,
    pub(super) join: String,
    pub(super) start: String,
}

impl Locale {
    /// Reads the file of a language.
    ///
    /// # Errors
    /// If it lacks a sentence, or has one that no page says.
    pub(super) fn read(language: Language) -> serde_json::Result<Self> {
        serde_json::from_str(file(language))
    }
}

/// The file of a language.
pub(super) fn file(language: Language) -> &'static str {
    match language {
        Language::Arabic => include_str!("../../static/locales/ar.json"),
        Language::German => include_str!("../../static/locales/de.json"),
        Language::English => include_str!("../../static/locales/en.json"),
        Language::Spanish => include_str!("../../static/locales/es.json"),
        Language::French => include_str!("../../static/locales/fr.json"),
        Language::Hebrew => include_str!("../../static/locales/he.json"),
        Language::Hindi => include_str!("../../static/locales/hi.json"),
        Language::Indonesian => include_str!("../../static/locales/id.json"),
        Language::Italian => include_str!("../../static/locales/it.json"),
        Language::Japanese => include_str!("../../static/locales/ja.json"),
        Language::Korean => include_str!("../../static/locales/ko.json"),
        Language::Dutch => include_str!("../../static/locales/nl.json"),
        Language::Polish => include_str!("../../static/locales/pl.json"),
        Language::Portuguese => include_str!("../../static/locales/pt-BR.json"),
        Language::Turkish => include_str!("../../static/locales/tr.json"),
        Language::Ukrainian => include_str!("../../static/locales/uk.json"),
        Language::SimplifiedChinese => include_str!("../../static/locales/zh-Hans.json"),
        Language::TraditionalChinese => include_str!("../../static/locales/zh-Hant.json"),
    }
}
