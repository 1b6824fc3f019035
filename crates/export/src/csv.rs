//! Comma-separated values, as RFC 4180 has them (but with bare line feeds), one line a request.

use std::io::Write;

use nestor_correlate::LevelIndex;

use crate::error::ExportError;
use crate::trace::Trace;
use crate::words;
use crate::written::Written;

const COLUMNS: &str = "level,layer,kind,machine,id,operation,class,flags,origin,parents,offset,bytes,queued_ns,issued_ns,\
completed_ns,bios,pid";

/// Writes all requests, level after level, with a heading. Times are on the topmost level's clock; several flags or
/// parents stand in one field with spaces between.
///
/// # Errors
/// The requests cannot be read, or `out` cannot be written.
pub fn write_csv(trace: &Trace, out: &mut dyn Write) -> Result<Written, ExportError> {
    let bounds = trace.bounds()?;
    let mut written = Written::default();
    writeln!(out, "{COLUMNS}")?;
    for (number, level) in trace.levels.iter().enumerate() {
        let names = [&level.level.layer, &level.level.kind.stored(), &level.level.machine.stored()]
            .map(|name| field(name));
        let before = format!("{number},{}", names.join(","));
        let index = LevelIndex::at(number);
        for request in trace.requests(index, bounds)? {
            let row = trace.row(index, request?);
            let r = &row.request;
            let parents: Vec<String> = row.parents.iter().map(ToString::to_string).collect();
            writeln!(
                out,
                "{before},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                r.id,
                words::operation(r.operation),
                r.class.name(),
                words::flags(r.flags),
                row.origin.map_or("", words::origin),
                parents.join(" "),
                r.offset,
                r.bytes,
                r.queued_ns,
                r.issued_ns,
                r.completed_ns,
                r.bios,
                r.pid
            )?;
            written.requests += 1;
            written.links += row.parents.len() as u64;
        }
    }
    Ok(written)
}

/// A field, in quotes if it needs them.
pub(crate) fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
