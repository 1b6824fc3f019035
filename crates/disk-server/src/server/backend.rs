//! The disk as the vhost-user library sees it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use nestor_serving::{Connected, Memory, Vring};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::VhostUserBackend;
use vhost_user_backend::bitmap::BitmapMmapRegion;
use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH,
    VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use super::manage::Shared;
use crate::priority::Priority;
use nestor_disk::model::SECTOR_BYTES;

/// Queues that the guest may use.
pub const MOST_QUEUES: u16 = 8;
/// The number under which the library's event loop knows the disk's alarm: those up to that of queues are its own.
const ALARM_EVENT: u64 = MOST_QUEUES as u64 + 1;
/// Descriptors in a queue at most.
const QUEUE_SIZE: usize = 1024;
/// Pieces of data in a request at most: QEMU's queues have 128 descriptors, two of which are header and status.
const MOST_SEGMENTS: u32 = 126;
/// Largest discard: 1 GiB, as the data file takes it in one call.
const MOST_DISCARD_SECTORS: u32 = 1 << 21;
/// Largest write-zeroes: 32 MiB, which a modelled disk writes in a fraction of a second.
const MOST_ZEROES_SECTORS: u32 = 1 << 16;
/// `struct virtio_blk_config` up to what write-zeroes needs (virtio 1.2, 5.2.4).
const CONFIG_BYTES: usize = 60;
/// Offset of the write cache's switch in it.
const CONFIG_WCE_AT: usize = 32;

/// The disk for one connection.
pub struct Backend {
    shared: Arc<Shared>,
    exit: (EventConsumer, EventNotifier),
    /// What the serving thread was last scheduled as.
    priority: Mutex<Option<Priority>>,
}

impl Backend {
    /// A disk to be connected.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let exit = new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC)?;
        Ok(Self { shared, exit, priority: Mutex::new(None) })
    }

    fn config(&self) -> [u8; CONFIG_BYTES] {
        let core = self.shared.manage();
        let mut config = [0; CONFIG_BYTES];
        let mut put = |at: usize, field: &[u8]| config[at..at + field.len()].copy_from_slice(field);
        put(0, &core.sectors().to_le_bytes());
        put(12, &MOST_SEGMENTS.to_le_bytes());
        put(20, &(SECTOR_BYTES as u32).to_le_bytes());
        put(CONFIG_WCE_AT, &[u8::from(core.write_cache())]);
        put(34, &MOST_QUEUES.to_le_bytes());
        put(36, &MOST_DISCARD_SECTORS.to_le_bytes());
        put(40, &1u32.to_le_bytes());
        put(44, &1u32.to_le_bytes());
        put(48, &MOST_ZEROES_SECTORS.to_le_bytes());
        put(52, &1u32.to_le_bytes());
        put(56, &[1]);
        config
    }
}

impl Connected for Backend {
    fn alarm(&self) -> Option<(RawFd, u64)> {
        Some((self.shared.manage().alarm().as_raw_fd(), ALARM_EVENT))
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = BitmapMmapRegion;
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        usize::from(MOST_QUEUES)
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let bits = [
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_INDIRECT_DESC,
            VIRTIO_RING_F_EVENT_IDX,
            VIRTIO_BLK_F_SEG_MAX,
            VIRTIO_BLK_F_BLK_SIZE,
            VIRTIO_BLK_F_FLUSH,
            VIRTIO_BLK_F_CONFIG_WCE,
            VIRTIO_BLK_F_MQ,
            VIRTIO_BLK_F_DISCARD,
            VIRTIO_BLK_F_WRITE_ZEROES,
        ];
        let read_only = self.shared.manage().is_read_only().then_some(VIRTIO_BLK_F_RO);
        let bits = bits.into_iter().chain(read_only);
        let of_vhost = VhostUserVirtioFeatures::PROTOCOL_FEATURES | VhostUserVirtioFeatures::LOG_ALL;
        bits.fold(of_vhost.bits(), |all, bit| all | 1 << bit)
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::LOG_SHMFD
    }

    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let (config, offset) = (self.config(), offset as usize);
        // Fields that this disk does not have are zero.
        (offset..offset.saturating_add(size as usize))
            .map(|at| config.get(at).copied().unwrap_or(0))
            .collect()
    }

    fn set_config(&self, offset: u32, bytes: &[u8]) -> io::Result<()> {
        // The write cache's switch is the only field that a guest may write (virtio 1.2, 5.2.5).
        let at = (CONFIG_WCE_AT).checked_sub(offset as usize);
        match at.and_then(|at| bytes.get(at)) {
            Some(on) => {
                self.shared.manage().set_write_cache(*on != 0);
                Ok(())
            }
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        self.shared.manage().guest.memory = Some(memory);
        self.shared.note_connected();
        Ok(())
    }

    fn exit_event(&self, _thread_index: usize) -> Option<(EventConsumer, EventNotifier)> {
        Some((self.exit.0.try_clone().ok()?, self.exit.1.try_clone().ok()?))
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        self.shared.manage().finish_queue(queue as usize);
        Ok(())
    }

    fn handle_event(
        &self,
        event: u16,
        _events: EventSet,
        vrings: &[Vring],
        _thread_id: usize,
    ) -> io::Result<()> {
        let mut core = self.shared.serve();
        core.guest.set_vrings(vrings);
        if core.clock.is_told() {
            // The message with the time carries the notification too, and requests are taken then.
            drop(core);
            self.shared.note_connected();
            return Ok(());
        }
        if u64::from(event) == ALARM_EVENT {
            core.alarm().acknowledge();
        }
        if let Ok(mut priority) = self.priority.lock() {
            *priority = core.prioritise(*priority);
        }
        core.run();
        Ok(())
    }
}
