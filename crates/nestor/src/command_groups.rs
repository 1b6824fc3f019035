//! The commands in groups, as `nestor --help` lists them: clap has headings for options alone.

use clap::{Command, CommandFactory as _};
use nestor_text::wrapped;

use crate::cli::Cli;
use crate::output::columns;

/// Commands under a heading, in the order in which they are listed.
struct Group {
    heading: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [Group; 4] = [
    Group {
        heading: "Measure",
        commands: &["run", "compare", "study", "replicate", "load", "characterize", "top"],
    },
    Group { heading: "Understand", commands: &["report", "explain", "advise", "predict", "trace"] },
    Group { heading: "The laboratory", commands: &["doctor", "lab", "disk", "link"] },
    Group { heading: "Help", commands: &["stack", "workloads", "help", "man", "completions"] },
];

/// Columns of help where the output is no terminal, as clap has it, and the most that are used.
const USUAL_COLUMNS: usize = 100;
const MOST_COLUMNS: usize = 110;

/// The command line, with its commands in groups.
pub fn command_line() -> Command {
    let mut command = Cli::command();
    // Only then is there the command `help`.
    command.build();
    let columns = columns().map_or(USUAL_COLUMNS, |columns| columns.min(MOST_COLUMNS));
    let groups = listed(&command, columns);
    Cli::command().help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

fn listed(command: &Command, columns: usize) -> String {
    let names = GROUPS.iter().flat_map(|group| group.commands);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let row = |name: &&str| {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let lines = wrapped(&format!("  {name:width$}  "), width + 4, columns, &about);
        lines.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    let group = |group: &Group| {
        format!("{}:\n{}\n", group.heading, group.commands.iter().map(row).collect::<String>())
    };
    GROUPS.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let mut visible: Vec<&str> =
            command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn help_lists_the_groups_within_the_columns() {
        let mut command = Cli::command();
        command.build();
        let text = listed(&command, 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let lab = text.split("\n\n").find(|group| group.starts_with("The laboratory")).expect("it is there");
        insta::assert_snapshot!(lab, @r"
        The laboratory:
          doctor        Check what this machine can do, and how to
                        fix what it cannot
          lab           The lab image that every machine boots
          disk          Modelled disks: list them, check them
                        against published figures, serve them to any
                        virtual machine
          link          Modelled network links: check them against
                        their model, serve them to any two virtual
                        machines
        ");
        let help = command_line().render_help().to_string();
        let headings = GROUPS.map(|group| format!("\n{}:\n", group.heading));
        assert!(headings.iter().all(|heading| help.contains(heading)), "{help}");
        assert!(help.contains("\nOptions:\n") && help.contains("\nExamples:\n"), "{help}");
    }
}
