//! What programs say of errors of the kernel: the words of the C library, which with `LC_ALL=C` or `C.UTF-8` are always the same (glibc,
//! `sysdeps/gnu/errlist.h`).

/// `ENOSPC` and `EDQUOT`.
const NO_SPACE: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// `ENOMEM`.
const NO_MEMORY: &str = "Cannot allocate memory";
/// `ESTALE`.
const STALE: &str = "Stale file handle";

/// Whether a program complains that there is no space left.
pub fn says_no_space(output: &str) -> bool {
    NO_SPACE.iter().any(|words| output.contains(words))
}

/// Whether a program complains that there is no memory left.
pub fn says_no_memory(output: &str) -> bool {
    output.contains(NO_MEMORY)
}

/// Whether a program complains that a file server no longer has what the program had open.
pub fn says_stale(output: &str) -> bool {
    output.contains(STALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_this_machine_s_c_library() {
        let words = |number| std::io::Error::from_raw_os_error(number).to_string();
        // The numbers of Linux (include/uapi/asm-generic/errno.h).
        let [no_space, quota, no_memory, no_file, stale] = [28, 122, 12, 2, 116].map(words);
        assert!(says_no_space(&no_space) && says_no_space(&quota) && !says_no_space(&no_memory));
        assert!(says_no_memory(&no_memory) && !says_no_memory(&no_file));
        assert!(says_stale(&stale) && !says_stale(&no_file));
    }
}
