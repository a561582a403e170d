//! Whole numbers as people write them.

use crate::model::language::Language;

/// What stands between groups of digits; the script's `Intl.NumberFormat` writes the same.
fn separator(language: Language) -> char {
    use Language as L;
    match language {
        L::German | L::Spanish | L::Indonesian | L::Italian | L::Dutch | L::Portuguese | L::Turkish => '.',
        L::French => '\u{202f}',
        L::Polish | L::Ukrainian => '\u{a0}',
        L::Arabic
        | L::English
        | L::Hebrew
        | L::Hindi
        | L::Japanese
        | L::Korean
        | L::SimplifiedChinese
        | L::TraditionalChinese => ',',
    }
}

/// A number with its digits in groups: of three, in Hindi of two before the last three.
pub(super) fn grouped(language: Language, number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        let left = digits.len() - at;
        let begins = if language == Language::Hindi {
            left == 3 || (left > 3 && !left.is_multiple_of(2))
        } else {
            left.is_multiple_of(3)
        };
        if at > 0 && begins {
            text.push(separator(language));
        }
        text.push(digit);
    }
    text
}

/// A range of places; empty for `(0, 0)`.
pub(super) fn places(language: Language, (low, high): (u32, u32)) -> String {
    let tell = |number: u32| grouped(language, number.into());
    match (low, high) {
        (_, 0) => String::new(),
        (low, high) if low == high => tell(low),
        (low, high) => format!("{}–{}", tell(low), tell(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_as_the_language_has_it() {
        for (tag, thousand, millions) in [
            ("en", "1,234", "12,345,678"),
            ("de", "1.234", "12.345.678"),
            ("fr", "1\u{202f}234", "12\u{202f}345\u{202f}678"),
            ("pl", "1\u{a0}234", "12\u{a0}345\u{a0}678"),
            ("hi", "1,234", "1,23,45,678"),
            ("ja", "1,234", "12,345,678"),
        ] {
            let language = tag.parse().unwrap();
            assert_eq!(grouped(language, 999), "999");
            assert_eq!(grouped(language, 1_234), thousand);
            assert_eq!(grouped(language, 12_345_678), millions);
        }
        assert_eq!(grouped(Language::Hindi, 123_456), "1,23,456");
    }

    #[test]
    fn one_place_is_no_range_and_none_is_nothing() {
        assert_eq!(places(Language::English, (0, 0)), "");
        assert_eq!(places(Language::English, (7, 7)), "7");
        assert_eq!(places(Language::English, (999, 1_234_567)), "999–1,234,567");
    }
}
