//! An image that comes from a repository, in the steps in which it comes: it is made there, it is served, the node fetches it, and what
//! arrived is checked.

mod copy;
mod instance;
mod overlay;
mod programs;
mod repository;
mod several;

use std::fmt;
use std::time::Duration;

use nestor_machine::{Command, Finished, Machine, MachineError, Timed};
use nestor_stack::layers::sourced::transfers::{HOST_NAMES, NODE_NAME, REPOSITORY_NAME, Reach};
use nestor_stack::{BitRate, Bytes, Layer, LayerIndex, MachineIndex, Propagation, Relation, Stack};

use crate::built::drop_caches;
use crate::held_memory::hold_memory;
use crate::image::offer_image;
use crate::link_counters::parse_value;
use crate::progressing::{Offered, Progressing, Remote};
use crate::root_machine::RootMachine;
use crate::server_process::said;
use crate::{BuildError, Lab};

pub use instance::Instance;
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
    node: MachineIndex,
    repository: MachineIndex,
    /// The repository and the node.
    machines: [Machine; 2],
    /// The block devices of their media; `None` where the file system of a directory of the user's is on none.
    disks: [Option<String>; 2],
    /// The image at the repository.
    source: String,
    /// The length of its file, once it is complete.
    bytes: Bytes,
    /// What is written into it there before it is what its format says.
    contents: String,
    /// The layers that are made in it there, until they are complete.
    installed: Option<Installed>,
    /// Where it goes on the node: a path for each instance.
    targets: Vec<String>,
    /// A directory for the transfer's own files, on each.
    own_directories: [String; 2],
    /// Who is on the network between them.
    reach: Reach,
    remote: Remote,
    /// What the repository calls its interface.
    repository_interface: String,
    link_rate: BitRate,
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
        let mut image = self.open_source(progressing, (index, node), directory, ONE)?;
        self.close_source(progressing, &mut image)?;
        let serving = self.serve_image(progressing, &image)?;
        self.set_timing(true)?;
        let transferred = self.fetch_image(progressing.stack, &image, &serving);
        self.set_timing(false)?;
        self.settle_image(progressing, &image, &serving, transferred)
    }

    /// Boots the repository, makes the image there, and the layers in it that come with it; and joins it to the node.
    pub(crate) fn open_source(
        &mut self,
        progressing: &mut Progressing<'_>,
        (index, node): (LayerIndex, MachineIndex),
        directory: &str,
        instances: u32,
    ) -> Result<SourcedImage, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(index);
        let refused = |why: &str| BuildError::refused(layer, why);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let repository = stack.repository().ok_or_else(|| refused("it has no source"))?;
        let link = stack.indexed_source().find_map(|(at, layer)| Some((at, layer.link()?)));
        let (link, options) = link.ok_or_else(|| refused("its source has no link"))?;
        let opened = stack.opened_image(index);
        let format = opened.image_format().ok_or_else(|| refused("its source is not an image"))?;

        let node_disk = self.disk_of_medium(progressing, stack.medium_index(), node);
        if self.place.is_emulated() {
            self.root_beside(progressing, RootMachine::beside(repository, node))?;
        }
        let label = stack.machines()[repository].label;
        let relation = Relation::Beside(node);
        progressing.machines.insert(repository, relation, self.standing(repository)?.built(label));
        let made = self.make_image(progressing, repository)?;
        if let Some(available) = options.available {
            hold_memory(progressing, repository, stack.layer(link), available)?;
        }
        let (remote, repository_interface) = match self.kernel_link(link) {
            Some(link) => link.to_server(repository, options.mtu),
            None => self.connect(progressing, (link, &options), [repository, node]).map_err(failed)?,
        };
        let own_directory =
            |on: MachineIndex| format!("{}/transfer", progressing.machines[on].facts.work_directory);
        let (reach, own_directories) = if self.place.is_emulated() {
            (Reach::Lab, [own_directory(node), own_directory(node)])
        } else {
            (Reach::Users, [own_directory(repository), own_directory(node)])
        };
        Ok(SourcedImage {
            index,
            node,
            repository,
            machines: [progressing.machine(repository), progressing.machine(node)],
            disks: [made.disk, node_disk],
            source: made.path,
            bytes: Bytes(0),
            contents: made.contents,
            installed: Some(made.installed),
            targets: (0..instances).map(|instance| target(directory, format.extension, instance)).collect(),
            own_directories,
            reach,
            remote,
            repository_interface,
            link_rate: options.rate,
        })
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
        image.machines.iter().try_for_each(drop_caches).map_err(failed)?;
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
        let fetched = image.fetch_with(commands, limit_s.saturating_mul(image.instances().into()));
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
                let [_, node] = &image.machines;
                drop_caches(node).map_err(failed)?;
                check_digests(layer, image, &image.targets)?;
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
        image.machines.iter().try_for_each(drop_caches).map_err(failed)?;
        progressing.note("transfer", how);
        image.offer(progressing, 0)
    }
}

impl SourcedImage {
    /// Makes the directories for the transfer's own files, empty, and gives both machines names; those of the user's in a file of its own.
    fn prepare(&self) -> Result<(), MachineError> {
        self.clear()?;
        let Remote { server_address, client_address, .. } = &self.remote;
        let names = format!(
            "127.0.0.1 localhost\n{server_address} {REPOSITORY_NAME}\n{client_address} {NODE_NAME}\n"
        );
        self.machines.iter().zip(&self.own_directories).try_for_each(|(machine, directory)| {
            if self.reach == Reach::Lab {
                machine.write_file(HOSTS, names.as_bytes())?;
                return machine.make_directory(directory);
            }
            machine.make_directory(directory)?;
            machine.write_file(&format!("{directory}/{HOST_NAMES}"), names.as_bytes())
        })
    }

    /// Removes the transfer's own files.
    fn clear(&self) -> Result<(), MachineError> {
        let mut own = self.machines.iter().zip(&self.own_directories);
        own.try_for_each(|(machine, directory)| {
            machine.run_ok(Command::new(["rm", "-rf", "--", directory])).map(drop)
        })
    }

    /// How many instances it is for.
    fn instances(&self) -> u32 {
        u32::try_from(self.targets.len()).unwrap_or(u32::MAX)
    }

    /// The image of one instance, which has come.
    fn offer(&self, progressing: &mut Progressing<'_>, instance: usize) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(self.index);
        let opened = stack.opened_image(self.index);
        let format = opened.image_format().zip(self.targets.get(instance));
        let (format, target) =
            format.ok_or_else(|| BuildError::refused(layer, "its source is not an image"))?;
        Ok(offer_image(progressing, (self.index, self.node), target.clone(), (&opened, format)))
    }

    /// Runs a program on the node for each instance, all at the same time, and writes out what it has left in the node's memory: an image has
    /// come when it is on the disk. Of each instance, how long its program ran, and when its image came.
    fn fetch_with(
        &self,
        programs: Vec<Vec<String>>,
        limit_s: u64,
    ) -> Result<Vec<(Duration, Span)>, MachineError> {
        let [_, node] = &self.machines;
        let lines: Vec<Vec<Command>> = programs
            .into_iter()
            .zip(&self.targets)
            .map(|(argv, target)| {
                let write_out = Command::new(["sync", "--", target]).timeout_s(SYNC_LIMIT_S);
                vec![Command::new(argv).timeout_s(limit_s), write_out]
            })
            .collect();
        let ran = node.run_together(lines.clone())?;
        ran.into_iter().zip(&lines).map(|(ran, line)| self.came(line, ran)).collect()
    }

    /// What the programs of one instance did.
    fn came(&self, line: &[Command], ran: Vec<Timed<Finished>>) -> Result<(Duration, Span), MachineError> {
        let [repository, node] = &self.machines;
        let (mut took, mut span) = (None, None);
        for (command, Timed { begin_ns, end_ns, result }) in line.iter().zip(ran) {
            let finished = node
                .succeeded(command, result?)
                .map_err(|failed| failed.saying(&said(repository, &self.server_log())))?;
            let begin_ns = span.map_or(begin_ns, |span: Span| span.begin_ns);
            span = Some(Span { begin_ns, end_ns });
            took.get_or_insert(Duration::from_nanos(finished.elapsed_ns));
        }
        Ok(took.zip(span).unwrap_or((Duration::ZERO, Span { begin_ns: 0, end_ns: 0 })))
    }

    /// What its server has printed, as a file of the repository.
    fn server_log(&self) -> String {
        let [own_directory, _] = &self.own_directories;
        format!("{own_directory}/server.txt")
    }

    /// Reads the length of the image's file, which is complete.
    fn find_length(&mut self) -> Result<(), MachineError> {
        let [repository, _] = &self.machines;
        let argv = ["stat", "--format=%s", "--", &self.source];
        let said = repository.run_ok(Command::new(argv))?;
        self.bytes = parse_value(repository, &argv, &said).map(Bytes)?;
        Ok(())
    }
}

/// The image of an instance, counted from 0, in a directory of its node.
fn target(directory: &str, extension: &str, instance: u32) -> String {
    match instance {
        0 => format!("{directory}/disk.{extension}"),
        _ => format!("{directory}/disk-{}.{extension}", instance + 1),
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

/// Compares what the node has at some paths with the image at the repository.
///
/// # Errors
/// It is not the same, or cannot be read.
fn check_digests(layer: &Layer, image: &SourcedImage, at_node: &[String]) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let [repository, node] = &image.machines;
    let sent = digest(repository, &image.source).map_err(failed)?;
    at_node.iter().try_for_each(|path| same_digests(layer, sent.clone(), digest(node, path).map_err(failed)?))
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
