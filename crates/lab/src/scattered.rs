//! An image file whose space lies in many pieces, as on a file system that has long been in use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nestor_stack::Bytes;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// Bytes of a piece: small compared with a disk's sequential reads, large enough to keep the file system's own maps
/// small.
const PIECE: u64 = Bytes::kib(256).get();
/// One of this many pieces of the space goes to the image, so that its next piece is several tracks away.
const ONE_OF: u64 = 8;

/// Why the image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ScatteredError {
    /// The file system does not do what is needed.
    #[error(
        "{path} could not be allocated in scattered pieces: {step}: {source}; alloc=scattered needs a file \
         system with fallocate and \
         holes that free their space (ext4, xfs, f2fs)"
    )]
    Step {
        /// The image.
        path: PathBuf,
        /// What was being done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// There is too little room for its pieces to lie apart.
    #[error(
        "{path} of {wanted} MiB cannot be allocated in scattered pieces: this needs twice its size, but \
         only {available} MiB are free; set a smaller size= for the image"
    )]
    Room {
        /// The image.
        path: PathBuf,
        /// Its size.
        wanted: u64,
        /// Free space.
        available: u64,
    },
}

/// Makes a file of `bytes` whose reserved space lies in many pieces.
///
/// A second file takes all space there is, gives back every few pieces of it, the image is reserved in those, and the
/// second file is removed. On btrfs a hole in an extent frees nothing, so that it is refused there.
///
/// # Errors
/// See [`ScatteredError`]. What was made is removed again.
pub fn make_scattered(path: &Path, bytes: u64) -> Result<(), ScatteredError> {
    let filler_path = path.with_extension("filler");
    // A file that exists already was made by another program, so it is not removed.
    let create = |path: &Path, step: &'static str| {
        nestor_ownership::new_file(path, 0o666).map_err(|source| ScatteredError::Step {
            path: path.to_owned(),
            step,
            source,
        })
    };
    let image = create(path, "making the file")?;
    let made = create(&filler_path, "making a second file").and_then(|filler| {
        let made = scatter(path, &image, &filler, bytes);
        let _ = std::fs::remove_file(&filler_path);
        made
    });
    if made.is_err() {
        let _ = std::fs::remove_file(path);
    }
    made
}

fn scatter(path: &Path, image: &File, filler: &File, bytes: u64) -> Result<(), ScatteredError> {
    let failed = |step: &'static str| {
        move |source: io::Error| ScatteredError::Step { path: path.to_owned(), step, source }
    };
    let free = fstatvfs(filler).map_err(|e| failed("asking for free space")(e.into()))?;
    let available = free.f_bfree * free.f_frsize;
    if available / 2 < bytes {
        let mib = |bytes: u64| bytes >> 20;
        return Err(ScatteredError::Room {
            path: path.to_owned(),
            wanted: mib(bytes),
            available: mib(available),
        });
    }
    let filled = fill(filler, available).map_err(failed("reserving space"))?;
    give_back(filler, filled, bytes).map_err(failed("giving back pieces"))?;
    image.set_len(bytes).map_err(failed("setting its size"))?;
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(PIECE);
        reserve(image, at, length).map_err(failed("reserving its pieces"))?;
        at += length;
    }
    image.sync_all().map_err(failed("writing it out"))
}

/// Lets a file take nearly all space; returns how much it took.
fn fill(filler: &File, available: u64) -> io::Result<u64> {
    let mut filled = 0;
    let mut step = available;
    while step >= PIECE {
        match fallocate(filler, FallocateFlags::empty(), filled, step) {
            Ok(()) => filled += step,
            Err(rustix::io::Errno::NOSPC) => step /= 2,
            Err(e) => return Err(e.into()),
        }
    }
    filler.sync_all()?;
    Ok(filled)
}

/// Punches pieces out of a file: every few at first, then those between if more are needed.
fn give_back(filler: &File, filled: u64, bytes: u64) -> io::Result<()> {
    // A tenth more than the image: the file system's own maps need some.
    let mut needed = bytes + bytes / 10;
    for first in 0..ONE_OF {
        let mut at = first * PIECE;
        while needed > 0 && at + PIECE <= filled {
            fallocate(filler, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, PIECE)?;
            needed = needed.saturating_sub(PIECE);
            at += ONE_OF * PIECE;
        }
    }
    // Freed blocks can be reused only once the transaction that freed them is on the disk.
    filler.sync_all()
}

/// Reserves a piece. What was given back a moment ago can be taken only when the transaction that freed it is on the
/// disk and its blocks have been handed back, which file systems do in the background.
fn reserve(image: &File, at: u64, length: u64) -> io::Result<()> {
    const ATTEMPTS: u32 = 20;
    for attempt in 1.. {
        match fallocate(image, FallocateFlags::empty(), at, length) {
            Err(rustix::io::Errno::NOSPC) if attempt < ATTEMPTS => {
                rustix::fs::syncfs(image)?;
                std::thread::sleep(Duration::from_millis(100));
            }
            reserved => return Ok(reserved?),
        }
    }
    unreachable!("the last attempt returns")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn files_that_are_there_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [image, filler] = ["disk.raw", "disk.filler"].map(|name| folder.path().join(name));
        std::fs::write(&image, "mine").unwrap();
        make_scattered(&image, 1 << 20).unwrap_err();
        assert_eq!(std::fs::read_to_string(&image).unwrap(), "mine");
        std::fs::rename(&image, &filler).unwrap();
        make_scattered(&image, 1 << 20).unwrap_err();
        assert_eq!(std::fs::read_to_string(&filler).unwrap(), "mine");
        assert!(!image.exists(), "what was made is removed");
    }

    /// Runs a program; whether it succeeded.
    fn run(argv: &[&str]) -> bool {
        let ran = Command::new(argv[0]).args(&argv[1..]).output();
        ran.is_ok_and(|output| output.status.success())
    }

    #[test]
    fn its_space_lies_in_many_pieces() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not root: no file system can be mounted, not tried");
            return;
        }
        for (file_system, mkfs) in [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs")] {
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let disk = directory.path().join("disk");
            File::create(&disk).unwrap().set_len(1 << 30).unwrap();
            let mounted = directory.path().join("mounted");
            std::fs::create_dir(&mounted).unwrap();
            let (disk, mount_point) = (disk.to_str().unwrap(), mounted.to_str().unwrap());
            if !run(&[mkfs, disk]) || !run(&["mount", "-o", "loop", disk, mount_point]) {
                eprintln!("{file_system} cannot be mounted here: not tried");
                continue;
            }
            let image = mounted.join("image.raw");
            let made = make_scattered(&image, 100 << 20);
            let pieces = Command::new("filefrag").arg(&image).output();
            let too_large = make_scattered(&mounted.join("large.raw"), 10 << 30);
            let left: Vec<_> = std::fs::read_dir(&mounted).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert!(run(&["umount", mount_point]));
            assert!(made.is_ok(), "{file_system}: {made:?}");
            assert!(matches!(too_large, Err(ScatteredError::Room { .. })), "{too_large:?}");
            assert!(!left.iter().any(|name| name == "image.filler" || name == "large.raw"), "{left:?}");
            let Ok(pieces) = pieces else {
                eprintln!("filefrag is not installed: pieces not counted");
                continue;
            };
            let text = String::from_utf8_lossy(&pieces.stdout).into_owned();
            let count = text.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or(0);
            assert!(count >= 200, "{file_system}: {text}");
        }
    }
}
