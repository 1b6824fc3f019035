use std::path::Path;

use super::*;
use crate::message::Command;

fn run(script: &str, file: &Path) -> Request {
    Request::Run(Command::new(["sh", "-c", script, "sh", &file.display().to_string()]))
}

fn codes(line: &[TimedAnswer]) -> Vec<Option<i32>> {
    let code = |timed: &TimedAnswer| match &timed.answer {
        Answer::Finished(finished) => finished.exit_code,
        _ => None,
    };
    line.iter().map(code).collect()
}

#[test]
fn lines_go_on_at_the_same_time_and_each_in_its_order() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::new(&root.path().join("work")).unwrap();
    let file = root.path().join("made by the second line");
    // The first line ends only after the second has come to its second program.
    let waits = run(r#"while ! [ -e "$1" ]; do sleep 0.01; done"#, &file);
    let lines = agent.together(vec![vec![waits], vec![run("exit 0", &file), run(r#"touch "$1""#, &file)]]);
    assert_eq!(lines.iter().map(|line| codes(line)).collect::<Vec<_>>(), [vec![Some(0)], vec![Some(0); 2]]);
    let second = &lines[1];
    assert!(second[0].begin_ns <= second[0].end_ns && second[0].end_ns <= second[1].begin_ns);
    assert!(lines[0][0].begin_ns <= second[1].begin_ns);
    agent.finish();
}

#[test]
fn lines_that_were_begun_go_on_while_others_are_obeyed_and_are_ended_once() {
    let root = tempfile::tempdir().unwrap();
    let agent = Arc::new(Agent::new(&root.path().join("work")).unwrap());
    agent.is_served_by(&agent);
    let file = root.path().join("made by the second");
    let waits = run(r#"while ! [ -e "$1" ]; do sleep 0.01; done"#, &file);
    let Ok(Answer::Begun(first)) = agent.begin_together(vec![vec![waits]]) else { panic!("not begun") };
    let made = vec![vec![run(r#"touch "$1""#, &file)]];
    let Ok(Answer::Begun(second)) = agent.begin_together(made) else { panic!("not begun") };
    for begun in [first, second] {
        let Ok(Answer::Together(lines)) = agent.end_together(begun) else { panic!("not ended") };
        assert_eq!(codes(&lines[0]), [Some(0)]);
        let again = agent.end_together(begun).unwrap_err().to_string();
        assert!(again.contains("were not begun"), "{again}");
    }
    agent.finish();
}

#[test]
fn a_line_ends_with_what_fails_and_the_others_do_not() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::new(&root.path().join("work")).unwrap();
    let file = root.path().join("never made");
    let missing = || Request::Run(Command::new(["no-such-program-anywhere"]));
    let lines = agent.together(vec![
        vec![run("exit 3", &file), run(r#"touch "$1""#, &file)],
        vec![missing(), run(r#"touch "$1""#, &file)],
        vec![run("exit 0", &file), run("exit 0", &file)],
    ]);
    assert_eq!(codes(&lines[0]), [Some(3)]);
    assert!(matches!(&lines[1][..], [TimedAnswer { answer: Answer::Failed(refusal), .. }]
        if matches!(refusal.cause, Cause::NotInstalled { .. })));
    assert_eq!(codes(&lines[2]), [Some(0), Some(0)]);
    assert!(!file.exists());
    agent.finish();
}

#[test]
fn nothing_is_begun_once_everything_is_taken_down() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::new(&root.path().join("work")).unwrap();
    agent.finish();
    let file = root.path().join("never made");
    let lines = agent.together(vec![vec![run(r#"touch "$1""#, &file)]]);
    assert!(matches!(&lines[0][..], [TimedAnswer { answer: Answer::Failed(refusal), .. }]
        if refusal.cause == Cause::TakenDown));
    assert!(!file.exists());
}
