//! Versions of the packages that matter to a result.

use std::collections::BTreeMap;

use nestor_machine::lab_image::MANIFEST_IN_ROOT;
use nestor_machine::{Command, Machine, MachineError};

/// Packages whose versions are kept with every result.
const PACKAGES: [&str; 17] = [
    "linux-image-amd64",
    "qemu-system-x86",
    "qemu-utils",
    "fio",
    "postmark",
    "bonnie++",
    "dbench",
    "blktrace",
    "e2fsprogs",
    "xfsprogs",
    "jfsutils",
    "reiserfsprogs",
    "btrfs-progs",
    "f2fs-tools",
    "util-linux",
    "libaio1",
    "kmod",
];

/// Of a machine that booted the lab image, from the image's own list.
///
/// # Errors
/// When the machine does not answer; an image without a list has no versions to tell.
pub(crate) fn of_lab_machine(machine: &Machine) -> Result<BTreeMap<String, String>, MachineError> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        packages: BTreeMap<String, String>,
    }
    let text = machine.read_file(MANIFEST_IN_ROOT)?;
    let manifest: Option<Manifest> = serde_json::from_slice(&text).ok();
    let all = manifest.map(|m| m.packages).unwrap_or_default();
    Ok(all.into_iter().filter(|(name, _)| PACKAGES.contains(&name.as_str())).collect())
}

/// Of the ground, if it is a Debian; another distribution's packages are not asked for.
pub(crate) fn of_debian_machine(machine: &Machine) -> BTreeMap<String, String> {
    let argv = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\\n"].into_iter().chain(PACKAGES);
    let Ok(finished) = machine.run(Command::new(argv)) else { return BTreeMap::new() };
    finished
        .stdout_text()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, version)| !version.is_empty())
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}
