//! Image formats: how each is made and opened, with `qemu-img` and QMP's `blockdev-add`.

pub(crate) mod qcow2;
pub(super) mod qed;
pub(super) mod raw;
pub(super) mod vdi;
pub(super) mod vhdx;
pub(super) mod vmdk;

use serde_json::{Value, json};

use super::hypervisors::HostBlockOptions;

/// Debian packages.
const PACKAGES: &[&str] = &["qemu-utils"];

/// The `qemu-img create` command of a format with its `-o` options.
fn qemu_img_create(format: &str, options: &[(&str, String)], path: &str, size_bytes: u64) -> Vec<String> {
    let mut command: Vec<String> = ["qemu-img", "create", "-q", "-f", format].map(str::to_owned).into();
    if !options.is_empty() {
        let list: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        command.extend(["-o".to_owned(), list.join(",")]);
    }
    command.extend([path.to_owned(), size_bytes.to_string()]);
    command
}

/// The `qemu-img map` command of a format. The image may be in use.
fn qemu_img_map(format: &str, path: &str) -> Vec<String> {
    ["qemu-img", "map", "--force-share", "--output=json", "-f", format, "--", path].map(str::to_owned).into()
}

/// The node of a format on top of a file's node. The host's cache and discard settings are given to both: QEMU
/// consults them at each node, and a format that opens further files by itself (vmdk) passes them on.
fn format_node(driver: &str, node_name: &str, file_node: &str, host: &HostBlockOptions) -> Value {
    json!({
        "driver": driver,
        "node-name": node_name,
        "file": file_node,
        "cache": host.cache.json(),
        "discard": host.discard.name(),
    })
}
