//! Sources: images that come from another machine.

mod messages;

use messages::snapshots;
use nestor_stack::layers::sourced::{OverlayOptions, ServedOver};
use nestor_stack::{Bytes, HostTime, LayerRole, Place, Propagation, Stack};

snapshots! {
    a_copy_without_a_source: "ext3/kvm/copy:scp/ext3/hdd" => @r#"
    a stack and its source do not fit together
      ext3/kvm/copy:scp/ext3/hdd
               ^^^^^^^^ copy needs a source: the image that it is made of, and where that is
      write it after the medium: ext3/kvm/copy:scp/ext3/hdd//link/raw/ext4/hdd
"#;
    a_copy_without_a_file_system: "ext3/kvm/copy:scp/hdd//link/raw/ext4/hdd" => @r#"
    a stack does not fit together
      ext3/kvm/copy:scp/hdd//link/raw/ext4/hdd
                        ^^^ copy needs a directory below it; hdd offers a block device
      put a file system between them: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_copy_that_ends_the_line: "ext3/kvm/copy:scp//link/raw/ext4/hdd" => @r#"
    a stack does not fit together
      ext3/kvm/copy:scp//link/raw/ext4/hdd
               ^^^^^^^^ copy needs a directory below it; the stack ends here
      end it with a medium: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_that_nobody_wants: "ext3/kvm/raw/ext4/hdd//link/raw/ext4/hdd" => @r#"
    a stack and its source do not fit together
      ext3/kvm/raw/ext4/hdd//link/raw/ext4/hdd
                             ^^^^^^^^^^^^^^^^^ no layer of this stack has a source: copy and overlay have one
      use copy:scp in the place of raw: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_of_a_plain_disk: "ext3/hdd//link/raw/ext4/hdd" => @r#"
    a stack and its source do not fit together
      ext3/hdd//link/raw/ext4/hdd
                ^^^^^^^^^^^^^^^^^ no layer of this stack has a source: copy and overlay have one
      end the stack at its medium: ext3/hdd
"#;
    two_that_want_the_source: "ext3/kvm/copy:scp/ext4/loop/copy:nbd/ext4/hdd//link/raw/ext4/hdd" => @r#"
    a stack and its source do not fit together
      ext3/kvm/copy:scp/ext4/loop/copy:nbd/ext4/hdd//link/raw/ext4/hdd
                                  ^^^^^^^^ a stack has one source, and that is of copy
      use an image without a source here: ext3/kvm/copy:scp/ext4/loop/raw/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_that_wants_a_source: "ext3/kvm/copy:scp/ext4/hdd//link/overlay/ext4/hdd" => @r#"
    a stack and its source do not fit together
      ext3/kvm/copy:scp/ext4/hdd//link/overlay/ext4/hdd
                                       ^^^^^^^ a stack has one source, and that is of copy
      use an image without a source here: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_without_a_link: "ext3/kvm/copy:scp/ext4/hdd//raw/ext4/hdd" => @r#"
    a stack does not fit together
      ext3/kvm/copy:scp/ext4/hdd//raw/ext4/hdd
                                  ^^^ copy needs an image over a link as its source; raw offers an image
      put a link first in the source: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_without_an_image: "ext3/kvm/copy:scp/ext4/hdd//link/ext4/hdd" => @r#"
    a stack does not fit together
      ext3/kvm/copy:scp/ext4/hdd//link/ext4/hdd
                                       ^^^^ link needs an image below it; ext4 offers a directory
      put an image between them: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_that_is_a_disk: "ext3/kvm/copy:scp/ext4/hdd//link/hdd" => @r#"
    a stack does not fit together
      ext3/kvm/copy:scp/ext4/hdd//link/hdd
                                       ^^^ link needs an image below it; hdd offers a block device
      put a file system and an image between them: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_source_without_a_medium: "ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4" => @r#"
    a stack does not fit together
      ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4
                                           ^^^^ ext4 needs a block device below it; the stack ends here
      end it with a medium: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    an_empty_source: "ext3/kvm/copy:scp/ext4/hdd//" => @r#"
    a stack has an empty layer
      ext3/kvm/copy:scp/ext4/hdd//
                                  ^ a layer is missing here
      remove the extra `/`: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_second_source: "ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd//link/raw/ext4/hdd" => @r#"
    a stack has an empty layer
      ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd//link/raw/ext4/hdd
                                                    ^ a layer is missing here
      remove the extra `/`: ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
"#;
    a_copy_in_a_guest: "ext3/kvm/copy:scp/ext4/kvm/raw/ext4/hdd//link/raw/ext4/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext3/kvm/copy:scp/ext4/kvm/raw/ext4/hdd//link/raw/ext4/hdd
               ^^^^ copy is in a guest or a client, and only the machine with the medium has a source
      put it into the machine with the medium, as in ext4/kvm/copy:scp/ext4/hdd
"#;
    a_copy_that_is_served: "ext3/nbd/link/copy:scp/ext4/hdd//link/raw/ext4/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext3/nbd/link/copy:scp/ext4/hdd//link/raw/ext4/hdd
               ^^^^ link joins a third machine to the two of a stack with a source
      use an image without a source, as in nbd/link/raw/ext4/hdd
"#;
    a_source_in_a_guest: "ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/kvm/raw/ext4/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/kvm/raw/ext4/hdd
                                                ^^^ kvm is in the source, and the repository is one machine
      put the image on a file system of the repository, as in //link/raw/ext4/hdd
"#;
    the_memory_of_the_repository: "ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd:host-memory=1G" => @r#"
    a stack has layers or options that exclude each other
      ext3/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd:host-memory=1G
                                                    ^^^^^^^^^^^^^^ host-memory is of the machine with the medium, and this is the repository
      write it at the link of the source: link:memory=…
"#;
    a_copy_with_tables_under_xen: "ext3/xen/copy:scp/ext4/hdd//link/qcow2/ext4/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext3/xen/copy:scp/ext4/hdd//link/qcow2/ext4/hdd
           ^^^ Xen's block back end reads raw images only, and qcow2 has tables of its own
      use raw, or a block device
"#;
    an_overlay_under_a_loop_device: "ext3/loop/overlay/ext4/hdd//link/raw/ext4/hdd" => @r#"
    a stack has layers or options that exclude each other
      ext3/loop/overlay/ext4/hdd//link/raw/ext4/hdd
           ^^^^ loop presents the bytes of the file unchanged; qcow2 has its own format
      use raw below loop, or kvm above qcow2
"#;
    two_slashes_where_no_source_can_be: "ext4//hdd" => @r#"
    a stack has an empty layer
      ext4//hdd
           ^ a layer is missing here
      remove the extra `/`: ext4/hdd
"#;
}

#[test]
fn a_path_ends_where_the_source_begins_and_only_there() {
    let stack = Stack::parse("ext4/kvm/copy:nbd/ext4/file:/srv/a b//link/raw/ext4/file:/srv//c").unwrap();
    let paths =
        [stack.medium(), stack.source().last().unwrap()].map(|medium| medium.path().unwrap().to_owned());
    assert_eq!(paths, ["/srv/a b", "/srv//c"].map(Into::<std::path::PathBuf>::into));
    let directories = Stack::parse("ext4/kvm/copy:nbd/dir:/srv/lab//link/raw/dir:/srv/repo").unwrap();
    let [node, repository] = [Some(directories.medium()), directories.source().last()]
        .map(|medium| medium.unwrap().path().unwrap());
    assert_eq!([node.to_str(), repository.to_str()], [Some("/srv/lab"), Some("/srv/repo")]);
    let without = Stack::parse("ext4/file:/srv//a").unwrap();
    assert_eq!((without.medium().path().unwrap().to_str(), without.source().len()), (Some("/srv//a"), 0));
}

#[test]
fn a_stack_with_a_source_says_what_it_opens() {
    let opened = |text: &str| {
        let stack = Stack::parse(text).unwrap();
        let at = stack.sourced_image().unwrap();
        (stack.layer(at).spec.propagation(), stack.opened_image(at).label(), stack.role(at))
    };
    let copy = opened("ext3/kvm/copy:scp/ext3/hdd//link/qcow2:cluster=2M/ext4/hdd");
    assert_eq!(copy, (Some(Propagation::Copy), "qcow2:cluster=2M".into(), LayerRole::Image("copy".into())));
    let overlay = opened("ext3/kvm/overlay/ext3/hdd//link/raw/ext4/hdd");
    let role = LayerRole::Image("overlay".into());
    assert_eq!(overlay, (Some(Propagation::Overlay), "qcow2".into(), role));
    let plain = Stack::parse("ext3/kvm/raw/ext3/hdd").unwrap();
    assert_eq!((plain.sourced_image(), plain.source().len()), (None, 0));
}

#[test]
fn options_are_read() {
    let stack =
        Stack::parse("ext4/kvm/overlay:over=nfs:prefetch/ext4/hdd//link:memory=2G/raw/ext4/hdd").unwrap();
    let at = stack.sourced_image().unwrap();
    assert_eq!(stack.layer(at).overlay(), Some(OverlayOptions { over: ServedOver::Nfs, prefetch: true }));
    assert_eq!(stack.memory_of(stack.repository().unwrap()), Some(Bytes::gib(2)));
    assert_eq!(stack.layer(at).copy().map(|copy| copy.transfer.name), None);
}

#[test]
fn two_stacks_with_other_sources_are_two() {
    let parse = |source: &str| Stack::parse(&format!("ext4/kvm/copy:scp/ext4/hdd//{source}")).unwrap();
    assert_ne!(parse("link/raw/ext4/hdd"), parse("link/raw/xfs/hdd"));
    assert_eq!(parse("link/raw:alloc=sparse/ext4/hdd"), parse("link:rate=1000mbit/raw/ext4/hdd"));
    let stack = parse("link/raw/xfs/hdd");
    let other = stack.with_layer(
        stack.indexed_source().next().unwrap().0,
        nestor_stack::Layer::parse("link:rate=1mbit").unwrap(),
    );
    assert_eq!(other.unwrap().to_string(), "ext4/kvm/copy:scp/ext4/hdd//link:rate=1mbit/raw/xfs/hdd");
    assert_eq!(stack.on_raw_disk().to_string(), "ext4/kvm/hdd");
    assert_eq!(stack.native().to_string(), "ext4/hdd");
}

const USERS_MEDIA: &str = "ext4/file:/srv/a.img//link/raw/ext4/file:/srv/b.img";

#[test]
fn the_two_machines_of_a_source_are_the_labs_or_the_users() {
    let in_place = |stack: &str, place: &str| {
        let stack = Stack::parse(stack).unwrap();
        stack.require_buildable().unwrap();
        stack.require_place(&place.parse::<Place>().unwrap()).map_err(|e| e.to_string())
    };
    for place in ["emulated:time=virtual", "emulated:time=real"] {
        in_place("ext4/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd", place).unwrap();
    }
    for way in
        ["copy:scp", "copy:gridftp", "copy:nbd", "copy:http:ranges=4", "copy:rsync", "overlay:prefetch"]
    {
        for place in ["this", "ssh:node,ssh:repository"] {
            in_place(&format!("ext4/kvm/{way}/{USERS_MEDIA}"), place).unwrap();
        }
    }
    let refused = |stack: &str, place: &str| in_place(stack, place).unwrap_err();
    insta::assert_snapshot!(refused("ext4/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd", "this"), @r"
    a stack cannot be used
      ext4/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd
                             ^^^ a modelled disk needs the emulated host, but this is `--on this`
      omit `--on`, or use a disk of yours: dev:/dev/… or file:/…
    ");
    insta::assert_snapshot!(refused(&format!("ext4/kvm/copy:scp/{USERS_MEDIA}"), "ssh:node"), @r"
    a stack cannot be used
      ext4/kvm/copy:scp/ext4/file:/srv/a.img//link/raw/ext4/file:/srv/b.img
                                              ^^^^ a link joins two machines, but `--on ssh:node` is one
      name both, as in `--on ssh:CLIENT,ssh:SERVER`, or use `--on emulated` or `--on this`, where the client is a network namespace
    ");
    insta::assert_snapshot!(refused(&format!("ext4/kvm/copy:multicast/{USERS_MEDIA}"), "this"), @r"
    a stack cannot be used
      ext4/kvm/copy:multicast/ext4/file:/srv/a.img//link/raw/ext4/file:/srv/b.img
               ^^^^^^^^^^^^^^ multicast sends to every machine of the network, and this is `--on this`
      use another protocol, as in copy:nbd, or `--on emulated`
    ");
    insta::assert_snapshot!(refused(&format!("ext4/kvm/overlay:over=nfs/{USERS_MEDIA}"), "ssh:a,ssh:b"), @r"
    a stack cannot be used
      ext4/kvm/overlay:over=nfs/ext4/file:/srv/a.img//link/raw/ext4/file:/srv/b.img
                            ^^^ only repositories of the lab serve an overlay over NFS
      omit it: qemu-nbd serves it; or use `--on emulated`
    ");
    insta::assert_snapshot!(refused(&format!("ext4/vmware/copy:scp/{USERS_MEDIA}"), "this"), @r"
    a stack cannot be used
      ext4/vmware/copy:scp/ext4/file:/srv/a.img//link/raw/ext4/file:/srv/b.img
           ^^^^^^ vmware does not run images that come from a source
      use kvm or tcg, or an image without a source
    ");
    let with_rate = format!("ext4/kvm/copy:scp/{}", USERS_MEDIA.replace("link", "link:rate=1mbit"));
    in_place(&with_rate, "this").unwrap();
    assert!(refused(&with_rate, "ssh:a,ssh:b").contains("rate is of links that Nestor makes"));
    let without = refused("ext4/kvm/raw/nfs/link/ext4/file:/srv/b.img", "ssh:a,ssh:b");
    assert!(without.contains("guests are not started"), "{without}");
}

/// The layers that are in the image, as they are printed.
fn in_image(stack: &str) -> Vec<String> {
    Stack::parse(stack).unwrap().layers_in_image().map(|(_, layer)| layer.to_string()).collect()
}

#[test]
fn what_is_above_an_image_up_to_a_second_machine_is_in_it() {
    let of = |above: &str| in_image(&format!("{above}/copy:nbd/ext4/hdd//link/raw/ext4/hdd"));
    assert_eq!(of("ext3/kvm"), ["ext3"]);
    assert_eq!(of("ext3/part/kvm"), ["ext3", "part"]);
    assert_eq!(of("kvm"), [""; 0]);
    assert_eq!(of("ext4/loop"), ["ext4"]);
    assert_eq!(of("ext4/kvm/raw/xfs/kvm"), ["raw", "xfs"]);
    assert_eq!(in_image("ext3/kvm/raw/ext4/hdd"), [""; 0]);
}

#[test]
fn an_overlay_is_where_reads_leave_the_node() {
    let leave = |layer: &str| {
        let stack = Stack::parse(&format!("ext3/kvm/{layer}/ext4/hdd//link/raw/ext4/hdd")).unwrap();
        stack.reads_leave_at().map(|at| stack.layer(at).to_string())
    };
    assert_eq!(leave("overlay").as_deref(), Some("overlay"));
    assert_eq!(leave("overlay:over=nfs").as_deref(), Some("overlay:over=nfs"));
    assert_eq!(leave("copy:nbd"), None);
}

#[test]
fn an_overlay_is_filled_only_behind_a_disk_that_is_plugged_in() {
    let of = |disk: &str| {
        Stack::parse(&format!("ext3/kvm:disk={disk}/overlay:prefetch/ext4/hdd//link/raw/ext4/hdd"))
    };
    assert!(of("virtio-blk").is_ok());
    let said = of("ide").unwrap_err().to_string();
    assert!(said.contains("has its disk from the start") && said.contains("^^^^^^^^"), "{said}");
}

#[test]
fn an_instance_is_one_machine_with_an_image_from_a_source() {
    let required = |stack: &str| Stack::parse(stack).unwrap().require_instances(1, 1);
    let refused = |stack: &str| required(stack).unwrap_err().to_string();
    assert!(required("ext3/kvm/copy:nbd/ext4/hdd//link/raw/ext4/hdd").is_ok());
    insta::assert_snapshot!(refused("ext3/kvm/raw/ext4/hdd"), @r"
    a stack cannot be used
      ext3/kvm/raw/ext4/hdd
                        ^^^ the life of an instance begins with its image at a repository, and this stack has no source
      put copy:scp in the place of the image, and the source behind the stack: //link/raw/ext4/hdd
    ");
    insta::assert_snapshot!(refused("ext4/loop/copy:nbd/ext4/hdd//link/raw/ext4/hdd"), @r"
    a stack cannot be used
      ext4/loop/copy:nbd/ext4/hdd//link/raw/ext4/hdd
                ^^^^^^^^ an instance is a virtual machine, and none has this image
      put kvm above it
    ");
    insta::assert_snapshot!(refused("ext4/kvm/raw/xfs/kvm/copy:nbd/ext4/hdd//link/raw/ext4/hdd"), @r"
    a stack cannot be used
      ext4/kvm/raw/xfs/kvm/copy:nbd/ext4/hdd//link/raw/ext4/hdd
           ^^^ it is in the virtual machine that has the image, and an instance is one machine
      leave it out, with the image below it
    ");
}

#[test]
fn several_instances_share_a_node_where_protocol_and_disk_permit_it() {
    let required = |stack: &str, instances| Stack::parse(stack).unwrap().require_instances(instances, 1);
    for stack in
        ["ext3/kvm/copy:nbd/ext4/hdd//link/raw/ext4/hdd", "ext3/kvm/overlay/ext4/hdd//link/raw/ext4/hdd"]
    {
        assert!(required(stack, 8).is_ok(), "{stack}");
    }
    let multicast = "ext3/kvm/copy:multicast/ext4/hdd//link/raw/ext4/hdd";
    assert!(required(multicast, 1).is_ok());
    insta::assert_snapshot!(required(multicast, 2).unwrap_err(), @r"
    a stack cannot be used
      ext3/kvm/copy:multicast/ext4/hdd//link/raw/ext4/hdd
               ^^^^^^^^^^^^^^ one node cannot receive by multicast for several instances at once
      use another protocol, as in copy:nbd, or as many nodes as instances, as in count=4:nodes=4
    ");
    let ide = "ext3/kvm:disk=ide/copy:nbd/ext4/hdd//link/raw/ext4/hdd";
    assert!(required(ide, 1).is_ok());
    insta::assert_snapshot!(required(ide, 2).unwrap_err(), @"
    a stack cannot be used
      ext3/kvm:disk=ide/copy:nbd/ext4/hdd//link/raw/ext4/hdd
           ^^^^^^^^^^^^ several instances boot at once and then get their disks, and this one has its disk from the start
      use another disk, as in disk=virtio-blk, or omit count
    ");
}

#[test]
fn several_nodes_take_what_one_cannot_and_only_an_emulated_place_has_them() {
    let stack = |text: &str| Stack::parse(text).unwrap();
    let multicast = stack("ext3/kvm/copy:multicast/ext4/hdd//link/raw/ext4/hdd");
    assert!(multicast.require_instances(4, 4).is_ok(), "each node receives once");
    assert!(multicast.require_instances(5, 4).is_err());
    let over_nfs = stack("ext3/kvm/overlay:over=nfs/ext4/hdd//link/raw/ext4/hdd");
    assert!(over_nfs.require_instances(4, 1).is_ok());
    insta::assert_snapshot!(over_nfs.require_instances(4, 2).unwrap_err(), @r"
    a stack cannot be used
      ext3/kvm/overlay:over=nfs/ext4/hdd//link/raw/ext4/hdd
               ^^^^^^^^^^^^^^^^ the directory of the image is exported to one node, and there are several
      use overlay:over=nbd, or omit nodes
    ");
    assert!(multicast.require_nodes_at(4, &Place::Emulated(HostTime::Real)).is_ok());
    assert!(multicast.require_nodes_at(1, &Place::This).is_ok());
    insta::assert_snapshot!(multicast.require_nodes_at(4, &Place::This).unwrap_err(), @r"
    a stack cannot be used
      ext3/kvm/copy:multicast/ext4/hdd//link/raw/ext4/hdd
                                   ^^^ `--on this` has no 4 nodes for its instances
      use --on emulated, or omit nodes
    ");
}

#[test]
fn a_directory_is_its_own_file_system() {
    let stack = Stack::parse("ext4/kvm/raw/dir:/srv/lab").unwrap();
    assert_eq!(stack.to_string(), "ext4/kvm/raw/dir:/srv/lab");
    stack.require_directory().unwrap();
    let refused = |stack: &str| Stack::parse(stack).unwrap_err().to_string();
    insta::assert_snapshot!(refused("ext4/dir:/srv/lab"), @r"
    a stack does not fit together
      ext4/dir:/srv/lab
           ^^^^^^^^^^^^ ext4 needs a block device below it; dir offers a directory
      put an image and a virtual machine between them: ext4/kvm/raw/dir:/srv/lab
    ");
    insta::assert_snapshot!(refused("ext4/kvm/raw/dir:/srv/lab/"), @r"
    a medium has no usable path
      ext4/kvm/raw/dir:/srv/lab/
                       ^^^^^^^^^ the path of dir ends with `/`
      end it with the directory's name, as in dir:/srv/lab
    ");
    insta::assert_snapshot!(refused("ext4/kvm/raw/dir"), @r"
    a medium has no usable path
      ext4/kvm/raw/dir
                   ^^^ dir needs a path
      write it as dir:/srv/lab
    ");
}
