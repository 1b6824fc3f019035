//! Lists of extents as tools print them.

use nestor_layout::Extent;
use proptest::prelude::*;

use super::*;

const FILEFRAG: &str = "Filesystem type is: 58465342
File size of m/i is 20971520 (5120 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..    1023:         24..      1047:   1024:            
   1:     2560..    2815:       1304..      1559:    256:       2584:
   2:     3840..    4095:       1048..      1303:    256:       2584: last,unwritten
m/i: 3 extents found
";
const XFS_BMAP: &str = "m/i:
 EXT: FILE-OFFSET      BLOCK-RANGE      AG AG-OFFSET        TOTAL FLAGS
   0: [0..8191]:       192..8383         0 (192..8383)       8192 000000
   1: [8192..20479]:   hole                                 12288
   2: [20480..22527]:  10432..12479      0 (10432..12479)    2048 000000
   3: [22528..30719]:  hole                                  8192
   4: [30720..32767]:  8384..10431       0 (8384..10431)     2048 010000
   5: [32768..40959]:  hole                                  8192
";

fn read(text: &[u8]) -> Result<ExtentMap, CorrelateError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    std::fs::write(&path, text).unwrap();
    read_extents(&path, None).map_err(|error| match error {
        CorrelateError::Map { line, reason, .. } => CorrelateError::Map { path: "map".into(), line, reason },
        other => other,
    })
}

#[test]
fn every_program_tells_of_the_same_file() {
    let extent = |upper: u64, lower: u64, blocks: u64| MappedExtent {
        upper: upper * 4096,
        lower: lower * 4096,
        bytes: blocks * 4096,
    };
    let expected = [extent(0, 24, 1024), extent(2560, 1304, 256), extent(3840, 1048, 256)];
    assert_eq!(read(FILEFRAG.as_bytes()).unwrap().extents(), expected);
    assert_eq!(read(XFS_BMAP.as_bytes()).unwrap().extents(), expected);
    let short = XFS_BMAP.replace("         0 (192..8383)       8192 000000", " 8192 blocks");
    assert_eq!(read(short.as_bytes()).unwrap().extents(), expected);
    let csv: String = expected.iter().map(|e| format!("{},{},{}\n", e.upper, e.lower, e.bytes)).collect();
    assert_eq!(read(format!("image,device,bytes\n{csv}").as_bytes()).unwrap().extents(), expected);
    let json: Vec<[u64; 3]> = expected.iter().map(|e| [e.upper, e.lower, e.bytes]).collect();
    assert_eq!(read(serde_json::to_string(&json).unwrap().as_bytes()).unwrap().extents(), expected);
    let map: Vec<_> = expected
        .iter()
        .map(|e| serde_json::json!({"start": e.upper, "length": e.bytes, "data": true, "offset": e.lower}))
        .chain([serde_json::json!({"start": 1_u64 << 40, "length": 7, "data": false})])
        .collect();
    assert_eq!(read(serde_json::to_string(&map).unwrap().as_bytes()).unwrap().extents(), expected);
}

#[test]
fn a_layout_knows_its_image() {
    let extent = |start, class, inode, file_offset| Extent { start, bytes: 4096, class, inode, file_offset };
    let layout = Layout {
        file_system: "xfs".to_owned(),
        block_bytes: 4096,
        total_bytes: 1 << 20,
        extents: vec![
            extent(8192, Class::ImageData, Some(131), Some(4096)),
            extent(16384, Class::FileData, Some(132), Some(0)),
            extent(20480, Class::ImageData, Some(131), Some(0)),
        ],
        remarks: Vec::new(),
    };
    let mut bytes = Vec::new();
    layout.write_to(&mut bytes).unwrap();
    let expected = [
        MappedExtent { upper: 0, lower: 20480, bytes: 4096 },
        MappedExtent { upper: 4096, lower: 8192, bytes: 4096 },
    ];
    assert_eq!(read(&bytes).unwrap().extents(), expected);
    assert_eq!(read(serde_json::to_string(&layout).unwrap().as_bytes()).unwrap().extents(), expected);
    assert_eq!(of_layout(&layout, Some(7)).unwrap_err(), "the layout has no contents of inode 7");
}

#[test]
fn a_list_is_read_one_by_one_and_an_object_is_of_a_bounded_length() {
    // Not one value is kept of what is no extent: it is refused where it stands.
    let endless = std::io::Read::chain(&b"["[..], std::io::repeat(b'1'));
    let wrong = [&b"[[1,2,3],"[..], &b"[],".repeat(1000), b"[1,2,3]]"].concat();
    assert!(read(&wrong).unwrap_err().to_string().contains("extent 1 does not have the three numbers"));
    assert!(read_extents_from(endless.take(1 << 20), Path::new("map"), None).is_err());
    let object = std::io::Read::chain(&b"{\"extents\":"[..], std::io::repeat(b' '));
    let error = read_extents_from(object, Path::new("map"), None).unwrap_err().to_string();
    assert!(error.contains("longer than 33554432 bytes"), "{error}");
    let mixed = br#"[{"start": 0, "offset": 4096, "length": 8, "data": true}, [8, 9000, 8, "more"],
            {"start": 16, "length": 8, "data": false}, {"logical": 7, "upper": 16, "physical": 20000, "bytes": 8}]"#;
    let found = read(mixed).unwrap();
    let found: Vec<_> = found.extents().iter().map(|e| (e.upper, e.lower, e.bytes)).collect();
    assert_eq!(found, [(0, 4096, 8), (8, 9000, 8), (16, 20000, 8)]);
}

#[test]
fn errors_name_the_line() {
    insta::assert_snapshot!(
        read(b"0,4096,x\n1,2,3").unwrap_err(),
        @"map, line 1: three numbers are expected, image offset, device offset and bytes: 0,4096,x"
    );
    insta::assert_snapshot!(read(b"hello\nworld\n").unwrap_err(), @"map: no extents were recognised in it; give the output of `filefrag -v IMAGE` or `xfs_bmap -v IMAGE`, or lines `image offset,device offset,bytes`");
    let broken = XFS_BMAP.replace("10432..12479  ", "10432..12478  ");
    insta::assert_snapshot!(
        read(broken.as_bytes()).unwrap_err(),
        @"map, line 5: the two ranges of this extent differ in length: 2: [20480..22527]:  10432..12478      0 (10432..12479)    20"
    );
    assert!(read(b"[1, 2").is_err());
    assert!(read(b"[[1, 2]]").is_err());
    assert!(read(b"").is_err());
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "[0-9.,:\\[\\] holeaxt\n]{0,200}", head in 0..3_usize) {
        let head = ["", "File size of x is 1 (1 blocks of 4096 bytes)\n", "NSTLAY01"][head];
        let _ = read(format!("{head}{text}").as_bytes());
    }
}
