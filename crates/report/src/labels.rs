//! Short names for long stacks and workloads, where the long one is said once nearby.

use nestor_stack::{LayerDefinition, Stack};

/// The three parts of a stack that a matrix tells apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackParts {
    /// Down to the innermost virtual machine: `ext3/kvm`; for a native stack its file system.
    pub guest: String,
    /// Between that and the medium: `raw/jfs`; empty for a raw disk.
    pub host: String,
    /// The medium: `hdd`.
    pub medium: String,
    /// In which options its virtual machine is not the study's usual one, or that one where another stack of the same row
    /// has such: `cache=none`; else empty.
    pub machine_note: String,
}

impl StackParts {
    /// Takes a stack apart. A text that is no stack is its own guest on nothing.
    pub fn of(stack: &str) -> Self {
        let Ok(parsed) = Stack::parse(stack) else {
            return Self { guest: stack.to_owned(), ..Self::default() };
        };
        let layers = parsed.layers();
        let joined = |range: std::ops::Range<usize>| {
            layers[range].iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
        };
        let medium = layers.len() - 1;
        let hypervisor = layers.iter().position(|l| matches!(l.definition(), LayerDefinition::Hypervisor(_)));
        let host = match hypervisor {
            Some(last) => joined(last + 1..medium),
            None if medium == 0 => "no VM".to_owned(),
            None => ["no VM".to_owned()]
                .into_iter()
                .chain((medium > 1).then(|| joined(1..medium)))
                .collect::<Vec<_>>()
                .join("/"),
        };
        Self {
            guest: joined(0..hypervisor.unwrap_or(0) + 1),
            host,
            medium: layers[medium].to_string(),
            machine_note: String::new(),
        }
    }

    /// The guest's file system and its virtual machine.
    fn machine(&self) -> Option<(&str, &str)> {
        self.guest.rsplit_once('/')
    }
}

/// The parts of a study's stacks. A guest on the raw disk in a machine with other options than usual stands in the row of
/// the usual one, as a column of its own: `ext3/kvm/hdd` beside `ext3/kvm:cache=writethrough/hdd`.
pub fn parts_of(stacks: &[String]) -> Vec<StackParts> {
    let mut parts: Vec<StackParts> = stacks.iter().map(|stack| StackParts::of(stack)).collect();
    let machines: Vec<String> = parts.iter().filter_map(|p| Some(p.machine()?.1.to_owned())).collect();
    let count = |machine: &&String| machines.iter().filter(|m| m == machine).count();
    // Of equals the first: the last maximum of the reversed order.
    let Some(usual) = machines.iter().rev().max_by_key(count).cloned() else { return parts };
    for i in 0..parts.len() {
        let Some((guest, machine)) = parts[i].machine() else { continue };
        if machine == usual
            || machine.split(':').next() != usual.split(':').next()
            || !parts[i].host.is_empty()
        {
            continue;
        }
        let row = format!("{guest}/{usual}");
        let like_it = |p: &StackParts| p.guest == row && p.host.is_empty() && p.medium == parts[i].medium;
        let Some(other) = parts.iter().position(like_it) else { continue };
        let (note, usual_note) = different_options(&stacks[i], &stacks[other]);
        parts[i].guest = row;
        parts[i].machine_note = note;
        parts[other].machine_note = usual_note;
    }
    // A guest that has only the usual machine stands in the usual column too.
    let usual_notes: Vec<(String, String)> = (parts.iter().zip(stacks))
        .filter(|(p, stack)| !p.machine_note.is_empty() && StackParts::of(stack).guest == p.guest)
        .map(|(p, _)| (p.medium.clone(), p.machine_note.clone()))
        .collect();
    for part in parts.iter_mut().filter(|p| p.host.is_empty() && p.machine_note.is_empty()) {
        let in_usual = part.machine().is_some_and(|(_, machine)| machine == usual);
        if let Some((_, note)) = usual_notes.iter().find(|(medium, _)| in_usual && *medium == part.medium) {
            part.machine_note.clone_from(note);
        }
    }
    parts
}

/// The options in which the innermost machines of two stacks differ, each with its own values.
fn different_options(one: &str, other: &str) -> (String, String) {
    let (Ok(one), Ok(other)) = (Stack::parse(one), Stack::parse(other)) else { return Default::default() };
    let machine = |stack: &Stack| {
        let found = stack.layers().iter().find(|l| matches!(l.definition(), LayerDefinition::Hypervisor(_)));
        found.cloned()
    };
    let (Some(one), Some(other)) = (machine(&one), machine(&other)) else { return Default::default() };
    let written = format!("{one}:{other}");
    let mut notes = (Vec::new(), Vec::new());
    let mut seen: Vec<&str> = Vec::new();
    for key in written.split(':').filter_map(|option| Some(option.split_once('=')?.0)) {
        let (mine, theirs) = (one.option(key).unwrap_or("default"), other.option(key).unwrap_or("default"));
        if mine != theirs && !seen.contains(&key) {
            seen.push(key);
            notes.0.push(format!("{key}={mine}"));
            notes.1.push(format!("{key}={theirs}"));
        }
    }
    (notes.0.join(", "), notes.1.join(", "))
}

/// Column names: the medium is left out where all have the same, and what lies directly on it is the raw disk.
pub fn host_names(parts: &[StackParts]) -> Vec<String> {
    let one_medium = parts.windows(2).all(|pair| pair[0].medium == pair[1].medium);
    let name = |part: &StackParts| {
        let name = match (part.host.is_empty(), one_medium) {
            (true, true) => "raw disk".to_owned(),
            (true, false) => format!("raw disk ({})", part.medium),
            (false, true) => part.host.clone(),
            (false, false) => format!("{}/{}", part.host, part.medium),
        };
        if part.machine_note.is_empty() { name } else { format!("{name}, {}", part.machine_note) }
    };
    parts.iter().map(name).collect()
}

/// Names without the options (`:…`) that all of them end with, and those options.
pub fn without_common_options(names: &[String]) -> (Vec<String>, String) {
    let split: Vec<Vec<&str>> = names.iter().map(|n| n.split(':').collect()).collect();
    let Some(first) = split.first() else { return (Vec::new(), String::new()) };
    // The engine and the case (`fio:seq-read`) are always kept.
    let shortest = split.iter().map(Vec::len).min().unwrap_or(0).saturating_sub(2);
    let ending = |parts: &[&str], n: usize| parts[parts.len() - n..].join(":");
    let same = |n: &usize| split.iter().all(|parts| ending(parts, *n) == ending(first, *n));
    let common = (0..=shortest).rev().find(same).unwrap_or(0);
    let names = split.iter().map(|parts| parts[..parts.len() - common].join(":")).collect();
    (names, ending(first, common))
}

/// Guests without the virtual machine (`/kvm:…`) that all of them run in, and that machine.
pub fn without_common_machine(guests: &[String]) -> (Vec<String>, String) {
    let split: Option<Vec<(&str, &str)>> = guests.iter().map(|g| g.rsplit_once('/')).collect();
    match split.as_deref() {
        Some(parts @ [(_, machine), ..]) if parts.iter().all(|(_, m)| m == machine) => {
            (parts.iter().map(|(guest, _)| (*guest).to_owned()).collect(), (*machine).to_owned())
        }
        _ => (guests.to_vec(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_falls_apart_at_its_hypervisor() {
        let parts = |stack| {
            let StackParts { guest, host, medium, .. } = StackParts::of(stack);
            format!("{guest} | {host} | {medium}")
        };
        assert_eq!(parts("ext3/kvm/raw/jfs/hdd"), "ext3/kvm | raw/jfs | hdd");
        assert_eq!(parts("ext3/kvm/hdd"), "ext3/kvm |  | hdd");
        assert_eq!(parts("ext4/kvm/qcow2/xfs/kvm/raw/xfs/hdd"), "ext4/kvm | qcow2/xfs/kvm/raw/xfs | hdd");
        assert_eq!(parts("xfs/kvm/raw/ext4/file:/srv/disk.img"), "xfs/kvm | raw/ext4 | file:/srv/disk.img");
        assert_eq!(parts("ext4/hdd"), "ext4 | no VM | hdd");
        assert_eq!(parts("<b>no stack</b>"), "<b>no stack</b> |  | ");
    }

    #[test]
    fn a_common_medium_is_left_out() {
        let names =
            |stacks: &[&str]| host_names(&stacks.iter().map(|s| StackParts::of(s)).collect::<Vec<_>>());
        assert_eq!(names(&["xfs/kvm/hdd", "xfs/kvm/raw/jfs/hdd"]), ["raw disk", "raw/jfs"]);
        assert_eq!(names(&["xfs/kvm/hdd", "xfs/kvm/raw/jfs/ssd"]), ["raw disk (hdd)", "raw/jfs/ssd"]);
    }

    #[test]
    fn the_raw_disk_with_another_cache_mode_is_a_column_of_its_own() {
        let stacks = owned(&[
            "ext3/kvm/hdd",
            "ext3/kvm:cache=writethrough/hdd",
            "ext3/kvm:cache=writethrough/raw/jfs/hdd",
            "xfs/kvm:cache=writethrough/hdd",
            "xfs/kvm:cache=writethrough/raw/btrfs/hdd",
        ]);
        let parts = parts_of(&stacks);
        let guests: Vec<&str> = parts.iter().map(|p| p.guest.as_str()).collect();
        assert_eq!(guests[..2], ["ext3/kvm:cache=writethrough"; 2]);
        assert_eq!(
            host_names(&parts),
            [
                "raw disk, cache=none",
                "raw disk, cache=writethrough",
                "raw/jfs",
                "raw disk, cache=writethrough",
                "raw/btrfs"
            ]
        );
        // Machines that differ throughout are rows of their own.
        let apart = owned(&["ext3/kvm/hdd", "ext3/kvm/raw/jfs/hdd", "ext3/tcg/hdd", "ext3/tcg/raw/jfs/hdd"]);
        assert!(parts_of(&apart).iter().all(|p| p.machine_note.is_empty()));
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_common_virtual_machine_is_said_once() {
        let shortened = |guests: &[&str]| without_common_machine(&owned(guests));
        assert_eq!(
            shortened(&["ext3/kvm:cache=none", "jfs/kvm:cache=none"]),
            (owned(&["ext3", "jfs"]), "kvm:cache=none".to_owned())
        );
        assert_eq!(shortened(&["ext3/kvm", "ext3/tcg"]), (owned(&["ext3/kvm", "ext3/tcg"]), String::new()));
        assert_eq!(shortened(&["ext3/kvm", "ext3"]), (owned(&["ext3/kvm", "ext3"]), String::new()));
        assert_eq!(shortened(&[]), (Vec::new(), String::new()));
    }

    #[test]
    fn common_options_are_said_once() {
        let (names, common) =
            without_common_options(&owned(&["fio:seq-read:bs=8k:scale=0.1", "fio:seq-write:scale=0.1"]));
        assert_eq!((names, common.as_str()), (owned(&["fio:seq-read:bs=8k", "fio:seq-write"]), "scale=0.1"));
        let (names, common) = without_common_options(&owned(&["fio:seq-read"]));
        assert_eq!((names, common.as_str()), (owned(&["fio:seq-read"]), ""));
        assert_eq!(without_common_options(&[]), (Vec::new(), String::new()));
    }
}
