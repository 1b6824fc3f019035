//! Which virtual machine is meant, and what is below its images.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nestor_kernel::block_stack::{HostDevice, HostLevel, below};
use nestor_kernel::processes::{Who, is_alive, threads};
use nestor_kernel::virtual_machines::{OpenFile, VirtualMachine, open_files, running};
use nestor_top::{BlockLayer, LayerKind, Layers, Machine};
use nestor_trace::event::Device;

/// What the user names.
pub struct Wish<'a> {
    pub domain: Option<&'a str>,
    pub pid: Option<u32>,
    pub device: Option<&'a str>,
}

/// What is watched.
#[derive(Debug)]
pub struct Found {
    /// The process of the virtual machine; nothing where only a device is watched.
    pub process: Option<u32>,
    /// The layers from it down.
    pub layers: Layers,
    /// Devices or file systems that its images are on.
    spaces: HashSet<u64>,
}

impl Found {
    /// Whether there is still something to watch.
    pub fn is_there(&self) -> bool {
        self.process.is_none_or(is_alive)
    }

    /// Its threads and its images' descriptors as they are now.
    pub fn machine(&self) -> Machine {
        let Some(pid) = self.process else { return Machine::default() };
        let images = open_files(pid).into_iter().filter(|file| self.spaces.contains(&file.identity.0));
        Machine {
            threads: threads(pid).into_iter().collect(),
            images: images.map(|file| file.descriptor).collect(),
        }
    }
}

/// Finds it.
///
/// # Errors
/// There is none, there are several, or its images cannot be seen.
pub fn find(wish: &Wish<'_>) -> Result<Found> {
    let running = running();
    let process = chosen(wish, &running)?;
    let named = process.map(|pid| name(pid, &running));
    let device = wish.device.map(Path::new);
    if let Some(device) = device
        && let Err(error) = std::fs::metadata(device)
    {
        bail!("--device {}: {error}; `lsblk` lists the block devices", device.display());
    }
    let Some((pid, name)) = process.zip(named) else {
        let levels = device.map(below).unwrap_or_default();
        return Ok(Found { process: None, layers: layers(None, &levels), spaces: HashSet::new() });
    };
    if !rustix::process::geteuid().is_root() {
        bail!("watching the layers below {name} needs root, for tracefs and its open files; use `sudo`");
    }
    let images = images_by_stack(pid, open_files(pid));
    let (levels, spaces) = one_stack(&name, images, device)?;
    Ok(Found { process: Some(pid), layers: layers(Some(name), &levels), spaces })
}

/// The process that is meant; none if only a device is, and no virtual machine has files on it.
fn chosen(wish: &Wish<'_>, running: &[VirtualMachine]) -> Result<Option<u32>> {
    if let Some(pid) = wish.pid {
        if Who::process(pid).is_none() {
            bail!("there is no process {pid}; `pgrep -a qemu` finds virtual machines");
        }
        return Ok(Some(pid));
    }
    let meant: Vec<&VirtualMachine> = match (wish.domain, wish.device) {
        (Some(domain), _) => running.iter().filter(|machine| machine.name == domain).collect(),
        (None, Some(device)) => {
            running.iter().filter(|machine| is_above(machine, Path::new(device))).collect()
        }
        (None, None) => running.iter().collect(),
    };
    match (meant[..].as_ref(), wish.domain, wish.device) {
        ([machine], ..) => Ok(Some(machine.pid)),
        ([], None, Some(_)) => Ok(None),
        ([], Some(domain), _) => bail!(
            "no virtual machine named {domain} runs here; {}",
            match running {
                [] => "none runs at all: start it, with `virsh start` if it is libvirt's".to_owned(),
                _ => format!("these do: {}", list(running)),
            }
        ),
        ([], None, None) => bail!(
            "no virtual machine runs here; start one with QEMU or libvirt, or name a process with --pid, or a disk with --device"
        ),
        (several, ..) => bail!(
            "several virtual machines are meant: name one with --domain or --pid: {}",
            list(several.iter().copied())
        ),
    }
}

/// Whether a virtual machine has an image above a device, or beside an image.
fn is_above(machine: &VirtualMachine, device: &Path) -> bool {
    images_by_stack(machine.pid, open_files(machine.pid)).iter().any(|(levels, _)| is_on(levels, device))
}

fn list<'a>(machines: impl IntoIterator<Item = &'a VirtualMachine>) -> String {
    let one = |machine: &VirtualMachine| match machine.name.as_str() {
        "" => format!("process {}", machine.pid),
        name => format!("{name} (process {})", machine.pid),
    };
    machines.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

fn name(pid: u32, running: &[VirtualMachine]) -> String {
    match running.iter().find(|machine| machine.pid == pid) {
        Some(machine) if machine.name.is_empty() => format!("qemu {pid}"),
        Some(machine) => format!("qemu {}", machine.name),
        None => Who::Process(pid).in_words(),
    }
}

/// What is below images, each with the numbers of the file systems or devices that they are on.
type Stacks = Vec<(Vec<HostLevel>, HashSet<u64>)>;

/// The images of a process by what is below them: what it can write to, or everything if that is nothing.
fn images_by_stack(pid: u32, files: Vec<OpenFile>) -> Stacks {
    let (writable, others): (Vec<OpenFile>, Vec<OpenFile>) =
        files.into_iter().partition(|file| file.is_writable);
    let stacks = stacks_of(pid, &writable);
    if stacks.is_empty() { stacks_of(pid, &others) } else { stacks }
}

/// Where standard input, output and errors end: a log is no image.
const STANDARD_STREAMS: u32 = 2;
/// A smaller file is a log or holds the number of a process: an empty qcow2 has 192 KiB.
const LEAST_IMAGE_BYTES: u64 = 64 << 10;

fn stacks_of(pid: u32, files: &[OpenFile]) -> Stacks {
    let mut stacks = Stacks::new();
    for file in files.iter().filter(|file| file.descriptor > STANDARD_STREAMS) {
        // Through the process, whose mounts may be others than ours.
        let path = PathBuf::from(format!("/proc/{pid}/fd/{}", file.descriptor));
        let is_small = |metadata: std::fs::Metadata| metadata.is_file() && metadata.len() < LEAST_IMAGE_BYTES;
        if std::fs::metadata(&path).map_or(true, is_small) {
            continue;
        }
        let levels = below(&path);
        if !levels.iter().any(|level| matches!(level, HostLevel::Devices(_))) {
            continue;
        }
        match stacks.iter_mut().find(|(known, _)| *known == levels) {
            Some((_, spaces)) => {
                spaces.insert(file.identity.0);
            }
            None => stacks.push((levels, HashSet::from([file.identity.0]))),
        }
    }
    stacks
}

/// Whether a device is among the levels; of a file that is no device, whether the levels are what it is on.
fn is_on(levels: &[HostLevel], device: &Path) -> bool {
    let wanted = below(device);
    match wanted.first() {
        Some(HostLevel::Devices(wanted)) => devices(levels).any(|device| wanted.contains(device)),
        Some(HostLevel::FileSystem { .. }) => *levels == wanted[..],
        None => false,
    }
}

fn devices(levels: &[HostLevel]) -> impl Iterator<Item = &HostDevice> {
    levels.iter().flat_map(|level| match level {
        HostLevel::Devices(devices) => &devices[..],
        HostLevel::FileSystem { .. } => &[],
    })
}

fn one_stack(
    name: &str,
    mut stacks: Stacks,
    device: Option<&Path>,
) -> Result<(Vec<HostLevel>, HashSet<u64>)> {
    if let Some(device) = device {
        stacks.retain(|(levels, _)| is_on(levels, device));
    }
    match (stacks.len(), device) {
        (1, _) => Ok(stacks.swap_remove(0)),
        (0, Some(device)) => bail!("{name} has no image on {}", device.display()),
        (0, None) => bail!(
            "{name} has no file open on a disk of this machine: network disks and files in memory have no layers here"
        ),
        _ => {
            let names: BTreeSet<String> = stacks.iter().map(|(levels, _)| top_of(levels)).collect();
            let names: Vec<String> = names.into_iter().collect();
            bail!(
                "{name} has files on several disks or file systems: name one of its images or disks with \
                 --device; they are on {}",
                names.join(", ")
            )
        }
    }
}

fn top_of(levels: &[HostLevel]) -> String {
    levels.first().map_or_else(String::new, |level| match level {
        HostLevel::FileSystem { place, .. } => place.display().to_string(),
        HostLevel::Devices(devices) => devices.iter().map(|d| format!("/dev/{}", d.name)).collect(),
    })
}

fn layers(hypervisor: Option<String>, levels: &[HostLevel]) -> Layers {
    let mut layers = Layers::new();
    if let Some(name) = hypervisor {
        layers.add([(name, LayerKind::Hypervisor)]);
    }
    for level in levels {
        match level {
            HostLevel::FileSystem { kind, place } => {
                layers.add([(format!("{kind} {}", place.display()), LayerKind::FileSystem)]);
            }
            HostLevel::Devices(devices) => layers.add(devices.iter().map(|device| {
                let partitions = device.partitions.iter().copied().map(Device::from).collect();
                let block = BlockLayer {
                    device: device.number.into(),
                    partitions,
                    has_requests: device.has_requests,
                };
                (device.name.clone(), LayerKind::Device(block))
            })),
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, minor: u32) -> HostDevice {
        HostDevice {
            name: name.into(),
            number: (8, minor),
            partitions: vec![(8, minor + 1)],
            has_requests: true,
        }
    }

    fn machine(pid: u32, name: &str) -> VirtualMachine {
        VirtualMachine { pid, name: name.into() }
    }

    fn said(domain: Option<&str>, running: &[VirtualMachine]) -> String {
        chosen(&Wish { domain, pid: None, device: None }, running).unwrap_err().to_string()
    }

    #[test]
    fn the_machine_that_is_meant_is_found_or_the_choice_is_named() {
        let two = [machine(7, "mail"), machine(9, "")];
        let wish = |domain| Wish { domain, pid: None, device: None };
        assert_eq!(chosen(&wish(Some("mail")), &two).unwrap(), Some(7));
        assert_eq!(chosen(&wish(None), &two[..1]).unwrap(), Some(7));
        let several = said(None, &two);
        assert!(several.ends_with("--domain or --pid: mail (process 7), process 9"), "{several}");
        let none = said(None, &[]);
        assert!(none.contains("start one") && none.contains("--pid"), "{none}");
        assert!(said(Some("web"), &two).contains("these do: mail"));
        assert!(said(Some("web"), &[]).contains("virsh start"));
    }

    #[test]
    fn what_is_below_becomes_layers() {
        let levels = [
            HostLevel::FileSystem { kind: "xfs".into(), place: "/srv".into() },
            HostLevel::Devices(vec![device("md0", 0)]),
            HostLevel::Devices(vec![device("sda", 16), device("sdb", 32)]),
        ];
        let layers = layers(Some("qemu mail".into()), &levels);
        assert_eq!(layers.to_string(), "qemu mail > xfs /srv > md0 > sda + sdb");
        assert_eq!(layers.devices().len(), 6);
    }

    #[test]
    fn several_stacks_are_told_apart_by_the_device() {
        let stacks = || -> Stacks {
            ["a", "b"]
                .map(|name| (vec![HostLevel::Devices(vec![device(name, 0)])], HashSet::from([1])))
                .to_vec()
        };
        let error = one_stack("qemu mail", stacks(), None).unwrap_err().to_string();
        assert!(error.ends_with("they are on /dev/a, /dev/b"), "{error}");
        let error = one_stack("qemu mail", Stacks::new(), None).unwrap_err().to_string();
        assert!(error.contains("no file open on a disk"), "{error}");
    }
}
