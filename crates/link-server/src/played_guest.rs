//! A guest in the process of the link itself, for tests.

use std::ops::{Deref, DerefMut};

use nestor_serving::{Memory, Vring};
use vhost_user_backend::VringT as _;
use virtio_bindings::bindings::virtio_net::{
    VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6, VIRTIO_NET_F_MRG_RXBUF,
};

use crate::driver::{Driver, PLAIN, memory_bytes};
pub use crate::driver::{NEXT, WRITE, part};
use crate::frame::{Frame, HEADER_BYTES};
use crate::port::{Port, Queue};

/// What a driver says that takes whatever there is.
pub const EVERYTHING: u64 = 1 << VIRTIO_NET_F_GUEST_CSUM
    | 1 << VIRTIO_NET_F_GUEST_TSO4
    | 1 << VIRTIO_NET_F_GUEST_TSO6
    | 1 << VIRTIO_NET_F_MRG_RXBUF;

/// Entries of a queue.
pub const SIZE: u16 = 16;
/// Bytes of all memory.
pub const MEMORY_BYTES: usize = memory_bytes(SIZE);

/// A guest: its driver, and its queues as the vhost-user library would know them.
pub struct Guest {
    driver: Driver,
    memory: Memory,
    vrings: [Vring; 2],
}

impl Deref for Guest {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl DerefMut for Guest {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }
}

impl Guest {
    /// With empty queues.
    pub fn new() -> Self {
        let driver = Driver::new(SIZE).unwrap();
        let memory = Memory::new(driver.memory.clone());
        let vrings = [Queue::Receive, Queue::Transmit].map(|queue| {
            let vring = Vring::new(memory.clone(), SIZE).unwrap();
            vring.set_queue_size(SIZE);
            vring.set_queue_info(part(queue, 0), part(queue, 1), part(queue, 2)).unwrap();
            vring.set_queue_ready(true);
            vring.set_enabled(true);
            vring
        });
        Self { driver, memory, vrings }
    }

    /// Makes the driver known to an end.
    pub fn connect(&self, port: &mut Port) {
        port.set_memory(self.memory.clone());
        port.guest.set_vrings(&self.vrings);
    }

    /// Enables or disables a queue.
    pub fn enable(&self, queue: Queue, is_enabled: bool) {
        self.vrings[queue as usize].set_enabled(is_enabled);
    }

    /// The chains that the link gave back, with how many bytes it wrote.
    pub fn used(&self, queue: Queue) -> Vec<(u32, u32)> {
        (0..self.given_back(queue)).map(|number| self.driver.used(queue, number)).collect()
    }

    /// What is in the buffers that were filled.
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.used(Queue::Receive).into_iter().map(|used| self.filled(used)).collect()
    }

    /// The last byte of each frame that was received, by which a test tells [`frame`]s apart.
    pub fn received_marks(&self) -> Vec<u8> {
        self.received().iter().filter_map(|frame| frame.last().copied()).collect()
    }
}

/// A frame of the shortest length with its header, of equal bytes.
pub fn frame(mark: u8) -> Vec<u8> {
    [PLAIN.as_slice(), &[mark; 60]].concat()
}

/// A TCP segment to be cut, as Linux sends it: the checksum of TCP is left to the interface.
#[derive(Clone, Copy, Debug)]
pub struct TcpSegment {
    pub is_ipv6: bool,
    pub has_tag: bool,
    /// Words of options of IPv4 and of TCP.
    pub ip_options: u8,
    pub tcp_options: u8,
    pub data: usize,
    pub piece: u16,
    pub sequence: u32,
    pub identification: u16,
    pub flags: u8,
}

impl TcpSegment {
    /// Over IPv4, with time stamps.
    pub const USUAL: Self = Self {
        is_ipv6: false,
        has_tag: false,
        ip_options: 0,
        tcp_options: 3,
        data: 4000,
        piece: 1448,
        sequence: 0,
        identification: 0,
        flags: 0,
    };

    /// Where the packet begins in the Ethernet frame.
    pub fn ip_at(self) -> usize {
        14 + if self.has_tag { 4 } else { 0 }
    }

    /// Where the header of TCP begins.
    pub fn tcp_at(self) -> usize {
        self.ip_at() + if self.is_ipv6 { 40 } else { 20 + 4 * usize::from(self.ip_options) }
    }

    /// Bytes of all headers.
    pub fn headers(self) -> usize {
        self.tcp_at() + 20 + 4 * usize::from(self.tcp_options)
    }

    /// The byte of data at a place.
    pub fn byte(at: usize) -> u8 {
        (at % 251) as u8
    }

    /// The frame with the header of the queue.
    pub fn frame(self) -> Frame {
        Frame::sent(self.bytes()).unwrap()
    }

    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        let length = (self.headers() - self.tcp_at() + self.data) as u16;
        let mut ethernet = vec![7; 12];
        if self.has_tag {
            ethernet.extend([0x81, 0, 0, 5]);
        }
        if self.is_ipv6 {
            ethernet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            ethernet.extend(length.to_be_bytes());
            ethernet.extend([6, 64]);
            ethernet.extend((0..32).map(|at| 3 * at));
        } else {
            let words = 5 + self.ip_options;
            let total = length + 4 * u16::from(words);
            ethernet.extend([0x08, 0, 0x40 | words, 0]);
            ethernet.extend([total.to_be_bytes(), self.identification.to_be_bytes()].concat());
            ethernet.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            ethernet.extend(vec![1; 4 * usize::from(self.ip_options)]);
        }
        ethernet.extend([1, 2, 3, 4]);
        ethernet.extend(self.sequence.to_be_bytes());
        ethernet.extend([0, 0, 0, 9, (5 + self.tcp_options) << 4, self.flags, 1, 0, 0, 0, 0, 0]);
        ethernet.extend(vec![1; 4 * usize::from(self.tcp_options)]);
        ethernet.extend((0..self.data).map(Self::byte));
        let mut header = vec![0; HEADER_BYTES];
        (header[0], header[1]) = (1, if self.is_ipv6 { 4 } else { 1 });
        header[4..6].copy_from_slice(&self.piece.to_le_bytes());
        header[6..8].copy_from_slice(&(self.tcp_at() as u16).to_le_bytes());
        header[8..10].copy_from_slice(&16u16.to_le_bytes());
        [header, ethernet].concat()
    }
}
