//! Reading a study file.
//!
//! ```toml
//! name = "quick"                       # short name; needed
//! title = "Nesting in five minutes"    # one line for people; the file's name if left out
//! stacks = ["ext3/kvm/{,raw/{ext2,jfs,xfs}/}hdd"]
//! baseline = "ext3/kvm/hdd"            # one for all, among the stacks …
//! # baselines = "raw-disk"             # … or for each stack its guest directly on the medium, added if missing; or "native":
//!                                      # the guest's file system there without a virtual machine
//! workloads = ["fio:{seq,rand}-{read,write}"]
//! replications = 2                     # fresh stacks per cell; 1 if left out
//! seed = 1                             # decides the order, and what differs between blocks; 1 if left out
//! budget = "5m"                        # stop after this; no limit if left out
//! sentinels = true                     # baseline at both ends of each block; decided by budget if left out
//! trace = "full"                       # or "layers", "none": how much is recorded; "full" if left out
//! trace_cost = false                   # run each traced cell untraced as well, to know what recording costs
//!
//! [stop]                               # end each comparison as soon as it has enough blocks; without it none ends early
//! looks = [3, 4, 6, 8, 12]             # after how many pairs it is looked at
//! half_width_percent = 3               # enough: the interval is narrower than this each way …
//! threshold_percent = 5                # … or excludes no difference, and the effect is larger than this
//!
//! [[also]]                             # further stacks x workloads, with these keys of their own
//! stacks = ["ext3/kvm/raw/jfs/hdd"]
//! workloads = ["fio:seq-read"]
//! replications = 5
//! trace = "full"
//! apart = true                         # compared with nothing: no baseline runs for them, and nothing else is recorded because of them
//! optional = true                      # left out, with the reason, where one of its stacks cannot run: a pack that was not made
//!
//! [scales.small]                       # a size of the study: keys that replace those above
//! workloads = ["fio:seq-read:scale=0.02"]
//! ```
//!
//! `scale = "small"` names the size that is taken if none is asked for. `[[claim]]`, `[[figure]]` and `[[finding]]` are described in
//! [`crate::claims`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nestor_statistics::sequential::StopRule;
use nestor_text::nearest;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::complaint::{Complaint, Complaints, Source};
use crate::{Part, Study, written_stacks, written_workloads};

mod baselines;
mod values;

const KEYS: [&str; 19] = [
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
    "stop",
    "also",
    "scale",
    "scales",
    "claim",
    "figure",
    "finding",
];

/// The keys of a study that a scale may replace.
const SCALE_KEYS: [&str; 11] = [
    "stacks",
    "baseline",
    "baselines",
    "workloads",
    "replications",
    "budget",
    "sentinels",
    "trace",
    "trace_cost",
    "stop",
    "also",
];

const ALSO_KEYS: [&str; 8] =
    ["stacks", "workloads", "baseline", "replications", "trace", "trace_cost", "apart", "optional"];
const STOP_KEYS: [&str; 3] = ["looks", "half_width_percent", "threshold_percent"];

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
    Invalid(#[from] Complaints),
}

impl Study {
    /// Reads a study file, in the size `scale` or, for `None`, the one that the file names. Its queries have to be such as can be run.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or with what is wrong in it.
    pub fn read(path: &Path, scale: Option<&str>) -> Result<Self, StudyFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| StudyFileError::Read { path: path.to_owned(), source })?;
        let file = path.display().to_string();
        Ok(Self::parse_and(&file, &text, scale, crate::claims::check_queries)?)
    }

    /// Reads the text of a study file; `file` is the name that errors give. Its queries are not looked at.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, but for what cannot be told because of it.
    pub fn parse(file: &str, text: &str, scale: Option<&str>) -> Result<Self, Complaints> {
        Self::parse_and(file, text, scale, |_, _, _| ())
    }

    /// The same, with what else is to be looked at in it.
    fn parse_and(
        file: &str,
        text: &str,
        scale: Option<&str>,
        check: impl FnOnce(&Source<'_>, &DeTable<'_>, &mut Complaints),
    ) -> Result<Self, Complaints> {
        let source = Source { file, text };
        let table = DeTable::parse(text).map_err(|error| {
            let message = format!("not valid TOML: {}", error.message().replace('\n', ", "));
            source.complain(error.span().unwrap_or(0..0), message)
        })?;
        let reader = Reader { source, table: table.get_ref(), scale: None };
        let mut wrong = Complaints::default();
        reader.refuse_unknown_keys(reader.table, &KEYS, "a study", &mut wrong);
        let scale = reader.scale(scale, &mut wrong);
        let (name, scale) = wrong.take(scale).unwrap_or_default();
        let study = Reader { scale, ..reader }.study(name, &mut wrong);
        check(&source, reader.table, &mut wrong);
        wrong.finish(study)
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    source: Source<'a>,
    /// The file, or a table in it that has keys of the same kind.
    table: &'a DeTable<'a>,
    /// The table of the scale, whose keys come first.
    scale: Option<&'a DeTable<'a>>,
}

type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> Reader<'a> {
    fn study(&self, scale: Option<String>, wrong: &mut Complaints) -> Option<Study> {
        let name = wrong.take(self.name());
        let title = wrong.take(self.title());
        let mut remarks = Vec::new();
        let first = self.part(&mut remarks, wrong);
        wrong.take(self.baseline());
        let stop = self.stop(wrong);
        let replications = wrong.take(self.replications()).flatten();
        let seed = wrong.take(self.number("seed", 0, i64::MAX)).flatten();
        let budget = wrong.take(self.budget()).flatten();
        let claims = crate::claims::parse_claims(&self.source, self.table.get("claim"), wrong);
        let figures = crate::claims::parse_figures(&self.source, self.table.get("figure"), wrong);
        let findings = crate::claims::parse_findings(&self.source, self.table.get("finding"), wrong);
        let first = first?;
        let looks = stop.as_ref().and_then(|rule| rule.looks.last().copied());
        let mut study = Study {
            replications: replications.or(looks).unwrap_or(1),
            seed: seed.unwrap_or(1) as u64,
            budget,
            trace: first.trace.unwrap_or_default(),
            trace_cost: first.trace_cost,
            stop,
            scale,
            baselines: BTreeMap::new(),
            remarks,
            claims,
            figures,
            findings,
            ..Study::new(name.unwrap_or_default(), title.unwrap_or_default(), first.stacks, first.workloads)
        };
        self.add_parts(&mut study, wrong)?;
        // What follows asks how the parts go together.
        wrong.take(self.set_baselines(&mut study))?;
        wrong.take(self.refuse_shared_cells(&study));
        self.set_sentinels(&mut study, wrong);
        Some(study)
    }

    /// The value of a key: the scale's, or the study's.
    fn value(&self, key: &str) -> Option<&'a Value<'a>> {
        self.scale.and_then(|scale| scale.get(key)).or_else(|| self.table.get(key))
    }

    /// The name and the table of the wanted scale; nothing for a study that has only one size.
    fn scale(
        &self,
        wanted: Option<&str>,
        wrong: &mut Complaints,
    ) -> Result<(Option<String>, Option<&'a DeTable<'a>>), Complaint> {
        let usual = self.table.get("scale").map(|value| Ok((value, self.text(value)?))).transpose()?;
        let Some(scales) = self.table.get("scales") else {
            return match (wanted, usual) {
                (None, None) => Ok((None, None)),
                (Some(wanted), _) => Err(self
                    .source
                    .complain(0..0, format!("the study has no scale `{wanted}`"))
                    .help("it has only one size; a table [scales.NAME] adds another")),
                (None, Some((value, name))) => Err(self
                    .source
                    .complain(value.span(), format!("the study has no scale `{name}`"))
                    .help(format!("add a table [scales.{name}], or leave this line out"))),
            };
        };
        let tables =
            scales.get_ref().as_table().ok_or_else(|| self.wrong_type(scales, "tables [scales.NAME]"))?;
        let names: Vec<&str> = tables.iter().map(|(name, _)| name.get_ref().as_ref()).collect();
        for (_, table) in tables {
            let table =
                table.get_ref().as_table().ok_or_else(|| self.wrong_type(table, "a table [scales.NAME]"))?;
            self.refuse_unknown_keys(table, &SCALE_KEYS, "a scale", wrong);
        }
        let (at, name) = match (wanted, usual) {
            (Some(wanted), _) => (scales.span(), wanted),
            (None, Some((value, name))) => (value.span(), name),
            (None, None) => return Ok((None, None)),
        };
        let Some(table) = tables.get(name) else {
            return Err(self
                .source
                .complain(at, format!("the study has no scale `{name}`"))
                .help(format!("its scales are {}", names.join(", "))));
        };
        Ok((Some(name.to_owned()), table.get_ref().as_table()))
    }

    fn refuse_unknown_keys(&self, table: &DeTable<'_>, keys: &[&str], what: &str, wrong: &mut Complaints) {
        for (key, _) in table.iter().filter(|(key, _)| !keys.contains(&key.get_ref().as_ref())) {
            let written = key.get_ref().as_ref();
            let nearest = nearest(written, keys.iter().copied())
                .map(|k| format!("did you mean `{k}`?\n"))
                .unwrap_or_default();
            let complaint = self.source.complain(key.span(), format!("{what} has no key `{written}`"));
            let complaint = complaint.help(format!("{nearest}its keys are {}", keys.join(", ")));
            wrong.take::<()>(Err(complaint));
        }
    }

    fn replications(&self) -> Result<Option<u32>, Complaint> {
        Ok(self.number("replications", 1, MOST_REPLICATIONS)?.map(|n| n as u32))
    }

    /// Stacks, workloads and what else belongs to a product of them; `None` if one of the stacks or workloads is none.
    fn part(&self, remarks: &mut Vec<String>, wrong: &mut Complaints) -> Option<Part> {
        let stacks = "a list of stacks, such as [\"ext3/kvm/hdd\"]";
        let workloads = "a list of workloads, such as [\"fio:seq-read\"]";
        let stacks = self.expanded("stacks", stacks, written_stacks, wrong);
        let named = self.expanded("workloads", workloads, written_workloads, wrong);
        let replications = wrong.take(self.replications()).flatten();
        let trace = wrong.take(self.trace()).flatten();
        let mut truth =
            |key| self.value(key).and_then(|value| wrong.take(self.truth(value))).unwrap_or(false);
        let (trace_cost, apart, optional) = (truth("trace_cost"), truth("apart"), truth("optional"));
        let (stacks, named) = (stacks?, named?);
        remarks.extend(named.iter().filter_map(|named| named.remark.clone()));
        let workloads = named.into_iter().map(|named| named.workload.into()).collect();
        let replications = replications.unwrap_or(1);
        Some(Part { stacks, workloads, replications, trace, trace_cost, apart, optional, left_out: None })
    }

    /// The further products of `[[also]]`; the study's lists then hold the stacks and workloads of all.
    fn add_parts(&self, study: &mut Study, wrong: &mut Complaints) -> Option<()> {
        let Some(value) = self.value("also") else { return Some(()) };
        let tables = value.get_ref().as_array().ok_or_else(|| self.wrong_type(value, "tables [[also]]"));
        let tables = wrong.take(tables)?;
        study.parts.push(Part {
            stacks: study.stacks.clone(),
            workloads: study.workloads.clone(),
            replications: study.replications,
            trace: None,
            trace_cost: study.trace_cost,
            apart: false,
            optional: false,
            left_out: None,
        });
        // The first part says for itself what it costs.
        study.trace_cost = false;
        let parts: Vec<Option<Part>> =
            tables.iter().map(|value| self.further_part(value, study, wrong)).collect();
        for part in parts.into_iter().collect::<Option<Vec<Part>>>()? {
            for stack in &part.stacks {
                if !study.stacks.contains(stack) {
                    study.stacks.push(stack.clone());
                }
            }
            for workload in &part.workloads {
                if !study.workloads.contains(workload) {
                    study.workloads.push(workload.clone());
                }
            }
            study.parts.push(part);
        }
        Some(())
    }

    /// One of them.
    fn further_part(&self, value: &'a Value<'a>, study: &mut Study, wrong: &mut Complaints) -> Option<Part> {
        let table = value.get_ref().as_table().ok_or_else(|| self.wrong_type(value, "a table [[also]]"));
        let table = wrong.take(table)?;
        self.refuse_unknown_keys(table, &ALSO_KEYS, "a further part", wrong);
        let mut part = Self { table, scale: None, ..*self }.part(&mut study.remarks, wrong)?;
        if table.get("replications").is_none() {
            part.replications = self.replications_of_parts(study);
        }
        Some(part)
    }

    /// Refuses a cell that is apart in one part and in another as well, also as the baseline of what that one has: it would have to be
    /// recorded in two ways.
    fn refuse_shared_cells(&self, study: &Study) -> Result<(), Complaint> {
        let tables = self.value("also").and_then(|value| value.get_ref().as_array()).into_iter().flatten();
        // The first part is the study's own, which is never apart.
        for (at, (part, value)) in study.parts.iter().skip(1).zip(tables).enumerate() {
            if !part.apart {
                continue;
            }
            let others = study.parts.iter().enumerate().filter(|(other, _)| *other != at + 1);
            let others: Vec<&Part> = others.map(|(_, other)| other).collect();
            for (stack, workload) in part.cells() {
                let problem = if others.iter().any(|other| other.holds(stack, workload)) {
                    format!("{stack} {workload} is apart from the others, and in another part as well")
                } else if let Some(compared) =
                    others.iter().find_map(|other| study.compared_in(other, stack, workload))
                {
                    format!(
                        "{stack} {workload} is apart from the others, and another part compares {compared} with it"
                    )
                } else {
                    continue;
                };
                return Err(self.source.complain(value.span(), problem).help(
                    "give the workload of the part that is apart another option, such as another `runtime` or `scale`",
                ));
            }
        }
        Ok(())
    }

    /// Blocks of a part that does not say how many: those of the scale, if it says nothing of the parts themselves; as many as a
    /// stopping rule has looks; one.
    fn replications_of_parts(&self, study: &Study) -> u32 {
        let is_of_parts =
            |scale: &&DeTable<'_>| scale.get("replications").is_some() && scale.get("also").is_none();
        match (self.scale.filter(is_of_parts), &study.stop) {
            (Some(_), _) => study.replications,
            (None, Some(rule)) => rule.looks.last().copied().unwrap_or(1),
            (None, None) => 1,
        }
    }

    fn stop(&self, wrong: &mut Complaints) -> Option<StopRule> {
        let value = self.value("stop")?;
        let table = value.get_ref().as_table().ok_or_else(|| self.wrong_type(value, "a table [stop]"));
        let table = wrong.take(table)?;
        self.refuse_unknown_keys(table, &STOP_KEYS, "a stopping rule", wrong);
        let reader = Self { table, scale: None, ..*self };
        let mut rule = StopRule::default();
        if let Some(looks) = wrong.take(reader.looks()).flatten() {
            rule.looks = looks;
        }
        let mut percent =
            |key| wrong.take(reader.number(key, 1, 100)).flatten().map(|number| number as f64 / 100.0);
        rule.half_width = percent("half_width_percent").unwrap_or(rule.half_width);
        rule.threshold = percent("threshold_percent").unwrap_or(rule.threshold);
        match rule.problem() {
            Some(problem) => wrong.take(Err(self.source.complain(value.span(), problem))),
            None => Some(rule),
        }
    }
}
