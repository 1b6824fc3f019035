//! What is pasted.

use nestor_stack::registry;

use super::*;

fn stack(text: &str) -> Stack {
    Stack::parse(text).unwrap()
}

/// Whether all tags are closed in order, with nothing around one root element.
fn is_well_formed(xml: &str) -> bool {
    let mut rest = xml.trim();
    let mut open: Vec<&str> = Vec::new();
    let mut roots = 0;
    while let Some(start) = rest.find('<') {
        if open.is_empty() && !rest[..start].trim().is_empty() {
            return false;
        }
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            let Some(end) = comment.find("--") else { return false };
            let Some(after) = comment[end..].strip_prefix("-->") else { return false };
            rest = after;
            continue;
        }
        let Some(end) = rest.find('>') else { return false };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if let Some(closed) = tag.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return false;
            }
            continue;
        }
        roots += usize::from(open.is_empty());
        if !tag.matches('\'').count().is_multiple_of(2) {
            return false;
        }
        if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default());
        }
    }
    open.is_empty() && roots == 1 && rest.trim().is_empty()
}

#[test]
fn the_checker_of_xml_sees_what_is_wrong() {
    assert!(is_well_formed("<!-- x --><a b='c'><d/></a>"));
    for wrong in ["<a>", "<a></b>", "<a/><b/>", "<!-- a -- b --><a/>", "<a b='c/>", "text<a/>"] {
        assert!(!is_well_formed(wrong), "{wrong}");
    }
}

#[test]
fn libvirt_has_one_disk() {
    insta::assert_snapshot!(libvirt_xml(&stack("ext4/kvm:aio=native:discard=unmap/raw/xfs/hdd")).unwrap(), @"
    <!-- ext4/kvm:aio=native:discard=unmap/raw/xfs/hdd, below <devices> of the domain -->
    <!-- /srv/images/vm.raw is a placeholder for the path of your image -->
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native' discard='unmap'/>
      <source file='/srv/images/vm.raw'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    ");
    insta::assert_snapshot!(libvirt_xml(&stack("ext4/kvm:disk=virtio-scsi:cache=writeback:iothread:sched=bfq/qcow2:l2-cache=8M/xfs/hdd")).unwrap(), @"
    <!-- ext4/kvm:disk=virtio-scsi:cache=writeback:iothread:sched=bfq/qcow2:l2-cache=8M/xfs/hdd, below <devices> of the domain -->
    <!-- /srv/images/vm.qcow2 is a placeholder for the path of your image -->
    <!-- also below <domain>: <iothreads>1</iothreads> -->
    <!-- also below <devices>: <controller type='scsi' index='0' model='virtio-scsi'><driver iothread='1'/></controller> -->
    <!-- also in the guest: echo bfq > /sys/block/sda/queue/scheduler -->
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='writeback' io='threads' discard='ignore'>
        <metadata_cache>
          <max_size unit='bytes'>8388608</max_size>
        </metadata_cache>
      </driver>
      <source file='/srv/images/vm.qcow2'/>
      <target dev='sda' bus='scsi'/>
    </disk>
    ");
    insta::assert_snapshot!(libvirt_xml(&stack("ext4/kvm/hdd")).unwrap(), @"
    <!-- ext4/kvm/hdd, below <devices> of the domain -->
    <!-- /dev/YOUR-DISK is a placeholder for your disk -->
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='threads' discard='ignore'/>
      <source dev='/dev/YOUR-DISK'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    ");
    insta::assert_snapshot!(libvirt_xml(&stack("ext4/kvm:disk=nvme/raw/xfs/hdd")).unwrap_err(), @"
    ext4/kvm:disk=nvme/raw/xfs/hdd cannot be written in this form: libvirt has no disk bus for the emulated controller nvme in most versions in use
      use --as qemu
    ");
}

#[test]
fn a_name_that_xml_would_change_is_refused() {
    let error = libvirt_xml(&stack("ext4/kvm/dev:/dev/disk\u{200e}1")).unwrap_err();
    assert!(error.to_string().contains("XML or a reader would lose"), "{error}");
}

#[test]
fn libvirt_xml_is_well_formed_whatever_the_stack() {
    let alternatives = "ext4/kvm:disk={virtio-blk,virtio-scsi,lsi,mptsas,pvscsi,ahci,ide}:cache={none,writeback,writethrough,directsync,unsafe}/{raw,qcow2:l2-cache=1M,vmdk,vdi,qed}/xfs/hdd";
    for stack in nestor_stack::parse_all(alternatives).unwrap() {
        let xml = libvirt_xml(&stack).unwrap();
        assert!(is_well_formed(&xml), "{xml}");
    }
}

#[test]
fn qemu_opens_the_disk_as_it_was_measured() {
    insta::assert_snapshot!(qemu_command(&stack("ext4/kvm:aio=native:iothread/qcow2:l2-cache=8M/xfs/hdd")).unwrap(), @r"
    # /srv/images/vm.qcow2 is a placeholder for the path of your image
    # add your system disk, network and console
    qemu-system-x86_64 \
      -machine pc \
      -accel kvm \
      -m 256M \
      -smp 1 \
      -object iothread,id=iothread-disk \
      -blockdev driver=file,node-name=disk-file,filename=/srv/images/vm.qcow2,aio=native,cache.direct=on,cache.no-flush=off,discard=ignore \
      -blockdev driver=qcow2,node-name=disk,file=disk-file,cache.direct=on,cache.no-flush=off,discard=ignore,l2-cache-size=8388608 \
      -device driver=virtio-blk-pci,id=disk0,drive=disk,serial=vm-disk,write-cache=on,rerror=report,werror=report,iothread=iothread-disk
    ");
    insta::assert_snapshot!(qemu_command(&stack("ext4/kvm:disk=ahci:cache=writethrough/dev:/dev/sdb")).unwrap(), @r"
    # add your system disk, network and console
    qemu-system-x86_64 \
      -machine q35 \
      -accel kvm \
      -m 256M \
      -smp 1 \
      -blockdev driver=host_device,node-name=disk,filename=/dev/sdb,aio=threads,cache.direct=off,cache.no-flush=off,discard=ignore \
      -device driver=ich9-ahci,id=controller \
      -device driver=ide-hd,id=disk0,drive=disk,serial=vm-disk,write-cache=off,rerror=report,werror=report,bus=controller.0,unit=0
    ");
}

#[test]
fn file_systems_are_made_without_force() {
    insta::assert_snapshot!(mkfs_lines(&stack("ext4:journal=data/kvm:sched=bfq/qcow2:cluster=128k:prealloc=metadata/btrfs:nocow/hdd:readahead=1M")).unwrap(), @"
    # ext4:journal=data/kvm:sched=bfq/qcow2:cluster=128k:prealloc=metadata/btrfs:nocow/hdd:readahead=1M
    # on the host
    # /dev/YOUR-DISK is a placeholder for your disk; mkfs destroys its contents
    mkfs.btrfs /dev/YOUR-DISK
    mkdir -p /srv/images
    mount -t btrfs /dev/YOUR-DISK /srv/images
    chattr +C /srv/images    # before making any file there
    # /srv/images/vm.qcow2 is a placeholder for the path of your image, and 64 GiB for its size
    qemu-img create -f qcow2 -o cluster_size=131072,preallocation=metadata /srv/images/vm.qcow2 68719476736
    echo 1024 > /sys/block/YOUR-DISK/queue/read_ahead_kb
    # in the guest
    # /dev/vdb is a placeholder for the guest's disk; mkfs destroys its contents
    mke2fs -t ext4 /dev/vdb
    mkdir -p /srv/data
    mount -t ext4 -o data=journal /dev/vdb /srv/data
    echo bfq > /sys/block/vdb/queue/scheduler
    ");
    insta::assert_snapshot!(mkfs_lines(&stack("reiserfs/kvm/hdd")).unwrap(), @"
    # reiserfs/kvm/hdd
    # in the guest
    # /dev/vdb is a placeholder for the guest's disk; mkfs destroys its contents
    mkfs.reiserfs /dev/vdb
    mkdir -p /srv/data
    mount -t reiserfs /dev/vdb /srv/data
    ");
    insta::assert_snapshot!(mkfs_lines(&stack("ext4/kvm/hdd:sched=bfq")).unwrap(), @"
    # ext4/kvm/hdd:sched=bfq
    # on the host
    # /dev/YOUR-DISK is a placeholder for your disk
    echo bfq > /sys/block/YOUR-DISK/queue/scheduler
    # in the guest
    # /dev/vdb is a placeholder for the guest's disk; mkfs destroys its contents
    mke2fs -t ext4 /dev/vdb
    mkdir -p /srv/data
    mount -t ext4 /dev/vdb /srv/data
    ");
    let own = mkfs_lines(&stack("ext4/kvm/raw/xfs/dev:/dev/sdb")).unwrap();
    assert!(own.contains("mkfs.xfs /dev/sdb") && !own.contains("YOUR-DISK"), "{own}");
    let file_systems = registry().iter().filter(|layer| layer.mkfs_program().is_some());
    let names = file_systems.map(|layer| layer.name).collect::<Vec<_>>().join(",");
    for stack in nestor_stack::parse_all(&format!("{{{names}}}/kvm/raw/{{{names}}}/hdd")).unwrap() {
        let lines = mkfs_lines(&stack).unwrap();
        let mut mkfs = lines.lines().filter(|line| line.starts_with("mk") && !line.starts_with("mkdir"));
        assert!(mkfs.all(|line| !line.contains(" -f ") && !line.contains(" -F ")), "{lines}");
    }
}

#[test]
fn what_cannot_be_written_is_said() {
    let error = |text: &str| qemu_command(&stack(text)).unwrap_err().to_string();
    insta::assert_snapshot!(error("ext4/hdd"), @"
    ext4/hdd cannot be written in this form: it has no virtual machine
      use a stack like ext4/kvm/raw/xfs/hdd: a guest, one virtual machine, an image on a host's file system
    ");
    insta::assert_snapshot!(error("ext4/kvm/raw/xfs/kvm/raw/xfs/hdd"), @"
    ext4/kvm/raw/xfs/kvm/raw/xfs/hdd cannot be written in this form: there is more than an image and a file system below the virtual machine
      use a stack like ext4/kvm/raw/xfs/hdd: a guest, one virtual machine, an image on a host's file system
    ");
    insta::assert_snapshot!(mkfs_lines(&stack("ext4/kvm/raw:alloc=scattered/xfs/hdd")).unwrap_err(), @"
    ext4/kvm/raw:alloc=scattered/xfs/hdd cannot be written in this form: only the laboratory makes raw:alloc=scattered; no other tool can
      use alloc=sparse, falloc or full
    ");
}
