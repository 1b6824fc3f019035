//! The archive format of a Linux initramfs, "newc": a writer for the few kinds of entries a lab machine needs.
//!
//! Source: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. An entry is a header of 110 ASCII
//! characters, the name with its terminating zero, and the data; name and data are each padded to four bytes. The
//! kernel accepts several archives one after the other when each begins on a four-byte boundary.

use std::io::{self, Read, Write};

/// The type bits of a mode (POSIX `S_IFDIR`, `S_IFREG`, `S_IFCHR`).
const DIRECTORY: u32 = 0o040000;
const REGULAR_FILE: u32 = 0o100000;
const CHARACTER_DEVICE: u32 = 0o020000;

/// The name that ends an archive.
const TRAILER: &str = "TRAILER!!!";

/// Finished archives are padded to this, as `cpio` itself does: archives can then be joined without another look.
const BLOCK_BYTES: u64 = 512;

/// Writes one archive. All entries belong to root and carry the time 0, so that equal contents give equal bytes.
pub struct CpioWriter<W: Write> {
    out: W,
    written: u64,
    next_inode: u32,
}

/// The fields of a header that differ between entries.
struct Entry<'a> {
    name: &'a str,
    mode: u32,
    links: u32,
    size: u32,
    device: (u32, u32),
}

impl<W: Write> CpioWriter<W> {
    /// An archive that begins at the present position of `out`.
    pub fn new(out: W) -> Self {
        CpioWriter { out, written: 0, next_inode: 1 }
    }

    /// A directory with mode 0755. Directories precede what lies in them.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.header(&Entry { name, mode: DIRECTORY | 0o755, links: 2, size: 0, device: (0, 0) })
    }

    /// A character device with mode 0600.
    pub fn character_device(&mut self, name: &str, major: u32, minor: u32) -> io::Result<()> {
        let mode = CHARACTER_DEVICE | 0o600;
        self.header(&Entry { name, mode, links: 1, size: 0, device: (major, minor) })
    }

    /// A regular file of `size` bytes, which are read from `data`.
    ///
    /// # Errors
    /// Also when `data` ends before or after `size` bytes, or when `size` does not fit the format's 32 bits.
    pub fn file(&mut self, name: &str, permissions: u32, size: u64, mut data: impl Read) -> io::Result<()> {
        let size32 = u32::try_from(size).map_err(|_| {
            invalid(format!("{name} has {size} bytes; a cpio archive holds files below 4 GiB"))
        })?;
        let mode = REGULAR_FILE | permissions;
        self.header(&Entry { name, mode, links: 1, size: size32, device: (0, 0) })?;
        let copied = io::copy(&mut (&mut data).take(size), &mut self.out)?;
        self.written += copied;
        if copied != size || data.read(&mut [0])? != 0 {
            return Err(invalid(format!("{name} changed its size while it was being archived")));
        }
        self.pad(4)
    }

    /// Ends the archive and gives back what it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.next_inode = 0;
        self.header(&Entry { name: TRAILER, mode: 0, links: 1, size: 0, device: (0, 0) })?;
        self.pad(BLOCK_BYTES)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn header(&mut self, entry: &Entry) -> io::Result<()> {
        let name_size = entry.name.len() as u32 + 1;
        let fields = [
            self.next_inode,
            entry.mode,
            0, // user
            0, // group
            entry.links,
            0, // modification time
            entry.size,
            0, // device the file lies on
            0,
            entry.device.0,
            entry.device.1,
            name_size,
            0, // checksum, unused in this variant
        ];
        let mut header = String::with_capacity(110);
        header.push_str("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        self.put(header.as_bytes())?;
        self.put(entry.name.as_bytes())?;
        self.put(&[0])?;
        self.next_inode += 1;
        self.pad(4)
    }

    fn pad(&mut self, boundary: u64) -> io::Result<()> {
        let missing = self.written.next_multiple_of(boundary) - self.written;
        self.put(&vec![0; missing as usize])
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut writer = CpioWriter::new(Vec::new());
        writer.directory("d").unwrap();
        for (name, data) in files {
            writer.file(name, 0o644, data.len() as u64, data.as_slice()).unwrap();
        }
        writer.finish().unwrap()
    }

    /// Runs the real `cpio` in `directory` with the archive on its input.
    fn real_cpio(arguments: &[&str], archive: &[u8], directory: &std::path::Path) -> String {
        let mut child = Command::new("cpio")
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("cpio is among the packages that scripts/install-packages installs");
        child.stdin.take().unwrap().write_all(archive).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "cpio refused the archive");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn the_first_header_is_as_specified() {
        let bytes = archive(&[]);
        let fields = "00000001 000041ED 00000000 00000000 00000002 00000000 00000000 \
            00000000 00000000 00000000 00000000 00000002 00000000";
        let expected = format!("070701{}d\0", fields.replace(' ', ""));
        assert_eq!(std::str::from_utf8(&bytes[..112]).unwrap(), expected);
        assert_eq!(bytes.len() % 512, 0);
    }

    #[test]
    fn the_real_cpio_extracts_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            (0..9).map(|n| (format!("d/file-{}", "x".repeat(n)), vec![n as u8; n * 511])).collect();
        let bytes = archive(&files);
        let mut names = vec!["d".to_owned()];
        names.extend(files.iter().map(|(name, _)| name.clone()));
        assert_eq!(real_cpio(&["-t"], &bytes, directory.path()).lines().collect::<Vec<_>>(), names);
        real_cpio(&["-i", "-d"], &bytes, directory.path());
        for (name, data) in &files {
            assert_eq!(&std::fs::read(directory.path().join(name)).unwrap(), data);
        }
    }

    #[test]
    fn the_real_cpio_lists_devices_and_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = CpioWriter::new(Vec::new());
        writer.character_device("console", 5, 1).unwrap();
        writer.file("init", 0o755, 3, &b"abc"[..]).unwrap();
        let listing = real_cpio(&["-tvn"], &writer.finish().unwrap(), directory.path());
        let fields: Vec<Vec<_>> = listing.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(&fields[0][..6], ["crw-------", "1", "0", "0", "5,", "1"]);
        assert_eq!(&fields[1][..5], ["-rwxr-xr-x", "1", "0", "0", "3"]);
    }

    #[test]
    fn a_file_that_changes_its_size_is_refused() {
        for claimed in [2, 4] {
            let mut writer = CpioWriter::new(Vec::new());
            let error = writer.file("init", 0o755, claimed, &b"abc"[..]).unwrap_err();
            assert!(error.to_string().contains("init changed its size"), "{error}");
        }
        let mut writer = CpioWriter::new(Vec::new());
        let error = writer.file("init", 0o755, 1 << 32, io::repeat(0)).unwrap_err();
        assert!(error.to_string().contains("below 4 GiB"), "{error}");
    }

    proptest! {
        /// Whatever the lengths of names and data, each entry begins where the ones before it end.
        #[test]
        fn entries_are_found_where_the_headers_say(
            files in prop::collection::vec(("[a-z]{1,9}", prop::collection::vec(any::<u8>(), 0..40)), 0..6)
        ) {
            let bytes = archive(&files);
            let mut at = 0;
            let mut found = Vec::new();
            loop {
                prop_assert_eq!(&bytes[at..at + 6], b"070701");
                let field = |n: usize| {
                    let digits = &bytes[at + 6 + 8 * n..at + 14 + 8 * n];
                    usize::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
                };
                let (size, name_size) = (field(6), field(11));
                let name = std::str::from_utf8(&bytes[at + 110..at + 110 + name_size - 1]).unwrap().to_owned();
                let data_at = (at + 110 + name_size).next_multiple_of(4);
                if name == TRAILER {
                    break;
                }
                found.push((name, bytes[data_at..data_at + size].to_vec()));
                at = (data_at + size).next_multiple_of(4);
            }
            prop_assert_eq!(&found[1..], &files[..]);
        }
    }
}
