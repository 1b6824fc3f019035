//! An image that comes from a repository, in the steps in which it comes: it is made there, it is served, the node fetches it, and what
//! arrived is checked.

mod copy;
pub mod dealt;
mod instance;
mod nodes;
mod opening;
mod overlay;
mod programs;
mod repository;
mod several;

use std::fmt;
use std::time::Duration;

use nestor_machine::{Command, Finished, Machine, MachineError, Timed, run_together};
use nestor_stack::layers::sourced::transfers::{HOST_NAMES, NODE_NAME, REPOSITORY_NAME, Reach};
use nestor_stack::{BitRate, Bytes, Layer, LayerIndex, MachineIndex, Propagation, Stack};

use crate::built::drop_caches;
use crate::image::offer_image;
use crate::link_counters::parse_value;
use crate::progressing::{Offered, Progressing, Remote};
use crate::server_process::said;
use crate::{BuildError, Lab};

pub use instance::{Instance, LifeMachine};
use nodes::PlannedNode;
use repository::Installed;
pub use several::BootedInstance;

/// Where names of machines are, also of those that belong to the lab.
const HOSTS: &str = "/etc/hosts";

/// Seconds that writing out an image may take, of which a part is in the node's memory.
const SYNC_LIMIT_S: u64 = 3_600;

/// Where nothing says how many instances there are.
const ONE: u32 = 1;

/// Seconds that reading an image for its digest may take.
const DIGEST_LIMIT_S: u64 = 3_600;

/// An image on its way.
pub(crate) struct SourcedImage {
    /// Its layer.
    index: LayerIndex,
    repository: SourceMachine,
    /// Where it goes. Instances are dealt to them in turn.
    nodes: Vec<ImageNode>,
    /// How many instances it is for.
    instances: u32,
    /// The image at the repository.
    source: String,
    /// The length of its file, once it is complete.
    bytes: Bytes,
    /// What is written into it there before it is what its format says.
    contents: String,
    /// The layers that are made in it there, until they are complete.
    installed: Option<Installed>,
    /// Who is on the network between them.
    reach: Reach,
    link_rate: BitRate,
}

/// The repository.
struct SourceMachine {
    end: TransferMachine,
    /// What it calls its interface.
    interface: String,
}

/// A node of the image.
struct ImageNode {
    end: TransferMachine,
    /// Where it finds the repository.
    remote: Remote,
    /// Where its instances have their images.
    targets: Vec<String>,
}

/// A machine from which an image comes, or to which one goes.
struct TransferMachine {
    index: MachineIndex,
    machine: Machine,
    /// The block device of its medium; `None` where the file system of a directory of the user's is on none.
    disk: Option<String>,
    /// A directory for the transfer's own files.
    own_directory: String,
}

/// What serves an image.
pub(crate) enum Serving {
    /// A program that copies it.
    Copy(copy::CopyServer),
    /// What has it for as long as the stack stands.
    Overlay(overlay::OverlayServer),
}

/// An image that has come to its node for its instances, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// How it came.
    pub propagation: Propagation,
    /// The length of the image's file at the repository.
    pub bytes: Bytes,
    /// For each instance, from the start of its program on the node to the program's end, on the node's clock.
    pub took: Vec<Duration>,
    /// For each instance, until it was on the node's disk.
    pub spans: Vec<Span>,
}

/// A part of the time, on a machine's `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins, ns.
    pub begin_ns: u64,
    /// When it ends.
    pub end_ns: u64,
}

impl fmt::Display for Transferred {
    /// Of several instances, until the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes.get() >> 20;
        let copies = self.took.len();
        let times = if copies > 1 { format!("{copies} times ") } else { String::new() };
        let seconds = self.took.iter().max().copied().unwrap_or_default().as_secs_f64();
        match self.propagation {
            Propagation::Copy => {
                let mb_per_s = self.bytes.get() as f64 * copies as f64 / 1e6 / seconds;
                write!(f, "{times}{mib} MiB in {seconds:.3} s, {mb_per_s:.1} MB/s; SHA-256 equal")
            }
            Propagation::Overlay => {
                write!(f, "{mib} MiB stay at the repository, {times}opened in {seconds:.3} s; SHA-256 equal")
            }
        }
    }
}

impl Lab {
    /// The image of a layer that has a source, in a directory of the node.
    pub(crate) fn build_sourced_image(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        node: MachineIndex,
        directory: &str,
    ) -> Result<Offered, BuildError> {
        let nodes = vec![PlannedNode::first(self, progressing, node, directory.to_owned())];
        let mut image = self.open_source(progressing, index, nodes, ONE)?;
        self.close_source(progressing, &mut image)?;
        let serving = self.serve_image(progressing, &image)?;
        self.set_timing(true)?;
        let transferred = self.fetch_image(progressing.stack, &image, &serving);
        self.set_timing(false)?;
        self.settle_image(progressing, &image, &serving, transferred)
    }

    /// Starts what serves the image, with empty caches at both ends.
    pub(crate) fn serve_image(
        &mut self,
        progressing: &mut Progressing<'_>,
        image: &SourcedImage,
    ) -> Result<Serving, BuildError> {
        let layer = progressing.stack.layer(image.index);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        image.prepare().map_err(failed)?;
        let serving = match (layer.copy(), layer.overlay()) {
            (Some(copy), _) => {
                copy::serve(progressing, image, layer, copy.transfer).map(Serving::Copy).map_err(failed)?
            }
            (_, Some(options)) => overlay::serve(self, progressing, image, options).map(Serving::Overlay)?,
            (None, None) => return Err(BuildError::refused(layer, "it does not come from a source")),
        };
        image.machines().try_for_each(drop_caches).map_err(failed)?;
        Ok(serving)
    }

    /// Has the node fetch the image, or open it where it is.
    pub(crate) fn fetch_image(
        &self,
        stack: &Stack,
        image: &SourcedImage,
        serving: &Serving,
    ) -> Result<Transferred, BuildError> {
        let layer = stack.layer(image.index);
        (self.progress)(&format!("{}: fetching the image", layer.label()));
        let (propagation, commands, limit_s) = match serving {
            Serving::Copy(server) => {
                (Propagation::Copy, copy::commands(image, layer, server), copy::limit_s(image))
            }
            Serving::Overlay(server) => {
                (Propagation::Overlay, overlay::commands(image, server), overlay::OPEN_LIMIT_S)
            }
        };
        let fetched = image.fetch_with(commands, limit_s.saturating_mul(image.instances.into()));
        let came = fetched.map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
        let (took, spans) = came.into_iter().unzip();
        Ok(Transferred { propagation, bytes: image.bytes, took, spans })
    }

    /// Ends what only copies, and checks what arrived. The node has the image then.
    pub(crate) fn settle_image(
        &mut self,
        progressing: &mut Progressing<'_>,
        image: &SourcedImage,
        serving: &Serving,
        transferred: Result<Transferred, BuildError>,
    ) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(image.index);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let transferred = match serving {
            Serving::Copy(server) => {
                server.end(progressing, image);
                let transferred = transferred?;
                // What is compared is what is on the disk, and not what the node's memory has of it.
                image.nodes.iter().try_for_each(|node| drop_caches(&node.end.machine)).map_err(failed)?;
                check_digests(layer, image, |node| node.targets.clone())?;
                image.clear().map_err(failed)?;
                transferred
            }
            // What it reads was checked before it was opened.
            Serving::Overlay(_) => transferred?,
        };
        let how = match layer.copy() {
            Some(copy) => format!("{}: {transferred}", copy.transfer.name),
            None => transferred.to_string(),
        };
        // The check has read all of it.
        image.machines().try_for_each(drop_caches).map_err(failed)?;
        progressing.note("transfer", how);
        image.offer(progressing, 0)
    }
}

impl SourcedImage {
    /// The repository and the nodes.
    fn all_ends(&self) -> impl Iterator<Item = &TransferMachine> {
        [&self.repository.end].into_iter().chain(self.nodes.iter().map(|node| &node.end))
    }

    fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.all_ends().map(|end| &end.machine)
    }

    /// The node of an instance, counted from 0, and where that has its image.
    fn of_instance(&self, instance: usize) -> Option<(&ImageNode, &String)> {
        let (node, at) = dealt::place(instance, self.nodes.len());
        let node = self.nodes.get(node)?;
        Some((node, node.targets.get(at)?))
    }

    /// Makes the directories for the transfer's own files, empty, and gives all machines names; those of the user's in a file of its own.
    fn prepare(&self) -> Result<(), MachineError> {
        self.clear()?;
        let of_repository = |remote: &Remote| format!("{} {REPOSITORY_NAME}\n", remote.server_address);
        let of_node = |node: &ImageNode| format!("{} {NODE_NAME}\n", node.remote.client_address);
        // A node knows itself alone by the name, and the repository all of them.
        let known = |of: &[ImageNode]| {
            let repository = of.first().map(|node| of_repository(&node.remote)).unwrap_or_default();
            format!("127.0.0.1 localhost\n{repository}{}", of.iter().map(of_node).collect::<String>())
        };
        let give = |end: &TransferMachine, names: String| {
            let TransferMachine { machine, own_directory, .. } = end;
            if self.reach == Reach::Lab {
                machine.write_file(HOSTS, names.as_bytes())?;
                return machine.make_directory(own_directory);
            }
            machine.make_directory(own_directory)?;
            machine.write_file(&format!("{own_directory}/{HOST_NAMES}"), names.as_bytes())
        };
        give(&self.repository.end, known(&self.nodes))?;
        self.nodes.iter().try_for_each(|node| give(&node.end, known(std::slice::from_ref(node))))
    }

    /// Removes the transfer's own files.
    fn clear(&self) -> Result<(), MachineError> {
        self.all_ends().try_for_each(|TransferMachine { machine, own_directory, .. }| {
            machine.run_ok(Command::new(["rm", "-rf", "--", own_directory])).map(drop)
        })
    }

    /// The image of one instance, which has come.
    fn offer(&self, progressing: &mut Progressing<'_>, instance: usize) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(self.index);
        let opened = stack.opened_image(self.index);
        let format = opened.image_format().zip(self.of_instance(instance));
        let (format, (node, target)) =
            format.ok_or_else(|| BuildError::refused(layer, "its source is not an image"))?;
        Ok(offer_image(progressing, (self.index, node.end.index), target.clone(), (&opened, format)))
    }

    /// Runs a program on its node for each instance, all at the same time, and writes out what it has left in the node's memory: an image has
    /// come when it is on the disk. Of each instance, how long its program ran, and when its image came.
    fn fetch_with(
        &self,
        programs: Vec<Vec<String>>,
        limit_s: u64,
    ) -> Result<Vec<(Duration, Span)>, MachineError> {
        let line = |(instance, argv): (usize, Vec<String>)| {
            let target = self.of_instance(instance).map(|(_, target)| target.as_str()).unwrap_or_default();
            let write_out = Command::new(["sync", "--", target]).timeout_s(SYNC_LIMIT_S);
            vec![Command::new(argv).timeout_s(limit_s), write_out]
        };
        let lines = dealt::deal(programs.into_iter().enumerate().map(line), self.nodes.len());
        let machines = || self.nodes.iter().map(|node| &node.end.machine);
        let ran = run_together(machines().zip(lines.clone()).collect())?;
        let came = machines().zip(&lines).zip(ran).map(|((node, lines), ran)| {
            lines.iter().zip(ran).map(|(line, ran)| self.came(node, line, ran)).collect()
        });
        Ok(dealt::gather(came.collect::<Result<_, _>>()?))
    }

    /// What the programs of one instance did.
    fn came(
        &self,
        node: &Machine,
        line: &[Command],
        ran: Vec<Timed<Finished>>,
    ) -> Result<(Duration, Span), MachineError> {
        let (mut took, mut span) = (None, None);
        for (command, Timed { begin_ns, end_ns, result }) in line.iter().zip(ran) {
            let finished = node
                .succeeded(command, result?)
                .map_err(|failed| failed.saying(&said(&self.repository.end.machine, &self.server_log())))?;
            let begin_ns = span.map_or(begin_ns, |span: Span| span.begin_ns);
            span = Some(Span { begin_ns, end_ns });
            took.get_or_insert(Duration::from_nanos(finished.elapsed_ns));
        }
        Ok(took.zip(span).unwrap_or((Duration::ZERO, Span { begin_ns: 0, end_ns: 0 })))
    }

    /// What its server has printed, as a file of the repository.
    fn server_log(&self) -> String {
        format!("{}/server.txt", self.repository.end.own_directory)
    }

    /// Reads the length of the image's file, which is complete.
    fn find_length(&mut self) -> Result<(), MachineError> {
        let repository = &self.repository.end.machine;
        let argv = ["stat", "--format=%s", "--", &self.source];
        let said = repository.run_ok(Command::new(argv))?;
        self.bytes = parse_value(repository, &argv, &said).map(Bytes)?;
        Ok(())
    }
}

/// The SHA-256 of a file.
fn digest(machine: &Machine, path: &str) -> Result<String, MachineError> {
    let said = machine.run_ok(Command::new(["sha256sum", "--", path]).timeout_s(DIGEST_LIMIT_S))?;
    Ok(digest_in(&said))
}

/// The digest that `sha256sum` prints before the name of the file.
fn digest_in(said: &str) -> String {
    said.split_whitespace().next().unwrap_or_default().to_owned()
}

/// What the image's file at the repository is.
fn format_at_repository(stack: &Stack) -> &str {
    stack.source().iter().find(|layer| layer.image_format().is_some()).map_or("raw", Layer::name)
}

/// Compares what the nodes have at some paths with the image at the repository.
///
/// # Errors
/// It is not the same, or cannot be read.
fn check_digests(
    layer: &Layer,
    image: &SourcedImage,
    at_node: impl Fn(&ImageNode) -> Vec<String>,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let sent = digest(&image.repository.end.machine, &image.source).map_err(failed)?;
    image.nodes.iter().try_for_each(|node| {
        let arrived = |path: &String| digest(&node.end.machine, path).map_err(failed);
        at_node(node).iter().try_for_each(|path| same_digests(layer, sent.clone(), arrived(path)?))
    })
}

fn same_digests(layer: &Layer, sent: String, arrived: String) -> Result<(), BuildError> {
    if sent == arrived { Ok(()) } else { Err(BuildError::OtherBytes { layer: layer.label(), sent, arrived }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_byte_is_another_image() {
        let stack = Stack::parse("ext4/kvm/copy:nbd/ext4/hdd//link/raw/ext4/hdd").unwrap();
        let layer = stack.sourced_image().map(|at| stack.layer(at)).unwrap();
        assert!(same_digests(layer, "ab".to_owned(), "ab".to_owned()).is_ok());
        let other = same_digests(layer, "ab".to_owned(), "ac".to_owned()).unwrap_err();
        assert!(matches!(other, BuildError::OtherBytes { .. }));
        assert_eq!(
            other.to_string(),
            "the layer `copy:nbd` could not be built: what arrived is not what left: SHA-256 ac on the node, ab at the repository"
        );
    }

    #[test]
    fn what_was_copied_is_said_with_its_rate() {
        let copied = Transferred {
            propagation: Propagation::Copy,
            bytes: Bytes::mib(256),
            took: vec![Duration::from_millis(2_316)],
            spans: Vec::new(),
        };
        assert_eq!(copied.to_string(), "256 MiB in 2.316 s, 115.9 MB/s; SHA-256 equal");
        let several = Transferred {
            took: vec![Duration::from_millis(2_000), Duration::from_millis(4_000)],
            ..copied.clone()
        };
        assert_eq!(several.to_string(), "2 times 256 MiB in 4.000 s, 134.2 MB/s; SHA-256 equal");
        let opened = Transferred { propagation: Propagation::Overlay, ..copied };
        assert_eq!(opened.to_string(), "256 MiB stay at the repository, opened in 2.316 s; SHA-256 equal");
    }
}
