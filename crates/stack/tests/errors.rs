//! Every message, as people see it.

mod messages;

use messages::{error, snapshots};
use nestor_stack::{LayerIndex, Stack, StackError, registry};

snapshots! {
    host_memory_at_the_disk_of_a_virtual_machine: "ext4/kvm/hdd:size=8G:host-memory=2G" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm/hdd:size=8G:host-memory=2G
                           ^^^^^^^^^^^^^^ host-memory of hdd is for stacks without a virtual machine
      write it as an option of kvm: kvm:host-memory=…
"#;
    a_directory_under_a_virtual_machine: "ext4/kvm/jfs/hdd" => @r#"
    a stack does not fit together
      ext4/kvm/jfs/hdd
               ^^^ kvm needs a block device or an image below it; jfs offers a directory
      put an image between them: ext4/kvm/raw/jfs/hdd
"#;
    a_directory_under_a_file_system: "ext4/ext4/hdd" => @r#"
    a stack does not fit together
      ext4/ext4/hdd
           ^^^^ ext4 needs a block device below it; ext4 offers a directory
      put an image and a virtual machine between them: ext4/kvm/raw/ext4/hdd
"#;
    an_image_under_a_file_system: "ext4/raw/ext4/hdd" => @r#"
    a stack does not fit together
      ext4/raw/ext4/hdd
           ^^^ ext4 needs a block device below it; raw offers an image
      put a virtual machine between them: ext4/kvm/raw/ext4/hdd
"#;
    a_disk_under_an_image: "kvm/raw/hdd" => @r#"
    a stack does not fit together
      kvm/raw/hdd
              ^^^ raw needs a directory below it; hdd offers a block device
      put a file system between them: kvm/raw/ext4/hdd
"#;
    a_disk_under_a_loop_device: "ext4/loop/hdd" => @r#"
    a stack does not fit together
      ext4/loop/hdd
                ^^^ loop needs an image below it; hdd offers a block device
      hdd is already a block device; remove loop: ext4/hdd
"#;
    an_image_under_an_image: "kvm/raw/qcow2/ext4/hdd" => @r#"
    a stack does not fit together
      kvm/raw/qcow2/ext4/hdd
              ^^^^^ raw needs a directory below it; qcow2 offers an image
      put a virtual machine and a file system between them: kvm/raw/ext4/kvm/qcow2/ext4/hdd
"#;
    two_repairs_are_suggested_at_once: "ext4/kvm/jfs/ext2/hdd" => @r#"
    a stack does not fit together
      ext4/kvm/jfs/ext2/hdd
               ^^^ kvm needs a block device or an image below it; jfs offers a directory
      put an image between them: ext4/kvm/raw/jfs/kvm/raw/ext2/hdd
"#;
    something_below_a_medium: "ext4/hdd/xfs/hdd" => @r#"
    a stack does not fit together
      ext4/hdd/xfs/hdd
               ^^^ no layer can be below hdd: a medium is the last layer of a stack
      end the stack there: ext4/hdd
"#;
    no_medium: "ext4" => @r#"
    a stack does not fit together
      ext4
      ^^^^ ext4 needs a block device below it; the stack ends here
      end it with a medium: ext4/hdd
"#;
    no_medium_below_an_image: "ext4/kvm/raw" => @r#"
    a stack does not fit together
      ext4/kvm/raw
               ^^^ raw needs a directory below it; the stack ends here
      end it with a medium: ext4/kvm/raw/ext4/hdd
"#;
    nothing_at_all: "" => @r#"
    a stack is empty
      
      ^ the stack has no layers
      a stack is layers from the application to the medium, as in ext4/kvm/raw/xfs/hdd
"#;
    an_empty_layer_between: "ext4//hdd" => @r#"
    a stack has an empty layer
      ext4//hdd
           ^ a layer is missing here
      remove the extra `/`: ext4/hdd
"#;
    an_empty_layer_before: "/ext4/hdd" => @r#"
    a stack has an empty layer
      /ext4/hdd
      ^ a layer is missing here
      remove the extra `/`: ext4/hdd
"#;
    an_empty_layer_behind: "ext4/hdd/" => @r#"
    a stack has an empty layer
      ext4/hdd/
               ^ a layer is missing here
      remove the extra `/`: ext4/hdd
"#;
    options_without_a_layer: "ext4/:cache=none/hdd" => @r#"
    a stack has an empty layer
      ext4/:cache=none/hdd
           ^ a layer is missing here
      write a layer's name before its options, as in kvm:cache=none
"#;
    an_unknown_layer_near_a_known_one: "ext4/kmv/hdd" => @r#"
    a stack has a layer that does not exist
      ext4/kmv/hdd
           ^^^ no layer is called `kmv`
      did you mean kvm? ext4/kvm/hdd
"#;
    a_file_system_that_the_lab_has_not: "ext4/kvm/raw/zfs/hdd" => @r#"
    a stack has a layer that does not exist
      ext4/kvm/raw/zfs/hdd
                   ^^^ the lab's kernel does not have the file system `zfs`
      the file systems that there are: (all)
"#;
    a_file_system_without_a_layer: "hfs/hdd" => @r#"
    a stack has a layer that does not exist
      hfs/hdd
      ^^^ Nestor has no layer for the file system `hfs`
      the file systems that there are: (all)
"#;
    an_image_format_without_a_layer: "ext4/kvm/vhd/ext4/hdd" => @r#"
    a stack has a layer that does not exist
      ext4/kvm/vhd/ext4/hdd
               ^^^ Nestor has no layer for the image format `vhd`
      the image formats that there are: (all)
"#;
    an_unknown_layer_in_capitals: "Ext4/hdd" => @r#"
    a stack has a layer that does not exist
      Ext4/hdd
      ^^^^ no layer is called `Ext4`
      did you mean ext4? ext4/hdd
"#;
    an_unknown_layer_near_none: "ext4/mainframe/hdd" => @r#"
    a stack has a layer that does not exist
      ext4/mainframe/hdd
           ^^^^^^^^^ no layer is called `mainframe`
      file systems: (all)
      image formats: (all)
      images from a source: (all)
      loop devices: (all)
      partitions: (all)
      hypervisors: (all)
      privileged domains: (all)
      network file systems: (all)
      network disks: (all)
      links: (all)
      media: (all)
"#;
    an_unclosed_brace: "ext4/{kvm/hdd" => @r#"
    a stack has a layer that does not exist
      ext4/{kvm/hdd
           ^^^^ no layer is called `{kvm`
      braces need a comma inside them and as many `}` as `{`, as in {raw,qcow2}
"#;
    spaces: "ext4 / hdd" => @r#"
    a stack has a layer that does not exist
      ext4 / hdd
      ^^^^^ no layer is called `ext4 `
      remove the spaces: ext4/hdd
"#;
    wide_characters: "日本語/hdd" => @r#"
    a stack has a layer that does not exist
      日本語/hdd
      ^^^^^^ no layer is called `日本語`
      file systems: (all)
      image formats: (all)
      images from a source: (all)
      loop devices: (all)
      partitions: (all)
      hypervisors: (all)
      privileged domains: (all)
      network file systems: (all)
      network disks: (all)
      links: (all)
      media: (all)
"#;
    wide_characters_before_the_place: "ext4/file:/日本/" => @r#"
    a medium has no usable path
      ext4/file:/日本/
                ^^^^^^ this names a directory; file needs a file
      end it with the file's name, as in file:/srv/disk.img
"#;
    control_characters: "ext4/\u{1b}[1m/hdd" => @r#"
    a stack has a layer that does not exist
      ext4/\u{1b}[1m/hdd
           ^^^^^^^^^ no layer is called `\u{1b}[1m`
      file systems: (all)
      image formats: (all)
      images from a source: (all)
      loop devices: (all)
      partitions: (all)
      hypervisors: (all)
      privileged domains: (all)
      network file systems: (all)
      network disks: (all)
      links: (all)
      media: (all)
"#;
    an_empty_option: "ext4/kvm::/hdd" => @r#"
    a layer has an empty option
      ext4/kvm::/hdd
               ^ an option is missing here
      remove the extra `:`: ext4/kvm/hdd
"#;
    an_unknown_option_near_a_known_one: "ext4/kvm:cach=none/hdd" => @r#"
    a layer has an option that does not exist
      ext4/kvm:cach=none/hdd
               ^^^^ kvm has no option `cach`
      the options of kvm are disk, cache, aio, iothread, discard, memory, available, host-memory, cpus, sched, readahead, merges, qemu, by, image, type, template, poll
      did you mean cache? ext4/kvm:cache=none/hdd
"#;
    an_unknown_option: "jfs:block=4k/hdd" => @r#"
    a layer has an option that does not exist
      jfs:block=4k/hdd
          ^^^^^ jfs has no option `block`
      the options of jfs are mount, kernel
"#;
    an_option_without_a_name: "ext4/kvm:=x/hdd" => @r#"
    a layer has an option that does not exist
      ext4/kvm:=x/hdd
               ^ the name of the option is missing
      the options of kvm are disk, cache, aio, iothread, discard, memory, available, host-memory, cpus, sched, readahead, merges, qemu, by, image, type, template, poll
"#;
    a_choice_without_its_key: "ext4/kvm:writeback/hdd" => @r#"
    a layer has an option that does not exist
      ext4/kvm:writeback/hdd
               ^^^^^^^^^ kvm has no option `writeback`
      did you mean cache=writeback? ext4/kvm:cache=writeback/hdd
"#;
    an_option_without_value: "ext4/kvm:cache/hdd" => @r#"
    an option has no value
      ext4/kvm:cache/hdd
               ^^^^^ cache needs a value
      cache takes none, writeback, writethrough, directsync or unsafe, as in: ext4/kvm:cache=none/hdd
"#;
    an_option_with_an_empty_value: "ext4/kvm:cache=/hdd" => @r#"
    an option has no value
      ext4/kvm:cache=/hdd
               ^^^^^^ cache needs a value
      cache takes none, writeback, writethrough, directsync or unsafe; the default is none
"#;
    a_value_near_an_allowed_one: "ext4/kvm:cache=non/hdd" => @r#"
    an option has an invalid value
      ext4/kvm:cache=non/hdd
                     ^^^ cache cannot be `non`
      cache takes none, writeback, writethrough, directsync or unsafe
      did you mean none? ext4/kvm:cache=none/hdd
"#;
    a_value_that_is_not_allowed: "ext4:journal=foo/hdd" => @r#"
    an option has an invalid value
      ext4:journal=foo/hdd
                   ^^^ journal cannot be `foo`
      journal takes ordered, writeback, data or none; the default is ordered
"#;
    a_size_out_of_range: "ext4/kvm:memory=10/hdd" => @r#"
    an option has an invalid value
      ext4/kvm:memory=10/hdd
                      ^^ memory cannot be `10`
      memory takes a multiple of 1M from 192M to 1T; the default is 256M
"#;
    a_size_that_is_not_a_multiple: "ext4/hdd:size=1000001" => @r#"
    an option has an invalid value
      ext4/hdd:size=1000001
                    ^^^^^^^ size cannot be `1000001`
      size takes a multiple of 4k from 1M to 64T; the default is 16G
"#;
    a_size_with_a_decimal_unit: "ext4/kvm:memory=256MB/hdd" => @r#"
    an option has an invalid value
      ext4/kvm:memory=256MB/hdd
                      ^^^^^ memory cannot be `256MB`
      memory takes a multiple of 1M from 192M to 1T; the default is 256M
"#;
    a_size_that_is_no_power_of_two: "ext4/kvm/qcow2:cluster=100k/ext4/hdd" => @r#"
    an option has an invalid value
      ext4/kvm/qcow2:cluster=100k/ext4/hdd
                             ^^^^ cluster cannot be `100k`
      cluster takes a power of two from 512 to 2M; the default is 64k
"#;
    a_number_out_of_range: "ext4/kvm:cpus=0/hdd" => @r#"
    an option has an invalid value
      ext4/kvm:cpus=0/hdd
                    ^ cpus cannot be `0`
      cpus takes a whole number from 1 to 64; the default is 1
"#;
    a_flag_that_is_neither_on_nor_off: "ext4/kvm:iothread=yes/hdd" => @r#"
    an option has an invalid value
      ext4/kvm:iothread=yes/hdd
                        ^^^ iothread cannot be `yes`
      iothread takes on or off; the default is off
"#;
    a_list_with_commas: "ext4:mount=noatime,nodiratime/hdd" => @r#"
    an option has an invalid value
      ext4:mount=noatime,nodiratime/hdd
                 ^^^^^^^^^^^^^^^^^^ mount cannot be `noatime,nodiratime`
      join the words with `+`: ext4:mount=noatime+nodiratime/hdd
"#;
    a_name_with_a_mark: "ext4/hdd:prof%ile" => @r#"
    an option has an invalid value
      ext4/hdd:prof%ile
               ^^^^^^^^ profile cannot be `prof%ile`
      profile takes a name of letters, digits, `.`, `_` and `-`
"#;
    an_option_given_twice: "ext4/hdd:size=1G:size=2G" => @r#"
    an option is given twice
      ext4/hdd:size=1G:size=2G
                       ^^^^^^^ size was already given
      keep one of them: ext4/hdd:size=1G
"#;
    a_default_given_twice: "ext4/hdd:size=16G:size=2G" => @r#"
    an option is given twice
      ext4/hdd:size=16G:size=2G
                        ^^^^^^^ size was already given
      keep one of them: ext4/hdd:size=16G
"#;
    a_relative_path: "ext4/dev:sdb" => @r#"
    a medium has no usable path
      ext4/dev:sdb
               ^^^ the path of dev must be absolute
      begin it with `/`, as in dev:/dev/sdb
"#;
    no_path: "ext4/dev" => @r#"
    a medium has no usable path
      ext4/dev
           ^^^ dev needs a path
      write it as dev:/dev/sdb
"#;
    an_empty_path: "ext4/file:" => @r#"
    a medium has no usable path
      ext4/file:
           ^^^^ file needs a path
      write it as file:/srv/disk.img
"#;
    a_path_of_a_directory: "ext4/file:/srv/" => @r#"
    a medium has no usable path
      ext4/file:/srv/
                ^^^^^ this names a directory; file needs a file
      end it with the file's name, as in file:/srv/disk.img
"#;
    a_path_with_a_control_character: "ext4/file:/srv/a\nb" => @r#"
    a medium has no usable path
      ext4/file:/srv/a\nb
                      ^^ a path cannot contain a control character here
      give the file a name without it, or make a link to it
"#;
    native_aio_through_the_page_cache: "ext4/kvm:aio=native:cache=writeback/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm:aio=native:cache=writeback/hdd
               ^^^^^^^^^^ aio=native needs a cache mode that bypasses the page cache; cache is writeback
      use cache=none or cache=directsync with aio=native, or use aio=threads or aio=io_uring
"#;
    an_iothread_for_an_emulated_controller: "ext4/kvm:iothread:disk=lsi/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm:iothread:disk=lsi/hdd
               ^^^^^^^^ lsi cannot be served by an iothread
      use disk=virtio-blk or disk=virtio-scsi with iothread, or omit iothread
"#;
    aio_that_does_not_reach_the_extents: "ext4/kvm:aio=io_uring/vmdk:subformat=monolithicFlat/xfs/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/kvm:aio=io_uring/vmdk:subformat=monolithicFlat/xfs/hdd
               ^^^^^^^^^^^^ QEMU does not use aio=io_uring for the data files of this vmdk
      use aio=threads, or subformat=monolithicSparse for the vmdk
"#;
    a_loop_device_over_a_format: "ext4/loop/qcow2/ext4/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext4/loop/qcow2/ext4/hdd
           ^^^^ loop presents the bytes of the file unchanged; qcow2 has its own format
      use raw below loop, or kvm above qcow2
"#;
}

#[test]
fn a_workload_that_needs_files_on_a_raw_disk() {
    let stack = Stack::parse("kvm:cache=writeback/hdd").unwrap();
    insta::assert_snapshot!(stack.require_directory().unwrap_err(), @r"
    a stack does not fit together
      kvm:cache=writeback/hdd
      ^^^^^^^^^^^^^^^^^^^ the workload needs a directory; kvm offers a block device
      put a file system on top: ext4/kvm:cache=writeback/hdd
    ");
    insta::assert_snapshot!(Stack::parse("raw/xfs/hdd").unwrap().require_directory().unwrap_err(), @r"
    a stack does not fit together
      raw/xfs/hdd
      ^^^ the workload needs a directory; raw offers an image
      put a virtual machine and a file system on top: ext4/kvm/raw/xfs/hdd
    ");
}

#[test]
fn every_layer_can_be_built() {
    for layer in registry().iter().filter(|layer| layer.not_buildable.is_some()) {
        assert!(layer.definition.source().is_some(), "{} cannot be built", layer.name);
    }
    for stack in
        ["ext2/kvm/raw/nfs/link/ext4/hdd", "ext2/part/kvm/nbd/link/qcow2/xfs/hdd", "ext4/nbd/kvm/link/hdd"]
    {
        Stack::parse(stack).unwrap().require_buildable().unwrap();
    }
}

#[test]
fn errors_of_other_crates_point_at_options_and_layers() {
    let stack = Stack::parse("ext4:mount=noatime/kvm/hdd:wd-re4:size=1G").unwrap();
    let profile = StackError::at_option(
        &stack,
        stack.medium_index(),
        "profile",
        "no disk is called `wd-re4`",
        "did you mean wd-re3?",
    );
    insta::assert_snapshot!(profile, @r"
    a stack cannot be used
      ext4:mount=noatime/kvm/hdd:wd-re4:size=1G
                                 ^^^^^^ no disk is called `wd-re4`
      did you mean wd-re3?
    ");
    let unset = StackError::at_option(
        &stack,
        LayerIndex::TOP.below(),
        "memory",
        "256M is too little for this",
        "give it memory=512M",
    )
    .with_summary("a machine is too small");
    insta::assert_snapshot!(unset, @r"
    a machine is too small
      ext4:mount=noatime/kvm/hdd:wd-re4:size=1G
                         ^^^ 256M is too little for this
      give it memory=512M
    ");
    insta::assert_snapshot!(StackError::at_layer(&stack, LayerIndex::TOP, "mkfs failed", ""), @r"
    a stack cannot be used
      ext4:mount=noatime/kvm/hdd:wd-re4:size=1G
      ^^^^^^^^^^^^^^^^^^ mkfs failed
    ");
}

#[test]
fn errors_are_data_too() {
    insta::assert_json_snapshot!(error("ext4/kvm/jfs/hdd"), @r#"
    {
      "kind": "type",
      "summary": "a stack does not fit together",
      "stack": "ext4/kvm/jfs/hdd",
      "span": {
        "start": 9,
        "end": 12
      },
      "message": "kvm needs a block device or an image below it; jfs offers a directory",
      "help": "put an image between them: ext4/kvm/raw/jfs/hdd",
      "suggestion": "ext4/kvm/raw/jfs/hdd"
    }
    "#);
}
