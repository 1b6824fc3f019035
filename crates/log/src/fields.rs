//! Numbers one after the other.

/// Puts little-endian fields one after the other into `N` bytes.
pub struct Fields<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Default for Fields<N> {
    fn default() -> Self {
        Self { bytes: [0; N], at: 0 }
    }
}

impl<const N: usize> Fields<N> {
    /// Puts bytes; the caller puts no more than there is room for.
    pub fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// Puts a number of 16 bits.
    pub fn u16(&mut self, field: u16) {
        self.put(&field.to_le_bytes());
    }

    /// Puts a number of 32 bits.
    pub fn u32(&mut self, field: u32) {
        self.put(&field.to_le_bytes());
    }

    /// Puts a number of 64 bits.
    pub fn u64(&mut self, field: u64) {
        self.put(&field.to_le_bytes());
    }

    /// Leaves zeros.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// All bytes; zeros where nothing was put.
    pub fn finish(self) -> [u8; N] {
        self.bytes
    }
}

/// Takes little-endian fields one after the other; the caller takes no more than there are.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins at a place.
    pub fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// How far it has come.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Leaves bytes out.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Takes a name that fills so many bytes together with the zeros behind it; `None` if it is not UTF-8.
    pub fn name(&mut self, room: usize) -> Option<&'a str> {
        let field = &self.bytes[self.at..self.at + room];
        self.at += room;
        std::str::from_utf8(field.split(|byte| *byte == 0).next()?).ok()
    }

    /// Takes some bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }

    /// Takes a byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Takes a number of 16 bits.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// Takes a number of 32 bits.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// Takes a number of 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
