//! Stacks and workloads that stand in each other's place on the command line, and the command that was meant.

use anyhow::{Result, bail};
use nestor_results::profile_named;
use nestor_text::{Marked, shell_quoted};
use nestor_workload::Workload;

/// What a text of the command line reads like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Stack,
    Workload,
    Neither,
}

impl Reading {
    fn of(text: &str) -> Self {
        if nestor_stack::parse_all(text).is_ok() {
            return Self::Stack;
        }
        match () {
            () if Workload::is_meant_by(text) || profile_named(text).is_some() => Self::Workload,
            () if text.contains('/') => Self::Stack,
            () => Self::Neither,
        }
    }
}

/// Refuses a workload where a stack belongs: the values of a command in its order, the workload at a position among them.
///
/// # Errors
/// Which argument is which, and the command with each in its place.
pub fn require_order(values: &[&str], workload_at: usize, order: &str) -> Result<()> {
    match misplaced(values, workload_at, order, &words_of_this_command()) {
        Some(said) => bail!(said),
        None => Ok(()),
    }
}

/// Refuses a stack where a command takes a workload and nothing else.
///
/// # Errors
/// The option that takes it.
pub fn require_workload(text: &str, command: &str, option: &str) -> Result<()> {
    if Reading::of(text) == Reading::Stack {
        let written = shell_quoted(text);
        bail!(
            "{text} is a stack, and `nestor {command}` takes a workload here\n  write: nestor {command} WORKLOAD {option} {written}"
        );
    }
    Ok(())
}

/// Whether a text where a workload belongs is a stack and not the path of a profile or script that is not there.
fn is_stack(text: &str) -> bool {
    let is_path = text.starts_with(['/', '.']) || [".toml", ".f"].iter().any(|end| text.ends_with(end));
    !is_path && Reading::of(text) == Reading::Stack
}

fn words_of_this_command() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

fn misplaced(values: &[&str], workload_at: usize, order: &str, words: &[String]) -> Option<String> {
    let is_workload = |at: &usize| *at != workload_at && Reading::of(values[*at]) == Reading::Workload;
    let Some(at) = (0..values.len()).find(is_workload) else {
        let text = values[workload_at];
        return is_stack(text).then(|| {
            format!("the workload is missing: `{text}` is a stack\n  {order}; `nestor workloads` lists the workloads")
        });
    };
    let (text, is_swapped) = (values[at], Reading::of(values[workload_at]) == Reading::Stack);
    if !is_swapped {
        return Some(format!(
            "`{text}` is a workload, and a stack belongs in its place\n  {order}; `nestor stack` lists the layers of stacks"
        ));
    }
    let mut meant: Vec<&str> = values.to_vec();
    if values.len() == 2 {
        meant.swap(0, 1);
    } else {
        let workload = meant.remove(at);
        meant.insert(workload_at, workload);
    }
    let (written, span) = command(words, values, values, Some(at));
    let (right, _) = command(words, values, &meant, None);
    let marked = Marked { line: &written, span, message: format!("`{text}` is a workload; {order}") };
    Some(format!("a workload stands where a stack belongs\n{marked}\n  write: {right}"))
}

/// The command with other values in the places of its own, and the bytes of one of them.
fn command(
    words: &[String],
    values: &[&str],
    instead: &[&str],
    mark: Option<usize>,
) -> (String, std::ops::Range<usize>) {
    let mut line = "nestor".to_owned();
    let mut span = 0..0;
    let mut left: Vec<usize> = (0..values.len()).collect();
    for word in words {
        line.push(' ');
        let is_it = |at: &usize| {
            word == values[*at]
                || word.strip_prefix("--").is_some_and(|option| {
                    option.split_once('=').is_some_and(|(_, value)| value == values[*at])
                })
        };
        let Some(found) = left.iter().position(is_it) else {
            line.push_str(&shell_quoted(word));
            continue;
        };
        let at = left.remove(found);
        line.push_str(&word[..word.len() - values[at].len()]);
        let begin = line.len();
        line.push_str(&shell_quoted(instead[at]));
        if mark == Some(at) {
            span = begin..line.len();
        }
    }
    (line, span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = "the stack comes first, then the workload";

    fn said(values: &[&str], workload_at: usize, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        misplaced(values, workload_at, ORDER, &words).unwrap_or_default()
    }

    #[test]
    fn the_command_is_shown_with_each_argument_in_its_place() {
        let values = ["fio:seq-write", "ext4/kvm/hdd"];
        insta::assert_snapshot!(said(&values, 1, "run fio:seq-write ext4/kvm/hdd -n 5 --on this"), @r"
        a workload stands where a stack belongs
          nestor run fio:seq-write ext4/kvm/hdd -n 5 --on this
                     ^^^^^^^^^^^^^ `fio:seq-write` is a workload; the stack comes first, then the workload
          write: nestor run ext4/kvm/hdd fio:seq-write -n 5 --on this
        ");
        let three = ["fio:{seq,rand}-write", "ext4/kvm/hdd", "xfs/kvm/hdd"];
        let shown = said(&three, 2, "compare fio:{seq,rand}-write ext4/kvm/hdd xfs/kvm/hdd");
        assert!(
            shown.ends_with("write: nestor compare ext4/kvm/hdd xfs/kvm/hdd 'fio:{seq,rand}-write'"),
            "{shown}"
        );
        let options = said(&["postmark:xs", "ext4/hdd"], 1, "predict --workload=ext4/hdd --to postmark:xs");
        assert!(options.ends_with("write: nestor predict --workload=postmark:xs --to ext4/hdd"), "{options}");
    }

    #[test]
    fn what_is_in_its_place_or_no_stack_at_all_is_not_swapped() {
        for values in [
            ["ext4/kvm/hdd", "fio:seq-write"],
            ["ext4/kvm/hdd", "/srv/mail.toml"],
            ["ext4/kvm/hdd", "profiles/mail.toml"],
            ["ext5/hdd", "fio:seq-write"],
            ["file:/srv/disk.img", "fio:rand-read"],
            ["", "fio:seq-write"],
        ] {
            assert_eq!(misplaced(&values, 1, ORDER, &[]), None, "{values:?}");
        }
        let missing = said(&["ext4/hdd", "xfs/hdd"], 1, "compare ext4/hdd xfs/hdd");
        assert!(missing.starts_with("the workload is missing: `xfs/hdd` is a stack\n"), "{missing}");
        assert!(said(&["ext4/hdd", "xfs/hd"], 1, "compare").contains("`xfs/hd` is a stack"));
        let said = said(&["fio:seq-write", "fio:rand-read"], 1, "run");
        assert!(
            said.starts_with("`fio:seq-write` is a workload, and a stack belongs in its place"),
            "{said}"
        );
    }
}
