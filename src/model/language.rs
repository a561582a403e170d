//! The languages that pages are written in.

use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};

use super::words::words;

words! {
    /// A language that pages are written in, by its BCP 47 tag.
    #[derive(Default)]
    Language {
        /// Arabic.
        Arabic = "ar",
        /// German.
        German = "de",
        /// English.
        #[default]
        English = "en",
        /// Spanish.
        Spanish = "es",
        /// French.
        French = "fr",
        /// Hebrew.
        Hebrew = "he",
        /// Hindi.
        Hindi = "hi",
        /// Indonesian.
        Indonesian = "id",
        /// Italian.
        Italian = "it",
        /// Japanese.
        Japanese = "ja",
        /// Korean.
        Korean = "ko",
        /// Dutch.
        Dutch = "nl",
        /// Polish.
        Polish = "pl",
        /// Portuguese, as it is written in Brazil.
        Portuguese = "pt-BR",
        /// Turkish.
        Turkish = "tr",
        /// Ukrainian.
        Ukrainian = "uk",
        /// Chinese in simplified characters.
        SimplifiedChinese = "zh-Hans",
        /// Chinese in traditional characters.
        TraditionalChinese = "zh-Hant",
    }
}

/// No page is written in the language that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no page is written in that language; name one by its tag, as en or pt-BR")]
pub struct UnknownLanguage;

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(tag: &str) -> Result<Self, UnknownLanguage> {
        Self::ALL.iter().copied().find(|language| language.as_str() == tag).ok_or(UnknownLanguage)
    }
}

impl<'de> Deserialize<'de> for Language {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
