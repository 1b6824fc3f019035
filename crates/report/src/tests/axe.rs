//! The pages before axe-core (<https://github.com/dequelabs/axe-core>): the rules of WCAG 2.2 A and AA, and its good practice.
//!
//! `scripts/fetch-axe` gets it; `make test` says where it is.

use std::fs;

use serde_json::json;

use super::accessible::{opened, pages};

/// The file of axe-core's own build for browsers.
const AXE: &str = "NESTOR_TEST_AXE";

/// What is found, each with its rule and the elements that break it. Rules that axe leaves to a human ("incomplete") are not counted.
const BROKEN: &str = "axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', \
    'wcag22aa', 'best-practice'] }).then(found => JSON.stringify(found.violations.map(rule => \
    [rule.id, rule.nodes.map(node => node.html.slice(0, 120))])))";

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
                assert_eq!(page.value(BROKEN), "[]", "{width} px, {scheme}");
            }
        }
    }
}

/// A page with one mistake of each kind that matters here, so that a checker that finds nothing at all is noticed.
#[test]
fn axe_finds_a_picture_without_words_and_letters_that_are_too_pale() {
    let Some(axe) = axe() else { return };
    let html = "<!doctype html><html lang=en><head><title>t</title></head><body><main><h1>t</h1><img src='data:,'>\
                <p style='color:#bbb;background:#fff'>pale</p></main></body></html>";
    let Some(mut page) = opened(html, 800) else { return };
    page.value(&format!("{axe}; 0"));
    let found = page.value(BROKEN);
    let found = found.as_str().unwrap();
    assert!(found.contains("image-alt") && found.contains("color-contrast"), "{found}");
}
