//! What is asked: the workload, the stacks to choose from, and the user's own.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use nestor_advise::evidence::unit_of;
use nestor_advise::{FactorName, Space, SpaceError, machine_with, nas, read_levels};
use nestor_results::{Study, WrittenStack, WrittenWorkload, written_stacks};
use nestor_stack::{Layer, Place, StackError, StackErrorKind};
use nestor_workload::RateUnit;

use super::{AdviseArguments, From};
use crate::commands::study::check_profiles;
use crate::named::workloads_named;
use crate::order::require_workload;

/// Short names of the four servers, as in the nested-file-system paper.
const SERVERS: [(&str, &str); 5] = [
    ("mail", "wml:mailserver"),
    ("web", "wml:webserver"),
    ("file", "wml:fileserver"),
    ("db", "wml:dbserver"),
    ("database", "wml:dbserver"),
];

/// What is asked.
pub struct Asked {
    /// The workload, in canonical notation.
    pub workload: WrittenWorkload,
    /// What it is judged by.
    pub unit: RateUnit,
    /// What may be chosen.
    pub space: Space,
    /// The user's stack.
    pub yours: WrittenStack,
}

impl Asked {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with the workload, a level or a stack.
    pub fn of(arguments: &AdviseArguments) -> Result<Self> {
        let workload = arguments.workload.as_deref().unwrap_or_default();
        require_workload(workload, "advise", "--yours")?;
        let workload = one_workload(workload)?;
        let space = space_of(arguments)?;
        let yours = match &arguments.yours {
            Some(stack) => one_stack(stack)?,
            None => space.default_stack().clone(),
        };
        if let (Some(place), Some(stack)) = (place_of(arguments)?, yours.value()) {
            stack.require_place(&place).map_err(|error| with_options(&error, arguments))?;
        }
        let asked = Self { unit: unit_of(&workload), workload, space, yours };
        check_profiles(&Study::new("advise", "", asked.all_stacks(), vec![asked.workload.clone()]))?;
        Ok(asked)
    }

    /// The stacks that are asked about, with the user's last.
    pub fn all_stacks(&self) -> Vec<WrittenStack> {
        self.space.stacks().chain([&self.yours]).cloned().collect()
    }

    /// Whether a stack is among those that are asked about.
    pub fn concerns(&self, stack: &WrittenStack) -> bool {
        self.yours == *stack || self.space.levels_of(stack).is_some()
    }
}

/// Where stacks would be built; none where nothing is measured.
fn place_of(arguments: &AdviseArguments) -> Result<Option<Place>> {
    let is_measured = arguments.as_.is_none() && (arguments.plan || arguments.from != From::Store);
    is_measured.then(|| arguments.lab.likely_place()).transpose()
}

/// What is wrong with a stack that nobody wrote, with the options that say what is in it.
fn with_options(error: &StackError, arguments: &AdviseArguments) -> anyhow::Error {
    let options = match (error.kind(), arguments.network.nas) {
        (StackErrorKind::Other, true) => {
            "\n  `--disk` says which medium these stacks have, `--link` the options of their link"
        }
        (StackErrorKind::Other, false) => "\n  `--disk` says which medium these stacks have",
        _ => "",
    };
    anyhow!("{error}{options}")
}

/// The stacks to choose from.
fn space_of(arguments: &AdviseArguments) -> Result<Space> {
    let network = &arguments.network;
    let mut levels = BTreeMap::new();
    for (name, words) in [
        (FactorName::Guest, &arguments.guest),
        (FactorName::HostFs, &arguments.host_fs),
        (FactorName::Format, &arguments.format),
        (FactorName::Cache, &arguments.cache),
        (FactorName::Device, &arguments.device),
        (FactorName::Scheduler, &arguments.scheduler),
        (FactorName::HostScheduler, &arguments.host_scheduler),
        (FactorName::Placement, &network.placement),
        (FactorName::Vers, &network.vers),
        (FactorName::Export, &network.export),
        (FactorName::Sync, &network.sync),
        (FactorName::Rsize, &network.rsize),
        (FactorName::Wsize, &network.wsize),
        (FactorName::Actimeo, &network.actimeo),
    ] {
        if !words.is_empty() {
            levels.insert(name, read_levels(name, words)?);
        }
    }
    let medium = Layer::parse(&arguments.disk)?;
    if network.nas {
        let (machine, link) = nas::machines(&arguments.vm, &network.link)?;
        let place = place_of(arguments)?;
        return nas::space(&levels, medium, &machine, &link, place.as_ref()).map_err(|error| match error {
            SpaceError::Stack(error) => with_options(&error, arguments),
            other => other.into(),
        });
    }
    Ok(Space::new(&levels, medium, &machine_with(&arguments.vm)?)?)
}

/// One stack in canonical notation.
///
/// # Errors
/// When it is none, or several.
pub fn one_stack(text: &str) -> Result<WrittenStack> {
    match written_stacks(text)?.as_slice() {
        [stack] => Ok(stack.clone()),
        several => bail!("this option takes one stack; `{text}` expands to {}", several.len()),
    }
}

fn one_workload(text: &str) -> Result<WrittenWorkload> {
    let text = SERVERS.iter().find(|(short, _)| *short == text).map_or(text, |(_, workload)| workload);
    match workloads_named(text)?.as_slice() {
        [workload] => Ok(workload.clone().into()),
        several => bail!("advice is for one workload; `{text}` expands to {}", several.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_short_names() {
        assert_eq!(one_workload("mail").unwrap(), "wml:mailserver");
        assert_eq!(one_workload("fio:rand-write").unwrap(), "fio:rand-write");
        assert!(one_workload("fio:{rand-write,seq-write}").unwrap_err().to_string().contains("expands to 2"));
        assert!(one_workload("").is_err());
    }
}
