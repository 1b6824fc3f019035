//! Serves an image to nodes that read from it what they need, and makes the overlay of a node.

use std::time::Duration;

use nestor_machine::{Command, Machine, MachineError, Mounting, ReadySign};
use nestor_stack::Layer;
use nestor_stack::layers::network::usual_nfs;
use nestor_stack::layers::sourced::transfers::{Reach, USERS_PORT};
use nestor_stack::layers::sourced::{OverlayOptions, ServedOver};

use super::{
    DIGEST_LIMIT_S, ImageNode, SourcedImage, TransferMachine, check_digests, digest_in, format_at_repository,
    same_digests,
};
use crate::built::{ServingProgram, UndoStep};
use crate::link::enable_loopback;
use crate::network_disk;
use crate::network_file_system::{self, mount_options};
use crate::progressing::Progressing;
use crate::server_process::said;
use crate::{BuildError, Lab};

/// How long the server may take to open the image, in the machine's own time.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// What an overlay is.
const OVERLAY_FORMAT: &str = "qcow2";

/// What the server calls the image.
const EXPORT: &str = "nestor";

/// Connections that the server takes at once for each instance: that of its disk, and those that look at the image before.
const CONNECTIONS: u32 = 16;

/// Seconds that making an overlay may take.
pub(super) const OPEN_LIMIT_S: u64 = 60;

/// The SHA-256 of an exported disk, which fails where the disk cannot be read. Its address is no part of it.
const DIGEST_OF_EXPORT: &str = r#"exec 3>&1
status=$({ { nbdcopy -- "$1" -; echo $? >&4; } | sha256sum >&3; } 4>&1)
exit "$status""#;

/// An image that is served.
pub(crate) struct OverlayServer {
    /// Where the node finds it: a file, or an address.
    backing: String,
    /// What it is there.
    format: String,
}

/// Starts the server, and checks that the node reads from it what is at the repository.
pub(super) fn serve(
    lab: &mut Lab,
    progressing: &mut Progressing<'_>,
    image: &SourcedImage,
    options: OverlayOptions,
) -> Result<OverlayServer, BuildError> {
    match options.over {
        ServedOver::Nbd => serve_disk(progressing, image),
        ServedOver::Nfs => serve_file(lab, progressing, image),
    }
}

/// Over the protocol of the network block device, from `qemu-nbd(8)`.
fn serve_disk(progressing: &mut Progressing<'_>, image: &SourcedImage) -> Result<OverlayServer, BuildError> {
    let stack = progressing.stack;
    let layer = stack.layer(image.index);
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let TransferMachine { machine: repository, own_directory, index, .. } = &image.repository.end;
    let remote = &first_node(layer, image)?.remote;
    let (ready, log) = (format!("{own_directory}/server.pid"), image.server_log());
    let port = if image.reach == Reach::Lab { network_disk::PORT } else { USERS_PORT };
    let (address, port) = (&remote.server_address, port.to_string());
    let shared = (CONNECTIONS * image.instances).to_string();
    let argv = ["qemu-nbd", "--read-only", "--persistent", "--shared", &shared, "--bind", address];
    let more = ["--port", &port, "--export-name", EXPORT, "--pid-file", &ready, "--format"];
    let argv = argv.into_iter().chain(more).chain([format_at_repository(stack), &image.source]);
    // It checks itself, too.
    enable_loopback(repository).map_err(failed)?;
    let process = repository.start_process(Command::new(argv), &log).map_err(failed)?;
    progressing.note_undo(*index, UndoStep::EndProcess(process));
    repository
        .await_ready(process, ReadySign::File(ready), SERVER_LIMIT)
        .map_err(|e| failed(e.saying(&said(repository, &log))))?;
    progressing.image_server = Some(ServingProgram { process, log: log.clone() });
    let backing = format!("nbd://{address}:{port}/{EXPORT}");
    let digest = |machine: &Machine| {
        let argv = ["sh", "-c", DIGEST_OF_EXPORT, "sh", &backing];
        let said = machine.run_ok(Command::new(argv).timeout_s(DIGEST_LIMIT_S))?;
        Ok::<_, MachineError>(digest_in(&said))
    };
    let sent = digest(repository).map_err(failed)?;
    for node in &image.nodes {
        same_digests(layer, sent.clone(), digest(&node.end.machine).map_err(failed)?)?;
    }
    Ok(OverlayServer { backing, format: "raw".to_owned() })
}

fn first_node<'a>(layer: &Layer, image: &'a SourcedImage) -> Result<&'a ImageNode, BuildError> {
    image.nodes.first().ok_or_else(|| BuildError::refused(layer, "it goes to no machine"))
}

/// As a file of a network file system.
fn serve_file(
    lab: &mut Lab,
    progressing: &mut Progressing<'_>,
    image: &SourcedImage,
) -> Result<OverlayServer, BuildError> {
    let stack = progressing.stack;
    let layer = stack.layer(image.index);
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let repository = &image.repository.end.machine;
    // There is one: others are refused.
    let ImageNode { end, remote, .. } = first_node(layer, image)?;
    let node = &end.machine;
    lab.load_modules(repository, network_file_system::SERVER_MODULES);
    lab.load_modules(node, network_file_system::CLIENT_MODULES);
    let (directory, file) = image.source.rsplit_once('/').unwrap_or(("", &image.source));
    let options = usual_nfs().ok_or_else(|| BuildError::refused(layer, "nfs has no defaults"))?;
    let ends = (repository, remote);
    network_file_system::serve_directory(progressing, layer, ends, directory, &options)?;
    let target = format!("{}-source", progressing.mount_point(end.index, image.index));
    let source = network_file_system::exported_as(&options, directory);
    let mounting = Mounting {
        source: format!("{}:{source}", remote.server_address),
        target: target.clone(),
        file_system: network_file_system::KIND.to_owned(),
        program: None,
        options: mount_options(&options, remote),
    };
    node.mount(mounting).map_err(failed)?;
    progressing.note_undo(end.index, UndoStep::Unmount(target.clone()));
    let backing = format!("{target}/{file}");
    check_digests(layer, image, |_| vec![backing.clone()])?;
    Ok(OverlayServer { backing, format: format_at_repository(stack).to_owned() })
}

/// The commands that make the overlays on the nodes (`qemu-img(1)`), one for each instance.
pub(super) fn commands(image: &SourcedImage, server: &OverlayServer) -> Vec<Vec<String>> {
    let of_target = |target: &String| {
        let argv = ["qemu-img", "create", "-q", "-f", OVERLAY_FORMAT, "-b", &server.backing];
        argv.into_iter().chain(["-F", &server.format, "--", target]).map(str::to_owned).collect()
    };
    let instances = (0..image.instances).filter_map(|instance| image.of_instance(instance as usize));
    instances.map(|(_, target)| of_target(target)).collect()
}
