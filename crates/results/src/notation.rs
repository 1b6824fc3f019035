//! How stacks and workloads are written is other crates' business; a study only needs these three answers.

/// The notation of stacks and workloads.
pub trait Notation {
    /// The stacks that a text with alternatives in braces stands for, in canonical notation.
    ///
    /// # Errors
    ///
    /// The whole message, which may have several lines, if one of them is no stack.
    fn stacks(&self, written: &str) -> Result<Vec<String>, String>;

    /// The workloads that a text with alternatives in braces stands for, in canonical notation.
    ///
    /// # Errors
    ///
    /// The whole message if one of them is no workload.
    fn workloads(&self, written: &str) -> Result<Vec<String>, String>;

    /// The same guest directly on the medium: `ext3/kvm/hdd` for `ext3/kvm/raw/jfs/hdd`. A native stack is its own.
    fn raw_disk(&self, stack: &str) -> String;

    /// The same file system on the medium without a virtual machine: `ext3/hdd` for `ext3/kvm/raw/jfs/hdd`. A native stack is its
    /// own.
    fn native(&self, stack: &str) -> String;
}
