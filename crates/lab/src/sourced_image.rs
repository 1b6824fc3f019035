//! An image that comes from a repository: the machine that has it, the image there, and the way to the node.

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{Bytes, Layer, LayerIndex, MachineIndex, Relation};

use crate::held_memory::hold_memory;
use crate::image::offer_image;
use crate::link_counters::parse_value;
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::RootMachine;
use crate::transfer::{TransferPath, check_bytes};
use crate::{BuildError, Lab};

/// The file of an image while it is filled, if it has a format of its own.
const CONTENTS: &str = "contents";

/// Seconds that filling an image may take.
const FILL_LIMIT_S: u64 = 3_600;

impl Lab {
    /// The image of a layer that has a source, in a directory of the node.
    pub(crate) fn build_sourced_image(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        node: MachineIndex,
        directory: &str,
    ) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(index);
        let refused = |why: &str| BuildError::refused(layer, why);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let repository = stack.repository().ok_or_else(|| refused("it has no source"))?;
        let link = stack.indexed_source().find_map(|(at, layer)| Some((at, layer.link()?)));
        let (link, options) = link.ok_or_else(|| refused("its source has no link"))?;
        let copy = layer.copy().ok_or_else(|| refused("it is not copied"))?;
        let opened = stack.opened_image(index);
        let format = opened.image_format().ok_or_else(|| refused("its source is not an image"))?;

        let relation = Relation::Beside(node);
        self.root_beside(progressing, RootMachine { index: repository, relation })?;
        let label = stack.machines()[repository].label;
        progressing.machines.insert(repository, relation, self.standing(repository)?.built(label));
        let source = self.build_source(progressing, repository)?;
        if let Some(available) = options.available {
            hold_memory(progressing, repository, stack.layer(link), available)?;
        }
        let (remote, repository_interface) =
            self.connect(progressing, (link, &options), [repository, node]).map_err(failed)?;

        let path = format!("{directory}/disk.{}", format.extension);
        let way = TransferPath {
            machines: [progressing.machine(repository), progressing.machine(node)],
            source: &source,
            target: &path,
            own_directory: &format!("{}/transfer", progressing.machines[node].facts.work_directory),
            remote: &remote,
            repository_interface: &repository_interface,
            link_rate: options.rate,
        };
        let transferred = self.transfer(layer, copy.transfer, &way)?;
        check_bytes(layer, &way).and_then(|()| way.clear().map_err(failed))?;
        progressing.note("transfer", format!("{}: {transferred}", copy.transfer.name));
        Ok(offer_image(progressing, (index, node), path, (&opened, format)))
    }

    /// The layers of the source on the repository's own medium, up to the image, which is full of bytes that no program can compress. The
    /// path of the image.
    fn build_source(
        &mut self,
        progressing: &mut Progressing<'_>,
        repository: MachineIndex,
    ) -> Result<String, BuildError> {
        let stack = progressing.stack;
        let recorded = (progressing.points.len(), progressing.file_systems.len(), progressing.images.len());
        let mut layers = stack.indexed_source().rev();
        let no_image = || BuildError::refused(stack.medium(), "the source has no image");
        let (medium, layer) = layers.next().ok_or_else(no_image)?;
        (self.progress)(&format!("building {layer} at the repository"));
        let mut offered = self.build_medium(progressing, medium, repository)?;
        for (index, layer) in layers.filter(|(_, layer)| !layer.is_link()) {
            (self.progress)(&format!("building {layer} at the repository"));
            offered = self.build_layer(progressing, index, layer, offered)?;
        }
        // Nothing is recorded at the repository: a workload does not reach it.
        progressing.points.truncate(recorded.0);
        progressing.file_systems.truncate(recorded.1);
        progressing.images.truncate(recorded.2);
        let Thing::Image { path, layer } = offered.thing else { return Err(no_image()) };
        (self.progress)("filling the image at the repository");
        let seed = self.seed.contents(layer);
        let image = stack.layer(layer);
        fill(&progressing.machine(repository), image, &path, seed)
            .map_err(|source| BuildError::Layer { layer: image.label(), source })?;
        Ok(path)
    }
}

/// Writes all of an image, with bytes that follow from the seed.
fn fill(machine: &Machine, layer: &Layer, path: &str, seed: u64) -> Result<(), MachineError> {
    let run = |argv: Vec<String>| machine.run_ok(Command::new(argv).timeout_s(FILL_LIMIT_S));
    let bytes = virtual_bytes(machine, path)?;
    let is_raw = layer.image_format().is_some_and(|format| format.map.is_none());
    if is_raw {
        return run(write_random(path, bytes, seed)).map(drop);
    }
    let contents = format!("{path}.{CONTENTS}");
    run(write_random(&contents, bytes, seed))?;
    // Into the image as it was made, with the options of its layer.
    let convert = ["qemu-img", "convert", "-n", "-f", "raw", "-O", layer.name(), &contents, path];
    run(convert.map(str::to_owned).into())?;
    machine.run_ok(Command::new(["rm", "--", &contents])).map(drop)
}

/// fio's buffers are random unless it is told to repeat them. It reads a number as a signed one of 64 bits (`str_to_decimal` in parse.c).
fn write_random(path: &str, bytes: Bytes, seed: u64) -> Vec<String> {
    let argv = [
        "fio",
        "--name=fill",
        "--rw=write",
        "--bs=1M",
        "--refill_buffers",
        "--end_fsync=1",
        "--output=/dev/null",
    ];
    let own = [
        format!("--filename={path}"),
        format!("--size={}", bytes.get()),
        format!("--randseed={}", seed >> 1),
    ];
    argv.map(str::to_owned).into_iter().chain(own).collect()
}

/// The size of the disk in an image.
fn virtual_bytes(machine: &Machine, path: &str) -> Result<Bytes, MachineError> {
    #[derive(serde::Deserialize)]
    struct Info {
        #[serde(rename = "virtual-size")]
        virtual_size: u64,
    }
    let argv = ["qemu-img", "info", "--output=json", "--", path];
    let said = machine.run_ok(Command::new(argv))?;
    let info: Info = parse_value(machine, &argv, &said)?;
    Ok(Bytes(info.virtual_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_seed_is_fio_can_read_it() {
        for seed in [0, 15_660_284_300_619_551_532, u64::MAX] {
            let argv = write_random("/images/disk.raw", Bytes::mib(1), seed);
            let given = argv.iter().find_map(|word| word.strip_prefix("--randseed=")).unwrap();
            assert!(given.parse::<i64>().unwrap() >= 0);
            assert!(argv.contains(&"--size=1048576".to_owned()));
        }
    }
}
