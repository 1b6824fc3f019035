//! What the library and its peers, devices and the controller, say to each other.
//!
//! All numbers are 64 bits, little-endian; both ends are on one machine.

use std::arch::asm;

/// Added to the path of a disk's vhost-user socket it is the path of its time socket. A device without a time socket lives in real time.
pub const DISK_TIME_SUFFIX: &str = ".time";

/// Added to the path of a link's vhost-user socket it is the path of its time socket. Besides the time, a machine tells a link until
/// when it has nothing to do by itself, and which of its queues the guest has just notified ([`NO_QUEUE`] for none). The link's answer may
/// wait for the machine at its other end.
pub const LINK_TIME_SUFFIX: &str = ".link-time";

/// No queue was notified: only time has passed.
pub const NO_QUEUE: u64 = u64::MAX;

/// A device's answer when nothing will happen until the next notification.
pub const NO_EVENT: u64 = u64::MAX;

/// Environment variable with the path of the controller's socket, to which the library connects.
pub const CONTROL_VARIABLE: &str = "NESTOR_VTIME_CONTROL";

/// Environment variable with the path of the agent's character device, a socket on which QEMU listens.
pub const AGENT_VARIABLE: &str = "NESTOR_VTIME_AGENT";

/// Environment variable that is there if the machine's state is loaded: it then stands before its first instruction.
pub const LOADED_VARIABLE: &str = "NESTOR_VTIME_LOADED";

/// Environment variable with the instructions that the processor executes in a nanosecond, a whole number. Where there is none, it is
/// one.
pub const SPEED_VARIABLE: &str = "NESTOR_VTIME_INSTRUCTIONS_PER_NS";

/// Environment variable that is there if the processor is to have one TLB, as QEMU gives it, instead of one for the host and one for its
/// guest. What is measured is the same, and slower.
pub const ONE_TLB_VARIABLE: &str = "NESTOR_VTIME_ONE_TLB";

/// Bytes of a message between library and controller.
pub const MESSAGE_BYTES: usize = 8 * WORDS;

/// Numbers in a message.
const WORDS: usize = 8;

/// The instruction with which a program in the machine marks a moment: a `nop` with an address that nothing has.
pub const MARK: &[u8] = b"\x0f\x1f\x80Nest";

/// Executes a [`MARK`].
pub fn mark() {
    // SAFETY: the instruction does nothing, whatever is at the address.
    unsafe { asm!("nop dword ptr [rax + 0x7473654e]", options(nostack, preserves_flags)) };
}

/// Instructions that the processor has executed since QEMU was started, by what it was doing. All guests are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Programs of the emulated machine: the hypervisor, or the application of a stack without guest.
    pub host_user: u64,
    /// The emulated machine's kernel.
    pub host_kernel: u64,
    /// Programs of guests.
    pub guest_user: u64,
    /// Kernels of guests.
    pub guest_kernel: u64,
}

impl Instructions {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.words().into_iter().fold(0, u64::wrapping_add)
    }

    fn words(self) -> [u64; 4] {
        [self.host_user, self.host_kernel, self.guest_user, self.guest_kernel]
    }

    fn of_words([host_user, host_kernel, guest_user, guest_kernel]: [u64; 4]) -> Self {
        Self { host_user, host_kernel, guest_user, guest_kernel }
    }
}

/// Whether this QEMU lets its instructions be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// It does.
    Possible,
    /// It has no plugins, or an interface for them that is not known (newer than QEMU 10.0's).
    NoInterface,
    /// Where its processor has its flags was not found.
    NoFlags,
}

/// What the library found in QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// A bit for each function that it needs and QEMU does not export, in the order of `NEEDED_FUNCTIONS` of `preload/qemu.rs`.
    pub missing_functions: u64,
    /// Places found where QEMU keeps the function that delivers interrupts; it has to be exactly one.
    pub interrupt_slots: u64,
    /// Whether instructions can be counted. A machine lives in virtual time without it.
    pub counting: Counting,
    /// What its clock is made of was found. Without another clock in its place, runs would not repeat, and the processor would not be
    /// as fast as [`SPEED_VARIABLE`] asks.
    pub has_clock: bool,
}

impl Hello {
    /// Whether the machine can live in virtual time.
    pub fn is_usable(&self) -> bool {
        self.missing_functions == 0 && self.has_clock && self.interrupt_slots == 1
    }
}

/// What the library says to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromLibrary {
    /// First of all.
    Hello(Hello),
    /// The agent has written something, and time stands.
    Held {
        /// The virtual time.
        now_ns: u64,
        /// Bytes that the agent has written so far.
        written: u64,
        /// What was executed so far, if that is counted.
        instructions: Option<Instructions>,
    },
    /// A program in the machine has come to a [`MARK`]. Time goes on.
    Marked(Instructions),
    /// QEMU has read more for the agent.
    Given {
        /// Bytes that it has read so far.
        read: u64,
    },
}

/// What the controller answers to [`FromLibrary::Held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromController {
    /// Time goes on as soon as the machine has been given so many bytes for its agent, counted from the beginning.
    Go {
        /// Bytes for the agent.
        sent: u64,
    },
    /// The machine stops before its next instruction, to be kept as it is.
    Stop,
}

const HELLO: u64 = 1;
const HELD: u64 = 2;
const GO: u64 = 3;
const STOP: u64 = 4;
const HELD_COUNTED: u64 = 5;
const MARKED: u64 = 6;
const GIVEN: u64 = 7;

fn encode<const N: usize>(words: [u64; N]) -> [u8; MESSAGE_BYTES] {
    const { assert!(N <= WORDS) };
    let mut bytes = [0; MESSAGE_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8; MESSAGE_BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, place) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*place);
    }
    words
}

impl Counting {
    fn word(self) -> u64 {
        match self {
            Self::Possible => 0,
            Self::NoInterface => 1,
            Self::NoFlags => 2,
        }
    }

    fn of_word(word: u64) -> Option<Self> {
        [Self::Possible, Self::NoInterface, Self::NoFlags]
            .into_iter()
            .find(|counting| counting.word() == word)
    }
}

impl FromLibrary {
    /// As it is sent.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        match *self {
            Self::Hello(hello) => encode([
                HELLO,
                hello.missing_functions,
                hello.interrupt_slots,
                hello.counting.word(),
                u64::from(hello.has_clock),
            ]),
            Self::Held { now_ns, written, instructions: None } => encode([HELD, now_ns, written]),
            Self::Held { now_ns, written, instructions: Some(instructions) } => {
                let [a, b, c, d] = instructions.words();
                encode([HELD_COUNTED, now_ns, written, a, b, c, d])
            }
            Self::Marked(instructions) => {
                let [a, b, c, d] = instructions.words();
                encode([MARKED, a, b, c, d])
            }
            Self::Given { read } => encode([GIVEN, read]),
        }
    }

    /// As it was sent; `None` for what is no such message.
    pub fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        match decode(bytes) {
            [HELLO, missing_functions, interrupt_slots, counting, has_clock @ (0 | 1), 0, 0, 0] => {
                Some(Self::Hello(Hello {
                    missing_functions,
                    interrupt_slots,
                    counting: Counting::of_word(counting)?,
                    has_clock: has_clock == 1,
                }))
            }
            [HELD, now_ns, written, 0, 0, 0, 0, 0] => {
                Some(Self::Held { now_ns, written, instructions: None })
            }
            [HELD_COUNTED, now_ns, written, a, b, c, d, 0] => {
                let instructions = Some(Instructions::of_words([a, b, c, d]));
                Some(Self::Held { now_ns, written, instructions })
            }
            [GIVEN, read, 0, 0, 0, 0, 0, 0] => Some(Self::Given { read }),
            [MARKED, a, b, c, d, 0, 0, 0] => Some(Self::Marked(Instructions::of_words([a, b, c, d]))),
            _ => None,
        }
    }
}

impl FromController {
    /// As it is sent.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        match *self {
            Self::Go { sent } => encode([GO, sent]),
            Self::Stop => encode([STOP]),
        }
    }

    /// As it was sent; `None` for what is no such message.
    pub fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        match decode(bytes) {
            [GO, sent, 0, 0, 0, 0, 0, 0] => Some(Self::Go { sent }),
            [STOP, 0, 0, 0, 0, 0, 0, 0] => Some(Self::Stop),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_that_marks_is_the_one_that_is_looked_for() {
        const MOST_BYTES: usize = 32;
        mark();
        // SAFETY: the code of the function, behind which there is more.
        let code = unsafe { std::slice::from_raw_parts(mark as *const u8, MOST_BYTES) };
        assert!(code.windows(MARK.len()).any(|bytes| bytes == MARK), "{code:x?}");
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let hello = |missing_functions, interrupt_slots, counting, has_clock| {
            FromLibrary::Hello(Hello { missing_functions, interrupt_slots, counting, has_clock })
        };
        let instructions =
            Instructions { host_user: 1, host_kernel: 2, guest_user: 3, guest_kernel: u64::MAX };
        let messages = [
            hello(0, 1, Counting::Possible, true),
            hello(5, 7, Counting::NoInterface, false),
            hello(0, 1, Counting::NoFlags, true),
            FromLibrary::Held { now_ns: 1 << 40, written: 3, instructions: None },
            FromLibrary::Held { now_ns: 1 << 40, written: 3, instructions: Some(instructions) },
            FromLibrary::Marked(instructions),
            FromLibrary::Given { read: 1 << 33 },
        ];
        for message in messages {
            assert_eq!(FromLibrary::decode(&message.encode()), Some(message));
            assert_eq!(FromController::decode(&message.encode()), None);
        }
        for message in [FromController::Go { sent: u64::MAX }, FromController::Stop] {
            assert_eq!(FromController::decode(&message.encode()), Some(message));
            assert_eq!(FromLibrary::decode(&message.encode()), None);
        }
    }
}
