use nestor_layout::Extent;
use nestor_stack::MachineLabel;
use nestor_trace::RequestHeader;
use proptest::prelude::*;

use super::*;
use crate::input::CacheBetween;
use crate::{ExtentMap, MappedExtent, played};

const BLOCK: u64 = 4096;
/// Where the image begins on the server's disk.
const IMAGE_AT: u64 = 1 << 30;

/// A file system in an image of 64 blocks: superblock, bitmap, two blocks of inodes, a directory, a journal, a file, and the rest free.
fn layout() -> Layout {
    let parts = [
        (0, 1, Class::Superblock),
        (1, 1, Class::AllocationMap),
        (2, 2, Class::Inode),
        (4, 1, Class::Directory),
        (5, 3, Class::Journal),
        (8, 40, Class::FileData),
    ];
    let extent = |(start, blocks, class)| Extent {
        start: start * BLOCK,
        bytes: blocks * BLOCK,
        class,
        inode: None,
        file_offset: None,
    };
    Layout {
        file_system: "ext2".to_owned(),
        block_bytes: BLOCK,
        total_bytes: 64 * BLOCK,
        extents: parts.into_iter().map(extent).collect(),
        remarks: Vec::new(),
    }
}

/// The image in two pieces, the second before the first.
fn map() -> SpaceMap {
    let extent = |upper: u64, lower: u64, blocks: u64| MappedExtent {
        upper: upper * BLOCK,
        lower: IMAGE_AT + lower * BLOCK,
        bytes: blocks * BLOCK,
    };
    SpaceMap::Extents(ExtentMap::new(vec![extent(0, 100, 16), extent(16, 0, 48)]).unwrap())
}

fn request(id: u64, class: Class, block: u64, blocks: u64, at: u64) -> Request {
    let times = [at, at, at + 10_000];
    Request { id, class, ..played::request(Operation::Write, block * BLOCK, blocks * BLOCK, times) }
}

fn level(layer: &str, machine: MachineLabel, requests: Vec<Request>) -> LevelInput<'static> {
    let header = RequestHeader {
        layer: layer.to_owned(),
        kind: LevelKind::Block(machine).stored(),
        records: requests.len() as u64,
        space_bytes: 1 << 40,
        ..RequestHeader::default()
    };
    LevelInput::new(header, requests)
}

/// What was planted: the guest's request, and where its bytes are on the server.
struct Planted {
    guest: Vec<Request>,
    server: Vec<Request>,
}

impl Planted {
    fn new() -> Self {
        Self { guest: Vec::new(), server: Vec::new() }
    }

    /// A request of the guest for a class, and the server's below it.
    fn add(&mut self, class: Class, block: u64, blocks: u64) {
        let id = self.guest.len() as u64;
        let at = 1_000_000 + id * 100_000;
        self.guest.push(request(id, class, block, blocks, at));
        map().for_each_piece(block * BLOCK, blocks * BLOCK, |lower, bytes| {
            let id = self.server.len() as u64;
            let below = request(id, Class::ImageData, lower / BLOCK, bytes / BLOCK, at + 1_000);
            self.server.push(Request { completed_ns: at + 9_000, ..below });
        });
    }

    /// A request of the server's own, at a block of its disk.
    fn add_of_server(&mut self, block: u64) {
        let at = 1_000_000 + self.guest.len() as u64 * 100_000 - 50_000;
        self.server.push(request(self.server.len() as u64, Class::Journal, block, 1, at));
    }

    fn judged(self) -> Judged {
        let clock = Some(crate::SharedClock::ITSELF);
        let levels = [
            level("ext2", MachineLabel::Guest(1), self.guest).with_shared_clock(clock),
            level("xfs", MachineLabel::Host, self.server)
                .with_map(map())
                .with_cache(CacheBetween::NONE)
                .with_shared_clock(clock),
        ];
        judge_from_outside(&levels, LevelIndex::at(1), layout()).unwrap()
    }
}

fn pairs(judged: &Judged) -> Vec<(Class, Class, u64)> {
    judged.classes.iter().map(|one| (one.truth, one.judged, one.requests)).collect()
}

#[test]
fn what_the_layout_tells_is_judged_right() {
    let mut planted = Planted::new();
    for _ in 0..3 {
        planted.add(Class::Superblock, 0, 1);
        planted.add(Class::Inode, 3, 1);
        planted.add(Class::Directory, 4, 1);
        planted.add(Class::Journal, 5, 2);
        planted.add(Class::FileData, 20, 8);
    }
    let judged = planted.judged();
    assert_eq!((judged.requests, judged.right, judged.without_truth), (15, 15, 0), "{judged:?}");
    assert_eq!(
        (judged.truth_layer.as_str(), judged.layer.as_str(), judged.file_system.as_str()),
        ("ext2", "xfs", "ext2")
    );
    let share = judged.share.unwrap();
    let interval = share.interval.unwrap();
    assert!(share.value == 1.0 && interval.high == 1.0, "{share:?}");
    // Fifteen answers without a mistake do not show that there are none.
    assert!((0.7..0.9).contains(&interval.low), "{share:?}");
}

#[test]
fn what_only_the_guest_knows_is_judged_wrong_and_counted() {
    let mut planted = Planted::new();
    for _ in 0..6 {
        planted.add(Class::FileData, 20, 2);
    }
    // Given back since: free in the layout, metadata by the guest's own mark.
    planted.add(Class::OtherMetadata, 50, 1);
    planted.add(Class::OtherMetadata, 51, 1);
    let judged = planted.judged();
    assert_eq!(
        pairs(&judged),
        [(Class::FileData, Class::FileData, 6), (Class::OtherMetadata, Class::FileData, 2)]
    );
    assert_eq!(judged.share.unwrap().value, 0.75);
    assert_eq!(judged.share_of_bytes, Some(12.0 / 14.0));
    assert_eq!(judged.share_data_or_metadata.unwrap().value, 0.75);
}

#[test]
fn a_wrong_kind_of_metadata_is_still_metadata() {
    let mut planted = Planted::new();
    planted.add(Class::AllocationMap, 2, 1);
    planted.add(Class::Inode, 2, 1);
    let judged = planted.judged();
    assert_eq!(judged.share.unwrap().value, 0.5);
    assert_eq!(judged.share_data_or_metadata.unwrap().value, 1.0);
}

#[test]
fn a_request_over_several_pieces_is_judged_by_most_of_its_bytes() {
    let mut planted = Planted::new();
    // Two blocks of the journal and six of the file, of which the last are in the other piece of the image.
    planted.add(Class::FileData, 6, 16);
    let judged = planted.judged();
    assert_eq!(pairs(&judged), [(Class::FileData, Class::FileData, 2)]);
}

#[test]
fn what_is_not_in_the_image_is_not_judged() {
    let mut planted = Planted::new();
    planted.add(Class::FileData, 20, 1);
    planted.add_of_server(7);
    planted.add(Class::FileData, 21, 1);
    // In the image, but nothing of the guest's asked for it.
    planted.add_of_server(IMAGE_AT / BLOCK + 30);
    planted.add(Class::FileData, 22, 1);
    let judged = planted.judged();
    assert_eq!((judged.requests, judged.outside_image, judged.without_truth), (3, 1, 1), "{judged:?}");
}

#[test]
fn without_a_guest_there_is_no_truth() {
    let levels = [level("xfs", MachineLabel::Host, vec![request(0, Class::Journal, 0, 1, 0)])];
    let error = judge_from_outside(&levels, LevelIndex::TOP, layout()).unwrap_err();
    assert!(matches!(error, CorrelateError::NoGuest), "{error}");
}

#[test]
fn runs_of_like_answers_widen_the_interval() {
    let mixed: Vec<bool> = (0..2_000).map(|at| at % 10 != 0).collect();
    let mut in_runs = mixed.clone();
    in_runs.sort_unstable();
    let width = |answers: &[bool]| {
        let interval = share(answers).unwrap().interval.unwrap();
        interval.high - interval.low
    };
    assert!((width(&mixed) - 0.0263).abs() < 0.001, "{}", width(&mixed));
    assert!(width(&in_runs) > 5.0 * width(&mixed), "{}", width(&in_runs));
    assert_eq!(share(&[]), None);
    assert_eq!(share(&[true]).unwrap().interval, None);
}

proptest! {
    #[test]
    fn an_interval_holds_its_share_and_stays_within_all(answers in prop::collection::vec(any::<bool>(), 2..200)) {
        let share = share(&answers).unwrap();
        let interval = share.interval.unwrap();
        prop_assert!(0.0 <= interval.low && interval.low <= share.value + 1e-12);
        prop_assert!(share.value <= interval.high + 1e-12 && interval.high <= 1.0);
    }
}
