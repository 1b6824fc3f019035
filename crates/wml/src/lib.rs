//! The Workload Model Language of Filebench, in both dialects in use (1.4 and 1.5).
//!
//! [`parse`] turns a text into a [`Script`]: what is to be done, in order, with every variable resolved. This crate
//! touches no files and starts no threads: `nestor-flowops` does.

mod arithmetic;
mod book;
mod distribution;
mod error;
pub mod limits;
mod plan;
mod read;
mod resolve;
mod syntax;
mod token;
mod vocabulary;

pub use distribution::{Distribution, Segment};
pub use error::{Problem, WmlError};
pub use plan::{
    Action, FileSet, FileSetKind, Flowop, FlowopKind, MultiClient, Process, QuitMode, RandomVariable, Run,
    RunTime, Script, Span, Thread, Value, Warning,
};

use std::borrow::Cow;

use book::Book;
use error::Fault;
use resolve::Resolver;

/// The name that errors in variables of the command line have in place of a file's.
const COMMAND_LINE: &str = "--set";

/// Gives the value of a variable of the surroundings: of the environment, or of the program.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Gives the text of a script that is loaded, by its name without `.f`.
pub type Loader<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// A script to be read.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    name: &'a str,
    bytes: &'a [u8],
    environment: Option<Environment<'a>>,
    loader: Option<Loader<'a>>,
}

impl<'a> Source<'a> {
    /// A script of that text. `name` is for messages: the file it comes from.
    pub fn new(name: &'a str, text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { name, bytes: text.as_ref(), environment: None, loader: None }
    }

    /// Where `$(NAME)` and `${name}` get their values; without it, and where it has none, they are empty texts.
    pub fn with_environment(self, environment: Environment<'a>) -> Self {
        Self { environment: Some(environment), ..self }
    }

    /// Where `load NAME` gets the text of the script of that name (without `.f`); without it, and where it has none,
    /// `load` is an error.
    pub fn with_loader(self, loader: Loader<'a>) -> Self {
        Self { loader: Some(loader), ..self }
    }
}

/// Reads a script.
///
/// `overrides` are variables of the command line: a name, with or without `$`, and its value as it would stand after
/// `set $name=`. They win over every `set` of the script.
///
/// Spans in the result count bytes of the script's text; those of an override or of a loaded script are behind its end.
///
/// # Errors
///
/// The first thing that is not understood, with its place. A variable of `overrides` that the script does not use is an
/// error too.
pub fn parse(source: &Source<'_>, overrides: &[(String, String)]) -> Result<Script, WmlError> {
    let mut book = Book::new();
    let text = match decode(source.bytes) {
        Ok(text) => text,
        Err(problem) => {
            book.add(source.name, "");
            let remedy =
                "a script is text such as: define fileset name=files,path=/tmp,entries=1000,dirwidth=20";
            return Err(Fault::new(&(0..0), problem, remedy).locate(&book));
        }
    };
    let script = book.add(source.name, &text);
    let ranges: Vec<_> = overrides.iter().map(|(name, value)| add_override(&mut book, name, value)).collect();
    parse_book(source, &mut book, script, &ranges).map_err(|fault| fault.locate(&book))
}

fn parse_book(
    source: &Source<'_>,
    book: &mut Book,
    script: Span,
    overrides: &[Override],
) -> Result<Script, Box<Fault>> {
    let reading = read::commands(book, script, source.loader)?;
    let mut assignments = Vec::new();
    for assignment in overrides {
        if !reading.variables.contains(&assignment.name) {
            return Err(unused(assignment, &reading.variables));
        }
        assignments.extend(match read::assignment(book, assignment.range.clone()) {
            Ok(commands) => commands,
            // A path may have any characters.
            Err(fault) => match literal_assignment(book, assignment) {
                Some(range) => read::assignment(book, range)?,
                None => return Err(fault),
            },
        });
    }
    let mut resolver = Resolver::new(book, source.name, source.environment);
    resolver.overrides(&assignments)?;
    resolver.script(&reading.commands, reading.remarks)
}

/// A variable of the command line.
struct Override {
    name: String,
    value: String,
    range: Span,
}

fn add_override(book: &mut Book, name: &str, value: &str) -> Override {
    let name = name.strip_prefix('$').unwrap_or(name).to_owned();
    let range = book.add(COMMAND_LINE, &format!("${name}={value}"));
    Override { name, value: value.to_owned(), range }
}

/// The same, with the value in quotation marks, if it is a path.
fn literal_assignment(book: &mut Book, assignment: &Override) -> Option<Span> {
    let is_path = assignment.value.starts_with(['/', '.', '~']);
    is_path.then(|| {
        let escaped = assignment.value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        book.add(COMMAND_LINE, &format!("${}=\"{escaped}\"", assignment.name))
    })
}

fn unused(assignment: &Override, used: &[String]) -> Box<Fault> {
    let mut used: Vec<&str> = used.iter().map(String::as_str).collect();
    used.sort_unstable();
    used.dedup();
    let remedy = vocabulary::suggest(&assignment.name, used, "its variables");
    let span = assignment.range.start..assignment.range.start + assignment.name.len() + 1;
    Fault::misfit(&span, format!("the script has no variable ${}", token::clip(&assignment.name)), remedy)
}

/// The text that bytes are. Letters of an older encoding in comments do no harm; NULs and many such letters mean that it
/// is none.
fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Problem> {
    let text = String::from_utf8_lossy(bytes);
    let strange = text.chars().filter(|c| *c == '\u{fffd}').count();
    if bytes.contains(&0) || strange * 20 > bytes.len() {
        return Err(Problem::Binary);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
