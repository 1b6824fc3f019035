//! Words for a shell.

/// Characters that mean nothing to a POSIX shell within a word.
const PLAIN: &str = "-_=./,:+%@^";

/// A word as a POSIX shell reads it back: unchanged, or in single quotes.
pub fn shell_quoted(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || PLAIN.contains(c)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_what_needs_quotes_has_them() {
        assert_eq!(shell_quoted("/srv/a.img"), "/srv/a.img");
        assert_eq!(shell_quoted("/srv/it's $HOME; rm"), r"'/srv/it'\''s $HOME; rm'");
        assert_eq!(shell_quoted(""), "''");
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(32))]

        #[test]
        fn a_shell_reads_every_word_back(word in "[^\0]{0,12}") {
            let script = format!("printf %s {}", shell_quoted(&word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            proptest::prop_assert_eq!(output.stdout, word.into_bytes());
        }
    }
}
