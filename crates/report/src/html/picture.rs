//! The matrix alone as a picture, for a README or a slide.

use std::fmt::Write as _;

use nestor_text::markup_escaped;

use super::heat::{Direction, HeatCell, HeatMap, heat_maps};
use super::svg::{fitted, hatching, text_width};
use crate::view::StudyReport;

const CELL_HEIGHT: usize = 54;
const MARGIN: usize = 24;
/// Least and largest widths of a cell and of the names of the rows; longer names are cut.
const CELL_WIDTHS: (f64, f64) = (150.0, 230.0);
const NAME_WIDTHS: (f64, f64) = (190.0, 360.0);
/// Letters of the names of rows, and of columns and intervals.
const ROW_LETTER: f64 = 14.0;
const COLUMN_LETTER: f64 = 12.0;
/// Letters of the texts above and below that fit a hundred units of width.
const LETTERS_PER_100: usize = 15;

const STYLE: &str = "text{font:14px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1d2329}\
.title{font-size:19px;font-weight:650}.quiet{fill:#5a646e;font-size:12px}.value{font-weight:600}\
.caution{fill:#8a5300;font-size:13px}.page{fill:#fff}.neutral{fill:#eef0f2}.slower{fill:#e07b1a}.faster{fill:#2f7fc1}.hatch{fill:none;stroke:#fff;stroke-opacity:.75;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6e9ec}.quiet{fill:#9aa4ae}.caution{fill:#f0b35b}.page{fill:#14181c}.neutral{fill:#2a3138}.slower{fill:#a8540a}.faster{fill:#1f66a5}.hatch{stroke:#14181c;stroke-opacity:.55}}";

/// The matrices of a study with their legend, as a picture that stands alone and follows light and dark.
pub fn render_matrix_svg(report: &StudyReport) -> String {
    let maps = heat_maps(report);
    let columns = maps.iter().map(|m| m.columns.len()).max().unwrap_or(0);
    let widths = Widths::of(&maps);
    let width = MARGIN * 2 + widths.names + columns.max(3) * widths.cell;
    let mut body = String::new();
    let mut y = MARGIN + 14;
    line(&mut body, MARGIN, y, "title", &report.title);
    y += 6;
    for sentence in report.honesty.iter().take(1) {
        for part in broken(sentence, (width - 2 * MARGIN) * LETTERS_PER_100 / 100) {
            y += 18;
            line(&mut body, MARGIN, y, "caution", &part);
        }
    }
    for map in &maps {
        y = draw_map(&mut body, map, &widths, y + 26);
    }
    for text in legend(report) {
        for part in broken(&text, (width - 2 * MARGIN) * LETTERS_PER_100 / 100) {
            y += 18;
            line(&mut body, MARGIN, y, "quiet", &part);
        }
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\"><title>{}</title><style>{STYLE}</style><rect class=\"page\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\
         {body}</svg>\n",
        markup_escaped(&report.title)
    )
}

/// What colours and letters mean, and what every cell has in common.
fn legend(report: &StudyReport) -> Vec<String> {
    let mut lines = vec![format!(
        "Throughput against the raw disk or the named baseline, {} interval. Blue is faster, orange slower; the stronger, the more. Hatched: not told apart.",
        report.confidence()
    )];
    let common = report.common_marks.iter().filter(|m| !m.is_emulation);
    lines.extend(common.map(|m| format!("Every cell: {}", m.meaning)));
    lines.extend(report.other_marks.iter().map(|m| format!("{}: {}", m.letter, m.meaning)));
    lines
}

/// Widths that all matrices of the picture share, so that their columns stand below each other.
struct Widths {
    cell: usize,
    names: usize,
}

impl Widths {
    fn of(maps: &[HeatMap]) -> Self {
        let widest = |names: Vec<&String>, letter| {
            names.iter().map(|name| text_width(name, letter) + 12.0).fold(0.0, f64::max)
        };
        let columns = widest(maps.iter().flat_map(|map| &map.columns).collect(), COLUMN_LETTER);
        let rows = maps.iter().flat_map(|map| map.rows.iter().map(|row| &row.name));
        let rows = widest(rows.collect(), ROW_LETTER);
        Self {
            cell: columns.clamp(CELL_WIDTHS.0, CELL_WIDTHS.1) as usize,
            names: rows.clamp(NAME_WIDTHS.0, NAME_WIDTHS.1) as usize,
        }
    }
}

fn draw_map(body: &mut String, map: &HeatMap, widths: &Widths, top: usize) -> usize {
    let room = |width: usize| width as f64 - 8.0;
    let mut y = top;
    line(body, MARGIN, y, "value", &map.title);
    y += 22;
    for (i, name) in map.columns.iter().enumerate() {
        let name = fitted(name, room(widths.cell), COLUMN_LETTER);
        centred(body, MARGIN + widths.names + i * widths.cell + widths.cell / 2, y, "quiet", &name);
    }
    y += 8;
    for row in &map.rows {
        let name = fitted(&row.name, room(widths.names), ROW_LETTER);
        line(body, MARGIN, y + CELL_HEIGHT / 2 + 5, "", &name);
        for (i, cell) in row.cells.iter().enumerate() {
            draw_cell(body, cell, (MARGIN + widths.names + i * widths.cell, y), widths.cell);
        }
        y += CELL_HEIGHT;
    }
    y + 10
}

fn draw_cell(body: &mut String, cell: &HeatCell, (x, y): (usize, usize), width: usize) {
    if cell.is_absent {
        return;
    }
    let (width, height) = (width - 3, CELL_HEIGHT - 3);
    let _ = write!(
        body,
        "<rect class=\"neutral\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>"
    );
    if matches!(cell.direction, Some(Direction::Slower | Direction::Faster)) {
        let opacity = f64::from(cell.mix) / 100.0;
        let _ = write!(
            body,
            "<rect class=\"{}\" opacity=\"{opacity:.2}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>",
            cell.class
        );
    }
    if cell.is_unsure {
        let lines = hatching(x as f64, y as f64, width as f64, height as f64);
        let _ = write!(body, "<path class=\"hatch\" d=\"{lines}\"/>");
    }
    let letters = if cell.letters.is_empty() { String::new() } else { format!(" {}", cell.letters) };
    // A value without an interval stands in the middle.
    let drop = if cell.interval.is_empty() { 8 } else { 0 };
    centred(body, x + width / 2, y + 23 + drop, "value", &format!("{}{letters}", cell.value));
    centred(body, x + width / 2, y + 41, "quiet", &cell.interval);
}

fn line(body: &mut String, x: usize, y: usize, class: &str, text: &str) {
    let _ = write!(body, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", markup_escaped(text));
}

fn centred(body: &mut String, x: usize, y: usize, class: &str, text: &str) {
    let _ = write!(
        body,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
        markup_escaped(text)
    );
}

fn broken(text: &str, letters: usize) -> Vec<String> {
    crate::Style { color: false, width: letters }.wrapped("", 0, text)
}
