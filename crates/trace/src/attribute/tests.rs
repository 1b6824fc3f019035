use nestor_layout::Extent;
use proptest::prelude::*;

use super::*;
use crate::metrics::ClassMetrics;

const BLOCK: u64 = 4096;

/// Blocks: superblock, inode, journal ×2, file 12, free, image 13, of the latter two each.
fn layout() -> Layout {
    let extent = |block: u64, blocks: u64, class, inode| Extent {
        start: block * BLOCK,
        bytes: blocks * BLOCK,
        class,
        inode,
        file_offset: inode.map(|_| 0),
    };
    Layout {
        file_system: "ext4".into(),
        block_bytes: BLOCK,
        total_bytes: 100 * BLOCK,
        extents: vec![
            extent(0, 1, Class::Superblock, None),
            extent(1, 1, Class::Inode, None),
            extent(2, 2, Class::Journal, Some(8)),
            extent(4, 2, Class::FileData, Some(12)),
            extent(8, 2, Class::FileData, Some(13)),
            extent(20, 1, Class::Unknown, None),
        ],
        remarks: vec!["a remark".into()],
    }
}

fn of(attribution: &Attribution, operation: Operation, block: u64, blocks: u64) -> Attributed {
    attribution.class_of(operation, Flags::default(), block * BLOCK, blocks * BLOCK, None)
}

#[test]
fn the_place_says_what_a_request_is_for() {
    let attribution = Attribution::new(layout(), &[13, 99]);
    let expected = [
        (0, Class::Superblock),
        (1, Class::Inode),
        (3, Class::Journal),
        (5, Class::FileData),
        (9, Class::ImageData),
        (20, Class::Unknown),
        (100, Class::Unknown),
        (u64::MAX / BLOCK - 1, Class::Unknown),
    ];
    for (block, class) in expected {
        let attributed = of(&attribution, Operation::Read, block, 1);
        assert_eq!((attributed.class, attributed.deleted_bytes), (class, 0), "block {block}");
        assert_eq!(attributed.parts().collect::<Vec<_>>(), [(class, BLOCK)]);
    }
    assert_eq!((attribution.file_system(), attribution.remarks()), ("ext4", &["a remark".to_owned()][..]));
}

#[test]
fn a_request_over_several_classes_is_what_most_of_it_is() {
    let attribution = Attribution::new(layout(), &[]);
    let attributed = of(&attribution, Operation::Write, 0, 4);
    assert_eq!(attributed.class, Class::Journal);
    let parts: Vec<_> = attributed.parts().collect();
    assert_eq!(parts, [(Class::Journal, 2 * BLOCK), (Class::Inode, BLOCK), (Class::Superblock, BLOCK)]);
}

#[test]
fn free_space_is_decided_by_flags_and_thread() {
    let attribution = Attribution::new(layout(), &[]);
    let none = Flags::default();
    let meta = none.with(Flags::META, true);
    let class_of = |operation, flags, comm| {
        let attributed = attribution.class_of(operation, flags, 6 * BLOCK, BLOCK, comm);
        (attributed.class, attributed.deleted_bytes)
    };
    assert_eq!(class_of(Operation::Write, none, None), (Class::FileData, BLOCK));
    assert_eq!(class_of(Operation::Write, none, Some("kworker/u4:2")), (Class::FileData, BLOCK));
    assert_eq!(class_of(Operation::Write, none, Some("jbd2/vda-8")), (Class::FileData, BLOCK));
    assert_eq!(class_of(Operation::Write, meta, Some("jbd2/vda-8")), (Class::OtherMetadata, 0));
    assert_eq!(class_of(Operation::Write, none, Some("xfsaild/vda")), (Class::OtherMetadata, 0));
    assert_eq!(class_of(Operation::Write, none, Some("jfsCommit")), (Class::OtherMetadata, 0));
    assert_eq!(class_of(Operation::Discard, none, None), (Class::Free, 0));
}

#[test]
fn a_flush_without_data_is_one_and_a_write_that_flushes_first_is_not() {
    let attribution = Attribution::new(layout(), &[]);
    let flush = Flags::default().with(Flags::FLUSH, true);
    let empty = attribution.class_of(Operation::Flush, flush, 0, 0, None);
    assert_eq!((empty.class, empty.parts().count()), (Class::Flush, 0));
    assert_eq!(attribution.class_of(Operation::Write, flush, 0, 0, None).class, Class::Flush);
    assert_eq!(attribution.class_of(Operation::Write, flush, 2 * BLOCK, BLOCK, None).class, Class::Journal);
}

#[test]
fn a_partition_is_shifted() {
    let attribution = Attribution::new(layout(), &[]).starting_at(1 << 20);
    let class = |offset| attribution.class_of(Operation::Read, Flags::default(), offset, BLOCK, None).class;
    assert_eq!(class(0), Class::Unknown);
    assert_eq!(class(1 << 20), Class::Superblock);
    assert_eq!(class((1 << 20) + 99 * BLOCK), Class::FileData);
    assert_eq!(class((1 << 20) + 100 * BLOCK), Class::Unknown);
    let over =
        attribution.class_of(Operation::Read, Flags::default(), (1 << 20) - 2 * BLOCK, 3 * BLOCK, None);
    assert_eq!(over.parts().collect::<Vec<_>>(), [(Class::Superblock, BLOCK), (Class::Unknown, 2 * BLOCK)]);
}

#[test]
fn what_is_counted_adds_up() {
    let attribution = Attribution::new(layout(), &[13]);
    let mut tally = ClassTally::default();
    let mut count =
        |operation, block, blocks| tally.count(operation, &of(&attribution, operation, block, blocks));
    count(Operation::Read, 0, 4);
    count(Operation::Write, 4, 3);
    count(Operation::Write, 8, 2);
    count(Operation::Flush, 0, 0);
    count(Operation::Discard, 10, 10);
    count(Operation::Write, 20, 1);
    let mut metrics = crate::metrics::LayerMetrics::new(crate::metrics::TracePoint::Blktrace);
    assert_eq!(metrics.unclassified_bytes(), None);
    metrics.classes = tally.finish();
    assert_eq!(metrics.unclassified_bytes(), Some(BLOCK));
    let of_class = |class| metrics.classes[&class];
    let expected = ClassMetrics { requests: 1, write_bytes: 3 * BLOCK, deleted_bytes: BLOCK, read_bytes: 0 };
    assert_eq!(of_class(Class::FileData), expected);
    assert_eq!(of_class(Class::Flush), ClassMetrics { requests: 1, ..ClassMetrics::default() });
    assert_eq!(of_class(Class::Free), ClassMetrics { requests: 1, ..ClassMetrics::default() });
    assert_eq!(metrics.classes.values().map(ClassMetrics::bytes).sum::<u64>(), 10 * BLOCK);
}

proptest! {
    /// The runs say what the layout says, and every byte has a class.
    #[test]
    fn the_parts_are_those_of_the_layout(
        extents in prop::collection::vec((1_u64..40, 1_u64..40, 0_u8..10), 0..30),
        offset in 0_u64..3000,
        bytes in 0_u64..3000,
    ) {
        let mut layout = Layout { total_bytes: 2000, ..Layout::default() };
        let mut position = 0;
        for (gap, bytes, class) in extents {
            let class = Class::from_number(class).unwrap();
            let start = position + gap / 2;
            layout.extents.push(Extent { start, bytes, class, inode: None, file_offset: None });
            position = start + bytes;
        }
        layout.total_bytes = layout.total_bytes.max(position);
        let mut expected = [0; CLASSES];
        for piece in layout.pieces(offset, bytes) {
            expected[piece.class as usize] += piece.bytes;
        }
        let attribution = Attribution::new(layout, &[]);
        let found = attribution.class_of(Operation::Discard, Flags::default(), offset, bytes, None);
        prop_assert_eq!(found.bytes, expected);
        prop_assert_eq!(found.bytes.iter().sum::<u64>(), bytes);
    }
}
