//! Rules by which a request passes without a pass.

use super::asked::Asked;
use super::cookies::Shown;
use crate::model::policy::{BypassRule, Count, NameValue};
use crate::model::route::NormalPath;

/// Whether a rule lets a request pass, and at what price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bypass {
    /// None does.
    None,
    /// One does.
    Free,
    /// One does, and a slot is taken where one is free.
    Counted,
}

/// What the rules of an event say of a request; a rule that counts nothing goes first.
pub(super) fn judge(
    rules: &[BypassRule],
    asked: &Asked,
    path: &NormalPath<'_>,
    headers: &http::HeaderMap,
) -> Bypass {
    let mut verdict = Bypass::None;
    for rule in rules.iter().filter(|rule| holds(rule, asked, path, headers)) {
        match rule.count {
            Count::Uncounted => return Bypass::Free,
            Count::Counted => verdict = Bypass::Counted,
        }
    }
    verdict
}

/// Every condition that is given must hold; a rule without any holds for nothing.
fn holds(rule: &BypassRule, asked: &Asked, path: &NormalPath<'_>, headers: &http::HeaderMap) -> bool {
    let states_nothing = rule.path.is_none()
        && rule.methods.is_empty()
        && rule.header.is_none()
        && rule.cookie.is_none()
        && rule.networks.is_empty();
    !states_nothing
        && rule.path.as_deref().is_none_or(|prefix| path.is_below(prefix))
        && (rule.methods.is_empty() || rule.methods.iter().any(|method| method == asked.method.as_str()))
        && rule.header.as_ref().is_none_or(|wanted| shows_header(headers, wanted))
        && rule.cookie.as_ref().is_none_or(|wanted| shows_cookie(&asked.shown, wanted))
        && (rule.networks.is_empty() || rule.networks.iter().any(|net| net.contains(&asked.address)))
}

fn shows_header(headers: &http::HeaderMap, wanted: &NameValue) -> bool {
    let values = headers.get_all(wanted.name.as_str());
    values
        .iter()
        .any(|value| wanted.value.as_ref().is_none_or(|wanted| value.as_bytes() == wanted.as_bytes()))
}

fn shows_cookie(shown: &Shown, wanted: &NameValue) -> bool {
    let same = |value: &String| wanted.value.as_ref().is_none_or(|wanted| wanted == value);
    shown.others.iter().any(|(name, value)| *name == wanted.name && same(value))
}
