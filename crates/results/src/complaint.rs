//! How an error in a study file is reported: file, line, column, the line itself, a caret, and what to write instead.

use std::fmt;
use std::ops::Range;

use nestor_text::line_and_carets;

/// One thing that is wrong in a study file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The file's name as it was given.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead; may have several lines.
    pub help: Option<String>,
    /// The line, as it is shown, and what stands under it. Boxed, because results carry complaints.
    marked: Box<(String, String)>,
}

/// A study file's text, which positions refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The file's name as it was given.
    pub file: &'a str,
    /// Its content.
    pub text: &'a str,
}

impl Source<'_> {
    /// Complains about the bytes `span` of the text.
    pub fn complain(&self, span: Range<usize>, message: impl Into<String>) -> Complaint {
        let start = floor_char_boundary(self.text, span.start);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |i| start + i);
        let end = floor_char_boundary(self.text, span.end).clamp(start, line_end);
        // Blanks at the end are kept until the carets are drawn, which may point there.
        let line = &self.text[line_start..line_end];
        let kept = line.trim_end();
        let line_shown = kept.replace('\t', " ") + &" ".repeat(line.len() - kept.len());
        let (text, carets) = line_and_carets(&line_shown, &(start - line_start..end - line_start));
        Complaint {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            message: message.into(),
            help: None,
            marked: Box::new((text.trim_end().to_owned(), carets)),
        }
    }
}

impl Complaint {
    /// Adds what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Everything that is wrong in a study file, in the order of the file; never empty as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaints(Vec<Complaint>);

impl Complaints {
    /// What a part of the file is, unless something is wrong with it.
    pub(crate) fn take<T>(&mut self, part: Result<T, Complaint>) -> Option<T> {
        part.map_err(|complaint| self.0.push(complaint)).ok()
    }

    /// What the whole file is, if nothing is wrong in it; each thing once.
    pub(crate) fn finish<T>(mut self, whole: Option<T>) -> Result<T, Self> {
        self.0.sort_by_key(|complaint| (complaint.line, complaint.column));
        self.0.dedup();
        match whole {
            Some(whole) if self.0.is_empty() => Ok(whole),
            _ => Err(self),
        }
    }
}

impl From<Complaint> for Complaints {
    fn from(complaint: Complaint) -> Self {
        Self(vec![complaint])
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, complaint) in self.0.iter().enumerate() {
            write!(f, "{}{complaint}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaints {}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, carets) = &*self.marked;
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, "  {number} | {text}")?;
        write!(f, "  {margin} | {carets}")?;
        for line in self.help.iter().flat_map(|h| h.lines()) {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaint {}

fn floor_char_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_fault() {
        let source = Source { file: "s.toml", text: "a = 1\nbü = [\"x\", 2]\n" };
        let at = source.text.find('2').unwrap();
        let complaint = source.complain(at..at + 1, "a number among texts").help("write \"2\"\nor nothing");
        insta::assert_snapshot!(complaint, @r#"
        s.toml:2:12: a number among texts
          2 | bü = ["x", 2]
            |            ^
          write "2"
          or nothing
        "#);
    }

    #[test]
    fn the_caret_stands_under_what_is_wide() {
        let source = Source { file: "s.toml", text: "a = [\"日本\", 2]\r\n" };
        let at = source.text.find('2').unwrap();
        insta::assert_snapshot!(source.complain(at..at + 1, "a number among texts"), @r#"
        s.toml:1:12: a number among texts
          1 | a = ["日本", 2]
            |              ^
        "#);
    }

    proptest::proptest! {
        #[test]
        fn any_position_of_any_text_can_be_complained_about(text in "\\PC*(\n\\PC*)*", start in 0_usize..200, length in 0_usize..200) {
            let source = Source { file: "s.toml", text: &text };
            let shown = source.complain(start..start + length, "wrong").to_string();
            proptest::prop_assert!(shown.contains('^'));
        }
    }
}
