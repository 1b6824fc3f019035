//! From characters to words.

use std::ops::Range;

use crate::Span;
use crate::arithmetic::{Scalar, number};
use crate::error::{Fault, Problem};

/// A word of a script.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// What a word is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Word(String),
    Number(Scalar),
    Variable(VariableName),
    Quoted(Vec<Part>),
    /// One of `{ } ( ) = , + - * /`.
    Sign(char),
    End,
}

/// A variable as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableName {
    pub(crate) name: String,
    pub(crate) form: VariableForm,
    /// `$name.mean`: a part of a random variable.
    pub(crate) attribute: Option<&'static str>,
}

/// `$name`, `$(name)` or `${name}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableForm {
    Plain,
    /// Of the environment.
    Environment,
    /// Of the program.
    Internal,
}

/// A part of a text in quotation marks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    /// A variable, and how it is written.
    Variable(VariableName, String),
}

/// What can follow the name of a random variable.
pub(crate) const RANDOM_ATTRIBUTES: [&str; 7] = ["randsrc", "gamma", "round", "mean", "seed", "type", "min"];

impl Kind {
    /// What it is called in a sentence.
    pub(crate) fn phrase(&self) -> String {
        match self {
            Self::Word(word) => format!("{:?}", clip(word)),
            Self::Number(number) => format!("the number {number}"),
            Self::Variable(variable) => format!("the variable ${}", clip(&variable.name)),
            Self::Quoted(_) => "a text in quotation marks".to_owned(),
            Self::Sign(sign) => format!("{sign:?}"),
            Self::End => "the end of the script".to_owned(),
        }
    }
}

/// The beginning of a text, for a message.
pub(crate) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(60).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

/// Splits a part of a text into words; the last is [`Kind::End`].
pub(crate) fn tokenize(text: &str, range: Range<usize>) -> Result<Vec<Token>, Box<Fault>> {
    let mut scanner = Scanner { text: &text[..range.end], at: range.start, tokens: Vec::new() };
    while let Some(c) = scanner.peek() {
        scanner.scan(c)?;
    }
    let end = scanner.at;
    scanner.push(Kind::End, end);
    Ok(scanner.tokens)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | ':' | ';' | '-' | '/' | '~' | '@' | '%')
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// The character after the next.
    fn second(&self) -> Option<char> {
        self.text[self.at..].chars().nth(1)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn push(&mut self, kind: Kind, start: usize) {
        self.tokens.push(Token { kind, span: start..self.at });
    }

    /// Whether a value ends directly before this place.
    fn follows_value(&self) -> bool {
        self.tokens.last().is_some_and(|last| last.span.end == self.at && last.kind.ends_value())
    }

    fn scan(&mut self, c: char) -> Result<(), Box<Fault>> {
        let start = self.at;
        match c {
            '#' => self.take_while(|c| c != '\n'),
            '\u{feff}' => self.at += c.len_utf8(),
            c if c.is_whitespace() => self.at += c.len_utf8(),
            '"' => return self.scan_quoted(),
            '$' => return self.scan_variable(),
            '{' | '}' | '(' | ')' | '=' | ',' | '+' | '*' => self.scan_sign(c),
            '0'..='9' => return self.scan_number(),
            '-' | '/' if self.is_operator(c) => self.scan_sign(c),
            c if is_in_word(c) && c != ':' && c != ';' || (is_in_word(c) && self.follows_value()) => {
                self.take_while(is_in_word);
                let word = self.text[start..self.at].to_owned();
                self.push(Kind::Word(word), start);
            }
            c => {
                let span = start..start + c.len_utf8();
                let remedy = "write text with such characters in quotation marks";
                return Err(Fault::new(&span, Problem::Character(c), remedy));
            }
        }
        Ok(())
    }

    fn scan_sign(&mut self, c: char) {
        let start = self.at;
        self.at += 1;
        self.push(Kind::Sign(c), start);
    }

    /// `-` and `/` are also letters of names and paths.
    fn is_operator(&self, c: char) -> bool {
        let after_value = self.tokens.last().is_some_and(|last| last.kind.ends_value());
        match self.second() {
            None => true,
            Some(next) if next.is_whitespace() || next == '(' => c == '-' || after_value,
            Some(next) if next.is_ascii_digit() => c == '-' || after_value,
            Some('$') => after_value || c == '-',
            Some(next) => !is_in_word(next) && c == '-',
        }
    }

    fn scan_number(&mut self) -> Result<(), Box<Fault>> {
        let start = self.at;
        self.take_while(|c| is_in_word(c) && c != '-' && c != '/');
        let text = &self.text[start..self.at];
        match number(text) {
            Some(Ok(number)) => self.push(Kind::Number(number), start),
            Some(Err(())) => {
                let problem = Problem::TooLarge(clip(text));
                return Err(Fault::new(&(start..self.at), problem, format!("the largest is {}", i64::MAX)));
            }
            None => {
                self.take_while(is_in_word);
                let word = self.text[start..self.at].to_owned();
                self.push(Kind::Word(word), start);
            }
        }
        Ok(())
    }

    fn scan_variable(&mut self) -> Result<(), Box<Fault>> {
        let start = self.at;
        let Some((variable, length)) = variable(&self.text[start..]) else {
            let remedy = "a variable is a $, then a letter or _, then letters, digits and _: set $dir=/tmp";
            return Err(Fault::new(&(start..start + 1), Problem::Character('$'), remedy));
        };
        self.at += length;
        self.push(Kind::Variable(variable), start);
        Ok(())
    }

    fn scan_quoted(&mut self) -> Result<(), Box<Fault>> {
        let start = self.at;
        self.at += 1;
        let mut parts = Vec::new();
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                // Mostly it is an earlier text that lacks its second quotation mark, and goes on to the next line.
                let is_long = |token: &&Token| {
                    matches!(token.kind, Kind::Quoted(_)) && self.text[token.span.clone()].contains('\n')
                };
                let start = self.tokens.iter().find(is_long).map_or(start, |token| token.span.start);
                let line = self.text[start..].lines().next().unwrap_or_default().trim_end();
                let span = start..start + line.len();
                return Err(Fault::new(&span, Problem::UnclosedString, "put a \" at its end"));
            };
            match (c, self.second()) {
                ('"', _) => break,
                ('\\', Some('n')) => text.push('\n'),
                ('\\', Some(escaped @ ('$' | '"' | '\\'))) => text.push(escaped),
                ('$', _) => {
                    if let Some((variable, length)) = variable(&self.text[self.at..]) {
                        if !text.is_empty() {
                            parts.push(Part::Text(std::mem::take(&mut text)));
                        }
                        let written = self.text[self.at..self.at + length].to_owned();
                        parts.push(Part::Variable(variable, written));
                        self.at += length;
                    } else {
                        text.push('$');
                        self.at += 1;
                    }
                    continue;
                }
                _ => {
                    text.push(c);
                    self.at += c.len_utf8();
                    continue;
                }
            }
            self.at += 2;
        }
        self.at += 1;
        if !text.is_empty() || parts.is_empty() {
            parts.push(Part::Text(text));
        }
        self.push(Kind::Quoted(parts), start);
        Ok(())
    }
}

impl Kind {
    fn ends_value(&self) -> bool {
        matches!(
            self,
            Self::Word(_) | Self::Number(_) | Self::Variable(_) | Self::Quoted(_) | Self::Sign(')')
        )
    }
}

/// Reads a variable at the beginning of a text and gives its length.
fn variable(text: &str) -> Option<(VariableName, usize)> {
    let rest = text.strip_prefix('$')?;
    let (form, close) = match rest.chars().next()? {
        '(' => (VariableForm::Environment, Some(')')),
        '{' => (VariableForm::Internal, Some('}')),
        _ => (VariableForm::Plain, None),
    };
    let opened = usize::from(close.is_some());
    let rest = &rest[opened..];
    let length = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
    let name = &rest[..length];
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = &rest[length..];
    let attribute = RANDOM_ATTRIBUTES.into_iter().find(|attribute| {
        let after = rest.strip_prefix('.').and_then(|rest| rest.strip_prefix(attribute));
        close.is_none() && after.is_some_and(|after| !after.starts_with(is_in_name))
    });
    let closed = match close {
        Some(close) if rest.starts_with(close) => 1,
        Some(_) => return None,
        None => attribute.map_or(0, |attribute| attribute.len() + 1),
    };
    Some((VariableName { name: name.to_owned(), form, attribute }, 1 + opened + length + closed))
}
