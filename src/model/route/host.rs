//! Hosts as they are compared.

use std::borrow::Cow;

use super::Refused;

/// The host of a `Host` header as it is compared: lower case, without port and trailing dot.
///
/// # Errors
/// [`Refused::NotAHost`] for what is no host.
pub fn normalise_host(raw: &str) -> Result<Cow<'_, str>, Refused> {
    let (name, port) = match raw.strip_prefix('[') {
        Some(rest) => {
            let (inside, after) = rest.split_once(']').ok_or(Refused::NotAHost)?;
            let numeric = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
            if inside.is_empty() || !inside.chars().all(numeric) {
                return Err(Refused::NotAHost);
            }
            let port =
                if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(Refused::NotAHost)?) };
            // With its brackets.
            (raw.get(..inside.len() + 2).ok_or(Refused::NotAHost)?, port)
        }
        None => match raw.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (raw, None),
        },
    };
    if port.is_some_and(|port| !port.chars().all(|c| c.is_ascii_digit())) {
        return Err(Refused::NotAHost);
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '[' | ']' | ':');
    if name.is_empty() || name.len() > 255 || name.ends_with('.') || !name.chars().all(allowed) {
        return Err(Refused::NotAHost);
    }
    Ok(if name.chars().any(|c| c.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}
