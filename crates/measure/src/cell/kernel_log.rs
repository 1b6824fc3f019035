//! What the log of a machine's kernel tells of programs.

use nestor_kernel::out_of_memory::{OutOfMemory, last_in};
use nestor_machine::{Command, Machine};

/// Seconds since a machine was booted, which its kernel's log counts in; `None` where it does not say.
pub(super) fn uptime_s(machine: &Machine) -> Option<f64> {
    let uptime = String::from_utf8(machine.read_file("/proc/uptime").ok()?).ok()?;
    uptime.split_whitespace().next()?.parse().ok()
}

/// The last program that the kernel ended for want of memory after this second. `None` also where its log cannot be read.
pub(super) fn out_of_memory_since(machine: &Machine, since_s: f64) -> Option<OutOfMemory> {
    let log = machine.run(Command::new(["dmesg"])).ok().filter(|dmesg| dmesg.exit_code == Some(0))?;
    last_in(&log.stdout_text()).filter(|ended| ended.at_s >= since_s)
}
