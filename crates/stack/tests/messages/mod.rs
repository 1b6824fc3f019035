//! Messages as people see them.

use nestor_stack::{LayerSpec, Stack, StackError, registry};

/// What is wrong with a text that is no stack.
pub fn error(text: &str) -> StackError {
    match Stack::parse(text) {
        Ok(stack) => panic!("{stack} is a stack"),
        Err(error) => error,
    }
}

/// The message with `(all)` in the place of each list of all layers of one kind, which changes with the registry.
pub fn message(text: &str) -> String {
    let mut kinds: Vec<Vec<&LayerSpec>> = Vec::new();
    for spec in registry() {
        match kinds.iter_mut().find(|kind| kind[0].definition.kind() == spec.definition.kind()) {
            Some(kind) => kind.push(spec),
            None => kinds.push(vec![spec]),
        }
    }
    let lists: Vec<String> = kinds
        .iter()
        .map(|kind| format!(": {}", kind.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ")))
        .collect();
    let shortened = |line: &str| match lists.iter().find_map(|list| line.strip_suffix(list.as_str())) {
        Some(kind) => format!("{kind}: (all)"),
        None => line.to_owned(),
    };
    error(text).to_string().lines().map(shortened).collect::<Vec<_>>().join("\n")
}

macro_rules! snapshots {
    ($($name:ident: $text:expr => @$snapshot:literal;)*) => {
        $(#[test] fn $name() { insta::assert_snapshot!(crate::messages::message($text), @$snapshot); })*
    };
}
pub(crate) use snapshots;
