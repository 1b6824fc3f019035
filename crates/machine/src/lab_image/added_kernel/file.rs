//! The file of a kernel for x86 (Documentation/arch/x86/boot.rst).

/// Where the header has its signature.
const SIGNATURE_AT: usize = 0x202;
const SIGNATURE: &[u8] = b"HdrS";
/// Where the header has the position of the version, less 0x200.
const VERSION_AT: usize = 0x20e;
/// The longest version that is read.
const LONGEST_VERSION: usize = 400;

/// What a kernel says of its version, its release first: `6.1.0-50-amd64 (debian-kernel@…) #1 SMP …`. `None` of what is no such file.
pub fn kernel_version(file: &[u8]) -> Option<&str> {
    if file.get(SIGNATURE_AT..)?.get(..SIGNATURE.len())? != SIGNATURE {
        return None;
    }
    let pointer = u16::from_le_bytes(file.get(VERSION_AT..VERSION_AT + 2)?.try_into().ok()?);
    let text = file.get(usize::from(pointer) + 0x200..)?;
    let end = text.iter().take(LONGEST_VERSION).position(|byte| *byte == 0)?;
    let version = std::str::from_utf8(&text[..end]).ok()?;
    let release = version.split(' ').next().unwrap_or_default();
    // It becomes the name of a directory.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+~".contains(&byte);
    let is_release =
        release.starts_with(|first: char| first.is_ascii_digit()) && release.bytes().all(is_plain);
    (is_release && !version.chars().any(char::is_control)).then_some(version)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_version(version: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 0x300];
        file[SIGNATURE_AT..SIGNATURE_AT + 4].copy_from_slice(SIGNATURE);
        file[VERSION_AT..VERSION_AT + 2].copy_from_slice(&0x100_u16.to_le_bytes());
        file.extend_from_slice(version);
        file
    }

    #[test]
    fn the_version_is_where_the_header_says() {
        let version =
            "6.1.0-50-amd64 (debian-kernel@lists.debian.org) #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1";
        let file = of_version(format!("{version}\0rest").as_bytes());
        assert_eq!(kernel_version(&file), Some(version));
    }

    #[test]
    fn what_is_no_kernel_has_no_version() {
        assert_eq!(kernel_version(b"MZ"), None);
        assert_eq!(kernel_version(&[0; 0x400]), None);
        for wrong in [&b"6.1"[..], b"", b"../../etc 1\0", b"x6.1\0", b"6.1/..\0", b"6.1 \n\0"] {
            assert_eq!(kernel_version(&of_version(wrong)), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            mut file in prop::collection::vec(any::<u8>(), 0..1200), is_signed in any::<bool>()
        ) {
            if is_signed && file.len() > SIGNATURE_AT + 4 {
                file[SIGNATURE_AT..SIGNATURE_AT + 4].copy_from_slice(SIGNATURE);
            }
            if let Some(version) = kernel_version(&file) {
                prop_assert!(!version.contains('\0') && version.len() < LONGEST_VERSION);
            }
        }
    }
}
