//! An end of the link as the vhost-user library sees it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use nestor_link::PortIndex;
use nestor_serving::{Connected, Memory, Vring};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::VhostUserBackend;
use vhost_user_backend::bitmap::BitmapMmapRegion;
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_net::{
    VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
    VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_F_MRG_RXBUF,
};
use virtio_bindings::bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use crate::port::{QUEUE_SIZE, Queue};
use crate::shared::Shared;

/// One for each direction.
const QUEUES: usize = 2;
/// The number under which the library's event loop knows the end's alarm: those up to that of queues are its own.
const ALARM_EVENT: u64 = QUEUES as u64 + 1;

/// An end for one connection.
pub struct Backend {
    shared: Arc<Shared>,
    at: PortIndex,
    exit: (EventConsumer, EventNotifier),
}

impl Backend {
    /// An end to be connected.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn new(shared: Arc<Shared>, at: PortIndex) -> io::Result<Self> {
        let exit = new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC)?;
        Ok(Self { shared, at, exit })
    }
}

impl Connected for Backend {
    fn alarm(&self) -> Option<(RawFd, u64)> {
        Some((self.shared.with_port(self.at, |port| port.alarm.as_raw_fd()), ALARM_EVENT))
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = BitmapMmapRegion;
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let bits = [
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_INDIRECT_DESC,
            VIRTIO_RING_F_EVENT_IDX,
            VIRTIO_NET_F_CSUM,
            VIRTIO_NET_F_GUEST_CSUM,
            VIRTIO_NET_F_HOST_TSO4,
            VIRTIO_NET_F_HOST_TSO6,
            VIRTIO_NET_F_GUEST_TSO4,
            VIRTIO_NET_F_GUEST_TSO6,
            VIRTIO_NET_F_MRG_RXBUF,
        ];
        let of_vhost = VhostUserVirtioFeatures::PROTOCOL_FEATURES | VhostUserVirtioFeatures::LOG_ALL;
        bits.into_iter().fold(of_vhost.bits(), |all, bit| all | 1 << bit)
    }

    fn acked_features(&self, features: u64) {
        self.shared.with_port(self.at, |port| port.set_features(features));
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::LOG_SHMFD
    }

    fn set_event_idx(&self, _enabled: bool) {}

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        self.shared.with_port(self.at, |port| port.set_memory(memory));
        Ok(())
    }

    fn exit_event(&self, _thread_index: usize) -> Option<(EventConsumer, EventNotifier)> {
        Some((self.exit.0.try_clone().ok()?, self.exit.1.try_clone().ok()?))
    }

    fn handle_event(
        &self,
        event: u16,
        _events: EventSet,
        vrings: &[Vring],
        _thread_id: usize,
    ) -> io::Result<()> {
        self.shared.with_port(self.at, |port| port.guest.set_vrings(vrings));
        // In virtual time, the message with the time carries the notification too.
        if !self.shared.is_told() {
            self.shared.run(self.at, Queue::at(event.into()));
        }
        Ok(())
    }
}
