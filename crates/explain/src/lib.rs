//! Why a cell is slower or faster than its baseline: mechanisms, each with its numbers and the requests that prove it.
