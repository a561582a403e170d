//! The domain of cookies.

use super::RouteMatch;

/// What the `Domain` attribute of a cookie may be: a host name in lower case below a public suffix.
///
/// # Errors
/// What is wrong with it and what to write instead.
pub(super) fn cookie_domain(text: &str) -> Result<String, String> {
    let name = text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase();
    let example = "write one such as example.com";
    let hyphen = |label: &str| label.starts_with('-') || label.ends_with('-');
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_label =
        |label: &str| (1..=63).contains(&label.len()) && label.chars().all(allowed) && !hyphen(label);
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Err(format!("{text:?} is no domain; {example}, an international one in its xn-- form"));
    }
    // A browser takes a name whose last part is a number, in whatever base, for an IPv4 address.
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()));
    if hexadecimal || last.chars().all(|c| c.is_ascii_digit()) {
        return Err(format!("\"{text}\" is an address; browsers keep cookies for a domain only; {example}"));
    }
    if psl::domain_str(&name).is_none() {
        return Err(format!(
            "\"{text}\" is a public suffix: cookies for it would reach other sites; {example}"
        ));
    }
    Ok(name)
}

/// The host of a route that is not in the domain: browsers would drop the cookies there, and nobody could wait.
pub(super) fn outside<'r>(domain: &str, routes: &'r [RouteMatch]) -> Option<&'r str> {
    let hosts = routes.iter().filter_map(|route| route.host.as_deref());
    let is_outside = |host: &&str| {
        let name = host.strip_prefix("*.").unwrap_or(host);
        name != domain && name.strip_suffix(domain).is_none_or(|rest| !rest.ends_with('.'))
    };
    hosts.into_iter().find(is_outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_domain_below_a_public_suffix_is_taken() {
        for (text, taken) in [
            ("example.com", "example.com"),
            (".Shop.Example.CO.UK", "shop.example.co.uk"),
            ("shop.test", "shop.test"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("1.example.com", "1.example.com"),
        ] {
            assert_eq!(cookie_domain(text).as_deref(), Ok(taken));
        }
        let long = "a".repeat(64) + ".com";
        let longer = ["a".repeat(60).as_str(); 5].join(".") + ".com";
        for text in [
            "a.com\r\nX-Injected: 1",
            "a.com\n",
            "x.com; Secure; SameSite=None",
            "x.com,y.com",
            "shop.test/..",
            "x.com:80",
            "a b.com",
            "127.0.0.1",
            "1.2.3.0x7f",
            "[::1]",
            "::1",
            "com",
            "co.uk",
            "github.io",
            "localhost",
            "",
            ".",
            "..",
            "..example.com",
            "example.com.",
            "a..com",
            "-a.com",
            "a-.com",
            "bücher.example",
            "*.example.com",
            "a\0.com",
            long.as_str(),
            longer.as_str(),
        ] {
            let refused = cookie_domain(text);
            assert!(
                refused.as_ref().is_err_and(|why| !why.contains(['\r', '\n', '\0'])),
                "{text:?}: {refused:?}"
            );
        }
    }

    #[test]
    fn every_host_of_the_routes_is_in_the_domain_or_is_named() {
        let outside_of = |domain, host: Option<&str>| {
            let routes = [RouteMatch { host: host.map(str::to_owned), path: "/".to_owned() }];
            outside(domain, &routes).map(str::to_owned)
        };
        for host in
            [None, Some("example.com"), Some("a.example.com"), Some("*.example.com"), Some("*.a.example.com")]
        {
            assert_eq!(outside_of("example.com", host), None, "{host:?}");
        }
        for host in ["an-example.com", "example.com.evil.org", "*.com", "com", "127.0.0.1"] {
            assert_eq!(outside_of("example.com", Some(host)).as_deref(), Some(host));
        }
    }
}
