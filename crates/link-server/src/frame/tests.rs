use proptest::prelude::*;

use super::*;
use crate::played_guest::TcpSegment;

fn any_sent() -> impl Strategy<Value = TcpSegment> {
    let ip = (any::<bool>(), any::<bool>(), 0u8..=10, any::<u16>());
    let tcp = (0u8..=10, any::<u32>(), any::<u8>());
    (ip, tcp, 1usize..20_000, 1u16..9000).prop_map(|(ip, tcp, data, piece)| {
        let (is_ipv6, has_tag, ip_options, identification) = ip;
        let (tcp_options, sequence, flags) = tcp;
        TcpSegment { is_ipv6, has_tag, ip_options, tcp_options, data, piece, sequence, identification, flags }
    })
}

/// The ones' complement sum of some bytes, which is 0xffff of what has a right checksum in it (RFC 1071).
fn sum(parts: &[&[u8]]) -> u16 {
    let sum = parts.concat().chunks(2).fold(0u32, |sum, word| {
        let word = u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    });
    sum as u16
}

fn tcp_bytes(frame: &Frame) -> usize {
    frame.tcp_segment().map_or(0, |segment| segment.bytes)
}

#[test]
fn a_segment_is_cut_into_frames_with_headers_of_their_own() {
    let sizes = |data| TcpSegment { data, ..TcpSegment::USUAL }.frame().on_the_wire().collect::<Vec<_>>();
    assert_eq!(sizes(4000), [1514, 1514, 66 + 4000 - 2 * 1448]);
    assert_eq!(sizes(1448), [1514]);
}

#[test]
fn what_is_not_to_be_cut_is_one_frame_of_at_least_the_shortest_length() {
    let frame = Frame::sent(vec![0; HEADER_BYTES + 42]).unwrap();
    assert_eq!(frame.on_the_wire().collect::<Vec<_>>(), [60]);
    assert_eq!(Frame::sent(vec![0; HEADER_BYTES + 13]), None);
    // It says that it is to be cut, and is no segment.
    let mut bytes = vec![0; HEADER_BYTES + 5000];
    (bytes[1], bytes[4]) = (1, 100);
    let frame = Frame::sent(bytes).unwrap();
    assert_eq!((frame.on_the_wire().collect::<Vec<_>>(), frame.part(&(0..1))), (vec![5000], frame.clone()));
}

#[test]
fn the_data_of_a_tcp_segment_is_what_is_behind_its_headers() {
    let packet = |ether_type: [u8; 2], header: &[u8], data: usize| {
        let mut bytes = vec![0; HEADER_BYTES + 12];
        bytes.extend(ether_type);
        bytes.extend(header);
        // A TCP header of 32 bytes.
        bytes.extend((0..32).map(|at| if at == 12 { 8 << 4 } else { 0 }));
        bytes.extend(vec![0; data]);
        tcp_bytes(&Frame::sent(bytes).unwrap())
    };
    let ipv4 = |length: u16, protocol: u8| {
        let mut header = [0; 20];
        (header[0], header[9]) = (0x45, protocol);
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header
    };
    const IPV4: [u8; 2] = [0x08, 0x00];
    assert_eq!(packet(IPV4, &ipv4(20 + 32 + 9000, 6), 9000), 9000);
    // An acknowledgement that is padded has none.
    assert_eq!(packet(IPV4, &ipv4(20 + 32, 6), 8), 0);
    assert_eq!(packet(IPV4, &ipv4(20 + 32 + 100, 17), 100), 0, "UDP");
    let mut ipv6 = [0; 40];
    (ipv6[0], ipv6[5], ipv6[6]) = (0x60, 32 + 77, 6);
    assert_eq!(packet([0x86, 0xdd], &ipv6, 77), 77);
    assert_eq!(packet([0x08, 0x06], &[0; 28], 0), 0, "ARP");
    // A packet that says that it is longer than it is.
    assert_eq!(packet(IPV4, &ipv4(u16::MAX, 6), 5), 5);
}

#[test]
fn the_first_part_says_that_congestion_was_heard_of_and_the_last_that_the_data_end() {
    // CWR, ACK, PSH and FIN.
    let mut frame = TcpSegment { flags: 0x99, ..TcpSegment::USUAL }.frame();
    frame.bytes[1] |= 0x80;
    let flags = |frames| {
        let part = frame.part(&frames);
        (part.bytes[1], part.ethernet()[TcpSegment::USUAL.tcp_at() + 13])
    };
    assert_eq!([flags(0..2), flags(1..3), flags(0..3)], [(0x81, 0x90), (1, 0x19), (0x81, 0x99)]);
    assert_eq!([flags(0..1), flags(1..2), flags(2..3)], [(0, 0x90), (0, 0x10), (0, 0x19)]);
}

proptest! {
    #[test]
    fn whatever_a_guest_sends_has_a_time_on_the_wire_and_parts(bytes in proptest::collection::vec(any::<u8>(), 26..3000)) {
        let mut frame = Frame::sent(bytes).unwrap();
        let data = frame.ethernet().len() as u64;
        let sum: u64 = frame.on_the_wire().sum();
        prop_assert!(sum >= data);
        prop_assert!(tcp_bytes(&frame) < frame.ethernet().len());
        prop_assert_eq!(frame.on_the_wire().count(), frame.frames());
        let whole = frame.part(&(0..frame.frames()));
        prop_assert!(whole == frame || frame.frames() == 1 && frame.is_to_be_cut() && !whole.is_to_be_cut());
        frame.complete_checksum();
    }

    #[test]
    fn parts_are_valid_frames_that_have_all_data_of_the_segment_between_them(
        sent in any_sent(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        is_left: bool,
    ) {
        let mut whole = sent.frame();
        if !is_left {
            whole.bytes[0] = 0;
        }
        let frames = whole.frames();
        let sizes: Vec<u64> = whole.on_the_wire().collect();
        prop_assert_eq!(frames, sent.data.div_ceil(usize::from(sent.piece)));
        let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(frames + 1)).chain([0, frames]).collect();
        borders.sort_unstable();
        borders.dedup();
        prop_assume!(frames == 1 || borders.len() > 2);
        for range in borders.windows(2).map(|border| border[0]..border[1]) {
            let mut part = whole.part(&range);
            let begin = range.start * usize::from(sent.piece);
            let data = (sent.data - begin).min(range.len() * usize::from(sent.piece));
            let segment = part.tcp_segment().unwrap();
            prop_assert_eq!((segment.bytes, segment.flow), (data, whole.tcp_segment().unwrap().flow));
            prop_assert_eq!(segment.sequence, sent.sequence.wrapping_add(begin as u32));
            // It takes the same on the wire as these frames of the whole.
            prop_assert_eq!(part.on_the_wire().collect::<Vec<_>>(), &sizes[range.clone()]);
            prop_assert_eq!(part.is_to_be_cut(), range.len() > 1);
            part.complete_checksum();
            let ethernet = part.ethernet();
            prop_assert_eq!(ethernet.len(), sent.headers() + data);
            let is_right = |(at, byte): (usize, &u8)| *byte == TcpSegment::byte(begin + at);
            prop_assert!(ethernet[sent.headers()..].iter().enumerate().all(is_right));
            let (ip, tcp) = (&ethernet[sent.ip_at()..sent.tcp_at()], &ethernet[sent.tcp_at()..]);
            let length = (tcp.len() as u16).to_be_bytes();
            let addresses = if sent.is_ipv6 {
                prop_assert_eq!(&ip[4..6], length);
                &ip[8..40]
            } else {
                prop_assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len() + tcp.len());
                let identification = sent.identification.wrapping_add(range.start as u16);
                prop_assert_eq!(&ip[4..6], identification.to_be_bytes());
                prop_assert_eq!(sum(&[ip]), 0xffff);
                &ip[12..20]
            };
            prop_assert_eq!(sum(&[addresses, &[0, 6], &length, tcp]), 0xffff);
        }
    }
}
