//! What a writer says when it is done.

/// How much was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Requests.
    pub requests: u64,
    /// Links from requests to those that caused them; in Perfetto only those whose both ends are in the file.
    pub links: u64,
    /// Bytes of the file.
    pub bytes: u64,
}
