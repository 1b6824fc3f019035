//! One script on several machines at once.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nestor_flowops::{FlowReport, Scale};
use nestor_machine::{Command, Ground, Machine};
use nestor_stack::Place;
use nestor_text::complaint::{WARNING, why_it_ended};

use super::wml::WmlArguments;
use crate::interrupt::interrupted_by_signals;
use crate::scripts::Loaded;

/// The longest that a machine may take: file sets and the run itself.
const PATIENCE_S: u64 = 24 * 3600;
/// How often it is asked whether all machines are ready.
const LOOK: Duration = Duration::from_millis(20);

/// Where files of one part of the run are, on its machine.
struct Part {
    ground: Ground,
    name: String,
    /// Among the machines, from 0: two with the same seed would do the same operations in step.
    index: usize,
    /// Of the agent's own, and only its user's: what is run is read from here.
    scratch: String,
    directory: String,
}

/// Runs the script everywhere: each machine makes its file sets, all begin when the last is ready.
///
/// # Errors
/// When a machine cannot be reached or its part fails.
pub fn run(arguments: &WmlArguments, loaded: &Loaded) -> Result<FlowReport> {
    let Some(directory) = &arguments.dir else {
        bail!(
            "several machines need --dir: each works in its own directory below it (machine-1, machine-2, \
               …)"
        );
    };
    let interrupted = interrupted_by_signals()?;
    let mut parts = Vec::new();
    for (index, place) in arguments.machines.iter().enumerate() {
        parts.push(Part::new(place, index, directory)?);
    }
    let result = std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .iter()
            .map(|part| {
                let argv = part.argv(arguments);
                let text = loaded.text.as_bytes();
                scope.spawn(move || part.run(argv, text))
            })
            .collect();
        let stop = || interrupted.load(Ordering::Relaxed);
        // Those that fail before they are ready would be waited for in vain.
        let ready = wait_until_ready(&parts, || stop() || running.iter().any(ScopedJoinHandle::is_finished));
        tell_all(&parts, if ready { "go" } else { "stop" });
        while ready && !running.iter().all(ScopedJoinHandle::is_finished) {
            if stop() {
                tell_all(&parts, "stop");
                break;
            }
            std::thread::sleep(LOOK);
        }
        let mut merged: Option<FlowReport> = None;
        let mut failed = None;
        for (part, running) in parts.iter().zip(running) {
            match running.join().map_err(|_| anyhow!("the thread for {} panicked", part.name))? {
                Ok(report) => match &mut merged {
                    None => merged = Some(report),
                    Some(all) => all.merge(&report),
                },
                // The first one is the cause; others may have been interrupted because of it.
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        failed.map_or_else(|| merged.context("no machine was given"), Err)
    });
    parts.iter().for_each(Part::clean);
    result
}

/// Leaves a sign that every machine's part looks for.
fn tell_all(parts: &[Part], sign: &str) {
    for part in parts {
        if let Err(e) = part.machine().create_file(&part.file(sign), sign.as_bytes()) {
            errln!("{WARNING}{} could not be told to {sign}: {e}", part.name);
        }
    }
}

fn wait_until_ready(parts: &[Part], in_vain: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed().as_secs() < PATIENCE_S {
        if parts.iter().all(|part| part.machine().read_file(&part.file("ready")).is_ok()) {
            return true;
        }
        if in_vain() {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    false
}

impl Part {
    fn new(place: &Place, index: usize, directory: &Path) -> Result<Self> {
        let ground = match place {
            Place::This => Ground::here()?,
            Place::Ssh(host) => Ground::over_ssh(host)?,
            Place::Domain(name) => Ground::in_domain(name)?,
            Place::Emulated(_) | Place::SshPair { .. } | Place::Manager { .. } => {
                bail!("--machines takes existing machines: this, ssh:HOST, domain:NAME")
            }
        };
        let scratch = ground.machine().make_private_directory("load")?;
        let directory = format!("{}/machine-{}", directory.display(), index + 1);
        ground.machine().make_directory(&directory)?;
        Ok(Self { ground, name: place.to_string(), index, scratch, directory })
    }

    fn machine(&self) -> &Machine {
        self.ground.machine()
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.scratch)
    }

    /// The command for one machine: the user's, with a directory and a seed of its own.
    fn argv(&self, arguments: &WmlArguments) -> Vec<String> {
        let mut argv: Vec<String> = ["{nestor}", "load", "wml"].map(str::to_owned).into();
        argv.push(self.file("script.f"));
        argv.extend(["--dir".to_owned(), self.directory.clone()]);
        argv.extend(["--result".to_owned(), self.file("result.json")]);
        argv.extend(["--ready-file".to_owned(), self.file("ready"), "--go-file".to_owned(), self.file("go")]);
        argv.extend(["--stop-file".to_owned(), self.file("stop")]);
        argv.push(format!("--seed={}", arguments.seed.wrapping_add(self.index as u64)));
        argv.push(format!("--data-seed={}", arguments.data_seed));
        let mut option =
            |name: &str, value: Option<String>| argv.extend(value.map(|v| format!("--{name}={v}")));
        option("time", arguments.time.map(|s| s.to_string()));
        option("operations", arguments.operations.map(|n| n.to_string()));
        option("open-loop", arguments.open_loop.map(|n| n.to_string()));
        option("memory-multiple", arguments.memory_multiple.map(|n| n.to_string()));
        option(
            "scale",
            arguments.scale.map(|how| match how {
                Scale::Tiny => "tiny".to_owned(),
                Scale::Factor(factor) => factor.to_string(),
                Scale::Bytes(_) => unreachable!("--scale does not take bytes"),
            }),
        );
        option("file-scale", arguments.file_scale.map(|factor| factor.to_string()));
        argv.extend(arguments.set.iter().map(|(name, value)| format!("--set={name}={value}")));
        argv.extend(arguments.overwrite.iter().map(|path| format!("--overwrite={}", path.display())));
        let switches = [
            ("--cached", arguments.cached),
            ("--remove", arguments.remove),
            ("--no-system", arguments.no_system),
            ("--prepare", arguments.prepare),
            ("--prepared", arguments.prepared),
        ];
        argv.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()));
        argv
    }

    fn run(&self, argv: Vec<String>, script: &[u8]) -> Result<FlowReport> {
        let machine = self.machine();
        machine.create_file(&self.file("script.f"), script)?;
        let finished = machine.run(Command::new(argv).timeout_s(PATIENCE_S))?;
        let text = machine.read_file(&self.file("result.json"));
        let text =
            text.map_err(|_| anyhow!("on {}: {}", self.name, why_it_ended(&finished.stderr_text())))?;
        serde_json::from_slice(&text).with_context(|| format!("the result of {} cannot be read", self.name))
    }

    /// The user's directory keeps what the script made; what was put beside the agent goes with it.
    fn clean(&self) {
        // Only if nothing is left in it.
        let _ =
            self.machine().run(Command::new(["rmdir", "--ignore-fail-on-non-empty", "--", &self.directory]));
    }
}
