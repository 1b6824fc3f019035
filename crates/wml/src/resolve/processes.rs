//! Processes, threads and flowops.

use std::collections::HashMap;
use std::rc::Rc;

use super::values::Attributes;
use super::variables::{Evaluated, Scope};
use super::{Defined, Resolver, Result, limits, targets};
use crate::Span;
use crate::arithmetic::Scalar;
use crate::error::{Fault, Problem};
use crate::limits::{MOST_IO_BYTES, MOST_THREAD_BYTES, MOST_THREADS};
use crate::plan::{FileSet, Flowop, FlowopKind, Process, Thread, Value};
use crate::syntax::{CompositeSyntax, FlowopSyntax, ProcessSyntax, ThreadSyntax, attribute};
use crate::token::clip;
use crate::vocabulary::{self, suggest};

/// Levels of composite flowops.
const DEEPEST: usize = 64;

/// What a flowop is made with.
struct Surroundings<'a> {
    file_sets: &'a [FileSet],
    /// Names of the composite flowops that it is in, outermost first.
    composites: Vec<String>,
    /// Names of their uses, each with a point.
    prefix: String,
    scope: Scope,
    /// Where targets are written, by the place of their flowop.
    targets: HashMap<Span, Span>,
}

impl Resolver<'_> {
    pub(super) fn define_composite(&mut self, syntax: &Rc<CompositeSyntax>, scope: &Scope) -> Result<()> {
        let attributes = Attributes { all: &syntax.attributes, scope };
        let name = self.text(&attributes, "name")?.unwrap_or_default();
        if vocabulary::flowop(&name).is_some() {
            let remedy = "give it a name of its own";
            return Err(Fault::misfit(&syntax.span, format!("there is a flowop {name:?} already"), remedy));
        }
        if let Some(former) = self.composites.get(&name)
            && former.syntax.span != syntax.span
        {
            let problem = Problem::Twice(format!("the flowop {name:?}"));
            return Err(Fault::new(&syntax.span, problem, "give one of them another name"));
        }
        let defined = Defined { syntax: Rc::clone(syntax), scope: scope.clone() };
        self.composites.insert(name, Rc::new(defined));
        Ok(())
    }

    /// All processes defined so far. What a loop defines again under the same name takes the place of the former.
    pub(super) fn resolved_processes(&mut self, file_sets: &[FileSet]) -> Result<Vec<Process>> {
        let mut processes: Vec<(Span, Process)> = Vec::new();
        let mut around = Surroundings {
            file_sets,
            composites: Vec::new(),
            prefix: String::new(),
            scope: None,
            targets: HashMap::new(),
        };
        for definition in self.processes.clone() {
            around.scope.clone_from(&definition.scope);
            let process = self.process(&definition.syntax, &mut around)?;
            let span = definition.syntax.span.clone();
            let former = processes.iter_mut().find(|(at, former)| *at == span && former.name == process.name);
            match former {
                Some((_, former)) => *former = process,
                None => processes.push((span, process)),
            }
        }
        limits::check_processes(&processes, file_sets.len())?;
        let mut processes: Vec<Process> = processes.into_iter().map(|(_, process)| process).collect();
        for (span, text) in targets::resolve(&mut processes, &around.targets)? {
            self.warn(&span, text);
        }
        Ok(processes)
    }

    fn process(&mut self, syntax: &ProcessSyntax, around: &mut Surroundings<'_>) -> Result<Process> {
        let scope = around.scope.clone();
        let attributes = Attributes { all: &syntax.attributes, scope: &scope };
        self.count_work(&syntax.span)?;
        let nice = self.double(&attributes, "nice")?.unwrap_or(0.0);
        if !(-20.0..=19.0).contains(&nice) {
            return Err(self.misfit(
                &attributes,
                "nice",
                &Scalar::Double(nice),
                "write a priority from -20 to 19",
            ));
        }
        let name = self.text(&attributes, "name")?.unwrap_or_default();
        let instances = self.count_to(&attributes, "instances", MOST_THREADS)?.unwrap_or(1);
        let mut threads = Vec::new();
        for thread in &syntax.threads {
            threads.push(self.thread(thread, around)?);
        }
        Ok(Process { name, instances, nice: nice as i32, threads })
    }

    fn thread(&mut self, syntax: &ThreadSyntax, around: &mut Surroundings<'_>) -> Result<Thread> {
        let scope = around.scope.clone();
        let attributes = Attributes { all: &syntax.attributes, scope: &scope };
        self.count_work(&syntax.span)?;
        if let Some(attribute) = attribute(&syntax.attributes, "useism") {
            self.warn(&attribute.span, "useism has no effect here: threads share their memory already");
        }
        let io_priority = match self.count(&attributes, "ioprio")? {
            // What Filebench takes for `not said`.
            None | Some(8) => None,
            Some(priority @ 0..=7) => Some(priority as u8),
            Some(priority) => {
                let value = Scalar::Integer(i64::try_from(priority).unwrap_or(i64::MAX));
                return Err(self.misfit(
                    &attributes,
                    "ioprio",
                    &value,
                    "write a priority from 0 (highest) to 7",
                ));
            }
        };
        let name = self.text(&attributes, "name")?.unwrap_or_default();
        let instances = self.count_to(&attributes, "instances", MOST_THREADS)?.unwrap_or(1);
        let memory_bytes = self.count_to(&attributes, "memsize", MOST_THREAD_BYTES)?.unwrap_or(0);
        let flowops = self.flowops(&syntax.flowops, around)?;
        Ok(Thread { name, instances, memory_bytes, io_priority, flowops })
    }

    fn flowops(&mut self, syntax: &[FlowopSyntax], around: &mut Surroundings<'_>) -> Result<Vec<Flowop>> {
        syntax.iter().map(|flowop| self.flowop(flowop, around)).collect()
    }

    fn flowop(&mut self, syntax: &FlowopSyntax, around: &mut Surroundings<'_>) -> Result<Flowop> {
        self.count_work(&syntax.span)?;
        if let Some(kind) = vocabulary::flowop(&syntax.word) {
            return self.built_in(syntax, kind, around);
        }
        if let Some(defined) = self.composites.get(&syntax.word).map(Rc::clone) {
            return self.composite(syntax, &defined, around);
        }
        let mut known: Vec<&str> = self.composites.keys().map(String::as_str).collect();
        known.sort_unstable();
        known.extend(vocabulary::flowop_names().map(|name| -> &str { name }));
        let remedy = suggest(&syntax.word, known, "flowops");
        Err(Fault::new(&syntax.word_span, Problem::UnknownFlowop(clip(&syntax.word)), remedy))
    }

    fn composite(
        &mut self,
        syntax: &FlowopSyntax,
        defined: &Defined<CompositeSyntax>,
        around: &mut Surroundings<'_>,
    ) -> Result<Flowop> {
        if around.composites.contains(&syntax.word) {
            let problem = Problem::Recursion(format!("the flowop {:?}", clip(&syntax.word)));
            return Err(Fault::new(&syntax.word_span, problem, "remove it from itself"));
        }
        if around.composites.len() >= DEEPEST {
            let remedy = format!("at most {DEEPEST} levels are allowed");
            return Err(Fault::new(&syntax.word_span, Problem::TooDeep("composite flowops"), remedy));
        }
        let outside = around.scope.clone();
        let attributes = Attributes { all: &syntax.attributes, scope: &outside };
        let name = self.flowop_name(&attributes, around)?;
        let mut iterations = self.value(&attributes, "iters")?;
        if iterations.is_none() {
            let attributes = Attributes { all: &defined.syntax.attributes, scope: &defined.scope };
            iterations = self.value(&attributes, "iters")?;
        }
        for attribute in syntax.attributes.iter().filter(|a| !matches!(a.name, "name" | "iters")) {
            let text = format!(
                "{} has no effect here: {} is a composite flowop",
                attribute.name,
                clip(&syntax.word)
            );
            self.warn(&attribute.span, text);
        }
        let inside = self.inside(syntax, defined, &outside)?;
        let prefix = std::mem::replace(&mut around.prefix, format!("{name}."));
        around.composites.push(syntax.word.clone());
        around.scope = inside;
        let inner = self.flowops(&defined.syntax.flowops, around)?;
        around.scope = outside;
        around.composites.pop();
        around.prefix = prefix;
        Ok(Flowop {
            name,
            iterations: iterations.unwrap_or(Value::Fixed(1)),
            span: syntax.span.clone(),
            ..empty(FlowopKind::Composite(inner))
        })
    }

    /// The variables inside a composite flowop: as it defines them, and above these as its use does.
    fn inside(
        &mut self,
        syntax: &FlowopSyntax,
        defined: &Defined<CompositeSyntax>,
        outside: &Scope,
    ) -> Result<Scope> {
        let mut inside = defined.scope.as_deref().cloned().unwrap_or_default();
        for local in &defined.syntax.locals {
            match &local.value {
                Some(value) => drop(inside.insert(local.name.clone(), self.binding(value, &defined.scope)?)),
                None => drop(inside.remove(&local.name)),
            }
        }
        for local in &syntax.locals {
            if let Some(value) = &local.value {
                inside.insert(local.name.clone(), self.binding(value, outside)?);
            }
        }
        Ok(Some(Rc::new(inside)))
    }

    fn flowop_name(&mut self, attributes: &Attributes<'_>, around: &Surroundings<'_>) -> Result<String> {
        let name = self.text(attributes, "name")?.unwrap_or_default();
        Ok(format!("{}{name}", around.prefix))
    }

    fn built_in(
        &mut self,
        syntax: &FlowopSyntax,
        kind: FlowopKind,
        around: &mut Surroundings<'_>,
    ) -> Result<Flowop> {
        let scope = around.scope.clone();
        let attributes = &Attributes { all: &syntax.attributes, scope: &scope };
        let name = self.flowop_name(attributes, around)?;
        let file_set = self.file_set_of(syntax, attributes, around)?;
        let fd = self.descriptor(attributes, "fd")?;
        require_files(syntax, &kind, file_set.is_some(), fd.is_some())?;
        let is_print = matches!(kind, FlowopKind::Print);
        let text = if is_print { Some(self.text(attributes, "value")?.unwrap_or_default()) } else { None };
        let value = if is_print { None } else { self.value(attributes, "value")? };
        if matches!(kind, FlowopKind::TestRandomVariable) && !matches!(value, Some(Value::Drawn(_))) {
            let problem = "testrandvar needs a random variable as its value";
            return Err(Fault::misfit(&syntax.span, problem, "add value=$variable: a randvar or cvar"));
        }
        let target = self.target(syntax, &kind, attributes, around)?;
        if syntax.locals.iter().any(|local| local.value.is_some()) {
            let text =
                format!("its own variables have no effect here: {} is not a composite flowop", syntax.word);
            self.warn(&syntax.span, text);
        }
        let zero = Value::Fixed(0);
        Ok(Flowop {
            name,
            iterations: self.value(attributes, "iters")?.unwrap_or(Value::Fixed(1)),
            file_set,
            fd: fd.unwrap_or(0),
            source_fd: self.descriptor(attributes, "srcfd")?.unwrap_or(0),
            io_bytes: self.value_to(attributes, "iosize", MOST_IO_BYTES)?.unwrap_or(zero.clone()),
            working_set: self.value(attributes, "workingset")?.unwrap_or(zero.clone()),
            random: self.flag(attributes, "random")?,
            synchronous: self.flag(attributes, "dsync")?,
            direct: self.flag(attributes, "directio")?,
            rotate: self.flag(attributes, "opennext")?,
            no_read_ahead: self.flag(attributes, "noreadahead")?,
            blocking: self.flag(attributes, "blocking")?,
            high_water: self.count(attributes, "highwater")?.unwrap_or(1),
            value: value.unwrap_or(zero),
            target,
            index: self.value(attributes, "indexed")?,
            text,
            span: syntax.span.clone(),
            ..empty(kind)
        })
    }

    /// The flowop that one wakes, by name.
    fn target(
        &mut self,
        syntax: &FlowopSyntax,
        kind: &FlowopKind,
        attributes: &Attributes<'_>,
        around: &mut Surroundings<'_>,
    ) -> Result<Option<String>> {
        let target = self.text(attributes, "target")?;
        if let Some(attribute) = attribute(&syntax.attributes, "target") {
            around.targets.insert(syntax.span.clone(), attribute.span.clone());
        }
        if target.is_none() && matches!(kind, FlowopKind::WakeUp | FlowopKind::SemaphorePost) {
            let problem = Problem::Missing { place: syntax.word.clone(), attribute: "target" };
            return Err(Fault::new(&syntax.span, problem, "add target=…: the name of the flowop that waits"));
        }
        Ok(target)
    }

    /// The file set that a flowop names; of several of that name, the one defined last.
    fn file_set_of(
        &mut self,
        syntax: &FlowopSyntax,
        attributes: &Attributes<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Option<usize>> {
        let Some(attribute) = attribute(&syntax.attributes, "filename") else { return Ok(None) };
        let Some(expression) = &attribute.value else {
            return Err(Fault::value(&attribute.span, "filename", "without a value", "write filesetname=…"));
        };
        let name = match self.evaluate(expression, attributes.scope)? {
            Evaluated::Scalar(name) => name.to_string(),
            Evaluated::Random(random) => {
                let value = format!("the random variable ${}", random.name);
                return Err(Fault::value(&attribute.span, "filename", value, "it is the name of a file set"));
            }
        };
        if let Some(index) = around.file_sets.iter().rposition(|set| set.name == name) {
            if around.file_sets.iter().filter(|set| set.name == name).count() > 1 {
                let text = format!("more than one file set is named {name:?}: the last definition is used");
                self.warn(&attribute.span, text);
            }
            return Ok(Some(index));
        }
        let known = around.file_sets.iter().map(|set| set.name.as_str());
        let remedy = suggest(&name, known, "file sets");
        Err(Fault::new(&attribute.span, Problem::UnknownFileSet(clip(&name)), remedy))
    }
}

/// Flowops that have to know which file set they mean.
fn require_files(syntax: &FlowopSyntax, kind: &FlowopKind, has_set: bool, has_fd: bool) -> Result<()> {
    use FlowopKind::{
        CreateFile, DeleteFile, FsyncSet, ListDirectory, MakeDirectory, OpenFile, RemoveDirectory, StatFile,
    };
    let needs_set =
        matches!(kind, CreateFile | OpenFile | MakeDirectory | RemoveDirectory | ListDirectory | FsyncSet);
    let needs_either = matches!(kind, DeleteFile | StatFile);
    if has_set || !(needs_set || needs_either && !has_fd) {
        return Ok(());
    }
    let problem = Problem::Missing { place: syntax.word.clone(), attribute: "filesetname" };
    Err(Fault::new(&syntax.span, problem, "add filesetname=…: the name of a file or file set"))
}

/// A flowop with nothing said about it.
fn empty(kind: FlowopKind) -> Flowop {
    let zero = Value::Fixed(0);
    Flowop {
        name: String::new(),
        kind,
        iterations: Value::Fixed(1),
        file_set: None,
        fd: 0,
        source_fd: 0,
        io_bytes: zero.clone(),
        working_set: zero.clone(),
        random: false,
        synchronous: false,
        direct: false,
        rotate: false,
        no_read_ahead: false,
        blocking: false,
        high_water: 1,
        value: zero,
        target: None,
        index: None,
        text: None,
        span: 0..0,
    }
}
