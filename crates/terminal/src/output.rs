//! Writing to standard output and standard error.

// The one home of both: everything else goes through here.
#![allow(clippy::disallowed_methods)]

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};

use nestor_text::complaint::ERROR;

use crate::paint::visible_with_paint;
use crate::visible;

/// Whether standard output takes colours: a terminal does, unless `NO_COLOR` is set to anything but nothing
/// (<https://no-color.org>).
pub fn has_color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints to standard output; ends the program quietly if the reader is gone (`nestor runs | head`).
///
/// The signal that ends other programs then, SIGPIPE, stays ignored here: it would also end this one, with no word,
/// when an agent or a client of a disk goes away between two messages.
pub fn print(text: Arguments<'_>) {
    match try_print(text) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            eprint(format_args!("{ERROR}the output could not be written: {e}\n"));
            std::process::exit(1)
        }
    }
}

/// Prints to standard output, for a program whose exit code says something else than whether this was read.
///
/// # Errors
///
/// The reader is gone, or the output cannot be written.
pub fn try_print(text: Arguments<'_>) -> std::io::Result<()> {
    let text = text.to_string();
    let text = if has_color() { visible_with_paint(&text) } else { visible(&text) };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints to standard error, without colours.
pub fn eprint(text: Arguments<'_>) {
    // If it fails, there is no place left to report it.
    let _ = std::io::stderr().lock().write_all(visible(&text.to_string()).as_bytes());
}
