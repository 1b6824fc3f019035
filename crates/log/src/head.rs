//! What headers begin with.

use crate::{Cursor, Fields};

/// What the header of every file of records begins with: eight bytes that tell its kind, its version, and the lengths of header and record.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The eight bytes.
    pub magic: &'static [u8; 8],
    /// What such a file is, in messages: `the frame log of a link`.
    pub name: &'static str,
    /// How another program's file becomes one that this program reads, in messages: `record the log again`.
    pub remedy: &'static str,
    /// The version of its form.
    pub version: u32,
    /// Bytes of a header.
    pub header_bytes: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
}

/// Why a header is not of a file that this program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadFault {
    /// It is something else.
    #[error("this is not {0}")]
    Kind(&'static str),
    /// A field is that of another program.
    #[error("{field} is {found}, but this program reads {expected}; {remedy} with this program")]
    OtherProgram {
        /// Which field.
        field: &'static str,
        /// What is there.
        found: u32,
        /// What would be read.
        expected: u32,
        /// What to do.
        remedy: &'static str,
    },
}

impl Head {
    fn fields(&self) -> [(&'static str, u32); 3] {
        [
            ("version", self.version),
            ("header length", self.header_bytes as u32),
            ("record length", self.record_bytes as u32),
        ]
    }

    /// Puts it at the beginning of a header.
    pub fn put<const N: usize>(&self, out: &mut Fields<N>) {
        out.put(self.magic);
        for (_, field) in self.fields() {
            out.u32(field);
        }
    }

    /// Checks what a header begins with; what follows is left to be taken.
    ///
    /// # Errors
    /// What is wrong, and at which byte.
    pub fn check<'a, const N: usize>(&self, header: &'a [u8; N]) -> Result<Cursor<'a>, (u64, HeadFault)> {
        let mut from = Cursor::at(header, 0);
        if from.take() != *self.magic {
            return Err((0, HeadFault::Kind(self.name)));
        }
        for (field, expected) in self.fields() {
            self.expect(&mut from, field, expected)?;
        }
        Ok(from)
    }

    /// Takes a number of 32 bits that is the same in all files that this program reads.
    ///
    /// # Errors
    /// It is another one, and at which byte.
    pub fn expect(
        &self,
        from: &mut Cursor<'_>,
        field: &'static str,
        expected: u32,
    ) -> Result<(), (u64, HeadFault)> {
        let offset = from.offset() as u64;
        match from.u32() {
            found if found == expected => Ok(()),
            found => Err((offset, HeadFault::OtherProgram { field, found, expected, remedy: self.remedy })),
        }
    }
}
