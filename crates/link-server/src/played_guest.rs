//! A guest in the process of the link itself, for tests.

use std::ops::{Deref, DerefMut};

use nestor_serving::{Memory, Vring};
use vhost_user_backend::VringT as _;

use crate::driver::{Driver, PLAIN, memory_bytes};
pub use crate::driver::{NEXT, WRITE, part};
use crate::port::{Port, Queue};

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
        port.set_vrings(&self.vrings);
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
