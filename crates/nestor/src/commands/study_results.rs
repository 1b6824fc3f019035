//! The results of a replicated study as files for a repository: scoreboard, plots, environment.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nestor_report::{
    StudyReport, Style, claim_findings, claim_table, render_figure_svg, render_matrix_svg, scoreboard_text,
    study_text, tables_text,
};
use nestor_results::{
    CellRecord, Figure, FigureKind, Fingerprint, Fingerprinting, Store, StudyRecord, duration_words,
};
use nestor_terminal::visible;

use crate::json::json_text;
use crate::whole_file;

/// Writes `README.md`, `matrix.txt`, `scoreboard.txt`, `claims.json`, `figures.json`, `environment.txt`, `matrix.svg`, a picture of each
/// figure and, if some are tables, `tables.txt` into a directory, which is made if it is not there. Files of other names are left alone.
///
/// # Errors
/// When the results cannot be read or a file cannot be written.
pub fn write_results(store: &Store, record: &StudyRecord, directory: &Path) -> Result<()> {
    refuse_foreign(&directory.join("README.md"))?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        whole_file::write_in_own(&path, visible(text).as_bytes())
            .with_context(|| format!("{} could not be written", path.display()))
    };
    let report = StudyReport::from_store(store, record)?;
    let board = scoreboard_text(&report.claims, Style::plain());
    write("scoreboard.txt", &board)?;
    write("claims.json", &(json_text(&report.claims)? + "\n"))?;
    write("figures.json", &(json_text(&report.figures)? + "\n"))?;
    let tables = tables_text(&report.figures, Style::plain());
    if !tables.trim().is_empty() {
        write("tables.txt", &tables)?;
    }
    write("matrix.txt", &study_text(&report, Style::plain()))?;
    write("matrix.svg", &render_matrix_svg(&report))?;
    let mut pictures = Vec::new();
    let is_picture =
        |f: &&Figure| f.problem.is_none() && !f.rows.is_empty() && f.query.kind != FigureKind::Table;
    for figure in report.figures.iter().filter(is_picture) {
        let name = format!("{}.svg", figure.query.id);
        write(&name, &render_figure_svg(figure))?;
        pictures.push((name, figure.query.title.clone()));
    }
    write("environment.txt", &environment_text(store, record)?)?;
    let told = (claim_findings(&report.claims), claim_table(&report.claims));
    write("README.md", &readme(record, &told, &board, (&pictures, &tables)))
}

/// The last line of a README of this program, by which it is known. It is part of the file's form.
const MARKER: &str = "<!-- results of nestor replicate -->";
/// What the line about the study has in a README of a version without [`MARKER`]: how it begins, and words in it.
const BEFORE_MARKER: [&str; 2] = ["Study `", ", made by `nestor replicate`. "];

/// Whether a README is of this program.
fn is_ours(readme: &str) -> bool {
    let [begins, has] = BEFORE_MARKER;
    readme.lines().next_back() == Some(MARKER)
        || readme.lines().any(|line| line.starts_with(begins) && line.contains(has))
}

/// Refuses to overwrite a README that Nestor did not write: the directory is then not one for results.
fn refuse_foreign(readme: &Path) -> Result<()> {
    let text = std::fs::read_to_string(readme).unwrap_or_default();
    if text.is_empty() || is_ours(&text) {
        return Ok(());
    }
    bail!(
        "{} is not a results file; nothing was written\n  name another directory: results files are \
         overwritten",
        readme.display()
    )
}

/// The findings first, in at most ten lines, then the scoreboard with a line for each claim, then the pictures and the figures that are
/// tables, and last how each verdict came about, which is hundreds of lines long.
fn readme(
    record: &StudyRecord,
    (findings, table): &(Vec<String>, String),
    board: &str,
    (pictures, tables): (&[(String, String)], &str),
) -> String {
    let scale = record.study.scale.as_ref().map(|s| format!(", scale `{s}`")).unwrap_or_default();
    let mut text = format!(
        "# {}\n\n{}\n\nStudy `{}`{scale}, made by `nestor replicate`. How it was measured: [environment.txt](environment.txt). \
         All cells: [matrix.txt](matrix.txt). The claims with all their numbers: [claims.json](claims.json); the figures: \
         [figures.json](figures.json). How each verdict came about: [below](#every-claim).\n\n{table}\n\
         ![All cells against the raw disk](matrix.svg)\n",
        record.study.title,
        findings.join("\n"),
        record.study.name,
    );
    for (name, title) in pictures {
        let _ = write!(text, "\n## {title}\n\n![{title}]({name})\n");
    }
    if !tables.trim().is_empty() {
        let _ = write!(text, "\n## Tables\n\n```\n{tables}```\n");
    }
    let _ = write!(text, "\n## Every claim\n\n```\n{board}```\n");
    text + "\n" + MARKER + "\n"
}

/// What the runs have in common, and what differs, each value with its number of runs.
fn environment_text(store: &Store, record: &StudyRecord) -> Result<String> {
    let mut facts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut runs = 0;
    let mut all = Fingerprinting::default();
    for number in store.numbers(&crate::commands::study_report::of_study(record))? {
        let run = store.run(number)?.record;
        runs += 1;
        all.add(&run)?;
        for (name, value) in facts_of(&run) {
            *facts.entry(name).or_default().entry(value).or_default() += 1;
        }
    }
    let place = record.ground.as_asked();
    let mut text = format!("{runs} runs on `--on {place}`, seed {}\n", record.study.seed);
    if let Some(Fingerprint { decided_by, outcome }) = all.end() {
        let _ = writeln!(text, "decided by {decided_by} (programs, images, stacks, workloads, seeds)");
        let _ = writeln!(text, "outcome    {outcome} (the same wherever the line above is the same)");
    }
    for session in &record.sessions {
        let words = |seconds: f64| duration_words(std::time::Duration::from_secs(seconds as u64));
        let took = session.elapsed_s.map_or_else(|| "killed".to_owned(), words);
        let _ = writeln!(
            text,
            "session from {}: {} cells in {took}, in which loads ran for {}; planned {} to {}",
            session.began_at,
            session.cells,
            words(session.load_s),
            words(session.planned_s.0),
            words(session.planned_s.1)
        );
    }
    for (name, values) in &facts {
        let several = values.len() > 1;
        for (value, count) in values {
            let share = if several { format!("  ({count} runs)") } else { String::new() };
            let _ = writeln!(text, "{name}: {value}{share}");
        }
    }
    Ok(text)
}

fn facts_of(record: &CellRecord) -> Vec<(String, String)> {
    let environment = &record.environment;
    let mut facts = vec![("Nestor".to_owned(), environment.nestor.clone())];
    facts.extend(environment.machines.iter().map(|m| (format!("machine {}", m.label), m.in_words())));
    facts.extend(environment.packages.iter().map(|(name, version)| (name.clone(), version.clone())));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_is_known_by_its_last_line_or_by_the_words_of_older_versions() {
        assert!(is_ours(&format!("# Any title\n\n{MARKER}\n")));
        let before =
            "# T\n\nStudy `nested-fs`, scale `quick`, made by `nestor replicate`. How it was measured: x.\n";
        assert!(is_ours(before));
        assert!(!is_ours(&format!(
            "# Mine\n\nREADMEs of results end with\n{MARKER}\nand are overwritten.\n"
        )));
        assert!(!is_ours("# Mine\n\nThese numbers were made by `nestor replicate`. See there.\n"));
    }
}
