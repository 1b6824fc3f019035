//! What README shows of a run comes out of that run: in virtual time it does on any machine.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use support::{Sandbox, alone, can_run};

/// README's example: its command and what it prints.
struct Example {
    arguments: Vec<String>,
    shown: Vec<String>,
}

impl Example {
    fn of(readme: &str) -> Self {
        let (_, section) = readme.split_once("## One run").expect("README has a run");
        let mut blocks = section.split("```").skip(1).step_by(2);
        let (command, shown) = (blocks.next().expect("its command"), blocks.next().expect("its output"));
        let command = command.lines().find_map(|line| line.strip_prefix("nestor ")).expect("a command");
        let arguments = command.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect();
        let shown = shown.lines().skip(1).map(str::to_owned).collect();
        Self { arguments, shown }
    }

    /// The line that names kernels: other ones do other work.
    fn machines(&self) -> &str {
        self.shown.iter().find(|line| line.contains("host Linux")).expect("a run names its machines")
    }
}

/// What was counted, of the lines of the table of layers: the layer with its requests and bytes, and what they were for. Times are left
/// out: they are the same for each run of one program, and another compiler's program begins at another place of a turn of the disk.
fn counted(lines: &[String]) -> Vec<String> {
    let table = lines.iter().skip_while(|line| !line.starts_with("  layer")).skip(1);
    let table = table.take_while(|line| !line.contains("times are medians"));
    let of_line = |line: &String| match line.strip_prefix("      ") {
        Some(details) => {
            details.split(", ").filter(|part| !part.contains('%')).collect::<Vec<_>>().join(", ")
        }
        None => line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .take(5)
            .collect::<Vec<_>>()
            .join(" "),
    };
    table.map(of_line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_run_in_the_readme_comes_out_as_it_is_counted_there() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let example = Example::of(&std::fs::read_to_string(readme).expect("README can be read"));
    let sandbox = Sandbox::new();
    let mut command = sandbox.nestor(&example.arguments);
    command.args(["--on", "emulated:time=virtual", "--store", &sandbox.text("results.sqlite")]);
    let output = command.assert().success().get_output().stdout.clone();
    let output = String::from_utf8(output).expect("text is UTF-8");
    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
    if !lines.iter().any(|line| line == example.machines()) {
        println!("other kernels than README's, which others' numbers come of: not held against it");
        return;
    }
    let shown = counted(&example.shown);
    assert!(shown.len() > 5, "{shown:?}");
    assert_eq!(counted(&lines), shown, "README shows another run; this is what came out:\n{output}");
}
