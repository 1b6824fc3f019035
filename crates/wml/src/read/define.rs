//! `define`.

use std::rc::Rc;

use super::{Reader, Result};
use crate::Span;
use crate::error::{Fault, Problem};
use crate::plan::FileSetKind;
use crate::syntax::{
    Attribute, CommandKind, CompositeSyntax, FilesSyntax, FlowopSyntax, ProcessSyntax, RandomSyntax,
    ThreadSyntax, attribute,
};
use crate::token::{Kind, clip};
use crate::vocabulary::{Context, suggest};

const DEFINABLE: [&str; 5] = ["file", "fileset", "process", "flowop", "randvar"];

impl Reader<'_> {
    pub(super) fn define(&mut self, start: usize) -> Result<CommandKind> {
        let Some(word) = self.word().map(str::to_owned) else {
            return Err(self.unexpected(format!("define needs one of: {}", DEFINABLE.join(", "))));
        };
        let span = self.span();
        self.at += 1;
        match word.as_str() {
            "file" | "files" => self.define_files(start, FileSetKind::File),
            "fileset" | "filesets" => self.define_files(start, FileSetKind::Tree),
            "process" | "processes" => self.define_process(start),
            "flowop" => self.define_flowop(start),
            "randvar" => self.define_random(start),
            "posset" | "possets" => {
                let remedy = "Filebench 1.5 removed sets of positions: use random";
                Err(Fault::misfit(&span, "sets of positions are not supported", remedy))
            }
            _ => {
                let remedy = suggest(&word, DEFINABLE, "what can be defined");
                Err(Fault::misfit(&span, format!("{:?} cannot be defined", clip(&word)), remedy))
            }
        }
    }

    fn define_files(&mut self, start: usize, kind: FileSetKind) -> Result<CommandKind> {
        let context = match kind {
            FileSetKind::File => Context::File,
            FileSetKind::Tree => Context::FileSet,
        };
        let settings = self.settings(context)?;
        let span = start..self.end();
        require(&settings.attributes, &span, context, "name")?;
        require(&settings.attributes, &span, context, "path")?;
        Ok(CommandKind::DefineFiles(Rc::new(FilesSyntax { kind, attributes: settings.attributes, span })))
    }

    fn define_random(&mut self, start: usize) -> Result<CommandKind> {
        let settings = self.settings(Context::RandVar)?;
        let span = start..self.end();
        let Some(variable) = settings.variable else {
            return Err(missing(&span, Context::RandVar, "name"));
        };
        let random =
            RandomSyntax { custom: false, attributes: settings.attributes, table: settings.table, span };
        Ok(CommandKind::SetRandom { variable, random: Rc::new(random) })
    }

    fn define_process(&mut self, start: usize) -> Result<CommandKind> {
        let settings = self.settings(Context::Process)?;
        let span = start..self.end();
        require(&settings.attributes, &span, Context::Process, "name")?;
        let opened = self.open("the process")?;
        let mut threads = Vec::new();
        while !self.take_sign('}') {
            if *self.kind() == Kind::End {
                return Err(self.unclosed(&opened, "this process"));
            }
            if !self.word().is_some_and(|word| matches!(word, "thread" | "threads")) {
                return Err(self.unexpected("a process holds threads: thread name=… { … }"));
            }
            threads.push(self.thread()?);
        }
        if threads.is_empty() {
            return Err(Fault::misfit(&span, "this process has no threads", "give it at least one"));
        }
        Ok(CommandKind::DefineProcess(Rc::new(ProcessSyntax {
            attributes: settings.attributes,
            threads,
            span,
        })))
    }

    fn thread(&mut self) -> Result<ThreadSyntax> {
        let start = self.span().start;
        self.at += 1;
        let settings = self.settings(Context::Thread)?;
        let span = start..self.end();
        require(&settings.attributes, &span, Context::Thread, "name")?;
        let flowops = self.flowops("the thread", "this thread")?;
        if flowops.is_empty() {
            return Err(Fault::misfit(&span, "this thread has no flowops", "give it at least one"));
        }
        Ok(ThreadSyntax { attributes: settings.attributes, flowops, span })
    }

    fn define_flowop(&mut self, start: usize) -> Result<CommandKind> {
        let settings = self.settings(Context::Composite)?;
        let span = start..self.end();
        require(&settings.attributes, &span, Context::Composite, "name")?;
        let flowops = self.flowops("the flowop", "this flowop")?;
        if flowops.is_empty() {
            return Err(Fault::misfit(&span, "this flowop has no flowops in it", "give it at least one"));
        }
        let syntax =
            CompositeSyntax { attributes: settings.attributes, locals: settings.locals, flowops, span };
        Ok(CommandKind::DefineFlowop(Rc::new(syntax)))
    }

    fn open(&mut self, what: &str) -> Result<Span> {
        let span = self.span();
        self.expect_sign(
            '{',
            &format!(
                "separate the attributes of {what} with commas; then open it with a \
                                        {{"
            ),
        )?;
        Ok(span)
    }

    fn flowops(&mut self, what: &str, this: &str) -> Result<Vec<FlowopSyntax>> {
        let opened = self.open(what)?;
        let mut flowops = Vec::new();
        while !self.take_sign('}') {
            if *self.kind() == Kind::End {
                return Err(self.unclosed(&opened, this));
            }
            if self.word() != Some("flowop") {
                return Err(self.unexpected("expected the next flowop, or a } that ends the list"));
            }
            flowops.push(self.flowop()?);
        }
        Ok(flowops)
    }

    fn flowop(&mut self) -> Result<FlowopSyntax> {
        let start = self.span().start;
        self.at += 1;
        let word_span = self.span();
        let Some(word) = self.word().map(str::to_owned) else {
            return Err(self.unexpected("expected the name of a flowop: flowop read name=…"));
        };
        self.at += 1;
        let bare = matches!(self.kind(), Kind::Sign('}') | Kind::End) || self.word() == Some("flowop");
        if bare {
            return Err(missing(&(start..self.end()), Context::Flowop, "name"));
        }
        let settings = self.settings(Context::Flowop)?;
        let span = start..self.end();
        require(&settings.attributes, &span, Context::Flowop, "name")?;
        Ok(FlowopSyntax { word, word_span, attributes: settings.attributes, locals: settings.locals, span })
    }
}

fn missing(span: &Span, context: Context, name: &'static str) -> Box<Fault> {
    let example = match (context, name) {
        (Context::RandVar, _) => "name=$iosize",
        (_, "path") => "path=/tmp",
        _ => "name=one",
    };
    let problem = Problem::Missing { place: context.phrase().to_owned(), attribute: name };
    Fault::new(span, problem, format!("add {example}"))
}

fn require(attributes: &[Attribute], span: &Span, context: Context, name: &'static str) -> Result<()> {
    match attribute(attributes, name) {
        Some(Attribute { value: Some(_), .. }) => Ok(()),
        Some(Attribute { span, .. }) => {
            Err(Fault::value(span, name, "without a value", format!("write {name}=…")))
        }
        None => Err(missing(span, context, name)),
    }
}
