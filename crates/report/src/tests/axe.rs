//! The pages before axe-core (<https://github.com/dequelabs/axe-core>): the rules of WCAG 2.2 A and AA, and its good practice.
//!
//! `scripts/fetch-axe` gets it; `make test` says where it is.

use std::fs;

use serde_json::json;

use super::accessible::{opened, pages};
use super::devtools::Page;

/// The file of axe-core's own build for browsers.
const AXE: &str = "NESTOR_TEST_AXE";

/// Looks at a page.
const RUN: &str = "axe.run(document, { resultTypes: ['violations', 'incomplete'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', \
    'wcag21aa', 'wcag22aa', 'best-practice'] })";

/// Of what was found, each broken rule with the elements that break it.
const BROKEN: &str = "found => JSON.stringify(found.violations.map(rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 120))]))";

/// Of what axe leaves to a human ("incomplete"), that which is wrong.
const UNDECIDED: &str = include_str!("undecided.js");

/// Looks at a page, and answers for both.
fn looked(page: &mut Page) -> [String; 2] {
    let both =
        page.value(&format!("{RUN}.then(found => [({BROKEN})(found), ({UNDECIDED})(found)].join('\\n'))"));
    let (broken, undecided) = both.as_str().unwrap().split_once('\n').unwrap();
    [broken.to_owned(), undecided.to_owned()]
}

/// Its text; `None` where it is not there, which is then said.
fn axe() -> Option<String> {
    let axe = std::env::var_os(AXE).and_then(|path| fs::read_to_string(path).ok());
    if axe.is_none() {
        eprintln!("not tried: {AXE} does not name axe-core (scripts/fetch-axe gets it)");
    }
    axe
}

#[test]
fn axe_finds_nothing_at_three_widths_by_day_and_by_night() {
    let Some(axe) = axe() else { return };
    for html in pages() {
        for width in [1_400, 800, 400] {
            let Some(mut page) = opened(&html, width) else { return };
            page.value(&format!("{axe}; 0"));
            for scheme in ["light", "dark"] {
                let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
                page.call("Emulation.setEmulatedMedia", features);
                let [broken, undecided] = looked(&mut page);
                assert_eq!(broken, "[]", "{width} px, {scheme}");
                assert_eq!(undecided, r#"{"looked":true,"broken":[]}"#, "{width} px, {scheme}");
            }
        }
    }
}

/// A page with one mistake of each kind that matters here, so that a checker that finds nothing at all is noticed.
#[test]
fn axe_finds_a_picture_without_words_and_letters_that_are_too_pale() {
    let Some(axe) = axe() else { return };
    let html = "<!doctype html><html lang=en><head><title>t</title></head><body><main><h1>t</h1><img src='data:,'>\
                <p style='color:#bbb;background:#fff'>pale</p>\
                <p style='color:#bbb;background:linear-gradient(#fff,#eee)'>pale on a gradient</p>\
                <svg role='img' aria-label='a shape' width='200' height='50'><rect width='200' height='50' fill='#999'/>\
                <text x='9' y='30' fill='#bbb'>pale on a shape</text></svg></main></body></html>";
    let Some(mut page) = opened(html, 800) else { return };
    page.value(&format!("{axe}; 0"));
    let [found, undecided] = looked(&mut page);
    assert!(found.contains("image-alt") && found.contains("color-contrast"), "{found}");
    assert!(undecided.contains("pale on a gradient") && undecided.contains("pale on a shape"), "{undecided}");
}
