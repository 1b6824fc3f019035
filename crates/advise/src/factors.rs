//! What may be chosen: factors, their levels, and the stacks that combinations of levels make.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nestor_results::WrittenStack;
use nestor_stack::layers::hypervisors::CacheMode;
use nestor_stack::{Layer, Stack, StackError};
use nestor_statistics::design::{GivenRun, MOST_COMBINATIONS, NoDesign, combinations};
use serde::{Deserialize, Serialize};

/// The level of [`FactorName::Format`] that stands for no image and no host file system: the disk itself.
pub const DEVICE_FORMAT: &str = "device";

/// The level of the schedulers that leaves the kernel's choice.
const KERNELS_CHOICE: &str = "default";

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorName {
    /// File system of the guest.
    Guest,
    /// File system of the host, under the image.
    HostFs,
    /// Image format, or [`DEVICE_FORMAT`].
    Format,
    /// Cache mode of the virtual disk.
    Cache,
    /// Device model: the controller that the guest sees.
    Device,
    /// I/O scheduler of the guest for its virtual disk.
    Scheduler,
    /// I/O scheduler of the host for the disk.
    HostScheduler,
}

impl FactorName {
    /// All of them, in the order of [`Space::factors`].
    pub const ALL: [Self; 7] = [
        Self::Guest,
        Self::HostFs,
        Self::Format,
        Self::Cache,
        Self::Device,
        Self::Scheduler,
        Self::HostScheduler,
    ];

    /// As tables and the command line have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::HostFs => "host-fs",
            Self::Format => "format",
            Self::Cache => "cache",
            Self::Device => "device",
            Self::Scheduler => "scheduler",
            Self::HostScheduler => "host-scheduler",
        }
    }

    /// How the command line asks for levels of it.
    pub fn option(self) -> String {
        format!("--{}", self.name())
    }

    /// The levels that are tried unless others are asked for.
    pub fn usual_levels(self) -> &'static [&'static str] {
        match self {
            Self::Guest => &["ext4"],
            Self::HostFs => &["ext4", "xfs"],
            Self::Format => &["raw", "qcow2"],
            Self::Cache => &["none", "writeback", "writethrough"],
            Self::Device => &["virtio-blk"],
            Self::Scheduler | Self::HostScheduler => &[KERNELS_CHOICE],
        }
    }
}

/// A factor with the levels that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Which.
    pub name: FactorName,
    /// Its levels, each once; the first is the default stack's.
    pub levels: Vec<String>,
}

/// A factor of which all stacks have the same level, so that nothing is said of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFixed {
    /// Which.
    pub factor: FactorName,
    /// The level that all have.
    pub level: String,
    /// The option that takes further levels; `None` where no option can.
    pub option: Option<String>,
}

/// All stacks that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    factors: Vec<Factor>,
    medium: Layer,
    /// Canonical stacks and their levels; what does not fit together is not among them.
    stacks: BTreeMap<WrittenStack, Vec<usize>>,
}

/// Why there is nothing to choose from.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceError {
    /// A level is in no stack that fits together; the message of the first that does not.
    Stack(Box<StackError>),
    /// A list of levels has none, or its braces do not end.
    Levels(String),
    /// More than can be looked through.
    TooMany,
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stack(error) => error.fmt(f),
            Self::Levels(message) => f.write_str(message),
            Self::TooMany => write!(
                f,
                "these levels make more than {MOST_COMBINATIONS} stacks\n  leave out some levels, or ask for one guest \
                 at a time"
            ),
        }
    }
}

impl std::error::Error for SpaceError {}

/// The virtual machine of all stacks with further options of the user, such as `memory=1G:cpus=2`.
///
/// # Errors
/// What is wrong with one of them; the factors set the device model and the cache mode.
pub fn machine_with(options: &str) -> Result<Layer, StackError> {
    let separator = if options.is_empty() { "" } else { ":" };
    Layer::parse(&format!("{PLAIN_MACHINE}{separator}{options}"))
}

/// The virtual machine with what factors always set.
const PLAIN_MACHINE: &str = "kvm:disk=virtio-blk:cache=none";

/// What a level is in its stacks, as it is written on the command line, where further options of its layer may follow: a layer, or a layer
/// with nothing but these options. `None`: nothing.
fn layer_of(factor: FactorName, level: &str, medium: &Layer) -> Result<Option<Layer>, StackError> {
    let text = match (factor, level) {
        (FactorName::Format, DEVICE_FORMAT)
        | (FactorName::Scheduler | FactorName::HostScheduler, KERNELS_CHOICE) => return Ok(None),
        (FactorName::Guest | FactorName::HostFs | FactorName::Format, _) => level.to_owned(),
        // Another factor's option would be there twice, also with its default.
        (FactorName::Device, _) => format!("kvm:cache=none:disk={level}"),
        (FactorName::Cache, _) => format!("kvm:disk=virtio-blk:cache={level}"),
        (FactorName::Scheduler, _) => format!("{PLAIN_MACHINE}:sched={level}"),
        (FactorName::HostScheduler, _) => format!("{}:sched={level}", medium.name()),
    };
    Layer::parse(&text).map(Some)
}

/// The layers of all levels, by factor and level.
type LevelLayers = Vec<Vec<Option<Layer>>>;

impl Space {
    /// The stacks that levels make on a medium (`hdd`, `hdd:size=8G`, `dev:/dev/sdb`) with a virtual machine ([`machine_with`]). Factors
    /// that are left out have their usual levels.
    ///
    /// # Errors
    /// What is wrong with a level, or that there are too many.
    pub fn new(
        given: &BTreeMap<FactorName, Vec<String>>,
        medium: Layer,
        machine: &Layer,
    ) -> Result<Self, SpaceError> {
        let factors = FactorName::ALL.map(|name| {
            let usual = || name.usual_levels().iter().map(|level| (*level).to_owned()).collect();
            Factor { name, levels: given.get(&name).cloned().unwrap_or_else(usual) }
        });
        let mut space = Self { factors: factors.into(), medium, stacks: BTreeMap::new() };
        space.refuse_host_scheduler_of_a_path()?;
        let layers = space.layers().map_err(|e| SpaceError::Stack(Box::new(e)))?;
        let all =
            combinations(&space.level_counts(), &|_| true).map_err(|_: NoDesign| SpaceError::TooMany)?;
        let mut first_error = BTreeMap::new();
        for levels in all {
            match space.build(&layers, machine, &levels) {
                Ok(Some(stack)) => {
                    space.stacks.entry(stack.into()).or_insert(levels);
                }
                Ok(None) => {}
                Err(error) => {
                    for (factor, level) in levels.iter().enumerate() {
                        first_error.entry((factor, *level)).or_insert_with(|| error.clone());
                    }
                }
            }
        }
        space.refuse_levels_without_stack(&first_error)?;
        space.drop_unused_levels();
        Ok(space)
    }

    /// Where no stack has an image there is nothing to say of the host's file systems.
    fn drop_unused_levels(&mut self) {
        for (index, factor) in self.factors.iter_mut().enumerate() {
            let used: BTreeSet<usize> = self.stacks.values().map(|levels| levels[index]).collect();
            let numbers: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
            factor.levels = used.iter().map(|level| factor.levels[*level].clone()).collect();
            for levels in self.stacks.values_mut() {
                levels[index] = numbers[&levels[index]];
            }
        }
    }

    fn refuse_host_scheduler_of_a_path(&self) -> Result<(), SpaceError> {
        let chosen = self.levels(FactorName::HostScheduler).iter().any(|level| level != KERNELS_CHOICE);
        if chosen && self.medium.path().is_some() {
            return Err(SpaceError::Levels(format!(
                "--host-scheduler cannot be set for {}: its path runs to the end of the stack\n  \
                 set it in /sys/block/*/queue/scheduler before measuring",
                self.medium
            )));
        }
        Ok(())
    }

    /// A level that is in no stack is a mistake in the question.
    fn refuse_levels_without_stack(
        &self,
        errors: &BTreeMap<(usize, usize), StackError>,
    ) -> Result<(), SpaceError> {
        for (factor, levels) in self.factors.iter().enumerate() {
            for level in 0..levels.levels.len() {
                let used = self.stacks.values().any(|combination| combination[factor] == level);
                if let (false, Some(error)) = (used, errors.get(&(factor, level))) {
                    return Err(SpaceError::Stack(Box::new(error.clone())));
                }
            }
        }
        Ok(())
    }

    /// What each level is.
    fn layers(&self) -> Result<LevelLayers, StackError> {
        let of_factor = |factor: &Factor| {
            factor.levels.iter().map(|level| layer_of(factor.name, level, &self.medium)).collect()
        };
        self.factors.iter().map(of_factor).collect()
    }

    /// The stack of a combination; `None` for one that says the same as another.
    fn build(
        &self,
        layers: &LevelLayers,
        machine: &Layer,
        levels: &[usize],
    ) -> Result<Option<Stack>, StackError> {
        let layer = |name: FactorName| layers[name as usize][levels[name as usize]].as_ref();
        let image = layer(FactorName::Format);
        if image.is_none() && levels[FactorName::HostFs as usize] != 0 {
            // Without an image there is no host file system to vary.
            return Ok(None);
        }
        let of_machine = [FactorName::Device, FactorName::Cache, FactorName::Scheduler];
        let machine = of_machine.into_iter().filter_map(layer).try_fold(machine.clone(), Layer::joined)?;
        let medium =
            layer(FactorName::HostScheduler).into_iter().try_fold(self.medium.clone(), Layer::joined)?;
        let host_file_system = image.and(layer(FactorName::HostFs));
        let all = [layer(FactorName::Guest), Some(&machine), image, host_file_system, Some(&medium)];
        Stack::of(all.into_iter().flatten().cloned()).map(Some)
    }

    /// The factors with their levels.
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// The levels of a factor.
    pub fn levels(&self, name: FactorName) -> &[String] {
        &self.factors[name as usize].levels
    }

    /// How many levels each factor has.
    pub fn level_counts(&self) -> Vec<usize> {
        self.factors.iter().map(|factor| factor.levels.len()).collect()
    }

    /// What all stacks have in common, and the option that would vary each. Without an image there is no host file system.
    pub fn held_fixed(&self) -> Vec<HeldFixed> {
        let has_image = self.levels(FactorName::Format).iter().any(|format| format != DEVICE_FORMAT);
        let fixed = self
            .factors
            .iter()
            .filter(|factor| factor.levels.len() == 1 && (has_image || factor.name != FactorName::HostFs));
        fixed
            .map(|factor| {
                let possible = factor.name != FactorName::HostScheduler || self.medium.path().is_none();
                HeldFixed {
                    factor: factor.name,
                    level: factor.levels[0].clone(),
                    option: possible.then(|| factor.name.option()),
                }
            })
            .collect()
    }

    /// All stacks.
    pub fn stacks(&self) -> impl Iterator<Item = &WrittenStack> {
        self.stacks.keys()
    }

    /// The combinations that make a stack.
    pub fn possible(&self) -> Vec<Vec<usize>> {
        self.stacks.values().cloned().collect()
    }

    /// The stack of a combination.
    pub fn stack(&self, levels: &[usize]) -> Option<&WrittenStack> {
        self.stacks.iter().find(|(_, known)| *known == levels).map(|(stack, _)| stack)
    }

    /// The levels of a stack; `None` if it is not one of these.
    pub fn levels_of(&self, stack: &WrittenStack) -> Option<&[usize]> {
        self.stacks.get(stack).map(Vec::as_slice)
    }

    /// The stack of the first level of each factor, or the first of all if that does not fit together.
    pub fn default_stack(&self) -> &WrittenStack {
        let first = vec![0; self.factors.len()];
        self.stack(&first).or_else(|| self.stacks.keys().next()).expect("a space has a stack")
    }

    /// What was measured before, as a design takes it: runs of stacks that are among these.
    pub fn given<'a>(&self, runs: impl IntoIterator<Item = (&'a WrittenStack, &'a str)>) -> Vec<GivenRun> {
        let mut blocks: Vec<&str> = Vec::new();
        let mut given = Vec::new();
        for (stack, block) in runs {
            let Some(levels) = self.levels_of(stack) else { continue };
            let number = blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
                blocks.push(block);
                blocks.len() - 1
            });
            given.push(GivenRun { levels: levels.to_vec(), block: number });
        }
        given
    }
}

/// The cache mode of a stack's topmost virtual machine; `None` without one.
pub fn cache_mode(stack: &WrittenStack) -> Option<CacheMode> {
    Some(stack.value()?.anatomy().virtual_machine?.hypervisor()?.block.cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::read_levels;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn on(medium: &str, levels: &[(FactorName, &[&str])], options: &str) -> Result<Space, SpaceError> {
        let given = levels.iter().map(|(name, levels)| (*name, words(levels))).collect();
        Space::new(&given, Layer::parse(medium).unwrap(), &machine_with(options).unwrap())
    }

    fn space(levels: &[(FactorName, &[&str])]) -> Result<Space, SpaceError> {
        on("hdd", levels, "")
    }

    #[test]
    fn lists_are_read_as_people_write_them() {
        let read = |list: &[&str]| read_levels(FactorName::HostFs, &words(list)).unwrap();
        assert_eq!(read(&["ext4,xfs"]), ["ext4", "xfs"]);
        assert_eq!(read(&["{ext4,xfs}"]), ["ext4", "xfs"]);
        // A shell has already expanded the braces.
        assert_eq!(read(&["ext4", "xfs", "ext4"]), ["ext4", "xfs"]);
        assert_eq!(
            read(&["raw,qcow2:cluster={64k,128k}"]),
            ["raw", "qcow2:cluster=64k", "qcow2:cluster=128k"]
        );
        let error = read_levels(FactorName::Cache, &words(&[""])).unwrap_err().to_string();
        assert!(error.starts_with("--cache has no levels"), "{error}");
    }

    #[test]
    fn the_usual_space_has_twelve_stacks() {
        let space = space(&[]).unwrap();
        assert_eq!(space.stacks().count(), 12);
        assert_eq!(space.default_stack(), &"ext4/kvm/raw/ext4/hdd");
        let levels = space.levels_of(&"ext4/kvm:cache=writeback/qcow2/xfs/hdd".into()).unwrap();
        assert_eq!(levels, [0, 1, 1, 1, 0, 0, 0]);
        assert_eq!(space.stack(levels).unwrap(), "ext4/kvm:cache=writeback/qcow2/xfs/hdd");
    }

    fn held(space: &Space) -> Vec<String> {
        let words = |one: HeldFixed| {
            format!("{} {} {}", one.factor.name(), one.level, one.option.as_deref().unwrap_or("-"))
        };
        space.held_fixed().into_iter().map(words).collect()
    }

    #[test]
    fn what_all_stacks_have_is_told_with_the_option_that_would_vary_it() {
        assert_eq!(
            held(&space(&[]).unwrap()),
            [
                "guest ext4 --guest",
                "device virtio-blk --device",
                "scheduler default --scheduler",
                "host-scheduler default --host-scheduler"
            ]
        );
        let alone =
            space(&[(FactorName::Format, &["device"]), (FactorName::Guest, &["ext4", "xfs"])]).unwrap();
        assert_eq!(held(&alone)[0], "format device --format");
        assert!(held(&alone).iter().all(|one| !one.starts_with("host-fs") && !one.starts_with("guest")));
        let own = on("dev:/dev/sdb", &[], "").unwrap();
        assert_eq!(held(&own).last().map(String::as_str), Some("host-scheduler default -"));
    }

    #[test]
    fn without_an_image_there_is_no_host_file_system() {
        let space =
            space(&[(FactorName::Format, &["raw", "device"]), (FactorName::Cache, &["none"])]).unwrap();
        let stacks: Vec<&str> = space.stacks().map(WrittenStack::as_str).collect();
        assert_eq!(stacks, ["ext4/kvm/hdd", "ext4/kvm/raw/ext4/hdd", "ext4/kvm/raw/xfs/hdd"]);
        let alone = self::space(&[(FactorName::Format, &["device"])]).unwrap();
        assert_eq!(alone.level_counts(), [1, 1, 1, 3, 1, 1, 1]);
        let levels = alone.levels_of(&"ext4/kvm:cache=writethrough/hdd".into());
        assert_eq!(levels, Some(&[0, 0, 0, 2, 0, 0, 0][..]));
    }

    #[test]
    fn what_does_not_fit_together_is_left_out_unless_nothing_fits() {
        let cache: &[(FactorName, &[&str])] = &[(FactorName::Cache, &["none", "writeback"])];
        let native = on("hdd", cache, "aio=native").unwrap_err().to_string();
        // Writeback never goes with native AIO, so the user asked for something that cannot be.
        assert!(native.contains("aio=native needs a cache mode"), "{native}");
        let typo = space(&[(FactorName::HostFs, &["ext4", "zsf"])]).unwrap_err().to_string();
        assert!(typo.contains("zsf"), "{typo}");
    }

    #[test]
    fn schedulers_are_options_of_the_two_block_devices() {
        let levels: &[(FactorName, &[&str])] = &[
            (FactorName::Scheduler, &["bfq"]),
            (FactorName::HostScheduler, &["mq-deadline"]),
            (FactorName::HostFs, &["xfs"]),
            (FactorName::Format, &["raw"]),
            (FactorName::Cache, &["none"]),
        ];
        let space = space(levels).unwrap();
        assert_eq!(space.default_stack(), &"ext4/kvm:sched=bfq/raw/xfs/hdd:sched=mq-deadline");
        let error = on("dev:/dev/sdb", levels, "").unwrap_err().to_string();
        assert!(error.contains("/sys/block"), "{error}");
        for (medium, options, option) in
            [("hdd", "sched=none", "kvm:sched=bfq"), ("hdd:sched=bfq", "", "hdd:sched=mq-deadline")]
        {
            let error = on(medium, levels, options).unwrap_err().to_string();
            assert!(error.contains("sched is set in") && error.contains(option), "{error}");
        }
        let all = on("hdd:sched=bfq", &[], "sched=none:memory=1G").unwrap();
        assert_eq!(all.default_stack(), &"ext4/kvm:memory=1G:sched=none/raw/ext4/hdd:sched=bfq");
        assert!(machine_with("cache=none").unwrap_err().to_string().contains("already given"));
    }
}
