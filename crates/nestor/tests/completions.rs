//! Shells that complete what the program knows: real ones, where they are installed.

#![allow(clippy::print_stderr)]

mod support;

use std::process::{Command, Stdio};

use support::{Sandbox, binary, has_program, said};

/// A shell with the completion of the program, which is first in its search path.
fn shell(sandbox: &Sandbox, name: &str) -> Option<Command> {
    if !has_program(name) || !has_program("script") {
        eprintln!("not tried: there is no {name}, or no script(1)");
        return None;
    }
    std::fs::create_dir_all(sandbox.path("bin")).unwrap();
    std::os::unix::fs::symlink(binary(), sandbox.path("bin/nestor")).unwrap();
    std::fs::write(sandbox.path("completions"), said(sandbox, &["completions", name])).unwrap();
    let path = format!("{}:{}", sandbox.text("bin"), std::env::var("PATH").unwrap());
    let mut command = Command::new("script");
    command.current_dir(sandbox.path("")).env("PATH", path).env("HOME", sandbox.path("")).env("TERM", "dumb");
    Some(command)
}

/// What a shell makes of command lines: each is typed, completed at its end, and then printed by the shell itself.
fn completed(sandbox: &Sandbox, name: &str, start: &str, lines: &[&str]) -> Option<Vec<String>> {
    let mut script = shell(sandbox, name)?;
    // To the start of the line, so that it is printed and not carried out.
    let keys: String = lines.iter().map(|line| format!("{line}\t\x01print_words \x05\r")).collect();
    std::fs::write(sandbox.path("keys"), format!("{keys}exit\r")).unwrap();
    let output = script
        .args(["--quiet", "--return", "--command", start, "/dev/null"])
        .stdin(std::fs::File::open(sandbox.path("keys")).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let printed = std::fs::read_to_string(sandbox.path("printed"))
        .unwrap_or_else(|_| panic!("nothing was printed: {}", String::from_utf8_lossy(&output.stdout)));
    Some(printed.lines().map(str::to_owned).collect())
}

/// Keeps the words that it is given, a line for a call, each word in brackets.
const PRINT_WORDS: &str = "print_words() { printf '[%s]' \"$@\" >>printed; echo >>printed; }\n";

/// Beginnings of command lines, and the words that they become.
const LINES: [(&str, &str); 11] = [
    ("nestor run ext4/kv", "[nestor][run][ext4/kvm/]"),
    ("nestor run -n 2 ext4/kvm:cac", "[nestor][run][-n][2][ext4/kvm:cache=]"),
    ("nestor run ext4/kvm:cache=writeb", "[nestor][run][ext4/kvm:cache=writeback/]"),
    ("nestor run ext4/hdd fio:seq-w", "[nestor][run][ext4/hdd][fio:seq-write]"),
    ("nestor stack ext4/hdd:wd-r", "[nestor][stack][ext4/hdd:wd-re3]"),
    ("nestor run 'ext4/kvm/raw/xfs/hd", "[nestor][run][ext4/kvm/raw/xfs/hdd]"),
    ("nestor study qu", "[nestor][study][quick]"),
    ("nestor run --on thi", "[nestor][run][--on][this]"),
    ("nestor advise --settle lis", "[nestor][advise][--settle][list]"),
    ("nestor run ext4/hdd --trace ful", "[nestor][run][ext4/hdd][--trace][full]"),
    // Not of the program's grammar.
    ("nestor replicate --cla", "[nestor][replicate][--claims]"),
];

fn typed() -> Vec<&'static str> {
    LINES.iter().map(|(line, _)| *line).collect()
}

fn expected() -> Vec<&'static str> {
    LINES.iter().map(|(_, words)| *words).collect()
}

#[test]
fn bash_completes_stacks_workloads_and_studies() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("rc"), format!("{PRINT_WORDS}. ./completions\n")).unwrap();
    if let Some(words) = completed(&sandbox, "bash", "bash --noprofile --rcfile rc -i", &typed()) {
        assert_eq!(words, expected());
    }
}

#[test]
fn zsh_completes_stacks_workloads_and_studies() {
    let sandbox = Sandbox::new();
    let rc = format!("autoload -U compinit; compinit -D -u; bindkey -e\n{PRINT_WORDS}. ./completions\n");
    std::fs::write(sandbox.path(".zshrc"), rc).unwrap();
    if let Some(words) = completed(&sandbox, "zsh", "zsh -d -i", &typed()) {
        assert_eq!(words, expected());
    }
}

#[test]
fn fish_completes_stacks_workloads_and_studies() {
    let sandbox = Sandbox::new();
    if shell(&sandbox, "fish").is_none() {
        return;
    }
    for (line, words) in LINES {
        let path = format!("{}:{}", sandbox.text("bin"), std::env::var("PATH").unwrap());
        let output = Command::new("fish")
            .args(["--no-config", "--command", "source ./completions; complete --do-complete $argv[1]", line])
            .env("PATH", path)
            .env("HOME", sandbox.path(""))
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        let whole = words.rsplit('[').next().unwrap().trim_end_matches(']');
        let is_it = |offer: &str| offer.split('\t').next() == Some(whole);
        assert!(offered.lines().any(is_it), "{line}: {offered}");
    }
}

#[test]
fn fish_offers_no_files_where_a_workload_is_begun_and_no_hidden_commands() {
    let sandbox = Sandbox::new();
    if shell(&sandbox, "fish").is_none() {
        return;
    }
    std::fs::write(sandbox.path("fio:study.pdf"), "").unwrap();
    std::fs::write(sandbox.path("study.pdf"), "").unwrap();
    let offered = |line: &str| {
        let path = format!("{}:{}", sandbox.text("bin"), std::env::var("PATH").unwrap());
        let command = "source ./completions; complete --do-complete $argv[1]";
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "--command", command, line]).current_dir(sandbox.path(""));
        let output = fish.env("PATH", path).env("HOME", sandbox.path("")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let workloads = offered("nestor run ext4/hdd fio:s");
    assert!(workloads.contains("fio:seq-write") && !workloads.contains("study.pdf"), "{workloads}");
    let commands = offered("nestor s");
    assert!(commands.contains("study\t") && !commands.contains("slurm-task"), "{commands}");
}
