//! Short names for long stacks and workloads, where the long one is said once nearby.

use std::collections::{BTreeMap, BTreeSet};

use nestor_stack::{LayerIndex, Stack};

/// The three parts of a stack that a matrix tells apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackParts {
    /// Down to the innermost virtual machine: `ext3/kvm`; for a native stack its file system.
    pub guest: String,
    /// Between that and the medium: `raw/jfs`; empty for a raw disk.
    pub host: String,
    /// The medium: `hdd`.
    pub medium: String,
    /// In which options the virtual machine of a guest on the raw disk is not the study's usual one: `cache=none`; else
    /// empty.
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
        let hypervisor = parsed.innermost_hypervisor().map(LayerIndex::position);
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
        parts[i].guest = row;
        parts[i].machine_note = different_options(&stacks[i], &stacks[other]);
    }
    parts
}

/// The options in which the innermost machine of a stack is not that of another, with its own values.
fn different_options(one: &str, other: &str) -> String {
    let (Ok(one), Ok(other)) = (Stack::parse(one), Stack::parse(other)) else { return String::new() };
    let machine = |stack: &Stack| stack.innermost_hypervisor().map(|at| stack.layer(at).clone());
    let (Some(one), Some(other)) = (machine(&one), machine(&other)) else { return String::new() };
    let written = format!("{one}:{other}");
    let mut note: Vec<String> = Vec::new();
    for key in written.split(':').filter_map(|option| Some(option.split_once('=')?.0)) {
        let (mine, theirs) = (one.option(key).unwrap_or("default"), other.option(key).unwrap_or("default"));
        let said = format!("{key}={mine}");
        if mine != theirs && !note.contains(&said) {
            note.push(said);
        }
    }
    note.join(", ")
}

/// The layers of a study as most of its stacks write them, by name: `raw` is `raw:size=2G`. A layer with options of its own in
/// every stack is not among them, nor is one without any.
#[derive(Clone, Debug, Default)]
pub struct UsualLayers(BTreeMap<String, String>);

impl UsualLayers {
    /// Counts the layers of stacks.
    pub fn of(stacks: &[String]) -> Self {
        let mut counted: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for layer in stacks.iter().filter_map(|s| Stack::parse(s).ok()).flat_map(|s| s.layers().to_vec()) {
            let written = layer.to_string();
            // A path is what the reader knows the medium by.
            if layer.path().is_none() {
                *counted.entry(layer.name().to_owned()).or_default().entry(written).or_default() += 1;
            }
        }
        let most = |(name, forms): (String, BTreeMap<String, usize>)| {
            let all: usize = forms.values().sum();
            let (form, count) = forms.into_iter().max_by_key(|(_, count)| *count)?;
            (count * 2 > all && form != name).then_some((name, form))
        };
        Self(counted.into_iter().filter_map(most).collect())
    }

    /// A part of a stack with its usual layers by their names alone, the others with what they have of their own:
    /// `raw/ext3:block=1k`.
    pub fn shortened(&self, part: &str) -> String {
        part.split('/').map(|layer| self.layer(layer)).collect::<Vec<_>>().join("/")
    }

    fn layer(&self, written: &str) -> String {
        let (name, own) = written.split_once(':').unwrap_or((written, ""));
        let Some(usual) = self.0.get(name) else { return written.to_owned() };
        if usual == written {
            return name.to_owned();
        }
        let usual: Vec<&str> = usual.split(':').skip(1).collect();
        let own: Vec<&str> = own.split(':').filter(|option| !option.is_empty()).collect();
        let key = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let mut differs: Vec<String> =
            own.iter().filter(|option| !usual.contains(option)).map(|option| (*option).to_owned()).collect();
        let lacks = usual.iter().map(|option| key(option)).filter(|k| own.iter().all(|o| key(o) != *k));
        differs.extend(lacks.map(|key| format!("{key}=default")));
        format!("{name}:{}", differs.join(":"))
    }

    /// What stands for what: `kvm:cache=writethrough, raw:size=2G`; only of layers that `names` has.
    pub fn said(&self, names: &[String]) -> String {
        let shown = |name: &String| names.iter().any(|n| n.split('/').any(|layer| layer == name));
        self.0
            .iter()
            .filter(|(name, _)| shown(name))
            .map(|(_, form)| form.clone())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Column names: the medium is left out where it is the one of most, and what lies directly on it is the raw disk.
pub fn host_names(parts: &[StackParts], usual: &UsualLayers) -> Vec<String> {
    let parts: Vec<StackParts> = parts
        .iter()
        .map(|p| StackParts {
            host: usual.shortened(&p.host),
            medium: usual.shortened(&p.medium),
            ..p.clone()
        })
        .collect();
    let media: BTreeSet<&str> = parts.iter().map(|p| p.medium.as_str()).collect();
    // Names without options are the usual ones; one of them needs no saying where the others do.
    let plain: Vec<&&str> = media.iter().filter(|m| !m.contains(':')).collect();
    let unsaid =
        if media.len() == 1 { media.first() } else { plain.first().copied().filter(|_| plain.len() == 1) };
    let unsaid = unsaid.map(|m| (*m).to_owned());
    let name = |part: &StackParts| {
        let said = Some(&part.medium) != unsaid.as_ref();
        let name = match (part.host.is_empty(), said) {
            (true, false) => "raw disk".to_owned(),
            (true, true) => format!("raw disk ({})", part.medium),
            (false, false) => part.host.clone(),
            (false, true) => format!("{}/{}", part.host, part.medium),
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
        let names = |stacks: &[&str]| {
            let parts: Vec<StackParts> = stacks.iter().map(|s| StackParts::of(s)).collect();
            host_names(&parts, &UsualLayers::of(&owned(stacks)))
        };
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
            host_names(&parts, &UsualLayers::of(&stacks)),
            ["raw disk, cache=none", "raw disk", "raw/jfs", "raw disk", "raw/btrfs"]
        );
        // Machines that differ throughout are rows of their own.
        let apart = owned(&["ext3/kvm/hdd", "ext3/kvm/raw/jfs/hdd", "ext3/tcg/hdd", "ext3/tcg/raw/jfs/hdd"]);
        assert!(parts_of(&apart).iter().all(|p| p.machine_note.is_empty()));
    }

    #[test]
    fn what_most_stacks_have_is_said_once() {
        let stacks = owned(&[
            "ext3/kvm:sched=none/raw:size=2G/ext3/hdd:size=3G:sched=bfq",
            "ext3/kvm:sched=none/raw:size=2G/ext3:block=1k/hdd:size=3G:sched=bfq",
            "ext3/kvm:sched=none/raw:size=2G/xfs/hdd:size=3G:sched=bfq",
            "ext3/kvm:sched=bfq/raw/xfs/hdd:size=3G",
        ]);
        let usual = UsualLayers::of(&stacks);
        let parts = parts_of(&stacks);
        assert_eq!(
            host_names(&parts, &usual),
            ["raw/ext3", "raw/ext3:block=1k", "raw/xfs", "raw:size=default/xfs/hdd:sched=default"]
        );
        assert_eq!(usual.shortened(&parts[0].guest), "ext3/kvm");
        assert_eq!(usual.shortened(&parts[3].guest), "ext3/kvm:sched=bfq");
        assert_eq!(usual.said(&owned(&["ext3/kvm", "raw/xfs"])), "kvm:sched=none, raw:size=2G");
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
