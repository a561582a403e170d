//! A cookie jar: names, values and paths, as far as one host needs them.

use http::HeaderMap;
use http::header::SET_COOKIE;

/// A cookie that an answer set or took away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value; empty if it was taken away.
    pub value: String,
    path: String,
}

/// The cookies of one visitor.
#[derive(Clone, Debug, Default)]
pub struct Jar(Vec<Cookie>);

impl Jar {
    /// Takes the cookies of an answer to a request of `path`, and says what it set.
    pub fn take(&mut self, headers: &HeaderMap, path: &str) -> Vec<Cookie> {
        let lines = headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok());
        let set: Vec<Cookie> = lines.filter_map(|line| parse(line, path)).collect();
        for cookie in &set {
            self.0.retain(|old| old.name != cookie.name || old.path != cookie.path);
            if !cookie.value.is_empty() {
                self.0.push(cookie.clone());
            }
        }
        set
    }

    /// The cookies that a request of `path` shows, those of longer paths first.
    #[must_use]
    pub fn shown(&self, path: &str) -> Vec<(&str, &str)> {
        let mut shown: Vec<&Cookie> = self.0.iter().filter(|cookie| covers(&cookie.path, path)).collect();
        shown.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        shown.into_iter().map(|cookie| (cookie.name.as_str(), cookie.value.as_str())).collect()
    }

    /// The value of a cookie whose name begins so, on whatever path.
    #[must_use]
    pub fn value(&self, prefix: &str) -> Option<&str> {
        self.0.iter().find(|cookie| cookie.name.starts_with(prefix)).map(|cookie| cookie.value.as_str())
    }

    /// Throws away the cookies whose names begin so.
    pub fn forget(&mut self, prefix: &str) {
        self.0.retain(|cookie| !cookie.name.starts_with(prefix));
    }
}

fn parse(line: &str, path: &str) -> Option<Cookie> {
    let mut parts = line.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    let folder = path.split('?').next()?.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let mut cookie = Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        path: if folder.is_empty() { "/".to_owned() } else { folder.to_owned() },
    };
    for part in parts {
        let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
        match attribute.to_ascii_lowercase().as_str() {
            "path" if value.starts_with('/') => cookie.path = value.to_owned(),
            "max-age" if value.parse::<i64>().is_ok_and(|age| age <= 0) => cookie.value.clear(),
            _ => {}
        }
    }
    Some(cookie)
}

fn covers(cookie: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or(path);
    let rest = path.strip_prefix(cookie);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || cookie.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (SET_COOKIE, line.parse().unwrap())).collect()
    }

    #[test]
    fn cookies_are_shown_below_their_path_only() {
        let mut jar = Jar::default();
        let set = jar.take(
            &answer(&[
                "wr_ticket=t; Path=/waitingroom/tour; HttpOnly",
                "wr_pass=p; path=/; Secure",
                "here=1",
            ]),
            "/waitingroom/tour?to=/a/b",
        );
        assert_eq!(set.len(), 3);
        assert_eq!(
            jar.shown("/waitingroom/tour/status?hold=1"),
            [("wr_ticket", "t"), ("here", "1"), ("wr_pass", "p")]
        );
        assert_eq!(jar.shown("/waitingroom/tourist"), [("here", "1"), ("wr_pass", "p")]);
        assert_eq!(jar.shown("/buy"), [("wr_pass", "p")]);
    }

    #[test]
    fn a_cookie_is_replaced_or_taken_away_under_its_own_path() {
        let mut jar = Jar::default();
        jar.take(&answer(&["a=1; Path=/"]), "/");
        jar.take(&answer(&["a=2; Path=/"]), "/");
        assert_eq!(jar.value("a"), Some("2"));
        jar.take(&answer(&["a=; Max-Age=0; Path=/x"]), "/");
        assert_eq!(jar.value("a"), Some("2"));
        jar.take(&answer(&["a=gone; Max-Age=0; Path=/"]), "/");
        assert_eq!(jar.value("a"), None);
    }
}
