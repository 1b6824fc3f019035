//! Reading a study file.
//!
//! ```toml
//! name = "quick"                       # short name; needed
//! title = "Nesting in five minutes"    # one line for people; needed
//! stacks = ["ext3/kvm/{,raw/{ext2,jfs,xfs}/}hdd"]
//! baseline = "ext3/kvm/hdd"            # one for all, among the stacks …
//! # baselines = "raw-disk"             # … or for each stack its guest directly on the medium, added if missing
//! workloads = ["fio:{seq,rand}-{read,write}"]
//! replications = 2                     # fresh stacks per cell; 1 if left out
//! seed = 1                             # decides the order; 1 if left out
//! budget = "5m"                        # stop after this; no limit if left out
//! sentinels = true                     # baseline at both ends of each block; decided by budget if left out
//! trace = "full"                       # or "layers", "none": how much is recorded; "full" if left out
//! trace_cost = false                   # run each traced cell untraced as well, to know what recording costs
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::complaint::{Complaint, Source};
use crate::{Notation, Study, TraceMode};

const KEYS: [&str; 12] = [
    "name",
    "title",
    "stacks",
    "baseline",
    "baselines",
    "workloads",
    "replications",
    "seed",
    "budget",
    "sentinels",
    "trace",
    "trace_cost",
];

/// The most blocks a study may ask for.
const MOST_REPLICATIONS: i64 = 1_000;

/// Why a study file cannot be used.
#[derive(Debug, Error)]
pub enum StudyFileError {
    /// The file cannot be read.
    #[error("cannot read the study file {}: {source}\n  give the path of a study file, for example studies/quick.toml", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error(transparent)]
    Invalid(Box<Complaint>),
}

impl From<Complaint> for StudyFileError {
    fn from(complaint: Complaint) -> Self {
        Self::Invalid(Box::new(complaint))
    }
}

impl Study {
    /// Reads a study file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or with the first thing in it that is wrong.
    pub fn read(path: &Path, notation: &dyn Notation) -> Result<Self, StudyFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| StudyFileError::Read { path: path.to_owned(), source })?;
        Ok(Self::parse(&path.display().to_string(), &text, notation)?)
    }

    /// Reads the text of a study file; `file` is the name that errors give.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn parse(file: &str, text: &str, notation: &dyn Notation) -> Result<Self, Complaint> {
        let source = Source { file, text };
        let table = DeTable::parse(text).map_err(|error| {
            let message = format!("not valid TOML: {}", error.message().replace('\n', ", "));
            source.complain(error.span().unwrap_or(0..0), message)
        })?;
        let table = table.get_ref();
        Reader { source, table }.study(notation)
    }
}

struct Reader<'a> {
    source: Source<'a>,
    table: &'a DeTable<'a>,
}

type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> Reader<'a> {
    fn study(&self, notation: &dyn Notation) -> Result<Study, Complaint> {
        self.refuse_unknown_keys()?;
        let name = self.name()?;
        let title =
            self.text(self.needed("title", "one line for people, such as \"Nesting in five minutes\"")?)?;
        let stacks =
            self.expanded("stacks", "a list of stacks, such as [\"ext3/kvm/hdd\"]", |s| notation.stacks(s))?;
        let workloads =
            self.expanded("workloads", "a list of workloads, such as [\"fio:seq-read\"]", |s| {
                notation.workloads(s)
            })?;
        let mut study = Study {
            name,
            title: title.to_owned(),
            stacks,
            baselines: BTreeMap::new(),
            workloads,
            replications: self.number("replications", 1, MOST_REPLICATIONS)?.unwrap_or(1) as u32,
            seed: self.number("seed", 0, i64::MAX)?.unwrap_or(1) as u64,
            budget: self.budget()?,
            sentinels: self.table.get("sentinels").map(|v| self.truth(v)).transpose()?,
            trace: self.trace()?,
            trace_cost: self.table.get("trace_cost").map(|v| self.truth(v)).transpose()?.unwrap_or(false),
        };
        self.set_baselines(&mut study, notation)?;
        Ok(study)
    }

    fn refuse_unknown_keys(&self) -> Result<(), Complaint> {
        let mut unknown: Vec<_> =
            self.table.iter().map(|(key, _)| key).filter(|k| !KEYS.contains(&k.get_ref().as_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        let Some(key) = unknown.first() else { return Ok(()) };
        let written = key.get_ref().as_ref();
        let nearest = nearest(written, &KEYS).map(|k| format!("did you mean `{k}`?\n")).unwrap_or_default();
        let complaint = self.source.complain(key.span(), format!("a study has no key `{written}`"));
        Err(complaint.help(format!("{nearest}its keys are {}", KEYS.join(", "))))
    }

    fn needed(&self, key: &str, what: &str) -> Result<&'a Value<'a>, Complaint> {
        self.table.get(key).ok_or_else(|| {
            let end = self.source.text.len();
            let at = self.source.text.trim_end().len().min(end);
            self.source
                .complain(at..at, format!("the study has no `{key}`"))
                .help(format!("`{key}` is {what}"))
        })
    }

    fn wrong_type(&self, value: &Value<'_>, what: &str) -> Complaint {
        let found = value.get_ref().type_str();
        let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
        self.source.complain(value.span(), format!("{what} is needed here, not {article} {found}"))
    }

    fn text(&self, value: &'a Value<'a>) -> Result<&'a str, Complaint> {
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong_type(value, "a text in quotes"))?;
        if text.trim().is_empty() {
            return Err(self.source.complain(value.span(), "this text is empty"));
        }
        Ok(text)
    }

    fn truth(&self, value: &Value<'_>) -> Result<bool, Complaint> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong_type(value, "true or false"))
    }

    fn number(&self, key: &str, least: i64, most: i64) -> Result<Option<i64>, Complaint> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let what = format!("a whole number from {least} to {most}");
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong_type(value, &what))?;
        match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.source.complain(value.span(), format!("`{key}` is {what}"))),
        }
    }

    fn trace(&self) -> Result<TraceMode, Complaint> {
        let Some(value) = self.table.get("trace") else { return Ok(TraceMode::default()) };
        let text = self.text(value)?;
        text.parse().map_err(|message: String| {
            self.source.complain(value.span(), message).help(
                "full: every request through all layers; layers: the numbers of each layer; none: nothing",
            )
        })
    }

    fn name(&self) -> Result<String, Complaint> {
        let value = self.needed("name", "a short name, such as \"quick\"")?;
        let name = self.text(value)?;
        if name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Ok(name.to_owned());
        }
        let complaint = self.source.complain(value.span(), format!("`{name}` is not a name"));
        Err(complaint
            .help("a name is made of letters, digits, `-`, `_` and `.`; the long form goes into `title`"))
    }

    fn budget(&self) -> Result<Option<Duration>, Complaint> {
        let Some(value) = self.table.get("budget") else { return Ok(None) };
        let text = self.text(value)?;
        parse_duration(text).map(Some).ok_or_else(|| {
            self.source
                .complain(value.span(), format!("`{text}` is not a time"))
                .help("write hours, minutes and seconds: \"90s\", \"5m\", \"1h30m\"")
        })
    }

    fn expanded(
        &self,
        key: &str,
        what: &str,
        expand: impl Fn(&str) -> Result<Vec<String>, String>,
    ) -> Result<Vec<String>, Complaint> {
        let value = self.needed(key, what)?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong_type(value, "a list of texts"))?;
        let mut found: Vec<String> = Vec::new();
        for item in list.iter() {
            let text = self.text(item)?;
            for one in self.notation(item, expand(text))? {
                if !found.contains(&one) {
                    found.push(one);
                }
            }
        }
        if found.is_empty() {
            return Err(self
                .source
                .complain(value.span(), format!("`{key}` is empty"))
                .help(format!("it is {what}")));
        }
        Ok(found)
    }

    /// Puts the message of a stack's or workload's own error beneath the line that holds it.
    fn notation<T>(&self, value: &Value<'_>, result: Result<T, String>) -> Result<T, Complaint> {
        result.map_err(|message| {
            let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
            let complaint = self.source.complain(value.span(), first);
            if rest.is_empty() { complaint } else { complaint.help(rest) }
        })
    }

    fn set_baselines(&self, study: &mut Study, notation: &dyn Notation) -> Result<(), Complaint> {
        match (self.table.get("baseline"), self.table.get("baselines")) {
            (Some(_), Some(rule)) => Err(self
                .source
                .complain(rule.span(), "the study has both `baseline` and `baselines`")
                .help("`baseline` names one stack for all; `baselines` is a rule; keep one of them")),
            (Some(value), None) => self.one_baseline(study, value, notation),
            (None, Some(value)) => self.baseline_rule(study, value, notation),
            (None, None) => self
                .needed(
                    "baseline",
                    "the stack that the others are compared with (or write baselines = \"raw-disk\")",
                )
                .map(|_| ()),
        }
    }

    fn one_baseline(
        &self,
        study: &mut Study,
        value: &'a Value<'a>,
        notation: &dyn Notation,
    ) -> Result<(), Complaint> {
        let written = self.text(value)?;
        let found = self.notation(value, notation.stacks(written))?;
        let [baseline] = found.as_slice() else {
            let message = format!("the baseline stands for {} stacks; there can be one", found.len());
            return Err(self
                .source
                .complain(value.span(), message)
                .help("baselines = \"raw-disk\" gives each its own"));
        };
        if !study.stacks.contains(baseline) {
            let names: Vec<&str> = study.stacks.iter().map(String::as_str).collect();
            let near = nearest(baseline, &names).unwrap_or(names[0]);
            let complaint = self.source.complain(value.span(), "the baseline is not among the stacks");
            return Err(complaint
                .help(format!("add {baseline} to `stacks`, or take one of them, for example {near}")));
        }
        study.baselines = study.stacks.iter().map(|s| (s.clone(), baseline.clone())).collect();
        Ok(())
    }

    fn baseline_rule(
        &self,
        study: &mut Study,
        value: &'a Value<'a>,
        notation: &dyn Notation,
    ) -> Result<(), Complaint> {
        let rule = self.text(value)?;
        if rule != "raw-disk" {
            return Err(self
                .source
                .complain(value.span(), format!("there is no rule `{rule}` for baselines"))
                .help(
                    "the one rule is \"raw-disk\": the same guest directly on the medium\n\
                 to name one stack for all, write baseline = \"STACK\"",
                ));
        }
        for stack in study.stacks.clone() {
            let baseline = notation.raw_disk(&stack);
            if !study.stacks.contains(&baseline) {
                study.stacks.push(baseline.clone());
            }
            study.baselines.insert(baseline.clone(), baseline.clone());
            study.baselines.insert(stack, baseline);
        }
        Ok(())
    }
}

/// The candidate that is most like `written`, if any is much like it.
fn nearest<'a>(written: &str, candidates: &[&'a str]) -> Option<&'a str> {
    candidates
        .iter()
        .map(|c| (strsim::jaro_winkler(written, c), *c))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}

/// `90s`, `5m`, `1h30m`, `5 min`; `None` for anything else and for no time at all.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut seconds = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|i| *i > 0)?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| digits + i);
        let unit = match &rest[digits..unit_end] {
            "h" => 3_600,
            "m" | "min" => 60,
            "s" => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = rest.split_off(unit_end);
    }
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
