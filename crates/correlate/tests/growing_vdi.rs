//! A vdi image that grows while it is written: where `qemu-img map` says that its parts lie, they do.

#![allow(clippy::print_stderr)] // For who runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nestor_correlate::{ExtentMap, MappedExtent, SpaceMap, read_extents_from};

const MIB: u64 = 1 << 20;

/// Where the parts are written, in this order, in MiB: not the order of their places.
const WRITTEN: [u64; 4] = [40, 3, 17, 4];

fn run(argv: &[&str]) -> Vec<u8> {
    let output = Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn map(image: &str) -> Option<ExtentMap> {
    let said = run(&["qemu-img", "map", "--force-share", "--output=json", "-f", "vdi", "--", image]);
    read_extents_from(&*said, Path::new("the map"), None).ok()
}

#[test]
fn a_part_that_was_allocated_while_it_was_written_is_found_in_the_file_and_below_it() {
    if Command::new("qemu-io").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("qemu-io is not installed: not tried");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("disk.vdi").display().to_string();
    run(&["qemu-img", "create", "-q", "-f", "vdi", &image, "64M"]);
    let before = map(&image).map(SpaceMap::Extents);
    for at in WRITTEN {
        let write = format!("write -P {at} {at}M 4k");
        run(&["qemu-io", "-f", "vdi", "-c", &write, &image]);
    }
    let tables = map(&image).expect("it has data now");
    let file = fs::read(&image).unwrap();
    // The file lies on its device in two pieces.
    let half = file.len() as u64 / 2 / MIB * MIB;
    let pieces = [(0, 700 * MIB, half), (half, 300 * MIB, file.len() as u64 - half)];
    let extents = pieces.map(|(upper, lower, bytes)| MappedExtent { upper, lower, bytes });
    let on_device = ExtentMap::new(extents.to_vec()).unwrap();
    let through = SpaceMap::Extents(tables.through(&on_device).unwrap());
    let (tables, on_device) = (SpaceMap::Extents(tables), SpaceMap::Extents(on_device));
    for at in WRITTEN {
        let in_file = tables.below(at * MIB).expect("it was written");
        let start = usize::try_from(in_file).unwrap();
        assert_eq!(
            file[start..start + 4096],
            [at as u8; 4096],
            "what was written at {at} MiB is at {in_file}"
        );
        assert_ne!(in_file, at * MIB, "a place of the disk is none of the file");
        let below = through.below(at * MIB);
        assert_eq!(below, on_device.below(in_file));
        assert_eq!(below.and_then(|below| through.above(below)), Some(at * MIB));
        let known_before = before.as_ref().and_then(|before| before.below(at * MIB));
        assert_eq!(known_before, None, "a map from before the image grew has no place of it");
    }
    assert_eq!(through.below(20 * MIB), None, "nothing was written there");
}
