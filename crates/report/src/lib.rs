//! Reports: what a person reads of the results, on a terminal and in a browser.
//!
//! Everything is pure: results in, text out. A report is made in two steps. A *view* ([`RunView`], [`CompareView`],
//! [`StudyReport`], [`RunsView`]) is what is to be said, as plain data; `--json` prints it as it is. [`text`] and [`html`]
//! say it.

pub mod html;
pub mod labels;
pub mod style;
pub mod text;
pub mod units;
pub mod view;

pub use html::{
    render_figure_svg, render_matrix_svg, render_run, render_study, render_time_spent_svg,
    render_waterfalls_svg,
};
pub use style::Style;
pub use text::{
    claim_findings, claim_table, compare_text, gate_text, link_table, run_text, runs_text, scoreboard_text,
    study_markdown, study_text, tables_text, trace_text,
};
pub use view::{
    CompareView, LayerRow, LifeView, LinkView, Matrix, MatrixCell, RunView, RunsView, StudyReport, TraceView,
};

#[cfg(test)]
mod tests;
