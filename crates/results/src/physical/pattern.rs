//! What a workload and a stack say beforehand of the requests that come to a medium.

use nestor_stack::Stack;
use nestor_workload::Workload;

use crate::checks::Expected;

/// What is known beforehand of the requests of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pattern {
    /// Every operation goes past the page cache of its machine.
    pub past_page_cache: bool,
    /// A page cache of a machine further out answers writes.
    pub page_cache_below: bool,
    /// Each read is of any place of the files, as likely as of any other. Wherever these lie, that is any place of the
    /// medium.
    pub random_reads: bool,
    /// The same of writes. Where they come to lie is up to the layers below: a file system that copies on write, or an
    /// image that grows, may make a sequence of them.
    pub random_writes: bool,
    /// Operations that are kept outstanding.
    pub outstanding: Option<f64>,
}

impl Pattern {
    /// Of a run; `None` where a notation is no longer understood.
    pub fn of(stack: Option<&Stack>, workload: Option<&Workload>) -> Self {
        let Some(workload) = workload else { return Self::default() };
        let demand = workload.demand();
        Self {
            past_page_cache: demand.past_page_cache,
            page_cache_below: stack.is_some_and(Stack::has_cache_below),
            random_reads: demand.random_reads,
            random_writes: demand.random_writes,
            outstanding: stack.and_then(|stack| Expected::of(stack, workload).concurrency),
        }
    }
}
