//! Advice is something to change, and what is named can act, whatever the stack.

mod planted;

use std::collections::BTreeMap;

use nestor_explain::mechanisms::MECHANISMS;
use nestor_explain::{Evidence, MechanismName, explain};
use nestor_stack::{Export, Layer, OptionKind, Stack};
use planted::planted;

/// One stack of each shape.
const SHAPES: [&str; 14] = [
    "hdd",
    "ext4/hdd",
    "ext4:mount=noatime/ssd",
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
        OptionKind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        OptionKind::Size { min, max, .. } => vec![min.to_string(), max.to_string()],
        OptionKind::Number { min, max } => vec![min.to_string(), max.to_string()],
        OptionKind::BitRate { min, max } => vec![min.to_string(), max.to_string()],
        OptionKind::TimeSpan { min, max } => vec![min.to_string(), max.to_string()],
        OptionKind::Sectors { .. } => vec!["63s".to_owned(), "1M".to_owned()],
        OptionKind::Percentage { .. } | OptionKind::Positional | OptionKind::List | OptionKind::Path => {
            Vec::new()
        }
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

/// Whether a stack can be changed to have a setting, and does not have it everywhere.
fn can_be_set(stack: &Stack, (option, value): (&str, &str)) -> bool {
    stack.indexed_layers().any(|(at, layer)| {
        let Some(spec) = layer.spec.options.iter().find(|spec| spec.name == option) else { return false };
        match (spec.kind, value) {
            (_, "") => true,
            (OptionKind::List, word) => layer.list(option).all(|own| own != word),
            _ => {
                let other = layer.clone().with(option, value).unwrap();
                other != *layer && stack.with_layer(at, other).is_ok()
            }
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
                            can_be_set(stack, setting),
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
                _ => is_named,
            };
            assert_eq!(is_named, can_act, "{} on {stack}", mechanism.name.name());
            named.entry(mechanism.name.name()).or_default()[usize::from(is_named)] += 1;
        }
    }
    for (name, [_, is_named]) in named {
        assert!(is_named > 0, "{name} is named nowhere");
    }
}
