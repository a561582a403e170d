//! Which language a visitor reads: RFC 4647 lookup in the ranges that a browser sends.

use crate::model::language::Language;

/// A longer header is ignored, in bytes.
const LONGEST_HEADER: usize = 512;

/// The language that one range stands for, as `fr-CH` for French; `None`: there is none, or it is no range.
#[must_use]
pub fn language_of(range: &str) -> Option<Language> {
    let range = range.to_ascii_lowercase();
    let mut subtags = range.split('-');
    let primary = subtags.next().filter(|primary| primary.bytes().all(|byte| byte.is_ascii_alphabetic()))?;
    let rest: Vec<&str> = subtags.collect();
    let is_subtag =
        |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_subtag(primary) || !rest.iter().copied().all(is_subtag) {
        return None;
    }
    let says = |subtag: &str| rest.contains(&subtag);
    match primary {
        "zh" if says("hans") => Some(Language::SimplifiedChinese),
        "zh" if ["hant", "tw", "hk", "mo"].into_iter().any(says) => Some(Language::TraditionalChinese),
        "zh" => Some(Language::SimplifiedChinese),
        "pt" => Some(Language::Portuguese),
        // What Hebrew and Indonesian were called before 1989, and still are by old Android.
        "iw" => Some(Language::Hebrew),
        "in" => Some(Language::Indonesian),
        _ => primary.parse().ok(),
    }
}

/// The language that an `Accept-Language` header prefers; what cannot be read of it is ignored.
#[must_use]
pub fn preferred_language(header: &str) -> Option<Language> {
    if header.len() > LONGEST_HEADER {
        return None;
    }
    let mut ranges: Vec<(&str, u16)> = header.split(',').filter_map(weighed).collect();
    let is_refused = |language: Language| {
        ranges.iter().any(|(range, weight)| *weight == 0 && is_or_begins(range, language.as_str()))
    };
    let refused: Vec<Language> = Language::ALL.iter().copied().filter(|one| is_refused(*one)).collect();
    ranges.retain(|(_, weight)| *weight > 0);
    // Of equals the first one counts: the sort is stable.
    ranges.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    ranges.iter().filter_map(|(range, _)| language_of(range)).find(|language| !refused.contains(language))
}

/// A range and its weight in thousandths.
fn weighed(item: &str) -> Option<(&str, u16)> {
    let (range, parameter) = item.split_once(';').unwrap_or((item, "q=1"));
    let (name, weight) = parameter.split_once('=')?;
    let weight = name.trim().eq_ignore_ascii_case("q").then(|| thousandths(weight.trim()))??;
    Some((range.trim(), weight))
}

/// A weight as RFC 9110 writes it: 0 to 1 with at most three digits after the point.
fn thousandths(weight: &str) -> Option<u16> {
    let (whole, digits) = weight.split_once('.').unwrap_or((weight, ""));
    if digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = format!("{digits:0<3}").parse::<u16>().ok()?;
    match whole {
        "0" => Some(fraction),
        "1" if fraction == 0 => Some(1000),
        _ => None,
    }
}

/// Whether a range names a language or something above it, as `zh` is above `zh-Hant`.
fn is_or_begins(range: &str, tag: &str) -> bool {
    let head = tag.get(..range.len()).is_some_and(|head| head.eq_ignore_ascii_case(range));
    head && tag.get(range.len()..).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_falls_back_to_a_language_that_there_is() {
        for (range, expected) in [
            ("fr-CH", Some("fr")),
            ("EN-us", Some("en")),
            ("zh", Some("zh-Hans")),
            ("zh-CN", Some("zh-Hans")),
            ("zh-SG", Some("zh-Hans")),
            ("zh-TW", Some("zh-Hant")),
            ("zh-HK", Some("zh-Hant")),
            ("zh-MO", Some("zh-Hant")),
            ("zh-Hant-HK", Some("zh-Hant")),
            ("zh-Hans-HK", Some("zh-Hans")),
            ("pt", Some("pt-BR")),
            ("pt-PT", Some("pt-BR")),
            ("pt-br", Some("pt-BR")),
            ("iw", Some("he")),
            ("he-IL", Some("he")),
            ("in-ID", Some("id")),
            ("ar-EG", Some("ar")),
            ("de-CH-1996", Some("de")),
            ("sv", None),
            ("eng", None),
            ("*", None),
            ("", None),
            ("de-", None),
            ("de_AT", None),
            ("de-verylongsubtag", None),
            ("d\u{e9}", None),
        ] {
            assert_eq!(language_of(range).map(Language::as_str), expected, "{range}");
        }
    }

    #[test]
    fn the_heaviest_range_that_there_is_decides() {
        for (header, expected) in [
            ("de", Some("de")),
            ("en;q=0.1, de;q=0.9", Some("de")),
            ("sv, fr-CH;q=0.8, en;q=0.7", Some("fr")),
            ("fr, de", Some("fr")),
            ("fr;q=0.5, de;q=0.50, en;q=0.500", Some("fr")),
            ("zh-TW,zh;q=0.9,en;q=0.8", Some("zh-Hant")),
            ("*, de;q=0.5", Some("de")),
            ("*", None),
            ("de;q=0", None),
            ("de-AT, de;q=0, fr;q=0.3", Some("fr")),
            ("zh-Hant, zh;q=0", None),
            ("pt-BR, pt-PT;q=0", Some("pt-BR")),
            ("de;q=1.5, fr;q=0.1", Some("fr")),
            ("de;q=x, fr;q=0.1", Some("fr")),
            ("de;q=-1, fr;q=0.1", Some("fr")),
            ("de;q=0.1234, fr;q=0.1", Some("fr")),
            ("de;level=1, fr;q=0.1", Some("fr")),
            (" de ; Q = 1.000 ", Some("de")),
            (",,;;=,de", Some("de")),
            ("de;q=0.001", Some("de")),
            ("", None),
        ] {
            assert_eq!(preferred_language(header).map(Language::as_str), expected, "{header}");
        }
    }

    #[test]
    fn a_header_that_no_browser_sends_is_ignored() {
        let longest = format!("de,{}", "x,".repeat(254));
        assert_eq!(preferred_language(&longest), Some(Language::German), "{}", longest.len());
        assert_eq!(preferred_language(&format!("{longest}xx")), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_ignored(header in "[a-zA-Z0-9;,=.*_ -]{0,60}|\\PC{0,40}") {
            let _ = preferred_language(&header);
        }
    }
}
