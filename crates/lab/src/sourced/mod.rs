//! An image that comes from a repository, in the steps in which it comes: it is made there, it is served, the node fetches it, and what
//! arrived is checked.

mod copy;
mod instance;
mod overlay;
mod repository;

use std::fmt;
use std::time::Duration;

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::layers::sourced::transfers::{NODE_NAME, REPOSITORY_NAME};
use nestor_stack::{BitRate, Bytes, Layer, LayerIndex, MachineIndex, Propagation, Relation, Stack};

use crate::built::drop_caches;
use crate::held_memory::hold_memory;
use crate::image::offer_image;
use crate::link_counters::parse_value;
use crate::progressing::{Offered, Progressing, Remote};
use crate::root_machine::RootMachine;
use crate::{BuildError, Lab};

pub use instance::Instance;
use repository::Installed;

/// Where names of machines are, also of those that belong to the lab.
const HOSTS: &str = "/etc/hosts";

/// Seconds that writing out an image may take, of which a part is in the node's memory.
const SYNC_LIMIT_S: u64 = 3_600;

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
    /// The block devices of their media.
    disks: [String; 2],
    /// The image at the repository.
    source: String,
    /// The length of its file, once it is complete.
    bytes: Bytes,
    /// What is written into it there before it is what its format says.
    contents: String,
    /// The layers that are made in it there, until they are complete.
    installed: Option<Installed>,
    /// Where it goes on the node.
    target: String,
    /// A directory for the transfer's own files, on both.
    own_directory: String,
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

/// An image that has come to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// How it came.
    pub propagation: Propagation,
    /// The length of the image's file at the repository.
    pub bytes: Bytes,
    /// From the start of the program on the node to its end, on the node's clock.
    pub took: Duration,
}

impl fmt::Display for Transferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mib, seconds) = (self.bytes.get() >> 20, self.took.as_secs_f64());
        match self.propagation {
            Propagation::Copy => {
                let mb_per_s = self.bytes.get() as f64 / 1e6 / seconds;
                write!(f, "{mib} MiB in {seconds:.3} s, {mb_per_s:.1} MB/s; SHA-256 equal")
            }
            Propagation::Overlay => {
                write!(f, "{mib} MiB stay at the repository, opened in {seconds:.3} s; SHA-256 equal")
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
        let mut image = self.open_source(progressing, index, node, directory)?;
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
        index: LayerIndex,
        node: MachineIndex,
        directory: &str,
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

        let medium = progressing.points.iter().find(|point| point.offered_by == stack.medium_index());
        let medium =
            medium.ok_or_else(|| BuildError::refused(stack.medium(), "its block device is not known"))?;
        let node_disk = medium.device.clone();
        let root = RootMachine::beside(repository, node);
        self.root_beside(progressing, root)?;
        let label = stack.machines()[repository].label;
        let relation = Relation::Beside(node);
        progressing.machines.insert(repository, relation, self.standing(repository)?.built(label));
        let made = self.make_image(progressing, repository)?;
        if let Some(available) = options.available {
            hold_memory(progressing, repository, stack.layer(link), available)?;
        }
        let (remote, repository_interface) =
            self.connect(progressing, (link, &options), [repository, node]).map_err(failed)?;
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
            target: format!("{directory}/disk.{}", format.extension),
            own_directory: format!("{}/transfer", progressing.machines[node].facts.work_directory),
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
        let fetched = match serving {
            Serving::Copy(server) => copy::fetch(image, layer, server),
            Serving::Overlay(server) => overlay::open(image, server),
        };
        // It has come when it is on the node's disk, and not in its memory.
        let [_, node] = &image.machines;
        let fetched = fetched.and_then(|fetched| {
            node.run_ok(Command::new(["sync"]).timeout_s(SYNC_LIMIT_S))?;
            Ok(fetched)
        });
        fetched.map_err(|source| BuildError::Layer { layer: layer.label(), source })
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
                check_digests(layer, image, &image.target)?;
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
        let opened = stack.opened_image(image.index);
        let format = opened.image_format();
        let format = format.ok_or_else(|| BuildError::refused(layer, "its source is not an image"))?;
        Ok(offer_image(progressing, (image.index, image.node), image.target.clone(), (&opened, format)))
    }
}

impl SourcedImage {
    /// Makes the directories for the transfer's own files, empty, and gives both machines names.
    fn prepare(&self) -> Result<(), MachineError> {
        self.clear()?;
        let Remote { server_address, client_address, .. } = &self.remote;
        let names = format!(
            "127.0.0.1 localhost\n{server_address} {REPOSITORY_NAME}\n{client_address} {NODE_NAME}\n"
        );
        self.machines.iter().try_for_each(|machine| {
            machine.write_file(HOSTS, names.as_bytes())?;
            machine.make_directory(&self.own_directory)
        })
    }

    /// Removes the transfer's own files.
    fn clear(&self) -> Result<(), MachineError> {
        let remove =
            |machine: &Machine| machine.run_ok(Command::new(["rm", "-rf", "--", &self.own_directory]));
        self.machines.iter().try_for_each(|machine| remove(machine).map(drop))
    }

    /// What its server has printed, as a file of the repository.
    fn server_log(&self) -> String {
        format!("{}/server.txt", self.own_directory)
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

/// Compares what the node has at a path with the image at the repository.
///
/// # Errors
/// It is not the same, or cannot be read.
fn check_digests(layer: &Layer, image: &SourcedImage, at_node: &str) -> Result<(), BuildError> {
    let [repository, node] = &image.machines;
    let digests = digest(repository, &image.source).and_then(|sent| Ok((sent, digest(node, at_node)?)));
    let (sent, arrived) = digests.map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    same_digests(layer, sent, arrived)
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
            took: Duration::from_millis(2_316),
        };
        assert_eq!(copied.to_string(), "256 MiB in 2.316 s, 115.9 MB/s; SHA-256 equal");
        let opened = Transferred { propagation: Propagation::Overlay, ..copied };
        assert_eq!(opened.to_string(), "256 MiB stay at the repository, opened in 2.316 s; SHA-256 equal");
    }
}
