//! By which handles a server of NFS knows its files.
//!
//! The kernel's events name a file by a hash of its handle (fs/nfsd/nfsfh.h, `knfsd_fh_hash`): the CRC-32 of all its bytes. The server tells the
//! handle that it would give a client for a path (`filehandle` of nfsd(7)).

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::Path;

use nestor_trace::TraceError;
use serde::{Deserialize, Serialize};

/// Where the server tells handles.
const FILE_HANDLE: &str = "/proc/fs/nfsd/filehandle";

/// The clients that the server knows, a line each: the program, the address, and the name under which exports have it.
const CLIENTS: &str = "/proc/net/rpc/auth.unix.ip/content";

/// The most bytes of a handle (RFC 8881, section 3.1, `NFS4_FHSIZE`).
const MOST_BYTES: usize = 128;

/// The most files whose handles are asked for: some ten seconds of an emulated machine.
const MOST_FILES: usize = 50_000;

/// Files of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHandles {
    /// The hash of each file's handle, and its inode.
    pub files: Vec<(u32, u64)>,
    /// Files that are not among them: more than are asked for, or without a handle.
    pub is_short: bool,
}

/// Asks the server for the handles of the files in an exported directory and in those below it on the same file system. Needs root.
///
/// # Errors
/// The directory is not exported, or no client has used it.
pub fn file_handles(directory: &Path) -> Result<FileHandles, TraceError> {
    let client = client_of(directory)?;
    let exported = fs::metadata(directory).map_err(TraceError::io("look at", directory))?.dev();
    let mut found = FileHandles::default();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        // One that is gone by now has no files.
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                let is_exported = entry.metadata().is_ok_and(|of_directory| of_directory.dev() == exported);
                directories.extend(is_exported.then(|| entry.path()));
            } else if kind.is_file() {
                if found.files.len() == MOST_FILES {
                    return Ok(FileHandles { is_short: true, ..found });
                }
                match handle(&client, &entry.path()) {
                    Ok(bytes) => found.files.push((crc32fast::hash(&bytes), entry.ino())),
                    Err(_) => found.is_short |= entry.path().exists(),
                }
            }
        }
    }
    Ok(found)
}

/// The first client that the directory is exported to.
fn client_of(directory: &Path) -> Result<String, TraceError> {
    let known =
        fs::read_to_string(CLIENTS).map_err(TraceError::io("read the clients of the server", CLIENTS))?;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the server has no client");
    for client in clients(&known) {
        match handle(client, directory) {
            Ok(_) => return Ok(client.to_owned()),
            Err(e) => failed = e,
        }
    }
    Err(TraceError::io("ask for the handle of", directory)(failed))
}

/// The names of clients in what the kernel prints.
fn clients(content: &str) -> impl Iterator<Item = &str> {
    content.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["nfsd", _, name] => Some(name),
        _ => None,
    })
}

fn handle(client: &str, path: &Path) -> io::Result<Vec<u8>> {
    let mut control = OpenOptions::new().read(true).write(true).open(FILE_HANDLE)?;
    control.write_all(&question(client, path))?;
    let mut answer = String::new();
    control.read_to_string(&mut answer)?;
    bytes_of(&answer)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("the server answered `{answer}`")))
}

/// The client, the path and the most bytes of the handle, as the kernel reads words (net/sunrpc/cache.c, `qword_get`).
fn question(client: &str, path: &Path) -> Vec<u8> {
    let mut text = client.as_bytes().to_vec();
    text.push(b' ');
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\\' | 0..=b' ' | 0x7f.. => text.extend(format!("\\{byte:03o}").bytes()),
            plain => text.push(*plain),
        }
    }
    text.extend(format!(" {MOST_BYTES}\n").bytes());
    text
}

/// The bytes of `\x0100…`.
fn bytes_of(answer: &str) -> Option<Vec<u8>> {
    let digits = answer.trim().strip_prefix("\\x")?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect::<Option<Vec<u8>>>()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_asked_for_as_the_kernel_reads_them() {
        let asked = question("10.78.1.2", Path::new("/srv/a b\\c"));
        assert_eq!(asked, b"10.78.1.2 /srv/a\\040b\\134c 128\n");
    }

    #[test]
    fn an_answer_is_a_handle_in_whole_bytes() {
        assert_eq!(bytes_of("\\x010001ff\n"), Some(vec![1, 0, 1, 255]));
        for odd in ["", "\\x", "\\x010", "0101", "\\x01zz"] {
            assert_eq!(bytes_of(odd), (odd == "\\x").then(Vec::new), "{odd}");
        }
    }

    #[test]
    fn clients_without_a_name_are_none() {
        let content = "#class IP domain\nnfsd 10.78.1.2 10.78.1.2\n# nfsd 10.78.1.9 -no-domain-\n";
        assert_eq!(clients(content).collect::<Vec<_>>(), ["10.78.1.2"]);
    }

    #[test]
    fn the_hash_is_the_crc_that_the_kernel_prints() {
        // `~crc32_le(0xFFFFFFFF, …)`: the check value of CRC-32/ISO-HDLC.
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }
}
