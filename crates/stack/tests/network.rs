//! Links, what is used over them, and partitions.

mod messages;

use messages::snapshots;
use nestor_stack::layers::hypervisors::{Aio, CacheMode, Discard};
use nestor_stack::{BitRate, Bytes, Export, NfsVersion, Percentage, Place, Sectors, Stack, TimeSpan};

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
      one link is enough; remove the other: nfs/link/xfs/hdd
"#;
    two_links_of_which_the_lower_says_more: "nfs/link/link:rate=10mbit/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/link/link:rate=10mbit/xfs/hdd
               ^^^^^^^^^^^^^^^^ link needs a directory below it; link offers a directory over a link
      one link is enough; remove the other: nfs/link:rate=10mbit/xfs/hdd
"#;
    two_mounts: "nfs:vers=3/nfs/link/xfs/hdd" => @r#"
    a stack does not fit together
      nfs:vers=3/nfs/link/xfs/hdd
                 ^^^ nfs needs a directory over a link below it; nfs offers a directory
      one nfs is enough; remove the other: nfs:vers=3/link/xfs/hdd
"#;
    what_would_need_a_second_link: "nfs/ext4/nbd/link/hdd" => @r#"
    a stack does not fit together
      nfs/ext4/nbd/link/hdd
          ^^^^ nfs needs a directory over a link below it; ext4 offers a directory
      put a link between them; several links need `--on emulated:time=real`: nfs/link/ext4/nbd/link/hdd
"#;
    the_directory_of_a_guest: "nfs/ext4/kvm/hdd" => @r#"
    a stack does not fit together
      nfs/ext4/kvm/hdd
          ^^^^ nfs needs a directory over a link below it; ext4 offers a directory
      a link joins machines that are in no other, and the one below it is a guest; put the virtual machine above the link: nfs/kvm/link/ext4/hdd
"#;
    the_second_link_of_a_directory_at_the_top: "link/nfs/link/xfs/hdd" => @r#"
    a stack does not fit together
      link/nfs/link/xfs/hdd
      ^^^^ an application needs a directory or a block device; link offers a directory over a link
      put nfs on top; several links need `--on emulated:time=real`: nfs/link/nfs/link/xfs/hdd
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
    more_connections_than_processors: "ext4/nbd:connections=4/link:cpus=2/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/nbd:connections=4/link:cpus=2/hdd
               ^^^^^^^^^^^^^ each of 4 connections needs a processor of the machine, and it has 2
      use connections=2, or cpus=4 for link and `--on emulated:time=real`
"#;
    memory_taken_up_beside_a_guest: "ext2/kvm/raw/nfs/link:available=80M/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext2/kvm/raw/nfs/link:available=80M/xfs/hdd
                            ^^^^^^^^^^^^^ the machine beside runs kvm, which needs memory of it later
      omit it, or say how much the guest has available: kvm:available=…
"#;
    a_guest_that_is_larger_than_the_client: "ext4/kvm:memory=1G/raw/nfs/link:memory=512M/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm:memory=1G/raw/nfs/link:memory=512M/xfs/hdd
                                      ^^^^^^^^^^^ the machine around kvm has to hold a guest with 1G, and needs 384M itself: together at least 1408M
      use memory=1408M or more for link, or a smaller memory of the guest
"#;
    a_guest_that_mounts_and_is_larger_than_the_client: "nfs:vers=3/kvm:memory=1G/link:memory=512M/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs:vers=3/kvm:memory=1G/link:memory=512M/xfs/hdd
                                    ^^^^^^^^^^^ the machine around kvm has to hold a guest with 1G, and needs 384M itself: together at least 1408M
      use memory=1408M or more for link, or a smaller memory of the guest
"#;
    a_guest_that_leaves_its_client_too_little: "nfs/kvm:memory=512M/link:memory=895M/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs/kvm:memory=512M/link:memory=895M/xfs/hdd
                               ^^^^^^^^^^^ the machine around kvm has to hold a guest with 512M, and needs 384M itself: together at least 896M
      use memory=896M or more for link, or a smaller memory of the guest
"#;
    a_guest_that_is_larger_than_the_guest_around_it: "ext4/kvm:memory=1G/raw/xfs/kvm:memory=512M/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm:memory=1G/raw/xfs/kvm:memory=512M/hdd
                                     ^^^^^^^^^^^ the machine around kvm has to hold a guest with 1G, and needs 384M itself: together at least 1408M
      use memory=1408M or more for kvm, or a smaller memory of the guest
"#;
    a_guest_in_one_that_grows_with_it: "kvm:memory=1G/raw/xfs/kvm/raw/nfs/link:memory=1G/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      kvm:memory=1G/raw/xfs/kvm/raw/nfs/link:memory=1G/xfs/hdd
                                             ^^^^^^^^^ the machine around kvm has to hold a guest with 1728M, and needs 384M itself: together at least 2112M
      use memory=2112M or more for link, or a smaller memory of the guest
"#;
    a_host_that_is_said_to_be_smaller_than_what_its_guest_grows_to: "kvm:memory=2G/raw/xfs/kvm:host-memory=1G/hdd" => @r#"
    a stack has layers or options that exclude each other
      kvm:memory=2G/raw/xfs/kvm:host-memory=1G/hdd
                                ^^^^^^^^^^^^^^ the machine around kvm has to hold a guest with 2752M, and needs 384M itself: together at least 3136M
      use host-memory=3136M or more for kvm, or a smaller memory of the guest
"#;
    an_image_over_a_link_for_nfs: "nfs/link/raw/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/link/raw/xfs/hdd
               ^^^ link needs a directory below it; raw offers an image
      put a loop device and a file system between them: nfs/link/ext4/loop/raw/xfs/hdd
"#;
    an_image_with_a_format_over_a_link_for_nfs: "nfs/link/qcow2/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/link/qcow2/xfs/hdd
               ^^^^^ link needs a directory below it; qcow2 offers an image
      put a link, nbd and a file system between them; several links need `--on emulated:time=real`: nfs/link/ext4/nbd/link/qcow2/xfs/hdd
"#;
    an_image_below_nfs: "nfs/raw/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/raw/xfs/hdd
          ^^^ nfs needs a directory over a link below it; raw offers an image
      put a loop device, a file system and a link between them: nfs/link/ext4/loop/raw/xfs/hdd
"#;
    an_image_below_a_guest_with_nfs: "nfs/kvm/raw/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/kvm/raw/xfs/hdd
              ^^^ kvm needs a directory over a link below it; raw offers an image
      put a loop device, a file system and a link between them: nfs/kvm/link/ext4/loop/raw/xfs/hdd
"#;
    an_image_below_an_exported_file_system: "nfs/link/ext4/raw/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/link/ext4/raw/xfs/hdd
                    ^^^ ext4 needs a block device below it; raw offers an image
      put a loop device between them: nfs/link/ext4/loop/raw/xfs/hdd
"#;
    more_available_than_there_is: "nfs/link:memory=256M:available=256M/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs/link:memory=256M:available=256M/xfs/hdd
                           ^^^^^^^^^^^^^^ a machine with 256M cannot have as much available
      use a larger memory, or a smaller available
"#;
    more_connections_than_processors_of_a_guest: "ext4/nbd:connections=2/kvm/link:cpus=2/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/nbd:connections=2/kvm/link:cpus=2/hdd
               ^^^^^^^^^^^^^ each of 2 connections needs a processor of the machine, and it has 1
      use connections=1, or cpus=2 for kvm
"#;
    a_server_with_native_aio_through_its_page_cache: "ext4/nbd:cache=writeback:aio=native/link/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/nbd:cache=writeback:aio=native/link/hdd
                               ^^^^^^^^^^ aio=native needs a cache mode that bypasses the page cache; cache is writeback
      use cache=none or cache=directsync with aio=native, or use aio=threads or aio=io_uring
"#;
    a_server_with_native_aio_on_the_data_files_of_an_image: "nbd:aio=native/kvm/link/vmdk:subformat=twoGbMaxExtentFlat/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nbd:aio=native/kvm/link/vmdk:subformat=twoGbMaxExtentFlat/xfs/hdd
          ^^^^^^^^^^ QEMU does not use aio=native for the data files of this vmdk
      use aio=threads, or subformat=monolithicSparse for the vmdk
"#;
    a_link_above_a_guest_that_lacks_an_image: "nfs/link/kvm/xfs/hdd" => @r#"
    a stack does not fit together
      nfs/link/kvm/xfs/hdd
               ^^^ link needs a directory below it; kvm offers a block device
      a link joins machines that are in no other, and the one below it is a guest; put the virtual machine above the link: nfs/kvm/link/ext4/loop/raw/xfs/hdd
"#;
    links_above_and_below_a_guest: "kvm/link/kvm/link/xfs/hdd" => @r#"
    a stack does not fit together
      kvm/link/kvm/link/xfs/hdd
          ^^^^ kvm needs a block device or an image below it; link offers a block device over a link
      a link joins machines that are in no other, and the one below it is a guest; put the virtual machine above the link; several links need `--on emulated:time=real`: kvm/nbd/kvm/link/raw/nfs/link/xfs/hdd
"#;
    more_connections_than_processors_of_a_usual_client: "ext4/nbd:connections=4/link/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/nbd:connections=4/link/hdd
               ^^^^^^^^^^^^^ each of 4 connections needs a processor of the machine, and it has 1
      use connections=1, or cpus=4 for link and `--on emulated:time=real`
"#;
    a_network_disk_that_waits_for_ever: "nbd:timeout=0/link/hdd" => @r#"
    an option has an invalid value
      nbd:timeout=0/link/hdd
                  ^ timeout cannot be `0`
      timeout takes a whole number from 1 to 3600; the default is 30
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
    attributes_that_are_set_twice: "nfs:actimeo=0:acdirmin=30/link/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs:actimeo=0:acdirmin=30/link/xfs/hdd
                    ^^^^^^^^^^^ actimeo sets acdirmin too
      write either actimeo or acdirmin
"#;
    attributes_that_end_before_they_begin: "nfs:acregmax=1:acregmin=3/link/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      nfs:acregmax=1:acregmin=3/link/xfs/hdd
                     ^^^^^^^^^^ acregmin is longer than acregmax
      use a shorter acregmin, or a longer acregmax
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
    assert_eq!((mount.rsize, mount.wsize, mount.believed.all_s), (None, Some(Bytes::kib(64)), Some(0)));
    let believed = Stack::parse("nfs:acregmin=0:acregmax=0:acdirmax=90/link/xfs/hdd").unwrap();
    let believed = believed.layers()[0].network_file_system().unwrap().believed;
    assert_eq!(believed.options().collect::<Vec<_>>(), [("acregmin", 0), ("acregmax", 0), ("acdirmax", 90)]);
    let cable = link.link().unwrap();
    assert_eq!((cable.rate, cable.delay), (BitRate(1_000_000_000), TimeSpan(2_000_000)));
    assert_eq!((cable.mtu, cable.queue, cable.loss), (9000, Bytes::kib(256), Percentage(10_000)));
    assert_eq!((cable.memory, cable.available, cable.cpus), (Bytes::gib(1), None, 1));
    assert!(nfs.link().is_none() && link.network_file_system().is_none() && link.partition().is_none());
    for version in ["3", "4.0", "4.1", "4.2"] {
        let stack = Stack::parse(&format!("nfs:vers={version}/link/xfs/hdd")).unwrap();
        assert_eq!(stack.layers()[0].network_file_system().unwrap().version.name(), version);
    }
}

#[test]
fn a_network_disk_has_typed_options() {
    let options = |text: &str| Stack::parse(text).unwrap().layers()[0].network_disk().unwrap();
    let usual = options("nbd/link/hdd");
    assert_eq!((usual.connections, usual.timeout_s), (1, 30));
    assert_eq!(
        (usual.block.cache, usual.block.aio, usual.block.discard),
        (CacheMode::None, Aio::Threads, Discard::Ignore)
    );
    let written = options(
        "nbd:connections=2:timeout=5:cache=directsync:aio=native:discard=unmap/kvm:cpus=2/link/qcow2/xfs/hdd",
    );
    assert_eq!((written.connections, written.timeout_s), (2, 5));
    assert_eq!(
        (written.block.cache, written.block.aio, written.block.discard),
        (CacheMode::Directsync, Aio::Native, Discard::Unmap)
    );
    assert!(Stack::parse("nfs/link/xfs/hdd").unwrap().layers()[0].network_disk().is_none());
}

fn refused(stack: &str, place: &str) -> String {
    let stack = Stack::parse(stack).unwrap();
    let refused = stack.require_place(&place.parse().unwrap()).unwrap_err();
    refused.to_string()
}

#[test]
fn what_virtual_time_cannot_hold_together_is_refused_there_and_nowhere_else() {
    let in_virtual_time = "emulated:time=virtual";
    insta::assert_snapshot!(refused("nfs/link:cpus=2/xfs/hdd", in_virtual_time), @"
    a stack cannot be used
      nfs/link:cpus=2/xfs/hdd
                    ^ a machine in virtual time has one processor, and only its guests have more
      omit cpus, or use `--on emulated:time=real`
    ");
    insta::assert_snapshot!(refused("ext4/nbd/link:rate=10mbit/raw/nfs/link/xfs/hdd", in_virtual_time), @"
    a stack cannot be used
      ext4/nbd/link:rate=10mbit/raw/nfs/link/xfs/hdd
               ^^^^^^^^^^^^^^^^ virtual time holds two machines together, and a second link makes them three
      use one link, or `--on emulated:time=real`
    ");
    for (stack, place) in [
        ("nfs/link:cpus=2/xfs/hdd", "emulated:time=real"),
        ("ext4/nbd/link/raw/nfs/link/xfs/hdd", "emulated:time=real"),
        ("nfs/kvm:cpus=2/link/xfs/hdd", in_virtual_time),
        ("nfs/link:rate=10mbit:delay=1ms:loss=1%:mtu=9000/xfs/file:/srv/disk", "this"),
        ("nfs/link/xfs/dev:/dev/sdb", "ssh:client,ssh:server"),
    ] {
        Stack::parse(stack).unwrap().require_place(&place.parse().unwrap()).unwrap();
    }
}

#[test]
fn xen_is_used_in_the_emulated_host_and_on_this_machine_and_nowhere_else() {
    for stack in ["ext3/dom0/file:/srv/disk", "ext3/xen/raw/ext4/dev:/dev/sdb"] {
        Stack::parse(stack).unwrap().require_place(&Place::This).unwrap();
    }
    insta::assert_snapshot!(refused("ext3/xen/raw/ext4/dev:/dev/sdb", "ssh:host"), @"
    a stack cannot be used
      ext3/xen/raw/ext4/dev:/dev/sdb
           ^^^ Nestor uses Xen only on its emulated host and on this machine, but this is `--on ssh:host`
      use `--on emulated`, or run nestor on that machine with `--on this`
    ");
    assert!(refused("ext3/dom0/dev:/dev/vdb", "domain:mail").contains("but this is `--on domain:mail`"));
}

#[test]
fn what_a_place_of_the_user_cannot_have_is_refused_with_the_place_that_can() {
    for (stack, place, words) in [
        (
            "nfs/link:queue=1M/xfs/file:/srv/disk",
            "this",
            ["queue is of the modelled link", "use `--on emulated`"],
        ),
        ("nfs/link:cpus=2/xfs/file:/srv/disk", "this", ["shares this machine's processors", "omit it"]),
        ("nfs/link/nfs/link/xfs/file:/srv/disk", "this", ["several links", "use one link"]),
        ("nfs/link/xfs/file:/srv/disk", "ssh:host", ["`--on ssh:host` is one", "ssh:CLIENT,ssh:SERVER"]),
        (
            "nfs/link:rate=10mbit/xfs/dev:/dev/sdb",
            "ssh:a,ssh:b",
            ["the wire between two machines", "omit it"],
        ),
        ("nbd/link/dev:/dev/sdb", "ssh:a,ssh:b", ["its server lets every machine", "use nfs"]),
        ("nfs/kvm/link/xfs/dev:/dev/sdb", "ssh:a,ssh:b", ["guests are not started", "`--on this`"]),
        ("xfs/dev:/dev/sdb", "ssh:a,ssh:b", ["has no link between them", "name one machine"]),
        ("nfs/link/xfs/hdd", "this", ["a modelled disk needs the emulated host", "omit `--on`"]),
        ("xfs/dev:/dev/sdb", "emulated", ["needs your own kernel", "add `--on this`"]),
    ] {
        let said = refused(stack, place);
        assert!(words.iter().all(|words| said.contains(words)), "{said}");
    }
}

#[test]
fn what_an_emulated_host_in_real_time_has_is_not_said_to_who_asks_for_one() {
    let error = Stack::parse("nfs/ext4/nbd/link/hdd").unwrap_err();
    let in_place = |place: &str| error.clone().in_place(&place.parse().unwrap()).help().unwrap().to_owned();
    let suggested = "nfs/link/ext4/nbd/link/hdd";
    assert_eq!(in_place("emulated:time=real"), format!("put a link between them: {suggested}"));
    let elsewhere =
        format!("put a link between them; several links need `--on emulated:time=real`: {suggested}");
    assert_eq!([in_place("emulated:time=virtual"), in_place("this")], [elsewhere.clone(), elsewhere]);
}

#[test]
fn a_client_has_at_least_what_is_asked_of_one_whose_memory_is_said() {
    for (stack, mib) in [
        ("nfs/link/xfs/hdd", 256),
        ("nfs/kvm:memory=1G/link/xfs/hdd", 1024 + 192 + 512),
        ("nfs/kvm:memory=1G/link:memory=1408M/xfs/hdd", 1408),
        ("nfs/kvm:memory=1G:host-memory=1408M/link/xfs/hdd", 1408),
        ("ext4/kvm:memory=1G/raw/ext4/kvm/nbd/link/hdd", 1024 + 2 * (192 + 512)),
    ] {
        let stack = Stack::parse(stack).unwrap();
        let client = stack.machines().indexed().nth(1).unwrap().0;
        assert_eq!(stack.memory_of(client), Some(Bytes::mib(mib)), "{stack}");
    }
}

#[test]
fn the_link_of_a_guest_cannot_be_built_anywhere() {
    let refused = |text: &str| Stack::parse(text).unwrap().require_buildable().map_err(|e| e.to_string());
    insta::assert_snapshot!(refused("nfs/link/ext4/kvm/hdd").unwrap_err(), @"
    a stack cannot be built yet
      nfs/link/ext4/kvm/hdd
          ^^^^ a link joins machines that are in no other, and the one below it is a guest
      put the virtual machine above the link: nfs/kvm/link/ext4/hdd
    ");
    insta::assert_snapshot!(refused("nfs/link/xfs/kvm/hdd").unwrap_err(), @"
    a stack cannot be built yet
      nfs/link/xfs/kvm/hdd
          ^^^^ a link joins machines that are in no other, and the one below it is a guest
      put the virtual machine above the link: nfs/kvm/link/xfs/hdd
    ");
    insta::assert_snapshot!(refused("nfs/link/xfs/kvm:cache=writeback:memory=1G/raw/ext4/hdd").unwrap_err(), @"
    a stack cannot be built yet
      nfs/link/xfs/kvm:cache=writeback:memory=1G/raw/ext4/hdd
          ^^^^ a link joins machines that are in no other, and the one below it is a guest
      put the virtual machine above the link: nfs/kvm:memory=1G/link/xfs/loop/raw/ext4/hdd
    ");
    insta::assert_snapshot!(refused("nfs/link/ext4/kvm/nbd/link/hdd").unwrap_err(), @"
    a stack cannot be built yet
      nfs/link/ext4/kvm/nbd/link/hdd
          ^^^^ a link joins machines that are in no other, and the one below it is a guest
      put the virtual machine above the link; several links need `--on emulated:time=real`: nfs/kvm/link/ext4/nbd/link/hdd
    ");
    assert!(refused("nfs/kvm/link/ext4/hdd").is_ok());
}
