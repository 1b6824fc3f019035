//! `nestor completions` and `nestor man`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

/// Prints the completions for a shell.
pub fn completions(shell: Shell, of: Command) {
    out!("{}", completion_script(shell, of));
}

/// What the library makes of the commands, and behind it what asks the program about the rest.
fn completion_script(shell: Shell, of: Command) -> String {
    let mut text = Vec::new();
    let mut of = visible(&of);
    clap_complete::generate(shell, &mut of, "nestor", &mut text);
    let text = String::from_utf8_lossy(&text);
    match shell {
        Shell::Bash => format!("{text}{}", include_str!("../completions/nestor.bash")),
        Shell::Fish => format!("{text}{}", include_str!("../completions/nestor.fish")),
        Shell::Zsh => {
            // Its end would begin the completion.
            let begin = text.rfind("\nif [ \"$funcstack[1]\"").unwrap_or(text.len());
            format!("{}{}", &text[..begin], include_str!("../completions/nestor.zsh"))
        }
        _ => text.into_owned(),
    }
}

/// The same commands without hidden ones, which the library offers in some shells.
fn visible(command: &Command) -> Command {
    let kept = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible));
    let kept = command.get_about().into_iter().fold(kept, |kept, about| kept.about(about.clone()));
    command.get_version().into_iter().fold(kept, |kept, version| kept.version(version.to_owned()))
}

/// Prints the manual page of the whole program.
///
/// # Errors
/// When it cannot be made.
pub fn manual(of: Command) -> Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(of).render(&mut text).context("the manual page could not be made")?;
    out!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// Writes a manual page for the program and for each of its commands: `nestor.1`, `nestor-disk-check.1`.
///
/// # Errors
/// When one cannot be made or written.
pub fn manuals(of: Command, directory: &Path) -> Result<()> {
    let place = || format!("the manual pages could not be written to {}", directory.display());
    fs::create_dir_all(directory).with_context(place)?;
    clap_mangen::generate_to(of, directory).with_context(place)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        manuals(Cli::command(), &folder.path().join("man")).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join("man").join(name)).unwrap();
        assert!(page("nestor.1").contains("nestor\\-disk(1)"));
        assert!(page("nestor-run.1").contains("\\fBnestor run\\fR"));
        assert!(page("nestor-disk-check.1").contains("profile"));
        let names: Vec<String> = fs::read_dir(folder.path().join("man"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(!names.iter().any(|name| name.contains("agent") || name.contains("help")), "{names:?}");
    }

    #[test]
    fn hidden_commands_are_not_completed() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh, Shell::Elvish, Shell::PowerShell] {
            let text = completion_script(shell, Cli::command());
            for name in ["domain-agent", "nestor,slurm-task", "\"slurm-task\"", "slurm__task", "load,timed"] {
                assert!(!text.contains(name), "{shell}: {name}");
            }
            assert!(text.contains("replicate") && text.contains("completions"), "{shell}");
        }
    }

    #[test]
    fn the_script_of_zsh_ends_with_what_asks_the_program() {
        let text = completion_script(Shell::Zsh, Cli::command());
        assert_eq!(text.matches("$funcstack[1]").count(), 1);
        assert!(text.starts_with("#compdef nestor"));
    }
}
