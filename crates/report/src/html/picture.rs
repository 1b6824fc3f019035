//! The matrix alone as a picture, for a README or a slide.

use std::fmt::Write as _;

use nestor_text::markup_escaped;

use super::heat::{Direction, HeatCell, HeatMap, heat_maps};
use super::svg::{hatching, in_lines, text_width};
use crate::view::StudyReport;

const CELL_HEIGHT: usize = 54;
const MARGIN: usize = 24;
/// Least and largest widths of a cell and of the names of the rows; longer names are broken into lines.
const CELL_WIDTHS: (f64, f64) = (150.0, 230.0);
const NAME_WIDTHS: (f64, f64) = (190.0, 360.0);
/// Letters of the names of rows, and of columns and intervals.
const ROW_LETTER: f64 = 14.0;
const COLUMN_LETTER: f64 = 12.0;
/// Lines of the name of a column and of a row; longer names are cut.
const COLUMN_LINES: usize = 5;
const ROW_LINES: usize = 3;
/// Lines of what all cells of a matrix have in common.
const TITLE_LINES: usize = 4;
/// From one line of a name to the next.
const COLUMN_LINE_HEIGHT: usize = 14;
const ROW_LINE_HEIGHT: usize = 16;
/// Letters of the texts above and below that fit a hundred units of width.
const LETTERS_PER_100: usize = 15;

const STYLE: &str = "text{font:14px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1d2329}\
.title{font-size:19px;font-weight:650}.quiet{fill:#5a646e;font-size:12px}.interval{font-size:12px}.value{font-weight:600}\
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
        y = draw_map(&mut body, map, &widths, (width, y + 26));
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
        let all_rows = || maps.iter().flat_map(|map| &map.rows);
        let rows = widest(all_rows().map(|row| &row.name).collect(), ROW_LETTER);
        // Numbers are never broken or cut.
        let values: Vec<String> = all_rows().flat_map(|row| &row.cells).map(shown_value).collect();
        let intervals = all_rows().flat_map(|row| &row.cells).map(|cell| &cell.interval);
        let numbers =
            widest(values.iter().collect(), ROW_LETTER).max(widest(intervals.collect(), COLUMN_LETTER));
        Self {
            cell: columns.clamp(CELL_WIDTHS.0, CELL_WIDTHS.1).max(numbers) as usize,
            names: rows.clamp(NAME_WIDTHS.0, NAME_WIDTHS.1) as usize,
        }
    }
}

/// Draws a matrix from a height on, in a picture of that width; gives where it ends.
fn draw_map(body: &mut String, map: &HeatMap, widths: &Widths, (width, top): (usize, usize)) -> usize {
    let room = |width: usize| width as f64 - 8.0;
    let mut y = top;
    let title = in_lines(&map.title, (width - 2 * MARGIN) as f64, ROW_LETTER, TITLE_LINES);
    for (i, text) in title.iter().enumerate() {
        line(body, MARGIN, y + i * ROW_LINE_HEIGHT, "value", text);
    }
    y += 22 + title.len().saturating_sub(1) * ROW_LINE_HEIGHT;
    let heads: Vec<Vec<String>> = map
        .columns
        .iter()
        .map(|name| in_lines(name, room(widths.cell), COLUMN_LETTER, COLUMN_LINES))
        .collect();
    let highest = heads.iter().map(Vec::len).max().unwrap_or(1);
    for (i, head) in heads.iter().enumerate() {
        let x = MARGIN + widths.names + i * widths.cell + widths.cell / 2;
        // They end just above their cells.
        for (above, text) in (highest - head.len()..).zip(head) {
            centred(body, x, y + above * COLUMN_LINE_HEIGHT, "quiet", text);
        }
    }
    y += 8 + highest.saturating_sub(1) * COLUMN_LINE_HEIGHT;
    for row in &map.rows {
        let name = in_lines(&row.name, room(widths.names), ROW_LETTER, ROW_LINES);
        let first = y + CELL_HEIGHT / 2 + 5 - name.len().saturating_sub(1) * ROW_LINE_HEIGHT / 2;
        for (i, text) in name.iter().enumerate() {
            line(body, MARGIN, first + i * ROW_LINE_HEIGHT, "", text);
        }
        for (i, cell) in row.cells.iter().enumerate() {
            draw_cell(body, cell, (MARGIN + widths.names + i * widths.cell, y), widths.cell);
        }
        y += CELL_HEIGHT;
    }
    y + 10
}

/// What stands in a cell, with the letters of its marks.
fn shown_value(cell: &HeatCell) -> String {
    if cell.letters.is_empty() { cell.value.clone() } else { format!("{} {}", cell.value, cell.letters) }
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
    // A value without an interval stands in the middle.
    let drop = if cell.interval.is_empty() { 8 } else { 0 };
    centred(body, x + width / 2, y + 23 + drop, "value", &shown_value(cell));
    centred(body, x + width / 2, y + 41, "interval", &cell.interval);
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
    crate::Style { width: letters, ..crate::Style::plain() }.wrapped("", 0, text)
}
