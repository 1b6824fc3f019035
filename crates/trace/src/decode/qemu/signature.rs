//! What the arguments of QEMU's trace events are called.
//!
//! The simple back end writes values without names or types, so they have to be known: from QEMU's own list
//! (`trace-events-all`, which distributions install beside its firmware), or from the table here, of the events of
//! storage in QEMU 7.2.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use crate::decode::lines::Lines;
use crate::error::TraceError;

/// Events and their arguments; those with a `$` are strings. Where QEMU's own list has one letter for an argument, it is
/// called here as in the text of the event.
const STORAGE: [(&str, &str); 61] = [
    ("bdrv_co_copy_range_from", "src src_offset dst dst_offset bytes read_flags write_flags"),
    ("bdrv_co_copy_range_to", "src src_offset dst dst_offset bytes read_flags write_flags"),
    ("bdrv_co_do_copy_on_readv", "bs offset bytes cluster_offset cluster_bytes"),
    ("bdrv_co_preadv_part", "bs offset bytes flags"),
    ("bdrv_co_pwrite_zeroes", "bs offset bytes flags"),
    ("bdrv_co_pwritev_part", "bs offset bytes flags"),
    ("blk_co_preadv", "blk bs offset bytes flags"),
    ("blk_co_pwritev", "blk bs offset bytes flags"),
    ("file_copy_file_range", "bs src src_off dst dst_off bytes flags ret"),
    ("file_paio_submit", "acb opaque offset count type"),
    ("luring_cleanup_state", "s"),
    ("luring_co_submit", "bs s luringcb fd offset nbytes type"),
    ("luring_do_submit", "s blocked plugged queued inflight"),
    ("luring_do_submit_done", "s ret"),
    ("luring_init_state", "s size"),
    ("luring_io_plug", "s"),
    ("luring_io_unplug", "s blocked plugged queued inflight"),
    ("luring_io_uring_submit", "s ret"),
    ("luring_process_completion", "s luringcb ret"),
    ("luring_resubmit_short_read", "s luringcb nread"),
    ("qcow2_add_task", "co bs pool $action cluster_type host_offset offset bytes qiov qiov_offset"),
    ("qcow2_alloc_clusters_offset", "co offset bytes"),
    ("qcow2_cache_entry_flush", "co is_l2_cache index"),
    ("qcow2_cache_flush", "co is_l2_cache"),
    ("qcow2_cache_get", "co is_l2_cache offset read_from_disk"),
    ("qcow2_cache_get_done", "co is_l2_cache index"),
    ("qcow2_cache_get_read", "co is_l2_cache index"),
    ("qcow2_cache_get_replace_entry", "co is_l2_cache index"),
    ("qcow2_cluster_alloc_phys", "co"),
    ("qcow2_cluster_link_l2", "co nb_clusters"),
    ("qcow2_do_alloc_clusters_offset", "co guest_offset host_offset nb_clusters"),
    ("qcow2_handle_alloc", "co guest_offset host_offset bytes"),
    ("qcow2_handle_copied", "co guest_offset host_offset bytes"),
    ("qcow2_l2_allocate", "bs l1_index"),
    ("qcow2_l2_allocate_done", "bs l1_index ret"),
    ("qcow2_l2_allocate_get_empty", "bs l1_index"),
    ("qcow2_l2_allocate_write_l1", "bs l1_index"),
    ("qcow2_l2_allocate_write_l2", "bs l1_index"),
    ("qcow2_process_discards_failed_region", "offset bytes ret"),
    ("qcow2_pwrite_zeroes", "co offset bytes"),
    ("qcow2_pwrite_zeroes_start_req", "co offset bytes"),
    ("qcow2_skip_cow", "co offset nb_clusters"),
    ("qcow2_writev_data", "co offset"),
    ("qcow2_writev_done_part", "co cur_bytes"),
    ("qcow2_writev_done_req", "co ret"),
    ("qcow2_writev_start_part", "co"),
    ("qcow2_writev_start_req", "co offset bytes"),
    ("scsi_disk_dma_command_READ", "lba len"),
    ("scsi_disk_dma_command_WRITE", "$cmd lba len"),
    ("scsi_disk_new_request", "lun tag $line"),
    ("scsi_disk_read_complete", "tag size"),
    ("scsi_disk_read_data_count", "sector_count"),
    ("scsi_disk_write_complete_noio", "tag size"),
    ("thread_pool_cancel", "req opaque"),
    ("thread_pool_complete", "pool req opaque ret"),
    ("thread_pool_submit", "pool req opaque"),
    ("virtio_blk_handle_read", "vdev req sector nsectors"),
    ("virtio_blk_handle_write", "vdev req sector nsectors"),
    ("virtio_blk_req_complete", "vdev req status"),
    ("virtio_blk_rw_complete", "vdev req ret"),
    ("virtio_blk_submit_multireq", "vdev mrb start num_reqs offset size is_write"),
];

/// Events of a list that are kept; QEMU has 6,000.
const MOST_EVENTS: usize = 1 << 16;

/// An argument of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub name: Arc<str>,
    /// A string; else a number.
    pub is_text: bool,
}

/// The arguments of an event, in their order.
pub(super) type Signature = Arc<[Parameter]>;

/// The arguments of many events by the events' names.
#[derive(Clone, Debug)]
pub struct Signatures {
    by_event: HashMap<String, Signature>,
}

impl Signatures {
    /// Those of the events of storage in QEMU 7.2.
    pub fn of_storage() -> Self {
        let signature = |arguments: &str| -> Signature {
            let parameter = |word: &str| match word.strip_prefix('$') {
                Some(name) => Parameter { name: name.into(), is_text: true },
                None => Parameter { name: word.into(), is_text: false },
            };
            arguments.split_whitespace().map(parameter).collect()
        };
        let by_event =
            STORAGE.iter().map(|(event, arguments)| ((*event).to_owned(), signature(arguments))).collect();
        Self { by_event }
    }

    /// Reads QEMU's own list. The events of storage keep their names of arguments where their types are the same.
    ///
    /// # Errors
    /// The file cannot be read or has no event.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::io("open the list of trace events", path))?;
        let mut lines = Lines::new(BufReader::new(file), path);
        let mut known = Self::of_storage();
        let mut found = 0;
        while lines.advance()? && found < MOST_EVENTS {
            let Some((event, signature)) = parse(&lines.text()) else { continue };
            found += 1;
            let same_types =
                |own: &Signature| own.iter().map(|p| p.is_text).eq(signature.iter().map(|p| p.is_text));
            if !known.by_event.get(&event).is_some_and(same_types) {
                known.by_event.insert(event, signature);
            }
        }
        if found == 0 {
            return Err(lines.error("it contains no trace events; give QEMU's trace-events-all"));
        }
        Ok(known)
    }

    pub(super) fn get(&self, event: &str) -> Option<&Signature> {
        self.by_event.get(event)
    }
}

/// Reads a line such as `disable file_paio_submit(void *acb, int64_t offset, const char *text) "format"`.
fn parse(line: &str) -> Option<(String, Signature)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (head, rest) = line.split_once('(')?;
    let (arguments, _) = rest.split_once(')')?;
    let event = head.split_whitespace().next_back()?;
    let parameter = |text: &str| {
        let name = text.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        let is_text = text.contains('*') && text.split(|c: char| !c.is_alphanumeric()).any(|w| w == "char");
        (!name.is_empty()).then(|| Parameter { name: name.into(), is_text })
    };
    let signature = match arguments.trim() {
        "" | "void" => Some([].into()),
        list => list.split(',').map(parameter).collect::<Option<Signature>>(),
    };
    Some((event.to_owned(), signature?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(signature: &Signature) -> Vec<(&str, bool)> {
        signature.iter().map(|p| (&*p.name, p.is_text)).collect()
    }

    #[test]
    fn lines_of_qemus_list_are_read() {
        let (event, signature) =
            parse("disable x_y(void *pool, const char *why, uint64_t n, bool on) \"pool %p (%s)\"").unwrap();
        assert_eq!(event, "x_y");
        assert_eq!(names(&signature), [("pool", false), ("why", true), ("n", false), ("on", false)]);
        assert_eq!(names(&parse("idle(void) \"\"").unwrap().1), []);
        assert_eq!(parse("# a comment (of sorts)"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("broken(int) x").map(|(_, s)| names(&s).len()), Some(1));
        assert_eq!(parse("broken(int *) x"), None);
    }

    #[test]
    fn the_table_is_in_order_and_agrees_with_the_installed_list() {
        assert!(STORAGE.is_sorted_by(|a, b| a.0 < b.0));
        let installed = Path::new("/usr/share/qemu/trace-events-all");
        let Ok(list) = std::fs::read_to_string(installed) else {
            eprintln!("skipped: {} is not installed", installed.display());
            return;
        };
        let known = Signatures::of_storage();
        for (event, signature) in list.lines().filter_map(parse) {
            let Some(own) = known.get(&event) else { continue };
            let types = |s: &Signature| s.iter().map(|p| p.is_text).collect::<Vec<_>>();
            assert_eq!(types(own), types(&signature), "{event}");
            for (own, theirs) in own.iter().zip(signature.iter()).filter(|(_, theirs)| theirs.name.len() > 2)
            {
                let renamed = (&*own.name, &*theirs.name) == ("luringcb", "aiocb");
                assert!(own.name == theirs.name || renamed, "{event}: {} is {}", own.name, theirs.name);
            }
        }
        let all = Signatures::read(installed).unwrap();
        assert_eq!(names(all.get("qcow2_cache_get").unwrap())[1].0, "is_l2_cache");
        assert!(all.by_event.len() > 1000);
    }
}
