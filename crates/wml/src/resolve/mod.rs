//! From commands to a plan: every variable gets its value when the command that needs it is executed.

mod files;
mod limits;
mod processes;
mod random;
mod targets;
mod values;
mod variables;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::book::Book;
use crate::error::{Fault, Problem};
use crate::limits::{MOST_EVENTS_PER_S, MOST_SECONDS};
use crate::plan::{Action, MultiClient, Process, QuitMode, RandomVariable, Run, RunTime, Script, Warning};
use crate::syntax::{
    Attribute, Command, CommandKind, CompositeSyntax, Expression, FilesSyntax, ProcessSyntax, attribute,
};
use crate::{Environment, Span};
use values::Attributes;
use variables::{Binding, Evaluated, RandomDefinition, Scope, Variables};

/// Commands, files, threads and flowops of a script, each time it is executed. No script needs as many; a loop that does
/// would otherwise take all memory.
const MOST_WORK: usize = 300_000;

/// Seconds between two reports where none are given (`parser_gram.y` of Filebench).
const REPORT_PERIOD_S: f64 = 10.0;

type Result<T> = std::result::Result<T, Box<Fault>>;

/// What is known while commands are executed.
pub(crate) struct Resolver<'a> {
    book: &'a Book,
    environment: Option<Environment<'a>>,
    script_name: String,
    variables: Variables,
    /// Levels of variables that are being looked at.
    depth: usize,
    randoms: HashMap<*const RandomDefinition, (Rc<RandomDefinition>, Arc<RandomVariable>)>,
    open_randoms: Vec<*const RandomDefinition>,
    files: Vec<Defined<FilesSyntax>>,
    processes: Vec<Defined<ProcessSyntax>>,
    composites: HashMap<String, Rc<Defined<CompositeSyntax>>>,
    mode: QuitMode,
    rate: Option<(&'a [Attribute], Scope)>,
    started: Option<Started>,
    has_run: bool,
    has_quit: bool,
    work: usize,
    actions: Vec<Action>,
    warnings: Vec<Warning>,
    warned: HashSet<(usize, String)>,
}

/// Something defined, and the variables that were known only there.
#[derive(Debug)]
struct Defined<T> {
    syntax: Rc<T>,
    scope: Scope,
}

impl<T> Clone for Defined<T> {
    fn clone(&self) -> Self {
        Self { syntax: Rc::clone(&self.syntax), scope: self.scope.clone() }
    }
}

/// `create processes`: what follows is a run, command by command (1.4).
#[derive(Debug)]
struct Started {
    span: Span,
    measured_s: f64,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(book: &'a Book, script_name: &str, environment: Option<Environment<'a>>) -> Self {
        Self {
            book,
            environment,
            script_name: script_name.to_owned(),
            variables: Variables::default(),
            depth: 0,
            randoms: HashMap::new(),
            open_randoms: Vec::new(),
            files: Vec::new(),
            processes: Vec::new(),
            composites: HashMap::new(),
            mode: QuitMode::Timeout,
            rate: None,
            started: None,
            has_run: false,
            has_quit: false,
            work: 0,
            actions: Vec::new(),
            warnings: Vec::new(),
            warned: HashSet::new(),
        }
    }

    /// Executes assignments of the command line; nothing changes their variables later.
    pub(crate) fn overrides(&mut self, commands: &'a [Command]) -> Result<()> {
        self.commands(commands, &None)?;
        for command in commands {
            if let CommandKind::Set { variable, .. } | CommandKind::SetRandom { variable, .. } = &command.kind
            {
                self.variables.fixed.insert(variable.name.clone());
            }
        }
        Ok(())
    }

    /// Executes a script to its end.
    pub(crate) fn script(mut self, commands: &'a [Command], remarks: Vec<(Span, String)>) -> Result<Script> {
        for (span, text) in remarks {
            self.warn(&span, text);
        }
        self.commands(commands, &None)?;
        self.finish_started()?;
        if !self.has_run && !self.has_quit {
            let span = commands.last().map_or(0..0, |command| command.span.clone());
            let run = self.run(&span, RunTime::NotGiven)?;
            if !run.processes.is_empty() {
                self.actions.push(Action::Run(run));
            }
        }
        self.warnings.sort_by_key(|warning| warning.line);
        Ok(Script { actions: self.actions, warnings: self.warnings })
    }

    fn warn(&mut self, span: &Span, text: impl Into<String>) {
        let (line, text) = (self.book.line(span.start), text.into());
        if self.warned.insert((line, text.clone())) {
            self.warnings.push(Warning { line, text });
        }
    }

    fn count_work(&mut self, span: &Span) -> Result<()> {
        self.work += 1;
        if self.work > MOST_WORK {
            let remedy = format!(
                "a script can execute or make at most {MOST_WORK} commands, files, threads and \
                         flowops"
            );
            return Err(Fault::new(span, Problem::TooMuch, remedy));
        }
        Ok(())
    }

    fn commands(&mut self, commands: &'a [Command], scope: &Scope) -> Result<()> {
        for command in commands {
            if self.has_quit {
                break;
            }
            self.count_work(&command.span)?;
            self.command(command, scope)?;
        }
        Ok(())
    }

    fn command(&mut self, command: &'a Command, scope: &Scope) -> Result<()> {
        match &command.kind {
            CommandKind::Set { variable, value } => {
                self.randoms.clear();
                self.assign(&variable.name, value, scope)?;
            }
            CommandKind::SetRandom { variable, random } => {
                let name = variable.name.clone();
                let syntax = Rc::clone(random);
                self.bind_random(RandomDefinition {
                    name,
                    syntax,
                    scope: scope.clone(),
                    changes: Vec::new(),
                })?;
            }
            CommandKind::SetRandomAttribute { .. } => self.set_random_attribute(command)?,
            CommandKind::Mode(mode) => self.mode = *mode,
            CommandKind::DefineFiles(syntax) => {
                self.files.push(Defined { syntax: Rc::clone(syntax), scope: scope.clone() });
            }
            CommandKind::DefineProcess(syntax) => {
                self.processes.push(Defined { syntax: Rc::clone(syntax), scope: scope.clone() });
            }
            CommandKind::DefineFlowop(syntax) => self.define_composite(syntax, scope)?,
            CommandKind::Foreach { variable, values, body } => {
                for value in values {
                    let binding = self.binding(value, scope)?;
                    let mut names = scope.as_deref().cloned().unwrap_or_default();
                    names.insert(variable.name.clone(), binding);
                    self.count_work(&command.span)?;
                    self.commands(body, &Some(Rc::new(names)))?;
                }
            }
            CommandKind::Nothing(reason) => {
                if let Some(reason) = reason {
                    self.warn(&command.span, *reason);
                }
            }
            _ => self.action(command, scope)?,
        }
        Ok(())
    }

    /// Commands that do something when the script runs.
    fn action(&mut self, command: &'a Command, scope: &Scope) -> Result<()> {
        let action = match &command.kind {
            CommandKind::Echo(text) => Action::Echo(self.command_text(text, scope)?),
            CommandKind::System(text) => Action::System(self.command_text(text, scope)?),
            CommandKind::Sleep(time) => return self.sleep(command, time.as_ref(), scope),
            CommandKind::Warmup(time) => return self.warm_up(command, time, scope),
            CommandKind::CreateFiles => Action::CreateFiles(Arc::new(self.file_sets()?)),
            CommandKind::ListFileSets => Action::ListFileSets(Arc::new(self.file_sets()?)),
            CommandKind::CreateProcesses => {
                self.started.get_or_insert(Started { span: command.span.clone(), measured_s: 0.0 });
                return Ok(());
            }
            CommandKind::StatsClear => {
                self.clear_counters(&command.span);
                return Ok(());
            }
            CommandKind::ShutdownProcesses => return self.finish_started(),
            CommandKind::Run { time } => {
                let time = self.run_time(time.as_ref(), scope)?;
                Action::Run(self.explicit_run(command, time)?)
            }
            CommandKind::PeriodicRun { period, time } => {
                Action::Run(self.periodic_run(command, period.as_ref(), time.as_ref(), scope)?)
            }
            CommandKind::EventGen(attributes) => {
                self.rate = Some((attributes, scope.clone()));
                return Ok(());
            }
            CommandKind::EnableMulti(attributes) => {
                Action::EnableMulti(self.multi(command, attributes, scope)?)
            }
            CommandKind::MultiSync(all) => {
                let value = self.count(&Attributes { all, scope }, "value")?;
                Action::MultiSync(value.unwrap_or(1))
            }
            CommandKind::Quit => return self.quit(&command.span),
            _ => return Ok(()),
        };
        self.actions.push(action);
        Ok(())
    }

    fn sleep(&mut self, command: &Command, time: Option<&Expression>, scope: &Scope) -> Result<()> {
        let time_s = match time {
            Some(time) => self.seconds("sleep", time, scope)?,
            None if self.started.is_some() => 0.0,
            None => {
                return Err(Fault::misfit(&command.span, "sleep needs a time", "give it seconds: sleep 10"));
            }
        };
        match &mut self.started {
            Some(started) => started.measured_s += time_s,
            None => self.actions.push(Action::Sleep(time_s)),
        }
        Ok(())
    }

    fn warm_up(&mut self, command: &Command, time: &Expression, scope: &Scope) -> Result<()> {
        let time_s = self.seconds("warmup", time, scope)?;
        if self.started.is_some() {
            let text = format!("warmup {time_s} has no effect here: every run begins with fresh counters");
            self.warn(&command.span, text);
        } else {
            self.actions.push(Action::Sleep(time_s));
        }
        Ok(())
    }

    fn quit(&mut self, span: &Span) -> Result<()> {
        self.finish_started()?;
        self.has_quit = true;
        if !self.has_run && !self.processes.is_empty() {
            self.warn(span, "the script ends here without a run");
        }
        Ok(())
    }

    fn clear_counters(&mut self, span: &Span) {
        if let Some(started) = &mut self.started
            && started.measured_s > 0.0
        {
            let time_s = std::mem::take(&mut started.measured_s);
            self.warn(
                span,
                format!("the {time_s} s before this are skipped: every run begins with fresh counters"),
            );
        }
    }

    /// What `create processes` began ends here.
    fn finish_started(&mut self) -> Result<()> {
        let Some(started) = self.started.take() else { return Ok(()) };
        let time =
            if started.measured_s > 0.0 { RunTime::Seconds(started.measured_s) } else { RunTime::NotGiven };
        let run = self.run(&started.span, time)?;
        self.has_run = true;
        self.actions.push(Action::Run(run));
        Ok(())
    }

    fn explicit_run(&mut self, command: &Command, time: RunTime) -> Result<Run> {
        match &self.started {
            Some(started) if started.measured_s > 0.0 => self.finish_started()?,
            _ => self.started = None,
        }
        let run = self.run(&command.span, time)?;
        if run.processes.is_empty() {
            self.warn(&command.span, "no process is defined before this run: it only makes the files");
        }
        self.has_run = true;
        Ok(run)
    }

    /// A run that reports what it did until then; a negative period makes each report begin anew.
    fn periodic_run(
        &mut self,
        command: &Command,
        period: Option<&Expression>,
        time: Option<&Expression>,
        scope: &Scope,
    ) -> Result<Run> {
        let period_s = match period {
            Some(period) => self.report_period(period, scope)?,
            None => 0.0,
        };
        let time = self.run_time(time, scope)?;
        let mut run = self.explicit_run(command, time)?;
        run.report_every_s = Some(if period_s == 0.0 { REPORT_PERIOD_S } else { period_s.abs() });
        run.report_resets = period_s < 0.0;
        Ok(run)
    }

    fn run(&mut self, span: &Span, time: RunTime) -> Result<Run> {
        let file_sets = self.file_sets()?;
        let processes: Vec<Process> = self.resolved_processes(&file_sets)?;
        let events_per_second = self.event_rate(span)?;
        Ok(Run {
            file_sets: Arc::new(file_sets),
            processes: Arc::new(processes),
            time,
            quit: self.mode,
            events_per_second,
            report_every_s: None,
            report_resets: false,
        })
    }

    fn event_rate(&mut self, span: &Span) -> Result<Option<f64>> {
        let Some((all, scope)) = self.rate.clone() else { return Ok(None) };
        let attributes = Attributes { all, scope: &scope };
        let rate = self.double(&attributes, "rate")?.unwrap_or(0.0);
        if !(0.0..=MOST_EVENTS_PER_S).contains(&rate) {
            let span = attribute(all, "rate").map_or(span.clone(), |attribute| attribute.span.clone());
            let remedy =
                format!("write events per second, at most {MOST_EVENTS_PER_S}; 0 means as many as possible");
            return Err(Fault::value(&span, "rate", rate, remedy));
        }
        Ok((rate > 0.0).then_some(rate))
    }

    fn run_time(&mut self, time: Option<&Expression>, scope: &Scope) -> Result<RunTime> {
        let Some(time) = time else { return Ok(RunTime::NotGiven) };
        let time_s = self.seconds("the time of a run", time, scope)?;
        Ok(if time_s == 0.0 { RunTime::NotGiven } else { RunTime::Seconds(time_s) })
    }

    fn seconds(&mut self, what: &str, time: &Expression, scope: &Scope) -> Result<f64> {
        let time_s = self.command_number(what, time, scope)?;
        if !(0.0..=MOST_SECONDS).contains(&time_s) {
            let remedy = match time_s < 0.0 {
                true => "write seconds, 0 or more".to_owned(),
                false => format!("write seconds, at most {MOST_SECONDS}"),
            };
            return Err(Fault::value(&time.span, what, time_s, remedy));
        }
        Ok(time_s)
    }

    fn report_period(&mut self, period: &Expression, scope: &Scope) -> Result<f64> {
        let what = "the time between two reports";
        let period_s = self.command_number(what, period, scope)?;
        if !(0.0..=MOST_SECONDS).contains(&period_s.abs()) {
            let remedy = format!("write seconds, at most {MOST_SECONDS}");
            return Err(Fault::value(&period.span, what, period_s, remedy));
        }
        Ok(period_s)
    }

    fn multi(&mut self, command: &Command, all: &'a [Attribute], scope: &Scope) -> Result<MultiClient> {
        let attributes = Attributes { all, scope };
        let mut get = |name: &'static str| match self.text(&attributes, name)? {
            Some(text) => Ok(text),
            None => {
                let problem = Problem::Missing { place: "enable multi".to_owned(), attribute: name };
                Err(Fault::new(&command.span, problem, "enable multi master=host1, client=host2"))
            }
        };
        Ok(MultiClient { master: get("master")?, client: get("client")? })
    }

    fn command_text(&mut self, expression: &Expression, scope: &Scope) -> Result<String> {
        Ok(match self.evaluate(expression, scope)? {
            Evaluated::Scalar(value) => value.to_string(),
            Evaluated::Random(random) => format!("${}", random.name),
        })
    }

    /// What an expression stands for, to be given another name.
    fn binding(&mut self, expression: &Expression, scope: &Scope) -> Result<Binding> {
        Ok(match self.evaluate(expression, scope)? {
            Evaluated::Scalar(value) => Binding::Scalar(value),
            Evaluated::Random(random) => Binding::Random(random),
        })
    }

    fn bind_random(&mut self, definition: RandomDefinition) -> Result<()> {
        self.randoms.clear();
        if self.variables.fixed.contains(&definition.name) {
            return Ok(());
        }
        let name = definition.name.clone();
        let definition = Rc::new(definition);
        self.variables.values.insert(name, Binding::Random(Rc::clone(&definition)));
        Ok(())
    }

    fn set_random_attribute(&mut self, command: &Command) -> Result<()> {
        let CommandKind::SetRandomAttribute { variable, value } = &command.kind else { return Ok(()) };
        let Some(name) = variable.attribute else { return Ok(()) };
        if self.variables.fixed.contains(&variable.name) {
            return Ok(());
        }
        let Some(Binding::Random(random)) = self.variables.values.get(&variable.name) else {
            let problem = format!("${} is not a random variable", crate::token::clip(&variable.name));
            return Err(Fault::misfit(&command.span, problem, "define it before as randvar(…) or cvar(…)"));
        };
        let mut changes: Vec<_> =
            random.changes.iter().filter(|(known, _)| *known != name).cloned().collect();
        changes.push((name, Rc::new(value.clone())));
        let changed = RandomDefinition {
            name: random.name.clone(),
            syntax: Rc::clone(&random.syntax),
            scope: random.scope.clone(),
            changes,
        };
        self.bind_random(changed)
    }
}
