//! A TCP segment in a frame: where its headers are, and what they are in the frames into which an interface cuts it.

use crate::checksum;

/// Where the type of an Ethernet frame is, and the packet behind it (IEEE 802.3, 3.1.1).
const ETHER_TYPE_AT: usize = 12;
const ETHER_TYPE_BYTES: usize = 2;
/// Types that are a tag of 4 bytes before the type proper, at most two (IEEE 802.1Q, 9.6).
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const TAG_BYTES: usize = 4;
const MOST_TAGS: usize = 2;
/// Types of packets (IEEE 802 numbers, <https://www.iana.org/assignments/ieee-802-numbers>).
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// TCP's number in both versions of IP (RFC 9293, 3.1; <https://www.iana.org/assignments/protocol-numbers>).
const TCP: u8 = 6;
/// An IPv6 header without extensions (RFC 8200, 3).
const IPV6_HEADER_BYTES: usize = 40;
/// Smallest headers of IPv4 and TCP, in bytes.
const IPV4_HEADER_BYTES: usize = 20;
const TCP_HEADER_BYTES: usize = 20;
/// Flags of TCP (RFC 9293, 3.1; RFC 3168, 6.1).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

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

/// What of a segment is in a part of it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Bytes of the segment's data before it.
    pub offset: u32,
    /// Frames of the segment before it.
    pub number: u16,
    /// None is before it.
    pub is_first: bool,
    /// None is behind it.
    pub is_last: bool,
}

/// Where the headers of a segment are in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    version: IpVersion,
    /// Where the packet begins.
    ip: usize,
    /// Where the header of TCP begins.
    tcp: usize,
    /// Where it ends: the data follow.
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpVersion {
    V4,
    V6,
}

impl Headers {
    /// Those of a frame; `None` if it is no TCP over IPv4 or over IPv6 without extensions.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let ether_type = |at: usize| Some(*frame.get(at..at + ETHER_TYPE_BYTES)?.as_array()?);
        let tags = (0..MOST_TAGS).map(|tag| ETHER_TYPE_AT + tag * TAG_BYTES);
        let tags = tags.take_while(|at| ether_type(*at).is_some_and(|found| TAGS.contains(&found))).count();
        let type_at = ETHER_TYPE_AT + tags * TAG_BYTES;
        let ip = type_at + ETHER_TYPE_BYTES;
        let packet = frame.get(ip..)?;
        // RFC 791, 3.1: length of the header in words, protocol. RFC 8200, 3: next header.
        let (version, header, protocol) = match ether_type(type_at)? {
            IPV4 => (IpVersion::V4, 4 * usize::from(packet.first()? & 0xf), *packet.get(9)?),
            IPV6 => (IpVersion::V6, IPV6_HEADER_BYTES, *packet.get(6)?),
            _ => return None,
        };
        let is_long_enough = version == IpVersion::V6 || header >= IPV4_HEADER_BYTES;
        let tcp = ip + header;
        // RFC 9293, 3.1: the header's length in words is in the upper half of byte 12.
        let words = usize::from(frame.get(tcp + TCP_HEADER_BYTES - 8)? >> 4);
        let end = tcp + 4 * words;
        let is_there = 4 * words >= TCP_HEADER_BYTES && end <= frame.len();
        (protocol == TCP && is_long_enough && is_there).then_some(Self { version, ip, tcp, end })
    }

    /// Where they end.
    pub const fn end(self) -> usize {
        self.end
    }

    /// The segment of the frame, of which these are the headers; `None` if its packet says that it ends within them.
    pub fn segment(self, frame: &[u8]) -> Option<Segment> {
        // RFC 791, 3.1: total length. RFC 8200, 3: length of the payload.
        let length = match self.version {
            IpVersion::V4 => usize::from(word(frame, self.ip + 2)),
            IpVersion::V6 => IPV6_HEADER_BYTES + usize::from(word(frame, self.ip + 4)),
        };
        let bytes = length.min(frame.len() - self.ip).checked_sub(self.end - self.ip)?;
        let mut flow = [0; Flow::BYTES];
        // RFC 9293, 3.1: ports, and the sequence number.
        let ends = self.addresses(frame).iter().chain(&frame[self.tcp..self.tcp + 4]);
        flow.iter_mut().zip(ends).for_each(|(to, from)| *to = *from);
        let sequence = u32::from_be_bytes(*frame.get(self.tcp + 4..self.tcp + 8)?.as_array()?);
        Some(Segment { flow: Flow(flow), sequence, bytes })
    }

    /// Makes the headers of a whole segment, which are in front of a part of its data, those of the part. `is_left`: the checksum of TCP is left to
    /// who takes the frame, so that only the sum of the pseudo header is in its place.
    pub fn rewrite(self, frame: &mut [u8], place: Place, is_left: bool) {
        let length = u16::try_from(frame.len() - self.ip).unwrap_or(u16::MAX);
        match self.version {
            IpVersion::V4 => {
                set_word(frame, self.ip + 2, length);
                let identification = word(frame, self.ip + 4).wrapping_add(place.number);
                set_word(frame, self.ip + 4, identification);
                set_word(frame, self.ip + 10, 0);
                checksum::complete(&mut frame[..self.tcp], self.ip, 10);
            }
            IpVersion::V6 => set_word(frame, self.ip + 4, length - IPV6_HEADER_BYTES as u16),
        }
        let sequence = u32::from(word(frame, self.tcp + 4)) << 16 | u32::from(word(frame, self.tcp + 6));
        let sequence = sequence.wrapping_add(place.offset);
        frame[self.tcp + 4..self.tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        let flags = &mut frame[self.tcp + 13];
        *flags &= if place.is_first { u8::MAX } else { !CWR };
        *flags &= if place.is_last { u8::MAX } else { !(FIN | PSH) };
        let sum = self.pseudo_header_sum(frame);
        set_word(frame, self.tcp + 16, sum);
        if !is_left {
            checksum::complete(frame, self.tcp, 16);
        }
    }

    /// The ones' complement sum of what TCP's checksum covers besides the segment: addresses, protocol and length (RFC 9293, 3.1; RFC 8200, 8.1).
    fn pseudo_header_sum(self, frame: &[u8]) -> u16 {
        let length = u16::try_from(frame.len() - self.tcp).unwrap_or(u16::MAX);
        let [high, low] = length.to_be_bytes();
        checksum::sum(&[self.addresses(frame), &[0, TCP, high, low]].concat())
    }

    fn addresses(self, frame: &[u8]) -> &[u8] {
        match self.version {
            IpVersion::V4 => &frame[self.ip + 12..self.ip + 20],
            IpVersion::V6 => &frame[self.ip + 8..self.ip + 40],
        }
    }
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn set_word(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
