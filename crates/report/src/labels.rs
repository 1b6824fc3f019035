//! Short names for long stacks and workloads, where the long one is said once nearby.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nestor_results::WrittenStack;
use nestor_stack::{Anatomy, Layer};

/// The three parts of a stack that a matrix tells apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackParts {
    /// What the row is for.
    pub guest: Guest,
    /// Between that and the medium.
    pub host: Host,
    /// The medium; `None` for a text that is no stack.
    pub medium: Option<Layer>,
    /// In which options the virtual machine of a guest on the raw disk is not the study's usual one: `cache=none`; else
    /// empty.
    pub machine_note: String,
}

/// A stack down to its innermost virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Layers in a virtual machine: `ext3/kvm`.
    InMachine(Vec<Layer>, Layer),
    /// The top of a native stack.
    Native(Layer),
    /// A text that is no stack.
    Unknown(String),
}

/// What is between the guest and the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// What carries the virtual machine's disk: `raw/jfs`; nothing for a raw disk.
    Below(Vec<Layer>),
    /// What is below the top of a native stack.
    NoMachine(Vec<Layer>),
}

impl Guest {
    /// The virtual machine, and what is in it if that is anything.
    fn machine(&self) -> Option<(&[Layer], &Layer)> {
        match self {
            Self::InMachine(above, machine) if !above.is_empty() => Some((above, machine)),
            _ => None,
        }
    }
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InMachine(above, machine) => {
                above.iter().try_for_each(|layer| write!(f, "{layer}/"))?;
                machine.fmt(f)
            }
            Self::Native(top) => top.fmt(f),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

impl Host {
    /// Whether the guest's disk is the medium.
    pub fn is_raw_disk(&self) -> bool {
        matches!(self, Self::Below(layers) if layers.is_empty())
    }
}

impl StackParts {
    /// Takes a stack apart. A text that is no stack is its own guest on nothing.
    pub fn of(written: &WrittenStack) -> Self {
        let Some(stack) = written.value() else {
            let guest = Guest::Unknown(written.to_string());
            return Self { guest, host: Host::Below(Vec::new()), medium: None, machine_note: String::new() };
        };
        let Anatomy { above, virtual_machine, below, medium, .. } = stack.anatomy();
        let (guest, host) = match (virtual_machine, above) {
            (Some(machine), above) => {
                (Guest::InMachine(above.to_vec(), machine.clone()), Host::Below(below.to_vec()))
            }
            (None, []) => (Guest::Native(medium.clone()), Host::NoMachine(Vec::new())),
            (None, [top, others @ ..]) => (Guest::Native(top.clone()), Host::NoMachine(others.to_vec())),
        };
        Self { guest, host, medium: Some(medium.clone()), machine_note: String::new() }
    }
}

/// The parts of a study's stacks. A guest on the raw disk in a machine with other options than usual stands in the row of
/// the usual one, as a column of its own: `ext3/kvm/hdd` beside `ext3/kvm:cache=writethrough/hdd`.
pub fn parts_of(stacks: &[WrittenStack]) -> Vec<StackParts> {
    let mut parts: Vec<StackParts> = stacks.iter().map(StackParts::of).collect();
    let machines: Vec<Layer> = parts.iter().filter_map(|p| Some(p.guest.machine()?.1.clone())).collect();
    let count = |machine: &&Layer| machines.iter().filter(|m| m == machine).count();
    // Of equals the first: the last maximum of the reversed order.
    let Some(usual) = machines.iter().rev().max_by_key(count) else { return parts };
    for i in 0..parts.len() {
        let Some((above, machine)) = parts[i].guest.machine() else { continue };
        if machine == usual || machine.name() != usual.name() || !parts[i].host.is_raw_disk() {
            continue;
        }
        let note = different_options(machine, usual);
        let row = Guest::InMachine(above.to_vec(), usual.clone());
        let is_like_it =
            |p: &StackParts| p.guest == row && p.host.is_raw_disk() && p.medium == parts[i].medium;
        if parts.iter().any(is_like_it) {
            parts[i].guest = row;
            parts[i].machine_note = note;
        }
    }
    parts
}

/// The options in which a machine is not another, with its own values.
fn different_options(one: &Layer, other: &Layer) -> String {
    let mut note: Vec<String> = Vec::new();
    for (key, _) in one.written_options().chain(other.written_options()) {
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
pub struct UsualLayers(BTreeMap<&'static str, Layer>);

/// The name of a row or a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortName {
    /// The name.
    pub text: String,
    /// The names that it is joined from, the topmost first.
    joined: Vec<String>,
    /// A shorter one for narrow tables, which only the raw disk has.
    narrow: Option<String>,
    /// The layers in it that stand there by their names alone.
    names: BTreeSet<&'static str>,
}

impl ShortName {
    /// Words that name no layer.
    pub fn words(text: &str) -> Self {
        Self { text: text.to_owned(), joined: vec![text.to_owned()], ..Self::default() }
    }

    /// The raw disk, with the medium if it is to be said and the options of a machine that is not the usual one.
    fn raw_disk(medium: Option<&Self>, note: &str) -> Self {
        let medium = medium.map(|medium| format!(" ({})", medium.text));
        let [after, narrow_after] = match (note, &medium) {
            ("", _) => [String::new(), String::new()],
            (note, None) => [format!(", {note}"), format!(" {note}")],
            (note, Some(_)) => [format!(", {note}"), format!(", {note}")],
        };
        let medium = medium.unwrap_or_default();
        let narrow = Some(format!("disk{medium}{narrow_after}"));
        Self { narrow, ..Self::words(&format!("raw disk{medium}{after}")) }
    }

    /// One under the other.
    fn join(self, below: Self) -> Self {
        Self {
            text: format!("{}/{}", self.text, below.text),
            joined: [self.joined, below.joined].concat(),
            narrow: None,
            names: self.names.into_iter().chain(below.names).collect(),
        }
    }
}

impl UsualLayers {
    /// Counts the layers of stacks.
    pub fn of(stacks: &[WrittenStack]) -> Self {
        let mut counted: BTreeMap<&'static str, BTreeMap<String, (usize, &Layer)>> = BTreeMap::new();
        for layer in stacks.iter().filter_map(WrittenStack::value).flat_map(|stack| stack.layers()) {
            // A path is what the reader knows the medium by.
            if layer.path().is_none() {
                let forms = counted.entry(layer.name()).or_default();
                forms.entry(layer.to_string()).or_insert((0, layer)).0 += 1;
            }
        }
        let most = |(name, forms): (&'static str, BTreeMap<String, (usize, &Layer)>)| {
            let all: usize = forms.values().map(|(count, _)| count).sum();
            let (count, form) = forms.into_values().max_by_key(|(count, _)| *count)?;
            (count * 2 > all && form.written_options().next().is_some()).then(|| (name, form.clone()))
        };
        Self(counted.into_iter().filter_map(most).collect())
    }

    /// Layers with the usual ones by their names alone, the others with what they have of their own: `raw/ext3:block=1k`.
    pub fn shortened(&self, layers: &[Layer]) -> ShortName {
        layers.iter().map(|layer| self.layer(layer)).reduce(ShortName::join).unwrap_or_default()
    }

    /// A row's name without its virtual machine, and that machine's.
    fn guest(&self, guest: &Guest) -> (ShortName, Option<ShortName>) {
        match guest {
            Guest::InMachine(above, machine) if above.is_empty() => (self.layer(machine), None),
            Guest::InMachine(above, machine) => (self.shortened(above), Some(self.layer(machine))),
            Guest::Native(top) => (self.layer(top), None),
            Guest::Unknown(text) => (ShortName::words(text), None),
        }
    }

    fn layer(&self, layer: &Layer) -> ShortName {
        let named = |text: String| ShortName {
            names: (text == layer.name()).then(|| layer.name()).into_iter().collect(),
            ..ShortName::words(&text)
        };
        let Some(usual) = self.0.get(layer.name()) else { return named(layer.to_string()) };
        if usual == layer {
            return named(layer.name().to_owned());
        }
        let has = |one: &Layer, option: &str| one.option(option).map(str::to_owned);
        let own = layer.written_options().filter(|(name, _)| has(layer, name) != has(usual, name));
        let lacks = usual.written_options().filter(|(name, _)| !layer.is_set(name));
        let differs: Vec<String> =
            own.map(|(_, written)| written).chain(lacks.map(|(name, _)| format!("{name}=default"))).collect();
        named(format!("{}:{}", layer.name(), differs.join(":")))
    }

    /// What stands for what: `kvm:cache=writethrough, raw:size=2G`; only of layers that `names` has.
    pub fn said<'a>(&self, names: impl Iterator<Item = &'a ShortName> + Clone) -> String {
        let is_shown = |name: &str| names.clone().any(|n| n.names.contains(name));
        crate::units::listed(self.0.iter().filter(|(name, _)| is_shown(name)).map(|(_, form)| form))
    }
}

/// Column names: the medium is left out where it is the one of most, and what lies directly on it is the raw disk.
pub fn host_names(parts: &[StackParts], usual: &UsualLayers) -> Vec<ShortName> {
    let medium = |part: &StackParts| part.medium.as_ref().map(|m| usual.layer(m)).unwrap_or_default();
    let media: Vec<ShortName> = parts.iter().map(medium).collect();
    // Names without options are the usual ones; one of them needs no saying where the others do.
    let distinct: BTreeSet<&str> = media.iter().map(|m| m.text.as_str()).collect();
    let is_plain = |m: &&ShortName| m.text.is_empty() || !m.names.is_empty();
    let plain: BTreeSet<&str> = media.iter().filter(is_plain).map(|m| m.text.as_str()).collect();
    let unsaid =
        if distinct.len() == 1 { distinct.first() } else { plain.first().filter(|_| plain.len() == 1) };
    let name = |(part, medium): (&StackParts, &ShortName)| {
        let is_said = Some(&medium.text.as_str()) != unsaid;
        let below = match &part.host {
            Host::Below(layers) => (!layers.is_empty()).then(|| usual.shortened(layers)),
            Host::NoMachine(layers) => {
                let none = ShortName::words("no VM");
                Some(if layers.is_empty() { none } else { none.join(usual.shortened(layers)) })
            }
        };
        match (below, is_said) {
            (None, _) => ShortName::raw_disk(is_said.then_some(medium), &part.machine_note),
            (Some(below), false) => below,
            (Some(below), true) => below.join(medium.clone()),
        }
    };
    parts.iter().zip(&media).map(name).collect()
}

/// Column names for a narrow table: without the first layer if all names of several layers have the same, which is the
/// image format as a rule, and `disk` for the raw disk.
pub fn narrow_names(names: &[ShortName]) -> Vec<String> {
    let firsts = || names.iter().filter(|name| name.joined.len() > 1).map(|name| &name.joined[0]);
    let is_one = firsts().all(|first| Some(first) == firsts().next());
    let narrow = |name: &ShortName| match (&name.narrow, name.joined.as_slice()) {
        (Some(narrow), _) => narrow.clone(),
        (None, [_, others @ ..]) if is_one && !others.is_empty() => others.join("/"),
        _ => name.text.clone(),
    };
    names.iter().map(narrow).collect()
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

/// Row names without the virtual machine (`/kvm:…`) that all of the guests run in, and that machine's, if there is one.
pub fn without_common_machine(guests: &[Guest], usual: &UsualLayers) -> (Vec<ShortName>, Option<ShortName>) {
    let named: Vec<(ShortName, Option<ShortName>)> = guests.iter().map(|guest| usual.guest(guest)).collect();
    let common = named.first().and_then(|(_, machine)| machine.clone());
    let common = common.filter(|common| named.iter().all(|(_, machine)| machine.as_ref() == Some(common)));
    let is_common = common.is_some();
    let whole = |(guest, machine): (ShortName, Option<ShortName>)| match machine {
        Some(machine) if !is_common => guest.join(machine),
        _ => guest,
    };
    (named.into_iter().map(whole).collect(), common)
}

/// Each name once, in the order in which they first appear.
pub fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_falls_apart_at_its_hypervisor() {
        let parts = |stack| {
            let StackParts { guest, host, medium, .. } = StackParts::of(&WrittenStack::from(stack));
            let (none, below) = match host {
                Host::Below(layers) => ("", layers),
                Host::NoMachine(layers) => ("no VM", layers),
            };
            let below = below.iter().map(Layer::label).collect::<Vec<_>>().join("/");
            format!("{guest} | {none}{below} | {}", medium.map(|m| m.label()).unwrap_or_default())
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
            let parts: Vec<StackParts> = written(stacks).iter().map(StackParts::of).collect();
            texts(&host_names(&parts, &UsualLayers::of(&written(stacks))))
        };
        assert_eq!(names(&["xfs/kvm/hdd", "xfs/kvm/raw/jfs/hdd"]), ["raw disk", "raw/jfs"]);
        assert_eq!(names(&["xfs/kvm/hdd", "xfs/kvm/raw/jfs/ssd"]), ["raw disk (hdd)", "raw/jfs/ssd"]);
    }

    #[test]
    fn narrow_names_leave_out_what_all_images_have() {
        let names = |stacks: &[&str]| {
            let stacks = written(stacks);
            narrow_names(&host_names(&parts_of(&stacks), &UsualLayers::of(&stacks)))
        };
        assert_eq!(names(&["xfs/kvm/hdd", "xfs/kvm/raw/jfs/hdd"]), ["disk", "jfs"]);
        assert_eq!(names(&["xfs/kvm/raw/jfs/hdd", "xfs/kvm/qcow2/jfs/hdd"]), ["raw/jfs", "qcow2/jfs"]);
        assert_eq!(
            names(&["xfs/kvm/file:/srv/x", "xfs/kvm/raw/jfs/file:/srv/y"]),
            ["disk (file:/srv/x)", "jfs/file:/srv/y"]
        );
        let with_cache = ["ext3/kvm/hdd", "ext3/kvm/raw/xfs/hdd", "ext3/kvm:cache=writethrough/hdd"];
        assert_eq!(names(&with_cache), ["disk", "xfs", "disk cache=writethrough"]);
    }

    #[test]
    fn the_raw_disk_with_another_cache_mode_is_a_column_of_its_own() {
        let stacks = written(&[
            "ext3/kvm/hdd",
            "ext3/kvm:cache=writethrough/hdd",
            "ext3/kvm:cache=writethrough/raw/jfs/hdd",
            "xfs/kvm:cache=writethrough/hdd",
            "xfs/kvm:cache=writethrough/raw/btrfs/hdd",
        ]);
        let parts = parts_of(&stacks);
        let guests: Vec<String> = parts.iter().map(|p| p.guest.to_string()).collect();
        assert_eq!(guests[..2], ["ext3/kvm:cache=writethrough"; 2]);
        assert_eq!(
            texts(&host_names(&parts, &UsualLayers::of(&stacks))),
            ["raw disk, cache=none", "raw disk", "raw/jfs", "raw disk", "raw/btrfs"]
        );
        // Machines that differ throughout are rows of their own.
        let apart =
            written(&["ext3/kvm/hdd", "ext3/kvm/raw/jfs/hdd", "ext3/tcg/hdd", "ext3/tcg/raw/jfs/hdd"]);
        assert!(parts_of(&apart).iter().all(|p| p.machine_note.is_empty()));
    }

    #[test]
    fn what_most_stacks_have_is_said_once() {
        let stacks = written(&[
            "ext3/kvm:sched=none/raw:size=2G/ext3/hdd:size=3G:sched=bfq",
            "ext3/kvm:sched=none/raw:size=2G/ext3:block=1k/hdd:size=3G:sched=bfq",
            "ext3/kvm:sched=none/raw:size=2G/xfs/hdd:size=3G:sched=bfq",
            "ext3/kvm:sched=bfq/raw/xfs/hdd:size=3G",
        ]);
        let usual = UsualLayers::of(&stacks);
        let parts = parts_of(&stacks);
        assert_eq!(
            texts(&host_names(&parts, &usual)),
            ["raw/ext3", "raw/ext3:block=1k", "raw/xfs", "raw:size=default/xfs/hdd:sched=default"]
        );
        let (rows, machine) =
            without_common_machine(&[parts[0].guest.clone(), parts[3].guest.clone()], &usual);
        assert_eq!((texts(&rows), machine), (owned(&["ext3/kvm", "ext3/kvm:sched=bfq"]), None));
        let shown = [usual.shortened(stacks[0].value().unwrap().layers())];
        assert_eq!(usual.said(shown.iter()), "hdd:size=3G:sched=bfq, kvm:sched=none, raw:size=2G");
        assert_eq!(usual.said(rows.iter()), "kvm:sched=none");
    }

    #[test]
    fn the_path_of_a_medium_is_neither_layers_nor_a_machine() {
        let stacks = written(&[
            "ext3/kvm/raw:size=2G/xfs/file:/srv/raw/x",
            "ext3/kvm/raw:size=2G/xfs/file:/srv/raw/y",
            "dev:/dev/sdb",
            "dev:/dev/kvm",
        ]);
        let (parts, usual) = (parts_of(&stacks), UsualLayers::of(&stacks));
        assert_eq!(
            texts(&host_names(&parts, &usual)),
            [
                "raw/xfs/file:/srv/raw/x",
                "raw/xfs/file:/srv/raw/y",
                "no VM/dev:/dev/sdb",
                "no VM/dev:/dev/kvm"
            ]
        );
        let bare = [parts[2].guest.clone(), parts[2].guest.clone()];
        let (rows, machine) = without_common_machine(&bare, &usual);
        assert_eq!((texts(&rows), machine), (owned(&["dev:/dev/sdb", "dev:/dev/sdb"]), None));
    }

    fn texts(names: &[ShortName]) -> Vec<String> {
        names.iter().map(|name| name.text.clone()).collect()
    }

    fn written(stacks: &[&str]) -> Vec<WrittenStack> {
        stacks.iter().map(|stack| WrittenStack::from(*stack)).collect()
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_common_virtual_machine_is_said_once() {
        let shortened = |stacks: &[&str]| {
            let guests: Vec<Guest> =
                written(stacks).iter().map(|stack| StackParts::of(stack).guest).collect();
            let (rows, machine) = without_common_machine(&guests, &UsualLayers::default());
            (texts(&rows), machine.map(|machine| machine.text))
        };
        assert_eq!(
            shortened(&["ext3/kvm:cache=writeback/hdd", "jfs/kvm:cache=writeback/hdd"]),
            (owned(&["ext3", "jfs"]), Some("kvm:cache=writeback".to_owned()))
        );
        assert_eq!(shortened(&["ext3/kvm/hdd", "ext3/tcg/hdd"]), (owned(&["ext3/kvm", "ext3/tcg"]), None));
        assert_eq!(shortened(&["ext3/kvm/hdd", "ext3/hdd"]), (owned(&["ext3/kvm", "ext3"]), None));
        assert_eq!(shortened(&[]), (Vec::new(), None));
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
