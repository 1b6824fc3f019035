//! Between QEMU and the vhost-user library, which disagree about the order of two messages.
//!
//! QEMU enables the queues of a network interface before it has said which features it uses, and again before it says so when the guest's
//! driver starts (`vhost_net_start`, hw/net/vhost_net.c). The library refuses to enable a queue before the features are known. So the
//! relay keeps what QEMU enables, and says it to the library after each message with features.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use nestor_stop::{StopHandle, Woken};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Of a message: request, flags and the payload's length, each 32 bits (docs/interop/vhost-user.rst).
const HEADER_BYTES: usize = 12;
/// The longest payload that is passed on: that of a memory table is far shorter.
const MOST_PAYLOAD_BYTES: usize = 4096;
/// Descriptors that come with a message at most: a memory table has one for each of 8 regions.
const MOST_DESCRIPTORS: usize = 8;
const SET_FEATURES: u32 = 2;
const SET_VRING_ENABLE: u32 = 18;
/// Version 1, the only one.
const VERSION: u32 = 1;
/// The message is an answer.
const REPLY: u32 = 1 << 2;
/// The sender waits for an answer.
const NEEDS_REPLY: u32 = 1 << 3;

/// Relays one front end after the other to the library behind a socket, until the server ends.
pub fn relay(listener: &UnixListener, behind: &Path, stop: &StopHandle) {
    while stop.wait_with(Some(listener.as_fd()), None) == Woken::Readable {
        let Ok((front, _)) = listener.accept() else { continue };
        let Ok(back) = UnixStream::connect(behind) else { continue };
        // A front end that is gone, or does not speak the protocol, ends its connection and no other.
        let _ = converse(&front, &back, stop);
        for stream in [&front, &back] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn converse(front: &UnixStream, back: &UnixStream, stop: &StopHandle) -> io::Result<()> {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &*back, &mut &*front);
            let _ = front.shutdown(Shutdown::Both);
        });
        let passed = pass(front, back, stop);
        let _ = back.shutdown(Shutdown::Both);
        passed
    })
}

/// Passes on what the front end says, until it has gone.
fn pass(front: &UnixStream, back: &UnixStream, stop: &StopHandle) -> io::Result<()> {
    let mut enabled: BTreeMap<u32, u32> = BTreeMap::new();
    let mut has_features = false;
    while stop.wait_with(Some(front.as_fd()), None) == Woken::Readable {
        let Some((message, descriptors)) = receive(front)? else { return Ok(()) };
        match message.request {
            SET_VRING_ENABLE => {
                let [queue, is_enabled] = message.numbers();
                enabled.insert(queue, is_enabled);
                if has_features {
                    enable(back, queue, is_enabled)?;
                }
                if message.flags & NEEDS_REPLY != 0 {
                    Message::of(SET_VRING_ENABLE, VERSION | REPLY, &[0; 8]).send(front, &[])?;
                }
            }
            SET_FEATURES => {
                message.send(back, &descriptors)?;
                has_features = true;
                enabled.iter().try_for_each(|(queue, is_enabled)| enable(back, *queue, *is_enabled))?;
            }
            _ => message.send(back, &descriptors)?,
        }
    }
    Ok(())
}

/// Enables or disables a queue.
fn enable(back: &UnixStream, queue: u32, is_enabled: u32) -> io::Result<()> {
    let numbers = [queue, is_enabled].map(u32::to_le_bytes);
    Message::of(SET_VRING_ENABLE, VERSION, numbers.as_flattened()).send(back, &[])
}

/// A message of the protocol.
struct Message {
    request: u32,
    flags: u32,
    payload: Vec<u8>,
}

impl Message {
    fn of(request: u32, flags: u32, payload: &[u8]) -> Self {
        Self { request, flags, payload: payload.to_vec() }
    }

    /// The first two numbers of the payload; what is not there is 0.
    fn numbers(&self) -> [u32; 2] {
        let number =
            |at: usize| self.payload.as_chunks().0.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        [number(0), number(1)]
    }

    fn send(&self, to: &UnixStream, descriptors: &[OwnedFd]) -> io::Result<()> {
        let length = u32::try_from(self.payload.len()).map_err(io::Error::other)?;
        let mut bytes = [self.request, self.flags, length].map(u32::to_le_bytes).as_flattened().to_vec();
        bytes.extend_from_slice(&self.payload);
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let sent = sendmsg(to, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        (&mut &*to).write_all(&bytes[sent..])
    }
}

/// The next message with its descriptors; `None` when the front end has gone.
fn receive(front: &UnixStream) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
    let mut header = [0; HEADER_BYTES];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let got = recvmsg(front, &mut [IoSliceMut::new(&mut header)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    (&mut &*front).read_exact(&mut header[got.bytes..])?;
    let [request, flags, length] = {
        let (numbers, _) = header.as_chunks();
        [numbers[0], numbers[1], numbers[2]].map(u32::from_le_bytes)
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= MOST_PAYLOAD_BYTES);
    let mut payload = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    (&mut &*front).read_exact(&mut payload)?;
    Ok(Some((Message { request, flags, payload }, descriptors)))
}

#[cfg(test)]
mod tests;
