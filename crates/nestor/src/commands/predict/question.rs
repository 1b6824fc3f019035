//! From the words of the command line to a question.

use anyhow::{Result, bail};
use nestor_advise::Unit;
use nestor_predict::{Evidence, MeasuredLoad, Question, Reference, Shape};
use nestor_results::{Known, WrittenStack, WrittenWorkload};
use nestor_stack::Stack;
use nestor_statistics::prediction::TargetMachine;
use nestor_workload::Profile;

use super::place::elsewhere;
use crate::named::workload_named;
use nestor_results::{profile_named, read_profile};

/// The load that is asked about.
pub struct Load {
    /// As the store has it; one that was only observed by its profile's name.
    pub name: WrittenWorkload,
    /// The workload that is run to verify: itself, or the profile's synthetic twin.
    pub workload: WrittenWorkload,
    /// Its shape.
    pub shape: Shape,
    /// What it is counted in.
    pub unit: Unit,
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
    /// The load of a name: a profile's file, or a workload.
    ///
    /// # Errors
    /// When it is neither, or nothing is known of it.
    pub fn named(text: &str, evidence: &Evidence, known: &Known) -> Result<Self> {
        if let Some((file, _)) = profile_named(text) {
            let profile = read_profile(file)?;
            let workload = workload_named(text)?.into();
            let unit = Unit::OperationsPerSecond;
            return Ok(Self {
                name: profile.name.as_str().into(),
                workload,
                shape: shape_of(&profile),
                unit,
                profile: Some(profile),
            });
        }
        let workload = workload_named(text)?;
        let name = WrittenWorkload::from(workload.clone());
        let Some(shape) = evidence.shapes.get(&name).filter(|shape| shape.mean_bytes > 0.0) else {
            if evidence.shapes.contains_key(&name) {
                let run = evidence.command("run", &format!("STACK '{name}' --trace layers"));
                bail!(
                    "no block request of {name} has been recorded: it ran without recording, or all its \
                     data was in memory\n  run it with recording, on a larger data set or past the page \
                     cache: {run}"
                );
            }
            let of_load = elsewhere(known, &name, |other| other.workload == name);
            let probe = evidence.most_typical().map_or("STACK".to_owned(), |stack| format!("'{stack}'"));
            bail!(
                "{}\n  one short run is enough, where it runs now or on a stack like many others: {}\n  or watch it: nestor characterize --for 60s --output {}.toml",
                match of_load {
                    Some(there) => format!("the requests of {name} are not known: {there}"),
                    None => format!(
                        "{name} has not been measured anywhere yet, so its requests are not \
                                     known"
                    ),
                },
                evidence.command("run", &format!("{probe} '{name}' -n 1")),
                workload.case()
            );
        };
        let moves = evidence.cells.iter().any(|cell| cell.load == name && cell.rate != cell.operations_per_s);
        let unit = if moves { Unit::BytesPerSecond } else { Unit::OperationsPerSecond };
        Ok(Self { workload: name.clone(), name, shape: shape.clone(), unit, profile: None })
    }

    /// The question, and the evidence without what it asks for.
    ///
    /// # Errors
    /// When it was not measured where it runs now.
    pub fn question(
        &self,
        asked: &Asked<'_>,
        evidence: &Evidence,
        known: &Known,
    ) -> Result<(Question, Evidence)> {
        let from = match asked.from {
            Some(from) => from.clone(),
            None => self.usual_reference(asked.to, evidence)?,
        };
        let reference = self.reference(&from, evidence, known)?;
        let mut known = evidence
            .without(|cell| cell.stack == *asked.to && cell.load == self.name && self.profile.is_none());
        if self.profile.is_some() {
            known.shapes.insert(self.name.clone(), self.shape.clone());
            known.cells.push(self.observed(&from, &reference));
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

    /// How much of the answer's unit the twin's operation is: the application counts something else than requests.
    pub fn of_an_operation(&self) -> f64 {
        let rates = self.profile.as_ref().map(|profile| &profile.rates);
        rates.and_then(|rates| Some(rates.application_per_s? / rates.requests_per_s)).unwrap_or(1.0)
    }

    /// Whether what is run is a synthetic twin and not the load itself.
    pub fn is_observed(&self) -> bool {
        self.profile.is_some()
    }

    /// What was observed as a cell of the stack that it was observed on.
    fn observed(&self, from: &WrittenStack, reference: &Reference) -> MeasuredLoad {
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

    fn reference(&self, from: &WrittenStack, evidence: &Evidence, known: &Known) -> Result<Reference> {
        if let Some(profile) = &self.profile {
            let rates = &profile.rates;
            return Ok(Reference {
                rate: rates.application_per_s.unwrap_or(rates.requests_per_s),
                requests_per_s: rates.requests_per_s,
                response_s: rates.response_ms / 1e3,
                processors_busy: profile.processor.map_or(0.0, |p| p.user + p.system),
            });
        }
        let Some(cell) = evidence.cell(from, &self.name) else {
            let what = format!("{} on {from}", self.name);
            let there = elsewhere(known, &what, |other| other.stack == *from && other.workload == self.name);
            bail!(
                "{}\n  measure it: {}",
                there.unwrap_or_else(|| format!("{} was not measured on {from}", self.name)),
                evidence.command("run", &format!("'{from}' '{}'", self.name))
            );
        };
        Ok(Reference::of(cell))
    }

    /// Of the stacks on which the load was measured the one most like the target.
    fn usual_reference(&self, to: &WrittenStack, evidence: &Evidence) -> Result<WrittenStack> {
        if let Some(profile) = &self.profile {
            return match Stack::parse(&profile.observed_on) {
                Ok(stack) => Ok(stack.into()),
                Err(_) => bail!(
                    "the profile was observed on {}, which is not a stack: give its stack with --from, such \
                     as ext4/dev:/dev/sda",
                    if profile.observed_on.is_empty() { "something unknown" } else { &profile.observed_on }
                ),
            };
        }
        match evidence.most_alike(&self.name, to) {
            Some(stack) => Ok(stack.clone()),
            None => bail!(
                "{0} was measured only on {to}, so there is nothing to predict from\n  measure it where it \
                 runs now: {1}",
                self.name,
                evidence.command("run", &format!("STACK '{}'", self.name))
            ),
        }
    }
}

/// Processors of the machine that the load is in; 0 where the stack does not say.
fn processors(stack: &WrittenStack) -> u32 {
    let machine = stack.value().and_then(|stack| stack.anatomy().virtual_machine);
    machine.and_then(|machine| u32::try_from(machine.number("cpus")?).ok()).unwrap_or(0)
}

fn shape_of(profile: &Profile) -> Shape {
    let (requests, who) = (&profile.requests, &profile.concurrency);
    Shape {
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
