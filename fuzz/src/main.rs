//! Coverage-guided fuzzing of everything that reads what others wrote, with libFuzzer. `scripts/fuzz` builds and runs it.
//!
//! One program has all targets, for it takes long to build: `NESTOR_FUZZ_TARGET` chooses one. With
//! `NESTOR_FUZZ_SEEDS=DIRECTORY` it writes a directory of seeds for each target, prints the targets' names and ends.

#![no_main]

mod answers;
mod descriptions;
mod images;
mod joins;
mod managers;
mod seeds;
mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use targets::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fn choose() {
    if let Some(directory) = std::env::var_os("NESTOR_FUZZ_SEEDS") {
        let status = match seeds::write(directory.as_ref()) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("the seeds cannot be written: {error}");
                1
            }
        };
        std::process::exit(status);
    }
    let name = std::env::var("NESTOR_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = targets::find(&name) else {
        eprintln!("NESTOR_FUZZ_TARGET={name:?} is no target; they are: {}", targets::names().join(" "));
        std::process::exit(2);
    };
    TARGET.get_or_init(|| target);
}

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(data);
    }
});
