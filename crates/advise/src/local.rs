//! Stacks on one machine: a guest's file system, its virtual machine, an image and the host's file system on a disk.

use std::collections::BTreeMap;

use nestor_results::WrittenStack;
use nestor_stack::layers::hypervisors::CacheMode;
use nestor_stack::{Layer, Stack, StackError};

use crate::factors::{Factor, FactorName, KERNELS_CHOICE};
use crate::space::{Space, SpaceError};

/// The level of [`FactorName::Format`] that stands for no image and no host file system: the disk itself.
pub const DEVICE_FORMAT: &str = "device";

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
        // Of network storage only.
        _ => return Ok(None),
    };
    Layer::parse(&text).map(Some)
}

/// The layers of all levels, by factor and level.
type LevelLayers = Vec<Vec<Option<Layer>>>;

/// A level that is a mistake in the question wherever it stands.
fn wrong(error: StackError) -> SpaceError {
    SpaceError::Stack(Box::new(error))
}

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
        let factors: Vec<Factor> = FactorName::LOCAL
            .into_iter()
            .map(|name| {
                let usual = || name.usual_levels().iter().map(|level| (*level).to_owned()).collect();
                Factor { name, levels: given.get(&name).cloned().unwrap_or_else(usual) }
            })
            .collect();
        refuse_host_scheduler_of_a_path(&factors, &medium)?;
        let layers = layers(&factors, &medium).map_err(wrong)?;
        let path = medium.path().is_some().then_some(FactorName::HostScheduler);
        let space = Self::of(factors, |levels| build(&layers, machine, &medium, levels))?;
        // Without an image there is nothing to say of the host's file systems.
        let has_image = space.levels(FactorName::Format).iter().any(|format| format != DEVICE_FORMAT);
        Ok(space.without((!has_image).then_some(FactorName::HostFs)).with_settled(path))
    }
}

fn refuse_host_scheduler_of_a_path(factors: &[Factor], medium: &Layer) -> Result<(), SpaceError> {
    let chosen =
        factors[FactorName::HostScheduler as usize].levels.iter().any(|level| level != KERNELS_CHOICE);
    if chosen && medium.path().is_some() {
        return Err(SpaceError::Levels(format!(
            "--host-scheduler cannot be set for {medium}: its path runs to the end of the stack\n  set it in \
             /sys/block/*/queue/scheduler before measuring"
        )));
    }
    Ok(())
}

/// What each level is.
fn layers(factors: &[Factor], medium: &Layer) -> Result<LevelLayers, StackError> {
    let of_factor =
        |factor: &Factor| factor.levels.iter().map(|level| layer_of(factor.name, level, medium)).collect();
    factors.iter().map(of_factor).collect()
}

/// The stack of a combination; `None` for one that says the same as another.
fn build(
    layers: &LevelLayers,
    machine: &Layer,
    medium: &Layer,
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
    let medium = layer(FactorName::HostScheduler).into_iter().try_fold(medium.clone(), Layer::joined)?;
    let host_file_system = image.and(layer(FactorName::HostFs));
    let all = [layer(FactorName::Guest), Some(&machine), image, host_file_system, Some(&medium)];
    Stack::of(all.into_iter().flatten().cloned()).map(Some)
}

/// The cache mode of a stack's topmost virtual machine; `None` without one.
pub fn cache_mode(stack: &WrittenStack) -> Option<CacheMode> {
    Some(stack.value()?.anatomy().virtual_machine?.hypervisor()?.disk.cache())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factors::HeldFixed;
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
                "device virtio-blk --device-model",
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
