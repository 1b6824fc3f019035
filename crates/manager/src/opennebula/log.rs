//! The log that OpenNebula keeps of each virtual machine. It has what its records lack: when a machine was running and when its end began.

use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::states::phase_named;
use crate::{InstanceId, Phase, Recorded};

/// Before each line, by `ctime(3)`: `Sun Nov 29 06:00:02 2026`.
const TIME_LENGTH: usize = 24;

/// What a line says of a new state, and of one within ACTIVE.
const NEW_STATES: [&str; 2] = ["New LCM state is ", "New state is "];

/// Where the log of a machine is on the manager's own host (`Nebula::get_vm_log_filename`), with its ONE_LOCATION if it has one.
pub fn log_file(one_location: Option<&Path>, id: &InstanceId) -> PathBuf {
    match one_location {
        Some(location) => location.join("var/vms").join(id.as_str()).join("vm.log"),
        None => Path::new("/var/log/one").join(format!("{id}.log")),
    }
}

/// When phases began, by such a log, whose times are in a time zone. Of a phase that began several times, the first. Nothing of pending: a log
/// begins when that ends, and has its `LCM_INIT` behind `DONE`.
pub fn begins_in_log(text: &str, zone: &TimeZone) -> Recorded {
    let begins = text.lines().filter_map(|line| begin_in(line, zone));
    begins.fold(Recorded::default(), |recorded, (phase, at_s)| recorded.with(phase, Some(at_s)))
}

/// `Sun Nov 29 06:00:02 2026 [Z0][VM][I]: New LCM state is RUNNING`.
fn begin_in(line: &str, zone: &TimeZone) -> Option<(Phase, u64)> {
    let name = NEW_STATES.into_iter().find_map(|words| Some(line.split_once(words)?.1))?;
    let phase = phase_named(name.trim()).filter(|phase| *phase != Phase::Pending)?;
    let time = DateTime::strptime("%a %b %e %H:%M:%S %Y", line.get(..TIME_LENGTH)?).ok()?;
    let seconds = time.to_zoned(zone.clone()).ok()?.timestamp().as_second();
    Some((phase, u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of OpenNebula 6.6.3, with its transfer driver `ssh` and its dummy driver for virtual machines.
    const LOG: &str = include_str!("../../tests/data/opennebula-vm.log");

    /// 2026-11-29 18:58:51 UTC.
    const PROLOG_S: u64 = 1_795_978_731;

    #[test]
    fn a_log_has_the_beginning_of_each_phase() {
        let recorded = begins_in_log(LOG, &TimeZone::UTC);
        let began = |phase| recorded.begin_s(phase).map(|s| s - PROLOG_S);
        let all =
            [Phase::Transfer, Phase::Boot, Phase::Running, Phase::Shutdown, Phase::Cleanup, Phase::Done];
        assert_eq!(all.map(began), [0, 3, 6, 6, 8, 11].map(Some));
        assert_eq!(recorded.begin_s(Phase::Pending), None, "LCM_INIT is behind the end");
    }

    #[test]
    fn its_times_are_those_of_the_host() {
        let ahead = TimeZone::fixed(jiff::tz::offset(1));
        let recorded = begins_in_log(LOG, &ahead);
        assert_eq!(recorded.begin_s(Phase::Boot), Some(PROLOG_S + 3 - 3600));
    }

    #[test]
    fn the_log_is_where_opennebula_puts_it() {
        let id = InstanceId::read("42").unwrap();
        assert_eq!(log_file(None, &id), Path::new("/var/log/one/42.log"));
        assert_eq!(log_file(Some(Path::new("/srv/one")), &id), Path::new("/srv/one/var/vms/42/vm.log"));
    }

    proptest! {
        #[test]
        fn no_log_makes_it_panic(text in any::<String>(), at in 0..LOG.len(), byte in any::<u8>()) {
            let _ = begins_in_log(&text, &TimeZone::UTC);
            let mut bytes = LOG.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = begins_in_log(&String::from_utf8_lossy(&bytes), &TimeZone::UTC);
            let _ = begins_in_log(&format!("ä{}", LOG), &TimeZone::UTC);
        }
    }
}
