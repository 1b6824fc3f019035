//! `nestor stack --qemu PID` and its like: the stacks that a virtual machine of the user's is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nestor_machine::{Ground, domain_description};
use nestor_vm_config::{LeftOut, Twin, VirtualMachine, libvirt, proxmox, twins};
use serde::Serialize;

use super::below::facts;
use super::running_qemu::RunningQemu;
use super::{MachineJson, explain, machines_of};
use crate::arguments::StackArguments;
use crate::output::{columns, fitted, print_json};

/// A virtual machine of the user's, whose stacks are asked for.
#[derive(Args, Debug)]
#[group(multiple = false, id = "described", conflicts_with_all = ["stacks", "on"])]
pub struct DescribedMachine {
    /// Say which stack each disk of the machine in this XML of libvirt's is, and what the stack leaves out
    #[arg(long, value_name = "FILE")]
    pub libvirt: Option<PathBuf>,
    /// The same for this virtual machine of yours, which libvirt runs here
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// The same for the QEMU that runs here as this process
    #[arg(long, value_name = "PID")]
    pub qemu: Option<u32>,
    /// The same for the machine in this configuration of Proxmox VE's (/etc/pve/qemu-server/VMID.conf)
    #[arg(long, value_name = "FILE")]
    pub proxmox: Option<PathBuf>,
}

/// A virtual machine, and the directory from which its relative paths lead.
struct Found {
    /// What it is, in words.
    title: String,
    machine: VirtualMachine,
    directory: Option<PathBuf>,
}

#[derive(Serialize)]
struct MachineTwins<'a> {
    name: Option<&'a str>,
    disks: Vec<DiskTwin<'a>>,
    left_out: &'a [LeftOut],
}

#[derive(Serialize)]
struct DiskTwin<'a> {
    disk: &'a str,
    line: Option<usize>,
    stack: &'a nestor_stack::Stack,
    machines: Vec<MachineJson>,
    left_out: &'a [LeftOut],
}

/// Shows a stack for each disk of the machine, with what it leaves out.
///
/// # Errors
/// There is no such machine, its description cannot be read, or it has no hard disk.
pub fn run(wanted: &DescribedMachine, arguments: &StackArguments) -> Result<()> {
    let found = find(wanted, arguments.storages.as_deref())?;
    let ground = Ground::here()?;
    let directory = found.directory.as_deref();
    let twins = twins(&found.machine, |disk| facts(ground.machine(), disk, directory))?;
    if twins.is_empty() {
        let left_out = list(&found.machine.left_out, None);
        bail!("{} has no hard disk of which Nestor could make a stack\n{left_out}", found.title);
    }
    if arguments.json { print_json(&as_json(&found.machine, &twins)) } else { say(&found, &twins) }
}

fn find(wanted: &DescribedMachine, storage_cfg: Option<&Path>) -> Result<Found> {
    let titled = |title: String, machine: VirtualMachine| {
        let name = machine.name.as_deref().map_or_else(String::new, |name| format!("{name}, "));
        Found { title: format!("{name}{title}"), machine, directory: None }
    };
    if let Some(pid) = wanted.qemu {
        let qemu = RunningQemu::find(pid)?;
        let title = format!("process {pid} ({})", qemu.program);
        let machine = nestor_vm_config::qemu::read(&title, &qemu.arguments, qemu.has_kvm)?;
        return Ok(Found { directory: qemu.directory, ..titled(title, machine) });
    }
    if let Some(file) = &wanted.proxmox {
        let title = file.display().to_string();
        let machine = proxmox::read(&title, &read(file)?, storages(storage_cfg)?.as_ref())?;
        return Ok(titled(title, machine));
    }
    if let Some(file) = &wanted.libvirt {
        let title = file.display().to_string();
        let machine = libvirt::read(&title, &read(file)?)?;
        return Ok(titled(title, machine));
    }
    let name = wanted.domain.as_deref().unwrap_or_default();
    let description = domain_description(name)?;
    let machine = libvirt::read(&format!("the description of the domain {name}"), &description)?;
    Ok(Found { title: format!("domain {name}"), machine, directory: None })
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// The storages that were named, or those of this Proxmox VE.
fn storages(named: Option<&Path>) -> Result<Option<proxmox::Storages>> {
    let file = match named {
        Some(file) => file,
        None if Path::new(proxmox::STORAGE_CFG).exists() => Path::new(proxmox::STORAGE_CFG),
        None => return Ok(None),
    };
    Ok(Some(proxmox::Storages::parse(&file.display().to_string(), &read(file)?)?))
}

fn as_json<'a>(machine: &'a VirtualMachine, twins: &'a [Twin]) -> MachineTwins<'a> {
    let disk = |twin: &'a Twin| DiskTwin {
        disk: &twin.disk,
        line: twin.line,
        stack: &twin.stack,
        machines: machines_of(&twin.stack),
        left_out: &twin.left_out,
    };
    MachineTwins {
        name: machine.name.as_deref(),
        disks: twins.iter().map(disk).collect(),
        left_out: &machine.left_out,
    }
}

fn say(found: &Found, twins: &[Twin]) -> Result<()> {
    outln!("{}", found.title);
    for twin in twins {
        let line = twin.line.map_or_else(String::new, |line| format!(", line {line}"));
        outln!("\n{}{line}", twin.disk);
        out!("{}", explain(&twin.stack, columns()));
        out!("left out or taken for granted:\n{}", list(&twin.left_out, columns()));
    }
    if !found.machine.left_out.is_empty() {
        out!("\nleft out of all stacks:\n{}", list(&found.machine.left_out, columns()));
    }
    Ok(())
}

fn list(left_out: &[LeftOut], columns: Option<usize>) -> String {
    left_out.iter().map(|one| fitted(&format!("  {one}\n"), columns)).collect()
}
