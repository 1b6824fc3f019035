//! Command lines as messages and logs show them.

/// The first word of a command line that runs the agent's own binary, wherever that lies in its machine.
pub(crate) const OWN_PROGRAM: &str = "{nestor}";

/// A command line in which the agent's own binary has the name under which people know it.
pub(crate) fn shown(argv: &[String]) -> String {
    let words = argv.iter().map(String::as_str);
    words
        .enumerate()
        .map(|(i, word)| if i == 0 { shown_program(word) } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The first word of a command line, as [`shown`] shows it.
pub(crate) fn shown_program(program: &str) -> &str {
    if program == OWN_PROGRAM { "nestor" } else { program }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_own_binary_is_shown_by_its_name_and_only_where_it_is_the_program() {
        let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(&argv(&["{nestor}", "trace", "layout"])), "nestor trace layout");
        assert_eq!(shown(&argv(&["echo", "{nestor}"])), "echo {nestor}");
        assert_eq!(shown(&[]), "");
    }
}
