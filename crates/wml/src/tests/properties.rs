use proptest::prelude::*;

use super::try_read;
use crate::{Action, FlowopKind, Source, Value, parse};

/// Words of the language, so that random texts get far.
const WORDS: &[&str] = &[
    "define",
    "set",
    "run",
    "fileset",
    "file",
    "process",
    "thread",
    "flowop",
    "randvar",
    "cvar",
    "(",
    ")",
    "{",
    "}",
    "=",
    ",",
    "name=a",
    "name=$x",
    "path=/d",
    "entries=",
    "$x",
    "$y.mean",
    "${z}",
    "$(H)",
    "1",
    "4k",
    "-",
    "+",
    "*",
    "/",
    "\"",
    "\\",
    "read",
    "createfile",
    "foreach",
    "in",
    "filesetname=a",
    "type=gamma",
    "type=cvar-normal",
    "randtable",
    "{{100,1,2}}",
    "echo",
    "create",
    "files",
    "processes",
    "sleep",
    "psrun",
    "eventgen",
    "rate=5",
    "#",
    "\n",
    " ",
    "\t",
    "quit",
    "mode",
    "é",
    "99999999999g",
    "iters=$x",
    "target=a",
    "load",
    "a",
    "stats",
    "clear",
    "parameters=mean:5;sigma:2",
    ";",
    ":",
    ".",
];

/// A calculation and its value.
fn expression() -> impl Strategy<Value = (String, Option<i128>)> {
    let leaf = (0_i64..5000).prop_map(|n| (n.to_string(), Some(i128::from(n))));
    leaf.prop_recursive(5, 40, 2, |inner| {
        (inner.clone(), 0_usize..4, inner, any::<bool>()).prop_map(|((a, x), operator, (b, y), blank)| {
            let blank = if blank { " " } else { "" };
            let text = format!("({a}{blank}{}{blank}{b})", ["+", "-", "*", "/"][operator]);
            let value = x.zip(y).and_then(|(x, y)| match operator {
                0 => x.checked_add(y),
                1 => x.checked_sub(y),
                2 => x.checked_mul(y),
                _ if y == 0 => None,
                _ => Some(x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0)),
            });
            // What does not fit 63 bits on the way is an error.
            (text, value.filter(|value| i64::try_from(*value).is_ok()))
        })
    })
}

#[derive(Clone, Debug)]
struct Step {
    kind: usize,
    iterations: u64,
    bytes: u64,
    fd: u32,
    random: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_usize..4, 1_u64..1000, 0_u64..=1 << 27, 0_u32..200, any::<bool>())
        .prop_map(|(kind, iterations, bytes, fd, random)| Step { kind, iterations, bytes, fd, random });
    proptest::collection::vec(step, 1..8)
}

const KINDS: [(&str, FlowopKind); 4] = [
    ("read", FlowopKind::Read),
    ("write", FlowopKind::Write),
    ("appendfile", FlowopKind::AppendFile),
    ("fsync", FlowopKind::Fsync),
];

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = parse(&Source::new("fuzz", &bytes), &[]) {
            let _ = error.to_string();
        }
    }

    #[test]
    fn any_words_are_read_or_refused(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)) {
        for glue in ["", " "] {
            if let Err(error) = try_read(&words.join(glue)) {
                prop_assert!(error.line >= 1 && error.to_string().contains('^'));
            }
        }
    }

    #[test]
    fn a_damaged_script_is_read_or_refused(at in 0..super::SMALL.len(), remove in 0_usize..5, put in proptest::sample::select(WORDS)) {
        let mut text = super::SMALL.to_owned();
        text.replace_range(at..(at + remove).min(super::SMALL.len()), put);
        if let Err(error) = try_read(&text) {
            prop_assert!(error.to_string().contains('^'));
        }
    }

    #[test]
    fn calculations_are_exact((text, value) in expression()) {
        let found = match try_read(&format!("set $r={text}\necho \"$r\"")) {
            Ok(script) => match &script.actions[..] {
                [Action::Echo(text)] => text.parse::<i128>().ok(),
                _ => None,
            },
            Err(_) => None,
        };
        prop_assert_eq!(found, value, "{}", text);
    }

    #[test]
    fn a_script_says_what_it_was_made_from(
        steps in steps(),
        threads in 1_u64..100,
        entries in 0_u64..1_000_000,
        width in 1_u64..1000,
        separator in proptest::sample::select(&[",", ", ", " ,\n\t", ",#c\n"][..]),
    ) {
        let mut flowops = String::new();
        for (n, step) in steps.iter().enumerate() {
            let random = if step.random { format!("{separator}random") } else { String::new() };
            flowops += &format!(
                "flowop {} name=f{n}{separator}filename=s{separator}iters={}{separator}iosize={}{separator}fd={}{random}\n",
                KINDS[step.kind].0, step.iterations, step.bytes, step.fd,
            );
        }
        let text = format!(
            "define fileset name=s{separator}path=/d{separator}entries={entries}{separator}dirwidth={width}\n\
             define process name=p {{ thread name=t{separator}instances={threads} {{ {flowops} }} }} run 3"
        );
        let script = try_read(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let run = super::run(&script);
        prop_assert_eq!(run.file_sets[0].entries, entries);
        prop_assert_eq!(&run.file_sets[0].directory_width, &Value::Fixed(width));
        let thread = &run.processes[0].threads[0];
        prop_assert_eq!(thread.instances, threads);
        prop_assert_eq!(thread.flowops.len(), steps.len());
        for (flowop, step) in thread.flowops.iter().zip(&steps) {
            prop_assert_eq!(&flowop.kind, &KINDS[step.kind].1);
            prop_assert_eq!(&flowop.iterations, &Value::Fixed(step.iterations));
            prop_assert_eq!(&flowop.io_bytes, &Value::Fixed(step.bytes));
            prop_assert_eq!((flowop.fd, flowop.random, flowop.file_set), (step.fd, step.random, Some(0)));
        }
    }
}
