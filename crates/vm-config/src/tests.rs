use nestor_stack::{DeviceKind, Link, MediumClass};
use proptest::prelude::*;

use super::*;

/// What is known of an ordinary server.
fn facts() -> HostFacts {
    HostFacts {
        under: Under {
            file_system: Some("xfs".to_owned()),
            class: Some(MediumClass { kind: DeviceKind::Flash(Link::Nvme), disks: 1 }),
            between: Vec::new(),
        },
        ..HostFacts::default()
    }
}

/// Each disk with its stack, and everything left out, but for what every stack leaves out.
fn shown(machine: &VirtualMachine, facts: &HostFacts) -> String {
    let mut text = String::new();
    for twin in twins(machine, |_| facts.clone()).unwrap() {
        text += &format!("{} {}\n", twin.disk, twin.stack);
        let of_all = |one: &&LeftOut| one.what != "the guest's file system";
        twin.left_out.iter().filter(of_all).for_each(|one| text += &format!("  {one}\n"));
    }
    let of_all = |one: &&LeftOut| !one.what.starts_with("what was plugged in");
    machine.left_out.iter().filter(of_all).for_each(|one| text += &format!("{one}\n"));
    text
}

fn arguments(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn of_qemu(text: &str) -> String {
    shown(&qemu::read("process 1", &arguments(text), None).unwrap(), &facts())
}

fn refused_by_qemu(text: &str) -> String {
    qemu::read("process 1", &arguments(text), None).unwrap_err().to_string()
}

#[test]
fn drives_are_on_the_boards_own_controller() {
    insta::assert_snapshot!(of_qemu("/srv/a.img -m 1G"), @"
    /srv/a.img ext4/tcg:disk=ide:cache=writeback:memory=1G/raw/xfs/nvme
      /srv/a.img: image format: neither said nor found out; the stack has raw
    ");
    insta::assert_snapshot!(of_qemu("-M q35 -enable-kvm -hda /srv/a.img -cdrom /srv/cd.iso"), @"
    /srv/a.img ext4/kvm:disk=ahci:cache=writeback/raw/xfs/nvme
      /srv/a.img: image format: neither said nor found out; the stack has raw
      memory of 128M: stacks cannot have memory=128M here: memory cannot be `128M`; memory takes a multiple of 1M from 192M to 1T; the default is 256M
    /srv/cd.iso: it is no hard disk
    ");
    insta::assert_snapshot!(of_qemu("-accel kvm -m 2048 -smp sockets=2,cores=2 -drive file=/srv/a,,b.qcow2,format=qcow2,if=virtio,cache=none,aio=native,discard=unmap,bps=100"), @"
    /srv/a,b.qcow2 ext4/kvm:aio=native:discard=unmap:memory=2G:cpus=4/qcow2/xfs/nvme
      /srv/a,b.qcow2: bps=100: stacks have no limits
    ");
}

#[test]
fn nodes_are_followed_to_the_file() {
    insta::assert_snapshot!(of_qemu(include_str!("../tests/data/qemu-arguments.txt")), @"
    disk0 ext4/kvm:aio=io_uring:iothread:discard=unmap:memory=4G:cpus=4/qcow2:l2-cache=8M/xfs/nvme
      disk0: num-queues=2: the stack has QEMU's own number, one for each processor
    ");
    insta::assert_snapshot!(of_qemu("-blockdev driver=raw,node-name=d,file.driver=host_device,file.filename=/dev/sdb,cache.no-flush=on -device virtio-scsi-pci,id=s,iothread=t -device scsi-hd,bus=s.0,drive=d"), @"
    d ext4/tcg:disk=virtio-scsi:cache=unsafe:iothread/nvme
      memory of 128M: stacks cannot have memory=128M here: memory cannot be `128M`; memory takes a multiple of 1M from 192M to 1T; the default is 256M
    ");
    insta::assert_snapshot!(of_qemu("-blockdev driver=throttle,node-name=d,throttle-group=g,file=q -blockdev driver=qcow2,node-name=q,file.driver=nbd -device nvme,drive=d,serial=1 -device lsi53c810"), @"
    d ext4/tcg:disk=nvme:cache=writeback/hdd
      d: throttle-group=g: stacks have no limits
      d: filter throttle: stacks have no filters
      d: a disk by nbd: stacks have nothing like it; the stack has a local disk
      memory of 128M: stacks cannot have memory=128M here: memory cannot be `128M`; memory takes a multiple of 1M from 192M to 1T; the default is 256M
    ");
}

#[test]
fn every_controller_is_the_one_that_stacks_have() {
    for (devices, disk) in [
        ("-device virtio-blk-pci,drive=d", "virtio-blk"),
        ("-device lsi,id=s -device scsi-hd,bus=s.0,drive=d", "lsi"),
        ("-device virtio-scsi-pci,id=a -device pvscsi,id=s -device scsi-hd,bus=s.0,drive=d", "pvscsi"),
        ("-device mptsas1068 -device scsi-hd,drive=d", "mptsas"),
        ("-device ich9-ahci,id=s -device ide-hd,bus=s.0,drive=d", "ahci"),
        ("-device ide-hd,bus=ide.0,drive=d", "ide"),
        ("-M q35 -device ide-hd,bus=ide.0,drive=d", "ahci"),
        ("-device nvme,serial=1,drive=d", "nvme"),
    ] {
        let line = arguments(&format!("-drive file=/srv/a,format=raw,if=none,id=d {devices}"));
        let machine = qemu::read("process 1", &line, None).unwrap();
        assert_eq!(machine.disks.len(), 1, "{devices}");
        assert_eq!(machine.disks[0].controller, Some(disk), "{devices}");
    }
}

#[test]
fn the_cache_mode_is_that_of_drive_and_device_together() {
    let mode = |cache: &str, device: &str| {
        let line = format!(
            "-m 1G -drive file=/srv/a,format=raw,if=none,id=d{cache} -device virtio-blk-pci,drive=d{device}"
        );
        let machine = qemu::read("process 1", &arguments(&line), None).unwrap();
        let (mode, is_exact) = machine.disks[0].cache.mode();
        (mode.name(), is_exact)
    };
    assert_eq!(mode("", ""), ("writeback", true));
    for name in ["none", "writeback", "writethrough", "directsync", "unsafe"] {
        assert_eq!(mode(&format!(",cache={name}"), ""), (name, true));
    }
    assert_eq!(mode(",cache=none", ",write-cache=off"), ("directsync", true));
    assert_eq!(mode(",cache=writethrough", ",write-cache=on"), ("writeback", true));
    assert_eq!(mode(",cache=writeback,cache.direct=on", ""), ("none", true));
    assert_eq!(mode(",cache=unsafe", ",write-cache=off"), ("unsafe", false));
}

#[test]
fn a_command_line_that_no_qemu_would_take_is_refused_where_it_is_wrong() {
    for (line, said) in [
        ("-m", "-m: it has no value"),
        ("-m lots", "-m lots: `lots` is no size of memory"),
        ("-smp 0", "-smp 0: cpus is no number of processors"),
        ("-drive file=/a,if=mainframe", "-drive file=/a,if=mainframe: if=mainframe is no interface"),
        ("-drive file=/a,cache=some", "-drive file=/a,cache=some: cache=some is no cache mode"),
        ("-blockdev driver=raw", "-blockdev driver=raw: it has no node-name"),
        ("-device virtio-blk-pci,drive=d", "there is neither a -blockdev nor a -drive of the name d"),
        (
            "-blockdev driver=raw,node-name=a,file=a -device nvme,drive=a",
            "more than 32 deep, or lead back to themselves",
        ),
        (
            "-blockdev driver=raw,node-name=a,file=b -device nvme,drive=a",
            "there is no -blockdev with node-name=b",
        ),
    ] {
        let refused = refused_by_qemu(line);
        assert!(refused.starts_with("process 1: ") && refused.contains(said), "{line}: {refused}");
    }
}

#[test]
fn memory_is_read_as_qemu_writes_it() {
    let memory = |text: &str| qemu::read("x", &arguments(&format!("-m {text}")), None).unwrap().memory;
    use nestor_stack::Bytes;
    assert_eq!(memory("2048"), Some(Bytes::gib(2)));
    assert_eq!(memory("0.5G"), Some(Bytes::mib(512)));
    assert_eq!(memory("size=1g,slots=2"), Some(Bytes::gib(1)));
    assert_eq!(memory("0x400"), Some(Bytes::gib(1)));
}

#[test]
fn a_qemu_is_known_by_its_programs_name() {
    for program in
        ["/usr/bin/qemu-system-x86_64", "qemu-kvm", "/usr/bin/kvm", "/opt/q/qemu-system-x86_64 (deleted)"]
    {
        assert!(qemu::is_qemu(program), "{program}");
    }
    for program in ["qemu-img", "/usr/bin/qemu-nbd", "bash", "", "/usr/bin/qemu-x86_64"] {
        assert!(!qemu::is_qemu(program), "{program}");
    }
}

const STORAGE_CFG: &str = include_str!("../tests/data/storage.cfg");

const CONFIG: &str = include_str!("../tests/data/100.conf");

fn of_proxmox(text: &str) -> Result<String, ConfigError> {
    let storages = proxmox::Storages::parse("storage.cfg", STORAGE_CFG).unwrap();
    Ok(shown(&proxmox::read("100.conf", text, Some(&storages))?, &facts()))
}

#[test]
fn a_machine_of_proxmox_has_a_stack_for_each_disk() {
    let shared = of_proxmox("virtiofs0: dirid=share").unwrap();
    assert!(shared.starts_with("virtiofs0: dirid=share: stacks have no directories of the host"), "{shared}");
    insta::assert_snapshot!(of_proxmox(CONFIG).unwrap(), @"
    scsi0 ext4/kvm:disk=virtio-scsi:cache=writeback:aio=io_uring:iothread:discard=unmap:memory=4G:cpus=4/nvme
      scsi0: LVM's thin provisioning: the stack has the disk itself
    scsi1 ext4/kvm:disk=virtio-scsi:aio=io_uring:memory=4G:cpus=4/qcow2/xfs/nvme
      scsi1: iops_rd=100: stacks have no limits
    virtio0 ext4/kvm:aio=native:memory=4G:cpus=4/raw/nfs/link/ext4/hdd
      virtio0: the server: what it has is not known from here; the stack has ext4 on a hard disk, and a link as it is without options
    balloon: 1024: the stack's guest has all of its memory
    efidisk0: it has the firmware's data and no guest's
    ide2: it is no hard disk
    ");
    insta::assert_snapshot!(of_proxmox("kvm: 0\nide0: /dev/disk/by-id/ata-1\nsata1: tank:vm-1-disk-0,cache=none\nscsi0: san:vm-1-disk-1,cache=writethrough\nscsi2: ceph:vm-1-disk-2\nscsihw: megasas\nargs: -cpu max\n[PENDING]\ncores: 9").unwrap(), @"
    ide0 ext4/tcg:disk=ide:aio=io_uring:memory=512M/nvme
    sata1 ext4/tcg:disk=ahci:aio=io_uring:memory=512M/nvme
      sata1: ZFS: the stack has the disk itself
    scsi0 ext4/tcg:cache=writethrough:memory=512M/nvme
      scsi0: LVM: the stack has the disk itself
    scsi2 ext4/tcg:aio=io_uring:memory=512M/hdd
      scsi2: a volume of a storage of the type rbd: stacks have nothing like it; the stack has a local disk
    scsihw: megasas: stacks have none like it; the stack has virtio-blk
    args: -cpu max: arguments for QEMU itself are not read
    changes that are pending: the machine has them after its next start
    ");
}

#[test]
fn without_storages_a_volumes_name_says_what_it_is() {
    let machine =
        proxmox::read("100.conf", "scsi0: fast:vm-1-disk-0\nscsi1: slow:1/vm-1-disk-1.vmdk", None).unwrap();
    insta::assert_snapshot!(shown(&machine, &facts()), @"
    scsi0 ext4/kvm:disk=lsi:aio=io_uring:memory=512M/nvme
      scsi0: storage fast: there is no /etc/pve/storage.cfg here; by its volume's name it is a block device (--storages FILE)
    scsi1 ext4/kvm:disk=lsi:aio=io_uring:memory=512M/vmdk/xfs/nvme
      scsi1: storage slow: there is no /etc/pve/storage.cfg here; by its volume's name it is a directory (--storages FILE)
    ");
}

#[test]
fn what_is_wrong_with_a_configuration_is_said_with_its_line() {
    let refused = |text: &str| of_proxmox(text).unwrap_err().to_string();
    insta::assert_snapshot!(refused("cores: 1\nscsi0: fast:vm-1-disk-0"), @"
    100.conf:2: scsi0: storage.cfg has no storage `fast`; it has ceph, local, local-lvm, nas, san, tank
      Nestor reads /etc/pve/qemu-server/VMID.conf as Proxmox VE writes it, and what `qm config VMID` prints
    ");
    for (text, said) in [
        ("cores 2", "100.conf:1: `cores 2` is no `key: value`"),
        ("cores: two", "100.conf:1: cores: `two` is no number above 0"),
        ("\ncores: 2\ncores: 3", "100.conf:3: `cores` is already in line 2"),
        ("memory: much", "100.conf:1: memory: `much` is no number of MiB"),
        ("kvm: maybe", "100.conf:1: kvm: `maybe` is neither 0 nor 1"),
        ("scsi0: x,cache=none", "100.conf:1: scsi0: `x` is neither a path nor a volume"),
        ("scsi0: local:a,cache=some", "100.conf:1: scsi0: cache=some is no cache mode"),
        ("scsi0: local:a,aio=posix", "100.conf:1: scsi0: aio=posix is neither"),
        ("scsi0: local:a,iothread=2", "100.conf:1: scsi0: iothread=2 is neither 0 nor 1"),
        ("scsi0: cache=none", "100.conf:1: scsi0: it names no volume"),
    ] {
        assert!(refused(text).starts_with(said), "{}", refused(text));
    }
    let refused = |text: &str| proxmox::Storages::parse("storage.cfg", text).unwrap_err().to_string();
    assert!(refused("\tpath /x").starts_with("storage.cfg:1: `path /x` is a property of no storage"));
    assert!(refused("dir: a\n\tpath /x\nwhat").starts_with("storage.cfg:3: `what` is neither"));
    assert!(refused("dir:").starts_with("storage.cfg:1: the storage of type `dir` has no name"));
}

const DOMAIN: &str = include_str!("../tests/data/domain.xml");

#[test]
fn a_domain_of_libvirt_has_a_stack_for_each_disk() {
    insta::assert_snapshot!(shown(&libvirt::read("a.xml", DOMAIN).unwrap(), &facts()), @"
    vda ext4/kvm:aio=native:iothread:discard=unmap:memory=2G:cpus=2/qcow2/xfs/nvme
      vda: <iotune>: stacks have no limits
    sda ext4/kvm:disk=virtio-scsi:cache=writeback:iothread:memory=2G:cpus=2/nvme
    vdb ext4/kvm:cache=writeback:memory=2G:cpus=2/hdd
      vdb: a disk by rbd: stacks have nothing like it; the stack has a local disk
    hda: it is no hard disk
    ");
    let refused = |text: &str| libvirt::read("a.xml", text).unwrap_err().to_string();
    insta::assert_snapshot!(refused("<network/>"), @"
    a.xml:1: its first element is <network>, and it has no <domain>
      Nestor reads the XML of a domain, as `virsh dumpxml NAME` prints it
    ");
    assert!(refused("<domain>\n<a></b></domain>").starts_with("a.xml:2: it is no XML"));
    assert!(
        refused(&DOMAIN.replace("cache='none'", "cache='some'")).starts_with("a.xml:6: vda: cache='some'")
    );
    assert!(refused(&DOMAIN.replace("GiB", "gallons")).starts_with("a.xml:3: <memory>: `2` is no size"));
    assert!(refused(&"<domain>".repeat(100_000)).contains("nested deeper"));
}

/// A domain of this type with a disk, further elements and an operating system.
fn of_libvirt(kind: &str, disk: &str, others: &str, os: &str) -> String {
    let domain = format!(
        "<domain type='{kind}'><memory unit='GiB'>2</memory><os><type>{os}</type></os><devices>{disk}{others}</devices></domain>"
    );
    shown(&libvirt::read("a.xml", &domain).unwrap(), &facts())
}

const IMAGE: &str =
    "<disk type='file'><driver type='raw'/><source file='/srv/a'/><target dev='xvda' bus='xen'/></disk>";

#[test]
fn what_stacks_have_not_of_a_disk_is_said() {
    let disk = "<disk type='file' device='lun'><driver type='qcow2'/><source file='/srv/a'><encryption format='luks'/></source>\
                <backingStore type='file'><source file='/srv/base'/><backingStore/></backingStore><target dev='vda' bus='virtio'/>\
                <blockio logical_block_size='4096'/><shareable/></disk>";
    let others = "<hostdev/><hostdev/><filesystem type='mount'><driver type='virtiofs'/></filesystem><emulator>/opt/qemu</emulator>\
                  </devices><currentMemory unit='GiB'>1</currentMemory><devices>";
    insta::assert_snapshot!(of_libvirt("kvm", disk, others, "hvm"), @"
    vda ext4/kvm:cache=writeback:memory=2G/qcow2/xfs/nvme
      vda: device='lun': the stack has a disk that passes no SCSI commands on
      vda: <encryption>: the stack has an image that is not encrypted
      vda: <blockio>: the stack's disk has blocks of its own size
      vda: <shareable>: one machine alone has the stack's disk
      vda: backing image /srv/base: the stack has an image of its own, without one below it
    <currentMemory> of 1G: the stack's guest has all of its memory
    <hostdev>, 2 of them: stacks have no devices that are passed on
    <filesystem>: stacks have no directories of the host in the guest
    <emulator> /opt/qemu: the stack has the lab's QEMU; `nestor lab qemu` adds another
    ");
    let usual = of_libvirt("kvm", "", "<emulator>/usr/bin/qemu-system-x86_64</emulator>", "hvm");
    assert_eq!(usual, "");
}

#[test]
fn an_nvme_disk_of_the_host_is_one_in_the_stack() {
    let disk = "<disk type='nvme'><source type='pci'><address bus='0x01'/></source><target dev='vda' bus='virtio'/></disk>";
    insta::assert_snapshot!(of_libvirt("kvm", disk, "", "hvm"), @"
    vda ext4/kvm:cache=writeback:memory=2G/nvme
      vda: a disk of the type nvme: QEMU drives it itself; the stack's host has a driver for it
    ");
    let line = "-accel kvm -m 1G -blockdev driver=nvme,node-name=d,device=0000:01:00.0,namespace=1 -device virtio-blk-pci,drive=d";
    assert!(of_qemu(line).starts_with("d ext4/kvm:cache=writeback:memory=1G/nvme\n"), "{}", of_qemu(line));
}

#[test]
fn a_domain_of_xen_has_the_layer_of_xen() {
    insta::assert_snapshot!(of_libvirt("xen", IMAGE, "", "linux"), @"xvda ext4/xen:memory=2G/raw/xfs/nvme");
    insta::assert_snapshot!(of_libvirt("xen", IMAGE, "", "xenpvh"), @"xvda ext4/xen:guest=pvh:memory=2G/raw/xfs/nvme");
    insta::assert_snapshot!(of_libvirt("xen", &IMAGE.replace("raw", "qcow2"), "", "hvm"), @"
    xvda ext4/xen:guest=pvh:memory=2G/raw/xfs/nvme
      xvda: image format qcow2: Xen's block back end reads raw images only; the stack has raw
    a domain of the type hvm: stacks have no devices that QEMU emulates for Xen; the stack has guest=pvh
    ");
    assert!(of_libvirt("lxc", "", "", "exe").contains("hypervisor lxc: stacks have none like it"));
}

#[test]
fn images_are_as_qemu_img_describes_them() {
    let image = image_facts(include_str!("../tests/data/image.json")).unwrap();
    let machine = qemu::read("x", &arguments("-m 1G -hda /srv/a"), None).unwrap();
    let facts = HostFacts { image: Some(image), ..facts() };
    insta::assert_snapshot!(shown(&machine, &facts), @"
    /srv/a ext4/tcg:disk=ide:cache=writeback:memory=1G/qcow2:cluster=128k:prealloc=full:lazy-refcounts/xfs/nvme
      /srv/a: backing image base.qcow2: the stack has an image of its own, without one below it
    ");
    assert!(image_facts("qemu-img: Could not open").is_err());
}

#[test]
fn what_is_not_known_of_the_host_is_said() {
    let machine = qemu::read("x", &arguments("-m 1G -hda /srv/a"), None).unwrap();
    let unknown =
        HostFacts { unknown: vec!["/srv/a is not on this machine".to_owned()], ..HostFacts::default() };
    insta::assert_snapshot!(shown(&machine, &unknown), @"
    /srv/a ext4/tcg:disk=ide:cache=writeback:memory=1G/raw/ext4/hdd
      /srv/a: /srv/a is not on this machine
      /srv/a: the kind of the host's disk: not known; the stack has a hard disk
      /srv/a: image format: neither said nor found out; the stack has raw
      /srv/a: the host's file system: not known; the stack has ext4
    ");
    let several = Under {
        file_system: Some("bcachefs".to_owned()),
        class: Some(MediumClass { kind: DeviceKind::Flash(Link::Sata), disks: 2 }),
        between: vec!["crypt".to_owned(), "raid1".to_owned()],
    };
    insta::assert_snapshot!(shown(&machine, &HostFacts { under: several, ..HostFacts::default() }), @"
    /srv/a ext4/tcg:disk=ide:cache=writeback:memory=1G/raw/ext4/ssd
      /srv/a: 2 disks below it: the stack has one
      /srv/a: crypt: between disk and virtual disk; the stack has no such layer
      /srv/a: raid1: between disk and virtual disk; the stack has no such layer
      /srv/a: image format: neither said nor found out; the stack has raw
      /srv/a: the host's file system bcachefs: stacks have no such file system; the stack has ext4
    ");
    let nas = Under { file_system: Some("nfs4".to_owned()), ..Under::default() };
    insta::assert_snapshot!(shown(&machine, &HostFacts { under: nas, ..HostFacts::default() }), @"
    /srv/a ext4/tcg:disk=ide:cache=writeback:memory=1G/raw/nfs/link/ext4/hdd
      /srv/a: image format: neither said nor found out; the stack has raw
      /srv/a: the server: what it has is not known from here; the stack has ext4 on a hard disk, and a link as it is without options
    ");
}

/// Words of which command lines are made.
const WORDS: &[&str] = &[
    "-m",
    "-smp",
    "-drive",
    "-blockdev",
    "-device",
    "-M",
    "-accel",
    "-hda",
    "-snapshot",
    "q35",
    "pc,accel=kvm",
    "2G",
    "100T",
    "3",
    "file=/a,if=virtio",
    "file=/a,if=none,id=d,cache=none,aio=native",
    "file=nbd:unix:/a",
    "file=json:{\"driver\":\"file\",\"filename\":\"/a\"}",
    "driver=file,node-name=f,filename=/a",
    "driver=vmdk,node-name=d,file=f",
    "driver=qcow2,node-name=d,file=f,l2-cache-size=7",
    "virtio-blk-pci,drive=d,iothread=t",
    "lsi,id=s",
    "scsi-hd,bus=s.0,drive=d",
    "nvme,drive=d",
    "usb-storage,drive=d",
    "file=/a,format=qed,aio=io_uring,cache=writethrough",
];

proptest! {
    #[test]
    fn whatever_is_read_of_a_command_line_is_a_stack(words in prop::collection::vec(prop::sample::select(WORDS), 0..14)) {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if let Ok(machine) = qemu::read("x", &words, None) {
            let made = twins(&machine, |_| facts()).unwrap();
            prop_assert_eq!(made.len(), machine.disks.len());
            for twin in made {
                prop_assert!(twin.stack.require_buildable().is_ok(), "{}", twin.stack);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}", words in prop::collection::vec(".{0,20}", 0..6)) {
        let _ = qemu::read("x", &words, Some(true));
        let _ = proxmox::read("x", &text, None);
        let _ = proxmox::Storages::parse("x", &text);
        let _ = libvirt::read("x", &text);
        let _ = image_facts(&text);
    }

    #[test]
    fn a_disk_of_proxmox_is_a_stack_whatever_its_options(
        bus in prop::sample::select(vec!["scsi0", "virtio3", "sata1", "ide0"]),
        hardware in prop::sample::select(vec!["lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"]),
        cache in prop::sample::select(vec!["none", "writeback", "writethrough", "directsync", "unsafe"]),
        aio in prop::sample::select(vec!["", ",aio=native", ",aio=threads", ",aio=io_uring"]),
        iothread in 0..2_u8,
        memory in 1..9_000_000_u64,
        cores in 1..200_u64,
    ) {
        let text = format!("{bus}: local:1/vm-1-disk-0.qcow2,cache={cache}{aio},iothread={iothread}\nscsihw: {hardware}\nmemory: {memory}\ncores: {cores}");
        let machine = proxmox::read("x", &text, None).unwrap();
        let made = twins(&machine, |_| facts()).unwrap();
        prop_assert!(made[0].stack.require_buildable().is_ok());
        let cache = if cache == "none" { String::new() } else { format!(":cache={cache}") };
        prop_assert!(made[0].stack.to_string().contains(&cache), "{}", made[0].stack);
    }
}
