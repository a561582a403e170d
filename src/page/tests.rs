use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::locale::{Locale, file};
use super::*;
use crate::model::edge::Phase;

/// The most that a page may weigh, in bytes as sent without compression.
const HEAVIEST_HTML: usize = 4 * 1024;
const HEAVIEST_PAGE: usize = 12 * 1024;

const FORMS: [&str; 6] = ["zero", "one", "two", "few", "many", "other"];

/// The categories that CLDR has for cardinals of a language, those of fractions included.
fn categories(language: Language) -> BTreeSet<&'static str> {
    use Language as L;
    let names: &[&str] = match language {
        L::Arabic => &["zero", "one", "two", "few", "many", "other"],
        L::Hebrew => &["one", "two", "other"],
        L::Polish | L::Ukrainian => &["one", "few", "many", "other"],
        L::French | L::Italian | L::Portuguese | L::Spanish => &["one", "many", "other"],
        L::German | L::English | L::Hindi | L::Dutch | L::Turkish => &["one", "other"],
        L::Indonesian | L::Japanese | L::Korean | L::SimplifiedChinese | L::TraditionalChinese => &["other"],
    };
    names.iter().copied().collect()
}

/// What is the same in two languages without having been forgotten.
const SHARED: [(&str, &str); 4] = [
    ("fr", "{n} minute"),
    ("fr", "{n} minutes"),
    ("fr", "{low}–{high} minutes"),
    ("fr", "{low}–{high} minute"),
];

/// The texts of a file under their paths; the forms of a plural are texts of one path.
fn texts(language: Language) -> BTreeMap<String, Vec<(String, String)>> {
    fn collect(path: &str, value: &Json, into: &mut BTreeMap<String, Vec<(String, String)>>) {
        match value {
            Json::String(text) => {
                into.entry(path.to_owned()).or_default().push((String::new(), text.clone()))
            }
            Json::Object(map) => {
                for (key, value) in map {
                    if FORMS.contains(&key.as_str()) {
                        let text = value.as_str().unwrap().to_owned();
                        into.entry(path.to_owned()).or_default().push((key.clone(), text));
                    } else {
                        collect(&format!("{path}/{key}"), value, into);
                    }
                }
            }
            other => panic!("{path}: {other}"),
        }
    }
    let mut found = BTreeMap::new();
    collect("", &serde_json::from_str(file(language)).unwrap(), &mut found);
    found
}

fn placeholders(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
}

#[test]
fn every_language_says_everything_and_nothing_else() {
    let english = texts(Language::English);
    let said: BTreeSet<&str> = english.values().flatten().map(|(_, text)| text.as_str()).collect();
    let mut faults = Vec::new();
    for &language in Language::ALL {
        let tag = language.as_str();
        let own = texts(language);
        for path in own.keys().filter(|path| !english.contains_key(*path)) {
            faults.push(format!("{tag}{path}: no page says this"));
        }
        for (path, model) in &english {
            let Some(forms) = own.get(path) else {
                faults.push(format!("{tag}{path}: is missing"));
                continue;
            };
            let has: BTreeSet<&str> = forms.iter().map(|(form, _)| form.as_str()).collect();
            let is_plural = model.iter().any(|(form, _)| !form.is_empty());
            let wanted = if is_plural { categories(language) } else { [""].into() };
            if has != wanted {
                faults.push(format!("{tag}{path}: has the forms {has:?}, needs {wanted:?}"));
            }
            let needs: BTreeSet<&str> = model.iter().flat_map(|(_, text)| placeholders(text)).collect();
            for (form, text) in forms {
                let names = placeholders(text);
                // A form that only one number takes may spell it out.
                let spelled = names.is_empty()
                    && needs.len() == 1
                    && matches!(language, Language::Arabic | Language::Hebrew)
                    && matches!(form.as_str(), "one" | "two");
                if names != needs && !spelled {
                    faults
                        .push(format!("{tag}{path} {form}: has the placeholders {names:?}, needs {needs:?}"));
                }
                if text.trim() != text || text.is_empty() || text.contains(['<', '>', '&', '"', '\'']) {
                    faults.push(format!("{tag}{path} {form}: {text:?} is empty, padded or has markup"));
                }
                let shared = SHARED.contains(&(tag, text.as_str()));
                if language != Language::English && said.contains(text.as_str()) && !shared {
                    faults.push(format!("{tag}{path} {form}: {text:?} is English"));
                }
            }
        }
    }
    assert!(english.len() > 60, "{} sentences", english.len());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn page() -> WaitingPage<'static> {
    WaitingPage {
        standing: Standing::InLine(Phase::Queueing),
        position: (1_200, 1_500),
        wait: Some((Duration::from_secs(60), Duration::from_secs(300))),
        progress: 0.25,
        message: Some("<script>alert(1)</script>"),
        poll_after: Duration::from_secs(5),
        heartbeat_ttl: Duration::from_secs(90),
        reference: "1-a-b",
        to: "/buy?a=\"1\"&b='2'",
        room_url: "/waitingroom/e",
        page_url: "/waitingroom/e?to=%2Fbuy",
        status_url: "/waitingroom/e/status",
        leave_url: "/waitingroom/e/leave",
    }
}

fn pages() -> Pages {
    Pages::new("/waitingroom").unwrap()
}

/// The text as a page shows it.
fn escaped(text: &str) -> String {
    text.replace('/', "&#x2f;")
}

#[test]
fn every_standing_is_told_in_every_language() {
    let pages = pages();
    let phases = Phase::ALL.iter().map(|phase| Standing::InLine(*phase));
    let standings: Vec<_> = phases.chain([Standing::Called]).collect();
    for &language in Language::ALL {
        let locale = Locale::read(language).unwrap();
        for &standing in &standings {
            let html = pages.waiting(language, &WaitingPage { standing, ..page() }).unwrap();
            let sentence = escaped(locale.standing.sentence(standing));
            assert!(html.contains(&format!("aria-live=\"polite\">{sentence}</p>")), "{html}");
            let rtl = matches!(language, Language::Arabic | Language::Hebrew);
            let dir = if rtl { "rtl" } else { "ltr" };
            assert!(html.contains(&format!("<html lang=\"{}\" dir=\"{dir}\">", language.as_str())), "{html}");
            assert!(!html.contains(['{', '}']), "nothing is left to be filled in: {html}");
        }
    }
}

#[test]
fn every_notice_is_told_in_every_language() {
    let pages = pages();
    for &language in Language::ALL {
        let locale = Locale::read(language).unwrap();
        for notice in Notice::ALL {
            let page = NoticePage {
                notice,
                rejoin_url: Some("/waitingroom/e/join"),
                link: Some("/"),
                ..NoticePage::default()
            };
            let html = pages.notice(language, &page).unwrap();
            let told = notice.told(&locale);
            let link = notice.link(&locale);
            assert!(html.contains(&format!("<title>{}</title>", told.title)), "{html}");
            assert!(html.contains(&format!("<h1>{}</h1>", told.title)), "{html}");
            assert!(html.contains(&format!("<p role=\"status\">{}</p>", told.sentence)), "{html}");
            assert!(html.contains(&format!("<button type=\"submit\">{link}</button>")), "{html}");
            assert!(html.contains(&format!("{link}</a>")), "{html}");
        }
    }
}

#[test]
fn a_page_is_light_in_every_language() {
    let pages = pages();
    let mut faults = Vec::new();
    for &language in Language::ALL {
        let html = pages.waiting(language, &WaitingPage { message: None, to: "/buy", ..page() }).unwrap();
        let files = html.split('"').filter_map(|url| pages.asset(url));
        let whole = html.len() + files.map(|file| file.content.len()).sum::<usize>();
        if html.len() > HEAVIEST_HTML || whole > HEAVIEST_PAGE {
            faults.push(format!("{}: {} bytes of HTML, {whole} in all", language.as_str(), html.len()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_waiting_page_is_accessible_and_carries_no_inline_code() {
    let html = pages().waiting(Language::English, &page()).unwrap();
    for part in ["<title>You are in line</title>", "aria-live=\"polite\"", "1,200–1,500", "1–5 minutes"] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert_eq!(html.matches("<h1>").count(), 1);
    assert_eq!(html.matches("<script").count(), html.matches("<script src=\"/waitingroom/_/").count());
    assert!(!html.contains("style=") && !html.contains("onclick"));
}

#[test]
fn every_file_that_a_page_names_is_served_from_here() {
    let pages = pages();
    for &language in Language::ALL {
        let html = pages.waiting(language, &page()).unwrap();
        let named: Vec<_> = html.split('"').filter(|part| part.starts_with("/waitingroom/_/")).collect();
        assert_eq!(named.len(), 3, "style, script and icon: {named:?}");
        for url in named {
            assert!(pages.asset(url).is_some(), "{url}");
        }
    }
    assert!(pages.asset("/waitingroom/_/none.js").is_none());
}

#[test]
fn a_script_knows_the_words_of_its_language_alone() {
    let pages = pages();
    let script = |tag: &str| {
        let html = pages.waiting(tag.parse().unwrap(), &page()).unwrap();
        let file = html.split('"').filter(|part| part.ends_with(".js")).find_map(|url| pages.asset(url));
        String::from_utf8(file.unwrap().content.to_vec()).unwrap()
    };
    let (german, english) = (script("de"), script("en"));
    assert!(german.starts_with("const words = {") && german.contains("Sie sind an der Reihe."));
    assert!(!german.contains("It is your turn.") && english.contains("It is your turn."));
}

#[test]
fn what_a_visitor_or_operator_wrote_is_escaped() {
    let html = pages().waiting(Language::English, &page()).unwrap();
    assert!(!html.contains("<script>alert"));
    assert!(html.contains("&lt;script&gt;"));
    assert!(!html.contains("data-to=\"/buy?a=\"1"));
}

#[test]
fn without_javascript_the_page_renews_itself_before_the_heartbeat_is_missed() {
    let page = WaitingPage { poll_after: Duration::from_secs(600), ..page() };
    let html = pages().waiting(Language::English, &page).unwrap();
    assert!(html.contains("<noscript><meta http-equiv=\"refresh\" content=\"30\"></noscript>"), "{html}");
}
