//! A script as it is written.

use std::rc::Rc;

use crate::Span;
use crate::arithmetic::{Operator, Scalar};
use crate::plan::{FileSetKind, QuitMode};
use crate::token::{Part, VariableName};

/// A command and its place.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) kind: CommandKind,
    pub(crate) span: Span,
}

/// What a command is.
#[derive(Debug)]
pub(crate) enum CommandKind {
    Set {
        variable: VariableName,
        value: Expression,
    },
    SetRandom {
        variable: VariableName,
        random: Rc<RandomSyntax>,
    },
    /// `set $random.mean=…`.
    SetRandomAttribute {
        variable: VariableName,
        value: Expression,
    },
    Mode(QuitMode),
    DefineFiles(Rc<FilesSyntax>),
    DefineProcess(Rc<ProcessSyntax>),
    DefineFlowop(Rc<CompositeSyntax>),
    CreateFiles,
    CreateProcesses,
    ShutdownProcesses,
    StatsClear,
    Run {
        time: Option<Expression>,
    },
    PeriodicRun {
        period: Option<Expression>,
        time: Option<Expression>,
    },
    Sleep(Option<Expression>),
    Warmup(Expression),
    Echo(Expression),
    System(Expression),
    EventGen(Vec<Attribute>),
    EnableMulti(Vec<Attribute>),
    MultiSync(Vec<Attribute>),
    ListFileSets,
    Foreach {
        variable: VariableName,
        values: Vec<Expression>,
        body: Rc<Vec<Command>>,
    },
    Quit,
    /// It is understood and does nothing, for this reason.
    Nothing(Option<&'static str>),
}

/// A value that is calculated when it is needed: operands, each operator after its own.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) items: Vec<Item>,
    pub(crate) span: Span,
}

/// An operand or operator.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    pub(crate) span: Span,
}

/// What an item is.
#[derive(Clone, Debug)]
pub(crate) enum ItemKind {
    Scalar(Scalar),
    Quoted(Vec<Part>),
    Variable(VariableName),
    Negate,
    /// Of the two before. Without blanks around it, `-` and `/` can also be letters between two texts.
    Binary {
        operator: Operator,
        tight: bool,
    },
    /// The two before are written without a blank between them.
    Join,
}

/// `name=value`, or only `name`.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) value: Option<Expression>,
    pub(crate) span: Span,
}

/// `$name=value`, or only `$name`, of a composite flowop.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) value: Option<Expression>,
}

/// `randvar(…)`, `cvar(…)` or `define randvar …`.
#[derive(Debug)]
pub(crate) struct RandomSyntax {
    /// `cvar`.
    pub(crate) custom: bool,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) table: Option<Table>,
    pub(crate) span: Span,
}

/// `randtable = {{percent, min, max}, …}`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<[Expression; 3]>,
    pub(crate) span: Span,
}

/// `define file` or `define fileset`.
#[derive(Debug)]
pub(crate) struct FilesSyntax {
    pub(crate) kind: FileSetKind,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) span: Span,
}

/// `define process`.
#[derive(Debug)]
pub(crate) struct ProcessSyntax {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) threads: Vec<ThreadSyntax>,
    pub(crate) span: Span,
}

/// `thread`.
#[derive(Debug)]
pub(crate) struct ThreadSyntax {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) flowops: Vec<FlowopSyntax>,
    pub(crate) span: Span,
}

/// `flowop`.
#[derive(Debug)]
pub(crate) struct FlowopSyntax {
    /// Which one.
    pub(crate) word: String,
    pub(crate) word_span: Span,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) locals: Vec<Local>,
    pub(crate) span: Span,
}

/// `define flowop`.
#[derive(Debug)]
pub(crate) struct CompositeSyntax {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) locals: Vec<Local>,
    pub(crate) flowops: Vec<FlowopSyntax>,
    pub(crate) span: Span,
}

/// The attribute of that name; the last, if it is there more than once.
pub(crate) fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes.iter().rev().find(|attribute| attribute.name == name)
}
