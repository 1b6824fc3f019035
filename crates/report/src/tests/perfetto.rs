//! The button that opens a run's requests in Perfetto's viewer.

use std::io::Read as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use nestor_results::{Outcome, StoredRun};
use serde_json::json;

use super::browser::chromium;
use super::devtools::Page;
use super::fixture::borrowed;
use super::traced::traced_runs;
use crate::{RunView, render_run};

/// Stands for the viewer: it keeps what it is sent, and takes a trace only after it has answered.
const VIEWER: &str = "window.sent = []; window.viewer = { closed: false, postMessage: (message, origin) => \
                      sent.push([message, origin]) }; window.open = url => { window.opened = url; return viewer; }";

#[test]
fn the_viewer_gets_the_trace_that_the_link_saves() {
    let Some(chromium) = chromium() else {
        eprintln!("not tried: chromium is not installed");
        return;
    };
    let runs = traced_runs(1, 1);
    let mut page = Page::open(&chromium, &render_run(&RunView::of(&borrowed(&runs)).unwrap()), 1_280, 800);
    assert_eq!(page.requests(), Vec::<String>::new());
    page.value(VIEWER);
    page.value("document.querySelector('button.perfetto').click()");
    assert_eq!(page.value("opened"), "https://ui.perfetto.dev");
    let answer = |origin: &str| {
        let event = json!({ "data": "PONG", "origin": origin });
        format!(
            "dispatchEvent(new MessageEvent('message', {event})); sent.filter(([m]) => m !== 'PING').length"
        )
    };
    assert_eq!(page.value(&answer("https://elsewhere.example")), 0);
    assert_eq!(page.value(&answer("https://ui.perfetto.dev")), 1);
    assert_eq!(page.value("sent.every(([, origin]) => origin === 'https://ui.perfetto.dev')"), true);
    let sent = page.value(
        "btoa(String.fromCharCode(...new Uint8Array(sent.find(([m]) => m !== 'PING')[0].perfetto.buffer)))",
    );
    let saved = page.value("document.querySelector('.save a[download$=gz]').href.split(',')[1]");
    assert_eq!(sent, saved);
    let compressed = BASE64_STANDARD.decode(sent.as_str().unwrap()).unwrap();
    let mut trace = Vec::new();
    GzDecoder::new(&compressed[..]).read_to_end(&mut trace).unwrap();
    for name in ["guest block", "hypervisor", "medium"] {
        assert!(trace.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name}");
    }
}

#[test]
fn without_requests_there_is_no_trace() {
    let mut runs = traced_runs(1, 1);
    let page = |runs: &[StoredRun]| render_run(&RunView::of(&borrowed(runs)).unwrap());
    assert!(page(&runs).contains("requests.perfetto-trace.gz"));
    if let Outcome::Measured(measured) = &mut runs[0].record.outcome {
        let correlation = measured.correlation.as_mut().unwrap();
        correlation.trees.clear();
        correlation.timeline.clear();
    }
    assert!(!page(&runs).contains("requests.perfetto-trace.gz"));
}
