//! The names of our own cookies: no rule can ask for them, and no origin sees them.

/// The cookie of the ticket, below the event's own path.
pub const TICKET_COOKIE: &str = "wr_ticket";
/// The cookie of the pass, and the beginning of its name on a host with several events.
pub const PASS_COOKIE: &str = "wr_pass";
/// The beginning of the marker that says "in line"; the event's id follows.
pub const LINE_COOKIE: &str = "wr_line_";
/// The cookie of the language that the visitor chose.
pub const LANGUAGE_COOKIE: &str = "anteroom_lang";

/// Which of our cookies a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCookie<'a> {
    /// The ticket, or the seat before it.
    Ticket,
    /// A pass.
    Pass,
    /// The marker of the line of this event.
    Line(&'a str),
    /// The chosen language.
    Language,
}

impl<'a> OwnCookie<'a> {
    /// Reads a name; `None`: it is a cookie of the site.
    #[must_use]
    pub fn read(name: &'a str) -> Option<Self> {
        if name == TICKET_COOKIE {
            Some(Self::Ticket)
        } else if name == LANGUAGE_COOKIE {
            Some(Self::Language)
        } else if name.strip_prefix(PASS_COOKIE).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        {
            Some(Self::Pass)
        } else {
            name.strip_prefix(LINE_COOKIE).map(Self::Line)
        }
    }
}
