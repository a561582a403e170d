//! Which form of a sentence goes with a whole number: the cardinal rules of CLDR, for the languages of the pages.

use serde::{Deserialize, Serialize};

use crate::model::language::Language;

/// A category of CLDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    Zero,
    One,
    Two,
    Few,
    Many,
    Other,
}

/// The category of a whole number.
pub(super) fn category(language: Language, number: u64) -> Category {
    use Category::{Few, Many, One, Other, Two, Zero};
    use Language as L;
    let (tens, hundreds) = (number % 10, number % 100);
    let is_few = (2..=4).contains(&tens) && !(12..=14).contains(&hundreds);
    let are_millions = number != 0 && number.is_multiple_of(1_000_000);
    match language {
        L::Arabic => match (number, hundreds) {
            (0, _) => Zero,
            (1, _) => One,
            (2, _) => Two,
            (_, 3..=10) => Few,
            (_, 11..) => Many,
            _ => Other,
        },
        L::Hebrew => match number {
            1 => One,
            2 => Two,
            _ => Other,
        },
        L::German | L::English | L::Dutch | L::Turkish => match number {
            1 => One,
            _ => Other,
        },
        L::Hindi => match number {
            0 | 1 => One,
            _ => Other,
        },
        L::Spanish | L::Italian => match number {
            1 => One,
            _ if are_millions => Many,
            _ => Other,
        },
        L::French | L::Portuguese => match number {
            0 | 1 => One,
            _ if are_millions => Many,
            _ => Other,
        },
        L::Polish => match number {
            1 => One,
            _ if is_few => Few,
            _ => Many,
        },
        L::Ukrainian => match number {
            _ if tens == 1 && hundreds != 11 => One,
            _ if is_few => Few,
            _ => Many,
        },
        L::Indonesian | L::Japanese | L::Korean | L::SimplifiedChinese | L::TraditionalChinese => Other,
    }
}

/// A sentence with a number, in the forms that a language has.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plural {
    #[serde(skip_serializing_if = "Option::is_none")]
    zero: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    two: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    few: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    many: Option<String>,
    other: String,
}

impl Plural {
    /// The form that goes with a number.
    pub(super) fn form(&self, language: Language, number: u64) -> &str {
        let form = match category(language, number) {
            Category::Zero => &self.zero,
            Category::One => &self.one,
            Category::Two => &self.two,
            Category::Few => &self.few,
            Category::Many => &self.many,
            Category::Other => &None,
        };
        form.as_ref().unwrap_or(&self.other)
    }
}

#[cfg(test)]
mod tests {
    use Category::{Few, Many, One, Other, Two, Zero};

    use super::*;

    #[test]
    fn the_examples_of_cldr_have_their_categories() {
        let cases: &[(&str, &[(u64, Category)])] = &[
            ("ar", &[(0, Zero), (1, One), (2, Two), (3, Few), (10, Few), (11, Many), (99, Many)]),
            ("ar", &[(100, Other), (101, Other), (102, Other), (103, Few), (111, Many), (1_000, Other)]),
            ("de", &[(0, Other), (1, One), (2, Other)]),
            ("en", &[(0, Other), (1, One), (2, Other), (21, Other), (1_000_000, Other)]),
            ("es", &[(0, Other), (1, One), (2, Other), (1_000_000, Many), (1_000_001, Other)]),
            ("fr", &[(0, One), (1, One), (2, Other), (1_000_000, Many)]),
            ("he", &[(0, Other), (1, One), (2, Two), (3, Other), (10, Other), (20, Other)]),
            ("hi", &[(0, One), (1, One), (2, Other)]),
            ("id", &[(0, Other), (1, Other), (2, Other)]),
            ("it", &[(0, Other), (1, One), (2, Other), (2_000_000, Many)]),
            ("ja", &[(0, Other), (1, Other), (2, Other), (100, Other)]),
            ("ko", &[(1, Other)]),
            ("nl", &[(0, Other), (1, One), (2, Other)]),
            ("pl", &[(0, Many), (1, One), (2, Few), (4, Few), (5, Many), (11, Many), (12, Many)]),
            ("pl", &[(14, Many), (21, Many), (22, Few), (25, Many), (102, Few), (112, Many)]),
            ("pt-BR", &[(0, One), (1, One), (2, Other), (1_000_000, Many)]),
            ("tr", &[(0, Other), (1, One), (2, Other)]),
            ("uk", &[(0, Many), (1, One), (2, Few), (5, Many), (11, Many), (12, Many), (21, One)]),
            ("uk", &[(22, Few), (25, Many), (101, One), (111, Many)]),
            ("zh-Hans", &[(1, Other)]),
            ("zh-Hant", &[(1, Other)]),
        ];
        for (tag, examples) in cases {
            let language = tag.parse().unwrap();
            for (number, expected) in *examples {
                assert_eq!(category(language, *number), *expected, "{tag} {number}");
            }
        }
        for language in Language::ALL {
            assert!(cases.iter().any(|(tag, _)| *tag == language.as_str()), "{}", language.as_str());
        }
    }
}
