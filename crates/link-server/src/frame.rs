//! A frame as it is in a virtio-net queue: a header and the frame itself (virtio 1.2, 5.1.6).

use std::ops::Range;

use nestor_link::SHORTEST_FRAME_BYTES;
use virtio_bindings::bindings::virtio_net::{
    VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_ECN, VIRTIO_NET_HDR_GSO_NONE,
};

use crate::checksum;
use crate::segment::{Headers, Place, Segment};

/// `struct virtio_net_hdr_v1`.
pub const HEADER_BYTES: usize = 12;

/// The longest frame that is taken: a TCP segment of 64 KiB with all headers (the kernel's `GSO_LEGACY_MAX_SIZE`).
pub const LONGEST_BYTES: usize = HEADER_BYTES + 65_536 + 64;

/// A frame with its header. Whatever a guest wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// What a guest sent; `None` if it is too short to be a frame.
    pub fn sent(bytes: Vec<u8>) -> Option<Self> {
        // An Ethernet header is 14 bytes.
        (bytes.len() >= HEADER_BYTES + 14).then_some(Self { bytes })
    }

    /// The frame without the header of the queue and without check sequence.
    pub fn ethernet(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// As a guest is to find it, in that many buffers.
    pub fn in_buffers(&mut self, buffers: u16) -> &[u8] {
        self.bytes[10..12].copy_from_slice(&buffers.to_le_bytes());
        &self.bytes
    }

    /// Bytes with the header of the queue.
    pub fn queue_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the interface is to cut it into segments.
    pub fn is_to_be_cut(&self) -> bool {
        u32::from(self.bytes[1]) & !VIRTIO_NET_HDR_GSO_ECN != VIRTIO_NET_HDR_GSO_NONE
    }

    /// Sizes of the frames in which it goes over the wire, without check sequence: its TCP segments, each with all headers.
    pub fn on_the_wire(&self) -> impl Iterator<Item = u64> + use<> {
        let all = self.ethernet().len();
        let cut = self.cut();
        let sizes = (0..self.frames_of(cut)).map(move |at| match cut {
            Some(cut) => cut.headers.end() + cut.data(at..at + 1, all).len(),
            None => all,
        });
        sizes.map(|bytes| (bytes as u64).max(SHORTEST_FRAME_BYTES))
    }

    /// How many these are.
    pub fn frames(&self) -> usize {
        self.frames_of(self.cut())
    }

    fn frames_of(&self, cut: Option<Cut>) -> usize {
        cut.map_or(1, |cut| (self.ethernet().len() - cut.headers.end()).div_ceil(cut.segment))
    }

    /// Some of these frames: still to be cut if they are several, otherwise with nothing left to the interface but the checksum. Headers are
    /// those that the interface would write (virtio 1.2, 5.1.6.2; `tcp_gso_segment` in net/ipv4/tcp_offload.c does the same).
    pub fn part(&self, frames: &Range<usize>) -> Self {
        let (all, count) = (self.ethernet().len(), self.frames());
        let Some(cut) = self.cut().filter(|_| count == 1 || *frames != (0..count)) else {
            return self.clone();
        };
        let data = cut.data(frames.clone(), all);
        let place = Place {
            offset: u32::try_from(data.start - cut.headers.end()).unwrap_or(u32::MAX),
            number: u16::try_from(frames.start).unwrap_or(u16::MAX),
            is_first: frames.start == 0,
            is_last: frames.end == count,
        };
        let ethernet = self.ethernet();
        let headers = &self.bytes[..HEADER_BYTES + cut.headers.end()];
        let mut bytes = [headers, &ethernet[data]].concat();
        if frames.len() == 1 {
            (bytes[1], bytes[4], bytes[5]) = (VIRTIO_NET_HDR_GSO_NONE as u8, 0, 0);
        } else if !place.is_first {
            // Whoever heard of congestion is told once.
            bytes[1] &= !(VIRTIO_NET_HDR_GSO_ECN as u8);
        }
        let is_left = u32::from(bytes[0]) & VIRTIO_NET_HDR_F_NEEDS_CSUM != 0;
        cut.headers.rewrite(&mut bytes[HEADER_BYTES..], place, is_left);
        Self { bytes }
    }

    /// How the interface is to cut it, if it is; `None` also of what says so and is no segment of TCP.
    fn cut(&self) -> Option<Cut> {
        let headers = self.is_to_be_cut().then(|| Headers::of(self.ethernet())).flatten()?;
        let segment = usize::from(self.word(4));
        (segment > 0 && headers.end() < self.ethernet().len()).then_some(Cut { headers, segment })
    }

    /// The TCP segment; `None` of everything else.
    pub fn tcp_segment(&self) -> Option<Segment> {
        Headers::of(self.ethernet())?.segment(self.ethernet())
    }

    /// Computes the checksum that was left to the interface, for a guest that does not do without it.
    pub fn complete_checksum(&mut self) {
        if u32::from(self.bytes[0]) & VIRTIO_NET_HDR_F_NEEDS_CSUM == 0 {
            return;
        }
        let (start, offset) = (usize::from(self.word(6)), usize::from(self.word(8)));
        checksum::complete(&mut self.bytes[HEADER_BYTES..], start, offset);
        self.bytes[0] = 0;
    }

    /// A number of the header.
    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }
}

/// How an interface cuts a segment.
#[derive(Clone, Copy, Debug)]
struct Cut {
    headers: Headers,
    /// Bytes of data of each frame but the last.
    segment: usize,
}

impl Cut {
    /// Where the data of some of the frames is in a frame of so many bytes.
    fn data(self, frames: Range<usize>, all: usize) -> Range<usize> {
        let begin = |frame: usize| (self.headers.end() + frame.saturating_mul(self.segment)).min(all);
        begin(frames.start)..begin(frames.end)
    }
}

#[cfg(test)]
mod tests;
