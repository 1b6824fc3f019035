//! Plain output of the commands that have no report of their own.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use nestor_report::Style;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

/// Like `print!`, but ends the program quietly where nobody reads any more (`nestor runs | head`).
///
/// The signal that ends other programs then, SIGPIPE, stays ignored here: it would also end this one, with no word,
/// when an agent or a client of a disk goes away between two messages.
macro_rules! out {
    ($($argument:tt)*) => { $crate::output::write_out(format_args!($($argument)*)) };
}

/// [`out!`] with a line end.
macro_rules! outln {
    () => { out!("\n") };
    ($format:literal $($argument:tt)*) => { out!("{}\n", format_args!($format $($argument)*)) };
}

/// What [`out!`] does.
pub fn write_out(text: Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            eprintln!("error: the output could not be written: {e}");
            std::process::exit(1)
        }
    }
}

/// Prints a value as indented JSON.
///
/// # Errors
/// When it has no JSON form.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    outln!("{}", serde_json::to_string_pretty(value).context("the result has no JSON form")?);
    Ok(())
}

/// How reports look here: coloured and as wide as the terminal, plain in a pipe.
pub fn style() -> Style {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return Style::plain();
    }
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    Style::terminal(columns, std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()))
}

/// Columns of text under a heading, two blanks apart, without trailing blanks.
pub fn table<const N: usize>(heading: &[&str; N], rows: &[[String; N]]) -> String {
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
