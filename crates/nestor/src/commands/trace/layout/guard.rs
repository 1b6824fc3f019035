//! A process beside this one that thaws a file system if this one is killed while it is frozen.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::freeze::thaw;

/// What it says when it is ready, and what it is told when it is not needed any more.
const READY: &str = "ready";
const DISMISSED: u8 = b'd';

/// The process. It thaws unless it is dismissed.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn of(mount: &Path) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["trace", "thaw-when-left"]).arg(mount);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own, so that ending the group of this process does not end it.
        let mut child = command.process_group(0).spawn().context("no process could be started")?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said).context("it did not answer")?;
        }
        if said.trim_end() != READY {
            let _ = child.wait();
            bail!("{} could not be opened a second time", mount.display());
        }
        Ok(Self(child))
    }

    /// It is not needed any more.
    pub(super) fn dismiss(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(&[DISMISSED]);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Arguments of `nestor trace thaw-when-left`.
#[derive(Args, Debug)]
pub struct GuardArguments {
    /// A mounted file system
    mount: PathBuf,
}

/// Waits until standard input ends; thaws the file system then, unless it was told before that there is no need.
///
/// # Errors
/// When the file system cannot be opened.
pub fn run(arguments: &GuardArguments) -> Result<()> {
    let shown = arguments.mount.display();
    let directory = File::open(&arguments.mount).with_context(|| format!("{shown} could not be opened"))?;
    outln!("{READY}");
    let mut told = Vec::new();
    // An end by an error is an end.
    let _ = std::io::stdin().read_to_end(&mut told);
    if !told.contains(&DISMISSED) {
        // Refused if it is not frozen.
        let _ = thaw(&directory);
    }
    Ok(())
}
