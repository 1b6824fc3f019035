//! The load that is asked about, and the question about it.

use nestor_results::{Known, WrittenStack, WrittenWorkload};
use nestor_stack::{Layer, Stack};
use nestor_statistics::prediction::TargetMachine;
use nestor_workload::{LoadResult, Profile, RateUnit, Workload};
use thiserror::Error;

use crate::elsewhere::only_elsewhere;
use crate::evidence::{Evidence, MeasuredLoad, Question, Reference, Shape};

/// Why nothing can be asked.
#[derive(Debug, Error, PartialEq)]
pub enum QuestionError {
    /// The load ran, but no request of it was seen.
    #[error(
        "no block request of {load} has been recorded: it ran without recording, or all its data was in \
         memory\n  run it with recording, on a larger data set or past the page cache: {run}"
    )]
    NoRequests {
        /// The load.
        load: WrittenWorkload,
        /// What records them.
        run: String,
    },
    /// The load never ran at this place.
    #[error(
        "{why}\n  one short run is enough, where it runs now or on a stack like many others: {run}\n  or \
         watch it: nestor characterize --for 60s --output {case}.toml"
    )]
    NeverRun {
        /// What is not known, and where it is, in a sentence.
        why: String,
        /// What runs it.
        run: String,
        /// A name for its profile.
        case: &'static str,
    },
    /// It was not measured where it is said to run now.
    #[error("{why}\n  measure it: {run}")]
    NotMeasuredThere {
        /// Where it was not measured, and where it was, in a sentence.
        why: String,
        /// What measures it.
        run: String,
    },
    /// The profile does not say on which stack it was observed.
    #[error(
        "the profile was observed on {}, which is not a stack: give its stack with --from, such as \
         ext4/dev:/dev/sda",
        if .observed_on.is_empty() { "something unknown" } else { .observed_on }
    )]
    ObservedOnNoStack {
        /// What it says instead.
        observed_on: String,
    },
    /// It was measured nowhere but on the target.
    #[error(
        "{load} was measured only on {to}, so there is nothing to predict from\n  measure it where it runs \
         now: {run}"
    )]
    OnlyOnTarget {
        /// The load.
        load: WrittenWorkload,
        /// The target.
        to: WrittenStack,
        /// What measures it.
        run: String,
    },
}

/// The load that is asked about.
pub struct Load {
    /// As the store has it; one that was only observed by its profile's name.
    pub name: WrittenWorkload,
    /// The workload that is run to verify: itself, or the profile's synthetic twin.
    pub workload: WrittenWorkload,
    /// Its shape.
    pub shape: Shape,
    /// What it is counted in.
    pub unit: RateUnit,
    /// What was observed, if it is a profile.
    profile: Option<Profile>,
}

/// The rest of a question.
pub struct Asked<'a> {
    /// Where it runs now, if that is named.
    pub from: Option<&'a WrittenStack>,
    /// Where it is to go.
    pub to: &'a WrittenStack,
    /// What computing takes there.
    pub machine: TargetMachine,
}

impl Load {
    /// One that was observed, with its synthetic twin.
    pub fn observed(profile: Profile, twin: Workload) -> Self {
        Self {
            name: profile.name.as_str().into(),
            workload: twin.into(),
            shape: Shape::of_profile(&profile),
            unit: RateUnit::OperationsPerSecond,
            profile: Some(profile),
        }
    }

    /// A workload of which something was measured.
    ///
    /// # Errors
    ///
    /// If none of its requests are known.
    pub fn measured(workload: &Workload, evidence: &Evidence, known: &Known) -> Result<Self, QuestionError> {
        let name = WrittenWorkload::from(workload.clone());
        let Some(shape) = evidence.shapes.get(&name).filter(|shape| shape.mean_bytes > 0.0) else {
            return Err(unseen(workload, name, evidence, known));
        };
        let moves = evidence.cells.iter().any(|cell| cell.load == name && cell.rate != cell.operations_per_s);
        let unit = if moves { RateUnit::BytesPerSecond } else { RateUnit::OperationsPerSecond };
        Ok(Self { workload: name.clone(), name, shape: shape.clone(), unit, profile: None })
    }

    /// The question, and the evidence without what it asks for.
    ///
    /// # Errors
    ///
    /// If it was not measured where it runs now.
    pub fn question(
        &self,
        asked: &Asked<'_>,
        evidence: &Evidence,
        known: &Known,
    ) -> Result<(Question, Evidence), QuestionError> {
        let from = match asked.from {
            Some(from) => from.clone(),
            None => self.usual_reference(asked.to, evidence)?,
        };
        let reference = self.reference(&from, evidence, known)?;
        let mut known = evidence
            .without(|cell| cell.stack == *asked.to && cell.load == self.name && self.profile.is_none());
        if self.profile.is_some() {
            known.shapes.insert(self.name.clone(), self.shape.clone());
            known.cells.push(self.observed_cell(&from, &reference));
        }
        let shape = known.shapes.get(&self.name).unwrap_or(&self.shape).clone();
        let question = Question {
            load: self.name.clone(),
            shape,
            // A load that is its own model would be its own answer.
            model: self.profile.is_some().then(|| self.workload.clone()),
            model_workers: self.profile.as_ref().map_or(0, Profile::model_workers),
            from,
            reference,
            to: asked.to.clone(),
            processors: processors(asked.to),
            machine: asked.machine,
        };
        Ok((question, known))
    }

    /// What a run of [`Self::workload`] reached, in the unit of the answer: the application that was observed may count something else
    /// than the requests, which are the operations of its twin.
    pub fn rate(&self, result: &LoadResult) -> f64 {
        let rates = self.profile.as_ref().map(|profile| &profile.rates);
        let of_an_operation = rates.and_then(|rates| Some(rates.application_per_s? / rates.requests_per_s));
        result.rate(self.unit) * of_an_operation.unwrap_or(1.0)
    }

    /// Whether what is run is a synthetic twin and not the load itself.
    pub fn is_observed(&self) -> bool {
        self.profile.is_some()
    }

    /// What was observed as a cell of the stack that it was observed on.
    fn observed_cell(&self, from: &WrittenStack, reference: &Reference) -> MeasuredLoad {
        MeasuredLoad {
            stack: from.clone(),
            load: self.name.clone(),
            rate: reference.rate,
            operations_per_s: reference.rate,
            response_s: Some(reference.response_s),
            requests_per_s: reference.requests_per_s,
            request_s: Some(reference.response_s),
            shape: Some(self.shape.clone()),
            ..MeasuredLoad::default()
        }
    }

    fn reference(
        &self,
        from: &WrittenStack,
        evidence: &Evidence,
        known: &Known,
    ) -> Result<Reference, QuestionError> {
        if let Some(profile) = &self.profile {
            return Ok(Reference::of_profile(profile));
        }
        let not_measured = || {
            let what = format!("{} on {from}", self.name);
            let is_meant = |stack: &_, load: &_| stack == from && *load == self.name;
            let there = only_elsewhere(known, &what, |other| is_meant(&other.stack, &other.workload));
            QuestionError::NotMeasuredThere {
                why: there.unwrap_or_else(|| format!("{} was not measured on {from}", self.name)),
                run: evidence.command("run", &format!("'{from}' '{}'", self.name)),
            }
        };
        evidence.cell(from, &self.name).map(Reference::of).ok_or_else(not_measured)
    }

    /// Of the stacks on which the load was measured the one most like the target.
    fn usual_reference(&self, to: &WrittenStack, evidence: &Evidence) -> Result<WrittenStack, QuestionError> {
        if let Some(Profile { observed_on, .. }) = &self.profile {
            let no_stack = |_| QuestionError::ObservedOnNoStack { observed_on: observed_on.clone() };
            return Stack::parse(observed_on).map(WrittenStack::from).map_err(no_stack);
        }
        evidence.most_alike(&self.name, to).cloned().ok_or_else(|| QuestionError::OnlyOnTarget {
            load: self.name.clone(),
            to: to.clone(),
            run: evidence.command("run", &format!("STACK '{}'", self.name)),
        })
    }
}

/// Why no requests of a workload are known, and what would show them.
fn unseen(workload: &Workload, name: WrittenWorkload, evidence: &Evidence, known: &Known) -> QuestionError {
    if evidence.shapes.contains_key(&name) {
        let run = evidence.command("run", &format!("STACK '{name}' --trace layers"));
        return QuestionError::NoRequests { load: name, run };
    }
    let why = match only_elsewhere(known, &name, |other| other.workload == name) {
        Some(there) => format!("the requests of {name} are not known: {there}"),
        None => format!("{name} has not been measured anywhere yet, so its requests are not known"),
    };
    let probe = evidence.most_typical().map_or("STACK".to_owned(), |stack| format!("'{stack}'"));
    let run = evidence.command("run", &format!("{probe} '{name}' -n 1"));
    QuestionError::NeverRun { why, run, case: workload.case() }
}

/// Processors of the machine that the load is in; 0 where the stack does not say.
fn processors(stack: &WrittenStack) -> u32 {
    let machine = stack.value().and_then(|stack| stack.anatomy().virtual_machine);
    machine.and_then(Layer::hypervisor).map_or(0, |options| options.cpus)
}

impl Reference {
    /// A load as it was observed.
    fn of_profile(profile: &Profile) -> Self {
        let rates = &profile.rates;
        Self {
            rate: rates.application_per_s.unwrap_or(rates.requests_per_s),
            requests_per_s: rates.requests_per_s,
            response_s: rates.response_ms / 1e3,
            processors_busy: profile.processor.map_or(0.0, |p| p.user + p.system),
        }
    }
}

impl Shape {
    /// What was observed.
    fn of_profile(profile: &Profile) -> Self {
        let (requests, who) = (&profile.requests, &profile.concurrency);
        Self {
            read_share: requests.read_share,
            random_share: requests.random_share,
            mean_bytes: requests.mean_bytes,
            sizes: profile.weighted_shares(),
            flush_share: requests.flush_share,
            workers: who.workers,
            think_s: who.think_ms / 1e3,
            outstanding: who.outstanding,
        }
    }
}

#[cfg(test)]
mod tests {
    use nestor_workload::profile::Rates;

    use super::*;

    const LOAD: &str = "fio:rand-read";
    const HERE: &str = "ext4/hdd";
    const THERE: &str = "ext4/kvm:cpus=2/hdd";

    fn evidence() -> Evidence {
        let mut evidence = Evidence::default();
        evidence.shapes.insert(LOAD.into(), Shape { mean_bytes: 4096.0, ..Shape::default() });
        for (stack, rate) in [(HERE, 100.0), (THERE, 80.0)] {
            let (stack, load) = (stack.into(), LOAD.into());
            evidence.cells.push(MeasuredLoad {
                stack,
                load,
                rate,
                operations_per_s: rate,
                ..Default::default()
            });
        }
        evidence
    }

    fn asked(to: &WrittenStack) -> Asked<'_> {
        Asked { from: None, to, machine: TargetMachine::SAME }
    }

    #[test]
    fn the_answer_is_hidden_from_the_evidence() {
        let (evidence, to) = (evidence(), THERE.into());
        let load = Load::measured(&Workload::parse(LOAD).unwrap(), &evidence, &Known::default()).unwrap();
        let (question, known) = load.question(&asked(&to), &evidence, &Known::default()).unwrap();
        assert_eq!((question.from, question.processors), (HERE.into(), 2));
        assert_eq!((question.reference.rate, question.model), (100.0, None));
        assert!(known.cell(&HERE.into(), &LOAD.into()).is_some() && known.cell(&to, &LOAD.into()).is_none());
        let only_there = evidence.without(|cell| cell.stack == HERE);
        let error = load.question(&asked(&to), &only_there, &Known::default()).unwrap_err();
        assert!(matches!(error, QuestionError::OnlyOnTarget { .. }), "{error}");
    }

    #[test]
    fn what_was_observed_counts_as_measured_where_it_was_observed() {
        let rates = Rates {
            requests_per_s: 200.0,
            response_ms: 5.0,
            application_per_s: Some(50.0),
            ..Rates::default()
        };
        let profile = Profile { name: "mail".to_owned(), rates, ..Profile::default() };
        let twin = Workload::parse(LOAD).unwrap();
        let (evidence, to) = (evidence(), THERE.into());
        let nowhere = Load::observed(profile.clone(), twin.clone());
        insta::assert_snapshot!(
            nowhere.question(&asked(&to), &evidence, &Known::default()).unwrap_err(),
            @"the profile was observed on something unknown, which is not a stack: give its stack with --from, such as ext4/dev:/dev/sda"
        );
        let load = Load::observed(Profile { observed_on: HERE.to_owned(), ..profile }, twin);
        let (question, known) = load.question(&asked(&to), &evidence, &Known::default()).unwrap();
        assert_eq!((question.reference.rate, question.model), (50.0, Some(LOAD.into())));
        assert_eq!(known.cell(&HERE.into(), &"mail".into()).map(|cell| cell.requests_per_s), Some(200.0));
    }
}
