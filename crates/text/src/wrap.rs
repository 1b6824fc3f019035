//! Paragraphs.

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::UnicodeWidthStr;

/// The least width of a paragraph.
const LEAST_ROOM: usize = 20;
/// In less room than this, choices are broken that are not very long.
const NARROW: usize = 64;

/// Breaks a text into lines of a width, between words but not between a number and its unit. `first` precedes the first
/// line, and `indent` blanks precede the others. A text without words has no lines.
pub fn wrapped(first: &str, indent: usize, width: usize, text: &str) -> Vec<String> {
    let words = unbreakable(text);
    if words.is_empty() {
        return Vec::new();
    }
    let text = words.iter().map(|word| word.replace(' ', UNBROKEN)).collect::<Vec<_>>().join(" ");
    let room = width.saturating_sub(indent).max(LEAST_ROOM);
    let words = if room < NARROW { words_and_long_choices::<30> } else { words_and_long_choices::<60> };
    let options = Options::new(room)
        .break_words(false)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let margin = " ".repeat(indent);
    let before = std::iter::once(first).chain(std::iter::repeat(margin.as_str()));
    let lines = textwrap::wrap(&text, options);
    before.zip(lines).map(|(before, line)| format!("{before}{}", line.replace(UNBROKEN, " "))).collect()
}

/// The words of a line. A choice that would not fit beside anything (`:cipher=chacha20-poly1305|aes128-ctr|…`), because it is wider than
/// `LONG`, may be broken after each `|`.
fn words_and_long_choices<const LONG: usize>(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let parts = |word: &str| match word.width() > LONG {
        true => word.split_inclusive('|').map(str::len).collect(),
        false => vec![word.len()],
    };
    Box::new(WordSeparator::AsciiSpace.find_words(line).flat_map(move |word| {
        let (mut at, whole) = (0, word.word);
        let mut lengths = parts(whole);
        let last = lengths.pop().unwrap_or_default();
        let before: Vec<Word<'_>> = lengths
            .into_iter()
            .map(|length| {
                at += length;
                Word::from(&whole[at - length..at])
            })
            .collect();
        let end =
            Word { whitespace: word.whitespace, penalty: word.penalty, ..Word::from(&whole[at..at + last]) };
        before.into_iter().chain([end])
    }))
}

/// The text with each line that is wider than `width` broken between words; what follows keeps the line's indent. Of carets under a line, the
/// message goes beside them if there is room, otherwise below; the line over them stays whole, because they point into it.
pub fn fitted(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        let is_pointed_at = rest.peek().is_some_and(|next| next.trim_start().starts_with('^'));
        if is_pointed_at || line.width() <= width {
            lines.push(line.to_owned());
        } else {
            lines.extend(broken(line, width));
        }
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

fn broken(line: &str, width: usize) -> Vec<String> {
    /// Less beside carets is harder to read than a line of its own.
    const ROOM_BESIDE: usize = 36;
    let words = line.trim_start();
    let margin = line.width() - words.width();
    let Some((carets, message)) = words.split_once(' ').filter(|(first, _)| first.starts_with('^')) else {
        return wrapped(&" ".repeat(margin), margin, width, words);
    };
    let marks = format!("{}{carets}", " ".repeat(margin));
    let beside = marks.width() + 1;
    if beside + ROOM_BESIDE <= width {
        return wrapped(&format!("{marks} "), beside, width, message);
    }
    std::iter::once(marks).chain(wrapped("    ", 4, width, message)).collect()
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
    fn a_text_fits_and_carets_stay_below_what_they_point_at() {
        let said = "a stack does not fit\n  a-name-that-is-wider-than-the-terminal/xfs/hdd\n         ^^^^ one two three four five six \
                    seven eight\n  so do one thing or another: and-then/this/is/it\n";
        assert_eq!(
            fitted(said, 40),
            "a stack does not fit\n  a-name-that-is-wider-than-the-terminal/xfs/hdd\n         ^^^^\n    one two three four five \
             six seven\n    eight\n  so do one thing or another:\n  and-then/this/is/it\n"
        );
        assert_eq!(
            fitted("ab\n ^ one two three four five six seven eight", 42),
            "ab\n ^ one two three four five six seven eight"
        );
        assert_eq!(
            fitted("ab\n ^ one two three four five six seven eight", 40),
            "ab\n ^ one two three four five six seven\n   eight"
        );
        assert_eq!(fitted(said, 400), said);
    }

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
        let choice = ":cipher=chacha20-poly1305|aes128-ctr|aes192-ctr|aes256-ctr|aes128-gcm";
        assert_eq!(
            wrapped("  ", 2, 60, &format!("{choice} the cipher")),
            ["  :cipher=chacha20-poly1305|aes128-ctr|aes192-ctr|", "  aes256-ctr|aes128-gcm the cipher"]
        );
        let choice = ":disk=virtio-blk|virtio-scsi|lsi|mptsas|pvscsi|ahci|ide|nvme";
        assert_eq!(
            wrapped("", 4, 60, choice),
            [":disk=virtio-blk|virtio-scsi|lsi|mptsas|pvscsi|ahci|ide|", "    nvme"]
        );
        assert_eq!(wrapped("", 0, 20, "one two three four off|on"), ["one two three four", "off|on"]);
    }
}
