//! What the names of options mean: one name has one meaning in all commands.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Options that several commands describe in words of their own: the one meaning behind them, and the kinds of values that they take. A
/// new command that uses one of these names for something else is to take another name.
const MEANINGS: &[(&str, &str, &[&str])] = &[
    ("against", "what was measured before and is compared with", &["NAME", "RUN|STUDY"]),
    ("budget", "how long measuring may take", &["TIME"]),
    ("cache", "cache modes of the hypervisor", &["LEVELS", "MODE"]),
    ("clock", "whose clock a served device follows", &["CLOCK"]),
    ("control", "the socket that takes commands for what is served", &["SOCKET"]),
    ("csv", "where comma-separated values go", &["FILE"]),
    ("device", "a block device, or a file in its place", &["DEVICE"]),
    ("device-model", "device models of a virtual disk", &["LEVELS", "MODEL"]),
    ("dir", "the directory of yours to work in", &["DIRECTORY"]),
    ("disk-bytes", "how large the disk is", &["DISK_BYTES"]),
    ("domain", "a virtual machine of yours on this machine", &["NAME"]),
    ("force", "do what is otherwise refused", &[""]),
    ("format", "image formats", &["FORMAT", "LEVELS"]),
    ("guest", "what is the guest's: its file systems, or the trace taken in it", &["LEVELS", "TRACE"]),
    ("image", "a file that is a virtual disk, or where it lies", &["FILE"]),
    ("json", "print JSON", &[""]),
    ("layer", "the name of a layer in a file of requests", &["LAYER"]),
    ("layout", "a layout made by `nestor trace layout`", &["FILE"]),
    ("log", "a log of each request or frame", &["FILE"]),
    ("machine", "the name of a machine in a file of requests", &["MACHINE"]),
    ("on", "the place where stacks are built", &["PLACE"]),
    ("operations", "end after so many operations", &["COUNT", "NUMBER"]),
    ("output", "where what is made goes", &["DIRECTORY", "FILE"]),
    ("overwrite", "what may be overwritten, named once more", &["PATH"]),
    ("parquet", "where a Parquet file goes", &["FILE"]),
    ("pid", "the process that is meant", &["PID"]),
    ("plan", "say what would be measured, and measure nothing", &[""]),
    ("prepare", "only make the files", &[""]),
    ("remove", "remove what was made, at the end", &[""]),
    ("replications", "how often each comparison is repeated", &["BLOCKS", "REPLICATIONS"]),
    ("requests", "the file that the requests are written to", &["FILE"]),
    ("scale", "how large what is measured is", &["FACTOR|tiny", "NAME"]),
    ("seed", "decides what is random", &["NUMBER", "SEED"]),
    ("size", "how large a file or disk is", &["BYTES", "SIZE"]),
    ("time", "how long each run lasts", &["SECONDS"]),
    ("verify", "measure to see whether what was said holds", &[""]),
];

/// An option of a command as its help has it.
struct Use {
    command: String,
    value: String,
    sentence: String,
}

fn uses() -> BTreeMap<String, Vec<Use>> {
    let mut found = BTreeMap::new();
    collect(&Cli::command(), "nestor", &mut found);
    found
}

fn collect(command: &Command, path: &str, found: &mut BTreeMap<String, Vec<Use>>) {
    for option in command.get_arguments().filter(|a| !a.is_hide_set()) {
        let Some(name) = option.get_long() else { continue };
        let takes_value = option.get_action().takes_values();
        let value = option.get_value_names().filter(|_| takes_value);
        let value = value.map_or_else(String::new, |names| names.iter().map(ToString::to_string).collect());
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let sentence = help.split([';', '[', ':']).next().unwrap_or_default().trim().to_owned();
        found.entry(name.to_owned()).or_default().push(Use { command: path.to_owned(), value, sentence });
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{path} {}", below.get_name()), found);
    }
}

#[test]
fn an_option_means_the_same_in_every_command() {
    let mut wrong = Vec::new();
    for (name, uses) in uses() {
        let sentences: BTreeSet<&str> = uses.iter().map(|one| one.sentence.as_str()).collect();
        let values: BTreeSet<&str> = uses.iter().map(|one| one.value.as_str()).collect();
        let known = MEANINGS.iter().find(|(option, ..)| *option == name);
        let is_right = match known {
            None => sentences.len() == 1,
            Some((_, _, kinds)) => {
                sentences.len() > 1 && values == kinds.iter().copied().collect::<BTreeSet<_>>()
            }
        };
        if !is_right {
            let uses: Vec<String> =
                uses.iter().map(|one| format!("{}: {} {}", one.command, one.value, one.sentence)).collect();
            wrong.push(format!("--{name} {values:?}\n  {}", uses.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "these names have several meanings:\n{}", wrong.join("\n"));
    let names = uses();
    let gone = MEANINGS.iter().filter(|(name, ..)| !names.contains_key(*name));
    assert_eq!(gone.map(|(name, ..)| *name).collect::<Vec<_>>(), [""; 0]);
}

/// Options that were renamed, by command: the old name still means the same, and is not shown.
const RENAMED: &[(&[&str], &str, &str)] = &[
    (&["advise"], "device", "device-model"),
    (&["advise"], "from", "numbers"),
    (&["characterize"], "trace", "traces"),
    (&["characterize"], "check", "check-in"),
    (&["trace", "export"], "from", "since"),
    (&["trace", "export"], "to", "until"),
    (&["trace", "hypervisor", "record"], "disk", "device-model"),
    (&["load", "replay"], "from", "stage"),
    (&["load", "replay"], "data", "contents"),
    (&["disk", "serve"], "time", "clock"),
    (&["link", "serve"], "time", "clock"),
];

#[test]
fn an_old_name_still_means_what_it_did() {
    let cli = Cli::command();
    for (path, old, new) in RENAMED {
        let command =
            path.iter().fold(&cli, |command, name| command.find_subcommand(name).expect("a command"));
        let option = command.get_arguments().find(|a| a.get_long() == Some(*new)).expect("an option");
        assert!(option.get_all_aliases().is_some_and(|names| names.contains(old)), "{path:?} --{old}");
        assert_eq!(option.get_visible_aliases().map_or(0, |names| names.len()), 0, "{path:?} --{new}");
    }
}
