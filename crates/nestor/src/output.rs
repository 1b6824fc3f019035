//! Plain output of the commands that have no report of their own.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use nestor_report::Style;
use nestor_terminal::{has_color, visible, visible_json};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

/// Prints a value as indented JSON.
///
/// # Errors
/// When it has no JSON form.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context("the result has no JSON form")?;
    outln!("{}", visible_json(&text));
    Ok(())
}

/// How reports look here: coloured and as wide as the terminal, plain in a pipe.
#[expect(clippy::disallowed_methods, reason = "nothing is printed; only its width is read")]
pub fn style() -> Style {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return Style::plain();
    }
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    Style::terminal(columns, !has_color())
}

/// Columns of text under a heading, two blanks apart, without trailing blanks.
pub fn table<const N: usize>(heading: &[&str; N], rows: &[[String; N]]) -> String {
    // Before widths are measured, for what is written out is wider.
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| visible(cell).replace('\t', "\\t"))).collect();
    let rows = &rows;
    let mut widths = heading.map(UnicodeWidthStr::width);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let line = |cells: &[&str]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            text.push_str("  ");
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width - cell.width()));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(heading);
    for row in rows {
        text.push_str(&line(&row.each_ref().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_with_their_text() {
        let rows = [["a".into(), "1".into()], ["äöü-long".into(), String::new()]];
        assert_eq!(table(&["what", "n"], &rows), "  what      n\n  a         1\n  äöü-long\n");
    }
}
