//! What the kernel takes for random.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;

use nestor_stack::Uuid;

/// `RNDADDENTROPY` of `linux/random.h`: `_IOW('R', 0x03, int[2])`.
const RNDADDENTROPY: u64 = 0x4008_5203;
/// `RNDRESEEDCRNG` of the same: `_IO('R', 0x07)`.
const RNDRESEEDCRNG: u64 = 0x5207;

/// Bytes that are mixed in at once.
const BYTES: usize = 64;

/// The kernel's `struct rand_pool_info` with its data.
#[repr(C)]
struct PoolInfo {
    entropy_bits: i32,
    bytes: i32,
    data: [u8; BYTES],
}

/// A UUID that nothing else has.
///
/// # Errors
/// The kernel's generator cannot be read.
pub fn uuid() -> io::Result<Uuid> {
    bytes().map(|bits| Uuid::version_4(u128::from_le_bytes(bits)))
}

/// Bytes that cannot be guessed; after [`mix`], those that the data decides.
///
/// # Errors
/// The kernel's generator cannot be read.
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Mixes `data` into the kernel's random pool and has its generator begin anew from the pool.
///
/// Two kernels that were in the same state give the same numbers afterwards if, and only if, they were given the same data.
///
/// # Errors
/// The kernel does not let us.
pub(super) fn mix(data: [u8; BYTES]) -> io::Result<()> {
    let pool = File::options().write(true).open("/dev/urandom")?;
    let info = PoolInfo { entropy_bits: 8 * BYTES as i32, bytes: BYTES as i32, data };
    // Credited, so that the generator is ready now: only a ready generator can be reseeded.
    // SAFETY: the descriptor is open, and `info` is a whole `rand_pool_info` that lives until the call returns.
    done(unsafe { libc::ioctl(pool.as_raw_fd(), RNDADDENTROPY as _, &raw const info) })?;
    // SAFETY: the descriptor is open; this request takes no argument.
    done(unsafe { libc::ioctl(pool.as_raw_fd(), RNDRESEEDCRNG as _) })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The data as it comes in a request.
pub(super) fn whole(data: &[u8]) -> Option<[u8; BYTES]> {
    data.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_bytes_as_are_credited_are_taken() {
        assert_eq!(whole(&[7; BYTES]), Some([7; BYTES]));
        assert_eq!((whole(&[7; BYTES - 1]), whole(&[])), (None, None));
        assert_eq!(std::mem::size_of::<PoolInfo>(), 2 * 4 + BYTES);
    }
}
