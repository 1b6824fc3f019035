//! A machine at an end of a link that is checked: it speaks vhost-user and tells its time on the sockets that a hypervisor uses.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nestor_serving::beside;
use nestor_vtime::protocol::{LINK_TIME_SUFFIX, NO_EVENT, NO_QUEUE};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_net::{
    VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
    VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_F_MRG_RXBUF,
};
use vm_memory::GuestMemoryBackend as _;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::CheckError;
use super::shape::{Shape, sequence_of};
use crate::driver::{Driver, PART, part};
use crate::port::Queue;

/// Entries of a queue: what Linux's driver has with QEMU's interface.
const SIZE: u16 = 256;

/// How long the server may take to answer, in real time: it answers after the other machine has promised something.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a machine sends.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// When it puts the frame into its queue.
    pub at_ns: u64,
    pub shape: Shape,
}

/// What arrived at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at_ns: u64,
    /// What it is of what was sent; `None` if it is nothing of that.
    pub part: Option<Part>,
}

/// A frame, or some that are one behind the other in a segment that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The index of what was sent.
    pub index: usize,
    /// Frames of it that are before this part.
    pub begin: u64,
    /// Frames of it up to the end of this part.
    pub end: u64,
}

impl Part {
    fn of(arrived: &[u8], sent: &[Sending]) -> Option<Self> {
        let number = sequence_of(arrived)?;
        let index = usize::try_from(number).ok()?;
        let frames = sent.get(index)?.shape.arrived(arrived, number)?;
        Some(Self { index, begin: frames.start, end: frames.end })
    }
}

/// What a machine saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub arrivals: Vec<Arrival>,
    /// When the interface took each frame that the machine sent.
    pub taken_ns: Vec<u64>,
}

/// A machine.
pub struct PlayedMachine {
    driver: Driver,
    /// The connection to the server, which ends with it.
    _front_end: Frontend,
    _notifications: [EventFd; 4],
    time: UnixStream,
    /// Descriptors of each frame that was put and not given back.
    put: VecDeque<u16>,
    /// Chains of each queue that were given back and seen.
    seen: [u16; 2],
    /// A frame of which not all buffers were seen.
    partial: (u16, Vec<u8>),
}

impl PlayedMachine {
    /// Connects as a hypervisor does whose guest has started its driver.
    ///
    /// # Errors
    /// The server does not speak vhost-user.
    pub fn connect(socket: &Path) -> Result<Self, CheckError> {
        let driver = Driver::new(SIZE)?;
        let mut front_end = Frontend::connect(socket, 2)?;
        front_end.set_owner()?;
        let wanted = [
            VIRTIO_F_VERSION_1,
            VIRTIO_NET_F_CSUM,
            VIRTIO_NET_F_GUEST_CSUM,
            VIRTIO_NET_F_HOST_TSO4,
            VIRTIO_NET_F_HOST_TSO6,
            VIRTIO_NET_F_GUEST_TSO4,
            VIRTIO_NET_F_GUEST_TSO6,
            VIRTIO_NET_F_MRG_RXBUF,
        ];
        let of_vhost = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        let features = front_end.get_features()? & wanted.iter().fold(of_vhost, |all, bit| all | 1 << bit);
        let protocol = front_end.get_protocol_features()? & VhostUserProtocolFeatures::REPLY_ACK;
        front_end.set_protocol_features(protocol)?;
        front_end.set_features(features)?;
        let notifications = start_queues(&mut front_end, &driver)?;
        let time = UnixStream::connect(beside(socket, LINK_TIME_SUFFIX))?;
        time.set_read_timeout(Some(PATIENCE))?;
        let (put, seen, partial) = (VecDeque::new(), [0; 2], (0, Vec::new()));
        let mut machine =
            Self { driver, _front_end: front_end, _notifications: notifications, time, put, seen, partial };
        (0..SIZE).for_each(|_| _ = machine.driver.offer(PART as usize));
        Ok(machine)
    }

    /// Lives from time zero to a time, sends what is planned, in the order of time, and notes what arrives of what the other machine has
    /// planned.
    ///
    /// # Errors
    /// The server is gone.
    pub fn live(
        &mut self,
        plan: &[Sending],
        of_other: &[Sending],
        until_ns: u64,
    ) -> Result<Seen, CheckError> {
        let (mut seen, mut now_ns, mut sent) = (Seen::default(), 0, 0);
        loop {
            // Whatever it puts into its queue at this time, before it promises to send nothing more.
            while self.put_due(plan, now_ns, &mut sent) {
                self.tell(now_ns, now_ns, Some(Queue::Transmit))?;
                self.note_taken(now_ns, &mut seen);
                self.note_arrivals(now_ns, of_other, &mut seen);
            }
            let planned_ns = plan.get(sent).map_or(u64::MAX, |next| next.at_ns);
            let quiet_until_ns = if planned_ns > now_ns { planned_ns } else { u64::MAX };
            let next_ns = self.tell(now_ns, quiet_until_ns, None)?;
            self.note_taken(now_ns, &mut seen);
            if self.note_arrivals(now_ns, of_other, &mut seen) {
                self.tell(now_ns, quiet_until_ns, Some(Queue::Receive))?;
            }
            if now_ns >= until_ns {
                return Ok(seen);
            }
            now_ns = next_ns.min(quiet_until_ns).min(until_ns).max(now_ns + 1);
        }
    }

    /// Puts what is due into the queue, as far as there is room; whether there was anything.
    fn put_due(&mut self, plan: &[Sending], now_ns: u64, sent: &mut usize) -> bool {
        let before = *sent;
        while let Some(next) = plan.get(*sent).filter(|next| next.at_ns <= now_ns) {
            let frame = next.shape.frame(*sent as u64);
            let pieces: Vec<&[u8]> = frame.chunks(PART as usize).collect();
            let needed = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
            if self.put.iter().sum::<u16>().saturating_add(needed) > SIZE {
                break;
            }
            self.driver.send(&pieces);
            self.put.push_back(needed);
            *sent += 1;
        }
        *sent > before
    }

    /// Tells the link its time; when the next event is.
    fn tell(&mut self, now_ns: u64, quiet_until_ns: u64, notified: Option<Queue>) -> Result<u64, CheckError> {
        let queue = notified.map_or(NO_QUEUE, |queue| queue as u64);
        self.time.write_all([now_ns, quiet_until_ns, queue].map(u64::to_le_bytes).as_flattened())?;
        let mut next = [0; 8];
        self.time.read_exact(&mut next).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => CheckError::Silent,
            _ => CheckError::System(e),
        })?;
        let next_ns = u64::from_le_bytes(next);
        Ok(if next_ns == NO_EVENT { u64::MAX } else { next_ns })
    }

    fn note_taken(&mut self, now_ns: u64, seen: &mut Seen) {
        let given_back = self.driver.given_back(Queue::Transmit);
        let new = given_back.wrapping_sub(self.seen[Queue::Transmit as usize]);
        self.seen[Queue::Transmit as usize] = given_back;
        for _ in 0..new {
            self.put.pop_front();
            seen.taken_ns.push(now_ns);
        }
    }

    /// Notes what has arrived and offers its buffers again; whether there were hardly any left, so that the link may wait for more.
    fn note_arrivals(&mut self, now_ns: u64, of_other: &[Sending], seen: &mut Seen) -> bool {
        let given_back = self.driver.given_back(Queue::Receive);
        let begin = self.seen[Queue::Receive as usize];
        let new = given_back.wrapping_sub(begin);
        self.seen[Queue::Receive as usize] = given_back;
        for number in 0..new {
            let used = self.driver.used(Queue::Receive, begin.wrapping_add(number));
            let buffer = self.driver.filled(used);
            let (left, frame) = &mut self.partial;
            if *left == 0 {
                // `num_buffers`, which is 0 for no driver that has negotiated VIRTIO_NET_F_MRG_RXBUF.
                *left = buffer.get(10..12).map_or(1, |n| u16::from_le_bytes([n[0], n[1]])).max(1);
            }
            frame.extend(buffer);
            *left -= 1;
            if *left == 0 {
                seen.arrivals.push(Arrival { at_ns: now_ns, part: Part::of(frame, of_other) });
                frame.clear();
            }
        }
        (0..new).for_each(|_| _ = self.driver.offer(PART as usize));
        new > SIZE / 2
    }
}

/// Starts both queues; the events with which driver and link notify each other.
fn start_queues(front_end: &mut Frontend, driver: &Driver) -> Result<[EventFd; 4], CheckError> {
    let region = driver.memory.iter().next().ok_or(CheckError::Silent)?;
    let info = VhostUserMemoryRegionInfo::from_guest_region(region)?;
    let base = info.userspace_addr;
    front_end.set_mem_table(&[info])?;
    let event = || EventFd::new(EFD_NONBLOCK);
    let events = [event()?, event()?, event()?, event()?];
    for (queue, [call, kick]) in [Queue::Receive, Queue::Transmit].into_iter().zip(events.as_chunks().0) {
        let index = queue as usize;
        front_end.set_vring_num(index, SIZE)?;
        let config = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: base + part(queue, 0),
            avail_ring_addr: base + part(queue, 1),
            used_ring_addr: base + part(queue, 2),
            log_addr: None,
        };
        front_end.set_vring_addr(index, &config)?;
        front_end.set_vring_base(index, 0)?;
        front_end.set_vring_call(index, call)?;
        front_end.set_vring_kick(index, kick)?;
        front_end.set_vring_enable(index, true)?;
        kick.write(1)?;
    }
    Ok(events)
}
