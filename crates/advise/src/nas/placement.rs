//! The stacks to choose from where the disk is a server's.

use std::collections::BTreeMap;

use nestor_stack::{Layer, Place, Stack, StackError, StackErrorKind};

use crate::factors::{Factor, FactorName, KERNELS_CHOICE};
use crate::local::machine_with;
use crate::space::{Space, SpaceError};

/// Where the file system of the application is (Hildebrand and others, WIOV 2011, figure 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// At the server alone, mounted by the client.
    Nfs,
    /// In a guest, whose disk is an image on the server's file system.
    VmNfs,
    /// In an image at the server, which the guest mounts over the network.
    GuestNfs,
    /// In a guest, whose disk is an image that the client has as a network disk.
    NetworkDisk,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nfs, Self::VmNfs, Self::GuestNfs, Self::NetworkDisk];

    /// As a level of [`FactorName::Placement`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nfs => "nfs",
            Self::VmNfs => "vm-nfs",
            Self::GuestNfs => "guest-nfs",
            Self::NetworkDisk => "nbd",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }

    /// The factors that its stacks have.
    const fn factors(self) -> &'static [FactorName] {
        use FactorName::{Actimeo, Cache, Export, Guest, HostFs, Rsize, Sync, Vers, Wsize};
        match self {
            Self::Nfs => &[HostFs, Vers, Export, Sync, Rsize, Wsize, Actimeo],
            Self::VmNfs => &[Guest, HostFs, Cache, Vers, Export, Sync, Rsize, Wsize, Actimeo],
            Self::GuestNfs => &[Guest, HostFs, Vers, Export, Sync, Rsize, Wsize, Actimeo],
            Self::NetworkDisk => &[Guest, HostFs, Cache],
        }
    }
}

/// The factors of network storage, in the order of [`Space::factors`].
const FACTORS: [FactorName; 10] = [
    FactorName::Placement,
    FactorName::Guest,
    FactorName::HostFs,
    FactorName::Cache,
    FactorName::Vers,
    FactorName::Export,
    FactorName::Sync,
    FactorName::Rsize,
    FactorName::Wsize,
    FactorName::Actimeo,
];

/// Those that are options of the layer `nfs`, which have its names.
const OF_NFS: [FactorName; 6] = [
    FactorName::Vers,
    FactorName::Export,
    FactorName::Sync,
    FactorName::Rsize,
    FactorName::Wsize,
    FactorName::Actimeo,
];

/// The levels of a factor that are tried unless others are asked for. Not all placements can be built, so those of
/// [`FactorName::Placement`] are found by trying.
const fn usual_levels(name: FactorName) -> &'static [&'static str] {
    match name {
        FactorName::Guest => &["ext4"],
        FactorName::HostFs => &["xfs"],
        FactorName::Cache => &["none"],
        FactorName::Vers => &["3", "4.2"],
        FactorName::Export => &["sync", "async"],
        FactorName::Sync => &["off"],
        _ => &[KERNELS_CHOICE],
    }
}

/// What all stacks have in common.
struct Parts<'a> {
    medium: Layer,
    machine: &'a Layer,
    link: &'a Layer,
    place: Option<&'a Place>,
}

/// The stacks that levels make on a server's medium, over a link, with the virtual machine of those that have one. Factors that are left out
/// have their usual levels; placements that cannot be built, or not in the place where they are to be, are left out unless they are asked for.
///
/// # Errors
/// What is wrong with a level, that there are too many, or why none can be built in the place.
pub fn space(
    given: &BTreeMap<FactorName, Vec<String>>,
    medium: Layer,
    machine: &Layer,
    link: &Layer,
    place: Option<&Place>,
) -> Result<Space, SpaceError> {
    let parts = Parts { medium, machine, link, place };
    let usual = |name: FactorName| -> Vec<String> {
        usual_levels(name).iter().map(|level| (*level).to_owned()).collect()
    };
    let mut factors: Vec<Factor> = FACTORS
        .into_iter()
        .map(|name| Factor { name, levels: given.get(&name).cloned().unwrap_or_else(|| usual(name)) })
        .collect();
    let placements = match given.get(&FactorName::Placement) {
        Some(names) => named(names)?,
        None => parts.buildable(&factors).map_err(|error| SpaceError::Stack(Box::new(error)))?,
    };
    factors[0].levels = placements.iter().map(|placement| placement.name().to_owned()).collect();
    let used = |name: &FactorName| placements.iter().any(|placement| placement.factors().contains(name));
    let unused: Vec<FactorName> = FACTORS.into_iter().skip(1).filter(|name| !used(name)).collect();
    let build = |levels: &[usize]| {
        let placement = placements[levels[0]];
        let has = |name: &FactorName| placement.factors().contains(name);
        // What a placement does not have is not varied.
        let is_twin = FACTORS.iter().zip(levels).skip(1).any(|(name, level)| *level != 0 && !has(name));
        if is_twin { Ok(None) } else { parts.stack(placement, &factors, levels).map(Some) }
    };
    Ok(Space::of(factors.clone(), build)?.without(unused))
}

fn named(names: &[String]) -> Result<Vec<Placement>, SpaceError> {
    let of = |name: &String| {
        Placement::from_name(name).ok_or_else(|| {
            let all: Vec<&str> = Placement::ALL.into_iter().map(Placement::name).collect();
            SpaceError::Levels(format!("--placement takes {}, not `{name}`", all.join(", ")))
        })
    };
    names.iter().map(of).collect()
}

impl Parts<'_> {
    /// The placements of which the first level of everything makes a stack that can be built where it is to be; if there is none, why the
    /// first cannot.
    fn buildable(&self, factors: &[Factor]) -> Result<Vec<Placement>, StackError> {
        let first = vec![0; factors.len()];
        let mut refused = None;
        let mut can_be_built = |placement: &Placement| match self.stack(*placement, factors, &first) {
            // As the place says it.
            Err(error) if matches!(error.kind(), StackErrorKind::NotBuildable | StackErrorKind::Other) => {
                refused.get_or_insert(error);
                false
            }
            // A level that is wrong is wrong everywhere, and is told of with the others.
            Ok(_) | Err(_) => true,
        };
        let placements: Vec<Placement> =
            Placement::ALL.into_iter().filter(|placement| can_be_built(placement)).collect();
        match refused {
            Some(error) if placements.is_empty() => Err(error),
            _ => Ok(placements),
        }
    }

    fn stack(&self, placement: Placement, factors: &[Factor], levels: &[usize]) -> Result<Stack, StackError> {
        let level = |name: FactorName| {
            let at = FACTORS.iter().position(|of| *of == name).expect("it is one of the factors");
            factors[at].levels[levels[at]].as_str()
        };
        let layer = |name: FactorName| Layer::parse(level(name));
        let plain = Layer::parse;
        let nfs = || {
            let written = OF_NFS.into_iter().filter(|name| level(*name) != KERNELS_CHOICE);
            let options: String = written.map(|name| format!(":{}={}", name.name(), level(name))).collect();
            Layer::parse(&format!("nfs{options}"))
        };
        let disk = || {
            // Another factor's option would be there twice, also with its default.
            self.machine.clone().joined(&Layer::parse(&format!("kvm:cache={}", level(FactorName::Cache)))?)
        };
        let (server, medium, link) = (FactorName::HostFs, self.medium.clone(), self.link.clone());
        let layers = match placement {
            Placement::Nfs => vec![nfs()?, link, layer(server)?, medium],
            Placement::VmNfs => {
                let guest = layer(FactorName::Guest)?;
                vec![guest, disk()?, plain("raw")?, nfs()?, link, layer(server)?, medium]
            }
            Placement::GuestNfs => {
                let image =
                    [layer(FactorName::Guest)?, plain("loop")?, plain("raw")?, layer(server)?, medium];
                [nfs()?, self.machine.clone(), link].into_iter().chain(image).collect()
            }
            Placement::NetworkDisk => {
                let guest = layer(FactorName::Guest)?;
                vec![guest, disk()?, plain("nbd")?, link, plain("raw")?, layer(server)?, medium]
            }
        };
        let stack = Stack::of(layers)?;
        stack.require_buildable()?;
        self.place.map_or(Ok(()), |place| stack.require_place(place))?;
        Ok(stack)
    }
}

/// The virtual machine and the link of all stacks, with further options of the user.
///
/// # Errors
/// What is wrong with one of them.
pub fn machines(machine: &str, link: &str) -> Result<(Layer, Layer), StackError> {
    let separator = if link.is_empty() { "" } else { ":" };
    Ok((machine_with(machine)?, Layer::parse(&format!("link{separator}{link}"))?))
}

#[cfg(test)]
mod tests {
    use nestor_results::WrittenStack;

    use super::*;

    fn of(levels: &[(FactorName, &[&str])], machine: &str, link: &str) -> Result<Space, SpaceError> {
        in_place(levels, [machine, link, "hdd"], None)
    }

    fn in_place(
        levels: &[(FactorName, &[&str])],
        [machine, link, medium]: [&str; 3],
        place: Option<&str>,
    ) -> Result<Space, SpaceError> {
        let words = |levels: &[&str]| levels.iter().map(|level| (*level).to_owned()).collect();
        let given = levels.iter().map(|(name, levels)| (*name, words(levels))).collect();
        let (machine, link) = machines(machine, link).unwrap();
        let place = place.map(|place| place.parse().unwrap());
        space(&given, Layer::parse(medium).unwrap(), &machine, &link, place.as_ref())
    }

    fn stacks(space: &Space) -> Vec<&str> {
        space.stacks().map(WrittenStack::as_str).collect()
    }

    #[test]
    fn what_can_be_built_is_usually_tried() {
        let usual = of(&[], "", "").unwrap();
        let buildable = |name: &str| {
            let text = format!("ext4/kvm/{name}/link/raw/xfs/hdd");
            Stack::parse(&text).unwrap().require_buildable().is_ok()
        };
        let placements = if buildable("nbd") { Placement::ALL.len() } else { Placement::ALL.len() - 1 };
        assert_eq!(usual.levels(FactorName::Placement).len(), placements);
        assert_eq!(usual.default_stack(), &"nfs:vers=3/link/xfs/hdd");
        for stack in [
            "nfs/link/xfs/hdd",
            "nfs:vers=3:export=async/link/xfs/hdd",
            "ext4/kvm/raw/nfs:vers=3/link/xfs/hdd",
            "nfs:export=async/kvm/link/ext4/loop/raw/xfs/hdd",
        ] {
            assert!(usual.levels_of(&stack.into()).is_some(), "{stack} is not among {:?}", stacks(&usual));
        }
    }

    #[test]
    fn a_placement_that_cannot_be_built_is_refused_where_it_is_asked_for() {
        let asked = of(&[(FactorName::Placement, &["nfs", "nbd"])], "", "");
        let buildable = Stack::parse("ext4/kvm/nbd/link/raw/xfs/hdd").unwrap().require_buildable();
        match buildable {
            Ok(()) => assert!(asked.is_ok()),
            Err(_) => {
                let error = asked.unwrap_err().to_string();
                assert!(error.contains("nbd cannot be built yet"), "{error}");
            }
        }
        let typo = of(&[(FactorName::Placement, &["nfz"])], "", "").unwrap_err().to_string();
        assert!(typo.contains("nfs, vm-nfs, guest-nfs, nbd") && typo.contains("nfz"), "{typo}");
    }

    #[test]
    fn what_a_place_refuses_is_left_out_and_refused_where_it_is_asked_for() {
        let (pair, medium) = (Some("ssh:client,ssh:server"), "dev:/dev/sdb");
        let placements =
            |place| in_place(&[], ["", "", medium], place).unwrap().levels(FactorName::Placement).to_vec();
        assert_eq!(placements(Some("this")), ["nfs", "vm-nfs", "guest-nfs", "nbd"]);
        assert_eq!(placements(pair), ["nfs"], "guests and nbd are refused there");
        let asked = in_place(&[(FactorName::Placement, &["nfs", "nbd"])], ["", "", medium], pair);
        assert!(asked.unwrap_err().to_string().contains("guests are not started on two machines"));
        let modelled = in_place(&[], ["", "", "hdd"], Some("this")).unwrap_err().to_string();
        assert!(modelled.contains("a modelled disk needs the emulated host"), "{modelled}");
        let queue = in_place(&[], ["", "queue=1M", medium], Some("this")).unwrap_err().to_string();
        assert!(queue.contains("queue is of the modelled link"), "{queue}");
    }

    #[test]
    fn what_a_placement_does_not_have_is_not_varied() {
        let levels: &[(FactorName, &[&str])] = &[
            (FactorName::Placement, &["nfs", "guest-nfs", "vm-nfs"]),
            (FactorName::Guest, &["ext2", "ext4"]),
            (FactorName::Cache, &["none", "writeback"]),
            (FactorName::Vers, &["3"]),
            (FactorName::Export, &["sync"]),
        ];
        let space = of(levels, "memory=512M", "memory=2G").unwrap();
        assert_eq!(
            stacks(&space),
            [
                "ext2/kvm:cache=writeback:memory=512M/raw/nfs:vers=3/link:memory=2G/xfs/hdd",
                "ext2/kvm:memory=512M/raw/nfs:vers=3/link:memory=2G/xfs/hdd",
                "ext4/kvm:cache=writeback:memory=512M/raw/nfs:vers=3/link:memory=2G/xfs/hdd",
                "ext4/kvm:memory=512M/raw/nfs:vers=3/link:memory=2G/xfs/hdd",
                "nfs:vers=3/kvm:memory=512M/link:memory=2G/ext2/loop/raw/xfs/hdd",
                "nfs:vers=3/kvm:memory=512M/link:memory=2G/ext4/loop/raw/xfs/hdd",
                "nfs:vers=3/link:memory=2G/xfs/hdd",
            ]
        );
        let fixed: Vec<FactorName> = space.held_fixed().into_iter().map(|one| one.factor).collect();
        use FactorName::{Actimeo, Export, HostFs, Rsize, Sync, Vers, Wsize};
        assert_eq!(fixed, [HostFs, Vers, Export, Sync, Rsize, Wsize, Actimeo]);
    }

    #[test]
    fn a_guest_that_does_not_exist_is_not_said_to_be_held_fixed() {
        let alone = of(&[(FactorName::Placement, &["nfs"])], "", "").unwrap();
        let fixed: Vec<FactorName> = alone.held_fixed().into_iter().map(|one| one.factor).collect();
        assert!(!fixed.contains(&FactorName::Guest) && !fixed.contains(&FactorName::Cache), "{fixed:?}");
        assert!(fixed.contains(&FactorName::HostFs));
    }

    #[test]
    fn mount_options_are_levels() {
        let levels: &[(FactorName, &[&str])] = &[
            (FactorName::Placement, &["nfs"]),
            (FactorName::Vers, &["4.1"]),
            (FactorName::Export, &["sync"]),
            (FactorName::Sync, &["on"]),
            (FactorName::Rsize, &["64k"]),
            (FactorName::Wsize, &["default", "512k"]),
            (FactorName::Actimeo, &["0"]),
        ];
        assert_eq!(
            stacks(&of(levels, "", "rate=100mbit").unwrap()),
            [
                "nfs:vers=4.1:rsize=64k:sync:actimeo=0/link:rate=100mbit/xfs/hdd",
                "nfs:vers=4.1:rsize=64k:wsize=512k:sync:actimeo=0/link:rate=100mbit/xfs/hdd",
            ]
        );
        let wrong = of(&[(FactorName::Rsize, &["5k"])], "", "").unwrap_err().to_string();
        assert!(wrong.contains("5k"), "{wrong}");
    }
}
