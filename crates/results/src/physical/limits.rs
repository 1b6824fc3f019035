//! What a medium can do at best: of a modelled one by the figures of its profile, of the user's own by its class.
//!
//! These are bounds, not estimates. They hold for every disk of its kind, so whatever exceeds them came from
//! elsewhere.

use nestor_disk::{HddProfile, Medium, Profile};
use nestor_stack::{DeviceKind, Link, MediumClass};

/// What a medium can do at best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// What it can move for longer than its own cache lasts.
    bytes_per_s: f64,
    /// What it can move of what its own cache holds.
    cached_bytes_per_s: f64,
    /// Its own cache.
    pub own_cache_bytes: u64,
    /// The least time that any read can take.
    pub fastest_ns: f64,
    /// The most requests a second, whatever they are; infinite where only platters bound them.
    pub requests_per_s: f64,
    /// Its moving parts; `None` for flash.
    pub platters: Option<Platters>,
}

/// Platters and arms, at their best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Platters {
    /// One turn.
    turn_ms: f64,
    /// The shortest way to another track.
    switch_ms: f64,
    /// On the longest track.
    pub track_bytes: f64,
    /// Arms that move on their own: disks of an array, actuators of a disk.
    arms: f64,
}

impl Limits {
    /// Of a modelled medium; `None` where it takes no time.
    pub fn of_profile(profile: &Profile) -> Option<Self> {
        let buffer = |hdd: &HddProfile| hdd.buffer_mib.value() * f64::from(1 << 20);
        Some(match &profile.medium {
            Medium::Null => return None,
            Medium::Hdd(hdd) => Self {
                bytes_per_s: hdd.outer_mb_s.value() * 1e6,
                cached_bytes_per_s: hdd.interface_mb_s.value() * 1e6,
                own_cache_bytes: buffer(hdd) as u64,
                // The command's overhead, where the disk's own cache has it.
                fastest_ns: hdd.command_overhead_us.value() * 1e3,
                requests_per_s: f64::INFINITY,
                platters: Some(Platters::of_profile(hdd, 1)),
            },
            Medium::Array(raid) => {
                let members = f64::from(raid.members);
                let overhead_us =
                    raid.member.command_overhead_us.value() + raid.controller_overhead_us.value();
                let bus = raid.bus_mb_s.value();
                Self {
                    bytes_per_s: 1e6 * (members * raid.member.outer_mb_s.value()).min(bus),
                    cached_bytes_per_s: 1e6 * (members * raid.member.interface_mb_s.value()).min(bus),
                    own_cache_bytes: (members * buffer(&raid.member)) as u64,
                    fastest_ns: overhead_us * 1e3,
                    requests_per_s: f64::INFINITY,
                    platters: Some(Platters::of_profile(&raid.member, raid.members)),
                }
            }
            Medium::Ssd(ssd) => {
                let bytes_per_s = 1e6 * ssd.read_mb_s.value().max(ssd.write_mb_s.value());
                Self {
                    bytes_per_s,
                    cached_bytes_per_s: bytes_per_s,
                    own_cache_bytes: (ssd.write_buffer_mib.value() * f64::from(1 << 20)) as u64,
                    // Reading a page of flash.
                    fastest_ns: ssd.read_us.value() * 1e3,
                    requests_per_s: ssd.read_iops_queued.value().max(ssd.write_iops_queued.value()),
                    platters: None,
                }
            }
        })
    }

    /// Of any device of a class; `None` where nothing is known of it.
    ///
    /// - Hard disks: 15 000 rpm is the fastest speed that was ever sold (Seagate Cheetah 15K.7); 0.2 ms to the next track
    ///   is below what manuals state. The most that is read from platters are 554 MB/s, by two actuators (data sheet of
    ///   Seagate's Exos 2X18, which gives it 304 random reads a second at a depth of 16); 600 are taken. The largest
    ///   cache is 512 MiB (Seagate Exos X24). At 7200 rpm that disk has 285 MB/s and so 2.4 MB on a track; 2.5 is taken.
    /// - SATA: 6 Gbit/s with 8b/10b coding are 600 MB/s (Serial ATA revision 3.0). The data sheets of its fastest flash
    ///   disks say 100 000 reads a second at a depth of 32, which is all that the link queues (Samsung 850 PRO; 860
    ///   PRO); a fifth is added for what data sheets round. One page of the fastest flash, SLC, takes 25 µs to read;
    ///   20 is taken.
    /// - SAS: 22.5 Gbit/s with 128b/150b coding are 2.4 GB/s, and a disk has two ports (Kioxia PM7: 4.2 GB/s and
    ///   720 000 reads a second on both). A million is taken, and 10 µs.
    /// - NVMe: four lanes of PCIe 6.0 are 32 GB/s, which are 7.8 million requests of 4 KiB; the fastest disk sold says
    ///   5.5 million (Micron 9650). Eight are taken. The fastest medium, 3D XPoint, takes 5 µs for one (Intel P5800X);
    ///   4 is taken.
    pub fn of_class(class: MediumClass) -> Option<Self> {
        let mib = 1 << 20;
        let flash = |gb_per_s: f64, requests_per_s: f64, fastest_ns: f64| Self {
            bytes_per_s: gb_per_s * 1e9,
            cached_bytes_per_s: gb_per_s * 1e9,
            own_cache_bytes: 0,
            fastest_ns,
            requests_per_s,
            platters: None,
        };
        let one = match class.kind {
            DeviceKind::HardDisk { rpm } => Self {
                bytes_per_s: 600e6,
                // The faster of its links.
                cached_bytes_per_s: 2.4e9,
                own_cache_bytes: 512 * mib,
                fastest_ns: 20e3,
                requests_per_s: f64::INFINITY,
                platters: Some(Platters {
                    turn_ms: 60e3 / f64::from(rpm.unwrap_or(15_000)),
                    switch_ms: 0.2,
                    track_bytes: 2.5e6,
                    arms: 2.0,
                }),
            },
            DeviceKind::Flash(Link::Sata) => flash(0.6, 120e3, 20e3),
            DeviceKind::Flash(Link::Sas) => flash(4.8, 1e6, 10e3),
            DeviceKind::Flash(Link::Nvme) => flash(32.0, 8e6, 4e3),
            DeviceKind::Virtual | DeviceKind::Unknown => return None,
        };
        let disks = f64::from(class.disks);
        Some(Self {
            bytes_per_s: one.bytes_per_s * disks,
            cached_bytes_per_s: one.cached_bytes_per_s * disks,
            own_cache_bytes: one.own_cache_bytes * u64::from(class.disks),
            requests_per_s: one.requests_per_s * disks,
            platters: one.platters.map(|platters| Platters { arms: platters.arms * disks, ..platters }),
            ..one
        })
    }

    /// What it can move for longer than its cache lasts, unless its own cache may hold the whole working set.
    pub fn most_bytes_per_s(&self, working_set_bytes: u64) -> f64 {
        if working_set_bytes <= self.own_cache_bytes { self.cached_bytes_per_s } else { self.bytes_per_s }
    }

    /// The share of reads at random places (0 to 1) that its own cache cannot have answered: what it cannot hold of the
    /// working set.
    pub fn missed_share(&self, working_set_bytes: u64) -> f64 {
        if working_set_bytes == 0 {
            return 0.0;
        }
        (1.0 - self.own_cache_bytes as f64 / working_set_bytes as f64).max(0.0)
    }
}

impl Platters {
    fn of_profile(hdd: &HddProfile, members: u32) -> Self {
        let turn_ms = 60e3 / hdd.rpm.value();
        Self {
            turn_ms,
            switch_ms: hdd.head_switch_ms.value().min(hdd.track_to_track_ms.value()),
            track_bytes: hdd.outer_mb_s.value() * 1e3 * turn_ms,
            arms: f64::from(members),
        }
    }

    /// Mean time until a place independent of the position of the heads passes under them: half a turn, however many
    /// others are served meanwhile.
    pub fn half_turn_ms(&self) -> f64 {
        self.turn_ms / 2.0
    }

    /// The most requests a second that need the arm, with so many of them to choose from, at random places within
    /// `span_bytes`; `None`: at places that may all be on one track.
    ///
    /// Of n places on one track the next is 1/(n+1) of a turn away in the mean, so no more than n+1 pass in a turn. On a
    /// larger area most of them are on other tracks, to which the arm has to go first: those on its own track and those
    /// after the shortest way are taken as if both could be served at once, which is more than any order of requests gives.
    pub fn most_requests_per_s(&self, waiting: f64, span_bytes: Option<u64>) -> f64 {
        let arms = self.arms.min(waiting).max(1.0);
        let waiting = (waiting / arms).max(1.0);
        let one_track = 1e3 * (waiting + 1.0) / self.turn_ms;
        let tracks = span_bytes.map_or(1.0, |bytes| (bytes as f64 / arms / self.track_bytes).max(1.0));
        let on_its_own = 1e3 * (waiting / tracks + 1.0) / self.turn_ms;
        let on_others = 1e3 / (self.switch_ms + self.turn_ms / (waiting + 1.0));
        arms * one_track.min(on_its_own + on_others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Limits {
        Limits::of_class(MediumClass::parse(text).unwrap()).unwrap()
    }

    fn most(text: &str, waiting: f64, span_bytes: Option<u64>) -> f64 {
        class(text).platters.unwrap().most_requests_per_s(waiting, span_bytes).round()
    }

    #[test]
    fn one_at_a_time_a_disk_gives_two_requests_a_turn() {
        assert_eq!(most("hard disk of 7200 rpm", 1.0, None), 240.0);
        assert_eq!(most("hard disk", 1.0, Some(1 << 40)), 500.0);
        // One request keeps one disk of several busy.
        assert_eq!(most("4 x hard disk of 7200 rpm", 1.0, None), 240.0);
    }

    #[test]
    fn a_choice_of_many_helps_most_on_one_track() {
        // Each of two arms has 16 to choose from: 17 a turn.
        assert_eq!(most("hard disk of 7200 rpm", 32.0, None), 4_080.0);
        let scattered = most("hard disk of 7200 rpm", 32.0, Some(5 << 30));
        assert!((1_000.0..4_080.0).contains(&scattered), "{scattered}");
        assert!(most("hard disk", 255.0, Some(5 << 30)) < 20_000.0);
        let one = most("hard disk", 64.0, Some(5 << 30));
        assert!(most("2 x hard disk", 128.0, Some(10 << 30)) <= 2.0 * one + 1.0);
    }

    /// The bounds have to hold for what the models themselves do: `nestor disk check` has 76 and 166 reads a second of
    /// this disk at depths of 1 and 32, over all of it.
    #[test]
    fn no_modelled_disk_is_beyond_its_bounds() {
        for profile in nestor_disk::profiles::PROFILES {
            let Some(limits) = Limits::of_profile(profile) else { continue };
            let Some(platters) = limits.platters else { continue };
            let bound = |depth| platters.most_requests_per_s(depth, Some(profile.capacity_bytes));
            assert!(bound(1.0) > 150.0 && bound(1.0) < 520.0, "{}: {}", profile.name, bound(1.0));
            assert!(bound(32.0) > 2.0 * bound(1.0), "{}", profile.name);
        }
    }

    #[test]
    fn flash_is_bound_by_its_link_and_what_is_unknown_by_nothing() {
        let sata = class("SATA flash disk");
        assert_eq!((sata.requests_per_s, sata.most_bytes_per_s(1)), (120e3, 0.6e9));
        assert_eq!(class("2 x SATA flash disk").requests_per_s, 240e3);
        assert!(class("NVMe flash disk").fastest_ns < sata.fastest_ns && sata.platters.is_none());
        assert_eq!(Limits::of_class(MediumClass::parse("unknown").unwrap()), None);
        assert_eq!(Limits::of_class(MediumClass::parse("virtual disk").unwrap()), None);
    }

    #[test]
    fn what_its_own_cache_cannot_hold_it_has_to_fetch() {
        let disk = class("hard disk");
        let mib = 1 << 20;
        assert_eq!([0, 512 * mib, 1024 * mib].map(|bytes| disk.missed_share(bytes)), [0.0, 0.0, 0.5]);
        assert!(disk.most_bytes_per_s(512 * mib) > disk.most_bytes_per_s(513 * mib));
    }
}
