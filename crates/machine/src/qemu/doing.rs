//! What the processors of a machine do that does not answer, for the message about it.

use std::time::Duration;

use serde_json::json;

use super::qmp::{Qmp, QmpError};

/// One processor, as `info registers` shows it (`x86_cpu_dump_state` in target/i386/cpu-dump.c).
#[derive(Debug, PartialEq, Eq)]
struct Processor {
    /// Where its next instruction is.
    at: String,
    /// Whether it waits for an interrupt.
    is_halted: bool,
}

/// How long the monitor may take: one that hangs with its machine is not awaited.
const LIMIT: Duration = Duration::from_secs(2);

/// In words, as the end of a sentence.
///
/// # Errors
/// The monitor does not answer.
pub fn in_words(qmp: &mut Qmp) -> Result<String, QmpError> {
    let arguments = json!({ "command-line": "info registers -a" });
    let registers = qmp.execute_within(LIMIT, "human-monitor-command", &arguments)?;
    Ok(said(&processors(registers.as_str().unwrap_or_default())))
}

fn processors(registers: &str) -> Vec<Processor> {
    let of_one = |text: &str| {
        let value = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
        Some(Processor {
            at: value("RIP=").or_else(|| value("EIP="))?.to_owned(),
            is_halted: value("HLT=") == Some("1"),
        })
    };
    registers.split("CPU#").skip(1).filter_map(of_one).collect()
}

fn said(processors: &[Processor]) -> String {
    let each = processors.iter().enumerate().map(|(number, Processor { at, is_halted })| {
        format!("{number} {} at {at}", if *is_halted { "is halted" } else { "runs" })
    });
    match processors {
        [] => String::new(),
        _ => format!("; of its processors, {}", each.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halted_processors_differ_from_those_that_run() {
        let registers = "CPU#0\r\nRAX=0000000000000000 RBX=1\r\nRIP=ffffffff8180e3ab RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n\
                         ES =0000 0\r\n\r\nCPU#1\r\nEIP=000fd0a9 EFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0\r\n";
        assert_eq!(
            said(&processors(registers)),
            "; of its processors, 0 is halted at ffffffff8180e3ab, 1 runs at 000fd0a9"
        );
        assert_eq!(said(&processors("")), "");
        assert_eq!(said(&processors("CPU#0\nno registers")), "");
    }
}
