//! A machine's memory.

use procfs::{Current as _, Meminfo, ProcResult};

/// Bytes of this machine's memory (`MemTotal`, proc(5)).
///
/// # Errors
/// The kernel does not tell.
pub fn total_bytes() -> ProcResult<u64> {
    Ok(Meminfo::current()?.mem_total)
}
