//! What this machine can do, and how to fix what it cannot.

mod hosted;
mod hypervisors;
mod managers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nestor_machine::lab_image::LabHash;
use nestor_machine::{Facts, LAB_HYPERVISOR, hypervisor};
use nestor_stack::{LayerSpec, registry};
use nestor_workload::engines::ENGINES;
use serde::Serialize;

use crate::accelerators::{AcceleratorMemory, MachineIdentity};
use crate::kernel_parts;
use crate::link_problem::KernelPart;
use crate::virtual_time::{Joins, MEMORY_FILE, VirtualTimeMemory, qemu_identity};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// Works, but not as well as it could.
    Limited,
    /// Something does not work until it is fixed.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub subject: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// Its purpose, or the command that fixes it.
    pub advice: String,
}

/// Where to look besides the machine itself.
pub struct DoctorPlaces {
    /// The cache directory.
    pub cache_directory: PathBuf,
    /// The directory of work directories.
    pub work_root: PathBuf,
    /// Hash of the lab image and whether it is there.
    pub lab_image: (LabHash, bool),
}

/// A program with the Debian package it comes in and what it is for.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("qemu-system-x86_64", "qemu-system-x86", "guests and the emulated host"),
    ("qemu-img", "qemu-utils", "disk images"),
    ("mmdebstrap", "mmdebstrap", "making the lab image"),
    ("sqfstar", "squashfs-tools", "making the lab image"),
    ("blktrace", "blktrace", "tracing with --on this"),
    ("losetup", "mount", "file: media with --on this"),
    ("wipefs", "util-linux", "checking dev: and file: media with --on this"),
    ("ssh", "openssh-client", "--on ssh:HOST"),
];

/// The programs of the workloads with their packages, each once.
fn workload_programs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let programs =
        ENGINES.iter().filter_map(|engine| Some((engine.about().program, engine.about().package?)));
    programs.collect::<BTreeSet<_>>().into_iter()
}

/// Looks at this machine.
pub fn examine(facts: &Facts, places: &DoctorPlaces) -> Vec<Finding> {
    let mut findings = vec![
        machine(facts),
        user(facts),
        acceleration(facts, places),
        virtual_time(facts, places),
        lab_image(places),
    ];
    // A hypervisor that does not answer was found missing above.
    let answers = |program: &str| {
        facts.hypervisor.is_some()
            || program != hypervisor(LAB_HYPERVISOR).program()
            || find_program(program).is_none()
    };
    findings.extend(
        PROGRAMS
            .iter()
            .filter(|(program, ..)| answers(program))
            .map(|(program, package, purpose)| program_finding(program, package, purpose)),
    );
    findings.extend(
        workload_programs()
            .map(|(program, package)| program_finding(program, package, "workloads with --on this")),
    );
    findings.extend(file_systems(facts));
    findings.push(hypervisors::libvirt());
    findings.push(hypervisors::xen());
    findings.extend(hosted::findings());
    findings.extend(managers::findings());
    findings.push(links(facts));
    findings.push(tracing(facts));
    findings.extend([
        space("cache", "NESTOR_CACHE", &places.cache_directory),
        space("work directory", "NESTOR_WORK", &places.work_root),
    ]);
    findings.push(leftovers(&places.work_root));
    findings
}

fn finding(subject: &str, state: State, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { subject: subject.into(), state, found: found.into(), advice: advice.into() }
}

fn machine(facts: &Facts) -> Finding {
    let found = format!(
        "{} CPUs, {} MiB, Linux {}, {}",
        facts.cpus,
        facts.memory_bytes >> 20,
        facts.kernel,
        facts.cpu_model
    );
    if facts.memory_bytes < 3 << 30 {
        return finding(
            "machine",
            State::Limited,
            found,
            "an emulated host with one guest takes about 2 GiB",
        );
    }
    finding("machine", State::Ok, found, "")
}

fn user(facts: &Facts) -> Finding {
    if facts.root {
        return finding("user", State::Ok, "root", "--on emulated and --on this");
    }
    finding("user", State::Limited, "ordinary user", "--on emulated works; --on this needs root")
}

fn acceleration(facts: &Facts, places: &DoctorPlaces) -> Finding {
    let memory = AcceleratorMemory::open(&places.cache_directory);
    let identity = MachineIdentity::of_ground(facts, Some(&places.lab_image.0));
    match (facts.may_use_hardware, memory.recall(&identity)) {
        (_, Some(found)) if found.is_hardware_assisted() => {
            let works = format!("{} works (a probe booted)", found.name().to_uppercase());
            finding("acceleration", State::Ok, works, "")
        }
        (true, Some(_)) => {
            let advice = "emulation is used and every result says so; to probe again, remove accelerators.json from the cache";
            finding(
                "acceleration",
                State::Limited,
                "/dev/kvm exists, but a probe did not boot in time",
                advice,
            )
        }
        (true, None) => finding(
            "acceleration",
            State::Ok,
            "/dev/kvm exists, but has not been probed yet",
            "the first run boots a probe once",
        ),
        (false, _) => {
            let advice = if Path::new("/dev/kvm").exists() {
                "adduser $USER kvm, then log in again; until then emulation is used and every result says so"
            } else {
                "emulation is used and every result says so; switch on virtualisation in the firmware if this is hardware"
            };
            finding("acceleration", State::Limited, "no usable /dev/kvm", advice)
        }
    }
}

fn virtual_time(facts: &Facts, places: &DoctorPlaces) -> Finding {
    const SUBJECT: &str = "virtual time";
    if facts.hypervisor.is_none() {
        return match find_program(hypervisor(LAB_HYPERVISOR).program()) {
            Some(program) => finding(
                SUBJECT,
                State::Missing,
                format!("{} does not answer `--version`", program.display()),
                "see what it prints, or install another: apt-get install qemu-system-x86",
            ),
            None => {
                finding(SUBJECT, State::Missing, "QEMU is not installed", "apt-get install qemu-system-x86")
            }
        };
    }
    let memory = VirtualTimeMemory::open(&places.cache_directory);
    match memory.recall(&qemu_identity(facts, &places.lab_image.0.to_string())) {
        Some(Joins::Yes { uncounted: None }) => finding(
            SUBJECT,
            State::Ok,
            "works with this QEMU (a host and a guest booted in it), and instructions are counted",
            "",
        ),
        Some(Joins::Yes { uncounted: Some(reason) }) => finding(
            SUBJECT,
            State::Limited,
            format!(
                "works with this QEMU (a host and a guest booted in it), but instructions are not counted: {reason}"
            ),
            "results have no instructions per operation; everything else is the same",
        ),
        Some(Joins::No(reason)) => {
            let advice = format!(
                "emulated hosts run in real time, and every result says so; to try again, remove {}",
                places.cache_directory.join(MEMORY_FILE).display()
            );
            finding(SUBJECT, State::Limited, reason, advice)
        }
        Some(Joins::Failed(reason)) => finding(
            SUBJECT,
            State::Limited,
            format!("failed when it was tried: {reason}"),
            "the next run tries it once more",
        ),
        None => finding(SUBJECT, State::Ok, "not tried with this QEMU yet", "the first run tries it once"),
    }
}

fn lab_image(places: &DoctorPlaces) -> Finding {
    let (hash, is_there) = &places.lab_image;
    let name = hash.short();
    if *is_there {
        finding("lab image", State::Ok, format!("{name} is ready"), "")
    } else {
        finding("lab image", State::Limited, format!("{name} does not exist yet"), "nestor lab build")
    }
}

fn program_finding(program: &str, package: &str, purpose: &str) -> Finding {
    match find_program(program) {
        Some(path) => finding(program, State::Ok, path.display().to_string(), purpose),
        None => finding(
            program,
            State::Missing,
            "not installed",
            format!("apt-get install {package}   (for {purpose})"),
        ),
    }
}

/// Looks for a program as root would, also in the directories of system programs.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|d| d.join(program)).find(|p| p.is_file())
}

/// What `--on this` can build: the kernel's file systems whose tools are installed.
fn file_systems(facts: &Facts) -> Vec<Finding> {
    registry().iter().filter_map(|layer| file_system(facts, layer, layer.mkfs_program()?)).collect()
}

fn file_system(facts: &Facts, layer: &LayerSpec, program: String) -> Option<Finding> {
    let spec = layer.file_system()?;
    let subject = format!("{} on this kernel", layer.name);
    if !facts.file_systems.iter().any(|name| name == spec.mount_type) {
        let advice = "the emulated host supports it: --on emulated";
        return Some(finding(&subject, State::Limited, "this kernel does not support it", advice));
    }
    if find_program(&program).is_none() {
        let advice = format!("apt-get install {}", layer.packages.join(" "));
        return Some(finding(&subject, State::Missing, format!("{program} is not installed"), advice));
    }
    Some(finding(&subject, State::Ok, "the kernel and the tools support it", ""))
}

/// Whether `--on this` can join this machine to a client.
fn links(facts: &Facts) -> Finding {
    let lacking = if facts.root { kernel_parts::lacking_here(facts) } else { Vec::new() };
    links_finding(facts.root, &lacking)
}

fn links_finding(root: bool, lacking: &[KernelPart]) -> Finding {
    const SUBJECT: &str = "links on this kernel";
    if !root {
        return finding(SUBJECT, State::Limited, "not tried: needs root", "use --on emulated");
    }
    if lacking.is_empty() {
        return finding(SUBJECT, State::Ok, "the kernel has all that links, nfs and nbd need", "");
    }
    let parts: Vec<&str> = lacking.iter().map(|part| part.short()).collect();
    let found = format!("missing: {}", parts.join(" "));
    finding(SUBJECT, State::Limited, found, "load the modules, or use --on emulated")
}

fn tracing(facts: &Facts) -> Finding {
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if !facts.root {
        return finding(
            "tracing",
            State::Limited,
            "needs root on this kernel",
            "the emulated host traces without root",
        );
    }
    if lockdown.contains("[confidentiality]") {
        let advice = "blktrace's relay files are locked; the same events are read from tracefs";
        return finding("tracing", State::Ok, "kernel lockdown: confidentiality", advice);
    }
    finding("tracing", State::Ok, "the kernel is not locked down", "blktrace, or tracefs where that fails")
}

/// Whether a directory has room; `variable` names another one.
fn space(subject: &str, variable: &str, directory: &Path) -> Finding {
    let existing = directory.ancestors().find(|d| d.exists()).unwrap_or(Path::new("/"));
    let free_mib = match rustix::fs::statvfs(existing) {
        Ok(stat) => (stat.f_bavail * stat.f_frsize) >> 20,
        Err(e) => {
            return finding(
                subject,
                State::Missing,
                format!("{}: {e}", directory.display()),
                "choose another one",
            );
        }
    };
    let found = format!("{}: {free_mib} MiB free", directory.display());
    if free_mib < 4096 {
        let advice = format!("set {variable} to a directory with 4 GiB free");
        return finding(subject, State::Limited, found, advice);
    }
    finding(subject, State::Ok, found, "")
}

fn leftovers(work_root: &Path) -> Finding {
    let found = match nestor_machine::agent::ledger::leftovers(work_root) {
        Ok(found) => found,
        Err(e) => return finding("leftovers", State::Missing, "not checked", e.to_string()),
    };
    match (found.dead.len(), found.left_alone.len()) {
        (0, 0) => finding("leftovers", State::Ok, "none", ""),
        (0, alone) => {
            let advice = found.left_alone.iter().map(|l| format!("{}: {}", l.directory.display(), l.reason));
            let advice = advice.collect::<Vec<_>>().join("; ");
            finding("leftovers", State::Limited, format!("{alone} work directories are left alone"), advice)
        }
        (dead, alone) => {
            let alone = if alone > 0 { format!(", {alone} are left alone") } else { String::new() };
            let found = format!("{dead} killed runs left resources behind{alone}");
            finding("leftovers", State::Limited, found, "nestor doctor --clean")
        }
    }
}

#[cfg(test)]
mod tests {
    use nestor_machine::lab_image::Recipe;
    use nestor_processor::WhyNotCounted;
    use nestor_stack::Accelerator;

    use super::*;

    /// Empty places.
    fn places(directory: &Path) -> DoctorPlaces {
        DoctorPlaces {
            cache_directory: directory.to_owned(),
            work_root: directory.join("none"),
            lab_image: (Recipe::built_in().hash(), false),
        }
    }

    #[test]
    fn what_is_missing_comes_with_the_command_that_fixes_it() {
        let missing = program_finding("no-such-program", "no-such-package", "nothing");
        assert_eq!(missing.state, State::Missing);
        assert!(missing.advice.starts_with("apt-get install no-such-package"));
        assert_eq!(program_finding("sh", "dash", "everything").state, State::Ok);
    }

    #[test]
    fn an_ordinary_user_without_kvm_can_use_the_emulated_host() {
        let facts = Facts { memory_bytes: 8 << 30, ..Facts::default() };
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let findings = examine(&facts, &places);
        let finding = |subject: &str| findings.iter().find(|f| f.subject == subject).unwrap();
        assert_eq!(finding("user").state, State::Limited);
        assert_eq!(finding("acceleration").state, State::Limited);
        assert_eq!(finding("lab image").advice, "nestor lab build");
        assert_eq!(finding("jfs on this kernel").advice, "the emulated host supports it: --on emulated");
        assert_eq!(finding("leftovers").state, State::Ok);
    }

    #[test]
    fn what_a_boot_showed_about_kvm_is_what_is_said_of_it() {
        let facts = Facts { may_use_hardware: true, ..Facts::default() };
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let said = || acceleration(&facts, &places);
        assert!(said().found.contains("has not been probed yet"), "{}", said().found);
        // As the lab remembers it, by the hash in the manifest of the image that it boots.
        let manifest = serde_json::to_value(&places.lab_image.0).unwrap();
        let booted: LabHash = serde_json::from_value(manifest).unwrap();
        let mut memory = AcceleratorMemory::open(directory.path());
        let identity = MachineIdentity::of_ground(&facts, Some(&booted));
        memory.remember(&identity, Accelerator::Tcg);
        assert_eq!(said().state, State::Limited);
        assert!(said().found.contains("did not boot in time"), "{}", said().found);
        memory.remember(&identity, Accelerator::Kvm);
        assert_eq!((said().state, said().found.as_str()), (State::Ok, "KVM works (a probe booted)"));
        let known = crate::known_accelerator(&facts, &places.lab_image.0, directory.path());
        assert_eq!(known, Some(Accelerator::Kvm));
    }

    #[test]
    fn every_file_system_of_the_registry_is_looked_for_by_its_own_program() {
        let specs = registry().iter().filter(|layer| layer.file_system().is_some());
        let names: Vec<&str> = specs.map(|layer| layer.name).collect();
        let found = file_systems(&Facts::default());
        let subjects: Vec<&str> =
            found.iter().filter_map(|f| f.subject.strip_suffix(" on this kernel")).collect();
        assert_eq!(subjects, names);
        let ext3 = registry().iter().find(|layer| layer.name == "ext3").unwrap();
        assert_eq!(ext3.mkfs_program().as_deref(), Some("mke2fs"));
        let facts = Facts { file_systems: vec!["ext3".into()], ..Facts::default() };
        let missing = file_system(&facts, ext3, "no-such-mkfs".into()).unwrap();
        assert_eq!((missing.state, missing.advice.as_str()), (State::Missing, "apt-get install e2fsprogs"));
    }

    #[test]
    fn what_links_lack_is_named_and_an_ordinary_user_is_told_that_it_was_not_tried() {
        assert_eq!(links_finding(true, &[]).state, State::Ok);
        let lacking = links_finding(true, &[KernelPart::Shaping, KernelPart::NetworkDisk]);
        assert_eq!(lacking.state, State::Limited);
        assert_eq!(lacking.found, "missing: sch_netem nbd");
        assert!(links_finding(false, &[]).found.contains("needs root"));
    }

    #[test]
    fn virtual_time_without_counts_is_limited_and_says_why() {
        let facts = Facts { hypervisor: Some("QEMU emulator version 11".into()), ..Facts::default() };
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let mut known = VirtualTimeMemory::open(directory.path());
        let identity = qemu_identity(&facts, &Recipe::built_in().hash().to_string());
        known.remember(&identity, &Joins::Yes { uncounted: Some(WhyNotCounted::NoInterface) });
        let found = virtual_time(&facts, &places);
        assert_eq!(found.state, State::Limited);
        assert!(found.found.contains("no interface for plugins"), "{}", found.found);
        known.remember(&identity, &Joins::Yes { uncounted: None });
        assert_eq!(virtual_time(&facts, &places).state, State::Ok);
    }
}
