//! What people see in a browser.

use nestor_results::claims::Answers;

use super::fixture::*;
use super::study::finding;
use super::traced::{explanation, traced_runs};
use crate::{RunView, StudyReport, render_matrix_svg, render_run, render_study, render_waterfalls_svg};

#[test]
#[ignore = "writes the made-up reports to the folder NESTOR_MADE_UP_REPORTS, to be looked at in a browser"]
fn write_the_made_up_reports() {
    let folder = std::path::PathBuf::from(std::env::var_os("NESTOR_MADE_UP_REPORTS").expect("a folder"));
    let report = StudyReport::of(&study(3), &study_runs());
    std::fs::write(folder.join("study.html"), render_study(&report)).unwrap();
    std::fs::write(folder.join("matrix.svg"), render_matrix_svg(&report)).unwrap();
    std::fs::write(folder.join("matrix-of-disks.svg"), render_matrix_svg(&study_of_disks())).unwrap();
    std::fs::write(folder.join("full.html"), render_study(&super::study::full_report())).unwrap();
    for figure in super::study::figures() {
        let name = format!("{}.svg", figure.query.id);
        std::fs::write(folder.join(name), crate::render_figure_svg(&figure)).unwrap();
    }
    let runs = traced_runs(1, 5);
    let view = RunView { explanation: Some(explanation()), ..RunView::of(&borrowed(&runs)).unwrap() };
    std::fs::write(folder.join("run.html"), render_run(&view)).unwrap();
    std::fs::write(folder.join("lives.html"), render_run(&super::life::view_of_two())).unwrap();
    std::fs::write(folder.join("waterfalls.svg"), render_waterfalls_svg(&view).unwrap()).unwrap();
}

/// The report with every number that a test does not care about.
fn whole() -> String {
    render_study(&StudyReport::of(&study(3), &study_runs()))
}

#[test]
fn the_file_needs_nothing_else() {
    let html = whole();
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        let found = html.find(outside).map(|at| &html[at..html.len().min(at + 60)]);
        assert_eq!(found, None, "{outside}");
    }
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

#[test]
fn the_first_screen_says_the_answer_how_sure_and_what_is_less_than_it_seems() {
    let html = whole();
    let matrix = html.find("<table class=\"heat\"").unwrap();
    let first = &html[..matrix];
    let order = [
        "A made-up study",
        "Physically plausible?</b> yes in 14 of 15 cells",
        "on an emulated host (TCG",
        "11 comparisons with a baseline: 5 slower",
    ];
    let places: Vec<_> = order.iter().map(|needed| first.find(needed).expect(needed)).collect();
    assert!(places.is_sorted());
    // What names whole stacks takes lines, and stands below.
    let below = ["Slowest: ", "42 fresh stacks measured"].map(|needed| html.find(needed).expect(needed));
    assert!(below[0] > matrix && below.is_sorted());
    for needed in [
        "−35.4",
        "[−35.5,\u{a0}−35.3]",
        "failed",
        "budget of 5 min ended",
        "C</dt>",
        "its console ended with: &lt;panic&gt;",
    ] {
        assert!(html.contains(needed), "{needed}");
    }
}

#[test]
fn every_cell_leads_from_the_application_to_the_medium() {
    let html = whole();
    assert_eq!(html.matches("<details class=\"cell\"").count(), 16);
    let cell_of = |anchor: &str| {
        let start = html.find(&format!("id=\"{anchor}\"")).unwrap();
        let rest = &html[start..];
        &rest[..rest.find("</details>").unwrap()]
    };
    let nested = cell_of("cell-2");
    let places: Vec<_> = ["application", "ext3", "kvm&#x2f;raw", "jfs", "hdd"]
        .iter()
        .map(|layer| nested.find(&format!(">{layer}</b>")).unwrap_or_else(|| panic!("{layer} is missing")))
        .collect();
    assert!(places.is_sorted());
    for needed in
        ["seek 62 %", "from memory: some of the data never reached the medium", "256 MiB, CPUs busy 22 %"]
    {
        assert!(nested.contains(needed), "{needed}");
    }
    // What all cells share stands once on the page.
    for once in ["Linux 6.1.0-28-amd64, tcg", "emptied in every machine", "1.47.0-2"] {
        assert_eq!(html.matches(once).count(), 1, "{once}");
    }
    // Every link of the matrix leads somewhere.
    for link in html.split("href=\"#").skip(1) {
        let anchor = &link[..link.find('"').unwrap()];
        assert!(html.contains(&format!("id=\"{anchor}\"")), "{anchor}");
    }
}

#[test]
fn a_remark_stands_with_the_cells_that_it_is_about() {
    let mut runs = study_runs();
    for run in &mut runs {
        let of_one = run.record.stack == STACKS[1] && run.record.workload == WORKLOADS[1];
        let remarks = &mut run.record.environment.remarks;
        remarks.push("said of all".to_owned());
        remarks.extend(of_one.then(|| "said of one".to_owned()));
    }
    let html = render_study(&StudyReport::of(&study(2), &runs));
    let cells: Vec<&str> = html.split("<details class=\"cell\"").skip(1).collect();
    let say = |words: &str| cells.iter().filter(|cell| cell.contains(words)).count();
    assert_eq!((say("said of one"), say("said of all")), (1, 0));
    // Of all cells once, and of the place of the runs.
    assert_eq!(html.matches("said of all").count(), 1);
}

#[test]
fn names_that_differ_at_their_ends_are_told_apart_in_a_table_of_colours() {
    let mut figure = super::study::figures().swap_remove(1);
    figure.query.title = "Smallest, mean and largest ratio to native: over the whole grid, and over the points that were measured".to_owned();
    figure
        .rows
        .iter_mut()
        .for_each(|row| row.series = format!("raid0-14x10k:size=6G, memory=384M, {}", row.series));
    let svg = crate::render_figure_svg(&figure);
    assert!(!svg.contains('\u{2026}'), "no name is cut");
    for guest in ["ext2", "reiserfs"] {
        assert!(
            svg.contains(&format!("memory=384M, {guest}</text>"))
                || svg.contains(&format!(">{guest}</text>")),
            "{guest}"
        );
    }
    let title: Vec<&str> = svg.split("class=\"title\"").skip(1).collect();
    assert_eq!(title.len(), 2, "the title has two lines");
}

#[test]
fn a_study_without_runs_and_a_run_without_numbers_have_a_page() {
    let empty = render_study(&StudyReport::of(&study(2), &[]));
    assert!(empty.contains("Nothing can be compared yet") && empty.contains("not run"));
    let failed: Vec<_> = study_runs().into_iter().filter(|r| r.record.failure().is_some()).collect();
    let page = render_run(&RunView::of(&borrowed(&failed)).unwrap());
    assert!(page.contains("no number") && page.contains("the guest did not answer"));
}

/// The tags of a page, without what is between them: where hostile text breaks out, they change.
fn skeleton(html: &str) -> Vec<String> {
    let after_script = html.split("<script>").next().unwrap_or_default();
    after_script
        .split('<')
        .skip(1)
        .map(|tag| tag.split(['>', ' ']).next().unwrap_or_default().to_owned())
        // Where a name may be broken, which depends on the name.
        .filter(|tag| tag != "wbr")
        .collect()
}

fn with_names(stack: &str, text: &str) -> (String, String) {
    let mut record = study_runs().remove(0).record;
    record.stack = stack.into();
    record.workload = text.into();
    record.environment.settings.insert("a setting".to_owned(), text.to_owned());
    record.environment.machines[0].cpu_model = text.to_owned();
    record.marks.push(nestor_results::Mark::Cached { reason: text.to_owned() });
    if let nestor_results::Outcome::Measured(measured) = &mut record.outcome {
        measured.load.engine = text.to_owned();
        measured.layers[1].layer = text.to_owned();
        measured.layers[1].metrics.as_mut().unwrap().remarks.push(text.to_owned());
    }
    let mut failed = record.clone();
    failed.block = 1;
    failed.outcome = nestor_results::Outcome::Failed(nestor_results::CellFailure::new(
        nestor_results::FailureCause::MachineLost,
        text,
    ));
    let mut begun = study(2);
    begun.study.title = text.to_owned();
    begun.study.stacks = vec![stack.into()];
    begun.study.baselines = [(stack.into(), stack.into())].into();
    begun.study.workloads = vec![text.into()];
    let mut claims = super::study::claims();
    for result in &mut claims {
        for place in
            [&mut result.claim.id, &mut result.claim.title, &mut result.claim.place, &mut result.reason]
        {
            *place = text.to_owned();
        }
        result.claim.note = Some(text.to_owned());
        result.other[0].0 = text.to_owned();
        result.why = vec![text.to_owned()];
        result.doubts = vec![text.to_owned()];
    }
    let mut figure = super::study::figures().swap_remove(1);
    for place in [&mut figure.query.id, &mut figure.query.title, &mut figure.query.x, &mut figure.query.y] {
        *place = text.to_owned();
    }
    figure.problem = Some(text.to_owned());
    let report = StudyReport::of(&begun, &stored(vec![record, failed])).with(Answers {
        claims,
        figures: vec![figure],
        findings: vec![finding(text)],
    });
    (render_study(&report), render_matrix_svg(&report))
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(32))]

    #[test]
    fn hostile_text_never_breaks_out(
        stack in "[<>\"'&a-z/ ={}%]{1,30}",
        text in "(\\PC|[\u{0}-\u{1f}]|</?script>|<!--|-->|\"|'|&|<img onerror=x>|\\{\\{|\\{%|\\]\\]>){1,12}",
    ) {
        // The same page with harmless text of the same kind: one line, no leading sign, not empty.
        let (html, svg) = with_names(&stack, &text);
        let (tame_html, tame_svg) = with_names("tame", "harmless");
        proptest::prop_assert_eq!(skeleton(&html), skeleton(&tame_html));
        let drawn = |svg: &str| skeleton(svg).into_iter().filter(|t| !t.contains("text")).collect::<Vec<_>>();
        proptest::prop_assert_eq!(drawn(&svg), drawn(&tame_svg));
        proptest::prop_assert!(!svg.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    }
}

#[test]
fn the_matrix_comes_before_the_findings_and_what_is_unsure_is_hatched() {
    let html = render_study(&super::study::full_report());
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("id=\"matrix\"") < place("id=\"findings\""));
    assert!(place("href=\"#matrix\"") < place("href=\"#findings\""));
    // The strength of a colour says how large the change is, whether it is told apart or not.
    let report = StudyReport::of(&study(3), &study_runs());
    let cells = report.matrices.iter().flat_map(|m| m.cells.iter().flatten());
    let unsure = cells.filter(|c| c.ratio.is_some_and(|r| r.differs() != Some(true))).count();
    assert!(unsure > 0);
    assert_eq!(whole().matches(" unsure\"").count(), unsure);
}
