//! What the library and its two peers, disks and the controller, say to each other.
//!
//! All numbers are 64 bits, little-endian; both ends are on one machine.

/// Added to the path of a disk's vhost-user socket it is the path of its time socket. Where there is none, the disk
/// lives in real time.
pub const DISK_TIME_SUFFIX: &str = ".time";

/// A disk's answer when nothing will happen until the next notification.
pub const NO_EVENT: u64 = u64::MAX;

/// Environment variable with the path of the controller's socket, to which the library connects.
pub const CONTROL_VARIABLE: &str = "NESTOR_VTIME_CONTROL";

/// Environment variable with the path of the agent's character device, a socket on which QEMU listens.
pub const AGENT_VARIABLE: &str = "NESTOR_VTIME_AGENT";

/// Environment variable that is there if the machine's state is loaded: it then stands before its first instruction.
pub const LOADED_VARIABLE: &str = "NESTOR_VTIME_LOADED";

/// Bytes of a message between library and controller.
pub const MESSAGE_BYTES: usize = 24;

/// What the library found in QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// All functions that it needs are there.
    pub has_functions: bool,
    /// Places found where QEMU keeps the function that delivers interrupts; it has to be exactly one.
    pub interrupt_slots: u64,
}

impl Hello {
    /// Whether the machine can live in virtual time.
    pub fn is_usable(&self) -> bool {
        self.has_functions && self.interrupt_slots == 1
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

fn encode(words: [u64; 3]) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8; MESSAGE_BYTES]) -> [u64; 3] {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    [word(0), word(8), word(16)]
}

impl FromLibrary {
    /// As it is sent.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        encode(match *self {
            Self::Hello(hello) => [HELLO, u64::from(hello.has_functions), hello.interrupt_slots],
            Self::Held { now_ns, written } => [HELD, now_ns, written],
        })
    }

    /// As it was sent; `None` for what is no such message.
    pub fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        match decode(bytes) {
            [HELLO, has_functions @ (0 | 1), interrupt_slots] => {
                Some(Self::Hello(Hello { has_functions: has_functions == 1, interrupt_slots }))
            }
            [HELD, now_ns, written] => Some(Self::Held { now_ns, written }),
            _ => None,
        }
    }
}

impl FromController {
    /// As it is sent.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        encode(match *self {
            Self::Go { sent } => [GO, sent, 0],
            Self::Stop => [STOP, 0, 0],
        })
    }

    /// As it was sent; `None` for what is no such message.
    pub fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        match decode(bytes) {
            [GO, sent, 0] => Some(Self::Go { sent }),
            [STOP, 0, 0] => Some(Self::Stop),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let messages = [
            FromLibrary::Hello(Hello { has_functions: true, interrupt_slots: 1 }),
            FromLibrary::Hello(Hello { has_functions: false, interrupt_slots: 7 }),
            FromLibrary::Held { now_ns: 1 << 40, written: 3 },
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
