//! A front end of vhost-user-blk: what a hypervisor and the guest's driver do, with one split virtqueue.
//!
//! It is this crate's own so that a server can be tested and measured without a virtual machine.

#![allow(dead_code)] // The tests and the bench each use a part.

pub mod served;

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use rustix::event::{PollFd, PollFlags, poll};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap};
use vmm_sys_util::eventfd::EventFd;

/// Size of the queue; each request takes three descriptors of it.
pub const QUEUE_SIZE: u16 = 256;
/// Requests that can be in flight.
pub const SLOTS: u16 = QUEUE_SIZE / 3;

const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;
const DESCRIPTORS_AT: u64 = 0x0000;
const AVAILABLE_AT: u64 = 0x4000;
const USED_AT: u64 = 0x8000;
const HEADERS_AT: u64 = 0x10000;
const HEADER_STRIDE: u64 = 64;
const STATUS_IN_HEADER: u64 = 48;
const DATA_AT: u64 = 0x20000;

/// One piece of a hand-made chain: address, bytes, and whether the device writes to it.
pub type RawPiece = (u64, u32, bool);

/// A connected driver.
pub struct FrontEnd {
    frontend: Frontend,
    memory: GuestMemoryMmap,
    kick: EventFd,
    call: EventFd,
    features: u64,
    data_bytes: u32,
    next_available: u16,
    next_used: u16,
    /// Notifications sent to and received from the device.
    pub kicks: u64,
    pub calls: u64,
}

impl FrontEnd {
    /// Connects and starts the queue, with room for `data_bytes` of data in each request.
    pub fn connect(socket: &Path, data_bytes: u32) -> Self {
        let memory_bytes = DATA_AT + u64::from(SLOTS) * u64::from(data_bytes);
        let memfd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(memfd);
        file.set_len(memory_bytes).unwrap();
        let region =
            vm_memory::MmapRegion::from_file(FileOffset::new(file, 0), memory_bytes as usize).unwrap();
        let region = GuestRegionMmap::new(region, GuestAddress(0)).unwrap();
        let memory = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        let mut front_end = Self {
            frontend: Frontend::connect(socket, 1).unwrap(),
            memory,
            kick: EventFd::new(0).unwrap(),
            call: EventFd::new(libc::EFD_NONBLOCK).unwrap(),
            features: 0,
            data_bytes,
            next_available: 0,
            next_used: 0,
            kicks: 0,
            calls: 0,
        };
        front_end.negotiate();
        front_end.start_queue(0);
        front_end
    }

    fn negotiate(&mut self) {
        let frontend = &mut self.frontend;
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        let wanted = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
            | 1 << VIRTIO_F_VERSION_1
            | 1 << VIRTIO_RING_F_EVENT_IDX
            | 0x7e40; // everything of block devices that changes no layout: sizes, flush, queues, discard, zeroes
        self.features = offered;
        let protocol = frontend.get_protocol_features().unwrap();
        let known = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ;
        frontend.set_protocol_features(protocol & known).unwrap();
        frontend.set_features(offered & wanted).unwrap();
    }

    fn start_queue(&mut self, base: u16) {
        let region = self.memory.iter().next().unwrap();
        let info = VhostUserMemoryRegionInfo::from_guest_region(region).unwrap();
        let memory = info.userspace_addr;
        let frontend = &mut self.frontend;
        frontend.set_mem_table(&[info]).unwrap();
        frontend.set_vring_num(0, QUEUE_SIZE).unwrap();
        let config = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: memory + DESCRIPTORS_AT,
            used_ring_addr: memory + USED_AT,
            avail_ring_addr: memory + AVAILABLE_AT,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &config).unwrap();
        frontend.set_vring_base(0, base).unwrap();
        frontend.set_vring_call(0, &self.call).unwrap();
        frontend.set_vring_kick(0, &self.kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
    }

    /// Takes the queue away, as a guest's reset does, and gives it back. Returns where the device stopped.
    pub fn restart_queue(&mut self) -> u32 {
        let base = self.frontend.get_vring_base(0).unwrap();
        self.start_queue(base as u16);
        base
    }

    /// The features that the device offered.
    pub fn offered_features(&self) -> u64 {
        self.features
    }

    /// The device's configuration space.
    pub fn config(&mut self, bytes: u32) -> Vec<u8> {
        let nothing = vec![0; bytes as usize];
        self.frontend.get_config(0, bytes, VhostUserConfigFlags::WRITABLE, &nothing).unwrap().1
    }

    /// Writes one byte of the configuration space.
    pub fn set_config(&mut self, at: u32, value: u8) {
        self.frontend.set_config(at, VhostUserConfigFlags::WRITABLE, &[value]).unwrap();
    }

    /// Where a slot's data is.
    pub fn data_at(&self, slot: u16) -> u64 {
        DATA_AT + u64::from(slot) * u64::from(self.data_bytes)
    }

    /// Puts data into a slot.
    pub fn set_data(&self, slot: u16, data: &[u8]) {
        self.memory.write_slice(data, GuestAddress(self.data_at(slot))).unwrap();
    }

    /// The first bytes of a slot's data.
    pub fn data(&self, slot: u16, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.memory.read_slice(&mut data, GuestAddress(self.data_at(slot))).unwrap();
        data
    }

    /// The status that a slot's request ended with.
    pub fn status(&self, slot: u16) -> u8 {
        self.memory.read_obj(GuestAddress(status_at(slot))).unwrap()
    }

    /// Makes a request available; the device is not told yet.
    pub fn submit(&mut self, slot: u16, kind: u32, sector: u64, bytes: u32, device_writes: bool) {
        let header = header_at(slot);
        let memory = &self.memory;
        memory.write_obj(kind, GuestAddress(header)).unwrap();
        memory.write_obj(0u32, GuestAddress(header + 4)).unwrap();
        memory.write_obj(sector, GuestAddress(header + 8)).unwrap();
        memory.write_obj(0xffu8, GuestAddress(status_at(slot))).unwrap();
        let data = self.data_at(slot);
        let chain = [(header, 16, false), (data, bytes, device_writes), (status_at(slot), 1, true)];
        if bytes == 0 {
            self.submit_raw(slot, &[chain[0], chain[2]]);
        } else {
            self.submit_raw(slot, &chain);
        }
    }

    /// Makes a hand-made chain available.
    pub fn submit_raw(&mut self, slot: u16, chain: &[RawPiece]) {
        let head = slot * 3;
        for (at, (address, bytes, device_writes)) in chain.iter().enumerate() {
            let last = at + 1 == chain.len();
            let flags = if *device_writes { DEVICE_WRITES } else { 0 } | if last { 0 } else { NEXT };
            self.write_descriptor(head + at as u16, *address, *bytes, flags, head + at as u16 + 1);
        }
        self.publish(head);
    }

    /// Writes one descriptor of the table.
    pub fn write_descriptor(&self, index: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&address.to_le_bytes());
        raw[8..12].copy_from_slice(&bytes.to_le_bytes());
        raw[12..14].copy_from_slice(&flags.to_le_bytes());
        raw[14..].copy_from_slice(&next.to_le_bytes());
        self.memory.write_obj(raw, GuestAddress(DESCRIPTORS_AT + u64::from(index) * 16)).unwrap();
    }

    /// Makes the chain that begins with descriptor `head` available.
    pub fn publish(&mut self, head: u16) {
        let entry = AVAILABLE_AT + 4 + u64::from(self.next_available % QUEUE_SIZE) * 2;
        self.memory.write_obj(head, GuestAddress(entry)).unwrap();
        self.next_available = self.next_available.wrapping_add(1);
        self.memory.store(self.next_available, GuestAddress(AVAILABLE_AT + 2), Ordering::Release).unwrap();
    }

    /// Notifies the device of what was made available since `before`, if it wants notifications.
    pub fn kick_since(&mut self, before: u16) {
        fence(Ordering::SeqCst);
        let event: u16 = if self.features & 1 << VIRTIO_RING_F_EVENT_IDX != 0 {
            let at = USED_AT + 4 + u64::from(QUEUE_SIZE) * 8;
            self.memory.load(GuestAddress(at), Ordering::Relaxed).unwrap()
        } else {
            before
        };
        let new = self.next_available;
        // virtio 1.2, 2.7.10: the device asked for a notification when the index passes `event`.
        if new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(before) {
            self.kick();
        }
    }

    /// Tells the device that requests are available.
    pub fn kick(&mut self) {
        self.kicks += 1;
        self.kick.write(1).unwrap();
    }

    /// Where the next chain will be made available; for [`Self::kick_since`].
    pub fn next_available(&self) -> u16 {
        self.next_available
    }

    /// A finished request's slot and how many bytes the device says it wrote.
    pub fn poll(&mut self) -> Option<(u16, u32)> {
        let used: u16 = self.memory.load(GuestAddress(USED_AT + 2), Ordering::Acquire).unwrap();
        if used == self.next_used {
            return None;
        }
        let entry = USED_AT + 4 + u64::from(self.next_used % QUEUE_SIZE) * 8;
        let [head, bytes]: [u32; 2] = self.memory.read_obj(GuestAddress(entry)).unwrap();
        self.next_used = self.next_used.wrapping_add(1);
        Some((head as u16 / 3, bytes))
    }

    /// Sleeps until the device has finished something that was not polled yet.
    pub fn wait(&mut self) {
        let event_at = AVAILABLE_AT + 4 + u64::from(QUEUE_SIZE) * 2;
        self.memory.store(self.next_used, GuestAddress(event_at), Ordering::Relaxed).unwrap();
        fence(Ordering::SeqCst);
        loop {
            let used: u16 = self.memory.load(GuestAddress(USED_AT + 2), Ordering::Acquire).unwrap();
            if used != self.next_used {
                return;
            }
            let raw = self.call.as_raw_fd();
            // SAFETY: `call` keeps the descriptor open during this function.
            let fd = unsafe { BorrowedFd::borrow_raw(raw) };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
            self.calls += 1;
            let _ = self.call.read();
        }
    }

    /// One request from submission to completion: its status.
    pub fn request(&mut self, kind: u32, sector: u64, bytes: u32, device_writes: bool) -> u8 {
        self.submit(0, kind, sector, bytes, device_writes);
        self.finish_one();
        self.status(0)
    }

    /// Kicks and waits for one completion, of whatever slot.
    pub fn finish_one(&mut self) -> (u16, u32) {
        self.kick();
        loop {
            if let Some(done) = self.poll() {
                return done;
            }
            self.wait();
        }
    }
}

fn header_at(slot: u16) -> u64 {
    HEADERS_AT + u64::from(slot) * HEADER_STRIDE
}

/// Where a slot's status byte is.
pub fn status_at(slot: u16) -> u64 {
    header_at(slot) + STATUS_IN_HEADER
}

/// Where a slot's header is.
pub fn header_address(slot: u16) -> u64 {
    header_at(slot)
}
