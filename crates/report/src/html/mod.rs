//! The views as one HTML file that needs nothing else: no network, no fonts, no scripts from elsewhere.

mod cell_page;
mod charts;
mod figure;
mod findings;
mod heat;
mod layer_colour;
mod life;
mod measured;
mod page;
mod picture;
mod record;
mod scoreboard;
mod svg;
mod table;
mod trace;

use minijinja::value::Serde;
use minijinja::{Environment, Value, context};

use crate::view::{RunView, StudyReport};

pub use figure::render_figure_svg;
pub use picture::render_matrix_svg;
pub use trace::{render_time_spent_svg, render_waterfalls_svg};

/// A whole study: the answer and the matrix on the first screen, then every cell down to the medium.
pub fn render_study(report: &StudyReport) -> String {
    render("study.html", Value::from(Serde(page::StudyPage::of(report))))
}

/// One stack under one workload.
pub fn render_run(view: &RunView) -> String {
    render("run.html", Value::from(Serde(page::RunPage::of(view))))
}

fn render(template: &str, page: Value) -> String {
    let mut environment = Environment::new();
    // Templates named `.html` escape everything they are given, except the charts, which escape by themselves.
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).expect("the templates are constant and tested");
    }
    environment.add_filter("breakable", breakable);
    let html = environment
        .get_template(template)
        .and_then(|t| {
            t.render(context! {
                page,
                style => Value::from_safe_string(STYLE.to_owned()),
                script => Value::from_safe_string(SCRIPT.to_owned()),
            })
        })
        .expect("the templates are constant and tested, and a page holds every value that they name");
    // Escaping makes text harmless to a browser; a page is also read in terminals, and by people.
    nestor_terminal::visible(&html).into_owned()
}

/// A stack or a workload of which lines may be broken after `/` and `=` and before `:`, and not within its words.
fn breakable(text: &str) -> Value {
    let escaped = nestor_text::markup_escaped(text)
        .replace('=', "=<wbr>")
        .replace('/', "/<wbr>")
        .replace(':', "<wbr>:");
    Value::from_safe_string(escaped)
}

const STYLE: &str = concat!(include_str!("templates/style.css"), include_str!("templates/plot.css"));
/// What drawn figures need of it.
const PLOT_STYLE: &str = include_str!("templates/plot.css");
const SCRIPT: &str = include_str!("templates/script.js");
const TEMPLATES: [(&str, &str); 11] = [
    ("page.html", include_str!("templates/page.html")),
    ("study.html", include_str!("templates/study.html")),
    ("table.html", include_str!("templates/table.html")),
    ("claims.html", include_str!("templates/claims.html")),
    ("figures.html", include_str!("templates/figures.html")),
    ("measured.html", include_str!("templates/measured.html")),
    ("run.html", include_str!("templates/run.html")),
    ("findings.html", include_str!("templates/findings.html")),
    ("life.html", include_str!("templates/life.html")),
    ("trace.html", include_str!("templates/trace.html")),
    ("cell.html", include_str!("templates/cell.html")),
];

/// A sentence with micro signs; its spaces stay, so that it can be broken.
fn with_micro_signs(text: &str) -> String {
    text.replace(" us", " µs")
}

/// A sentence in which no line ends between a number and its unit.
fn sentence(text: &str) -> String {
    let words = nestor_text::unbreakable(text);
    let words: Vec<String> = words.iter().map(|w| with_micro_signs(w).replace(' ', "\u{a0}")).collect();
    words.join(" ")
}

/// A number with a real minus, a micro sign, and no line break before its unit.
fn typeset(text: &str) -> String {
    text.replace(" us", " µs").replace('-', "−").replace(' ', "\u{a0}")
}
