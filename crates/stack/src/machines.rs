//! A stack cut into the machines its layers run in.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::{Crossing, Layer, Stack};

/// What a machine is called in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineLabel {
    /// `host`: the outermost.
    Host,
    /// `guest`, `guest 2` …: the first, the second … inside another.
    Guest(u32),
    /// `client`, `client 2` … above a network file system.
    Client(u32),
}

impl MachineLabel {
    const HOST: &str = "host";
    const GUEST: &str = "guest";
    const CLIENT: &str = "client";
}

impl fmt::Display for MachineLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, number) = match self {
            Self::Host => (Self::HOST, 1),
            Self::Guest(number) => (Self::GUEST, *number),
            Self::Client(number) => (Self::CLIENT, *number),
        };
        if number == 1 { f.write_str(word) } else { write!(f, "{word} {number}") }
    }
}

impl FromStr for MachineLabel {
    type Err = ();

    fn from_str(label: &str) -> Result<Self, Self::Err> {
        // Written in one way only: the first has no number.
        let numbered = |number: &str| number.parse().ok().filter(|n: &u32| *n > 1 && n.to_string() == number);
        let (word, number) = match label.split_once(' ') {
            Some((word, number)) => (word, numbered(number).ok_or(())?),
            None => (label, 1),
        };
        match (word, number) {
            (Self::HOST, 1) => Ok(Self::Host),
            (Self::GUEST, number) => Ok(Self::Guest(number)),
            (Self::CLIENT, number) => Ok(Self::Client(number)),
            _ => Err(()),
        }
    }
}

/// One machine of a stack and the layers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSegment<'a> {
    /// What it is called.
    pub label: MachineLabel,
    /// How many machines are around it: 0 for the host.
    pub depth: usize,
    /// The layer that started this machine, if it is not the host: its options say how. It runs in the machine
    /// around this one and belongs to neither's `layers`.
    pub crossing: Option<&'a Layer>,
    /// Position of `crossing` in [`Stack::layers`].
    pub crossing_index: Option<usize>,
    /// The layers inside this machine, application side first; may be empty (`kvm/hdd`: the raw disk in the guest).
    pub layers: &'a [Layer],
    /// Positions of `layers` in [`Stack::layers`].
    pub range: Range<usize>,
}

impl Stack {
    /// The machines of the stack, **outermost first**, so in the order in which they are started. At least one.
    pub fn machines(&self) -> Vec<MachineSegment<'_>> {
        let layers = self.layers();
        let crossings = self.crossings().map(|(at, _)| at.position()).rev();
        let mut machines = Vec::new();
        let mut end = layers.len();
        let mut started_by = None;
        let (mut guests, mut clients) = (0, 0);
        for crossing in crossings.map(Some).chain([None]) {
            let start = crossing.map_or(0, |i| i + 1);
            let label = match started_by.map_or(Crossing::None, |i: usize| layers[i].crossing()) {
                Crossing::None => MachineLabel::Host,
                Crossing::Beside => {
                    clients += 1;
                    MachineLabel::Client(clients)
                }
                Crossing::Inside => {
                    guests += 1;
                    MachineLabel::Guest(guests)
                }
            };
            machines.push(MachineSegment {
                label,
                depth: machines.len(),
                crossing: started_by.map(|i| &layers[i]),
                crossing_index: started_by,
                layers: &layers[start..end],
                range: start..end,
            });
            end = crossing.unwrap_or(0);
            started_by = crossing;
        }
        machines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let stack = Stack::parse(text).unwrap();
        let segment = |m: &MachineSegment<'_>| {
            let layers: Vec<_> = m.layers.iter().map(Layer::label).collect();
            assert_eq!(m.layers, &stack.layers()[m.range.clone()]);
            format!("{} <{}> {}", m.label, m.crossing.map_or("", Layer::name), layers.join("/"))
        };
        stack.machines().iter().map(segment).collect()
    }

    #[test]
    fn a_native_stack_has_only_the_host() {
        assert_eq!(shown("ext4/hdd"), ["host <> ext4/hdd"]);
    }

    #[test]
    fn machines_come_outermost_first() {
        assert_eq!(shown("ext3/kvm/raw/jfs/hdd"), ["host <> raw/jfs/hdd", "guest <kvm> ext3"]);
        assert_eq!(
            shown("ext4/kvm/qcow2/xfs/tcg/raw/xfs/hdd"),
            ["host <> raw/xfs/hdd", "guest <tcg> qcow2/xfs", "guest 2 <kvm> ext4"]
        );
    }

    #[test]
    fn a_machine_may_hold_no_layer() {
        assert_eq!(shown("kvm/kvm/hdd"), ["host <> hdd", "guest <kvm> ", "guest 2 <kvm> "]);
    }

    #[test]
    fn a_network_file_system_starts_a_client() {
        assert_eq!(
            shown("ext2/kvm/raw/nfs/ext4/hdd"),
            ["host <> ext4/hdd", "client <nfs> raw", "guest <kvm> ext2"]
        );
    }
}
