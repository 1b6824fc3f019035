//! Alternatives in braces, as bash expands them.

use crate::{Stack, StackError, StackErrorKind};

/// The most stacks to which one text may expand.
pub const MAX_ALTERNATIVES: usize = 65_536;

/// The deepest nesting of braces.
pub const MAX_NESTING: usize = 64;

/// The most opening braces in a text; each may cost a scan of the whole text.
const MAX_BRACES: usize = 1024;

/// Expands braces exactly as bash does: `{a,b}`, nested, with empty alternatives; `{1..9..2}`, `{01..10}`, `{a..e}`;
/// what is not an expansion (`{x}`, `{}`, an unclosed brace) stays as it is. Duplicates are kept, and a word that becomes
/// empty is dropped, as bash drops it. Quotes, `\`, `$` and spaces are ordinary characters.
///
/// # Errors
///
/// If there would be more than [`MAX_ALTERNATIVES`] words or braces are nested more than [`MAX_NESTING`] deep.
pub fn expand(text: &str) -> Result<Vec<String>, StackError> {
    let within = text.bytes().filter(|b| *b == b'{').count() <= MAX_BRACES;
    let expanded = if within { expand_word(text, 0) } else { Err(Limit::Braces) };
    let mut words = expanded.map_err(|limit| {
        let (message, help) = match limit {
            Limit::Alternatives => (
                format!("these expand to more than {MAX_ALTERNATIVES} stacks"),
                "split them into several studies",
            ),
            Limit::Nesting => (
                format!("these are nested more than {MAX_NESTING} deep"),
                "write the alternatives side by side in one pair of braces",
            ),
            Limit::Braces => {
                (format!("these are more than {MAX_BRACES} braces"), "split them into several studies")
            }
        };
        let start = text.find('{').unwrap_or(0);
        let end = text.rfind('}').map_or(text.len(), |i| i + 1).max(start);
        StackError::new(StackErrorKind::TooManyAlternatives, text, start..end, message).with_help(help)
    })?;
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// Expands braces, then reads every stack.
///
/// # Errors
///
/// The first error of any of them, showing the stack after expansion; an empty text is one.
pub fn parse_all(text: &str) -> Result<Vec<Stack>, StackError> {
    let words = expand(text)?;
    if words.is_empty() {
        return Stack::parse("").map(|stack| vec![stack]);
    }
    words.iter().map(|word| Stack::parse(word)).collect()
}

/// Which limit would be passed.
enum Limit {
    Alternatives,
    Nesting,
    Braces,
}

/// The words to which a text expands. Braces, comma and the dots of a sequence are ASCII, so bytes can be scanned.
fn expand_word(text: &str, depth: usize) -> Result<Vec<String>, Limit> {
    if depth > MAX_NESTING {
        return Err(Limit::Nesting);
    }
    let mut words = vec![String::new()];
    let mut rest = text;
    while let Some((open, close)) = first_braces(rest) {
        let inside = &rest[open + 1..close];
        let alternatives = if inside.contains(',') {
            alternatives(inside, depth)?
        } else {
            match sequence(inside)? {
                Some(terms) => terms,
                None => vec![rest[open..=close].to_owned()],
            }
        };
        words = concatenate(&words, &rest[..open], &alternatives)?;
        rest = &rest[close + 1..];
    }
    concatenate(&words, rest, &[String::new()])
}

/// Every word followed by `middle` and every ending, words in the outer loop.
fn concatenate(words: &[String], middle: &str, endings: &[String]) -> Result<Vec<String>, Limit> {
    if words.len().saturating_mul(endings.len()) > MAX_ALTERNATIVES {
        return Err(Limit::Alternatives);
    }
    Ok(words
        .iter()
        .flat_map(|word| endings.iter().map(move |ending| format!("{word}{middle}{ending}")))
        .collect())
}

/// Splits at the commas outside inner braces and expands each part.
fn alternatives(inside: &str, depth: usize) -> Result<Vec<String>, Limit> {
    let mut words = Vec::new();
    let mut start = 0;
    loop {
        let end = find_outside_braces(inside, start, b',');
        words.extend(expand_word(&inside[start..end.unwrap_or(inside.len())], depth + 1)?);
        if words.len() > MAX_ALTERNATIVES {
            return Err(Limit::Alternatives);
        }
        match end {
            Some(comma) => start = comma + 1,
            None => return Ok(words),
        }
    }
}

/// The first `{` that has its `}` with something to expand between them.
fn first_braces(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    loop {
        let open = find_opening(text, from)?;
        if let Some(close) = find_closing(text, open + 1) {
            return Some((open, close));
        }
        from = open + 1;
    }
}

/// The next `{`, but not a `{}` that begins the text, which bash keeps for `find -exec`.
fn find_opening(text: &str, from: usize) -> Option<usize> {
    let at = from + text[from..].find('{')?;
    if at == 0 && text.starts_with("{}") { find_opening(text, 1) } else { Some(at) }
}

/// The `}` that closes braces whose inside begins at `from`, if there is a comma or `..` at their own level.
fn find_closing(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut level = 0usize;
    let mut separators = 0usize;
    for at in from..bytes.len() {
        match bytes[at] {
            b'}' if level == 0 && separators > 0 => return Some(at),
            b'{' => level += 1,
            b'}' if level > 0 => level -= 1,
            b',' if level == 0 => separators += 1,
            b'.' if level == 0
                && bytes.get(at + 1) == Some(&b'.')
                && bytes.get(at + 2).is_some_and(|b| *b != b'}') =>
            {
                separators += 1;
            }
            _ => {}
        }
    }
    None
}

/// The next `wanted` outside inner braces.
fn find_outside_braces(text: &str, from: usize, wanted: u8) -> Option<usize> {
    let mut level = 0usize;
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            b if b == wanted && level == 0 => return Some(at),
            b'{' => level += 1,
            b'}' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The terms of `1..9`, `01..10..2` or `a..e`; `None` for any other text.
fn sequence(inside: &str) -> Result<Option<Vec<String>>, Limit> {
    let parts: Vec<&str> = inside.split("..").collect();
    let (first, last, step) = match parts.as_slice() {
        [first, last] => (*first, *last, Some(1)),
        [first, last, step] => (*first, *last, number(step)),
        _ => return Ok(None),
    };
    let Some(step) = step else { return Ok(None) };
    if let (Some(from), Some(to)) = (number(first), number(last)) {
        let padded = |term: &str| {
            let digits = term.strip_prefix('-').unwrap_or(term);
            digits.len() > 1 && digits.starts_with('0')
        };
        let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
        let terms = steps(from, to, step)?;
        return Ok(Some(terms.iter().map(|n| format!("{n:0width$}")).collect()));
    }
    if let (Some(from), Some(to)) = (letter(first), letter(last)) {
        let terms = steps(from, to, step)?;
        return Ok(Some(terms.iter().map(|n| char::from(*n as u8).to_string()).collect()));
    }
    Ok(None)
}

/// From one number to another in steps whose sign does not matter.
fn steps(from: i64, to: i64, step: i64) -> Result<Vec<i64>, Limit> {
    let step = step.unsigned_abs().max(1);
    let count = from.abs_diff(to) / step;
    if count >= MAX_ALTERNATIVES as u64 {
        return Err(Limit::Alternatives);
    }
    // Each term is between `from` and `to`, so no addition overflows.
    let term = |i: u64| {
        let distance = i128::from(i) * i128::from(step);
        let signed = if from <= to { distance } else { -distance };
        (i128::from(from) + signed) as i64
    };
    Ok((0..=count).map(term).collect())
}

/// A whole number as C reads it; `None` for any other text, or if it is too large.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// A single ASCII letter.
fn letter(text: &str) -> Option<i64> {
    match text.as_bytes() {
        [byte] if byte.is_ascii_alphabetic() => Some(i64::from(*byte)),
        _ => None,
    }
}
