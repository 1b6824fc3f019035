//! The file of a program for x86-64, and what its loader says that it needs.

use std::path::PathBuf;

/// Where the header of an ELF file has its machine, its list of segments and their size and number (elf(5)).
const MACHINE_AT: usize = 18;
const SEGMENTS_AT: usize = 32;
const SEGMENT_BYTES_AT: usize = 54;
const SEGMENTS_NUMBER_AT: usize = 56;
/// `EM_X86_64`.
const X86_64: u16 = 62;
/// `PT_INTERP`.
const INTERPRETER: u32 = 3;

/// What a file of a program says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// It has all of its libraries in it.
    Static,
    /// This loader loads its libraries.
    Loaded {
        /// Path of the loader.
        by: PathBuf,
    },
}

/// Reads the beginning of a program for x86-64; `None` of anything else.
pub fn program(file: &[u8]) -> Option<Program> {
    let is_elf_64 = file.starts_with(b"\x7fELF\x02\x01");
    if !is_elf_64 || u16_at(file, MACHINE_AT)? != X86_64 {
        return None;
    }
    let start = usize::try_from(u64_at(file, SEGMENTS_AT)?).ok()?;
    let bytes = usize::from(u16_at(file, SEGMENT_BYTES_AT)?);
    for index in 0..usize::from(u16_at(file, SEGMENTS_NUMBER_AT)?) {
        let segment = file.get(start.checked_add(index.checked_mul(bytes)?)?..)?;
        if u32_at(segment, 0)? == INTERPRETER {
            let at = usize::try_from(u64_at(segment, 8)?).ok()?;
            let length = usize::try_from(u64_at(segment, 32)?).ok()?;
            let path = file.get(at..at.checked_add(length)?)?;
            let path = std::str::from_utf8(path).ok()?.trim_end_matches('\0');
            return path.starts_with('/').then(|| Program::Loaded { by: PathBuf::from(path) });
        }
    }
    Some(Program::Static)
}

fn u16_at(file: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(file.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(file.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(file: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(file.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Reads what a loader lists (`ld.so --list PROGRAM`): each library by its name, and where it is.
///
/// # Errors
/// The libraries that it does not find.
pub fn libraries(listing: &str) -> Result<Vec<(String, PathBuf)>, Vec<String>> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for line in listing.lines() {
        // The kernel's own and the loader have no arrow.
        let Some((name, place)) = line.trim().split_once(" => ") else { continue };
        match place.rsplit_once(" (0x") {
            Some((path, _)) if path.starts_with('/') && !name.contains('/') => {
                found.push((name.to_owned(), PathBuf::from(path)));
            }
            Some(_) => {}
            None => missing.push(name.to_owned()),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(missing) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_programs_loader_is_the_one_that_the_system_uses() {
        // Nestor's tests run on x86-64 Linux, which has this shell.
        let shell = std::fs::read("/bin/sh").unwrap();
        let Some(Program::Loaded { by }) = program(&shell) else { panic!("/bin/sh has a loader") };
        let listing = std::process::Command::new(&by).args(["--list", "/bin/sh"]).output().unwrap();
        let listed = libraries(&String::from_utf8(listing.stdout).unwrap()).unwrap();
        assert!(listed.iter().any(|(name, path)| name == "libc.so.6" && path.is_file()), "{listed:?}");
    }

    #[test]
    fn a_listing_says_what_is_missing() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibz.so.1 => /lib/libz.so.1 (0x00007f54)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f55)\n";
        assert_eq!(libraries(listing), Ok(vec![("libz.so.1".to_owned(), PathBuf::from("/lib/libz.so.1"))]));
        let missing = libraries(&format!("{listing}\tlibfoo.so.2 => not found\n"));
        assert_eq!(missing, Err(vec!["libfoo.so.2".to_owned()]));
        assert_eq!(program(b"#!/bin/sh\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_program_or_are_not(mut bytes in prop::collection::vec(any::<u8>(), 0..400), is_elf: bool) {
            if is_elf && bytes.len() > 20 {
                bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
                bytes[18..20].copy_from_slice(&[62, 0]);
            }
            let _ = program(&bytes);
            let _ = libraries(&String::from_utf8_lossy(&bytes));
        }
    }
}
