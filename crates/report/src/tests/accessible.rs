//! What the rules of axe that these pages once broke ask for, and paper.

use nestor_results::FigureKind;
use serde_json::json;

use super::browser::chromium;
use super::devtools::Page;
use super::study::full_report;
use super::traced::{explanation, explanation_without_baseline, traced_runs};
use crate::{RunView, render_figure_svg, render_run, render_study};

pub fn opened(html: &str, width: u32) -> Option<Page> {
    let Some(chromium) = chromium() else {
        eprintln!("not tried: chromium is not installed");
        return None;
    };
    let mut page = Page::open(&chromium, html, width, 900);
    page.value("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    Some(page)
}

/// A study of which some cells were followed request by request, a run with a baseline and one without.
pub fn pages() -> [String; 3] {
    let runs = traced_runs(1, 5);
    let view = RunView {
        explanation: Some(explanation()),
        ..RunView::of(&super::fixture::borrowed(&runs)).unwrap()
    };
    let alone = RunView { explanation: Some(explanation_without_baseline()), ..view.clone() };
    let mut report = full_report();
    for cell in report.cells.iter_mut().take(3) {
        let followed = if cell.is_baseline { &alone } else { &view };
        if let Some(run) = &mut cell.run {
            (run.explanation, run.trace) = (followed.explanation.clone(), followed.trace.clone());
        }
    }
    [render_study(&report), render_run(&view), render_run(&alone)]
}

/// `landmark-unique`, `empty-table-header`, `scrollable-region-focusable`.
#[test]
fn regions_have_names_of_their_own_headings_have_words_and_what_scrolls_takes_keys() {
    let broken = r"
        const name = e => e.getAttribute('aria-label') ||
          (document.getElementById(e.getAttribute('aria-labelledby')) || { textContent: '' }).textContent;
        const regions = [...document.querySelectorAll('[role=region], section')].map(name).filter(Boolean);
        const twice = regions.filter((n, i) => regions.indexOf(n) !== i);
        const empty = [...document.querySelectorAll('th')].filter(e => !e.textContent.trim()).map(e => e.outerHTML);
        const stuck = [...document.querySelectorAll('pre, .scroll')]
          .filter(e => e.tabIndex < 0 && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1))
          .map(e => e.outerHTML.slice(0, 80));
        JSON.stringify({ twice, empty, stuck })";
    for html in pages() {
        for width in [1_400, 400] {
            let Some(mut page) = opened(&html, width) else { return };
            assert_eq!(page.value(broken), r#"{"twice":[],"empty":[],"stuck":[]}"#, "{width}");
        }
    }
}

/// Letters on a cell of the matrix are told from it as well as WCAG AA asks, 4.5 to 1, on a light page and on a dark one.
#[test]
fn letters_are_told_from_the_strongest_colours() {
    let contrast = r"{
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const light = colour => {
          canvas.fillStyle = colour;
          canvas.fillRect(0, 0, 1, 1);
          const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(linear);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const cell = document.querySelector('.heat td.slower');
        Math.min(...['slower', 'faster'].flatMap(way => {
          cell.className = way;
          cell.style.setProperty('--mix', '82%');
          const below = light(getComputedStyle(cell).backgroundColor);
          return ['.value', '.interval'].map(part => {
            const above = light(getComputedStyle(cell.querySelector(part)).color);
            return (Math.max(above, below) + 0.05) / (Math.min(above, below) + 0.05);
          });
        })) }";
    let Some(mut page) = opened(&render_study(&full_report()), 1_400) else { return };
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        page.call("Emulation.setEmulatedMedia", features);
        let least = page.value(contrast).as_f64().unwrap();
        assert!(least >= 4.5, "{scheme}: {least}");
    }
}

/// The same of values and intervals in figures.
#[test]
fn letters_are_told_from_the_strongest_colours_of_figures() {
    let contrast = r"{
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const light = layers => {
          layers.forEach(style => {
            canvas.globalAlpha = style.opacity;
            canvas.fillStyle = style.fill;
            canvas.fillRect(0, 0, 1, 1);
          });
          const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(linear);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const field = [...document.querySelectorAll('g.field')].find(g => g.querySelectorAll('text').length > 1);
        const rects = field.querySelectorAll('rect');
        Math.min(...['slower', 'faster'].flatMap(way => {
          rects[1].setAttribute('class', way + ' o8');
          const below = light([...rects].map(r => getComputedStyle(r)));
          return [...field.querySelectorAll('text')].map(text => {
            const above = light([getComputedStyle(text)]);
            return (Math.max(above, below) + 0.05) / (Math.min(above, below) + 0.05);
          });
        })) }";
    let mut figures = super::study::figures();
    let heat = figures.iter_mut().find(|figure| figure.query.kind == FigureKind::Heat).unwrap();
    heat.rows.iter_mut().for_each(|row| (row.low, row.high) = (Some(row.y - 6.0), Some(row.y + 6.0)));
    let html = format!("<!doctype html><html><body>{}</body></html>", render_figure_svg(heat));
    let Some(mut page) = opened(&html, 1_400) else { return };
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        page.call("Emulation.setEmulatedMedia", features);
        let least = page.value(contrast).as_f64().unwrap();
        assert!(least >= 4.5, "{scheme}: {least}");
    }
}

#[test]
fn a_finger_shows_what_pointing_shows_and_then_follows_the_link() {
    let Some(mut page) = opened(&render_study(&full_report()), 400) else { return };
    let touch = "document.querySelector('.heat a.field').dispatchEvent(new PointerEvent('click', \
                 { bubbles: true, cancelable: true, pointerType: 'touch' }))";
    let shown = "getComputedStyle(document.querySelector('.heat a.field .tip')).display";
    assert_eq!(page.value(shown), "none");
    // The event is not stopped by the second touch, so that the browser follows the link.
    assert_eq!(page.value(touch), false);
    assert_eq!(page.value(shown), "block");
    let tip = "(b => b.left >= 0 && b.right <= innerWidth)(document.querySelector('.pointed .tip').getBoundingClientRect())";
    assert_eq!(page.value(tip), true);
    assert_eq!(page.value(touch), true);
    assert_eq!(page.value(shown), "none");
}

#[test]
fn a_matrix_that_goes_on_to_the_right_says_so_until_its_end_is_in_view() {
    let hint = "(h => h && h.classList.contains('more') ? getComputedStyle(h).visibility : 'none')\
                (document.querySelector('.maps .scroll').previousElementSibling)";
    let html = render_study(&full_report());
    let Some(mut wide) = opened(&html, 1_400) else { return };
    assert_eq!(wide.value(hint), "none");
    let Some(mut narrow) = opened(&html, 400) else { return };
    assert_eq!(narrow.value(hint), "visible");
    let to_its_end = "(r => { r.scrollLeft = r.scrollWidth; r.dispatchEvent(new Event('scroll')); })\
                      (document.querySelector('.maps .scroll'))";
    narrow.value(to_its_end);
    assert_eq!(narrow.value(hint), "hidden");
}

#[test]
fn no_table_is_cut_on_paper_and_closed_cells_are_not_printed() {
    const ACROSS_A4_PX: u32 = 711;
    for html in pages() {
        let Some(mut page) = opened(&html, ACROSS_A4_PX) else { return };
        page.value("document.querySelectorAll('details.cell').forEach((d, i) => { d.open = i === 1; })");
        page.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
        let cut = "JSON.stringify([...document.querySelectorAll('table, svg')].filter(e => \
                   e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80)))";
        assert_eq!(page.value(cut), "[]");
        let printed = "[...document.querySelectorAll('details.cell')].filter(e => e.offsetHeight).length";
        let cells = page.value("document.querySelectorAll('details.cell').length").as_u64().unwrap();
        assert_eq!(page.value(printed), cells.min(1));
    }
}
