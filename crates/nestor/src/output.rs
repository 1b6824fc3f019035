//! Plain output of the commands that have no report of their own.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use anyhow::Result;
use nestor_report::Style;
use nestor_terminal::has_color;
use serde::Serialize;

use crate::json::json_text;

/// Prints a value as indented JSON with its version.
///
/// # Errors
/// When it has no JSON form.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    outln!("{}", json_text(value)?);
    Ok(())
}

/// How reports look here: coloured and as wide as the terminal, plain in a pipe.
pub fn style() -> Style {
    columns().map_or_else(Style::plain, |columns| Style::terminal(columns, !has_color()))
}

/// Prints text for people: its lines are broken at the columns of a terminal. Commands to copy and files are printed as they are.
pub fn say(text: &str) {
    out!("{}", fitted(text, columns()));
}

/// The same on standard error.
pub fn tell(text: &str) {
    err!("{}\n", fitted(text, columns_of_errors()));
}

/// Columns of text under a heading, two blanks apart, without trailing blanks, within the columns of a terminal.
pub fn table<const N: usize>(heading: &[&str; N], rows: &[[String; N]]) -> String {
    table_within(columns(), heading, rows)
}

fn table_of<const N: usize>(heading: &[&str; N], rows: &[[String; N]]) -> nestor_text::Table {
    let heading = heading.map(str::to_owned);
    let rows: Vec<&[String]> = std::iter::once(&heading[..]).chain(rows.iter().map(|row| &row[..])).collect();
    nestor_text::Table::of(&rows, &[])
}

/// The columns that lines are broken at: those of a terminal, or of `COLUMNS` elsewhere, as for a pager. Otherwise what goes elsewhere
/// is read by programs, line by line.
pub fn columns_of(output: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let told = match output.is_terminal() {
        true => rustix::termios::tcgetwinsize(output).map_or(0, |size| usize::from(size.ws_col)),
        false => set?,
    };
    let columns = if told == 0 { set.unwrap_or(0) } else { told };
    Some(Style::terminal(columns, true).width)
}

/// Those of standard output.
#[expect(clippy::disallowed_methods, reason = "nothing is printed; only its width is read")]
pub fn columns() -> Option<usize> {
    columns_of(&std::io::stdout())
}

/// Those of standard error.
#[expect(clippy::disallowed_methods, reason = "nothing is printed; only its width is read")]
pub fn columns_of_errors() -> Option<usize> {
    columns_of(&std::io::stderr())
}

/// A text whose lines are broken at the columns, if there are any.
pub fn fitted(text: &str, columns: Option<usize>) -> String {
    columns.map_or_else(|| text.to_owned(), |columns| nestor_text::fitted(text, columns))
}

/// [`table`] within the columns, if there are any.
pub fn table_within<const N: usize>(
    columns: Option<usize>,
    heading: &[&str; N],
    rows: &[[String; N]],
) -> String {
    match columns {
        Some(columns) => table_of(heading, rows).text_within(columns),
        None => table_of(heading, rows).text(),
    }
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
