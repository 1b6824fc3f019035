//! The description of a machine: pure, from a [`Plan`]. Lines of a name and a value in quotation marks.

use crate::hosted::Plan;
use crate::refusal::{Cause, Refusal};

/// The version of the virtual hardware: of Workstation 14, which is the first with an NVMe controller, and which all later ones run.
const HARDWARE: &str = "14";

/// The text of the file.
///
/// # Errors
/// A path has a character that it cannot carry.
pub fn of(plan: &Plan<'_>) -> Result<String, Refusal> {
    let lines = [machine(plan), boot_disks(plan), data_disk(plan), serial_ports(plan)].concat();
    let mut text = String::from(".encoding = \"UTF-8\"\n");
    for (name, value) in lines {
        if value.contains(|c: char| c == '"' || c == '|' || c.is_control()) {
            let message = format!(
                "{value:?} has a character that the description of a machine cannot carry; use another path"
            );
            return Err(Refusal::new(Cause::NotSupported, message));
        }
        text.push_str(&format!("{name} = \"{value}\"\n"));
    }
    Ok(text)
}

type Lines = Vec<(String, String)>;

fn lines(prefix: &str, pairs: &[(&str, &str)]) -> Lines {
    pairs.iter().map(|(name, value)| (format!("{prefix}{name}"), (*value).to_owned())).collect()
}

/// Nothing that a lab machine has no use for. A machine that was made a moment ago has no earlier place or state to ask the user about.
fn machine(plan: &Plan<'_>) -> Lines {
    let (memory, cpus) = (plan.memory_mib().to_string(), plan.spec.cpus.to_string());
    lines(
        "",
        &[
            ("config.version", "8"),
            ("virtualHW.version", HARDWARE),
            ("displayName", &plan.identity.name),
            ("guestOS", "debian10-64"),
            ("uuid.action", "create"),
            ("memsize", &memory),
            ("numvcpus", &cpus),
            ("firmware", "bios"),
            ("bios.bootOrder", "cdrom"),
            ("floppy0.present", "FALSE"),
            ("ethernet0.present", "FALSE"),
            ("sound.present", "FALSE"),
            ("usb.present", "FALSE"),
            ("vmci0.present", "FALSE"),
            ("mks.enable3d", "FALSE"),
            ("pciBridge0.present", "TRUE"),
            ("pciBridge4.present", "TRUE"),
            ("pciBridge4.virtualDev", "pcieRootPort"),
            ("pciBridge4.functions", "8"),
            ("powerType.powerOff", "hard"),
        ],
    )
}

/// On the bus that the layer's disk is not on. Of the root nothing is written: what the machine writes is gone with it.
fn boot_disks(plan: &Plan<'_>) -> Lines {
    let (disc, root) = (plan.disc.display().to_string(), plan.root.display().to_string());
    let (controller, places) = if plan.disk.bus == "sata" {
        ("ide0", ["ide0:0", "ide0:1"])
    } else {
        ("sata0", ["sata0:0", "sata0:1"])
    };
    let drive = [
        ("present", "TRUE"),
        ("deviceType", "cdrom-image"),
        ("fileName", &*disc),
        ("startConnected", "TRUE"),
    ];
    let disk = [("present", "TRUE"), ("fileName", &*root), ("mode", "independent-nonpersistent")];
    [
        lines(&format!("{controller}."), &[("present", "TRUE")]),
        lines(&format!("{}.", places[0]), &drive),
        lines(&format!("{}.", places[1]), &disk),
    ]
    .concat()
}

fn data_disk(plan: &Plan<'_>) -> Lines {
    let controller = format!("{}0", plan.disk.bus);
    let medium = plan.medium.display().to_string();
    let mut all = lines(&format!("{controller}."), &[("present", "TRUE")]);
    if !plan.disk.model.is_empty() {
        all.extend(lines(&format!("{controller}."), &[("virtualDev", &plan.disk.model)]));
    }
    let disk = [("present", "TRUE"), ("fileName", &*medium), ("mode", "independent-persistent")];
    all.extend(lines(&format!("{controller}:0."), &disk));
    all
}

/// The first for the console. The machine connects to the agent's socket, at which this side already listens, and loses nothing that comes from
/// there.
fn serial_ports(plan: &Plan<'_>) -> Lines {
    let (console, socket) = (plan.console().display().to_string(), plan.agent_socket().display().to_string());
    let console = [("present", "TRUE"), ("fileType", "file"), ("fileName", &*console)];
    let agent = [
        ("present", "TRUE"),
        ("fileType", "pipe"),
        ("fileName", &*socket),
        ("pipe.endPoint", "client"),
        ("tryNoRxLoss", "TRUE"),
        ("startConnected", "TRUE"),
    ];
    [lines("serial0.", &console), lines("serial1.", &agent)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosted::made_up::with_plan;

    fn has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|one| one == *line), "{line}:\n{text}");
        }
    }

    #[test]
    fn a_machine_boots_from_its_disc_and_has_two_disks_and_two_ports() {
        let text = with_plan("vmware/vmdk/ext4/file:/disk", "/mnt/disk.vmdk", of).unwrap();
        has(
            &text,
            &[
                ".encoding = \"UTF-8\"",
                "config.version = \"8\"",
                "memsize = \"256\"",
                "sata0:0.deviceType = \"cdrom-image\"",
                "sata0:0.fileName = \"/w/guest/boot.iso\"",
                "sata0:1.fileName = \"/w/guest/root.vmdk\"",
                "sata0:1.mode = \"independent-nonpersistent\"",
                "scsi0.virtualDev = \"lsilogic\"",
                "scsi0:0.fileName = \"/mnt/disk.vmdk\"",
                "scsi0:0.mode = \"independent-persistent\"",
                "serial0.fileName = \"/w/guest/console.log\"",
                "serial1.fileType = \"pipe\"",
                "serial1.pipe.endPoint = \"client\"",
                "serial1.fileName = \"/w/guest/agent.sock\"",
            ],
        );
        let names: Vec<&str> = text.lines().filter_map(|line| line.split(" = ").next()).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), distinct.len(), "no name is there twice:\n{text}");
    }

    #[test]
    fn a_disk_on_sata_leaves_the_disc_and_the_root_to_ide() {
        let text = with_plan("vmware:disk=ahci/vmdk/ext4/file:/disk", "/mnt/disk.vmdk", of).unwrap();
        has(&text, &["ide0:0.deviceType = \"cdrom-image\"", "sata0:0.fileName = \"/mnt/disk.vmdk\""]);
    }

    #[test]
    fn a_path_that_would_end_a_value_is_refused() {
        for path in ["/mnt/a\"b.vmdk", "/mnt/a|22b.vmdk"] {
            let refused = with_plan("vmware/vmdk/ext4/file:/disk", path, of).unwrap_err();
            assert!(refused.message.contains("use another path"), "{refused}");
        }
    }
}
