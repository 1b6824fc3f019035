//! One end of a link: the queues of a guest's network interface, and what is on its way there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use nestor_link::log::{Ended, FrameRecord};
use nestor_link::{OnWire, Outlet, PortIndex};
use nestor_serving::{Alarm, Guest, GuestMemory, Memory, ServingError, Vring};
use vhost_user_backend::{VringState, VringT};
use virtio_bindings::bindings::virtio_net::{
    VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6, VIRTIO_NET_F_MRG_RXBUF,
};
use virtio_queue::{DescriptorChain, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace};

use crate::frame::{Frame, LONGEST_BYTES};

/// The queues of an interface (virtio 1.2, 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// In which the guest has buffers for what arrives.
    Receive = 0,
    /// In which the guest sends.
    Transmit = 1,
}

impl Queue {
    /// The queue at an index; `None` if an interface has none there.
    pub fn at(index: u64) -> Option<Self> {
        [Self::Receive, Self::Transmit].into_iter().find(|queue| *queue as u64 == index)
    }
}

/// Descriptors in a queue at most. A driver makes no chain that is longer (virtio 1.2, 2.7.5.3.1), so nothing of a guest is read or taken
/// more often than that in one turn, whatever its descriptors say and whatever it adds meanwhile.
pub const QUEUE_SIZE: usize = 1024;

/// Frames that are under way to an end at most. What more comes is refused.
const MOST_ARRIVING: usize = 1 << 16;

/// Their bytes at most: those of almost a second at 10 Gbit/s.
const MOST_ARRIVING_BYTES: usize = 1 << 30;

/// A frame on its way to an end.
#[derive(Debug)]
pub struct Arriving {
    pub frame: Frame,
    /// What is known of it, and is to be logged when all is.
    pub record: FrameRecord,
    /// It was sent while frames are logged.
    pub is_logged: bool,
}

/// The place of a frame among those that come in at the switch: by when it begins, then by who sends it, then as it was sent.
type Turn = (u64, PortIndex, u64);

/// A machine at one end.
pub struct Port {
    /// The guest that is connected.
    pub guest: Guest,
    /// What the guest's driver can do.
    features: u64,
    /// Its wire from the switch.
    outlet: Outlet,
    /// What comes in at the switch. Others may still send what comes in before.
    coming: BTreeMap<Turn, Arriving>,
    /// How many came so far.
    came: u64,
    /// What is behind the switch, in the order of arrival.
    arriving: VecDeque<Arriving>,
    /// Bytes of all of both.
    arriving_bytes: usize,
    /// The guest had no buffers for what has arrived, and is to say when it has.
    is_starved: bool,
    /// The guest has started all of its queues.
    is_connected: bool,
    /// There was a guest, and it is gone.
    is_gone: bool,
    /// When its interface takes what the guest has to send, if that waits.
    pub room_ns: Option<u64>,
    /// Real time only.
    pub alarm: Alarm,
    /// What the guest sent and could not be taken from it.
    pub not_taken: u64,
    /// Frames that the guest could not be given.
    pub not_given: u64,
    /// Records of frames whose fate has become known, to be logged.
    ended: Vec<FrameRecord>,
}

impl Port {
    /// One without a guest, to which this wire leads.
    ///
    /// # Errors
    /// The kernel gives no timer.
    pub fn new(outlet: Outlet) -> Result<Self, ServingError> {
        Ok(Self {
            guest: Guest::default(),
            features: 0,
            outlet,
            coming: BTreeMap::new(),
            came: 0,
            arriving: VecDeque::new(),
            arriving_bytes: 0,
            is_starved: false,
            is_connected: false,
            is_gone: false,
            room_ns: None,
            alarm: Alarm::new()?,
            not_taken: 0,
            not_given: 0,
            ended: Vec::new(),
        })
    }

    /// The guest's memory has changed.
    pub fn set_memory(&mut self, memory: Memory) {
        self.guest.memory = Some(memory);
        self.is_gone = false;
    }

    /// What the guest's driver can do.
    pub fn set_features(&mut self, features: u64) {
        self.features = features;
    }

    /// Whether there is a guest that has started all of its queues, since it came. The library knows a queue when its guest notifies it, and
    /// says nothing when the other is enabled after that: so they are looked at.
    pub fn is_connected(&mut self) -> bool {
        let is_started = |vring: &Vring| {
            let state = vring.get_ref();
            state.is_enabled() && state.get_queue().ready()
        };
        if !self.is_connected {
            self.is_connected = self.guest.has_come() && self.guest.vrings.iter().all(is_started);
        }
        self.is_connected
    }

    /// Whether the guest's driver takes TCP segments that were not cut.
    pub fn takes_segments(&self) -> bool {
        self.can(VIRTIO_NET_F_GUEST_TSO4) && self.can(VIRTIO_NET_F_GUEST_TSO6)
    }

    fn can(&self, feature: u32) -> bool {
        self.features >> feature & 1 == 1
    }

    /// Whether there was a guest that is gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The guest is gone.
    pub fn disconnect(&mut self) {
        self.guest = Guest::default();
        self.is_connected = false;
        let coming = std::mem::take(&mut self.coming).into_values();
        for arriving in std::mem::take(&mut self.arriving).into_iter().chain(coming) {
            self.end(arriving.is_logged, FrameRecord { ended: Ended::Refused, ..arriving.record });
        }
        self.arriving_bytes = 0;
        self.room_ns = None;
        self.is_gone = true;
    }

    /// A frame is on its way here from another machine.
    pub fn expect(&mut self, from: PortIndex, arriving: Arriving) {
        let bytes = self.arriving_bytes.saturating_add(arriving.frame.queue_bytes());
        let frames = self.coming.len() + self.arriving.len();
        if self.is_connected() && frames < MOST_ARRIVING && bytes <= MOST_ARRIVING_BYTES {
            self.arriving_bytes = bytes;
            self.came += 1;
            self.coming.insert((arriving.record.begins_ns, from, self.came), arriving);
        } else {
            self.end(arriving.is_logged, FrameRecord { ended: Ended::Refused, ..arriving.record });
        }
    }

    /// Passes on what came in at the switch so long ago that nothing can come in before it any more: no machine is further behind than the delay.
    fn pass_on(&mut self, now_ns: u64) {
        let delay_ns = self.outlet.delay_ns();
        let is_certain = |(begins_ns, ..): &Turn| begins_ns.saturating_add(delay_ns) <= now_ns;
        while let Some(first) = self.coming.first_entry().filter(|first| is_certain(first.key())) {
            let mut next = first.remove();
            next.record.arrives_ns = self.outlet.pass(comes(&next.record));
            self.arriving.push_back(next);
        }
    }

    /// The fate of a frame to this guest is known.
    fn end(&mut self, is_logged: bool, record: FrameRecord) {
        if record.ended == Ended::Refused {
            self.not_given += u64::from(record.frames);
        }
        if is_logged {
            self.ended.push(record);
        }
    }

    /// Records of frames whose fate has become known.
    pub fn take_ended(&mut self) -> Vec<FrameRecord> {
        std::mem::take(&mut self.ended)
    }

    /// Records of the frames that are on their way; they are not logged when they arrive.
    pub fn take_under_way(&mut self) -> impl Iterator<Item = FrameRecord> {
        let record = |arriving: &mut Arriving| {
            let is_logged = std::mem::take(&mut arriving.is_logged);
            is_logged.then_some(FrameRecord { ended: Ended::UnderWay, ..arriving.record })
        };
        self.arriving.iter_mut().chain(self.coming.values_mut()).filter_map(record)
    }

    /// When the next frame arrives that the guest may have a buffer for, or could if no other comes in at the switch before it.
    pub fn next_arrival_ns(&self) -> Option<u64> {
        if self.is_starved {
            return None;
        }
        let behind_switch = self.arriving.front().map(|next| next.record.arrives_ns);
        let coming = || self.coming.values().next().map(|next| self.outlet.would_pass(comes(&next.record)));
        behind_switch.or_else(coming)
    }

    /// When the next frame arrives, or the interface has room for what waits.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.next_arrival_ns().into_iter().chain(self.room_ns).min()
    }

    /// Whether the guest has more to send. Asks it to notify the link of what it will have.
    pub fn has_frames(&mut self) -> bool {
        self.with_queue(Queue::Transmit, |state, memory| {
            let asked = state.enable_notification().unwrap_or(false);
            asked || available(state.get_queue(), memory) > 0
        })
        .unwrap_or(false)
    }

    /// The next frame that the guest has to send. If it has none, it is asked to notify the link of what it will have.
    pub fn next_frame(&mut self) -> Option<Frame> {
        // A guest may say that it has frames and have none.
        self.take_frame().or_else(|| self.has_frames().then(|| self.take_frame()).flatten())
    }

    fn take_frame(&mut self) -> Option<Frame> {
        let mut not_taken = 0;
        let taken = self.with_queue(Queue::Transmit, |state, memory| {
            // A guest that goes on adding what is no frame holds nobody up for longer than this.
            for _ in 0..QUEUE_SIZE {
                let chain = state.get_queue_mut().pop_descriptor_chain(memory)?;
                let head = chain.head_index();
                let frame = read_chain(memory, chain).and_then(Frame::sent);
                let _ = state.add_used(head, 0);
                if frame.is_some() {
                    return frame;
                }
                not_taken += 1;
            }
            None
        });
        self.not_taken += not_taken;
        taken.flatten()
    }

    /// Tells the guest that what it sent was taken, if it wants to know.
    pub fn notify_sender(&mut self) {
        self.with_queue(Queue::Transmit, |state, _| notify(state));
    }

    /// The guest has put buffers into its queue, and says so because it was asked to.
    pub fn has_buffers(&mut self) {
        self.is_starved = false;
    }

    /// Gives the guest everything that has arrived by then, as far as it has buffers. Whether it was given anything.
    pub fn deliver(&mut self, now_ns: u64) -> bool {
        self.pass_on(now_ns);
        let mut any = false;
        while !self.is_starved
            && let Some(mut next) = self.arriving.pop_front_if(|next| next.record.arrives_ns <= now_ns)
        {
            let bytes = next.frame.queue_bytes();
            let record = match self.give(&mut next.frame) {
                Given::Done => FrameRecord { ended: Ended::Delivered, delivered_ns: now_ns, ..next.record },
                Given::Never => FrameRecord { ended: Ended::Refused, ..next.record },
                Given::Later => {
                    self.arriving.push_front(next);
                    self.is_starved = true;
                    break;
                }
            };
            any |= record.ended == Ended::Delivered;
            self.arriving_bytes -= bytes;
            self.end(next.is_logged, record);
        }
        if any {
            self.with_queue(Queue::Receive, |state, _| notify(state));
        }
        any
    }

    /// Gives the guest one frame.
    fn give(&mut self, frame: &mut Frame) -> Given {
        if !self.can(VIRTIO_NET_F_GUEST_CSUM) {
            frame.complete_checksum();
        }
        if frame.is_to_be_cut() && !self.takes_segments() {
            return Given::Never;
        }
        let is_merged = self.can(VIRTIO_NET_F_MRG_RXBUF);
        let given = self.with_queue(Queue::Receive, |state, memory| {
            let begin = state.get_queue().next_avail();
            let mut found = chains_for(state, memory, frame.queue_bytes(), is_merged);
            if let Err(Given::Later) = found {
                state.get_queue_mut().set_next_avail(begin);
                // The guest is to say when it has buffers, unless it has some by now.
                if state.enable_notification().unwrap_or(false) {
                    found = chains_for(state, memory, frame.queue_bytes(), is_merged);
                }
            }
            let chains = match found {
                Ok(chains) => chains,
                Err(given) => {
                    state.get_queue_mut().set_next_avail(begin);
                    return given;
                }
            };
            let buffers = u16::try_from(chains.len()).unwrap_or(u16::MAX);
            let bytes = frame.in_buffers(buffers);
            let mut at = 0;
            for chain in chains {
                let mut filled = 0;
                for (address, room) in chain.pieces {
                    let piece = &bytes[at..(at + room).min(bytes.len())];
                    let _ = memory.write_slice(piece, address);
                    at += piece.len();
                    filled += piece.len();
                }
                let _ = state.add_used(chain.head, u32::try_from(filled).unwrap_or(u32::MAX));
            }
            Given::Done
        });
        given.unwrap_or(Given::Never)
    }

    /// Does something with a queue that the guest has enabled.
    fn with_queue<T>(
        &self,
        queue: Queue,
        act: impl FnOnce(&mut VringState<Memory>, &GuestMemory) -> T,
    ) -> Option<T> {
        let memory = self.guest.memory.as_ref()?.memory();
        let vring = self.guest.vrings.get(queue as usize)?;
        let mut state = vring.get_mut();
        (state.is_enabled() && state.get_queue().ready()).then(|| act(&mut state, &memory))
    }
}

/// As a frame that was sent comes in at the switch.
const fn comes(record: &FrameRecord) -> OnWire {
    let FrameRecord { begins_ns, leaves_ns, wire_bytes, .. } = *record;
    OnWire { begins_ns, leaves_ns, wire_bytes: wire_bytes as u64 }
}

/// What became of a frame that was to be given to a guest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Done,
    /// The guest has no buffers.
    Later,
    /// The guest cannot take such a frame.
    Never,
}

/// Buffers that the guest has for what arrives.
struct Buffers {
    head: u16,
    pieces: Vec<(GuestAddress, usize)>,
}

/// Buffers for that many bytes; what becomes of the frame if the guest has too few, or too small ones.
fn chains_for(
    state: &mut VringState<Memory>,
    memory: &GuestMemory,
    bytes: usize,
    is_merged: bool,
) -> Result<Vec<Buffers>, Given> {
    let mut chains = Vec::new();
    let mut room = 0;
    while room < bytes {
        let most = if is_merged { QUEUE_SIZE } else { 1 };
        if chains.len() == most {
            return Err(Given::Never);
        }
        let chain = state.get_queue_mut().pop_descriptor_chain(memory).ok_or(Given::Later)?;
        let head = chain.head_index();
        let writable = chain.take(QUEUE_SIZE).filter(|piece| piece.is_write_only());
        let pieces: Vec<_> = writable.map(|piece| (piece.addr(), piece.len() as usize)).collect();
        room += pieces.iter().map(|(_, bytes)| bytes).sum::<usize>();
        chains.push(Buffers { head, pieces });
    }
    Ok(chains)
}

/// What a chain has for the link; `None` if not all of it is there, or it is longer than a queue, or than any frame.
fn read_chain(memory: &GuestMemory, chain: DescriptorChain<&GuestMemory>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, piece) in chain.enumerate() {
        let is_read =
            piece.is_write_only() || read_piece(memory, piece.addr(), piece.len() as usize, &mut bytes);
        if number >= QUEUE_SIZE || !is_read {
            return None;
        }
    }
    Some(bytes)
}

/// Appends a piece of the guest's memory; whether it is there and makes no frame that is too long.
fn read_piece(memory: &GuestMemory, address: GuestAddress, bytes: usize, to: &mut Vec<u8>) -> bool {
    let begin = to.len();
    if begin.saturating_add(bytes) > LONGEST_BYTES {
        return false;
    }
    to.resize(begin + bytes, 0);
    memory.read_slice(&mut to[begin..], address).is_ok()
}

/// How many chains the guest has put into a queue that were not taken.
fn available(queue: &virtio_queue::Queue, memory: &GuestMemory) -> u16 {
    let index = queue.avail_idx(memory, Ordering::Acquire).map_or(queue.next_avail(), |index| index.0);
    index.wrapping_sub(queue.next_avail())
}

fn notify(state: &mut VringState<Memory>) {
    if state.needs_notification().unwrap_or(true) {
        let _ = state.signal_used_queue();
    }
}

#[cfg(test)]
mod tests;
