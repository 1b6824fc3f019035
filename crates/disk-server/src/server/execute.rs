//! What a request does to the data, without regard to time.

use std::io;

use vm_memory::Bytes;

use super::request::{Command, ID_BYTES, Segment};
use super::store::Store;
use nestor_disk::model::SECTOR_BYTES;
use nestor_serving::GuestMemory;

/// Everything that requests work on.
#[derive(Debug)]
pub struct Target {
    /// The data.
    pub store: Store,
    /// The disk's name as the guest reads it, padded with zeroes.
    pub serial: [u8; ID_BYTES as usize],
    /// A flush waits for the host's own storage.
    pub durable: bool,
}

impl Target {
    /// Carries a request out and returns how many bytes of the guest's memory it filled.
    ///
    /// # Errors
    /// The data file failed, or the guest named memory that it does not have.
    pub fn execute(&mut self, command: &Command, data: &[Segment], memory: &GuestMemory) -> io::Result<u32> {
        match *command {
            Command::Read { sector, sectors } => {
                self.store.read(sector * SECTOR_BYTES, data, memory)?;
                Ok((u64::from(sectors) * SECTOR_BYTES) as u32)
            }
            Command::Write { sector, .. } => {
                self.store.write(sector * SECTOR_BYTES, data, memory)?;
                Ok(0)
            }
            Command::Flush => {
                if self.durable {
                    self.store.sync()?;
                }
                Ok(0)
            }
            Command::GetId => self.name(data, memory),
            Command::Discard { sector, sectors } | Command::WriteZeroes { sector, sectors, unmap: true } => {
                self.store.punch(sector * SECTOR_BYTES, u64::from(sectors) * SECTOR_BYTES)?;
                Ok(0)
            }
            Command::WriteZeroes { sector, sectors, unmap: false } => {
                self.store.zero(sector * SECTOR_BYTES, u64::from(sectors) * SECTOR_BYTES)?;
                Ok(0)
            }
        }
    }

    fn name(&self, data: &[Segment], memory: &GuestMemory) -> io::Result<u32> {
        let mut rest = &self.serial[..];
        for segment in data {
            let part = (segment.bytes as usize).min(rest.len());
            memory.write_slice(&rest[..part], segment.address).map_err(io::Error::other)?;
            rest = &rest[part..];
        }
        Ok(ID_BYTES - rest.len() as u32)
    }
}
