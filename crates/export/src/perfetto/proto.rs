//! The wire format of protocol buffers (<https://protobuf.dev/programming-guides/encoding/>), as much of it as a
//! writer needs.

/// Wire types: a variable-length integer, eight bytes, a length and as many bytes.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// An unsigned integer, an enum or a boolean.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.header(field, text.len());
        self.bytes.extend(text.as_bytes());
    }

    /// What stands before a message of that length.
    pub(super) fn header(&mut self, field: u32, length: usize) {
        self.key(field, LENGTH_DELIMITED);
        self.varint(length as u64);
    }

    /// A message within this one.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH_DELIMITED);
        let start = self.bytes.len();
        fill(self);
        // The length comes before what it is the length of, so that moves on by as many bytes as the length takes.
        let length = self.bytes.len() - start;
        self.varint(length as u64);
        let moved = self.bytes.len() - start - length;
        self.bytes[start..].rotate_right(moved);
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}
