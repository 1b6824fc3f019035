//! How this program says on standard error what went wrong. One copy of it may run another, on another machine too, and then its
//! words are part of a sentence of the first.

/// Stands before an error that ends the program.
pub const ERROR: &str = "error: ";

/// Stands before what is worth knowing but ends nothing.
pub const WARNING: &str = "warning: ";

/// Why another copy of this program ended, from what it left on standard error: its error, without the warnings.
pub fn why_it_ended(stderr: &str) -> String {
    let said = stderr.lines().filter(|line| !line.starts_with(WARNING)).collect::<Vec<_>>().join("\n");
    let said = said.trim();
    said.strip_prefix(ERROR).unwrap_or(said).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read_as_it_is_written() {
        assert_eq!(why_it_ended(&format!("{WARNING}a\n{ERROR}no file\n  x\n")), "no file\n  x");
        assert_eq!(why_it_ended("killed\n"), "killed");
        assert_eq!(why_it_ended(""), "");
    }
}
