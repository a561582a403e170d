//! The pages that visitors see, and the files that belong to them.

mod assets;
mod words;

use std::time::Duration;

use minijinja::{AutoEscape, Environment, Value, context};

pub use assets::{Asset, Assets};
pub use words::{Notice, sentence_of, wait_in_words};

/// What every page of the waiting room sends as `Content-Security-Policy`: nothing inline, nothing from elsewhere.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The templates, compiled once.
pub struct Pages {
    templates: Environment<'static>,
    assets: Assets,
}

/// What the waiting page shows.
#[derive(Clone, Debug)]
pub struct WaitingPage<'a> {
    /// The sentence that says why the line is as it is.
    pub sentence: &'a str,
    /// The least and the greatest place; `(0, 0)`: not shown.
    pub position: (u32, u32),
    /// The range of the wait.
    pub wait: Option<(Duration, Duration)>,
    /// How much of the way is done, 0..=1.
    pub progress: f32,
    /// The operator's message.
    pub message: Option<&'a str>,
    /// When to ask again.
    pub poll_after: Duration,
    /// How long the visitor may be away.
    pub heartbeat_ttl: Duration,
    /// The visitor's public reference.
    pub reference: &'a str,
    /// Where the visitor wants to go.
    pub to: &'a str,
    /// The address of this page.
    pub page_url: &'a str,
    /// The address that answers with the status.
    pub status_url: &'a str,
    /// The address that takes a goodbye.
    pub leave_url: &'a str,
}

/// A page that tells one thing and offers at most one way on.
#[derive(Clone, Debug, Default)]
pub struct NoticePage<'a> {
    /// What to tell.
    pub notice: Notice,
    /// The operator's message.
    pub message: Option<&'a str>,
    /// Where a form joins the line again.
    pub rejoin_url: Option<&'a str>,
    /// Where a link leads on.
    pub link: Option<&'a str>,
    /// When the page asks again by itself.
    pub retry_after: Option<Duration>,
}

impl Pages {
    /// Compiles the templates; assets will be asked for below `public_path`.
    ///
    /// # Errors
    /// If a template is at fault.
    pub fn new(public_path: &str) -> Result<Self, minijinja::Error> {
        let mut templates = Environment::new();
        templates.set_auto_escape_callback(|_| AutoEscape::Html);
        templates.add_template("page.html", include_str!("../../static/page.html"))?;
        templates.add_template("waiting.html", include_str!("../../static/waiting.html"))?;
        templates.add_template("notice.html", include_str!("../../static/notice.html"))?;
        Ok(Self { templates, assets: Assets::new(public_path) })
    }

    /// The files that pages refer to.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The page of a visitor who waits.
    ///
    /// # Errors
    /// If the template is at fault.
    pub fn waiting(&self, page: &WaitingPage<'_>) -> Result<String, minijinja::Error> {
        let seconds = page.poll_after.as_secs().clamp(2, page.heartbeat_ttl.as_secs().max(10) / 3);
        self.render(
            "waiting.html",
            context! {
                title => "You are in line",
                sentence => page.sentence,
                position => words::range(page.position),
                eta => page.wait.map(wait_in_words),
                show_progress => page.position.1 > 0,
                progress => (page.progress.clamp(0.0, 1.0) * 100.0).round(),
                message => page.message,
                poll_after_ms => u64::try_from(page.poll_after.as_millis()).unwrap_or(u64::MAX),
                refresh_s => seconds,
                heartbeat_s => page.heartbeat_ttl.as_secs(),
                reference => page.reference,
                to => page.to,
                page_url => page.page_url,
                status_url => page.status_url,
                leave_url => page.leave_url,
                assets => self.addresses(),
            },
        )
    }

    /// A page that tells one thing.
    ///
    /// # Errors
    /// If the template is at fault.
    pub fn notice(&self, page: &NoticePage<'_>) -> Result<String, minijinja::Error> {
        let (title, sentence, link_text) = page.notice.words();
        self.render(
            "notice.html",
            context! {
                title,
                sentence,
                link_text,
                message => page.message,
                rejoin_url => page.rejoin_url,
                link => page.link,
                retry_s => page.retry_after.map(|after| after.as_secs().max(1)),
                assets => self.addresses(),
            },
        )
    }

    fn addresses(&self) -> Value {
        // Made from the public path and a hash alone: safe, and readable where `/` would be escaped.
        let address = |url: &str| Value::from_safe_string(url.to_owned());
        context! {
            css => address(self.assets.css_url()),
            js => address(self.assets.js_url()),
            icon => address(self.assets.icon_url()),
        }
    }

    fn render(&self, name: &str, values: Value) -> Result<String, minijinja::Error> {
        self.templates.get_template(name)?.render(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> WaitingPage<'static> {
        WaitingPage {
            sentence: "You are in line.",
            position: (1_200, 1_500),
            wait: Some((Duration::from_secs(60), Duration::from_secs(300))),
            progress: 0.25,
            message: Some("<script>alert(1)</script>"),
            poll_after: Duration::from_secs(5),
            heartbeat_ttl: Duration::from_secs(90),
            reference: "1-a-b",
            to: "/buy?a=\"1\"&b='2'",
            page_url: "/waitingroom/e?to=%2Fbuy",
            status_url: "/waitingroom/e/status",
            leave_url: "/waitingroom/e/leave",
        }
    }

    #[test]
    fn the_waiting_page_is_accessible_and_carries_no_inline_code() {
        let html = Pages::new("/waitingroom").unwrap().waiting(&page()).unwrap();
        for part in
            ["<html lang=\"en\">", "<title>You are in line</title>", "aria-live=\"polite\"", "1,200–1,500"]
        {
            assert!(html.contains(part), "{part}");
        }
        assert_eq!(html.matches("<h1>").count(), 1);
        assert_eq!(html.matches("<script").count(), html.matches("<script src=\"/waitingroom/_/").count());
        assert!(!html.contains("style=") && !html.contains("onclick"));
    }

    #[test]
    fn every_file_that_a_page_names_is_served_from_here() {
        let pages = Pages::new("/waitingroom").unwrap();
        let html = pages.waiting(&page()).unwrap();
        let named: Vec<_> = html.split('"').filter(|part| part.starts_with("/waitingroom/_/")).collect();
        assert_eq!(named.len(), 3, "style, script and icon: {named:?}");
        for url in named {
            assert!(pages.assets().find(url).is_some(), "{url}");
        }
    }

    #[test]
    fn what_a_visitor_or_operator_wrote_is_escaped() {
        let html = Pages::new("/waitingroom").unwrap().waiting(&page()).unwrap();
        assert!(!html.contains("<script>alert"));
        assert!(html.contains("&lt;script&gt;"));
        assert!(!html.contains("data-to=\"/buy?a=\"1"));
    }

    #[test]
    fn without_javascript_the_page_renews_itself_before_the_heartbeat_is_missed() {
        let mut page = page();
        page.poll_after = Duration::from_secs(600);
        let html = Pages::new("/waitingroom").unwrap().waiting(&page).unwrap();
        assert!(html.contains("<noscript><meta http-equiv=\"refresh\" content=\"30\"></noscript>"), "{html}");
    }

    #[test]
    fn every_notice_has_words_and_renders() {
        let pages = Pages::new("/room").unwrap();
        for notice in Notice::ALL {
            let page = NoticePage { notice, rejoin_url: Some("/room/e/join"), ..NoticePage::default() };
            let html = pages.notice(&page).unwrap();
            let (title, ..) = notice.words();
            assert!(html.contains(&format!("<h1>{title}</h1>")), "{html}");
            assert!(html.contains("/room/_/"));
        }
    }
}
