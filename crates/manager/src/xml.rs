//! XML of whoever answers: bounded, without DTDs, and read by local names.

use roxmltree::{Document, Node, ParsingOptions};

use crate::ManagerError;

/// More nodes than an answer has that was asked for by name, and few enough to be read at once.
const MOST_NODES: u32 = 1 << 20;

/// Elements within elements. Answers have about ten; the reader follows them by recursion.
const DEEPEST: usize = 64;

/// Bytes of an answer that are shown where it is not understood.
const SHOWN: usize = 200;

/// Parses an answer.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, ManagerError> {
    if is_too_deep(text) {
        return Err(ManagerError::NotUnderstood(format!(
            "it has elements within elements within elements, more than {DEEPEST} deep"
        )));
    }
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .map_err(|e| ManagerError::NotUnderstood(format!("it is no XML ({e}): {}", beginning(text))))
}

/// The beginning of an answer in one line, for a message.
pub(crate) fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "nothing".to_owned(),
        None => line,
    }
}

/// Counts what opens and closes. Comments and CDATA may hold what looks like an element, and then it errs towards too deep only by what is
/// in them.
fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut rest) = (0usize, text);
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        match rest.as_bytes().first() {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'?' | b'!') | None => {}
            Some(_) => {
                let end = rest.find('>').unwrap_or(rest.len());
                depth += usize::from(!rest[..end].ends_with('/'));
            }
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}

/// The child elements of a name.
pub(crate) fn children<'a, 'input: 'a>(
    of: Node<'a, 'input>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    of.children().filter(move |child| child.tag_name().name() == name)
}

/// What is at a path of names below an element, the first of each.
pub(crate) fn at<'a, 'input: 'a>(of: Node<'a, 'input>, path: &[&'a str]) -> Option<Node<'a, 'input>> {
    path.iter().try_fold(of, |node, name| children(node, name).next())
}

/// The text at a path, without white space around it; `None` where there is none.
pub(crate) fn text<'a>(of: Node<'a, 'a>, path: &[&'a str]) -> Option<&'a str> {
    at(of, path)?.text().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer with another byte at a place, and what is before another place of that.
    pub(crate) fn mangled(answer: &str, at: usize, byte: u8, cut: usize) -> [String; 2] {
        let mut bytes = answer.as_bytes().to_vec();
        bytes[at] = byte;
        [&bytes[..], &bytes[..cut]].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    #[test]
    fn elements_far_within_elements_are_refused_before_they_are_followed() {
        let deep = format!("{}{}", "<a>".repeat(1_000_000), "</a>".repeat(1_000_000));
        assert!(parse(&deep).unwrap_err().to_string().contains("more than 64 deep"));
        let wide = format!("<a>{}</a>", "<b/><c>1</c>".repeat(1000));
        assert!(parse(&wide).is_ok());
    }

    #[test]
    fn a_dtd_is_refused() {
        let said = parse("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>").unwrap_err().to_string();
        assert!(said.contains("it is no XML"), "{said}");
    }

    #[test]
    fn the_beginning_of_an_answer_is_one_line() {
        assert_eq!(beginning("<html>\n  bad\tgateway\u{7}"), "<html> bad gateway");
        assert_eq!(beginning(" \n"), "nothing");
        assert_eq!(beginning(&"ä".repeat(300)).chars().count(), 201);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = parse(&text);
            let _ = beginning(&text);
        }

        #[test]
        fn no_markup_makes_it_panic(parts in prop::collection::vec(
            prop::sample::select(vec!["<", ">", "/", "a", "b:", "&lt;", "<a>", "</a>", "<![CDATA[", "]]>", "<!--", "-->", "\"", "=", " "]), 0..60
        )) {
            let _ = parse(&parts.concat());
        }
    }
}
