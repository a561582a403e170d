//! How waits are told.

use std::time::Duration;

use super::locale::{Span, Waits};
use super::number::grouped;
use super::plural::Plural;
use crate::model::estimate::{told_down, told_up};
use crate::model::language::Language;

impl Waits {
    /// A range of waits: in seconds below a minute, with them below five minutes, then in minutes.
    pub(super) fn tell(&self, language: Language, (low, high): (Duration, Duration)) -> String {
        let (low, high) = (told_down(low), told_up(high));
        match high {
            0..=6 => self.moment.clone(),
            7..60 => counted(language, &self.seconds, low, high),
            60 if low < 30 => self.up_to_a_minute.clone(),
            60 => self.a_minute.clone(),
            61..300 => fill(self.clock.form(low, high), &clock(low), &clock(high)),
            _ => counted(language, &self.minutes, low / 60, high / 60),
        }
    }
}

impl<T> Span<T> {
    fn form(&self, low: u64, high: u64) -> &T {
        if low == high {
            &self.exact
        } else if low == 0 {
            &self.up_to
        } else {
            &self.between
        }
    }
}

fn counted(language: Language, span: &Span<Plural>, low: u64, high: u64) -> String {
    let form = span.form(low, high).form(language, high);
    fill(form, &grouped(language, low), &grouped(language, high))
}

fn fill(form: &str, low: &str, high: &str) -> String {
    form.replace("{low}", low).replace("{high}", high).replace("{n}", high)
}

/// A sentence with one number.
pub(super) fn with_number(language: Language, sentence: &Plural, number: u64) -> String {
    sentence.form(language, number).replace("{n}", &grouped(language, number))
}

/// Minutes and seconds.
fn clock(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::locale::Locale;
    use super::*;

    fn tell(tag: &str, low: u64, high: u64) -> String {
        let language = tag.parse().unwrap();
        let wait = (Duration::from_secs(low), Duration::from_secs(high));
        Locale::read(language).unwrap().waits.tell(language, wait)
    }

    #[test]
    fn waits_read_naturally() {
        let cases = [
            ((0, 4), "a few seconds"),
            ((3, 17), "up to 18 seconds"),
            ((12, 23), "12–24 seconds"),
            ((10, 59), "up to a minute"),
            ((45, 59), "about a minute"),
            ((0, 61), "up to 1:15 minutes"),
            ((50, 130), "0:48–2:15 minutes"),
            ((120, 120), "2:00 minutes"),
            ((130, 601), "2–11 minutes"),
            ((10, 400), "up to 7 minutes"),
            ((600, 600), "10 minutes"),
        ];
        for ((low, high), expected) in cases {
            assert_eq!(tell("en", low, high), expected);
        }
    }

    #[test]
    fn a_number_takes_the_form_that_goes_with_it() {
        for (tag, minutes, expected) in [
            ("ar", 5, "5 دقائق"),
            ("ar", 11, "11 دقيقة"),
            ("pl", 22, "22 minuty"),
            ("pl", 25, "25 minut"),
            ("uk", 21, "21 хвилина"),
            ("uk", 25, "25 хвилин"),
            ("fr", 1_200, "1\u{202f}200 minutes"),
            ("ja", 5, "5分"),
        ] {
            assert_eq!(tell(tag, minutes * 60, minutes * 60), expected);
        }
        assert_eq!(tell("uk", 60 * 7, 60 * 21), "7–21 хвилина");
        assert_eq!(tell("uk", 30, 60 * 21), "до 21 хвилини");
    }
}
