//! Use of a study's page: on a desktop, on a telephone, with keys only, with a screen reader.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::browser::chromium;
use super::devtools::Page;
use super::study::full_report;
use crate::render_study;

fn opened(width: u32) -> Option<Page> {
    let Some(chromium) = chromium() else {
        eprintln!("not tried: chromium is not installed");
        return None;
    };
    Some(Page::open(&chromium, &render_study(&full_report()), width, 800))
}

fn texts(value: Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap_or_default().to_owned()).collect()
}

/// A column of the table of all cells.
fn column(page: &mut Page, index: usize) -> Vec<String> {
    texts(page.value(&format!(
        "[].map.call(document.querySelectorAll('#cells tbody tr'), r => r.cells[{index}].dataset.by || r.cells[{index}].textContent)"
    )))
}

fn numbers(column: &[String]) -> Vec<f64> {
    column.iter().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_table_is_sorted_by_click_and_by_key() {
    let Some(mut page) = opened(1_280) else { return };
    let unsorted = column(&mut page, 2);
    page.value("document.querySelectorAll('#cells th button')[2].click()");
    let up = column(&mut page, 2);
    assert!(numbers(&up).is_sorted() && up != unsorted, "{up:?}");
    // Rows without a number come last, whichever way.
    assert_eq!(up.last().map(String::as_str), Some(""));
    let sort = "document.querySelectorAll('#cells th')[2].getAttribute('aria-sort')";
    assert_eq!(page.value(sort), "ascending");
    for (key, words) in [("Enter", "descending"), (" ", "ascending")] {
        page.value("document.querySelectorAll('#cells th button')[2].focus()");
        page.press(key);
        assert_eq!(page.value(sort), words);
    }
    page.press("Enter");
    let down = column(&mut page, 2);
    assert!(numbers(&down).iter().rev().is_sorted(), "{down:?}");
    assert_eq!(down.last().map(String::as_str), Some(""));
    // The next key goes to the next heading, and words are sorted as words.
    page.press("Tab");
    page.value("document.querySelectorAll('#cells th button')[1].focus()");
    page.press("Enter");
    let workloads = column(&mut page, 1);
    assert!(workloads.is_sorted(), "{workloads:?}");
    assert_eq!(page.value("document.querySelectorAll('#cells [aria-sort]').length"), 1);
}

#[test]
fn a_filter_shows_what_holds_every_word() {
    let Some(mut page) = opened(1_280) else { return };
    page.value("document.querySelector('input[data-filters=cells]').focus()");
    page.call("Input.insertText", json!({"text": "XFS seq"}));
    let shown =
        "[].filter.call(document.querySelectorAll('#cells tbody tr'), r => r.offsetHeight > 0).length";
    assert_eq!(page.value(shown), 2);
    assert_eq!(page.value("document.querySelector('#all-cells [role=status]').textContent"), "2 of 16");
    page.call("Input.insertText", json!({"text": " no such cell"}));
    assert_eq!(page.value(shown), 0);
}

#[test]
fn a_link_opens_its_cell_and_takes_the_keyboard_there() {
    let Some(mut page) = opened(1_280) else { return };
    page.value("document.querySelector('.heat a').focus()");
    page.press("Enter");
    // The browser tells the page of the new place when it comes to it: looked for until it has, for a minute at most.
    let open = "new Promise(done => { \
         const until = Date.now() + 60000; \
         const look = () => { \
           const open = document.querySelectorAll('details.cell[open]').length; \
           if (open || Date.now() > until) done(open); else setTimeout(look, 20); \
         }; \
         look(); })";
    let result = page
        .call("Runtime.evaluate", json!({"expression": open, "awaitPromise": true, "returnByValue": true}));
    assert_eq!(result["result"]["value"], 1);
    assert_eq!(page.value("document.activeElement.tagName"), "SUMMARY");
    // The first key of all leads past the head of the page.
    page.value(
        "history.replaceState(null, '', location.pathname); document.activeElement.blur(); scrollTo(0, 0)",
    );
    assert_eq!(page.value("document.querySelector('a, button, input').className"), "skip");
}

#[test]
fn a_surface_turns_with_its_slider() {
    let Some(mut page) = opened(1_280) else { return };
    let places =
        "[].map.call(document.querySelectorAll('g.surface text'), t => t.getAttribute('x')).join(' ')";
    let before = page.value(places);
    page.value(
        "var slider = document.querySelector('input.turn'); slider.value = 120; slider.dispatchEvent(new Event('input'))",
    );
    let turned = page.value(places);
    assert_ne!(turned, before);
    // Back again, everything is where the picture had it.
    page.value("slider.value = 35; slider.dispatchEvent(new Event('input'))");
    let sorted = |value: &Value| {
        let words = value.as_str().unwrap_or_default().split(' ');
        let mut places: Vec<f64> = words.map(|place| place.parse().unwrap()).collect();
        places.sort_by(f64::total_cmp);
        places
    };
    let (again, before) = (sorted(&page.value(places)), sorted(&before));
    // Points are written with three decimals, places with one.
    assert!(again.iter().zip(&before).all(|(a, b)| (a - b).abs() < 0.5), "{again:?} {before:?}");
    let far_first =
        "[].map.call(document.querySelectorAll('g.surface path.facet'), f => f.getAttribute('d')).length";
    assert_eq!(page.value(far_first), 4);
}

#[test]
fn it_asks_for_nothing_and_complains_of_nothing_and_fits_a_telephone() {
    for width in [360, 768, 1_280] {
        let Some(mut page) = opened(width) else { return };
        page.value("document.querySelectorAll('details').forEach(d => { d.open = true; })");
        assert_eq!(page.requests(), Vec::<String>::new());
        assert_eq!(page.complaints(), Vec::<String>::new());
        let wider = texts(page.value(
            "document.documentElement.scrollWidth <= innerWidth ? [] : [].filter.call(document.querySelectorAll('body *'), \
             e => !e.closest('.scroll') && !e.closest('.tip') && e.getBoundingClientRect().right > innerWidth + 1)\
             .map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40))",
        ));
        assert_eq!(wider, Vec::<String>::new(), "window {width}");
        assert_eq!(page.value("document.documentElement.scrollWidth <= innerWidth"), true, "window {width}");
    }
}

#[test]
fn a_screen_reader_finds_its_way() {
    let Some(mut page) = opened(1_280) else { return };
    page.value("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    let tree = page.call("Accessibility.getFullAXTree", json!({}));
    let mut roles = BTreeSet::new();
    for node in tree["nodes"].as_array().unwrap().iter().filter(|n| n["ignored"] != true) {
        let role = node["role"]["value"].as_str().unwrap_or_default().to_owned();
        let named = [
            "img",
            "image",
            "figure",
            "table",
            "button",
            "link",
            "searchbox",
            "region",
            "navigation",
            "heading",
        ];
        if named.contains(&role.as_str()) {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            assert!(!name.trim().is_empty(), "{role} without a name: {node}");
        }
        roles.insert(role);
    }
    for landmark in ["banner", "navigation", "main", "contentinfo", "region", "figure", "table", "button"] {
        assert!(roles.contains(landmark), "{landmark} is missing in {roles:?}");
    }
    let levels =
        page.value("[].map.call(document.querySelectorAll('h1,h2,h3,h4,h5'), h => Number(h.tagName[1]))");
    let levels: Vec<i64> = levels.as_array().unwrap().iter().filter_map(Value::as_i64).collect();
    assert_eq!((levels[0], levels.iter().filter(|l| **l == 1).count()), (1, 1));
    assert!(levels.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{levels:?}");
    let unscoped = "document.querySelectorAll('th:not([scope])').length";
    assert_eq!(page.value(unscoped), 0);
    let twice = "(ids => ids.filter((id, i) => ids.indexOf(id) !== i))([].map.call(document.querySelectorAll('[id]'), e => e.id))";
    assert_eq!(page.value(twice), json!([]));
}

#[test]
fn without_a_script_it_is_whole() {
    let html = render_study(&full_report());
    let plain = html[..html.find("<script>").unwrap()].to_owned();
    assert!(!plain.contains("<button"), "a button that nothing answers");
    assert!(plain.contains("<p class=\"filter\" hidden>"));
    assert!(plain.matches("<tr><th scope=\"row\"><a href=\"#cell-").count() >= 16);
}
