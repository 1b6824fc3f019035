//! Brace expansion: what bash does, and what Nestor needs of it.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::io::Write as _;
use std::process::{Command, Stdio};

use nestor_stack::{MAX_ALTERNATIVES, StackErrorKind, expand, parse_all};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

#[test]
fn the_nested_file_system_study_is_42_stacks() {
    let text = "{ext2,ext3,ext4,reiserfs,xfs,jfs}/kvm/{raw/{ext2,ext3,ext4,reiserfs,xfs,jfs}/,}hdd";
    let stacks = parse_all(text).unwrap();
    assert_eq!(stacks.len(), 42);
    assert_eq!(stacks[0].to_string(), "ext2/kvm/raw/ext2/hdd");
    assert_eq!(stacks[6].to_string(), "ext2/kvm/hdd");
    assert_eq!(stacks[41].to_string(), "jfs/kvm/hdd");
    let distinct: std::collections::HashSet<_> = stacks.into_iter().collect();
    assert_eq!(distinct.len(), 42);
}

#[test]
fn options_can_be_alternatives() {
    let stacks = parse_all("ext4/kvm:cache={none,writeback}/raw/xfs/hdd").unwrap();
    let texts: Vec<_> = stacks.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["ext4/kvm/raw/xfs/hdd", "ext4/kvm:cache=writeback/raw/xfs/hdd"]);
}

#[test]
fn braces_work_in_a_path() {
    assert_eq!(expand("xfs/dev:/dev/sd{b,c}").unwrap(), ["xfs/dev:/dev/sdb", "xfs/dev:/dev/sdc"]);
}

#[test]
fn an_error_shows_the_expanded_text() {
    let error = parse_all("ext4/{kvm/,}jfs/hdd").unwrap_err();
    assert_eq!(error.stack(), "ext4/kvm/jfs/hdd");
    assert_eq!(parse_all("").unwrap_err().kind(), StackErrorKind::Empty);
    assert_eq!(parse_all("{,}").unwrap_err().kind(), StackErrorKind::Empty);
}

#[test]
fn too_much_is_refused_at_once() {
    let cases = [
        "{1..1000000000000}".to_owned(),
        "{-9223372036854775808..9223372036854775807}".to_owned(),
        "{1..300}{1..300}".to_owned(),
        "{a,b}".repeat(40),
        "{1..65537}".to_owned(),
        "{,".repeat(500) + &"}".repeat(500),
        "{".repeat(100_000),
    ];
    for text in cases {
        let error = expand(&text).unwrap_err();
        assert_eq!(error.kind(), StackErrorKind::TooManyAlternatives, "{text:.40}");
    }
    assert_eq!(expand("{1..65536}").unwrap().len(), MAX_ALTERNATIVES);
    insta::assert_snapshot!(expand("ext4/hdd:size={1..99999}M").unwrap_err(), @r"
    braces expand to too many stacks
      ext4/hdd:size={1..99999}M
                    ^^^^^^^^^^ these expand to more than 65536 stacks
      split them into several studies
    ");
}

/// What bash makes of each text, or `None` without bash.
fn bash(texts: &[String]) -> Option<Vec<Vec<String>>> {
    let mut script = String::from("show() { printf '%s\\n' \"$#\" \"$@\"; }\nset -f\n");
    for text in texts {
        script.push_str(&format!("show {text}\n"));
    }
    let mut child = Command::new("bash")
        .arg("--norc")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let mut lines = output.lines();
    let mut words = || {
        let count: usize = lines.next().unwrap().parse().unwrap();
        // `printf` prints an empty line for no word at all; that line is not there, as the count is an argument too.
        (0..count).map(|_| lines.next().unwrap().to_owned()).collect()
    };
    Some(texts.iter().map(|_| words()).collect())
}

fn assert_like_bash(texts: Vec<String>) {
    let Some(expected) = bash(&texts) else {
        eprintln!("no bash here: not compared");
        return;
    };
    for (text, expected) in texts.iter().zip(expected) {
        assert_eq!(expand(text).unwrap(), expected, "expansion of {text}");
    }
}

#[test]
fn known_corners_are_as_in_bash() {
    let corners = [
        "{a,b}",
        "a{b,c}d",
        "{a,b}{c,d}",
        "{a,{b,c}}",
        "{{a,b},c}",
        "{,a}",
        "{a,}",
        "x{,}",
        "{,}",
        "x{,,}y",
        "{x}",
        "{}",
        "a{}b",
        "{a",
        "a}",
        "{a,b",
        "a,b}",
        "{a,b}}",
        "{{a,b}",
        "{{a,b}}",
        "{a,b}{",
        "}{a,b}",
        "{a{b,c}",
        "{a,{b,c}",
        "{a,b},c}",
        "a{},b}",
        "{},b}",
        "{}{a,b}",
        "{a,b}{}",
        "{a,{}}",
        "{{},a}",
        "x{{}}y",
        "{1..3}",
        "{3..1}",
        "{1..1}",
        "{-2..2}",
        "{01..3}",
        "{1..03}",
        "{-01..2}",
        "{1..10..3}",
        "{10..1..3}",
        "{1..10..-3}",
        "{1..3..0}",
        "{a..e}",
        "{e..a..2}",
        "{a..1}",
        "{1..a}",
        "{1..}",
        "{..1}",
        "{..}",
        "{1...3}",
        "{1..2..3..4}",
        "{1..2..}",
        "{1..2,5}",
        "{1..{2,3}}",
        "{{1..2},5}",
        "{1..2}{a,b}",
        "x{1.5}y",
        "{+1..3}",
        "{1..+3}",
        "{aa..c}",
        "{a..cc}",
        "{1..3..x}",
        "{a,b}{1..2}{x}",
        "{x}{a,b}",
        "{1..x}{a,b}",
        "{1..2}}",
        "{{1..2}",
        "{00..0}",
        "{0..00}",
        "{a,b,}{,c}",
        "a,b",
        ",",
        "..",
        "{,.}",
        "{.,..}",
        "{..,a}",
        "{a..}",
        "{a,..}",
        "{1..2}..{3..4}",
    ];
    assert_like_bash(corners.map(str::to_owned).into());
}

#[test]
fn generated_texts_are_as_in_bash() {
    let mut runner = TestRunner::deterministic();
    let soup = "[{},.ab12-]{1,14}";
    let likely = "([a-c]{0,2}\\{([a-c]{0,2}|\\{[a-c]?,[a-c]?\\}|[0-9]\\.\\.[0-9])(,[a-c]{0,2}){0,2}\\}?){1,3}[a-c/:=]{0,3}";
    let mut texts = Vec::new();
    for pattern in [soup, likely] {
        let strategy = proptest::string::string_regex(pattern).unwrap();
        texts.extend((0..3000).map(|_| strategy.new_tree(&mut runner).unwrap().current()));
    }
    // A range of a thousand steps tests no more than one of ten.
    texts.retain(|text: &String| expand(text).is_ok_and(|words| words.len() < 2000));
    assert!(texts.len() > 5000, "the generator hardly makes anything that can be expanded");
    assert_like_bash(texts);
}

proptest! {
    #[test]
    fn any_text_expands_or_is_refused(text in "\\PC{0,60}") {
        let _ = expand(&text);
    }

    #[test]
    fn a_text_without_braces_is_itself(text in "[^{}]{1,60}") {
        prop_assert_eq!(expand(&text).unwrap(), [text]);
    }
}
