//! Paragraphs.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// The least width of a paragraph.
const LEAST_ROOM: usize = 20;

/// Breaks a text into lines of a width, between words but not between a number and its unit. `first` precedes the first
/// line, and `indent` blanks precede the others. A text without words has no lines.
pub fn wrapped(first: &str, indent: usize, width: usize, text: &str) -> Vec<String> {
    let words = unbreakable(text);
    if words.is_empty() {
        return Vec::new();
    }
    let text = words.iter().map(|word| word.replace(' ', UNBROKEN)).collect::<Vec<_>>().join(" ");
    let options = Options::new(width.saturating_sub(indent).max(LEAST_ROOM))
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let margin = " ".repeat(indent);
    let before = std::iter::once(first).chain(std::iter::repeat(margin.as_str()));
    let lines = textwrap::wrap(&text, options);
    before.zip(lines).map(|(before, line)| format!("{before}{}", line.replace(UNBROKEN, " "))).collect()
}

/// Replaces a blank at which no line ends.
const UNBROKEN: &str = "\u{a0}";

/// The words of a text, numbers together with their units.
pub fn unbreakable(text: &str) -> Vec<String> {
    const UNITS: [&str; 14] =
        ["%", "B", "KiB", "MiB", "GiB", "TiB", "MB/s", "IOPS", "ns", "us", "ms", "s", "min", "h"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', ';', ':', '.', ')', '(']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&unit) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_their_width_and_not_before_a_unit() {
        let words = "one two three four";
        assert_eq!(wrapped("  pay  ", 7, 27, words), ["  pay  one two three four"]);
        assert_eq!(
            wrapped("  pay  ", 7, 27, &format!("{words}  fives")),
            ["  pay  one two three four", "       fives"]
        );
        assert_eq!(wrapped("", 0, 20, "the whole takes 100 ms"), ["the whole takes", "100 ms"]);
        assert_eq!(wrapped("", 2, 0, "an-unbreakable-word-of-many"), ["an-unbreakable-word-of-many"]);
        assert_eq!(wrapped("a ", 2, 20, " "), [""; 0]);
    }
}
