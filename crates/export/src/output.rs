//! The file that is made: whole or not at all, and never in place of another unless that is asked for.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::ExportError;
use crate::trace::Trace;
use crate::written::Written;
use crate::{write_csv, write_parquet, write_perfetto};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Perfetto's own format: TrackEvents in protobuf.
    Perfetto,
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
}

/// Writes a trace to a file, which appears only when it is complete.
///
/// # Errors
/// The file is there and `replace` is not set; the requests cannot be read; the file cannot be written.
pub fn export_to_file(
    trace: &Trace,
    format: Format,
    path: &Path,
    replace: bool,
) -> Result<Written, ExportError> {
    if trace.levels.is_empty() {
        return Err(ExportError::NoLevels);
    }
    let write_error = |source| ExportError::Write { path: path.to_path_buf(), source };
    // Asked before an hour of writing, and again by the operating system when the file is put in its place.
    if !replace && path.symlink_metadata().is_ok() {
        return Err(ExportError::Exists { path: path.to_path_buf() });
    }
    // A rename would put a file in place of a device, or of the link /dev/stdout.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let what = "it is not a regular file; an export replaces the whole file";
        return Err(write_error(std::io::Error::new(std::io::ErrorKind::InvalidInput, what)));
    }
    let file = nestor_ownership::new_beside(path, 0o644).map_err(write_error)?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let mut written = match format {
        Format::Perfetto => write_perfetto(trace, &mut out)?,
        Format::Parquet => write_parquet(trace, &mut out)?,
        Format::Csv => write_csv(trace, &mut out)?,
    };
    out.flush().map_err(write_error)?;
    let file = out.into_inner().map_err(|error| write_error(error.into_error()))?;
    written.bytes = file.as_file().metadata().map_err(write_error)?.len();
    let kept = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => ExportError::Exists { path: path.to_path_buf() },
        _ => write_error(error.error),
    })?;
    Ok(written)
}
