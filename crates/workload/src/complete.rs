//! What may follow the beginning of a workload: for shells, which complete it.

use nestor_text::Completion;

use crate::engine::{Engine, OptionSpec};
use crate::engines::ENGINES;
use crate::error::Problem;
use crate::notation::{Workload, find_engine};
use crate::value::Kind;

/// The words that the beginning of a workload can become: an engine, a case or an option more, or the end of the one that is begun.
pub fn completions(text: &str) -> Vec<Completion> {
    let Some((name, rest)) = text.split_once(':') else {
        let engines = ENGINES.iter().filter(|engine| engine.name().starts_with(text));
        return engines.map(|engine| Completion::new(format!("{}:", engine.name()), "")).collect();
    };
    let Some(engine) = find_engine(name) else { return Vec::new() };
    let Some((case, options)) = rest.split_once(':') else { return cases(engine, text, rest) };
    if !engine.cases().iter().any(|known| known.name == case) {
        return Vec::new();
    }
    if let Some((before, inner)) = inner_workload(engine, text, options) {
        let inner = completions(inner).into_iter();
        return inner.map(|one| Completion::new(format!("{before}{}", one.text), one.summary)).collect();
    }
    let (given, option) = options.rsplit_once(':').unwrap_or(("", options));
    let of_case = || engine.options().iter().filter(|spec| spec.is_of(case));
    match option.split_once('=') {
        Some((key, value)) => {
            of_case().find(|spec| spec.name == key).map_or_else(Vec::new, |spec| values(text, spec, value))
        }
        None => {
            let before = &text[..text.len() - option.len()];
            let keys = of_case().filter(|spec| spec.name.starts_with(option) && !is_given(spec, given));
            keys.map(|spec| Completion::new(format!("{before}{}=", spec.name), spec.summary)).collect()
        }
    }
}

/// The cases of an engine whose name begins so.
fn cases(engine: &dyn Engine, text: &str, begun: &str) -> Vec<Completion> {
    let before = &text[..text.len() - begun.len()];
    let cases = engine.cases().iter().filter(|case| case.name.starts_with(begun));
    cases.flat_map(|case| ended(text, &format!("{before}{}", case.name), case.summary)).collect()
}

/// The values of an option that begin so.
fn values(text: &str, spec: &OptionSpec, begun: &str) -> Vec<Completion> {
    let before = &text[..text.len() - begun.len()];
    let listed = match spec.kind {
        Kind::Switch => vec!["on", "off"],
        Kind::Choice(words) => words.to_vec(),
        Kind::TimeLimit => vec!["off"],
        _ => Vec::new(),
    };
    // A value that nobody can list is complete where it is one. The end of a path is known to the shell.
    let written = (!begun.is_empty() && spec.kind != Kind::File).then_some(begun);
    let mut values: Vec<&str> =
        listed.into_iter().filter(|value| value.starts_with(begun)).chain(written).collect();
    values.dedup();
    values.iter().flat_map(|value| ended(text, &format!("{before}{value}"), spec.summary)).collect()
}

/// A text whose last part is whole: by itself if it is a workload, else with what has to follow. Both if it is written already.
fn ended(written: &str, text: &str, summary: &str) -> Vec<Completion> {
    let problem = Workload::parse(text).map_err(|error| error.problem);
    let mut found = Vec::new();
    if problem.is_ok() {
        found.push(text.to_owned());
    }
    let lacks_an_option = matches!(problem, Err(Problem::Misfit(_)));
    if lacks_an_option || problem.is_ok() && written == text {
        found.push(format!("{text}:"));
    }
    found.into_iter().map(|text| Completion::new(text, summary)).collect()
}

/// The workload that an option has as its value, and what is before it.
fn inner_workload<'t>(engine: &dyn Engine, text: &'t str, options: &'t str) -> Option<(&'t str, &'t str)> {
    let takes_rest = |part: &str| {
        let key = part.split_once('=').map(|(key, _)| key);
        engine.options().iter().any(|spec| spec.kind == Kind::Workload && Some(spec.name) == key)
    };
    let mut rest = options;
    loop {
        if takes_rest(rest.split(':').next().unwrap_or(rest)) {
            let (_, inner) = rest.split_once('=')?;
            return Some((&text[..text.len() - inner.len()], inner));
        }
        rest = rest.split_once(':')?.1;
    }
}

/// Whether one of the options in a text, separated by `:`, is this one.
fn is_given(spec: &OptionSpec, given: &str) -> bool {
    given.split(':').any(|written| written.split('=').next() == Some(spec.name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn offered(text: &str) -> Vec<String> {
        completions(text).into_iter().map(|completion| completion.text).collect()
    }

    #[test]
    fn engines_cases_and_options_are_offered() {
        assert_eq!(offered("fi"), ["fio:"]);
        assert_eq!(offered("fio:seq"), ["fio:seq-read", "fio:seq-write"]);
        assert_eq!(offered("fio:seq-read"), ["fio:seq-read", "fio:seq-read:"]);
        assert_eq!(offered("fio:seq-read:bs=4k:filesi"), ["fio:seq-read:bs=4k:filesize="]);
        assert_eq!(offered("fio:seq-read:bs=4k:bs"), [""; 0]);
        assert_eq!(offered("fio:seq-read:direct="), ["fio:seq-read:direct=on", "fio:seq-read:direct=off"]);
        assert_eq!(offered("fio:seq-read:bs=4k"), ["fio:seq-read:bs=4k", "fio:seq-read:bs=4k:"]);
        assert_eq!(offered("life:cycle:run=fio:seq-w"), ["life:cycle:run=fio:seq-write"]);
        assert_eq!(offered("nothing:"), [""; 0]);
    }

    proptest! {
        /// Whoever takes one offer after another never comes to a dead end, and a word that is called whole is a workload.
        #[test]
        fn every_offer_is_the_beginning_of_a_workload(choices in proptest::collection::vec(any::<Index>(), 1..8)) {
            let mut text = String::new();
            for choice in choices {
                let all = offered(&text);
                // Values that cannot be listed.
                if text.ends_with('=') && all.is_empty() {
                    break;
                }
                // A case without options, or with all of them, is a whole word.
                prop_assert!(!all.is_empty() || text.ends_with(':'), "nothing follows {text}");
                if all.is_empty() {
                    break;
                }
                for one in &all {
                    prop_assert!(one.starts_with(&text), "{one} does not begin with {text}");
                    prop_assert!(one.ends_with([':', '=']) || Workload::parse(one).is_ok(), "{one}");
                }
                text = all[choice.index(all.len())].clone();
            }
        }
    }
}
