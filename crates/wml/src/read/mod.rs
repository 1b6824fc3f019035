//! From words to commands.

mod attributes;
mod define;
mod value;

use crate::book::Book;
use crate::error::{Fault, Problem};
use crate::plan::QuitMode;
use crate::syntax::{Command, CommandKind, Expression};
use crate::token::{Kind, Token, VariableName, clip, tokenize};
use crate::vocabulary::{COMMANDS, Context, suggest};
use crate::{Loader, Span};

/// Levels of `foreach` and of parentheses; no script needs as many.
const DEEPEST: usize = 64;

/// Levels of `load`.
const DEEPEST_LOAD: usize = 8;

type Result<T> = std::result::Result<T, Box<Fault>>;

/// Reads a part of the book.
pub(crate) struct Reader<'b> {
    book: &'b mut Book,
    loader: Option<Loader<'b>>,
    tokens: Vec<Token>,
    at: usize,
    /// Open `foreach` and parentheses.
    depth: usize,
    /// Scripts that load this one.
    loads: usize,
    remarks: Vec<(Span, String)>,
    /// Names of all variables that occur.
    variables: Vec<String>,
}

/// What was read.
pub(crate) struct Reading {
    pub(crate) commands: Vec<Command>,
    /// What is not as its author may think.
    pub(crate) remarks: Vec<(Span, String)>,
    /// Names of all variables that occur.
    pub(crate) variables: Vec<String>,
}

/// Reads all commands of a part of the book.
pub(crate) fn commands(book: &mut Book, range: Span, loader: Option<Loader<'_>>) -> Result<Reading> {
    read_part(book, range, loader, 0)
}

fn read_part(book: &mut Book, range: Span, loader: Option<Loader<'_>>, loads: usize) -> Result<Reading> {
    let tokens = tokenize(book.text(), range)?;
    let variables = value::variables(&tokens);
    let mut reader = Reader { book, loader, tokens, at: 0, depth: 0, loads, remarks: Vec::new(), variables };
    let mut commands = Vec::new();
    while *reader.kind() != Kind::End {
        reader.command(&mut commands)?;
    }
    Ok(Reading { commands, remarks: reader.remarks, variables: reader.variables })
}

/// Reads `$name=value` of the command line.
pub(crate) fn assignment(book: &mut Book, range: Span) -> Result<Vec<Command>> {
    let tokens = tokenize(book.text(), range)?;
    let mut reader = Reader {
        book,
        loader: None,
        tokens,
        at: 0,
        depth: 0,
        loads: 0,
        remarks: Vec::new(),
        variables: Vec::new(),
    };
    let start = reader.span().start;
    let command = reader.set_variable(start)?;
    match reader.kind() {
        Kind::End => Ok(vec![command]),
        _ => Err(reader.unexpected("a value is a number, a text, a variable or a calculation")),
    }
}

impl Reader<'_> {
    fn kind(&self) -> &Kind {
        self.tokens.get(self.at).map_or(&Kind::End, |token| &token.kind)
    }

    fn kind_at(&self, ahead: usize) -> &Kind {
        self.tokens.get(self.at + ahead).map_or(&Kind::End, |token| &token.kind)
    }

    fn span(&self) -> Span {
        let last = || self.tokens.last().map_or(0..0, |token| token.span.clone());
        self.tokens.get(self.at).map_or_else(last, |token| token.span.clone())
    }

    /// Where the word before this one ends.
    fn end(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.span.end)
    }

    fn next(&mut self) -> Token {
        let token = Token { kind: self.kind().clone(), span: self.span() };
        self.at += 1;
        token
    }

    fn is_sign(&self, sign: char) -> bool {
        *self.kind() == Kind::Sign(sign)
    }

    fn take_sign(&mut self, sign: char) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    fn word(&self) -> Option<&str> {
        match self.kind() {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn take_word(&mut self, words: &[&str]) -> bool {
        let is = self.word().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is);
        is
    }

    fn take_variable(&mut self, remedy: &str) -> Result<VariableName> {
        match self.kind() {
            Kind::Variable(variable) => {
                let variable = variable.clone();
                self.at += 1;
                Ok(variable)
            }
            _ => Err(self.unexpected(remedy)),
        }
    }

    fn expect_sign(&mut self, sign: char, remedy: &str) -> Result<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(remedy)) }
    }

    /// The word that is next does not belong here.
    fn unexpected(&self, remedy: impl Into<String>) -> Box<Fault> {
        // A text over several lines mostly lacks its second quotation mark, and swallowed what should stand here.
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        if let Some(token) = before
            && matches!(token.kind, Kind::Quoted(_))
            && self.book.text()[token.span.clone()].contains('\n')
        {
            let remedy = "it extends over several lines: is a \" missing?";
            return Fault::new(&token.span, Problem::UnclosedString, remedy);
        }
        Fault::new(&self.span(), Problem::Unexpected { found: self.kind().phrase() }, remedy)
    }

    fn remark(&mut self, span: &Span, text: impl Into<String>) {
        self.remarks.push((span.clone(), text.into()));
    }

    fn enter(&mut self, what: &'static str) -> Result<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let remedy = format!("at most {DEEPEST} levels are allowed");
            return Err(Fault::new(&self.span(), Problem::TooDeep(what), remedy));
        }
        Ok(())
    }

    fn command(&mut self, commands: &mut Vec<Command>) -> Result<()> {
        let start = self.span().start;
        let Some(word) = self.word().map(str::to_owned) else {
            return Err(self.unexpected(format!("a command begins with one of: {}", COMMANDS.join(", "))));
        };
        let word_span = self.span();
        self.at += 1;
        let kind = match word.as_str() {
            "define" => self.define(start)?,
            "set" => {
                let command = self.set(start)?;
                commands.push(command);
                return Ok(());
            }
            "load" => return self.load(commands),
            "foreach" => self.foreach()?,
            "create" => self.create()?,
            "shutdown" => self.shutdown()?,
            "run" => self.run(&word_span)?,
            "psrun" => self.periodic_run()?,
            "stats" => self.stats()?,
            "enable" => self.enable()?,
            "list" => self.list()?,
            _ => self.simple(&word, &word_span)?,
        };
        commands.push(Command { kind, span: start..self.end() });
        Ok(())
    }

    /// Commands of one or two words.
    fn simple(&mut self, word: &str, span: &Span) -> Result<CommandKind> {
        Ok(match word {
            "sleep" => CommandKind::Sleep(self.optional_number()?),
            "warmup" => CommandKind::Warmup(self.number("warmup 30")?),
            "echo" | "log" => CommandKind::Echo(self.text(word)?),
            "system" => CommandKind::System(self.text(word)?),
            "usage" => {
                self.text(word)?;
                CommandKind::Nothing(None)
            }
            "eventgen" => CommandKind::EventGen(self.optional_attributes(Context::EventGen)?),
            "domultisync" => CommandKind::MultiSync(self.optional_attributes(Context::MultiSync)?),
            "debug" => {
                self.number("debug 1")?;
                CommandKind::Nothing(Some("debug has no effect here"))
            }
            "quit" | "exit" => CommandKind::Quit,
            "vars" => CommandKind::Nothing(Some("vars has no effect here: echo \"$name\" prints a variable")),
            "version" | "help" => CommandKind::Nothing(Some("version and help have no effect here")),
            "enable_osprof" | "disable_osprof" => CommandKind::Nothing(Some("OSprof is not built in")),
            "fscheck" | "fsflush" => {
                self.skip_settings();
                let reason = "fscheck and fsflush have no effect here: use system \"sync\", which does the same on \
                     Linux";
                CommandKind::Nothing(Some(reason))
            }
            _ => {
                let known = COMMANDS.iter().copied().chain(["thread", "flowop"]);
                let remedy = match word {
                    "thread" | "flowop" | "file" | "fileset" | "process" | "randvar" => {
                        format!(
                            "{word} belongs after define, or in a process: there may be one }} too many \
                                 before it"
                        )
                    }
                    _ => suggest(word, known, "commands"),
                };
                return Err(Fault::new(span, Problem::UnknownCommand(clip(word)), remedy));
            }
        })
    }

    /// `name=value` of commands that are not looked at.
    fn skip_settings(&mut self) {
        while matches!(self.kind(), Kind::Word(_)) && *self.kind_at(1) == Kind::Sign('=') {
            self.at += 3;
            self.take_sign(',');
        }
    }

    fn load(&mut self, commands: &mut Vec<Command>) -> Result<()> {
        let span = self.span();
        let name = match self.kind() {
            Kind::Word(word) => word.clone(),
            Kind::Quoted(parts) => value::literal(parts).unwrap_or_default(),
            _ => return Err(self.unexpected("load needs the name of a script: load fileserver")),
        };
        self.at += 1;
        if self.loads >= DEEPEST_LOAD {
            let remedy = "a script must not load itself";
            return Err(Fault::new(&span, Problem::TooDeep("loaded scripts"), remedy));
        }
        let Some(bytes) = self.loader.and_then(|load| load(&name)) else {
            let remedy = "replace this line with its text";
            return Err(Fault::misfit(&span, format!("the script {:?} is not found", clip(&name)), remedy));
        };
        let text =
            crate::decode(&bytes).map_err(|problem| Fault::new(&span, problem, "load names a script"))?;
        let range = self.book.add(&name, &text);
        let reading = read_part(self.book, range, self.loader, self.loads + 1)?;
        commands.extend(reading.commands);
        self.remarks.extend(reading.remarks);
        self.variables.extend(reading.variables);
        Ok(())
    }

    fn foreach(&mut self) -> Result<CommandKind> {
        let form = "foreach $name in 1, 2, 3 { … }";
        self.enter("foreach loops")?;
        let variable = self.take_variable(form)?;
        if !self.take_word(&["in"]) {
            return Err(self.unexpected(form));
        }
        let mut values = vec![self.expression()?];
        while self.take_sign(',') {
            values.push(self.expression()?);
        }
        let opened = self.span();
        self.expect_sign('{', form)?;
        let mut body = Vec::new();
        while !self.is_sign('}') {
            if *self.kind() == Kind::End {
                return Err(self.unclosed(&opened, "foreach"));
            }
            self.command(&mut body)?;
        }
        self.at += 1;
        self.depth -= 1;
        Ok(CommandKind::Foreach { variable, values, body: body.into() })
    }

    fn unclosed(&self, opened: &Span, what: &str) -> Box<Fault> {
        Fault::new(opened, Problem::Unclosed(format!("the {{ of {what}")), "put a } where it ends")
    }

    fn create(&mut self) -> Result<CommandKind> {
        if self.take_word(&["files", "file", "filesets", "fileset"]) {
            Ok(CommandKind::CreateFiles)
        } else if self.take_word(&["processes", "process", "threads", "thread"]) {
            Ok(CommandKind::CreateProcesses)
        } else {
            Err(self.unexpected("create needs files, filesets or processes"))
        }
    }

    fn shutdown(&mut self) -> Result<CommandKind> {
        if self.take_word(&["files", "file", "filesets", "fileset"]) {
            let reason =
                "shutdown filesets has no effect here: file sets remain known to the end of the script";
            return Ok(CommandKind::Nothing(Some(reason)));
        }
        self.take_word(&["processes", "process", "threads", "thread"]);
        Ok(CommandKind::ShutdownProcesses)
    }

    fn run(&mut self, word: &Span) -> Result<CommandKind> {
        let time = self.optional_number()?;
        let mut more = false;
        while matches!(self.kind(), Kind::Number(_) | Kind::Variable(_)) {
            self.at += 1;
            more = true;
        }
        if more {
            self.remark(word, "run takes one time: the values after it have no effect");
        }
        Ok(CommandKind::Run { time })
    }

    fn periodic_run(&mut self) -> Result<CommandKind> {
        let period = self.optional_number()?;
        let time = if period.is_some() { self.optional_number()? } else { None };
        Ok(CommandKind::PeriodicRun { period, time })
    }

    fn stats(&mut self) -> Result<CommandKind> {
        if self.take_word(&["clear"]) {
            return Ok(CommandKind::StatsClear);
        }
        if self.take_word(&["snap"]) {
            return Ok(CommandKind::Nothing(Some(
                "stats snap has no effect here: every run reports at its end",
            )));
        }
        if self.take_word(&["dump", "xmldump", "multidump", "command"]) {
            self.text("stats")?;
        } else if self.take_word(&["directory"]) {
            self.expression()?;
        } else {
            return Err(
                self.unexpected("stats needs clear, snap, dump, xmldump, multidump, command or directory")
            );
        }
        Ok(CommandKind::Nothing(Some(
            "stats dump, command and directory have no effect here: the command line decides where results \
             go",
        )))
    }

    fn enable(&mut self) -> Result<CommandKind> {
        if self.take_word(&["lathist"]) {
            let reason =
                "enable lathist has no effect here: the latency of every operation is always recorded";
            return Ok(CommandKind::Nothing(Some(reason)));
        }
        if self.take_word(&["multi"]) {
            return Ok(CommandKind::EnableMulti(self.optional_attributes(Context::Multi)?));
        }
        Err(self.unexpected("enable needs lathist or multi"))
    }

    fn list(&mut self) -> Result<CommandKind> {
        if self.take_word(&["flowop", "flowops"]) {
            return Ok(CommandKind::Nothing(Some("list flowop has no effect here")));
        }
        self.take_word(&["fileset", "filesets"]);
        Ok(CommandKind::ListFileSets)
    }

    fn set(&mut self, start: usize) -> Result<Command> {
        if self.take_word(&["mode"]) {
            let kind = self.mode()?;
            return Ok(Command { kind, span: start..self.end() });
        }
        self.set_variable(start)
    }

    fn mode(&mut self) -> Result<CommandKind> {
        let remedy =
            "set mode quit timeout, set mode quit alldone, set mode quit firstdone, or set mode nousestats";
        if self.take_word(&["nousestats"]) {
            return Ok(CommandKind::Nothing(Some("set mode nousestats has no effect here")));
        }
        if !self.take_word(&["quit"]) {
            return Err(self.unexpected(remedy));
        }
        let mode = match self.word() {
            Some("timeout") => QuitMode::Timeout,
            Some("alldone") => QuitMode::AllDone,
            Some("firstdone") => QuitMode::FirstDone,
            _ => return Err(self.unexpected(remedy)),
        };
        self.at += 1;
        Ok(CommandKind::Mode(mode))
    }

    /// `$name=value`, without the `set` before it.
    fn set_variable(&mut self, start: usize) -> Result<Command> {
        let variable =
            self.take_variable("set needs a variable: set $dir=/tmp, or set mode quit firstdone")?;
        self.expect_sign('=', "write a = between a variable and its value: set $nfiles=1000")?;
        let kind = if variable.attribute.is_some() {
            CommandKind::SetRandomAttribute { variable, value: self.expression()? }
        } else if let Some(random) = self.random()? {
            CommandKind::SetRandom { variable, random }
        } else {
            CommandKind::Set { variable, value: self.expression()? }
        };
        Ok(Command { kind, span: start..self.end() })
    }

    /// A text in quotation marks, after a command that takes one.
    fn text(&mut self, word: &str) -> Result<Expression> {
        match self.kind() {
            Kind::Quoted(_) => self.primary(),
            _ => Err(self.unexpected(format!("{word} needs text in quotation marks"))),
        }
    }
}
