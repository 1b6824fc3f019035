//! Where requests lie while they are joined: a directory that goes away afterwards, or the user's own, which stays.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::CellRequest;

/// A directory for one cell's requests.
pub(super) struct Scratch {
    path: PathBuf,
    keep: bool,
}

/// Makes directories of one process distinct.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Scratch {
    /// Makes it: in the user's directory if there is one, else where scratch files of this program go.
    pub fn of(request: &CellRequest<'_>) -> io::Result<Self> {
        let (path, keep) = match request.trace_to {
            Some(directory) => (directory.join(name_of(request)), true),
            None => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("nestor-requests-{}-{number}", std::process::id());
                // As for agents: large, so not in /tmp, which may be memory.
                let base = std::env::var_os("NESTOR_WORK").map_or_else(|| "/var/tmp".into(), PathBuf::from);
                (base.join(name), false)
            }
        };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self { path, keep })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the user wants to have what is in it.
    pub fn is_kept(&self) -> bool {
        self.keep
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// `003-ext3.kvm.raw.jfs.hdd-fio.seq-write-block0`: in the order in which cells ran, readable, without slashes.
fn name_of(request: &CellRequest<'_>) -> String {
    let plain = |text: String| -> String {
        let kept = text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_=".contains(c) { c } else { '.' });
        kept.take(80).collect()
    };
    let (stack, workload) = (plain(request.stack.to_string()), plain(request.workload.to_string()));
    format!("{:03}-{stack}-{workload}-block{}", request.position, request.block)
}
