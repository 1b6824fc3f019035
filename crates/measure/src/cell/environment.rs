//! Where a cell runs: the facts that a reader needs before comparing its numbers.

use std::collections::BTreeMap;

use nestor_lab::{BuiltStack, Lab};

use super::CellRequest;
use nestor_results::{Environment, MachineRecord};

/// The kernel's clock source. An emulated device makes every read of the clock expensive.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What emulates the host, among the packages.
const EMULATOR: &str = "this machine qemu";

/// What is known of a cell's environment before its stack is built, and all that is if it cannot be.
pub(super) fn before_building(lab: &Lab) -> Environment {
    Environment {
        nestor: format!("nestor {}", env!("CARGO_PKG_VERSION")),
        ground: lab.place().clone().into(),
        place_remark: lab.remark().map(str::to_owned),
        ..Environment::default()
    }
}

/// The environment of a cell whose stack is built.
pub(super) fn of(lab: &mut Lab, built: &BuiltStack, request: &CellRequest<'_>) -> Environment {
    Environment {
        machines: built
            .machines
            .iter()
            .map(|m| MachineRecord {
                label: m.label.into(),
                kernel: m.facts.kernel.clone(),
                cpu_model: m.facts.cpu_model.clone(),
                cpus: m.facts.cpus,
                memory_bytes: m.facts.memory_bytes,
                accelerator: m.accelerator,
            })
            .collect(),
        packages: packages(lab, built),
        settings: settings(built, request),
        remarks: request.workload.remarks(),
        user_medium: built.user_medium,
        ..before_building(lab)
    }
}

fn packages(lab: &mut Lab, built: &BuiltStack) -> BTreeMap<String, String> {
    // Machines of the lab share one image, so the host's and the guest's lists contain all versions.
    let mut packages = BTreeMap::new();
    let mut seen = Vec::new();
    for (index, machine) in built.machines.indexed().take(2) {
        let found = lab.packages(index);
        if !seen.contains(&found) {
            packages.extend(
                found
                    .iter()
                    .map(|(name, version)| (format!("{} {name}", machine.label.stored()), version.clone())),
            );
            seen.push(found);
        }
    }
    // An emulated processor is as fast as the program that emulates it.
    packages.extend(lab.emulator().map(|version| (EMULATOR.to_owned(), version.to_owned())));
    packages
}

fn settings(built: &BuiltStack, request: &CellRequest<'_>) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = built.settings.iter().cloned().collect();
    for layer in built.stack.layers() {
        if layer.is_hypervisor() {
            for option in ["disk", "cache", "aio", "iothread", "guest"] {
                if !layer.has_option(option) {
                    continue;
                }
                let value = layer.option(option).unwrap_or("default");
                settings.insert(format!("{} {option}", layer.name()), value.to_owned());
            }
        }
    }
    for machine in built.machines.iter() {
        if let Ok(clock) = machine.machine.read_file(CLOCK_SOURCE) {
            let clock = String::from_utf8_lossy(&clock).trim().to_owned();
            settings.insert(format!("{} clock", machine.label.stored()), clock);
        }
    }
    let timing =
        if built.modelled { "model's timing off while preparing, on while measuring" } else { "real" };
    settings.insert("disk timing".into(), timing.into());
    let caches = match request.workload.life() {
        Some(_) => "emptied in the node and the repository before the instance was asked for",
        None => "emptied in every machine before measuring",
    };
    settings.insert("caches".into(), caches.into());
    settings.insert("working set".into(), format!("{} MiB", request.workload.data_set().bytes >> 20));
    settings.insert("seed".into(), request.seed.to_string());
    settings.insert("trace".into(), request.trace.to_string());
    settings
}
