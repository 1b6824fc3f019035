//! Equations 1 to 3 of Đorđević and Timčenko, A performance comparison of Linux filesystems in hypervisor type 2 virtualized
//! environment (paper P, § II.F), measured.
//!
//! The paper writes them down and measures none of their terms:
//!
//! 1. the time of a workload = directories + metadata + free list + file blocks + journal + housekeeping ([`WorkloadTime`]);
//! 2. the time of a request = overhead of the block driver + cost of the disk, and
//! 3. the overhead = front end in the guest + back end in the host ([`RequestTime`]).
//!
//! Beside them stands what the processor executed ([`ProcessorTime`]). Each is answered or refused by itself, with the reason and what
//! mends it. The terms are held against what they are parts of, and are refused where they are off by more than [`MOST_OFF`].

mod answer;
mod processor;
mod request;
mod term;
mod text;
mod workload;

use nestor_results::{CellRecord, Measured, TraceMode, WrittenStack, WrittenWorkload};
use nestor_text::units;
use serde::Serialize;

use crate::evidence::Evidence;

pub use answer::{Answer, NotKnown, Why};
pub use processor::{Executed, ProcessorTime};
pub use request::{OperationTime, RequestTime, Side, SideTime};
pub use term::{Asked, Placement, Term};
pub use text::equations_text;
pub use workload::{FileSystemTime, TermTime, WorkloadTime};

/// How far (as a share of the whole) terms may be off what they are parts of. What is added up are whole nanoseconds; only where times come
/// out of a histogram, of three digits, do they differ at all.
pub const MOST_OFF: f64 = 0.01;
/// The largest share of requests without a partner with which times of levels still say something. Results are marked from a fifth of
/// this on.
pub const MOST_UNMATCHED: f64 = 0.05;

/// The three equations of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equations {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Numbers of the runs, whose times are added up.
    pub runs: Vec<i64>,
    /// Equation 1.
    pub workload_time: Answer<WorkloadTime>,
    /// Equations 2 and 3.
    pub request_time: Answer<RequestTime>,
    /// Instructions and waiting.
    pub processor_time: Answer<ProcessorTime>,
    /// What the runs' own marks and remarks say.
    pub doubts: Vec<String>,
}

/// The runs of a cell that have numbers.
pub(crate) struct Runs<'a> {
    pub(crate) measured: Vec<(&'a CellRecord, &'a Measured)>,
    pub(crate) evidence: Evidence,
}

/// The equations of the runs of one cell; `None` if none has numbers.
pub fn equations(runs: &[(i64, &CellRecord)]) -> Option<Equations> {
    let evidence = Evidence::of(runs)?;
    let measured = runs.iter().filter_map(|(_, record)| Some((*record, record.measured()?))).collect();
    let runs = Runs { measured, evidence };
    let request_time = runs.followed().and_then(|()| RequestTime::of(&runs));
    let evidence = &runs.evidence;
    Some(Equations {
        stack: evidence.stack.clone(),
        workload: evidence.workload.clone(),
        runs: evidence.runs.clone(),
        workload_time: runs.followed().and_then(|()| WorkloadTime::of(&runs)).into(),
        processor_time: ProcessorTime::of(&runs, request_time.as_ref().ok()).into(),
        request_time: request_time.into(),
        doubts: evidence.doubts.clone(),
    })
}

impl Runs<'_> {
    /// The command that measures the cell again where it was measured, with more options.
    pub(crate) fn measure_again(&self, more: &str) -> String {
        self.measure_at(self.evidence.ground.as_str(), more)
    }

    /// The command that measures the cell again at a place.
    pub(crate) fn measure_at(&self, place: &str, more: &str) -> String {
        let words = [self.evidence.stack.as_str(), self.evidence.workload.as_str(), "--on", place];
        let quoted = words.map(nestor_text::shell_quoted).join(" ");
        format!("nestor run {quoted} --again{more}")
    }

    /// Whether the requests of all runs were followed to the lowest level, well enough.
    fn followed(&self) -> Result<(), NotKnown> {
        for (record, measured) in &self.measured {
            let Some(correlation) = &measured.correlation else {
                return Err(self.not_followed(record, measured));
            };
            let unmatched = correlation.unmatched_share().unwrap_or(0.0);
            if unmatched > MOST_UNMATCHED {
                return Err(NotKnown {
                    why: Why::BadlyJoined,
                    words: format!(
                        "{} of the requests of a level have no partner, more than {}, so it is not known what they were for",
                        units::share(unmatched),
                        units::share(MOST_UNMATCHED)
                    ),
                    mend: "`nestor report` of the run says which requests and why; an image without holes (raw:alloc=full) and a \
                           recording that lost no events join best"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }

    fn not_followed(&self, record: &CellRecord, measured: &Measured) -> NotKnown {
        if record.trace != TraceMode::Full {
            return NotKnown {
                why: Why::NotTraced,
                words: format!(
                    "the run was recorded with --trace {}, which follows no request",
                    record.trace
                ),
                mend: self.measure_again(" --trace full"),
            };
        }
        let said = units::listed(&measured.trace_remarks);
        let because = if said.is_empty() { said } else { format!(": {said}") };
        NotKnown {
            why: Why::NotJoined,
            words: format!("the requests of the run could not be joined{because}"),
            mend: "`nestor report` of the run shows what was recorded at each layer".to_owned(),
        }
    }
}

/// Refuses parts that do not add up to their whole within [`MOST_OFF`]; gives by what share of it they are off.
pub(crate) fn conserved(parts_ns: f64, whole_ns: f64, whole: &str, mend: String) -> Result<f64, NotKnown> {
    let off = (parts_ns - whole_ns) / whole_ns.max(1.0);
    if off.abs() <= MOST_OFF {
        return Ok(off);
    }
    Err(NotKnown {
        why: Why::DoesNotAddUp,
        words: format!(
            "the terms add up to {}, and {whole} is {}: {} % off, more than {}",
            units::duration_ns(parts_ns),
            units::duration_ns(whole_ns),
            units::signed(off * 100.0),
            units::percent(MOST_OFF)
        ),
        mend,
    })
}
