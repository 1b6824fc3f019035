//! The Internet checksum (RFC 1071), where a guest has left it to its interface.

/// Writes the checksum of all bytes from `start` on to `start + offset`, where the sum of the pseudo header already is. Does nothing
/// where that is outside of the frame.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) {
    let Some(covered) = frame.get_mut(start..) else { return };
    let sum = sum(covered);
    if let Some(field) = covered.get_mut(offset..offset + 2) {
        field.copy_from_slice(&(!sum).to_be_bytes());
    }
}

/// The ones' complement sum of all 16-bit words.
pub fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_of_rfc_1071() {
        // RFC 1071, section 3: the words 0001 f203 f4f5 f6f7 add up to ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        let mut frame = [0xff, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0];
        complete(&mut frame, 1, 8);
        assert_eq!(frame[9..], (!0xddf2u16).to_be_bytes());
    }

    #[test]
    fn what_lies_outside_of_the_frame_is_left_alone() {
        let mut frame = [1, 2, 3];
        complete(&mut frame, 9, 0);
        complete(&mut frame, 0, 2);
        assert_eq!(frame, [1, 2, 3]);
    }
}
