//! A figure alone as a picture, for a document or a slide.

use std::fmt::Write as _;

use nestor_results::Figure;
use nestor_text::markup_escaped;

use super::{Anchor, Svg, in_lines, panels, problem};

const MARGIN: f64 = 20.0;
/// Panels stand beside each other up to this width.
const WIDEST: f64 = 1_180.0;
/// Size of the title's letters, and how much wider bold ones are.
const TITLE: f64 = 17.0;
const BOLD: f64 = 1.1;
/// What the page's style sheet says of its variables.
const VARIABLES: &str = "svg{--page:#fff;--ink:#1d2329;--quiet:#5a646e;--line:#dde2e7;--neutral:#eef0f2;--hatch:rgb(255 255 255/.75);--slower:#e07b1a;--faster:#2f7fc1}\
@media(prefers-color-scheme:dark){svg{--page:#14181c;--ink:#e6e9ec;--quiet:#9aa4ae;--line:#2e363e;--neutral:#2a3138;--hatch:rgb(20 24 28/.55);--slower:#a8540a;--faster:#1f66a5}}\
.background{fill:var(--page)}.title{font:650 17px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink)}\
.panel{font:600 14px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink)}";

/// A figure with all its panels, as a picture that stands alone and follows light and dark. One that could not be drawn
/// says why.
pub fn render_figure_svg(figure: &Figure) -> String {
    let panels = panels(figure);
    let title = format!("{}: {}", figure.query.id, figure.query.title);
    let mut body = Svg::part();
    let (mut x, mut y, mut row, mut width) = (MARGIN, MARGIN + 40.0, 0.0_f64, 480.0_f64);
    let mut placed = String::new();
    for panel in &panels {
        if x > MARGIN && x + panel.width > WIDEST {
            (x, y, row) = (MARGIN, y + row + 20.0, 0.0);
        }
        let head = if panel.title.is_empty() { 0.0 } else { 20.0 };
        let mut name = Svg::part();
        name.text("panel", 2.0, 14.0, Anchor::Start, &panel.title);
        let _ = write!(
            placed,
            "<g transform=\"translate({x:.0} {y:.0})\"><desc>{}</desc>{}<g class=\"plot\" transform=\"translate(0 {head:.0})\">{}</g></g>",
            markup_escaped(&panel.description),
            name.into_part(),
            panel.body
        );
        row = row.max(panel.height + head);
        width = width.max(x + panel.width + MARGIN);
        x += panel.width + 30.0;
    }
    if let Some(problem) = problem(figure) {
        body.text("panel", MARGIN, y, Anchor::Start, &problem);
        row = 20.0;
    }
    let height = y + row + MARGIN;
    let mut heading = Svg::part();
    for (i, line) in in_lines(&title, (width - 2.0 * MARGIN) / BOLD, TITLE, 2).iter().enumerate() {
        heading.text("title", MARGIN, MARGIN + 12.0 + i as f64 * 19.0, Anchor::Start, line);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\"><title>{}</title><style>{VARIABLES}{}</style>\
         <rect class=\"background\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\"/>{}{}{placed}</svg>\n",
        markup_escaped(&title),
        crate::html::PLOT_STYLE,
        heading.into_part(),
        body.into_part(),
    )
}
