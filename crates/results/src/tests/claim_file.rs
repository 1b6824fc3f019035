//! Claims and figures in a study file, and the errors that are made in them.

use crate::{ClaimKind, Expected, FigureKind, Study};

const HEAD: &str = "name = \"s\"\ntitle = \"S\"\nstacks = [\"ext4/hdd\"]\nbaseline = \"ext4/hdd\"\nworkloads = [\"fio:seq-read\"]\n";

fn parse(rest: &str) -> Result<Study, String> {
    Study::parse("s.toml", &format!("{HEAD}{rest}"), None).map_err(|e| e.to_string())
}

fn claim(rest: &str) -> String {
    format!("[[claim]]\nid = \"L-1\"\ntitle = \"T\"\n{rest}")
}

#[test]
fn claims_and_figures_are_read() {
    let study = parse(&format!(
        "{}{}[[figure]]\nid = \"fig-4\"\ntitle = \"F\"\nkind = \"heat\"\nx = \"host\"\ny = \"%\"\nsql = \"SELECT 1\"\n",
        claim("kind = \"ratio\"\nplace = \"§1\"\npaper = \"+5-15 %\"\nexpected = { low = \"+5 %\", high = \"+15 %\" }\nsql = \"SELECT 2\"\n"),
        "[[claim]]\nid = \"L-2\"\ntitle = \"U\"\nkind = \"setup\"\nnot_testable = \"no such hypervisor\"\nnote = \"N\"\n",
    ))
    .unwrap();
    let [first, second] = study.claims.as_slice() else { panic!("{:?}", study.claims) };
    let Some(Expected::Change { low, high }) = first.expected else { panic!("{first:?}") };
    assert!((low - 1.05).abs() < 1e-12 && (high - 1.15).abs() < 1e-12);
    assert_eq!((second.kind, second.not_testable.as_deref()), (ClaimKind::Setup, Some("no such hypervisor")));
    assert_eq!(study.figures[0].kind, FigureKind::Heat);
    let of = |rest: &str| parse(&claim(rest)).unwrap().claims[0].expected;
    assert_eq!(of("kind = \"predicate\"\nexpected = \"alike\"\nsql = \"S\"\n"), Some(Expected::Alike));
    assert_eq!(of("kind = \"predicate\"\nexpected = \"not-less\"\nsql = \"S\"\n"), Some(Expected::NotLess));
    assert_eq!(
        of("kind = \"constant\"\nexpected = { within = 0.5 }\nsql = \"S\"\n"),
        Some(Expected::Within { tolerance: 0.5 })
    );
    assert_eq!(
        of("kind = \"ratio\"\nexpected = { change = \"2 x\" }\nsql = \"S\"\n"),
        Some(Expected::Change { low: 2.0, high: 2.0 })
    );
}

#[test]
fn findings_are_read_and_what_is_missing_is_named() {
    let finding = |rest: &str| parse(&format!("[[finding]]\nid = \"one\"\ntitle = \"T\"\n{rest}"));
    let study = finding("sql = \" SELECT 1 AS sentence \"\n");
    assert_eq!(study.unwrap().findings[0].sql, "SELECT 1 AS sentence");
    let said = finding("").unwrap_err();
    assert!(said.contains("sql"), "{said}");
    let said = finding("sql = \"S\"\nkind = \"bars\"\n").unwrap_err();
    assert!(said.contains("a finding has no key `kind`"), "{said}");
}

/// What is said of a file with these tables when it is read to be measured.
fn read(rest: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    std::fs::write(&file, format!("{HEAD}{rest}")).unwrap();
    let said = Study::read(&file, None).map_or_else(|e| e.to_string(), |_| String::new());
    said.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn queries_that_cannot_be_run_are_complained_about_before_anything_is_measured() {
    let finding = |sql: &str| format!("[[finding]]\nid = \"one\"\ntitle = \"T\"\nsql = \"{sql}\"\n");
    insta::assert_snapshot!(read(&finding("SELECT run AS sentence FROM latest WHERE runn = 1")), @r#"
    s.toml:9:7: this query cannot be run
      9 | sql = "SELECT run AS sentence FROM latest WHERE runn = 1"
        |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      SQLite says: no such column: runn; latest has run
    "#);
    let all = finding("SELEC 1")
        + &claim("kind = \"setup\"\nsql = \"SELECT 1 AS what\"\n")
        + "[[figure]]\nid = \"f\"\ntitle = \"F\"\nkind = \"bars\"\nx = \"x\"\ny = \"y\"\nsql = \"SELECT 1 AS x\"\n";
    let said = read(&all);
    assert_eq!(said.matches("this query cannot be run").count(), 3, "{said}");
    for words in ["syntax error", "does not return the column `found`", "does not return the column `y`"] {
        assert!(said.contains(words), "{said}");
    }
    // Beside what else is wrong.
    let said = read(&(finding("SELEC 1") + "seeed = 1\n"));
    assert!(said.contains("a finding has no key `seeed`") && said.contains("syntax error"), "{said}");
    assert_eq!(read(&finding("SELECT 'none' AS sentence FROM cell JOIN pair USING (run)")), "");
}

#[test]
fn the_queries_of_the_studies_that_come_along_can_be_run() {
    let studies = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    for file in std::fs::read_dir(studies).unwrap() {
        let file = file.unwrap().path();
        assert!(
            Study::read(&file, None).is_ok(),
            "{}: {}",
            file.display(),
            Study::read(&file, None).unwrap_err()
        );
    }
}

#[test]
fn a_file_has_so_many_claims_and_figures_and_no_more() {
    let claims = |count: usize| -> String {
        (0..count)
            .map(|n| format!("[[claim]]\nid = \"L-{n}\"\ntitle = \"T\"\nkind = \"setup\"\nsql = \"S\"\n"))
            .collect()
    };
    assert_eq!(parse(&claims(500)).unwrap().claims.len(), 500);
    let said = parse(&claims(501)).unwrap_err();
    assert!(said.contains("this is claim 501; a study has at most 500"), "{said}");
    assert!(said.contains("split the study in two"), "{said}");
}

#[test]
fn claims_do_not_change_what_a_study_is() {
    let with = parse(&claim("kind = \"setup\"\nsql = \"SELECT 1\"\n")).unwrap();
    assert_eq!(with.hash(&"emulated".into()), parse("").unwrap().hash(&"emulated".into()));
}

#[test]
fn every_error_shows_where_and_what_to_write() {
    let wrong = [
        claim("kind = \"ratio\"\nsqll = \"SELECT 1\"\n"),
        "[[claim]]\ntitle = \"T\"\nkind = \"setup\"\nsql = \"S\"\n".to_owned(),
        claim("kind = \"setup\"\nsql = \"S\"\n") + &claim("kind = \"setup\"\nsql = \"S\"\n"),
        claim("kind = \"guess\"\nsql = \"S\"\n"),
        claim("kind = \"setup\"\n"),
        claim("kind = \"setup\"\nsql = \"S\"\nnot_testable = \"N\"\n"),
        claim("kind = \"ratio\"\nsql = \"S\"\n"),
        claim("kind = \"predicate\"\nsql = \"S\"\n"),
        claim("kind = \"ratio\"\nexpected = { change = \"a third\" }\nsql = \"S\"\n"),
        claim("kind = \"ratio\"\nexpected = { change = \"-100 %\" }\nsql = \"S\"\n"),
        claim("kind = \"ratio\"\nexpected = \"less\"\nsql = \"S\"\n"),
        claim("kind = \"ratio\"\nexpected = { low = \"+5 %\", high = \"-5 %\" }\nsql = \"S\"\n"),
        claim("kind = \"predicate\"\nexpected = \"fewer\"\nsql = \"S\"\n"),
        claim("kind = \"setup\"\nexpected = \"less\"\nsql = \"S\"\n"),
        claim("kind = \"constant\"\nexpected = { within = -1 }\nsql = \"S\"\n"),
        claim("kind = \"setup\"\nsql = 1\n"),
        "[[figure]]\nid = \"f\"\ntitle = \"F\"\nkind = \"pie\"\nx = \"x\"\ny = \"y\"\nsql = \"S\"\n"
            .to_owned(),
        "claim = 1\n".to_owned(),
        "claim = [1]\n".to_owned(),
    ];
    let messages: Vec<String> = wrong.iter().map(|rest| parse(rest).unwrap_err()).collect();
    insta::assert_snapshot!(messages.join("\n\n"), @r#"
    s.toml:10:1: a claim has no key `sqll`
      10 | sqll = "SELECT 1"
         | ^^^^
      its keys are id, title, place, paper, kind, expected, margin, band, sql, not_testable, note

    s.toml:6:1: a claim has no `id`
      6 | [[claim]]
        | ^^^^^^^^^

    s.toml:12:6: two claims have the id `L-1`
      12 | id = "L-1"
         |      ^^^^^
      give each its own id

    s.toml:9:8: `kind` has an unknown value
      9 | kind = "guess"
        |        ^^^^^^^
      use one of setup, constant, ratio, predicate

    s.toml:6:1: claim L-1 has neither `sql` nor `not_testable`
      6 | [[claim]]
        | ^^^^^^^^^
      `sql` is the query that tests it; `not_testable` says why it cannot be tested

    s.toml:6:1: claim L-1 has both `sql` and `not_testable`
      6 | [[claim]]
        | ^^^^^^^^^
      keep one of them

    s.toml:6:1: claim L-1 has no `expected`
      6 | [[claim]]
        | ^^^^^^^^^
      a ratio is judged by the published change: expected = { change = "+34 %" }

    s.toml:6:1: claim L-1 has no `expected`
      6 | [[claim]]
        | ^^^^^^^^^
      a predicate is judged by its direction: expected = "less", "more", "alike" or "not-less"

    s.toml:10:23: this is not a change
      10 | expected = { change = "a third" }
         |                       ^^^^^^^^^
      write a change in per cent above -100: "-40 %", or a factor: "19.4 x"

    s.toml:10:23: this is not a change
      10 | expected = { change = "-100 %" }
         |                       ^^^^^^^^
      write a change in per cent above -100: "-40 %", or a factor: "19.4 x"

    s.toml:10:12: the expected value of a ratio is a change
      10 | expected = "less"
         |            ^^^^^^
      write { change = "+34 %" }, or both ends: { low = "-15 %", high = "-5 %" }

    s.toml:10:12: the expected value of a ratio is a change
      10 | expected = { low = "+5 %", high = "-5 %" }
         |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      write { change = "+34 %" }, or both ends: { low = "-15 %", high = "-5 %" }

    s.toml:10:12: `expected` has an unknown value
      10 | expected = "fewer"
         |            ^^^^^^^
      use one of less, more, alike, not-less

    s.toml:10:12: a claim about the set-up has no `expected`
      10 | expected = "less"
         |            ^^^^^^
      its query has the columns what, found and published

    s.toml:10:12: the expected value of a constant is a tolerance
      10 | expected = { within = -1 }
         |            ^^^^^^^^^^^^^^^
      write { within = 0.5 }, in the constant's unit, or leave it out for equality

    s.toml:10:7: `sql` must be a non-empty text in quotes
      10 | sql = 1
         |       ^

    s.toml:9:8: `kind` has an unknown value
      9 | kind = "pie"
        |        ^^^^^
      use one of bars, heat, line, fit, table, surface

    s.toml:6:9: a claim is a table
      6 | claim = 1
        |         ^
      write [[claim]] and its keys below it

    s.toml:6:10: a claim is a table
      6 | claim = [1]
        |          ^
      write [[claim]] and its keys below it
    "#);
}
