//! A stack for other tools.

use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_advise::paste::{libvirt_xml, mkfs_lines, qemu_command};
use nestor_results::WrittenStack;
use serde::Serialize;

use super::question::Asked;
use super::recommend::from_store;
use super::{AdviseArguments, Tool};
use crate::output::print_json;
use crate::results_file::{Access, open_for};

/// A stack in another tool's words.
#[derive(Serialize)]
struct Pasted {
    stack: String,
    tool: &'static str,
    text: String,
}

/// Writes the best stack that the store knows for a workload.
///
/// # Errors
/// When nothing is known, or the tool has no words for it.
pub fn print_best(arguments: &AdviseArguments, tool: Tool) -> Result<ExitCode> {
    let asked = Asked::of(arguments)?;
    let store = open_for(&arguments.lab, Access::Reads)?;
    let advice = from_store(&store, &asked, arguments)?;
    let Some(best) = advice.recommendations.first() else {
        bail!(
            "nothing is known about these stacks under {}\n  measure first: nestor advise {}, or name a \
             stack with --stack",
            asked.workload,
            arguments.workload.as_deref().unwrap_or_default()
        );
    };
    if let Some(reason) = &best.not_physical {
        bail!(
            "no number of these stacks under {} is plausible, so none is the best\n  {}: {reason}\n  \
             measure with a workload that reaches the disk, or name a stack with --stack",
            asked.workload,
            best.stack
        );
    }
    let left_out = advice.recommendations.iter().filter(|one| one.not_physical.is_some()).count();
    if left_out > 0 {
        errln!("left out because their numbers are not plausible: {left_out} stacks");
    }
    let known = if best.measured { "measured" } else { "predicted" };
    let confirmed = if best.confirmed.is_some() { "confirmed" } else { "not confirmed" };
    errln!(
        "{}: the best known stack, {known}, {confirmed}\n  a power cut loses: {}",
        best.stack,
        best.price.words
    );
    print(tool, &best.stack, arguments.lab.json)
}

/// Writes a stack.
///
/// # Errors
/// When the tool has no words for it, or this version does not know it.
pub fn print(tool: Tool, written: &WrittenStack, json: bool) -> Result<ExitCode> {
    let Some(stack) = written.value() else {
        bail!("this version does not know the stack {written}\n  use the version that measured it")
    };
    let (name, text) = match tool {
        Tool::Libvirt => ("libvirt", libvirt_xml(stack)?),
        Tool::Qemu => ("qemu", qemu_command(stack)?.to_string()),
        Tool::Mkfs => ("mkfs", mkfs_lines(stack)?),
    };
    if json {
        print_json(&Pasted { stack: stack.to_string(), tool: name, text })?;
    } else {
        out!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}
