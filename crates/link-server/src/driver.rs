//! A guest's driver of a network interface, as far as the link sees it: memory with two virtqueues (virtio 1.2, 2.7). The check of a link
//! and tests play guests with it.

use std::fs::File;
use std::io;

use nestor_serving::GuestMemory;
use rustix::fs::{MemfdFlags, memfd_create};
use vhost_user_backend::bitmap::BitmapMmapRegion;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestRegionMmap, MmapRegion};

use crate::frame::HEADER_BYTES;
use crate::port::Queue;

/// Bytes between the parts of queues, and of the room for one descriptor's data.
pub const PART: u64 = 0x1000;
/// Where the data of descriptors is.
const DATA: u64 = 0x10_000;
/// Why the driver can read and write its own memory.
const IS_THERE: &str = "the place is in the memory";

/// Another descriptor follows.
pub const NEXT: u16 = 1;
/// It is to be written to.
pub const WRITE: u16 = 2;

/// A driver. Its memory is a file, which a front end can share.
pub struct Driver {
    pub memory: GuestMemory,
    /// Entries of each queue, a power of two up to 256.
    size: u16,
    /// Chains that were put into each queue.
    put: [u16; 2],
    /// The next descriptor of each queue.
    free: [u16; 2],
}

impl Driver {
    /// With empty queues.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(size: u16) -> io::Result<Self> {
        let bytes = memory_bytes(size);
        let file = File::from(memfd_create("nestor-played-guest", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes as u64)?;
        let region = MmapRegion::<BitmapMmapRegion>::from_file(FileOffset::new(file, 0), bytes);
        let region = GuestRegionMmap::new(region.map_err(io::Error::other)?, GuestAddress(0));
        let memory = GuestMemory::from_regions(region.into_iter().collect()).map_err(io::Error::other)?;
        Ok(Self { memory, size, put: [0; 2], free: [0; 2] })
    }

    /// Writes something somewhere.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).expect(IS_THERE);
    }

    fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.memory.read_slice(&mut read, GuestAddress(at)).expect(IS_THERE);
        read
    }

    fn read_u16(&self, at: u64) -> u16 {
        self.memory.read_obj(GuestAddress(at)).expect(IS_THERE)
    }

    fn read_u32(&self, at: u64) -> u32 {
        self.memory.read_obj(GuestAddress(at)).expect(IS_THERE)
    }

    /// Writes a descriptor.
    pub fn describe(&self, queue: Queue, index: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let descriptor =
            [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()];
        self.write(part(queue, 0) + 16 * u64::from(index), &descriptor.concat());
    }

    /// Puts a chain into a queue, and says nothing of it.
    pub fn put(&mut self, queue: Queue, head: u16) {
        let put = &mut self.put[queue as usize];
        let at = 4 + 2 * u64::from(*put % self.size);
        *put = put.wrapping_add(1);
        let put = *put;
        self.write(part(queue, 1) + at, &head.to_le_bytes());
        self.claim(queue, put);
    }

    /// Says how many chains were put into a queue so far, whether they were or not.
    pub fn claim(&self, queue: Queue, put: u16) {
        self.write(part(queue, 1) + 2, &put.to_le_bytes());
    }

    /// Puts a chain of pieces, each of at most [`PART`] bytes: of each, its length and what is in it, if it is to be read.
    fn put_chain(&mut self, queue: Queue, pieces: &[(usize, Option<&[u8]>)]) -> u16 {
        let head = self.free[queue as usize];
        let mut index = head;
        for (at, (length, bytes)) in pieces.iter().enumerate() {
            let next = (index + 1) % self.size;
            let is_last = at + 1 == pieces.len();
            let flags = if is_last { 0 } else { NEXT } | if bytes.is_some() { 0 } else { WRITE };
            self.write(self.data(queue, index), bytes.unwrap_or_default());
            let length = u32::try_from(*length).unwrap_or(u32::MAX);
            self.describe(queue, index, self.data(queue, index), length, flags, next);
            index = next;
        }
        self.free[queue as usize] = index;
        self.put(queue, head);
        head
    }

    /// Puts a frame in pieces into its queue.
    pub fn send(&mut self, pieces: &[&[u8]]) {
        let pieces: Vec<_> = pieces.iter().map(|bytes| (bytes.len(), Some(*bytes))).collect();
        self.put_chain(Queue::Transmit, &pieces);
    }

    /// Has a buffer of that many bytes for what arrives.
    pub fn offer(&mut self, bytes: usize) -> u16 {
        self.put_chain(Queue::Receive, &[(bytes, None)])
    }

    /// How many chains the link gave back so far.
    pub fn given_back(&self, queue: Queue) -> u16 {
        self.read_u16(part(queue, 2) + 2)
    }

    /// A chain that the link gave back: its number is how many it gave back before. Its head and how many bytes the link wrote.
    pub fn used(&self, queue: Queue, number: u16) -> (u32, u32) {
        let entry = part(queue, 2) + 4 + 8 * u64::from(number % self.size);
        (self.read_u32(entry), self.read_u32(entry + 4))
    }

    /// What is in a buffer that was filled.
    pub fn filled(&self, (head, bytes): (u32, u32)) -> Vec<u8> {
        let head = u16::try_from(head).unwrap_or_default() % self.size;
        self.read(self.data(Queue::Receive, head), bytes as usize)
    }

    fn data(&self, queue: Queue, index: u16) -> u64 {
        DATA + (queue as u64 * u64::from(self.size) + u64::from(index)) * PART
    }
}

/// Bytes of all memory of a driver with so many entries in each queue.
pub const fn memory_bytes(size: u16) -> usize {
    (DATA + 2 * size as u64 * PART) as usize
}

/// Where a part of a queue is: its descriptors, what was put into it, what was given back.
pub const fn part(queue: Queue, number: u64) -> u64 {
    (1 + 3 * queue as u64 + number) * PART
}

/// The header of a frame that is as it is: nothing is left to the interface.
pub const PLAIN: [u8; HEADER_BYTES] = [0; HEADER_BYTES];
