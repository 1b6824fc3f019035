//! The notation of workloads: `engine:case:option=value:…`.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::ops::Range;
use std::str::FromStr;

use nestor_text::nearest;
use nestor_text::units::listed;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::demand::Demand;
use crate::engine::{
    Case, DataSet, Engine, OptionSpec, Place, RecordedStep, Step, StepOutput, Untimed, WorksOn,
};
use crate::engines::{ENGINES, LifeCycle};
use crate::error::{LoadError, Problem, WorkloadError};
use crate::result::LoadResult;
use crate::value::{Kind, Value};

/// One workload: an engine, a case of it, and the options that differ from their defaults.
///
/// Two texts that mean the same are equal. Printed canonically: defaults are omitted, options stand in the engine's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    engine: &'static str,
    case: &'static str,
    /// Without options that are as by default.
    options: BTreeMap<&'static str, Value>,
}

/// A part of the text between two `:`.
struct Part<'t> {
    text: &'t str,
    span: Range<usize>,
}

/// What a text is that a workload is read from.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// A workload by itself.
    Whole,
    /// The value of an option of another.
    OfAnOption,
}

/// Why options do not go together.
struct Refused {
    /// The one to blame, where one is.
    option: Option<&'static str>,
    problem: Problem,
    remedy: String,
}

impl Workload {
    /// Reads a workload. The reader of a list of workloads expands brace alternatives before.
    ///
    /// # Errors
    /// The part of the text to blame and what would fit there.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        Self::parse_as(text, Role::Whole)
    }

    /// Whether a text begins as workloads do, with an engine or a case of one, however it goes on.
    pub fn is_meant_by(text: &str) -> bool {
        let first = parts(text).next().map_or("", |part| part.text);
        find_engine(first).is_some() || with_engine(text, first).is_some()
    }

    /// The same. A workload of an option has none in its own options: a text that goes on for ever would be read for ever.
    fn parse_as(text: &str, role: Role) -> Result<Self, WorkloadError> {
        let mut parts = parts(text);
        let fail = |span: Range<usize>, problem, remedy| {
            Err(WorkloadError { text: text.to_owned(), span, problem, remedy })
        };
        let first = parts.next().unwrap_or(Part { text: "", span: 0..0 });
        let Some(engine) = find_engine(first.text) else {
            let remedy = with_engine(text, first.text)
                .unwrap_or_else(|| choices(first.text, ENGINES.iter().map(|e| e.name()), "engines are"));
            return fail(first.span, Problem::UnknownEngine(first.text.to_owned()), remedy);
        };
        if role == Role::OfAnOption && engine.options().iter().any(|spec| spec.kind == Kind::Workload) {
            let problem = Problem::Misfit("a life within a life is not possible".to_owned());
            let remedy = "write a workload that runs in the instance, as fio:rand-read".to_owned();
            return fail(first.span, problem, remedy);
        }
        let case_names = || engine.cases().iter().map(|c| c.name);
        let second = parts.next().unwrap_or(Part { text: "", span: text.len()..text.len() });
        let Some(case) = engine.cases().iter().find(|c| c.name == second.text) else {
            let problem = match second.text {
                "" => Problem::NoCase(engine.name()),
                other => Problem::UnknownCase { engine: engine.name(), case: other.to_owned() },
            };
            return fail(second.span, problem, choices(second.text, case_names(), "it has"));
        };
        let mut workload = Self { engine: engine.name(), case: case.name, options: BTreeMap::new() };
        let mut spans = BTreeMap::new();
        for part in option_parts(engine, text, second.span.end) {
            match parse_option(engine, case, &part) {
                Ok((spec, value)) => {
                    spans.insert(spec.name, part.span.clone());
                    if workload.options.insert(spec.name, value).is_some() {
                        return fail(part.span, Problem::Twice(spec.name), "write it once".to_owned());
                    }
                }
                Err((span, problem, remedy)) => return fail(span, problem, remedy),
            }
        }
        workload.checked(engine).map_err(|Refused { option, problem, remedy }| {
            let span = option.and_then(|option| spans.get(option)).cloned().unwrap_or(second.span);
            WorkloadError { text: text.to_owned(), span, problem, remedy }
        })
    }

    /// The same workload with other values of some options.
    ///
    /// # Errors
    /// There is no such option, it does not take the value, or the options do not go together; the error's text is what they would make.
    pub fn with(
        &self,
        values: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<Self, WorkloadError> {
        let mut other = self.clone();
        let fail = |of: &Self, Refused { problem, remedy, .. }| {
            let text = of.to_string();
            WorkloadError { span: 0..text.len(), text, problem, remedy }
        };
        for (name, value) in values {
            self.check_value(name, &value).map_err(|refused| fail(self, refused))?;
            other.options.insert(name, value);
        }
        let unchecked = other.clone();
        other.checked(self.engine()).map_err(|refused| fail(&unchecked, refused))
    }

    /// Whether there is such an option, and it takes a value.
    fn check_value(&self, name: &'static str, value: &Value) -> Result<(), Refused> {
        let has = |spec: &&OptionSpec| spec.name == name && spec.is_of(self.case);
        let (problem, remedy) = match self.engine().options().iter().find(has) {
            Some(spec) if spec.kind.takes(value) => return Ok(()),
            Some(spec) => {
                let problem = Problem::BadValue { option: name, value: value.to_string() };
                (problem, format!("{name} is a {}", spec.kind.form()))
            }
            None => {
                let place = format!("{}:{}", self.engine, self.case);
                (Problem::UnknownOption { place, option: name.to_owned() }, "leave it out".to_owned())
            }
        };
        Err(Refused { option: Some(name), problem, remedy })
    }

    /// What all options together are, without those that are as by default.
    fn checked(mut self, engine: &'static dyn Engine) -> Result<Self, Refused> {
        let missing = |spec: &&OptionSpec| {
            spec.kind == Kind::File && spec.is_of(self.case) && !self.options.contains_key(spec.name)
        };
        if let Some(spec) = engine.options().iter().find(missing) {
            let problem = Problem::Misfit(format!("{} needs {}=", self.case, spec.name));
            let remedy = format!("add :{}=PATH, {}", spec.name, spec.summary);
            return Err(Refused { option: None, problem, remedy });
        }
        if let Err(misfit) = engine.check(&self) {
            let problem = Problem::Misfit(misfit.why);
            return Err(Refused { option: Some(misfit.option), problem, remedy: misfit.remedy });
        }
        self.drop_defaults(engine);
        Ok(self)
    }

    /// A case with all options as by default: for lists, where one that needs a file has none.
    pub(crate) fn of_case(engine: &'static dyn Engine, case: &Case) -> Self {
        Self { engine: engine.name(), case: case.name, options: BTreeMap::new() }
    }

    fn drop_defaults(&mut self, engine: &'static dyn Engine) {
        for spec in engine.options() {
            let default = engine.default_value(self, spec.name);
            if default.is_some() && self.options.get(spec.name) == default.as_ref() {
                self.options.remove(spec.name);
            }
        }
    }

    /// The engine that runs it.
    pub fn engine(&self) -> &'static dyn Engine {
        find_engine(self.engine).expect("only the parser makes workloads, and it has found the engine")
    }

    /// The case's name.
    pub fn case(&self) -> &'static str {
        self.case
    }

    /// The value of an option, written or by default; `None` if it has neither.
    pub fn value(&self, option: &str) -> Option<Value> {
        self.given(option).or_else(|| self.engine().default_value(self, option))
    }

    /// The value of an option if it is written and not as by default.
    pub fn given(&self, option: &str) -> Option<Value> {
        self.options.get(option).cloned()
    }

    /// The files that it names, as written: what they hold is part of the workload, and its notation does not tell it.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.options.values().flat_map(|value| match value {
            Value::File(path) => vec![path.as_str()],
            Value::Workload(inner) => inner.files().collect(),
            _ => Vec::new(),
        })
    }

    /// See [`Engine::data_set`].
    pub fn data_set(&self) -> DataSet {
        self.engine().data_set(self)
    }

    /// See [`Engine::demand`].
    pub fn demand(&self) -> Demand {
        self.engine().demand(self)
    }

    /// See [`Engine::life`].
    pub fn life(&self) -> Option<LifeCycle> {
        self.engine().life(self)
    }

    /// See [`Engine::family`].
    pub fn family(&self) -> &'static str {
        self.engine().family(self)
    }

    /// See [`Engine::script`].
    pub fn script(&self) -> Option<String> {
        self.engine().script(self)
    }

    /// See [`Engine::script_settings`].
    pub fn script_settings(&self) -> Vec<(&'static str, &'static str)> {
        self.engine().script_settings(self)
    }

    /// See [`Engine::works_on`].
    pub fn works_on(&self) -> WorksOn {
        match self.life() {
            Some(LifeCycle { run: Some(run), .. }) => run.works_on(),
            _ => self.engine().works_on(),
        }
    }

    /// See [`Engine::describe`].
    pub fn describe(&self) -> String {
        self.engine().describe(self)
    }

    /// See [`Engine::remarks`].
    pub fn remarks(&self) -> Vec<String> {
        self.engine().remarks(self)
    }

    /// See [`Engine::untimed`].
    pub fn untimed(&self) -> Option<Untimed> {
        self.engine().untimed(self)
    }

    /// See [`Engine::prepare`].
    pub fn prepare(&self, place: &Place, seed: u64) -> Vec<Step> {
        self.engine().prepare(self, place, seed)
    }

    /// Seconds after which the measured step ends by itself at the latest; see [`Engine::time_limit_s`].
    pub fn time_limit_s(&self) -> Option<u64> {
        self.engine().time_limit_s(self)
    }

    /// See [`Engine::measure`].
    pub fn measure(&self, place: &Place, seed: u64) -> Step {
        self.engine().measure(self, place, seed)
    }

    /// See [`Engine::measure_recorded`].
    pub fn measure_recorded(&self, place: &Place, seed: u64) -> Option<RecordedStep> {
        self.engine().measure_recorded(self, place, seed)
    }

    /// See [`Engine::marked_operations`].
    pub fn marked_operations(&self, place: &Place) -> Option<String> {
        self.engine().marked_operations(place)
    }

    /// See [`Engine::check_preparation`].
    ///
    /// # Errors
    /// Why the data set is not as it should be.
    pub fn check_preparation(&self, output: &StepOutput) -> Result<(), LoadError> {
        self.engine().check_preparation(self, output)
    }

    /// See [`Engine::parse`].
    ///
    /// # Errors
    /// Why there is no result.
    pub fn parse_output(&self, output: &StepOutput) -> Result<LoadResult, LoadError> {
        self.engine().parse(self, output)
    }
}

pub(crate) fn find_engine(name: &str) -> Option<&'static dyn Engine> {
    ENGINES.iter().copied().find(|engine| engine.name() == name)
}

/// The parts of a text between the `:`, each with its place.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut start = 0;
    text.split(':').map(move |part| {
        let span = start..start + part.len();
        start = span.end + 1;
        Part { text: part, span }
    })
}

/// The options after the case, which ends at `end`. A workload that is an option's value takes all the rest.
fn option_parts<'t>(
    engine: &'static dyn Engine,
    text: &'t str,
    end: usize,
) -> impl Iterator<Item = Part<'t>> {
    let takes_rest = move |part: &str| {
        let name = part.split_once('=').map(|(name, _)| name);
        engine.options().iter().any(|spec| spec.kind == Kind::Workload && Some(spec.name) == name)
    };
    let mut start = end + 1;
    iter::from_fn(move || {
        let rest = text.get(start..)?;
        let part = rest.split(':').next().filter(|part| !takes_rest(part)).unwrap_or(rest);
        let span = start..start + part.len();
        start = span.end + 1;
        Some(Part { text: part, span })
    })
}

type OptionError = (Range<usize>, Problem, String);

/// Reads the workload that is the value of an option.
fn parse_inner(
    spec: &'static OptionSpec,
    text: &str,
    span: Range<usize>,
) -> Result<(&'static OptionSpec, Value), OptionError> {
    if text.is_empty() {
        return Err((span, Problem::NoValue(spec.name), format!("{} is a {}", spec.name, spec.kind.form())));
    }
    let inner = Workload::parse_as(text, Role::OfAnOption)
        .map_err(|e| (span.start + e.span.start..span.start + e.span.end, e.problem, e.remedy))?;
    Ok((spec, Value::Workload(Box::new(inner))))
}

/// Reads one `option=value`.
fn parse_option(
    engine: &'static dyn Engine,
    case: &Case,
    part: &Part<'_>,
) -> Result<(&'static OptionSpec, Value), OptionError> {
    let has = |spec: &&OptionSpec| spec.is_of(case.name);
    let names = || engine.options().iter().filter(has).map(|spec| spec.name);
    let (name, value) = part.text.split_once('=').unwrap_or((part.text, ""));
    let name_span = part.span.start..part.span.start + name.len();
    let Some(spec) = engine.options().iter().find(|spec| spec.name == name) else {
        let problem = if part.text.contains('=') {
            Problem::UnknownOption { place: engine.name().to_owned(), option: name.to_owned() }
        } else {
            Problem::NotAnOption(part.text.to_owned())
        };
        return Err((name_span, problem, choices(name, names(), "options are")));
    };
    if !has(&spec) {
        let place = format!("{}:{}", engine.name(), case.name);
        let problem = Problem::UnknownOption { place, option: name.to_owned() };
        return Err((name_span, problem, format!("only {} has it", spec.cases.join(" or "))));
    }
    let value_span = (name_span.end + 1).min(part.span.end)..part.span.end;
    if spec.kind == Kind::Workload {
        return parse_inner(spec, value, value_span);
    }
    match spec.kind.parse(value) {
        Ok(value) => Ok((spec, value)),
        Err(form) => {
            let problem = match value {
                "" => Problem::NoValue(spec.name),
                value => Problem::BadValue { option: spec.name, value: value.to_owned() },
            };
            let nearest = match spec.kind {
                Kind::Choice(words) => nearest(value, words.iter().copied()),
                _ => None,
            };
            let question = nearest.map(|word| format!("did you mean {word}? ")).unwrap_or_default();
            Err((value_span, problem, format!("{question}{} is {form}", spec.name)))
        }
    }
}

/// `did you mean seq-write? it has seq-read, seq-write, …`.
fn choices<'n>(written: &str, names: impl Iterator<Item = &'n str> + Clone, heading: &str) -> String {
    let all = listed(names.clone());
    match nearest(written, names) {
        Some(name) => format!("did you mean {name}? {heading} {all}"),
        None => format!("{heading} {all}"),
    }
}

/// What to write instead of a workload that begins with a case: the same after each engine that has it.
fn with_engine(text: &str, case: &str) -> Option<String> {
    let has = |engine: &&&dyn Engine| engine.cases().iter().any(|of_engine| of_engine.name == case);
    let meant: Vec<String> =
        ENGINES.iter().filter(has).map(|engine| format!("{}:{text}", engine.name())).collect();
    (!meant.is_empty()).then(|| format!("did you mean {}?", meant.join(" or ")))
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.engine, self.case)?;
        for spec in self.engine().options() {
            if let Some(value) = self.options.get(spec.name) {
                write!(f, ":{}={value}", spec.name)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        Self::parse(text)
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
