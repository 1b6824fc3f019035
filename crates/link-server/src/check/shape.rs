//! Frames of which it is known how long they take, from the standards and not from the model.

use std::ops::Range;

use crate::driver::PLAIN;
use crate::frame::HEADER_BYTES;

/// Ethernet's header: two addresses and a type (IEEE 802.3, 3.1.1).
const ETHERNET_BYTES: usize = 14;
/// An IPv4 header without options (RFC 791, 3.1).
const IP_BYTES: usize = 20;
/// A TCP header with time stamps (RFC 9293, 3.1; RFC 7323, 3.2): 20 bytes, 10 of the option and 2 of padding.
const TCP_BYTES: usize = 32;
/// All headers of a segment.
const HEADERS: usize = ETHERNET_BYTES + IP_BYTES + TCP_BYTES;
/// The shortest frame without its check sequence: 64 bytes with it (IEEE 802.3, 4.4.2, `minFrameSize`).
const SHORTEST: usize = 60;
/// The longest IPv4 packet (RFC 791, 3.1, total length).
const LONGEST_PACKET: usize = 65_535;
/// `VIRTIO_NET_HDR_GSO_TCPV4` and `VIRTIO_NET_HDR_F_NEEDS_CSUM` (virtio 1.2, 5.1.6).
const GSO_TCPV4: u8 = 1;
const NEEDS_CSUM: u8 = 1;
/// Where the checksum is in a TCP header, and TCP's number (RFC 9293, 3.1).
const CHECKSUM_AT: u8 = 16;
const TCP: u8 = 6;
/// Where the sequence number is in a frame.
const SEQUENCE_AT: usize = HEADER_BYTES + ETHERNET_BYTES + IP_BYTES + 4;
/// Both addresses of all segments.
const ADDRESSES: [u8; 8] = [198, 18, 0, 1, 198, 18, 0, 2];

/// What of a frame is on the wire besides its bytes, in bits: preamble and start of frame (8 bytes; IEEE 802.3, 3.1.1), check sequence (4
/// bytes; 3.2.9) and the gap before the next (96 bits; 4.4.2, `interPacketGap`).
const AROUND_BITS: u64 = 8 * (8 + 4) + 96;

/// A kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As short as there can be.
    Shortest,
    /// As long as the link takes, with so large a packet in it.
    Longest {
        /// The largest packet.
        mtu: u16,
    },
    /// As large a TCP segment as there is, which the interface cuts into frames with such packets.
    Segment {
        /// The largest packet.
        mtu: u16,
    },
}

impl Shape {
    /// Bytes of the frame without its check sequence, as the machine has it.
    pub fn bytes(self) -> usize {
        match self {
            Self::Shortest => SHORTEST,
            Self::Longest { mtu } => ETHERNET_BYTES + usize::from(mtu),
            Self::Segment { .. } => ETHERNET_BYTES + LONGEST_PACKET,
        }
    }

    /// Bytes of the frames as which it is on the wire.
    fn pieces(self) -> impl Iterator<Item = usize> {
        let data = match self {
            Self::Shortest | Self::Longest { .. } => usize::MAX,
            Self::Segment { mtu } => segment_bytes(mtu),
        };
        let mut left = match self {
            Self::Segment { .. } => self.bytes() - HEADERS,
            _ => 0,
        };
        let whole = (left == 0).then(|| self.bytes());
        let cut = std::iter::from_fn(move || {
            let piece = left.min(data);
            left -= piece;
            (piece > 0).then_some(HEADERS + piece)
        });
        whole.into_iter().chain(cut)
    }

    /// Frames as which it is on the wire.
    pub fn frames(self) -> u64 {
        self.pieces().count() as u64
    }

    /// Bits that it takes on the wire.
    pub fn bits(self) -> u64 {
        self.pieces().map(bits_of).sum()
    }

    /// Bits that the first of these frames take.
    pub fn bits_of_first(self, frames: u64) -> u64 {
        let frames = usize::try_from(frames).unwrap_or(usize::MAX);
        self.pieces().take(frames).map(bits_of).sum()
    }

    /// What a machine sends as that number, with the header of the queue.
    pub fn frame(self, number: u64) -> Vec<u8> {
        self.part(number, 0..self.frames())
    }

    /// What is to arrive of it if only these frames of it do.
    fn part(self, number: u64, frames: Range<u64>) -> Vec<u8> {
        let begin = self.headers() + frames.start as usize * self.data();
        let end = (self.headers() + frames.end as usize * self.data()).min(self.bytes());
        let mut frame = PLAIN.to_vec();
        // In the place of addresses.
        frame.extend(number.to_le_bytes());
        if let Self::Segment { mtu } = self {
            if frames.end - frames.start > 1 || self.frames() == 1 {
                let [low, high] = u16::try_from(segment_bytes(mtu)).unwrap_or(u16::MAX).to_le_bytes();
                (frame[1], frame[4], frame[5]) = (GSO_TCPV4, low, high);
            }
            (frame[0], frame[6], frame[8]) = (NEEDS_CSUM, (ETHERNET_BYTES + IP_BYTES) as u8, CHECKSUM_AT);
            let is_last = frames.end == self.frames();
            frame.extend([0, 0, 0, 0, 0x08, 0]);
            frame.extend(segment_headers(end - begin, begin - HEADERS, frames.start, is_last));
        }
        frame.resize(HEADER_BYTES + self.headers(), 0);
        // A byte of data has the low byte of its place in it.
        let bytes: [u8; 256] = std::array::from_fn(|at| at as u8 ^ number as u8);
        let mut at = begin;
        while at < end {
            let next = (at - at % 256 + 256).min(end);
            frame.extend_from_slice(&bytes[at % 256..][..next - at]);
            at = next;
        }
        frame
    }

    /// Bytes in front of the data.
    fn headers(self) -> usize {
        HEADERS.min(self.bytes())
    }

    /// Bytes of data of each frame, the last one perhaps fewer.
    fn data(self) -> usize {
        match self {
            Self::Shortest | Self::Longest { .. } => self.bytes() - self.headers(),
            Self::Segment { mtu } => segment_bytes(mtu),
        }
    }

    /// Which frames a frame is that arrived for that number; `None` if it is not as it was sent.
    pub fn arrived(self, arrived: &[u8], number: u64) -> Option<Range<u64>> {
        let frames = match self {
            Self::Shortest | Self::Longest { .. } => 0..1,
            Self::Segment { mtu } => {
                let offset = u32::from_be_bytes(*arrived.get(SEQUENCE_AT..SEQUENCE_AT + 4)?.as_array()?);
                let data = arrived.len().checked_sub(HEADER_BYTES + HEADERS).filter(|data| *data > 0)?;
                let first = u64::from(offset) / segment_bytes(mtu) as u64;
                first..first + data.div_ceil(segment_bytes(mtu)) as u64
            }
        };
        let sent = (frames.end <= self.frames()).then(|| self.part(number, frames.clone()))?;
        // The link writes the number of buffers between the two.
        let is_same = |range: Range<usize>| sent.get(range.clone()) == arrived.get(range);
        let is_as_sent = sent.len() == arrived.len() && is_same(0..10) && is_same(HEADER_BYTES..sent.len());
        is_as_sent.then_some(frames)
    }
}

/// What a frame of so many bytes takes on the wire.
fn bits_of(bytes: usize) -> u64 {
    8 * bytes.max(SHORTEST) as u64 + AROUND_BITS
}

/// The headers of IPv4 and TCP in front of data (RFC 791, 3.1; RFC 9293, 3.1; RFC 7323, 3.2), where the data begin in their segment, and how
/// many frames of it are before. TCP's checksum is left to who takes it: the sum of the pseudo header is in its place.
fn segment_headers(data: usize, offset: usize, number: u64, is_last: bool) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let mut ip = vec![0x45, 0];
    ip.extend(length(IP_BYTES + TCP_BYTES + data));
    ip.extend((number as u16).to_be_bytes());
    ip.extend([0x40, 0, 64, TCP, 0, 0]);
    ip.extend(ADDRESSES);
    let checksum = !sum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut tcp = vec![0, 1, 0, 2];
    tcp.extend(u32::try_from(offset).unwrap_or(u32::MAX).to_be_bytes());
    // Acknowledged so far, length in words, ACK and at the end of the data PSH, window.
    tcp.extend([0, 0, 0, 0, (TCP_BYTES as u8 / 4) << 4, if is_last { 0x18 } else { 0x10 }, 1, 0]);
    let pseudo_header = [&ADDRESSES[..], &[0, TCP], &length(TCP_BYTES + data)].concat();
    tcp.extend(sum(&pseudo_header).to_be_bytes());
    // No urgent data, two bytes of padding, time stamps.
    tcp.extend([0, 0, 1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
    [ip, tcp].concat()
}

/// The ones' complement sum of an even number of bytes (RFC 1071); not the server's own, which is checked with it.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    words.fold(0, |sum, word| ((sum + word) & 0xffff) + ((sum + word) >> 16)) as u16
}

/// Bytes of data of each frame as which a segment is on the wire.
fn segment_bytes(mtu: u16) -> usize {
    usize::from(mtu) - IP_BYTES - TCP_BYTES
}

/// The number that an arrived frame has; `None` if it is none.
pub fn sequence_of(frame: &[u8]) -> Option<u64> {
    let number = frame.get(HEADER_BYTES..HEADER_BYTES + 8)?;
    Some(u64::from_le_bytes(number.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_the_bits_of_the_standards() {
        // At 10 Mbit/s, 14 880 frames of 64 bytes or 812 of 1518 pass in a second (RFC 2544, appendix B).
        assert_eq!(10_000_000 / Shape::Shortest.bits(), 14_880);
        assert_eq!(10_000_000 / Shape::Longest { mtu: 1500 }.bits(), 812);
        let segment = Shape::Segment { mtu: 1500 };
        // 65 483 bytes of data: 45 frames with 1448 bytes and one with 323.
        assert_eq!(segment.frames(), 46);
        assert_eq!(segment.bits(), 45 * 12_304 + 8 * (66 + 323 + 24));
        assert_eq!(Shape::Segment { mtu: u16::MAX }.frames(), 1);
    }

    #[test]
    fn a_frame_that_arrives_with_a_wrong_byte_is_another() {
        for shape in [Shape::Shortest, Shape::Longest { mtu: 576 }, Shape::Segment { mtu: 1500 }] {
            let mut frame = shape.frame(300);
            assert_eq!((frame.len(), sequence_of(&frame)), (HEADER_BYTES + shape.bytes(), Some(300)));
            frame[10] = 17;
            assert_eq!(
                (shape.arrived(&frame, 300), shape.arrived(&frame, 301)),
                (Some(0..shape.frames()), None)
            );
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(shape.arrived(&frame, 300), None);
        }
    }

    #[test]
    fn of_a_segment_parts_may_arrive_with_headers_of_their_own() {
        let segment = Shape::Segment { mtu: 1500 };
        for frames in [0..1, 3..4, 5..20, 45..46, 0..45] {
            let part = segment.part(9, frames.clone());
            assert_eq!(segment.arrived(&part, 9), Some(frames.clone()));
            assert_eq!(part[1] == GSO_TCPV4, frames.end - frames.start > 1);
            assert_eq!(sum(&part[HEADER_BYTES + ETHERNET_BYTES..][..IP_BYTES]), 0xffff);
            let shorter = &part[..part.len() - 1];
            assert_eq!(segment.arrived(shorter, 9), None);
        }
        let bits = [0, 1, 46].map(|frames| segment.bits_of_first(frames));
        assert_eq!(bits, [0, 12_304, segment.bits()]);
    }
}
