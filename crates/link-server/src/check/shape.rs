//! Frames of which it is known how long they take, from the standards and not from the model.

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
/// `VIRTIO_NET_HDR_GSO_TCPV4` (virtio 1.2, 5.1.6).
const GSO_TCPV4: u8 = 1;

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
        self.pieces().map(|bytes| 8 * bytes.max(SHORTEST) as u64 + AROUND_BITS).sum()
    }

    /// The frame with that number, with the header of the queue.
    pub fn frame(self, number: u64) -> Vec<u8> {
        let mut frame = PLAIN.to_vec();
        if let Self::Segment { mtu } = self {
            let [low, high] = u16::try_from(segment_bytes(mtu)).unwrap_or(u16::MAX).to_le_bytes();
            (frame[1], frame[4], frame[5]) = (GSO_TCPV4, low, high);
            frame[6] = (ETHERNET_BYTES + IP_BYTES) as u8;
        }
        frame.resize(HEADER_BYTES + HEADERS.min(self.bytes()), 0);
        // The TCP header's length, in words, in the upper half of a byte.
        if frame.len() == HEADER_BYTES + HEADERS {
            frame[HEADER_BYTES + ETHERNET_BYTES + IP_BYTES + 12] = (TCP_BYTES as u8 / 4) << 4;
        }
        // In the place of addresses.
        frame[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&number.to_le_bytes());
        frame.extend((frame.len()..HEADER_BYTES + self.bytes()).map(|at| (at as u64 ^ number) as u8));
        frame
    }

    /// Whether a frame that arrived is the one with that number. The link writes the number of buffers into it.
    pub fn is(self, arrived: &[u8], number: u64) -> bool {
        let sent = self.frame(number);
        sent.len() == arrived.len() && sent[HEADER_BYTES..] == arrived[HEADER_BYTES..]
    }
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
            assert!(shape.is(&frame, 300) && !shape.is(&frame, 301));
            *frame.last_mut().unwrap() ^= 1;
            assert!(!shape.is(&frame, 300));
        }
    }
}
