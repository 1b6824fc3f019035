//! A frame as it is in a virtio-net queue: a header and the frame itself (virtio 1.2, 5.1.6).

use nestor_link::SHORTEST_FRAME_BYTES;
use virtio_bindings::bindings::virtio_net::{
    VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_ECN, VIRTIO_NET_HDR_GSO_NONE,
};

use crate::checksum;

/// `struct virtio_net_hdr_v1`.
pub const HEADER_BYTES: usize = 12;

/// The longest frame that is taken: a TCP segment of 64 KiB with all headers (the kernel's `GSO_LEGACY_MAX_SIZE`).
pub const LONGEST_BYTES: usize = HEADER_BYTES + 65_536 + 64;

/// Smallest TCP header, in bytes.
const TCP_HEADER_BYTES: usize = 20;

/// Where the type of an Ethernet frame is, and the packet behind it (IEEE 802.3, 3.1.1).
const ETHER_TYPE_AT: usize = 12;
const PACKET_AT: usize = 14;
/// Types of packets (IEEE 802 numbers, <https://www.iana.org/assignments/ieee-802-numbers>).
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// TCP's number in both versions of IP (RFC 9293, 3.1; <https://www.iana.org/assignments/protocol-numbers>).
const TCP: u8 = 6;
/// An IPv6 header without extensions (RFC 8200, 3).
const IPV6_HEADER_BYTES: usize = 40;

/// Both ends of a TCP connection, in one direction: addresses and ports as they are in the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow([u8; Self::BYTES]);

impl Flow {
    /// Two addresses of IPv6 and two ports.
    pub const BYTES: usize = 36;
}

impl From<[u8; Flow::BYTES]> for Flow {
    fn from(bytes: [u8; Flow::BYTES]) -> Self {
        Self(bytes)
    }
}

/// A TCP segment, whether it is to be cut or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its connection.
    pub flow: Flow,
    /// The number of its first byte of data.
    pub sequence: u32,
    /// Bytes of data.
    pub bytes: usize,
}

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
    pub fn on_the_wire(&self) -> impl Iterator<Item = u64> {
        let all = self.ethernet().len();
        let (headers, segment) = self.cut().unwrap_or((0, all));
        let payload = all - headers;
        let whole = payload / segment;
        let rest = payload % segment;
        let last = (rest > 0).then_some(headers + rest);
        let sizes = std::iter::repeat_n(headers + segment, whole).chain(last);
        sizes.map(|bytes| (bytes as u64).max(SHORTEST_FRAME_BYTES))
    }

    /// Bytes of all headers and of a segment's data, if the interface is to cut it.
    fn cut(&self) -> Option<(usize, usize)> {
        if !self.is_to_be_cut() {
            return None;
        }
        let tcp = usize::from(self.word(6));
        let words = usize::from(self.ethernet().get(tcp + TCP_HEADER_BYTES - 8)? >> 4);
        let headers = tcp + (4 * words).max(TCP_HEADER_BYTES);
        let segment = usize::from(self.word(4));
        (segment > 0 && headers < self.ethernet().len()).then_some((headers, segment))
    }

    /// The TCP segment; `None` of everything else.
    pub fn tcp_segment(&self) -> Option<Segment> {
        let frame = self.ethernet();
        let packet = frame.get(PACKET_AT..)?;
        let number =
            |at: usize| Some(usize::from(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?])));
        // RFC 791, 3.1: length of the header in words, total length, protocol. RFC 8200, 3: length of the payload, next header.
        let (header, length, protocol, addresses) = match *frame.get(ETHER_TYPE_AT..PACKET_AT)?.as_array()? {
            IPV4 => (4 * usize::from(packet.first()? & 0xf), number(2)?, *packet.get(9)?, 12..20),
            IPV6 => (IPV6_HEADER_BYTES, IPV6_HEADER_BYTES + number(4)?, *packet.get(6)?, 8..40),
            _ => return None,
        };
        // RFC 9293, 3.1: ports, the sequence number, and the header's length in words in the upper half of byte 12.
        let tcp = 4 * usize::from(packet.get(header + 12)? >> 4);
        let bytes = length.min(packet.len()).checked_sub(header + tcp)?;
        let mut flow = [0; Flow::BYTES];
        let ends = packet.get(addresses)?.iter().chain(packet.get(header..header + 4)?);
        flow.iter_mut().zip(ends).for_each(|(to, from)| *to = *from);
        let sequence = u32::from_be_bytes(*packet.get(header + 4..header + 8)?.as_array()?);
        (protocol == TCP).then_some(Segment { flow: Flow(flow), sequence, bytes })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Frame {
        fn tcp_bytes(&self) -> usize {
            self.tcp_segment().map_or(0, |segment| segment.bytes)
        }
    }

    /// A TCP segment of that many bytes of data (Ethernet 14, IPv4 20, TCP 32 bytes of headers) to be cut into pieces.
    fn segment(data: usize, piece: u16) -> Frame {
        let mut bytes = vec![0; HEADER_BYTES + 66 + data];
        bytes[0] = 1;
        bytes[1] = 1;
        bytes[4..6].copy_from_slice(&piece.to_le_bytes());
        bytes[6..8].copy_from_slice(&34u16.to_le_bytes());
        bytes[HEADER_BYTES + 34 + 12] = 8 << 4;
        Frame::sent(bytes).unwrap()
    }

    #[test]
    fn a_segment_is_cut_into_frames_with_headers_of_their_own() {
        let sizes: Vec<u64> = segment(4000, 1448).on_the_wire().collect();
        assert_eq!(sizes, [1514, 1514, 66 + 4000 - 2 * 1448]);
        assert_eq!(segment(1448, 1448).on_the_wire().collect::<Vec<_>>(), [1514]);
    }

    #[test]
    fn what_is_not_to_be_cut_is_one_frame_of_at_least_the_shortest_length() {
        let frame = Frame::sent(vec![0; HEADER_BYTES + 42]).unwrap();
        assert_eq!(frame.on_the_wire().collect::<Vec<_>>(), [60]);
        assert_eq!(Frame::sent(vec![0; HEADER_BYTES + 13]), None);
    }

    #[test]
    fn the_data_of_a_tcp_segment_is_what_is_behind_its_headers() {
        let packet = |ether_type: [u8; 2], header: &[u8], data: usize| {
            let mut bytes = vec![0; HEADER_BYTES + ETHER_TYPE_AT];
            bytes.extend(ether_type);
            bytes.extend(header);
            // A TCP header of 32 bytes.
            bytes.extend((0..32).map(|at| if at == 12 { 8 << 4 } else { 0 }));
            bytes.extend(vec![0; data]);
            Frame::sent(bytes).unwrap()
        };
        let ipv4 = |length: u16, protocol: u8| {
            let mut header = [0; 20];
            (header[0], header[9]) = (0x45, protocol);
            header[2..4].copy_from_slice(&length.to_be_bytes());
            header
        };
        assert_eq!(packet(IPV4, &ipv4(20 + 32 + 9000, TCP), 9000).tcp_bytes(), 9000);
        // An acknowledgement that is padded has none.
        assert_eq!(packet(IPV4, &ipv4(20 + 32, TCP), 8).tcp_bytes(), 0);
        assert_eq!(packet(IPV4, &ipv4(20 + 32 + 100, 17), 100).tcp_bytes(), 0, "UDP");
        let mut ipv6 = [0; IPV6_HEADER_BYTES];
        (ipv6[0], ipv6[5], ipv6[6]) = (0x60, 32 + 77, TCP);
        assert_eq!(packet(IPV6, &ipv6, 77).tcp_bytes(), 77);
        assert_eq!(packet([0x08, 0x06], &[0; 28], 0).tcp_bytes(), 0, "ARP");
        // A packet that says that it is longer than it is.
        assert_eq!(packet(IPV4, &ipv4(u16::MAX, TCP), 5).tcp_bytes(), 5);
    }

    proptest! {
        #[test]
        fn whatever_a_guest_sends_has_a_time_on_the_wire(bytes in proptest::collection::vec(any::<u8>(), 26..3000)) {
            let mut frame = Frame::sent(bytes).unwrap();
            let data = frame.ethernet().len() as u64;
            let sum: u64 = frame.on_the_wire().sum();
            prop_assert!(sum >= data);
            prop_assert!(frame.tcp_bytes() < frame.ethernet().len());
            frame.complete_checksum();
        }
    }
}
