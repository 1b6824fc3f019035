//! Pages on screens of several widths: nothing runs out of them, and names are broken at their signs.

use super::accessible::opened;
use super::fixture::borrowed;
use super::study::full_report;
use super::traced::{explanation, traced_runs};
use crate::view::{PathRow, PathView};
use crate::{RunView, StudyReport, render_run, render_study};

const WIDTHS: [u32; 3] = [1_400, 800, 400];

/// A workload and layers as long as those of real studies.
const LONG: &str = "fio:rand-write:bs=4k:size=2M:filesize=2M:runtime=off:direct=off:engine=psync:fsync=1, \
                    kvm:cache=writethrough:available=80M, nfs:vers=3:rsize=64k:wsize=512k";

/// What runs out of the page to the right: elements, and text that is wider than its element. What is in a box that scrolls, and what is
/// shown only when pointed at, does not.
const BEYOND: &str = r"(() => {
    const within = e => !e.closest('.scroll') && !e.closest('.tip') && !e.closest('.hidden') && !e.closest('.skip');
    const beyond = [];
    const edge = document.documentElement.clientWidth + 1;
    document.querySelectorAll('body *').forEach(e => {
      if (within(e) && e.getBoundingClientRect().right > edge) beyond.push(e.tagName + '.' + e.getAttribute('class'));
    });
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(text);
      const box = text.parentElement;
      if (within(box) && [...range.getClientRects()].some(r => r.right > edge)) beyond.push(text.textContent.slice(0, 60));
    }
    return JSON.stringify(beyond);
  })()";

pub fn long_study() -> StudyReport {
    let mut report = full_report();
    report.matrices[0].title = LONG.to_owned();
    report
}

pub fn run_in_virtual_time() -> RunView {
    let runs = traced_runs(1, 5);
    let part =
        |executor, per_operation| PathRow { executor, instructions: 1, per_operation, per_request: None };
    let parts = nestor_results::Executor::ALL.into_iter().map(|executor| part(executor, 2_086_357.0));
    let path = PathView {
        instructions_per_ns: 1,
        window_s: 1.0,
        lowest_layer: None,
        parts: parts.collect(),
        together_per_operation: 12_345_678.0,
    };
    RunView { explanation: Some(explanation()), path: Some(path), ..RunView::of(&borrowed(&runs)).unwrap() }
}

#[test]
fn nothing_is_wider_than_the_page() {
    for html in [render_study(&long_study()), render_run(&run_in_virtual_time())] {
        for width in WIDTHS {
            let Some(mut page) = opened(&html, width) else { return };
            assert_eq!(page.value(BEYOND), "[]", "{width} px");
        }
    }
}

#[test]
fn names_in_the_matrix_are_broken_at_their_signs() {
    let mut report = full_report();
    for (name, option) in report.matrices[0].rows.iter_mut().zip(["writeback", "writethrough", "unsafe"]) {
        *name = format!("ext3/kvm:cache={option}:available=80M");
    }
    let html = render_study(&report);
    // Where no word may be broken, none is wider than its heading, and no interval than its cell.
    let cut = r"(() => {
        document.querySelector('.heat .interval').textContent = '[+3\u00a0810,\u00a0+4\u00a0580]';
        const headings = document.querySelectorAll('.heat th');
        headings.forEach(e => { e.style.overflowWrap = 'normal'; });
        const all = [...headings, ...document.querySelectorAll('.heat .interval')];
        return JSON.stringify(all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent));
      })()";
    for width in [1_400, 400] {
        let Some(mut page) = opened(&html, width) else { return };
        assert_eq!(page.value(cut), "[]", "{width} px");
    }
}
