//! Plain output of the commands that have no report of their own.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use nestor_report::Style;
use nestor_terminal::{has_color, visible_json};
use serde::Serialize;

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
    let heading = heading.map(str::to_owned);
    let rows: Vec<&[String]> = std::iter::once(&heading[..]).chain(rows.iter().map(|row| &row[..])).collect();
    nestor_text::Table::of(&rows, &[]).text()
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
