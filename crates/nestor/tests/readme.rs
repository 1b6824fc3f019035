//! What README shows of a run and of the demo comes out of them: in virtual time it does on any machine.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::time::Duration;

use support::{Sandbox, alone, can_run};

/// Ends a demo that hangs.
const HOUR: Duration = Duration::from_secs(3600);

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

/// What was counted, of the lines of the table of layers: the layer with its requests and bytes. Times are left out: they are the same
/// for each run of one program, and another compiler's program begins at another place of a turn of the disk.
fn counted(lines: &[String]) -> Vec<String> {
    let table = lines.iter().skip_while(|line| !line.starts_with("  layer")).skip(1);
    let table = table.take_while(|line| !line.contains("times are medians"));
    let layers = table.filter(|line| !line.starts_with("      "));
    let of_line = |line: &String| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.take(4).map(without_groups).collect::<Vec<_>>().join("  ")
    };
    layers.map(of_line).collect()
}

/// The instructions of each operation, by what executed them, and of all; those for each request follow from them and the requests.
fn instructions(lines: &[String]) -> Vec<(String, f64)> {
    let table = lines.iter().skip_while(|line| !line.starts_with("  instructions")).skip(1);
    let table = table.take_while(|line| !line.contains("on the modelled processor"));
    let of_line = |line: &String| {
        let mut cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let (executor, count) = (cells.next()?, cells.next()?);
        Some((executor.to_owned(), without_groups(count).parse().ok()?))
    };
    table.filter_map(of_line).collect()
}

/// `2 086` as `2086`.
fn without_groups(cell: &str) -> String {
    let digit = |c: Option<&char>| c.is_some_and(char::is_ascii_digit);
    let characters: Vec<char> = cell.chars().collect();
    let is_gap = |at: usize| {
        characters[at] == ' ' && at > 0 && digit(characters.get(at - 1)) && digit(characters.get(at + 1))
    };
    (0..characters.len()).filter(|&at| !is_gap(at)).map(|at| characters[at]).collect()
}

/// Another compiler's program is like another seed: what was counted differs by a few in a hundred.
const CLOSE: f64 = 0.1;

/// One part of a stack executes few instructions, and they differ by more.
const CLOSE_PART: f64 = 0.2;

fn are_close(shown: &[(String, f64)], found: &[(String, f64)]) -> bool {
    let close = |((executor, shown), (other, found)): (&(String, f64), &(String, f64))| {
        let limit = if executor == "total" { CLOSE } else { CLOSE_PART };
        executor == other && (shown - found).abs() <= limit * shown
    };
    shown.len() == found.len() && shown.iter().zip(found).all(close)
}

fn is_close(shown: &str, found: &str) -> bool {
    let (shown, found): (Vec<&str>, Vec<&str>) =
        (shown.split_whitespace().collect(), found.split_whitespace().collect());
    let close = |(shown, found): (&&str, &&str)| match (shown.parse::<f64>(), found.parse::<f64>()) {
        (Ok(shown), Ok(found)) => (shown - found).abs() <= (CLOSE * shown.abs()).max(2.0),
        _ => shown == found,
    };
    shown.len() == found.len() && shown.iter().zip(&found).all(close)
}

#[test]
fn numbers_are_close_and_words_are_equal() {
    assert_eq!(without_groups("2 086 357"), "2086357");
    assert!(is_close("xfs  host fs  2086  8.1 MiB", "xfs  host fs  2111  8.2 MiB"));
    assert!(!is_close("xfs  host fs  2086  8.1 MiB", "xfs  host fs  2386  8.2 MiB"));
    assert!(!is_close("xfs  host fs  2086  8.1 MiB", "jfs  host fs  2086  8.1 MiB"));
}

#[test]
fn instructions_of_another_program_are_not_those_shown() {
    let lines = |total: &str| {
        let table = "  instructions  per operation  per request of hdd\n  guest kernel         134 439      53 327\n  hypervisor            72 060      28 584";
        let text = format!(
            "{table}\n  total                {total}\n  one takes 1 ns on the modelled processor; counted"
        );
        instructions(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let shown = lines("619 137     245 000");
    assert_eq!(shown.len(), 3);
    assert_eq!(shown[2], ("total".to_owned(), 619_137.0));
    assert!(are_close(&shown, &lines("650 000     260 000")));
    assert!(!are_close(&shown, &lines("727 777     290 000")));
    assert!(!are_close(&shown, &shown[..2]));
}

/// A line as words and numbers, by turns: `+4±9` and `[0.96, 1.13]` have two numbers each.
fn words_and_numbers(line: &str) -> (Vec<String>, Vec<f64>) {
    let (mut words, mut numbers) = (vec![String::new()], Vec::new());
    let line = without_groups(line);
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        match rest[..digits].parse() {
            Ok(number) => {
                numbers.push(number);
                words.push(String::new());
                rest = &rest[digits..];
            }
            Err(_) => {
                let last = words.last_mut().expect("there is always one");
                // How far columns are apart follows from the numbers in them.
                if first != ' ' || !last.ends_with(' ') {
                    last.push(first);
                }
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    (words, numbers)
}

/// Another compiler's program is like another seed, and a rate of the demo's few seeds is known to a tenth or a fifth.
const CLOSE_RATE: f64 = 0.3;
/// Half an interval of three pairs is itself known to a factor of this only.
const CLOSE_HALF: f64 = 3.0;
/// Whole numbers below it are counts: of comparisons, writes, flushes, runs.
const FEWEST_OF_A_RATE: f64 = 20.0;

/// Whether numbers after the words before them are close enough for one finding.
fn is_close_rate(before: &str, shown: f64, found: f64) -> bool {
    if before.ends_with('±') {
        return shown <= CLOSE_HALF * found && found <= CLOSE_HALF * shown;
    }
    let is_change = before.ends_with(['+', '-']);
    if !is_change && shown.fract() == 0.0 && shown < FEWEST_OF_A_RATE {
        return shown == found;
    }
    (shown - found).abs() <= CLOSE_RATE * shown.abs()
}

fn says_the_same(shown: &str, found: &str) -> bool {
    let ((words, numbers), (found_words, found_numbers)) =
        (words_and_numbers(shown), words_and_numbers(found));
    let pairs = numbers.iter().zip(&found_numbers);
    words == found_words && words.iter().zip(pairs).all(|(word, (a, b))| is_close_rate(word, *a, *b))
}

#[test]
fn findings_are_the_same_if_their_words_are_and_their_numbers_are_close() {
    let line = "reiserfs: 1.04 times the disk's fsyncs [0.96, 1.13]; a power cut loses none.";
    assert!(says_the_same(line, &line.replace("1.13", "1.14")));
    assert!(!says_the_same(line, &line.replace("none", "them")));
    assert!(says_the_same("ext3/kvm   +2 330±318  S  -34±7", "ext3/kvm  +2 090±190  S   -34±7"));
    let different = [
        ("cache=unsafe: 5 320 fsyncs/s", "cache=unsafe: 54 fsyncs/s"),
        ("ext3/kvm   +25±8", "ext3/kvm   -25±8"),
        ("xfs: 0.67 times", "xfs: 3.60 times"),
        ("reiserfs: 1.05 times", "reiserfs: 0.10 times"),
        ("3 slower, 2 faster, 1 not told apart", "0 slower, 0 faster, 4 not told apart"),
        ("4 writes of 24 KiB and 2 flushes", "1 writes of 20 KiB and 0 flushes"),
        ("2.1 flushes of the disk", "5.0 flushes of the disk"),
    ];
    for (shown, found) in different {
        assert!(!says_the_same(shown, found), "{shown} / {found}");
    }
}

#[test]
fn the_picture_shows_the_numbers_of_the_demo() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect("it can be read");
    let (readme, picture) = (text("README.md"), text("docs/picture.svg"));
    let (_, section) = readme.split_once("The demo ends with:").expect("README has the demo");
    let matrix = section.split("```").nth(1).expect("its output");
    let rows: Vec<String> =
        matrix.lines().filter(|line| line.trim_start().starts_with("ext3/kvm")).map(without_groups).collect();
    // `+2 950±52` in the terminal is `+2 950 %` in the picture, `-33±5` is `−33.4 %`.
    let changes: Vec<&str> = rows
        .iter()
        .flat_map(|row| row.split_whitespace())
        .filter_map(|cell| Some(cell.split_once('±')?.0))
        .collect();
    assert!(changes.len() > 5, "{matrix}");
    for change in changes {
        let whole: f64 = change.parse().expect("a number");
        let sign = if whole < 0.0 { '−' } else { '+' };
        let shown = picture.split('>').any(|text| {
            let number = text.strip_prefix(sign).and_then(|text| text.split_once('%'));
            let number = number.and_then(|(number, _)| number.replace('\u{a0}', "").parse::<f64>().ok());
            number.is_some_and(|number| (number - whole.abs()).abs() <= 0.5)
        });
        assert!(shown, "{change} is not in docs/picture.svg");
    }
}

/// With 80 columns the demo prints 40 lines, of which none of the findings takes two.
#[test]
fn what_the_demo_finds_is_said_in_a_line_each() {
    const FITS: usize = 78;
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).expect("README can be read");
    let (_, findings) = readme.split_once("What becomes at the disk").expect("README has the findings");
    let findings: Vec<&str> = findings.lines().take_while(|line| *line != "```").collect();
    assert_eq!(findings.iter().filter(|line| line.starts_with("  ")).count(), 9);
    let long: Vec<&&str> = findings.iter().filter(|line| line.chars().count() > FITS).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
#[ignore = "runs the demo, some ten minutes: part of make test-long"]
fn the_demo_finds_what_the_readme_says_that_it_finds() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).expect("README can be read");
    let (_, section) = readme.split_once("The demo ends with:").expect("README has the demo");
    let shown = section.split("```").nth(1).expect("its output").lines().skip(1);
    let sandbox = Sandbox::new();
    let output = sandbox
        .nestor(["study", "quick", "--quiet", "--budget", "1h", "--on", "emulated:time=virtual"])
        .args(["--store", &sandbox.text("results.sqlite")])
        .timeout(HOUR)
        .assert()
        .success()
        .stderr("")
        .get_output()
        .stdout
        .clone();
    let output = String::from_utf8(output).expect("text is UTF-8");
    // `make demo` says two lines more: what it installs and what it builds.
    assert!(output.lines().count() <= 38, "the demo prints {} lines:\n{output}", output.lines().count() + 2);
    let missing: Vec<&str> =
        shown.filter(|shown| !output.lines().any(|found| says_the_same(shown, found))).collect();
    assert!(missing.is_empty(), "README shows {missing:#?}; this is what came out:\n{output}");
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
    let (shown, found) = (counted(&example.shown), counted(&lines));
    assert!(shown.len() > 4 && shown.len() == found.len(), "{shown:?} {found:?}");
    let close = shown.iter().zip(&found).all(|(shown, found)| is_close(shown, found));
    assert!(close, "README shows {shown:#?}; this is what came out:\n{output}");
    let (shown, found) = (instructions(&example.shown), instructions(&lines));
    assert!(
        shown.len() > 4 && are_close(&shown, &found),
        "README shows {shown:#?}; this is what came out:\n{output}"
    );
}
