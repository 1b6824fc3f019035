//! The few files that `nestor load` itself makes beside a workload's.

use std::io;
use std::path::Path;

/// Makes a sign that others look for; it must not be there yet.
pub fn make_sign(path: &Path) -> io::Result<()> {
    nestor_ownership::new_file(path, 0o600).map(drop)
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
}
