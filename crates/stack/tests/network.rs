//! Links, what is used over them, and partitions.

mod messages;

use messages::snapshots;
use nestor_stack::{BitRate, Bytes, Export, NfsVersion, Percentage, Sectors, Stack, TimeSpan};

snapshots! {
    a_network_file_system_without_a_link: "nfs/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/xfs/hdd
          ^^^ nfs needs a directory over a link below it; xfs offers a directory
      put a link between them: nfs/link/xfs/hdd
"#;
    a_file_system_over_a_link: "ext4/link/hdd" => @r#"
    a stack does not fit together
      ext4/link/hdd
           ^^^^ ext4 needs a block device below it; link offers a block device over a link
      put nbd between them: ext4/nbd/link/hdd
"#;
    a_file_system_over_the_link_of_a_directory: "ext4/link/xfs/hdd" => @r#"
    a stack does not fit together
      ext4/link/xfs/hdd
           ^^^^ ext4 needs a block device below it; link offers a directory over a link
      put nfs, an image and a virtual machine between them: ext4/kvm/raw/nfs/link/xfs/hdd
"#;
    a_network_file_system_of_a_disk: "nfs/link/hdd" => @r#"
    a stack does not fit together
      nfs/link/hdd
               ^^^ link needs a directory below it; hdd offers a block device
      put a file system between them: nfs/link/ext4/hdd
"#;
    a_network_disk_of_a_directory: "ext4/nbd/link/xfs/hdd" => @r#"
    a stack does not fit together
      ext4/nbd/link/xfs/hdd
                    ^^^ link needs a block device or an image below it; xfs offers a directory
      put an image between them: ext4/nbd/link/raw/xfs/hdd
"#;
    a_network_disk_without_a_link: "ext4/nbd/hdd" => @r#"
    a stack does not fit together
      ext4/nbd/hdd
               ^^^ nbd needs a block device over a link or an image over a link below it; hdd offers a block device
      put a link between them: ext4/nbd/link/hdd
"#;
    a_guest_that_mounts_without_a_link: "nfs/kvm/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/kvm/xfs/hdd
              ^^^ kvm needs a directory over a link below it; xfs offers a directory
      put a link between them: nfs/kvm/link/xfs/hdd
"#;
    a_guest_that_only_sees_a_disk_over_a_link: "kvm/link/hdd" => @r#"
    a stack does not fit together
      kvm/link/hdd
          ^^^^ kvm needs a block device or an image below it; link offers a block device over a link
      put nbd between them: kvm/nbd/link/hdd
"#;
    two_links: "nfs/link/link/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/link/link/xfs/hdd
               ^^^^ link needs a directory below it; link offers a directory over a link
      put nfs between them: nfs/link/nfs/link/xfs/hdd
"#;
    the_link_of_a_disk_at_the_top: "link/hdd" => @r#"
    a stack does not fit together
      link/hdd
      ^^^^ an application needs a directory or a block device; link offers a block device over a link
      put nbd on top: nbd/link/hdd
"#;
    the_link_of_a_directory_at_the_top: "link:rate=10mbit/xfs/hdd" => @r#"
    a stack does not fit together
      link:rate=10mbit/xfs/hdd
      ^^^^^^^^^^^^^^^^ an application needs a directory or a block device; link offers a directory over a link
      put nfs on top: nfs/link:rate=10mbit/xfs/hdd
"#;
    a_link_at_the_top_without_a_medium: "link" => @r#"
    a stack does not fit together
      link
      ^^^^ an application needs a directory or a block device; link offers a block device over a link
      put nbd on top: nbd/link/hdd
"#;
    a_mount_without_a_medium: "nfs" => @r#"
    a stack does not fit together
      nfs
      ^^^ nfs needs a directory over a link below it; the stack ends here
      end it with a medium: nfs/link/ext4/hdd
"#;
    a_disk_option_without_a_disk: "nfs/kvm:cache=writeback/link/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs/kvm:cache=writeback/link/xfs/hdd
              ^^^^^^^^^^^^^^^ kvm is joined to a network here and has no disk
      omit cache, or put nbd or nfs below kvm
"#;
    a_queue_without_room_for_a_frame: "nfs/link:mtu=9000:queue=8k/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs/link:mtu=9000:queue=8k/xfs/hdd
                        ^^^^^^^^ a queue of 8k has no room for a frame with mtu=9000
      use queue=9018 or more, or a smaller mtu
"#;
    a_rate_in_bytes: "nfs/link:rate=100MBps/xfs/hdd" => @r#"
    an option has an invalid value
      nfs/link:rate=100MBps/xfs/hdd
                    ^^^^^^^ rate cannot be `100MBps`
      rate takes a bit rate from 10kbit to 100gbit; the default is 1gbit
"#;
    a_share_without_its_unit: "nfs/link:loss=0.1/xfs/hdd" => @r#"
    an option has an invalid value
      nfs/link:loss=0.1/xfs/hdd
                    ^^^ loss cannot be `0.1`
      loss takes a percentage from 0 to 50%; the default is 0
"#;
    a_time_that_is_too_short: "nfs/link:delay=10ns/xfs/hdd" => @r#"
    an option has an invalid value
      nfs/link:delay=10ns/xfs/hdd
                     ^^^^ delay cannot be `10ns`
      delay takes a time from 1us to 10s; the default is 100us
"#;
    a_start_within_a_sector: "part:start=1000/hdd" => @r#"
    an option has an invalid value
      part:start=1000/hdd
                 ^^^^ start cannot be `1000`
      start takes sectors of 512 bytes, as in 63s, or a size of whole sectors, from 1s to 1T; the default is 1M
"#;
    the_memory_of_a_server_at_its_disk: "ext4/kvm/raw/nfs/link/xfs/kvm/hdd:host-memory=2G" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm/raw/nfs/link/xfs/kvm/hdd:host-memory=2G
                                        ^^^^^^^^^^^^^^ host-memory of hdd is for stacks without a virtual machine
      write it as an option of kvm: kvm:host-memory=…
"#;
}

#[test]
fn layers_of_networks_have_typed_options() {
    let stack = Stack::parse(
        "ext2/part:start=63s/kvm/raw/nfs:vers=4.1:wsize=64k:export=async:actimeo=0/link:delay=2ms:mtu=9000:loss=1%:memory=1G/xfs/hdd",
    )
    .unwrap();
    let [_, part, _, _, nfs, link, ..] = stack.layers() else { panic!("eight layers") };
    assert_eq!(part.partition().unwrap().start, Sectors(63));
    let mount = nfs.network_file_system().unwrap();
    assert_eq!((mount.version, mount.export, mount.sync), (NfsVersion::V4_1, Export::Async, false));
    assert_eq!((mount.rsize, mount.wsize, mount.attributes_s), (None, Some(Bytes::kib(64)), Some(0)));
    let cable = link.link().unwrap();
    assert_eq!((cable.rate, cable.delay), (BitRate(1_000_000_000), TimeSpan(2_000_000)));
    assert_eq!((cable.mtu, cable.queue, cable.loss), (9000, Bytes::kib(256), Percentage(10_000)));
    assert_eq!((cable.memory, cable.cpus), (Bytes::gib(1), 1));
    assert!(nfs.link().is_none() && link.network_file_system().is_none() && link.partition().is_none());
    for version in ["3", "4.0", "4.1", "4.2"] {
        let stack = Stack::parse(&format!("nfs:vers={version}/link/xfs/hdd")).unwrap();
        assert_eq!(stack.layers()[0].network_file_system().unwrap().version.name(), version);
    }
}
