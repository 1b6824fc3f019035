//! Text without anything that a terminal would interpret.

use std::borrow::Cow;

/// Whether a terminal or a reader would misread a character: control characters other than the end of a line and the
/// tab, other line separators, and marks that turn the direction of writing.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // C0, DEL and C1; then the marks and overrides of direction (UAX #9, section 2).
        c if c.is_control() => true,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => false,
    }
}

/// The text with every hidden character written out: `\u{1b}`, `\r`.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, |c, to| to.extend(c.escape_default()))
}

/// [`visible`] for text whose columns are counted: tabs too, because they are wider than one column.
pub fn visible_in_columns(text: &str) -> String {
    visible(text).replace('\t', "\\t")
}

/// [`visible`] for JSON, which parses to the same text: `\u009b`. Such characters occur only in strings
/// there, and those below 0x20 are escaped already.
pub fn visible_json(text: &str) -> Cow<'_, str> {
    shown(text, |c, to| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            to.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

fn shown(text: &str, show: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) { show(c, &mut shown) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        for (hostile, shown) in [
            ("\x1b[2J\x1b[H", r"\u{1b}[2J\u{1b}[H"),
            ("\x1b]0;root@prod\x07", r"\u{1b}]0;root@prod\u{7}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("100 MB/s\r999 MB/s", r"100 MB/s\r999 MB/s"),
            ("a\x08b\x7fc\0", r"a\u{8}b\u{7f}c\u{0}"),
            ("\u{202e}gpj.exe", r"\u{202e}gpj.exe"),
            ("\u{2066}x\u{2069}", r"\u{2066}x\u{2069}"),
            ("one\u{2028}two", r"one\u{2028}two"),
        ] {
            assert_eq!(visible(hostile), shown);
        }
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["", "a\tb\n", "Größe 5 µs – „gut“", "日本語", "😀 \\u{1b}"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn json_stays_json() {
        assert_eq!(
            visible_json("{\n  \"title\": \"a\u{9b}31m\u{7f}\u{202e}\"\n}"),
            "{\n  \"title\": \"a\\u009b31m\\u007f\\u202e\"\n}"
        );
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_in_any_text(text in any::<String>()) {
            prop_assert!(!visible(&text).contains(is_hidden));
            prop_assert!(!visible_json(&text).contains(is_hidden));
            prop_assert!(!visible_in_columns(&text).contains(|c| is_hidden(c) || c == '\t'));
        }
    }
}
