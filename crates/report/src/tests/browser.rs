//! The pages in a real browser: nothing complains, no picture is empty, no text leaves its place or lies over another.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::fixture::*;
use super::traced::{explanation, traced_runs};
use crate::{RunView, StudyReport, render_run, render_study, render_time_spent_svg, render_waterfalls_svg};

/// Where distributions put it, under which names.
pub fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders = ["/usr/bin", "/usr/local/bin", "/snap/bin"];
    folders
        .iter()
        .flat_map(|folder| names.map(|name| Path::new(folder).join(name)))
        .find(|path| path.exists())
}

/// Windows of a desk and of a telephone.
const WIDE: u32 = 1_280;
const NARROW: u32 = 500;

/// Runs first: collects what would be printed to the console.
const BEFORE: &str = "<script>
window.complaints = [];
addEventListener('error', function (e) { complaints.push(String(e.message || e.target)); }, true);
console.error = console.warn = function () { complaints.push([].join.call(arguments, ' ')); };
</script>";

/// Runs last: opens every cell and measures what is there.
const AFTER: &str = r#"<script>
document.querySelectorAll("details").forEach(function (d) { d.open = true; });
var found = { complaints: window.complaints, svgs: 0, empty: [], outside: [], overlapping: [], wider: [] };
function says(t) { return t.textContent.slice(0, 60); }
document.querySelectorAll("svg").forEach(function (svg) {
  if (svg.ownerSVGElement) return;
  found.svgs += 1;
  var kind = svg.getAttribute("class"), whole = svg.getBoundingClientRect();
  var scale = whole.width / svg.viewBox.baseVal.width;
  var drawn = svg.querySelectorAll("rect,path,circle").length;
  if (!drawn || whole.width < 10 || whole.height < 4) found.empty.push(kind);
  var texts = [].map.call(svg.querySelectorAll("text"), function (t) { return { t: t, b: t.getBoundingClientRect() }; });
  function outside(b, room, across, down) {
    return b.left < room.left - across || b.right > room.right + across || b.top < room.top - down || b.bottom > room.bottom + down;
  }
  texts.forEach(function (a, i) {
    if (outside(a.b, whole, 0.5, 2)) found.outside.push(kind + ": " + says(a.t));
    if (a.t.classList.contains("inside")) {
      var room = a.t.parentNode.querySelector("rect.serve");
      if (room && outside(a.b, room.getBoundingClientRect(), 0.5, 4)) found.outside.push(kind + " bar: " + says(a.t));
    }
    texts.slice(i + 1).forEach(function (c) {
      var across = Math.min(a.b.right, c.b.right) - Math.max(a.b.left, c.b.left);
      var down = Math.min(a.b.bottom, c.b.bottom) - Math.max(a.b.top, c.b.top);
      // Lines of text stand closer than their boxes are tall.
      if (across > 0.5 && down > 4 * scale) found.overlapping.push(kind + ": " + says(a.t) + " / " + says(c.t));
    });
  });
});
if (document.documentElement.scrollWidth > document.documentElement.clientWidth)
  document.querySelectorAll("main *").forEach(function (e) {
    if (!e.closest(".scroll") && !e.closest(".tip") && e.getBoundingClientRect().right > innerWidth + 1) found.wider.push(e.tagName + "." + (e.className.baseVal || e.className));
  });
var shown = document.createElement("pre");
shown.id = "found";
shown.textContent = "FOUND" + JSON.stringify(found).replace(/[<>&\u00a0-\uffff]/g, "?") + "DNUOF";
document.body.appendChild(shown);
</script>"#;

#[derive(Debug, Deserialize)]
struct Found {
    complaints: Vec<String>,
    svgs: usize,
    empty: Vec<String>,
    outside: Vec<String>,
    overlapping: Vec<String>,
    wider: Vec<String>,
}

/// What a browser with a window of that width finds.
fn found(chromium: &Path, html: &str, width: u32) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let (page, dom) = (folder.path().join("page.html"), folder.path().join("dom.html"));
    let probed = html.replacen("<head>", &format!("<head>{BEFORE}"), 1).replacen(
        "</body>",
        &format!("{AFTER}</body>"),
        1,
    );
    std::fs::write(&page, probed).unwrap();
    let mut browser = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={width},1000"))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&dom).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Nothing here depends on the time; this only ends a browser that hangs.
    let deadline = Instant::now() + Duration::from_secs(120);
    while browser.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            browser.kill().unwrap();
            panic!("the browser does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = std::fs::read_to_string(&dom).unwrap();
    let start = dom.rfind("FOUND{").expect("the page's last script ran") + "FOUND".len();
    let json = &dom[start..start + dom[start..].find("DNUOF").unwrap()];
    serde_json::from_str(&json.replace("&amp;", "&")).unwrap()
}

fn assert_clean(html: &str, least_svgs: usize, width: u32) {
    let Some(chromium) = chromium() else {
        eprintln!("not tried: chromium is not installed");
        return;
    };
    let found = found(&chromium, html, width);
    assert!(found.svgs >= least_svgs, "{} pictures", found.svgs);
    let nothing: [String; 0] = [];
    assert_eq!(found.complaints, nothing, "console, window {width}");
    assert_eq!(found.empty, nothing, "empty pictures, window {width}");
    assert_eq!(found.outside, nothing, "text outside of its place, window {width}");
    assert_eq!(found.overlapping, nothing, "text over text, window {width}");
    assert_eq!(found.wider, nothing, "elements wider than the window {width}");
}

#[test]
fn a_traced_run_is_drawn_cleanly() {
    let runs = traced_runs(1, 5);
    let view = RunView { explanation: Some(explanation()), ..RunView::of(&borrowed(&runs)).unwrap() };
    assert_clean(&render_run(&view), 14, WIDE);
}

#[test]
fn the_picture_of_a_run_is_drawn_cleanly() {
    let runs = traced_runs(1, 1);
    let run = RunView::of(&borrowed(&runs)).unwrap();
    for picture in [render_waterfalls_svg(&run).unwrap(), render_time_spent_svg(&run).unwrap()] {
        let page = format!(
            "<!doctype html><html><head></head><body><main class=\"scroll\">{picture}</main></body></html>"
        );
        assert_clean(&page, 1, WIDE);
    }
    let plain = stored(super::fixture::runs(2, 1, 1));
    assert_eq!(render_waterfalls_svg(&RunView::of(&borrowed(&plain)).unwrap()), None);
    assert_eq!(render_time_spent_svg(&RunView::of(&borrowed(&plain)).unwrap()), None);
}

#[test]
fn a_study_without_traces_is_drawn_cleanly() {
    assert_clean(&render_study(&StudyReport::of(&study(3), &study_runs())), 40, WIDE);
}

#[test]
fn a_study_with_claims_and_figures_is_drawn_cleanly() {
    for width in [WIDE, NARROW] {
        assert_clean(&render_study(&super::study::full_report()), 40, width);
    }
}

#[test]
fn pictures_of_figures_are_drawn_cleanly() {
    for figure in super::study::figures().iter().filter(|f| f.problem.is_none()) {
        let picture = crate::render_figure_svg(figure);
        let page = format!(
            "<!doctype html><html><head></head><body><main class=\"scroll\">{picture}</main></body></html>"
        );
        assert_clean(&page, 1, WIDE);
    }
}

#[test]
fn the_picture_of_a_matrix_is_drawn_cleanly_whatever_its_names() {
    let mut report = StudyReport::of(&study(3), &study_runs());
    let long =
        "kvm:cache=none:aio=native:iothread=on/qcow2:cluster_size=64k/ext4:journal=data:mount=nobarrier";
    for (i, name) in report.matrices[0].columns.iter_mut().enumerate() {
        *name = long[..(20 + 25 * i).min(long.len())].to_owned();
    }
    report.matrices[0].rows[0] = format!("{long} under {long}");
    report.matrices[0].title = [long; 3].join(", ");
    let picture = crate::render_matrix_svg(&report);
    assert_clean(
        &format!(
            "<!doctype html><html><head></head><body><main class=\"scroll\">{picture}</main></body></html>"
        ),
        1,
        WIDE,
    );
}

#[test]
fn columns_of_long_names_are_told_apart_in_the_picture_of_a_matrix() {
    let report = study_of_disks();
    let picture = crate::render_matrix_svg(&report);
    assert!(!picture.contains('…'), "a name is cut");
    let columns = &report.matrices[0].columns;
    assert!(columns.len() >= 9 && columns.iter().any(|name| name.len() > 50), "{columns:?}");
    for width in [1_400, 800, 400] {
        assert_clean(
            &format!(
                "<!doctype html><html><head></head><body><main class=\"scroll\">{picture}</main></body></html>"
            ),
            1,
            width,
        );
    }
}

#[test]
fn long_names_are_cut_not_drawn_over_others() {
    let mut runs = traced_runs(0, 1);
    let long =
        "dev:/dev/disk/by-id/a-name-of-a-device-that-nobody-would-believe-could-be-as-long-as-this-one-is";
    if let nestor_results::Outcome::Measured(measured) = &mut runs[0].record.outcome {
        measured.layers[1].layer = long.to_owned();
        measured.layers[1].machine = "guest 2 within a guest within a host".into();
        let correlation = measured.correlation.as_mut().unwrap();
        correlation.levels[0].layer = long.to_owned();
        correlation.levels[2].kind = long.into();
        correlation.trees[1].root.request.bytes = u64::MAX;
        correlation.trees[2].root.request.completed_ns += 900_000_000;
    }
    assert_clean(&render_run(&RunView::of(&borrowed(&runs)).unwrap()), 12, NARROW);
}
