//! Programs that the kernel ended because its machine was out of memory, as its log tells of them (Linux, `mm/oom_kill.c`).

/// A program that the kernel ended.
#[derive(Clone, Debug, PartialEq)]
pub struct OutOfMemory {
    /// Its name, up to 15 bytes of it.
    pub program: String,
    /// When, in seconds since the machine was booted.
    pub at_s: f64,
    /// Memory that the program had: its own and shared, without files.
    pub resident_bytes: u64,
}

/// The last program that the kernel's log (as `dmesg` prints it) says was ended.
pub fn last_in(log: &str) -> Option<OutOfMemory> {
    log.lines().rev().find_map(of_line)
}

/// `[   14.55] Out of memory: Killed process 171 (exe) total-vm:637580kB, anon-rss:44336kB, file-rss:4kB, shmem-rss:6644kB, …`
fn of_line(line: &str) -> Option<OutOfMemory> {
    let (stamp, message) = line.strip_prefix('[')?.split_once(']')?;
    let message = message.trim_start();
    let process = message.strip_prefix("Out of memory: Killed process ")?;
    // A name may have parentheses of its own.
    let (named, _) = process.split_once(" total-vm:")?;
    let program = named.split_once(" (")?.1.rsplit_once(')')?.0.to_owned();
    let kb = |field: &str| -> Option<u64> {
        let (_, after) = message.split_once(field)?;
        after.split_once("kB")?.0.parse().ok()
    };
    let resident_kb = kb(" anon-rss:")?.checked_add(kb(" shmem-rss:").unwrap_or(0))?;
    Some(OutOfMemory {
        program,
        at_s: stamp.trim().parse().ok()?,
        resident_bytes: resident_kb.checked_mul(1024)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[    2.100000] Run /init as init process
[   14.555506] worker invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0
[   14.557180] Out of memory: Killed process 171 (exe) total-vm:637580kB, anon-rss:44336kB, file-rss:4kB, shmem-rss:6644kB, UID:0 pgtables:284kB oom_score_adj:0
[   15.000000] EXT4-fs (vdb): unmounting filesystem.
";

    #[test]
    fn the_last_program_that_was_ended_is_found_with_its_memory() {
        let found = last_in(LOG).unwrap();
        let resident_bytes = (44_336 + 6_644) << 10;
        assert_eq!(found, OutOfMemory { program: "exe".to_owned(), at_s: 14.557_18, resident_bytes });
        let odd = last_in(&LOG.replace("(exe)", "((sd-pam) x)")).unwrap();
        assert_eq!(odd.program, "(sd-pam) x");
        let twice = format!("{LOG}{}", LOG.replace("14.5", "99.5").replace("44336", "1"));
        assert_eq!(last_in(&twice).unwrap().resident_bytes, 6_645 << 10);
    }

    #[test]
    fn other_lines_say_nothing() {
        for log in [
            "",
            "[ 1.0] Out of memory: Killed process 1 (x) total-vm:1kB",
            "Out of memory: Killed process 1 (x) anon-rss:1kB",
            "[ x ] Out of memory: Killed process 1 (x) total-vm:1kB, anon-rss:1kB, shmem-rss:0kB",
            "[ 1.0] Out of memory: Killed process 1 (x) total-vm:1kB, anon-rss:99999999999999999999kB,",
            "[ 1.0] Out of memory: Killed process 1 (x) total-vm:1kB, anon-rss:18446744073709551615kB,",
        ] {
            assert_eq!(last_in(log), None, "{log}");
        }
    }
}
