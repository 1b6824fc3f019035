//! `nestor stack`: the layers, and what a stack means.

use anyhow::{Result, anyhow};
use nestor_results::medium_profile;
use nestor_stack::{LayerHelp, Stack, layers_help, parse_all};
use serde_json::json;

use crate::arguments::StackArguments;
use crate::output::{print_json, table};

/// Lists the layers, or checks stacks and shows their machines.
///
/// # Errors
/// The first stack that does not fit together.
pub fn run(arguments: &StackArguments) -> Result<()> {
    if arguments.stacks.is_empty() {
        let layers = layers_help();
        return if arguments.json { print_json(&layers) } else { list(&layers) };
    }
    let mut stacks = Vec::new();
    for text in &arguments.stacks {
        stacks.extend(parse_all(text).map_err(|e| anyhow!("{e}"))?);
    }
    stacks.iter().try_for_each(|stack| medium_profile(stack).map(drop)).map_err(|e| anyhow!("{e}"))?;
    if arguments.json {
        return print_json(&stacks.iter().map(machines_json).collect::<Vec<_>>());
    }
    for stack in &stacks {
        out!("{}", explain(stack));
    }
    Ok(())
}

fn list(layers: &[LayerHelp]) -> Result<()> {
    for layer in layers {
        let later = layer.not_buildable.map_or_else(String::new, |reason| format!("  (not yet: {reason})"));
        outln!("{:<9} {}: {}{later}", layer.name, layer.kind, layer.summary);
        let rows: Vec<[String; 3]> = layer
            .options
            .iter()
            .map(|o| {
                [format!("      :{}", o.form), o.default.unwrap_or("-").to_owned(), o.summary.to_owned()]
            })
            .collect();
        if !rows.is_empty() {
            out!("{}", table(&["      option", "default", ""], &rows));
        }
    }
    Ok(())
}

fn explain(stack: &Stack) -> String {
    let rows: Vec<[String; 3]> = stack
        .indexed_layers()
        .map(|(at, layer)| [layer.label(), stack.role(at).to_string(), layer.spec.summary.to_owned()])
        .collect();
    format!("{stack}\n{}", table(&["layer", "role", ""], &rows))
}

fn machines_json(stack: &Stack) -> serde_json::Value {
    let machines: Vec<_> = stack
        .machines()
        .iter()
        .map(|m| json!({ "machine": m.label.to_string(), "layers": m.layers.iter().map(|l| l.label()).collect::<Vec<_>>() }))
        .collect();
    json!({ "stack": stack, "machines": machines })
}
