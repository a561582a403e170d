//! The pages that visitors see, in their languages, and the files that belong to them.

mod assets;
mod book;
mod choice;
mod locale;
mod notice;
mod number;
mod plural;
#[cfg(test)]
mod tests;
mod wait;

use std::time::Duration;

use minijinja::{AutoEscape, Environment, Value, context};

use self::assets::Assets;
use self::book::{Book, Shelf};
use self::wait::with_number;
use crate::model::language::Language;

pub use assets::Asset;
pub use choice::{language_of, preferred_language};
pub use locale::Standing;
pub use notice::Notice;

/// What every page of the waiting room sends as `Content-Security-Policy`: nothing inline, nothing from elsewhere.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The templates, compiled once, and the languages, read once.
pub struct Pages {
    templates: Environment<'static>,
    assets: Assets,
    shelf: Shelf,
    /// What the addresses of all files begin with.
    files: String,
}

/// Why there are no pages: only a build of the program can be at fault.
#[derive(Debug, thiserror::Error)]
pub enum PagesFault {
    /// A template cannot be compiled.
    #[error("a template of the pages is at fault; build the program anew: {0}")]
    Template(#[from] minijinja::Error),
    /// A file of sentences lacks one, or has one too many.
    #[error("a file of sentences is at fault; build the program anew: {0}")]
    Locale(#[from] serde_json::Error),
}

/// What the waiting page shows.
#[derive(Clone, Debug)]
pub struct WaitingPage<'a> {
    /// How the visitor stands.
    pub standing: Standing,
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
    /// The address of this page, where a form asks for it in another language.
    pub room_url: &'a str,
    /// The same with where the visitor wants to go.
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
    /// Where a form asks for the same in another language.
    pub elsewhere: Option<Elsewhere<'a>>,
}

/// Where a page can be had in another language.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere<'a> {
    /// The address of the waiting page.
    pub room_url: &'a str,
    /// Where the visitor wants to go.
    pub to: &'a str,
}

impl Pages {
    /// Compiles the templates and reads the languages; files will be asked for below `public_path`.
    ///
    /// # Errors
    /// If a template or a file of sentences is at fault.
    pub fn new(public_path: &str) -> Result<Self, PagesFault> {
        let mut templates = Environment::new();
        templates.set_auto_escape_callback(|_| AutoEscape::Html);
        templates.add_template("page.html", include_str!("../../static/page.html"))?;
        templates.add_template("waiting.html", include_str!("../../static/waiting.html"))?;
        templates.add_template("notice.html", include_str!("../../static/notice.html"))?;
        let (assets, shelf) = (Assets::new(public_path), Shelf::open(public_path)?);
        Ok(Self { templates, assets, shelf, files: format!("{public_path}/_/") })
    }

    /// The file of a path.
    #[must_use]
    pub fn asset(&self, path: &str) -> Option<Asset> {
        if !path.starts_with(&self.files) {
            return None;
        }
        let script = || self.shelf.books().find_map(|book| book.script.find(path));
        self.assets.find(path).or_else(script)
    }

    /// The page of a visitor who waits.
    ///
    /// # Errors
    /// If the template is at fault.
    pub fn waiting(&self, language: Language, page: &WaitingPage<'_>) -> Result<String, minijinja::Error> {
        let book = self.shelf.book(language);
        let (labels, waits) = (&book.locale.waiting, &book.locale.waits);
        let heartbeat = page.heartbeat_ttl.as_secs();
        let refresh = page.poll_after.as_secs().clamp(2, heartbeat.max(10) / 3);
        self.render(
            "waiting.html",
            book,
            context! {
                lost => with_number(language, &labels.lost, heartbeat),
                stay => with_number(language, &labels.stay, heartbeat),
                renews => with_number(language, &labels.renews, refresh),
                sentence => book.locale.standing.sentence(page.standing),
                position => number::places(language, page.position),
                eta => page.wait.map(|wait| waits.tell(language, wait)),
                show_progress => page.position.1 > 0,
                progress => (page.progress.clamp(0.0, 1.0) * 100.0).round(),
                message => page.message,
                poll_after_ms => u64::try_from(page.poll_after.as_millis()).unwrap_or(u64::MAX),
                refresh_s => refresh,
                reference => page.reference,
                to => page.to,
                room_url => page.room_url,
                page_url => page.page_url,
                status_url => page.status_url,
                leave_url => page.leave_url,
            },
        )
    }

    /// A page that tells one thing.
    ///
    /// # Errors
    /// If the template is at fault.
    pub fn notice(&self, language: Language, page: &NoticePage<'_>) -> Result<String, minijinja::Error> {
        let book = self.shelf.book(language);
        let told = page.notice.told(&book.locale);
        self.render(
            "notice.html",
            book,
            context! {
                title => &told.title,
                sentence => &told.sentence,
                link_text => page.notice.link(&book.locale),
                message => page.message,
                rejoin_url => page.rejoin_url,
                link => page.link,
                room_url => page.elsewhere.map(|elsewhere| elsewhere.room_url),
                to => page.elsewhere.map(|elsewhere| elsewhere.to),
                retry_s => page.retry_after.map(|after| after.as_secs().max(1)),
            },
        )
    }

    /// What a notice tells a program: English, as everything that programs are told.
    #[must_use]
    pub fn detail(&self, notice: Notice) -> &str {
        &notice.told(&self.shelf.book(Language::English).locale).sentence
    }

    fn render(&self, name: &str, book: &Book, values: Value) -> Result<String, minijinja::Error> {
        // Made from the public path, a tag and a hash alone: safe, and readable where `/` would be escaped.
        let address = |url: &str| Value::from_safe_string(url.to_owned());
        let frame = context! {
            t => &book.labels,
            languages => &self.shelf.names,
            lang => book.language.as_str(),
            dir => book.direction(),
            css => address(self.assets.css_url()),
            js => address(book.script.url()),
            icon => address(self.assets.icon_url()),
        };
        self.templates.get_template(name)?.render(context! { ..values, ..frame })
    }
}
