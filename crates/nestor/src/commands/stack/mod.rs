//! `nestor stack`: the layers, what a stack means, and which stack a virtual machine is.

mod below;
mod described;
mod running_qemu;

use anyhow::{Result, anyhow};
use nestor_results::check_profiles;
use nestor_stack::{LayerHelp, MediumKind, Stack, StackError, layers_help, parse_all};
use serde::Serialize;

use crate::arguments::StackArguments;
use crate::output::{columns, fitted, print_json, table_within};
use crate::place::usual_place;

pub use described::DescribedMachine;

/// Lists layers, checks stacks and shows their machines, or says which stacks a virtual machine is.
///
/// # Errors
/// The first stack that does not fit together, or cannot be built where it is to be; a virtual machine that cannot be read.
pub fn run(arguments: &StackArguments) -> Result<()> {
    if let Some(machine) = &arguments.machine {
        return described::run(machine, arguments);
    }
    let layers = layers_help();
    if arguments.stacks.is_empty() {
        return if arguments.json { print_json(&layers) } else { list(&layers, columns()) };
    }
    let mut asked = Vec::new();
    for text in &arguments.stacks {
        match layers.iter().find(|layer| layer.name == text) {
            Some(layer) => asked.push(Asked::Layer(layer)),
            None => {
                let stacks = parse_all(text).map_err(|error| said_in_place(error, arguments))?;
                asked.extend(stacks.into_iter().map(Asked::Stack));
            }
        }
    }
    for asked in &asked {
        if let Asked::Stack(stack) = asked {
            check(stack, arguments)?;
        }
    }
    if arguments.json {
        return print_json(&asked.iter().map(Asked::json).collect::<Vec<_>>());
    }
    for asked in &asked {
        match asked {
            Asked::Layer(layer) => out!("{}", in_full(layer, columns())),
            Asked::Stack(stack) => out!("{}", explain(stack, columns())),
        }
    }
    Ok(())
}

/// What is asked for: a layer by its name alone, or a stack.
enum Asked<'a> {
    Layer(&'a LayerHelp),
    Stack(Stack),
}

#[derive(Serialize)]
#[serde(untagged)]
enum AskedJson<'a> {
    Layer(&'a LayerHelp),
    Stack { stack: &'a Stack, machines: Vec<MachineJson> },
}

#[derive(Serialize)]
struct MachineJson {
    machine: String,
    layers: Vec<String>,
}

impl Asked<'_> {
    fn json(&self) -> AskedJson<'_> {
        match self {
            Self::Layer(layer) => AskedJson::Layer(layer),
            Self::Stack(stack) => AskedJson::Stack { stack, machines: machines_of(stack) },
        }
    }
}

/// Refuses a stack that cannot be built. Where one with a medium of the user's is to be, only the user knows.
fn check(stack: &Stack, arguments: &StackArguments) -> Result<()> {
    stack.require_buildable().map_err(|error| said_in_place(error, arguments))?;
    check_profiles(stack).map_err(|e| anyhow!("{e}"))?;
    let is_modelled = stack.medium().medium_kind().is_some_and(MediumKind::is_modelled);
    if arguments.on.is_some() || is_modelled {
        let wish = arguments.on.clone().unwrap_or_default();
        stack.require_place(&usual_place(&wish)?)?;
    }
    Ok(())
}

/// What is wrong with a stack, without what the place where it is to be built has anyway.
fn said_in_place(error: StackError, arguments: &StackArguments) -> anyhow::Error {
    match usual_place(&arguments.on.clone().unwrap_or_default()) {
        Ok(place) => error.in_place(&place).into(),
        // What is wrong with the stack is what was asked.
        Err(_) => error.into(),
    }
}

/// The name and kind of a layer, and what it is.
fn heading(layer: &LayerHelp) -> String {
    let later = layer.not_buildable.map_or_else(String::new, |reason| format!("  (not yet: {reason})"));
    format!("{:<9} {}: {}{later}\n", layer.name, layer.kind, layer.summary)
}

fn list(layers: &[LayerHelp], columns: Option<usize>) -> Result<()> {
    for layer in layers {
        out!("{}", fitted(&heading(layer), columns));
        let rows: Vec<[String; 3]> = layer
            .options
            .iter()
            .map(|o| {
                [format!("      :{}", o.form), o.default.unwrap_or("-").to_owned(), o.summary.to_owned()]
            })
            .collect();
        if !rows.is_empty() {
            out!("{}", table_within(columns, &["      option", "default", ""], &rows));
        }
    }
    Ok(())
}

/// One layer, with what it stands on and what values its options take.
fn in_full(layer: &LayerHelp, columns: Option<usize>) -> String {
    let mut text = fitted(&heading(layer), columns);
    match layer.needs.as_slice() {
        [] => layer.offers.iter().for_each(|offer| text += &format!("  offers {}\n", offer.words())),
        needs => {
            for (need, offer) in needs.iter().zip(&layer.offers) {
                text += &format!("  on {} it offers {}\n", need.words(), offer.words());
            }
        }
    }
    if let Some(source) = layer.source {
        text += &format!("  its source, after the stack's medium and //, is {}\n", source.words());
    }
    let rows: Vec<[String; 4]> = layer
        .options
        .iter()
        .map(|o| {
            let default = o.default.unwrap_or("-").to_owned();
            [format!("  :{}", o.form), default, o.values.clone(), o.summary.to_owned()]
        })
        .collect();
    if rows.is_empty() {
        return text + "  it has no options\n";
    }
    text + &table_within(columns, &["  option", "default", "values", ""], &rows)
}

fn explain(stack: &Stack, columns: Option<usize>) -> String {
    let row = |(at, layer): (nestor_stack::LayerIndex, &nestor_stack::Layer)| {
        [layer.label(), stack.role(at).to_string(), layer.spec.summary.to_owned()]
    };
    let mut rows: Vec<[String; 3]> = stack.indexed_layers().map(row).collect();
    rows.extend(stack.indexed_source().map(|(at, layer)| {
        let [name, role, summary] = row((at, layer));
        [format!("// {name}"), role, summary]
    }));
    format!("{stack}\n{}", table_within(columns, &["layer", "role", ""], &rows))
}

fn machines_of(stack: &Stack) -> Vec<MachineJson> {
    let machine = |segment: &nestor_stack::MachineSegment<'_>| MachineJson {
        machine: segment.label.to_string(),
        layers: segment.layers.iter().map(|layer| layer.label()).collect(),
    };
    stack.machines().iter().map(machine).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_shown_with_what_values_its_options_take() {
        let layers = layers_help();
        let shown = |name: &str| in_full(layers.iter().find(|layer| layer.name == name).unwrap(), None);
        insta::assert_snapshot!(shown("nfs"), @"
        nfs       network file system: NFS: a directory over a link, mounted in this machine
          on a directory over a link it offers a directory
            option               default  values
            :vers=3|4.0|4.1|4.2  4.2      3, 4.0, 4.1 or 4.2              version of the protocol
            :rsize=SIZE          -        a multiple of 4k from 4k to 1M  most bytes of one read (unset: what client and server agree on)
            :wsize=SIZE          -        a multiple of 4k from 4k to 1M  most bytes of one write (unset: what client and server agree on)
            :sync=off|on         off      on or off                       the client sends every write at once and waits until it is on the server's disk
            :export=sync|async   sync     sync or async                   when the server says that data are stored: sync, once they are on its disk; async, at once, so that a power cut of the server loses them
            :actimeo=NUMBER      -        a whole number from 0 to 3600   seconds for which the client trusts cached attributes; replaces the four options that follow
            :acregmin=NUMBER     -        a whole number from 0 to 3600   minimum number of seconds for which it trusts those of a file (unset: 3, by the kernel)
            :acregmax=NUMBER     -        a whole number from 0 to 3600   maximum number of seconds for which it trusts those of a file (unset: 60)
            :acdirmin=NUMBER     -        a whole number from 0 to 3600   minimum number of seconds for which it trusts those of a directory (unset: 30)
            :acdirmax=NUMBER     -        a whole number from 0 to 3600   maximum number of seconds for which it trusts those of a directory (unset: 60)
        ");
        for layer in &layers {
            let narrow = in_full(layer, Some(80));
            // The form of an option is one word.
            let fits = |line: &str| line.chars().count() <= 80 || line.split_whitespace().count() == 1;
            assert!(narrow.lines().all(fits), "{narrow}");
            let text = in_full(layer, None);
            let is_there = |option: &nestor_stack::OptionHelp| {
                text.contains(&format!(":{}", option.form)) && text.contains(&option.values)
            };
            assert!(layer.options.iter().all(is_there), "{text}");
        }
    }
}
