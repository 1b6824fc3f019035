//! Workloads as the command line and study files name them, with what their user should know of them.

use std::sync::Once;

use anyhow::Result;
use nestor_results::{NamedWorkload, written_workloads};
use nestor_workload::Workload;

/// The workload that is written so, without alternatives in braces: in the notation, or as the file of a profile.
///
/// # Errors
/// When it is neither.
pub fn workload_named(text: &str) -> Result<Workload> {
    let named = NamedWorkload::read(text)?;
    tell(named.remark.as_slice());
    Ok(named.workload)
}

/// The workloads that a text with alternatives in braces stands for.
///
/// # Errors
/// When one is none.
pub fn workloads_named(text: &str) -> Result<Vec<Workload>> {
    let named = written_workloads(text)?;
    for one in &named {
        tell(one.remark.as_slice());
    }
    Ok(named.into_iter().map(|named| named.workload).collect())
}

/// Says what is to be known of workloads, once in a command.
pub fn tell(remarks: &[String]) {
    static TOLD: Once = Once::new();
    if !remarks.is_empty() {
        TOLD.call_once(|| remarks.iter().for_each(|remark| errln!("note: {remark}")));
    }
}
