//! `nestor complete`: what may follow the last word of a command line, where only the program knows it.

use clap::{Arg, Command};
use nestor_advise::settle::disputes;
use nestor_disk::profiles::PROFILES;
use nestor_stack::latest_alternative;
use nestor_text::Completion;

use crate::studies::{OWN_STUDIES, OwnStudy, published};

/// What is written at a place of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Stack,
    Workload,
    /// In either order.
    StackOrWorkload,
    Study,
    PublishedStudy,
    Profile,
    Place,
    /// One that `advise --settle` settles.
    Question,
}

/// Places, and how those begin that have a name or an address.
const PLACES: [(&str, &str); 7] = [
    ("emulated", "a modelled machine, in virtual time where that is faster"),
    ("emulated:time=virtual", "results repeat to the last bit"),
    ("emulated:time=real", "as fast as this machine is"),
    ("this", "this machine"),
    ("ssh:", "another machine"),
    ("domain:", "a virtual machine of libvirt's"),
    ("ec2:", "an instance of a cloud"),
];

/// In place of the name of a command: the argument means the same in all.
const ANY: &str = "";

/// The arguments that this program completes itself: the command without those around it, the argument, and what it is.
const COMPLETED: &[(&str, &str, Written)] = &[
    ("run", "stack", Written::Stack),
    ("run", "workload", Written::Workload),
    ("compare", "words", Written::StackOrWorkload),
    ("stack", "stacks", Written::Stack),
    ("predict", "workload", Written::Workload),
    ("predict", "from", Written::Stack),
    ("predict", "to", Written::Stack),
    ("advise", "workload", Written::Workload),
    ("advise", "stack", Written::Stack),
    ("study", "study", Written::Study),
    ("replicate", "paper", Written::PublishedStudy),
    ("check", "profile", Written::Profile),
    ("serve", "profile", Written::Profile),
    ("advise", "settle", Written::Question),
    (ANY, "on", Written::Place),
];

/// Prints what the last word can become, a line each: the word, a tab, and a few words about it. Nothing where the shell knows more.
pub fn run(of: Command, words: &[String]) {
    for Completion { text, summary } in completions(of, words) {
        outln!("{text}\t{summary}");
    }
}

fn completions(mut of: Command, words: &[String]) -> Vec<Completion> {
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    of.build();
    let Some(written) = written_there(&of, before, last) else { return Vec::new() };
    // What follows the last alternative in braces follows the word.
    let latest = latest_alternative(last);
    let as_written = |one: Completion| {
        let rest = one.text.strip_prefix(&latest)?;
        Some(Completion { text: format!("{last}{rest}"), ..one })
    };
    candidates(written, &latest).into_iter().filter_map(as_written).collect()
}

fn candidates(written: Written, text: &str) -> Vec<Completion> {
    let begins = |name: &&str| name.starts_with(text);
    let of_studies = |studies: &mut dyn Iterator<Item = &'static OwnStudy>| {
        let begun = studies.filter(|study| study.name.starts_with(text));
        begun.map(|study| Completion::new(study.name, study.source.unwrap_or_default())).collect()
    };
    let of_names = |names: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
        let begun = names.filter(|(name, _)| begins(name));
        begun.map(|(name, summary)| Completion::new(name, summary)).collect()
    };
    match written {
        Written::Stack => nestor_stack::completions(text, &profiles_of),
        Written::Workload => nestor_workload::completions(text),
        Written::StackOrWorkload => {
            let mut both = nestor_stack::completions(text, &profiles_of);
            both.extend(nestor_workload::completions(text));
            both
        }
        Written::Study => of_studies(&mut OWN_STUDIES.iter()),
        Written::PublishedStudy => of_studies(&mut published()),
        Written::Profile => of_names(&mut PROFILES.iter().map(|profile| (profile.name, ""))),
        Written::Place => of_names(&mut PLACES.into_iter()),
        Written::Question => {
            let listed = ("list", "what each asks");
            of_names(&mut disputes().map(|dispute| (dispute.id, dispute.question)).chain([listed]))
        }
    }
}

/// The profiles of a modelled medium.
fn profiles_of(medium: &str) -> Vec<String> {
    let profiles = PROFILES.iter().filter(|profile| profile.medium.kind() == medium);
    profiles.map(|profile| profile.name.to_owned()).collect()
}

/// What is written after some words; `None` where it is nothing that is completed here.
fn written_there(of: &Command, before: &[String], last: &str) -> Option<Written> {
    let (mut command, mut positional, mut option) = (of, 0, None);
    for word in before {
        if option.take().is_some() {
            continue;
        }
        if let Some(subcommand) = command.find_subcommand(word).filter(|_| positional == 0) {
            command = subcommand;
        } else if word.len() > 1 && word.starts_with('-') {
            option = option_with_value(command, word);
        } else {
            positional += 1;
        }
    }
    let argument = match option {
        Some(option) => option,
        None if last.starts_with('-') => return None,
        // The last one takes all that follow.
        None => command.get_positionals().nth(positional).or_else(|| command.get_positionals().last())?,
    };
    let is_it = |(name, id, _): &&(&str, &str, Written)| {
        [ANY, command.get_name()].contains(name) && argument.get_id() == *id
    };
    COMPLETED.iter().find(is_it).map(|(.., written)| *written)
}

/// The option that a word is, if the word after it is its value. One that may go without takes it too.
fn option_with_value<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let named = |argument: &&Arg| match word.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| word == format!("-{short}")),
    };
    let takes_value = |argument: &&Arg| argument.get_num_args().is_some_and(|number| number.takes_values());
    command.get_arguments().find(named).filter(takes_value)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn offered(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        completions(Cli::command(), &words).into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn every_argument_that_is_completed_exists() {
        let all = Cli::command();
        for (name, id, _) in COMPLETED {
            let commands = all.get_subcommands().flat_map(|c| std::iter::once(c).chain(c.get_subcommands()));
            let mut named = commands.filter(|command| [ANY, command.get_name()].contains(name));
            assert!(named.any(|c| c.get_arguments().any(|argument| argument.get_id() == *id)), "{name} {id}");
        }
    }

    #[test]
    fn the_place_decides_what_is_offered() {
        assert_eq!(offered("run ext4/kv"), ["ext4/kvm/"]);
        assert_eq!(offered("run -n 2 --seed 7 ext4/kv"), ["ext4/kvm/"]);
        assert_eq!(offered("run ext4/hdd fio:seq-w"), ["fio:seq-write"]);
        assert_eq!(offered("run --json ext4/hdd fio:seq-w"), ["fio:seq-write"]);
        assert_eq!(offered("compare ext4/hdd ext4/hdd:wd-r"), ["ext4/hdd:wd-re3"]);
        assert_eq!(offered("compare ext4/hdd ext3/hdd fio:seq-w"), ["fio:seq-write"]);
        assert_eq!(offered("load run fio:seq-w"), ["fio:seq-write"]);
        assert_eq!(offered("stack ext4/hdd xfs/hd"), ["xfs/hdd"]);
        assert_eq!(offered("predict --workload fio:seq-w"), ["fio:seq-write"]);
        assert_eq!(offered("predict --workload fio:seq-write --to ext4/kv"), ["ext4/kvm/"]);
        assert_eq!(offered("study qu"), ["quick"]);
        assert_eq!(offered("replicate n"), ["nested-fs"]);
        assert_eq!(offered("disk check wd-r"), ["wd-re3"]);
        assert_eq!(offered("run --on th"), ["this"]);
        assert_eq!(offered("study quick --on emulated:"), ["emulated:time=virtual", "emulated:time=real"]);
        assert_eq!(offered("advise --settle K4"), ["K4"]);
        assert!(offered("advise --settle ").contains(&"list".to_owned()));
        for elsewhere in
            ["", "ru", "run --o", "run --store re", "run --trace ", "report ext4/kv", "lab build ext4/kv"]
        {
            assert_eq!(offered(elsewhere), [""; 0], "{elsewhere}");
        }
    }

    #[test]
    fn an_alternative_in_braces_is_completed_in_its_place() {
        assert_eq!(offered("run ext3/{kvm,tc"), ["ext3/{kvm,tcg/"]);
        assert_eq!(offered("run ext3/kvm/{raw/{ext2,jfs}/,}hd"), ["ext3/kvm/{raw/{ext2,jfs}/,}hdd"]);
    }
}
