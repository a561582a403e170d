//! Whether an asker wants a page or JSON.

/// What an answer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A page for people.
    Html,
    /// JSON for programs.
    Json,
}

/// What a request's `Accept` header says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Accepted {
    html: f32,
    json: f32,
    /// Whether a kind of HTML is named, and not only covered by `*/*`.
    names_html: bool,
}

impl Accepted {
    /// Reads the header; without one everything is accepted.
    pub(super) fn read(header: Option<&str>) -> Self {
        let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
            return Self { html: 1.0, json: 1.0, names_html: false };
        };
        let mut html = Quality::default();
        let mut json = Quality::default();
        for range in header.split(',').take(64) {
            let mut parts = range.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let is = |kind: &str| name.eq_ignore_ascii_case(kind);
            let weight = parts
                .filter_map(|part| part.trim().strip_prefix("q=").or_else(|| part.trim().strip_prefix("Q=")))
                .find_map(|q| q.trim().parse::<f32>().ok())
                .filter(|q| q.is_finite())
                .map_or(1.0, |q| q.clamp(0.0, 1.0));
            if is("text/html") || is("application/xhtml+xml") {
                html.offer(3, weight);
            } else if is("text/*") {
                html.offer(2, weight);
            } else if is("application/json") || is("application/problem+json") {
                json.offer(3, weight);
            } else if is("application/*") {
                json.offer(2, weight);
            } else if is("*/*") {
                html.offer(1, weight);
                json.offer(1, weight);
            }
        }
        Self { html: html.weight, json: json.weight, names_html: html.rank >= 2 && html.weight > 0.0 }
    }

    /// Whether the asker names a kind of HTML: browsers' navigations do, scripts and tools do not.
    pub(super) fn names_html(self) -> bool {
        self.names_html
    }

    /// Whether neither a page nor JSON is accepted.
    pub(super) fn takes_neither(self) -> bool {
        self.html <= 0.0 && self.json <= 0.0
    }

    /// What to answer in where both can be had and the request is not for a page by itself.
    pub(super) fn preferred(self) -> Format {
        if self.names_html && self.html >= self.json { Format::Html } else { Format::Json }
    }

    /// What to answer in where a page was asked for.
    pub(super) fn preferred_for_page(self) -> Format {
        if self.html >= self.json { Format::Html } else { Format::Json }
    }
}

/// The quality of one media type: the most specific range that covers it decides.
#[derive(Default)]
struct Quality {
    rank: u8,
    weight: f32,
}

impl Quality {
    fn offer(&mut self, rank: u8, weight: f32) {
        if rank > self.rank {
            *self = Self { rank, weight };
        } else if rank == self.rank {
            self.weight = self.weight.max(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        let cases = [
            (Some(browser), Format::Html, Format::Html, true),
            (Some("application/json"), Format::Json, Format::Json, false),
            (Some("*/*"), Format::Json, Format::Html, false),
            (None, Format::Json, Format::Html, false),
            (Some(""), Format::Json, Format::Html, false),
            (Some("application/json, text/html;q=0.5"), Format::Json, Format::Json, true),
            (Some("application/json;q=0.5, text/html"), Format::Html, Format::Html, true),
            (Some("text/html;q=0, */*"), Format::Json, Format::Json, false),
            (Some("text/*, application/json;q=0.2"), Format::Html, Format::Html, true),
            (Some("TEXT/HTML ; Q=0.9"), Format::Html, Format::Html, true),
            (Some("application/problem+json"), Format::Json, Format::Json, false),
            (Some("text/html;q=nan"), Format::Html, Format::Html, true),
            (Some("image/png"), Format::Json, Format::Html, false),
        ];
        for (header, anywhere, for_page, navigation) in cases {
            let accepted = Accepted::read(header);
            assert_eq!(accepted.preferred(), anywhere, "{header:?}");
            assert_eq!(accepted.preferred_for_page(), for_page, "{header:?}");
            assert_eq!(accepted.names_html(), navigation, "{header:?}");
        }
    }
}
