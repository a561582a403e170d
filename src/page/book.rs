//! All that pages need of one language.

use minijinja::Value;
use minijinja::value::Serde;

use super::assets::{Script, Words};
use super::locale::Locale;
use crate::model::language::Language;

/// A language, ready to be shown.
pub(super) struct Book {
    pub(super) language: Language,
    pub(super) locale: Locale,
    /// The labels of the waiting page, as templates take them.
    pub(super) labels: Value,
    pub(super) script: Script,
}

/// Every language; English is apart because there is always one.
pub(super) struct Shelf {
    english: Book,
    others: Vec<Book>,
    /// Every language's tag and its name for itself, as templates take them.
    pub(super) names: Value,
}

impl Book {
    fn open(public_path: &str, language: Language) -> serde_json::Result<Self> {
        let locale = Locale::read(language)?;
        let words = Words { standing: &locale.standing, waits: &locale.waits };
        let script = Script::new(public_path, language, &words)?;
        Ok(Self { language, labels: Value::from(Serde(&locale.waiting)), script, locale })
    }

    /// The direction of writing, as HTML has it.
    pub(super) fn direction(&self) -> &'static str {
        match self.language {
            Language::Arabic | Language::Hebrew => "rtl",
            Language::German
            | Language::English
            | Language::Spanish
            | Language::French
            | Language::Hindi
            | Language::Indonesian
            | Language::Italian
            | Language::Japanese
            | Language::Korean
            | Language::Dutch
            | Language::Polish
            | Language::Portuguese
            | Language::Turkish
            | Language::Ukrainian
            | Language::SimplifiedChinese
            | Language::TraditionalChinese => "ltr",
        }
    }
}

impl Shelf {
    pub(super) fn open(public_path: &str) -> serde_json::Result<Self> {
        let english = Book::open(public_path, Language::English)?;
        let others = Language::ALL.iter().filter(|language| **language != Language::English);
        let others: Vec<Book> =
            others.map(|language| Book::open(public_path, *language)).collect::<serde_json::Result<_>>()?;
        let names = std::iter::once(&english)
            .chain(&others)
            .map(|book| Value::from((book.language.as_str(), book.locale.name.as_str())))
            .collect();
        Ok(Self { english, others, names })
    }

    pub(super) fn book(&self, language: Language) -> &Book {
        self.others.iter().find(|book| book.language == language).unwrap_or(&self.english)
    }

    pub(super) fn books(&self) -> impl Iterator<Item = &Book> {
        std::iter::once(&self.english).chain(&self.others)
    }
}
