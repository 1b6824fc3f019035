//! A guest's driver of a network interface, as far as the link sees it: memory with two virtqueues (virtio 1.2, 2.7), for tests.

use nestor_serving::{GuestMemory, Memory, Vring};
use vhost_user_backend::VringT as _;
use vm_memory::{Bytes as _, GuestAddress, GuestAddressSpace as _};

use crate::frame::HEADER_BYTES;
use crate::port::{Port, Queue};

/// Entries of a queue.
pub const SIZE: u16 = 16;
/// Bytes of all memory.
pub const MEMORY_BYTES: usize = 1 << 20;
/// Bytes between the parts of queues, and of the room for one descriptor's data.
const PART: u64 = 0x1000;
/// Where the data of descriptors is.
const DATA: u64 = 0x10_000;

/// Another descriptor follows.
pub const NEXT: u16 = 1;
/// It is to be written to.
pub const WRITE: u16 = 2;

/// A driver.
pub struct Guest {
    memory: Memory,
    vrings: [Vring; 2],
    /// Chains that were put into each queue.
    put: [u16; 2],
    /// The next descriptor of each queue.
    free: [u16; 2],
}

impl Guest {
    /// With empty queues.
    pub fn new() -> Self {
        let memory = GuestMemory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap();
        let memory = Memory::new(memory);
        let vrings = [Queue::Receive, Queue::Transmit].map(|queue| {
            let vring = Vring::new(memory.clone(), SIZE).unwrap();
            vring.set_queue_size(SIZE);
            vring.set_queue_info(part(queue, 0), part(queue, 1), part(queue, 2)).unwrap();
            vring.set_queue_ready(true);
            vring.set_enabled(true);
            vring
        });
        Self { memory, vrings, put: [0; 2], free: [0; 2] }
    }

    /// Makes the driver known to an end.
    pub fn connect(&self, port: &mut Port) {
        port.set_memory(self.memory.clone());
        port.set_vrings(&self.vrings);
    }

    /// Enables or disables a queue.
    pub fn enable(&self, queue: Queue, is_enabled: bool) {
        self.vrings[queue as usize].set_enabled(is_enabled);
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.memory().write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.memory.memory().read_slice(&mut read, GuestAddress(at)).unwrap();
        read
    }

    fn read_u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
    }

    fn read_u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at, 4).try_into().unwrap())
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
        let at = 4 + 2 * u64::from(*put % SIZE);
        *put = put.wrapping_add(1);
        let put = *put;
        self.write(part(queue, 1) + at, &head.to_le_bytes());
        self.claim(queue, put);
    }

    /// Says how many chains were put into a queue so far, whether they were or not.
    pub fn claim(&self, queue: Queue, put: u16) {
        self.write(part(queue, 1) + 2, &put.to_le_bytes());
    }

    /// Puts a chain of pieces: of each, its length and what is in it, if it is to be read.
    fn put_chain(&mut self, queue: Queue, pieces: &[(usize, Option<&[u8]>)]) -> u16 {
        let head = self.free[queue as usize];
        for (at, (length, bytes)) in pieces.iter().enumerate() {
            let index = (head + u16::try_from(at).unwrap()) % SIZE;
            let is_last = at + 1 == pieces.len();
            let flags = if is_last { 0 } else { NEXT } | if bytes.is_some() { 0 } else { WRITE };
            self.write(data(queue, index), bytes.unwrap_or_default());
            let length = u32::try_from(*length).unwrap();
            self.describe(queue, index, data(queue, index), length, flags, (index + 1) % SIZE);
        }
        self.free[queue as usize] = (head + u16::try_from(pieces.len()).unwrap()) % SIZE;
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

    /// The chains that the link gave back, with how many bytes it wrote.
    pub fn used(&self, queue: Queue) -> Vec<(u32, u32)> {
        let base = part(queue, 2);
        let entry = |at: u16| base + 4 + 8 * u64::from(at % SIZE);
        let numbers = |at| (self.read_u32(entry(at)), self.read_u32(entry(at) + 4));
        (0..self.given_back(queue)).map(numbers).collect()
    }

    /// What is in the buffers that were filled.
    pub fn received(&self) -> Vec<Vec<u8>> {
        let filled = self.used(Queue::Receive).into_iter();
        let content = |(head, bytes): (u32, u32)| {
            self.read(data(Queue::Receive, u16::try_from(head).unwrap()), bytes as usize)
        };
        filled.map(content).collect()
    }

    /// The last byte of each frame that was received, by which a test tells [`frame`]s apart.
    pub fn received_marks(&self) -> Vec<u8> {
        self.received().iter().filter_map(|frame| frame.last().copied()).collect()
    }
}

/// Where a part of a queue is: its descriptors, what was put into it, what was given back.
pub const fn part(queue: Queue, number: u64) -> u64 {
    (1 + 3 * queue as u64 + number) * PART
}

const fn data(queue: Queue, index: u16) -> u64 {
    DATA + (queue as u64 * SIZE as u64 + index as u64) * PART
}

/// A frame of the shortest length with its header, of equal bytes.
pub fn frame(mark: u8) -> Vec<u8> {
    [[0; HEADER_BYTES].as_slice(), &[mark; 60]].concat()
}
