//! A line of input with a mark under the part that is wrong.

use std::fmt;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

/// Prints as two lines, both indented by two blanks: the line, and carets under a part of it with a message about it.
///
/// ```text
///   ext4/kvm/jfs/hdd
///            ^^^ kvm needs a block device or an image below it; jfs offers a directory
/// ```
#[derive(Debug)]
pub struct Marked<'a, T> {
    /// The line.
    pub line: &'a str,
    /// The bytes of it that are marked; may be empty where something is missing.
    pub span: Range<usize>,
    /// The message about them.
    pub message: T,
}

impl<T: fmt::Display> fmt::Display for Marked<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, carets) = line_and_carets(self.line, &self.span);
        writeln!(f, "  {line}")?;
        write!(f, "  {carets} {}", self.message)
    }
}

/// A line as it is shown, and the line of carets under a part of it.
pub fn line_and_carets(line: &str, span: &Range<usize>) -> (String, String) {
    // What moves the cursor would move the carets away from what they point at.
    let shown = |text: &str| crate::visible_in_columns(text).replace('\n', "\\n");
    let width = |span| shown(line.get::<Range<usize>>(span).unwrap_or_default()).width();
    let (indent, carets) = (width(0..span.start), width(span.clone()).max(1));
    (shown(line), format!("{:indent$}{}", "", "^".repeat(carets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_what_is_shown() {
        let marked = |line, span| Marked { line, span, message: "no" }.to_string();
        assert_eq!(marked("ext4/kmv", 5..8), "  ext4/kmv\n       ^^^ no");
        assert_eq!(marked("日本/x", 7..8), "  日本/x\n       ^ no");
        assert_eq!(marked("a\tb\n", 2..3), "  a\\tb\\n\n     ^ no");
        assert_eq!(marked("ab", 2..2), "  ab\n    ^ no");
        assert_eq!(marked("ä", 1..9), "  ä\n  ^ no");
    }
}
