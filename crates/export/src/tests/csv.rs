use super::{level, two_levels, write};
use crate::{ClockMap, Trace, write_csv};

fn exported(trace: &Trace) -> String {
    let mut bytes = Vec::new();
    write_csv(trace, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn one_line_a_request() {
    insta::assert_snapshot!(exported(&two_levels()), @r"
    level,layer,kind,machine,id,operation,class,flags,origin,parents,offset,bytes,queued_ns,issued_ns,completed_ns,bios,pid
    0,ext4,guest block,guest,0,write,journal,sync meta,,,0,8192,1000,1500,3000,2,77
    0,ext4,guest block,guest,1,read,unknown,,,,8192,8192,1500,2125,4000,2,77
    0,ext4,guest block,guest,2,write,journal,sync meta,,,16384,8192,4000,4250,5000,2,77
    0,ext4,guest block,guest,3,flush,flush,sync meta,,,24576,0,9000,9125,9500,2,77
    1,hdd:wd-7200,medium,ground,0,write,journal,sync meta,parent,0,0,8192,1205,1455,2205,2,77
    1,hdd:wd-7200,medium,ground,1,write,journal,sync meta,journal,,8192,8192,2005,2380,3505,2,77
    1,hdd:wd-7200,medium,ground,2,write,journal,sync meta,parent,2 1,16384,8192,4105,4180,4405,2,77
    1,hdd:wd-7200,medium,ground,3,write,journal,sync meta,parent,2,24576,8192,4205,4380,4905,2,77
    ");
}

#[test]
fn names_with_commas_and_quotes_stay_one_field() {
    let levels = vec![level("dev:/a,b", "a \"block\"\ndevice", "host", vec![write(0, 1, 1)])];
    let text = exported(&Trace { levels, ..Trace::default() });
    assert!(text.contains("\n0,\"dev:/a,b\",\"a \"\"block\"\"\ndevice\",host,0,write,"), "{text}");
}

#[test]
fn clocks_are_put_right_one_after_the_other() {
    let drifting = ClockMap { offset_ns: -1_000, drift_ppb: 1_000_000, middle_ns: 1_000_000 };
    assert_eq!([0, 1_000_000, 3_000_000].map(|t| drifting.map(t)), [0, 999_000, 3_001_000]);
    let extreme = ClockMap { offset_ns: i64::MAX, drift_ppb: i64::MAX, middle_ns: 0 };
    assert_eq!(extreme.map(u64::MAX), u64::MAX);
    let mut levels = vec![level("hdd", "medium", "ground", vec![write(0, 2_000_000, 4)])];
    levels[0].clock = vec![drifting, ClockMap { offset_ns: 7, ..ClockMap::default() }];
    let text = exported(&Trace { levels, ..Trace::default() });
    assert!(text.contains(",2000007,2000008,2000011,"), "{text}");
}
