//! What a seed decides about a stack and its machines.
//!
//! Each value is drawn from a stream of its own, so that adding one does not change the others. Stacks with the same seed
//! have the same draws as far as they have the same parts, so only the stack differs between two stacks of a block.

use std::time::Duration;

use nestor_stack::{Drawn, LayerIndex, MachineIndex, Uuid};
use nestor_statistics::SeededOrder;

/// Most directories that are made in a file system before the one for the workload or image. File systems that place
/// directories in turn have four groups on the disks here (XFS) or a few more; beyond that it begins again.
const MOST_DIRECTORIES: usize = 7;

/// Most pages of the file that is made before all others: 1 MiB, about one track of a disk.
const MOST_PAGES: usize = 256;

/// A period of the kernel's own work: ext3 and ext4 commit their journal every 5 s, and dirty pages are looked for as often
/// (`jbd2`'s commit interval, `vm.dirty_writeback_centisecs`). Shorter periods (ticks, statistics each second) lie within.
const PERIOD_US: usize = 5_000_000;

/// What decides everything that differs between repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// What each stream is for. The numbers stay: a seed means the same in every version.
#[derive(Clone, Copy)]
enum Part {
    Processor = 1,
    Platters = 2,
    Start = 3,
    /// One for each layer.
    Names = 1 << 8,
    /// One for each layer.
    Layout = 2 << 8,
    /// One for each machine.
    Kernel = 3 << 8,
    /// One for each machine beside the host.
    Beside = 4 << 8,
    /// One for each layer.
    Frames = 5 << 8,
    /// One for each machine beside the host.
    PlattersBeside = 6 << 8,
    /// One for each image from a repository.
    Contents = 7 << 8,
}

/// What lies in a file system before anything else does, so that the rest lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Empty directories in the root directory.
    pub directories: usize,
    /// Pages of 4 KiB of a file there.
    pub pages: usize,
}

impl Before {
    /// What [`Self`] takes at most, in bytes: a page for each directory, the file, and as much again for what describes them.
    pub const MOST_BYTES: u64 = 2 * 4096 * (MOST_DIRECTORIES + MOST_PAGES) as u64;

    /// The same on a file system of limited room: nothing if the file system is too small to spare it.
    pub(crate) fn within(self, free_bytes: u64) -> Self {
        if free_bytes / 64 < Self::MOST_BYTES { Self { directories: 0, pages: 0 } } else { self }
    }
}

impl Seed {
    fn stream(self, part: Part, number: usize) -> SeededOrder {
        SeededOrder::for_part(self.0, part as u64 + number as u64)
    }

    /// What the emulated processors' generator begins with.
    pub fn processor(self, root: MachineIndex) -> u64 {
        match root.position() {
            0 => self.stream(Part::Processor, 0).next(),
            position => self.stream(Part::Beside, position).next(),
        }
    }

    /// Which frames a link loses.
    pub fn lost_frames(self, link: LayerIndex) -> u64 {
        self.stream(Part::Frames, link.position()).next()
    }

    /// How far the platters of a machine's disk have turned at time zero, in revolutions: from 0 to less than 1.
    pub fn turned(self, root: MachineIndex) -> f64 {
        match root.position() {
            0 => self.stream(Part::Platters, 0).unit(),
            position => self.stream(Part::PlattersBeside, position).unit(),
        }
    }

    /// What the bytes of an image at a repository are drawn with.
    pub fn contents(self, layer: LayerIndex) -> u64 {
        self.stream(Part::Contents, layer.position()).next()
    }

    /// How long after everything is ready the workload starts: up to one [period](PERIOD_US) of what the kernel does by itself.
    pub fn start_after(self) -> Duration {
        Duration::from_micros(self.stream(Part::Start, 0).below(PERIOD_US) as u64)
    }

    /// What mkfs would draw for the file system at a position in the stack, counted from its medium.
    pub fn drawn(self, height: usize) -> Drawn {
        let mut random = self.stream(Part::Names, height);
        let mut uuid = || Uuid::version_4(u128::from(random.next()) << 64 | u128::from(random.next()));
        Drawn { uuid: uuid(), hash_seed: uuid() }
    }

    /// What is made first in the file system at a position in the stack, counted from its medium.
    pub fn before(self, height: usize) -> Before {
        let mut random = self.stream(Part::Layout, height);
        Before { directories: random.below(MOST_DIRECTORIES + 1), pages: random.below(MOST_PAGES + 1) }
    }

    /// The bytes mixed into the random pool of a machine.
    pub fn entropy(self, machine: MachineIndex) -> Vec<u8> {
        let mut random = self.stream(Part::Kernel, machine.position());
        (0..8).flat_map(|_| random.next().to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nestor_stack::{Machines, Relation};

    use super::*;

    /// Processors, platters, start, layers, machines.
    type Draws = (u64, f64, Duration, Vec<(Drawn, Before)>, Vec<Vec<u8>>);

    /// The places of that many machines.
    fn machines(number: usize) -> impl Iterator<Item = MachineIndex> {
        let mut machines = Machines::default();
        (0..number).map(move |_| machines.push(Relation::Outermost, ()))
    }

    fn all(seed: u64) -> Draws {
        let seed = Seed(seed);
        let layers = (0..3).map(|height| (seed.drawn(height), seed.before(height))).collect();
        let machines = machines(3).map(|machine| seed.entropy(machine)).collect();
        (
            seed.processor(MachineIndex::OUTERMOST),
            seed.turned(MachineIndex::OUTERMOST),
            seed.start_after(),
            layers,
            machines,
        )
    }

    #[test]
    fn a_seed_means_the_same_for_ever() {
        // From SplitMix64's definition, worked out with another program.
        let seed = Seed(1);
        assert_eq!(seed.turned(MachineIndex::OUTERMOST).to_string(), "0.5435286838442793");
        assert_eq!(seed.start_after().as_micros(), 3_612_186);
        assert_eq!(seed.before(0), Before { directories: 0, pages: 240 });
        assert_eq!(seed.drawn(0).uuid.to_string(), "3934f78e-d6b0-4c57-a138-26271ad4ac26");
    }

    #[test]
    fn the_same_seed_draws_the_same_and_neighbours_differ_in_all() {
        for seed in [0, 1, 1_000_003, u64::MAX - 1] {
            assert_eq!(all(seed), all(seed));
            let (one, other) = (all(seed), all(seed + 1));
            assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
            assert!(one.3.iter().zip(&other.3).all(|(a, b)| a != b));
            assert!(one.4.iter().zip(&other.4).all(|(a, b)| a != b));
        }
    }

    #[test]
    fn layers_and_machines_of_one_seed_are_not_alike() {
        let seed = Seed(5);
        let names: BTreeSet<String> = (0..20)
            .flat_map(|height| [seed.drawn(height).uuid, seed.drawn(height).hash_seed])
            .map(|uuid| uuid.to_string())
            .collect();
        assert_eq!(names.len(), 40);
        assert_eq!(machines(20).map(|machine| seed.entropy(machine)).collect::<BTreeSet<_>>().len(), 20);
    }

    #[test]
    fn draws_fill_their_ranges_and_do_not_leave_them() {
        let seeds = || (0..4000).map(Seed);
        assert!(seeds().all(|seed| (0.0..1.0).contains(&seed.turned(MachineIndex::OUTERMOST))));
        assert!(seeds().all(|seed| seed.start_after() < Duration::from_secs(5)));
        let mean = seeds().map(|seed| seed.turned(MachineIndex::OUTERMOST)).sum::<f64>() / 4000.0;
        assert!((mean - 0.5).abs() < 0.03, "{mean}");
        let directories: BTreeSet<usize> = seeds().map(|seed| seed.before(1).directories).collect();
        assert_eq!(directories, (0..=MOST_DIRECTORIES).collect());
        let pages: BTreeSet<usize> = seeds().map(|seed| seed.before(1).pages).collect();
        assert_eq!((pages.first(), pages.last()), (Some(&0), Some(&MOST_PAGES)));
    }
}
