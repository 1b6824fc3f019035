//! The few files that `nestor load` itself reads and makes beside a workload's.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// No script is as long; what is longer is something else.
const MOST_SCRIPT_BYTES: u64 = 16 << 20;

/// Reads a script. Only a regular file is one: a pipe could say something else to the next reader, or nothing for ever.
pub fn read_script(path: &Path) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK, opening a pipe without a writer would wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_SCRIPT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_SCRIPT_BYTES {
        let what = format!("a script has at most {} MiB", MOST_SCRIPT_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(bytes)
}

/// Makes a sign that others look for; it must not be there yet.
pub fn make_sign(path: &Path) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_sign_is_made_neither_twice_nor_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (sign, link, nowhere) =
            (folder.path().join("ready"), folder.path().join("link"), folder.path().join("nowhere"));
        make_sign(&sign).unwrap();
        assert!(make_sign(&sign).is_err());
        symlink(&nowhere, &link).unwrap();
        assert!(make_sign(&link).is_err() && !nowhere.exists());
    }

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
