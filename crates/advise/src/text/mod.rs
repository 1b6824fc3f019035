//! What is said on a terminal.

mod advice;
mod plan;
mod propagate;
mod settle;

use unicode_width::UnicodeWidthStr;

use crate::factors::HeldFixed;

pub use advice::advice_text;
pub use plan::plan_text;
pub use propagate::propagation_text;
pub use settle::{disputes_text, settlement_text};

/// Columns of a page.
const WIDTH: usize = 110;

/// A text in lines, the first after `head`, the others under it.
fn wrapped(head: &str, text: &str) -> String {
    let mut lines = nestor_text::wrapped(head, head.width(), WIDTH, text);
    if lines.is_empty() {
        lines.push(head.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

/// What was not varied, and how it would be: nothing is said of other levels.
fn held_fixed(held: &[HeldFixed]) -> String {
    if held.is_empty() {
        return String::new();
    }
    let words = held.iter().map(|one| match &one.option {
        Some(option) => format!("{option} {}", one.level),
        None => format!("{} {} (set in /sys/block, not by an option)", one.factor.name(), one.level),
    });
    let words: Vec<String> = words.collect();
    wrapped("  ", &format!("held fixed (give the option more levels to vary it): {}", words.join(", ")))
}

/// What is said before anything else.
fn physical(sentences: Option<&[String]>) -> String {
    const QUESTION: &str = "physically plausible?";
    match sentences {
        None => format!("{QUESTION} not checked\n"),
        Some([]) => format!("{QUESTION} no reason against it\n"),
        Some([one]) => wrapped(&format!("{QUESTION} "), one),
        Some(several) => {
            format!("{QUESTION}\n") + &several.iter().map(|line| wrapped("  ", line)).collect::<String>()
        }
    }
}

/// `45 s`, `3 min`.
fn minutes(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", (seconds / 60.0).ceil()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_page() {
        let text = wrapped("  pay  ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("       word")), "{text}");
        assert_eq!(wrapped("a ", ""), "a\n");
        assert_eq!(minutes(99.0), "99 s");
        assert_eq!(minutes(100.0), "2 min");
    }
}
