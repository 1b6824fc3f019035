//! libvirt's own schema takes the disks. Where `virt-xml-validate` is not installed there is nothing to ask.

use std::process::Command;

use nestor_advise::paste::libvirt_xml;
use nestor_stack::parse_all;

fn domain(disk: &str) -> String {
    format!(
        "<domain type='kvm'><name>vm</name><memory unit='MiB'>512</memory><iothreads>1</iothreads>\
         <os><type>hvm</type></os><devices>{disk}</devices></domain>"
    )
}

fn validate(xml: &str) -> Option<Result<(), String>> {
    // The validator is a script that calls this; Debian has them in two packages.
    Command::new("xmllint").arg("--version").output().ok()?;
    let file = tempfile::NamedTempFile::with_suffix(".xml").expect("a temporary file can be made");
    std::fs::write(file.path(), xml).expect("it can be written to");
    let output = Command::new("virt-xml-validate").arg(file.path()).arg("domain").output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) })
}

#[test]
fn disks_are_valid() {
    let alternatives = "ext4/kvm:disk={virtio-blk,virtio-scsi,lsi,mptsas,pvscsi,ahci,ide}:cache={none,writeback,writethrough,directsync,unsafe}/{raw,qcow2:l2-cache=1M,vmdk,vdi,qed}/xfs/hdd";
    let more = "ext4/kvm:iothread:aio={threads,native,io_uring}:discard={ignore,unmap}/{raw/xfs/hdd,hdd,dev:/dev/sdb}";
    for stack in [alternatives, more].iter().flat_map(|text| parse_all(text).expect("stacks")) {
        let xml = domain(&libvirt_xml(&stack).expect("the stack can be written"));
        match validate(&xml) {
            Some(Ok(())) => {}
            Some(Err(said)) => panic!("{stack}: {said}\n{xml}"),
            None => {
                eprintln!("virt-xml-validate is not installed, so it is not asked");
                return;
            }
        }
    }
}

#[test]
fn what_is_wrong_is_refused() {
    if let Some(verdict) =
        validate(&domain("<disk type='file'><target dev='vda' bus='virtio' cache='no'/></disk>"))
    {
        assert!(verdict.is_err(), "so that the test above can fail");
    }
}
