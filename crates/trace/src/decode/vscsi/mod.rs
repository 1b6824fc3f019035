//! What `vscsiStats` of VMware ESX and ESXi prints: histograms (`-p all`, as text or with `-c` as CSV) and traces of
//! commands (`-e`).

mod command;
mod histogram;

pub use histogram::{Bucket, VscsiHistogram, read_histograms};

pub(super) use command::{CommandLine, parse_command};
pub(super) use histogram::TITLE;
