//! Advice is something to change, and what is named can act, whatever the stack.

mod planted;

use std::collections::BTreeMap;

use nestor_explain::mechanisms::MECHANISMS;
use nestor_explain::{Evidence, MechanismName, explain};
use nestor_stack::{Export, Layer, LayerIndex, OptionKind, Stack};
use planted::planted;

/// One stack of each shape.
const SHAPES: [&str; 15] = [
    "hdd",
    "ext4/hdd",
    "ext4:mount=noatime/ssd",
    "ext4:mount=noatime/kvm/raw/xfs/hdd",
    "ext3:mount=data=journal/raid5",
    "ext4/kvm/hdd",
    "ext4/kvm:cache=writeback/raw/xfs/raid5",
    "ext4/kvm:cache=unsafe/qcow2/ext4/hdd",
    "ext2/part:start=63s/kvm:disk=ide/raw/xfs/nvme",
    "ext4/loop/raw/xfs/hdd",
    "nfs/link/xfs/raid5",
    "nfs:vers=3:sync:export=async/link/ext4/hdd",
    "ext2/part:start=63s/kvm:cache=writethrough/raw/nfs:vers=3/link/xfs/raid5",
    "nfs/kvm/link/ext2/loop/raw/xfs/hdd",
    "ext4/kvm/nbd/link/qcow2/xfs/hdd",
];

/// The values at which advice could be wrong: all words of a choice, and both ends of an amount.
fn values(kind: OptionKind) -> Vec<String> {
    match kind {
        OptionKind::Flag => vec!["on".to_owned(), "off".to_owned()],
        OptionKind::Choice(words) | OptionKind::Word(words) => {
            words.iter().map(|word| (*word).to_owned()).collect()
        }
        OptionKind::Size { min, max, .. } => vec![min.to_string(), max.to_string()],
        OptionKind::Number { min, max } => vec![min.to_string(), max.to_string()],
        OptionKind::BitRate { min, max } => vec![min.to_string(), max.to_string()],
        OptionKind::TimeSpan { min, max } => vec![min.to_string(), max.to_string()],
        OptionKind::Sectors { .. } => vec!["63s".to_owned(), "1M".to_owned()],
        OptionKind::Percentage { max } => vec!["0".to_owned(), max.to_string()],
        OptionKind::Positional
        | OptionKind::Name
        | OptionKind::Added { .. }
        | OptionKind::List
        | OptionKind::Path => Vec::new(),
    }
}

/// The shapes, and each of them with each value of each option of each layer.
fn stacks() -> Vec<Stack> {
    let mut stacks = Vec::new();
    for shape in SHAPES {
        let stack = Stack::parse(shape).unwrap();
        for (at, layer) in stack.indexed_layers() {
            for option in layer.spec.options {
                let others = values(option.kind).into_iter().filter_map(|value| {
                    stack.with_layer(at, layer.clone().with(option.name, &value).ok()?).ok()
                });
                stacks.extend(others);
            }
        }
        stacks.push(stack);
    }
    stacks
}

/// A cell as if it had been measured on another stack.
fn on(mut e: Evidence, stack: &Stack) -> Evidence {
    e.stack = stack.clone().into();
    let nfs = stack.layers().iter().find_map(Layer::network_file_system);
    e.networks.iter_mut().for_each(|network| network.export = nfs.map(|nfs| nfs.export));
    e
}

/// The settings that a text names, each with its value; none where only an amount is to change.
fn settings(advice: &str) -> Vec<(&str, &str)> {
    let words = advice.split(|c: char| c.is_whitespace() || "(),;".contains(c));
    let named = words.filter_map(|word| word.split_once('='));
    named.map(|(option, value)| (option.rsplit(':').next().unwrap(), value.trim_end_matches(':'))).collect()
}

/// Whether what is below a layer is read through a page cache of another machine, or of the file below a loop device.
fn is_cached_below(layer: &Layer) -> bool {
    match layer.name() {
        "kvm" | "nbd" => ["writeback", "writethrough", "unsafe"].map(Some).contains(&layer.option("cache")),
        "loop" => layer.option("direct-io") == Some("off"),
        name => name == "nfs",
    }
}

/// Whether a layer is one that the advice of a mechanism on an option speaks of.
fn is_meant(stack: &Stack, at: LayerIndex, mechanism: MechanismName, option: &str) -> bool {
    let name = stack.layer(at).name();
    match (mechanism, option) {
        (MechanismName::HostReadAhead, "readahead") => stack.above(at).iter().any(is_cached_below),
        (MechanismName::ReadaheadOverNfs, "readahead") => name == "kvm",
        (MechanismName::CpuBound, "cpus") => {
            panic!("the outermost machine is the busiest: no layer says what processors it has")
        }
        (MechanismName::GuestAmplification, "mount" | "journal") => {
            stack.layers().iter().position(|layer| layer.spec.options.iter().any(|spec| spec.name == "mount"))
                == Some(at.position())
        }
        (MechanismName::Flushes, "cache") => ["kvm", "nbd"].contains(&name),
        (_, "cache" | "disk" | "iothread") => name == "kvm",
        (_, "rsize" | "wsize" | "actimeo" | "sync" | "export") => name == "nfs",
        (_, "acregmax") => {
            stack.layer(at).network_file_system().is_some_and(|nfs| nfs.believed.file_max_s.is_some())
        }
        (_, "rate" | "delay" | "loss") => name == "link",
        (_, "alloc") => name == "raw",
        (_, "l2-cache" | "cluster" | "prealloc") => name == "qcow2",
        (_, "start") => name == "part",
        (MechanismName::Merging, "sched" | "merges") => true,
        _ => panic!("{mechanism:?} advises on {option}: of which layers?"),
    }
}

/// The end that an amount is to be changed towards.
fn end(mechanism: MechanismName, option: &str, kind: OptionKind) -> String {
    let shrinks = matches!(
        (mechanism, option),
        (MechanismName::ReadaheadOverNfs, _) | (MechanismName::LinkBound, "delay" | "loss")
    );
    let ends = values(kind);
    let end = if shrinks { ends.first() } else { ends.last() };
    end.unwrap_or_else(|| panic!("{option} is no amount")).clone()
}

/// Whether a stack can be changed to have a setting in a layer that is meant, and does not have it there already.
fn can_be_set(stack: &Stack, mechanism: MechanismName, (option, value): (&str, &str)) -> bool {
    let meant = stack.indexed_layers().filter(|(at, _)| is_meant(stack, *at, mechanism, option));
    meant.into_iter().any(|(at, layer)| {
        let Some(spec) = layer.spec.options.iter().find(|spec| spec.name == option) else { return false };
        let changed = |value: &str| {
            let other = layer.clone().with(option, value).unwrap();
            other != *layer && stack.with_layer(at, other).is_ok()
        };
        match (spec.kind, value) {
            // How a journal is mounted is changed only where it is mounted otherwise.
            (OptionKind::List, "data=ordered") => layer.list(option).any(|own| own == "data=journal"),
            (OptionKind::List, word) => layer.list(option).all(|own| own != word),
            (kind, "") => changed(&end(mechanism, option, kind)),
            _ => changed(value),
        }
    })
}

#[test]
fn what_is_advised_is_never_set_already() {
    let stacks = stacks();
    assert!(stacks.len() > 500, "{}", stacks.len());
    let mut checked: BTreeMap<&str, usize> = BTreeMap::new();
    for mechanism in MECHANISMS {
        let (here, before) = planted(mechanism.name);
        for stack in &stacks {
            for baseline in [Some(on(before.clone(), stack)), None] {
                let explanation = explain(&on(here.clone(), stack), baseline.as_ref());
                for found in explanation.findings {
                    let Some(advice) = found.advice else { continue };
                    for setting in settings(&advice) {
                        *checked.entry(found.mechanism.name()).or_default() += 1;
                        assert!(
                            can_be_set(stack, found.mechanism, setting),
                            "{stack}: {}: {setting:?} in {advice:?}",
                            found.mechanism.name()
                        );
                    }
                }
            }
        }
    }
    // Of the others, the advice is nothing that a stack says.
    for mechanism in MECHANISMS {
        let name = mechanism.name.name();
        assert!(
            checked.contains_key(name) || ["seeks-to-log", "path-length"].contains(&name),
            "{name}: {checked:?}"
        );
    }
}

#[test]
fn what_cannot_act_in_a_stack_is_not_named() {
    let exported = |stack: &Stack, how: Export| {
        stack.layers().iter().filter_map(Layer::network_file_system).any(|nfs| nfs.export == how)
    };
    let has = |stack: &Stack, name: &str| stack.layers().iter().any(|layer| layer.name() == name);
    // Those with mount options are on a disk.
    let file_systems = |stack: &Stack| {
        let of_a_disk = |layer: &&Layer| layer.spec.options.iter().any(|option| option.name == "mount");
        stack.layers().iter().filter(of_a_disk).count()
    };
    let mut named: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for mechanism in MECHANISMS {
        let (here, before) = planted(mechanism.name);
        for stack in stacks() {
            let explanation = explain(&on(here.clone(), &stack), Some(&on(before.clone(), &stack)));
            let is_named = explanation.findings.iter().any(|found| found.mechanism == mechanism.name);
            let can_act = match mechanism.name {
                MechanismName::SynchronousWrite => exported(&stack, Export::Sync),
                MechanismName::MetadataRpc | MechanismName::ReadaheadOverNfs => has(&stack, "nfs"),
                MechanismName::LinkBound => has(&stack, "link"),
                MechanismName::ImageMetadata => has(&stack, "qcow2"),
                MechanismName::Fragmentation => has(&stack, "raw") || has(&stack, "qcow2"),
                MechanismName::SeeksToLog => {
                    !has(&stack, "ssd") && !has(&stack, "nvme") && stack.layers().len() > 1
                }
                MechanismName::HostReadAhead => stack.layers().iter().any(is_cached_below),
                MechanismName::JournalOfJournal => file_systems(&stack) > 1,
                MechanismName::GuestAmplification | MechanismName::HostAmplification => {
                    file_systems(&stack) > 0
                }
                MechanismName::HostCache
                | MechanismName::Merging
                | MechanismName::Misalignment
                | MechanismName::ReadModifyWrite
                | MechanismName::Flushes
                | MechanismName::SingleQueue
                | MechanismName::PathLength
                | MechanismName::CpuBound => true,
                MechanismName::Noise => unreachable!("it is no mechanism"),
            };
            assert_eq!(is_named, can_act, "{} on {stack}", mechanism.name.name());
            named.entry(mechanism.name.name()).or_default()[usize::from(is_named)] += 1;
        }
    }
    for (name, [_, is_named]) in named {
        assert!(is_named > 0, "{name} is named nowhere");
    }
}

/// What a mechanism advises in a stack.
fn advised(mechanism: MechanismName, stack: &str) -> String {
    let (here, before) = planted(mechanism);
    let stack = Stack::parse(stack).unwrap();
    let explanation = explain(&on(here, &stack), Some(&on(before, &stack)));
    let found = explanation.findings.into_iter().find(|found| found.mechanism == mechanism);
    found.and_then(|found| found.advice).unwrap_or_default()
}

#[test]
fn advice_is_about_the_layer_that_it_names() {
    use MechanismName::{GuestAmplification, HostReadAhead, ReadaheadOverNfs};
    let guest = |stack| advised(ReadaheadOverNfs, stack).contains("readahead= of a guest");
    assert!(!guest("nfs/link/xfs/hdd"), "there is no guest");
    assert!(!guest("nfs/kvm/link/xfs/hdd"), "the guest has no device");
    assert!(!guest("ext4/kvm:readahead=0:cache=writeback/raw/nfs/link/xfs/hdd"), "it is at its end");
    assert!(guest("ext4/kvm:cache=writeback/raw/nfs/link/xfs/hdd"));
    let host = |stack| advised(HostReadAhead, stack).contains("readahead= of the host");
    assert!(host("ext4/kvm:cache=writeback/raw/xfs/hdd"));
    assert!(!host("ext4/kvm:cache=writeback/raw/xfs/hdd:readahead=1G"), "the guest's is another");
    assert!(
        !host("ext4/loop:readahead=4k/raw/xfs/hdd:readahead=1G"),
        "the loop device is what is read through"
    );
    assert!(host("ext4/kvm:cache=writeback/nbd/link/hdd:readahead=1G"), "of the network disk in the host");
    assert!(!host("ext4/kvm/nbd:cache=writeback/link/hdd:readahead=1G"), "the host goes past its page cache");
    assert!(host("nfs/kvm/link/ext2/loop/raw/xfs/hdd:readahead=1G"), "of the server's loop device");
    let noatime = |stack| advised(GuestAmplification, stack).contains("noatime");
    assert!(noatime("ext4/kvm/raw/xfs/hdd") && noatime("nfs/kvm/link/ext2/loop/raw/xfs:mount=noatime/hdd"));
    assert!(!noatime("ext4:mount=noatime/kvm/raw/xfs/hdd"), "the host's is another");
    let ordered = |stack| advised(GuestAmplification, stack).contains("data=ordered");
    assert!(ordered("ext3:mount=data=journal/kvm/raw/xfs/hdd"));
    assert!(!ordered("ext3/kvm/raw/ext3:mount=data=journal/hdd"), "the host's is another");
}

#[test]
fn more_processors_are_advised_for_the_machine_that_has_too_few() {
    let advice = |busiest: &str, stack: &str| {
        let (mut here, before) = planted(MechanismName::CpuBound);
        here.cpu_busy = vec![("host".into(), 0.5), (busiest.into(), 0.98)];
        let stack = Stack::parse(stack).unwrap();
        let explanation = explain(&on(here, &stack), Some(&on(before, &stack)));
        let [found] = &explanation.findings[..] else { panic!("{explanation:?}") };
        assert_eq!(found.mechanism, MechanismName::CpuBound);
        found.advice.clone().unwrap_or_default().contains("cpus=")
    };
    assert!(advice("guest", "ext4/kvm/raw/xfs/hdd"));
    assert!(!advice("host", "ext4/kvm/raw/xfs/hdd"));
    assert!(!advice("guest", "ext4/kvm:cpus=64/raw/nfs/link/xfs/hdd"), "the client's are others");
    assert!(advice("client", "ext4/kvm:cpus=64/raw/nfs/link/xfs/hdd"));
}
