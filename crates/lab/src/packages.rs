//! Versions of the packages that matter to a result.

use std::collections::{BTreeMap, BTreeSet};

use nestor_machine::lab_image::MANIFEST_IN_ROOT;
use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::layers::hypervisors::{LIBVIRT_FOR_XEN, RunBy};
use nestor_stack::layers::sourced::transfers::TRANSFERS;
use nestor_stack::registry;
use nestor_workload::engines::ENGINES;

/// Packages that matter to a result and that no layer and no workload names: the kernel, the recorder, and what they and Nestor itself do
/// their work with.
const OTHERS: [&str; 5] = ["linux-image-amd64", "blktrace", "util-linux", "libaio1", "kmod"];

/// Packages whose versions are kept with every result: those of all layers that can be built and of all workloads, and the [`OTHERS`].
fn packages() -> BTreeSet<&'static str> {
    let layers = registry().iter().filter(|layer| layer.not_buildable.is_none());
    let workloads = ENGINES.iter().filter_map(|engine| engine.about().package);
    let runners = RunBy::ALL.into_iter().flat_map(|by| by.packages()).chain(LIBVIRT_FOR_XEN);
    layers.flat_map(|layer| layer.packages).chain(runners).copied().chain(workloads).chain(OTHERS).collect()
}

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
    let kept = packages();
    Ok(all.into_iter().filter(|(name, _)| kept.contains(name.as_str())).collect())
}

/// Of the ground, if it is a Debian; another distribution's packages are not asked for. The lab's own images have what copies images in a pack,
/// which is part of what they are; here it is what is installed.
pub(crate) fn of_debian_machine(machine: &Machine) -> BTreeMap<String, String> {
    let transfers = TRANSFERS.iter().flat_map(|transfer| transfer.packages).copied();
    let wanted: BTreeSet<&str> = packages().into_iter().chain(transfers).collect();
    let argv = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\\n"].into_iter().chain(wanted);
    let Ok(finished) = machine.run(Command::new(argv)) else { return BTreeMap::new() };
    finished
        .stdout_text()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, version)| !version.is_empty())
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use nestor_machine::lab_image::Recipe;
    use nestor_stack::LabPack;

    use super::*;

    #[test]
    fn the_lab_image_has_what_every_layer_needs() {
        let layers = registry().iter().filter(|layer| layer.not_buildable.is_none());
        for layer in layers.filter(|layer| layer.hosted().is_none()) {
            let recipe = Recipe::of(layer.lab_pack());
            for package in layer.packages {
                assert!(recipe.install_list().contains(package), "{}: {package}", layer.name);
            }
            // The file system's own module comes last; those before it are what it finds by itself.
            if let Some(spec) = layer.file_system()
                && let Some(module) = spec.kernel_modules.last()
            {
                assert!(recipe.required_modules.iter().any(|required| required == module), "{module}");
            }
        }
    }

    #[test]
    fn a_pack_has_what_runs_machines_in_place_of_nestor() {
        for by in RunBy::ALL {
            let recipe = Recipe::of(by.lab_pack());
            assert!(by.packages().iter().all(|package| recipe.install_list().contains(package)), "{by:?}");
        }
        let recipe = Recipe::of(Some(LabPack::Xen));
        let mut packages = RunBy::Libvirt.packages().iter().chain(LIBVIRT_FOR_XEN);
        assert!(packages.all(|package| recipe.install_list().contains(package)));
    }

    #[test]
    fn the_lab_image_has_what_every_workload_needs() {
        let recipe = Recipe::built_in();
        for package in ENGINES.iter().filter_map(|engine| engine.about().package) {
            assert!(recipe.install_list().contains(&package), "{package}");
        }
    }

    #[test]
    fn tests_have_the_packages_of_every_file_system_installed() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/file-system-packages");
        let output = std::process::Command::new(script).output().unwrap();
        let installed: BTreeSet<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        let file_systems = registry().iter().filter(|layer| layer.mkfs_program().is_some());
        let needed: BTreeSet<String> =
            file_systems.flat_map(|layer| layer.packages).map(|package| (*package).to_owned()).collect();
        assert_eq!(installed, needed);
    }

    #[test]
    fn versions_are_kept_of_what_makes_layers_and_of_what_makes_load() {
        let kept = packages();
        let of_each =
            ["jfsutils", "qemu-utils", "fio", "linux-image-amd64", "nfs-kernel-server", "nbd-client"];
        assert!(of_each.iter().all(|name| kept.contains(name)));
    }
}
