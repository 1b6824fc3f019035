//! The files that workloads name, scripts among them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use nestor_flowops::Source;
use nestor_text::units::ByteUnit;
use nestor_wml::Script;
use nestor_workload::Workload;

/// Looks at the files that a workload names before anything is built for it: they must be there, and a script must be
/// understood.
///
/// # Errors
/// What is wrong with the file.
pub fn check_files(workload: &Workload) -> Result<()> {
    if let Some(script) = workload.script() {
        return load(&script, &[]).map(|_| ());
    }
    for file in workload.files() {
        File::open(file).with_context(|| format!("cannot read {file}, which {workload} names"))?;
    }
    Ok(())
}

/// A script that was read.
pub struct Loaded {
    /// Where it came from.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Understood.
    pub script: Script,
}

/// Reads a script: a file, or one that comes with the program.
///
/// # Errors
/// When there is none, it is not understood, or it cannot run.
pub fn load(script: &str, set: &[(String, String)]) -> Result<Loaded> {
    let (name, bytes) = match nestor_workload::personality(script) {
        Some(text) if !Path::new(script).exists() => (format!("{script}.f"), text.as_bytes().to_vec()),
        _ => {
            let bytes = read_script(Path::new(script)).map_err(|e| {
                let names = nestor_workload::personality_names().join(", ");
                anyhow!("cannot read {script}: {e}\n  scripts that come with Nestor: {names}")
            })?;
            (script.to_owned(), bytes)
        }
    };
    let others = |other: &str| other_script(Path::new(script).parent(), other);
    let source = nestor_wml::Source::new(&name, &bytes).with_environment(&environment).with_loader(&others);
    let script = nestor_wml::parse(&source, set)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    nestor_flowops::check(&script, Source { name: &name, text: &text })?;
    Ok(Loaded { name, text, script })
}

/// What `$(NAME)` and `${name}` stand for: the environment, and a few names of the language's own.
fn environment(name: &str) -> Option<String> {
    match name {
        "date" => Some(jiff::Zoned::now().strftime("%Y-%m-%d-%H-%M").to_string()),
        "hostname" => {
            std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|text| text.trim().to_owned())
        }
        _ => std::env::var(name).ok(),
    }
}

/// The script of `load NAME`: beside the one that loads it, or one that comes with this program.
fn other_script(directory: Option<&Path>, name: &str) -> Option<Vec<u8>> {
    let beside = |name: String| read_script(&directory.unwrap_or(Path::new(".")).join(name)).ok();
    beside(name.to_owned())
        .or_else(|| beside(format!("{name}.f")))
        .or_else(|| nestor_workload::personality(name).map(|text| text.as_bytes().to_vec()))
}

/// No script is as long; what is longer is something else.
const MOST_SCRIPT_BYTES: u64 = 16 << 20;

/// Reads a script. Only a regular file is one: a pipe could say something else to the next reader, or nothing for ever.
fn read_script(path: &Path) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK, opening a pipe without a writer would wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_SCRIPT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_SCRIPT_BYTES {
        let what = format!("a script has at most {}", ByteUnit::MiB.whole(MOST_SCRIPT_BYTES));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long.f");
        File::create(&long).unwrap().set_len(MOST_SCRIPT_BYTES + 1).unwrap();
        assert!(read_script(&long).unwrap_err().to_string().contains("at most 16 MiB"));
        assert!(read_script(folder.path()).unwrap_err().to_string().contains("not a regular file"));
        assert!(read_script(Path::new("/dev/zero")).is_err());
    }
}
