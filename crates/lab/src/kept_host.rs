//! Hosts in virtual time are not booted for every cell. One is booted with the guests of its stack, and its state is saved when all
//! have booted. Every cell continues from that state, so each begins in the same one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nestor_machine::agent::process::OWN_BINARY;
use nestor_machine::{Cause, Command, MachineSpec};
use nestor_ownership::make_above;
use nestor_stack::layers::hypervisors::devices::Attach;
use nestor_stack::{Accelerator, LayerDefinition, MachineIndex, Relation, Stack};
use nestor_workload::engines::ENGINES;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::lab_problem::LabProblem;
use crate::network_modules::network_modules;
use crate::root_machine::{Guests, RootMachine};
use crate::standing::Standing;
use crate::virtual_time::qemu_identity;
use crate::{BuildError, Lab, memory};

/// The directory of the cache in which they are.
const DIRECTORY: &str = "kept-hosts";

/// Of how many stacks the machines are kept at most; the least recently used are removed first. A stack keeps one machine at each
/// position of machines that are in no other.
const MOST_STACKS: usize = 6;

/// What kept machines may take of the disk together before another is kept. Each takes some hundred MB, and more the more memory it has.
const MOST_BYTES: u64 = 8 << 30;

/// The lock for removing one; loading one shares it.
const REMOVING: &str = "removing.lock";

/// How long writing the state may take.
const KEEP_LIMIT: Duration = Duration::from_secs(120);

/// A guest that runs in a kept host.
#[derive(Serialize, Deserialize)]
struct KeptGuest {
    index: MachineIndex,
    /// The machine that runs it.
    parent: MachineIndex,
    spec: MachineSpec,
    label: String,
    accelerator: Accelerator,
}

/// What is written beside a kept host's state.
#[derive(Serialize, Deserialize)]
struct Description {
    /// Its position among the machines of its stack.
    root: MachineIndex,
    /// Outermost first.
    guests: Vec<KeptGuest>,
    /// Length of the state.
    state_bytes: u64,
}

/// The files of a kept host.
struct Files {
    state: PathBuf,
    description: PathBuf,
}

impl Files {
    fn of(directory: &Path, key: &str) -> Self {
        Self {
            state: directory.join(format!("{key}.state")),
            description: directory.join(format!("{key}.json")),
        }
    }

    /// The description is written last, so if it exists the state was whole. Without its state it is not a kept host.
    fn description(&self) -> Option<Description> {
        let text = fs::read(&self.description).ok()?;
        let description: Description = serde_json::from_slice(&text).ok()?;
        let state = fs::metadata(&self.state).ok().filter(fs::Metadata::is_file)?;
        (state.len() == description.state_bytes).then_some(description)
    }

    /// The lock for making it. A few files serve for all, because lock files can never be removed: a process that waits for a
    /// removed one would lock a file that no other process sees.
    fn turn(&self) -> String {
        let first = self.state.file_name().and_then(|name| name.to_str()?.chars().next());
        format!("making-{}.lock", first.unwrap_or('0'))
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.description);
        let _ = fs::remove_file(&self.state);
    }

    /// Marks it as used, so that the least recently used can be found.
    fn note_use(&self) {
        let touched = fs::File::options().write(true).open(&self.description);
        let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
    }
}

impl Lab {
    /// Resumes a kept host with this stack's guests; makes it first if it does not exist.
    pub(crate) fn go_on_from_kept(
        &mut self,
        stack: &Stack,
        root: RootMachine,
        memory_bytes: u64,
    ) -> Result<(), BuildError> {
        let directory = self.cache_directory.join(DIRECTORY);
        let files = Files::of(&directory, &self.kept_key(stack, root, memory_bytes)?);
        // The loaded state becomes a machine, so no other user may have written it.
        make_above(&files.state).map_err(|e| cannot_keep(&directory, e.into()))?;
        let load = |lab: &mut Self| lab.load_kept(stack, root, memory_bytes, &directory, &files);
        let description = match load(self) {
            Err(BuildError::Machine(e)) if e.cause() == Cause::NotLoaded => {
                (self.progress)("the kept machines cannot be loaded; booting them again");
                files.remove();
                load(self)?
            }
            loaded => loaded?,
        };
        for kept in description.guests {
            let parent = &self.standing(kept.parent)?.machine;
            let machine = parent.machine_inside(kept.spec.place, &kept.label);
            let guest = self.look_at(machine, kept.spec, kept.accelerator)?;
            self.machines.insert(kept.index, Relation::Inside(kept.parent), guest);
        }
        self.load_file_systems_everywhere(root, true);
        self.load_network_modules(stack, root, true);
        self.begin_random_anew(root)
    }

    /// Loads the root machine itself; makes it first if it does not exist.
    fn load_kept(
        &mut self,
        stack: &Stack,
        root: RootMachine,
        memory_bytes: u64,
        directory: &Path,
        files: &Files,
    ) -> Result<Description, BuildError> {
        if files.description().is_none() {
            self.make_kept(stack, root, memory_bytes, directory, files)?;
        }
        let _nobody_removes_it = lock_shared(directory).map_err(|e| cannot_keep(directory, e))?;
        let Some(description) = files.description() else {
            return Err(LabProblem::KeptHostRemoved { path: files.state.clone() }.into());
        };
        files.note_use();
        self.boot_root(stack, root, memory_bytes, Some(files.state.display().to_string()))?;
        Ok(description)
    }

    /// A root machine and what is inside it.
    fn machines_in(&self, root: RootMachine) -> impl Iterator<Item = (MachineIndex, &Standing)> {
        self.machines.indexed().filter(move |(index, _)| self.machines.root_of(*index) == root.index)
    }

    fn load_file_systems_everywhere(&mut self, root: RootMachine, kept: bool) {
        let machines: Vec<_> = self.machines_in(root).map(|(_, standing)| standing.machine.clone()).collect();
        machines.iter().for_each(|machine| self.load_file_systems(machine, kept));
    }

    /// Loads what the machines need for the network, or notes that they were kept with it.
    fn load_network_modules(&mut self, stack: &Stack, root: RootMachine, kept: bool) {
        let modules = network_modules(stack);
        let machines: Vec<_> = self
            .machines_in(root)
            .filter_map(|(index, standing)| {
                let of_stack = if index == root.index { root.like } else { index };
                Some((standing.machine.clone(), modules.get(&of_stack)?))
            })
            .collect();
        for (machine, modules) in machines {
            let modules: Vec<&str> = modules.iter().copied().collect();
            if kept {
                self.note_modules(&machine, &modules);
            } else {
                self.load_modules(&machine, &modules);
            }
        }
    }

    /// Starts the programs of workloads once in the root machine and its guests. A start reads a program and its libraries from the root disk and
    /// unpacks them, which cells that continue from this state need not do again. A program that is missing is missed by its workload.
    fn try_programs_everywhere(&self, root: RootMachine) {
        for trial in ENGINES.iter().filter_map(|engine| engine.trial()) {
            for (_, standing) in self.machines_in(root) {
                let _ = standing.machine.run(Command::new(trial.iter().copied()));
            }
        }
    }

    /// All cells load one state, including that of the kernels' random generators, which follow the cell's seed from here on.
    fn begin_random_anew(&self, root: RootMachine) -> Result<(), BuildError> {
        for (index, standing) in self.machines_in(root) {
            standing.machine.mix_random(self.seed.entropy(index))?;
        }
        Ok(())
    }

    /// Makes a kept host; if another run is making it, waits for that run.
    fn make_kept(
        &mut self,
        stack: &Stack,
        root: RootMachine,
        memory_bytes: u64,
        directory: &Path,
        files: &Files,
    ) -> Result<(), BuildError> {
        let failed = |e| cannot_keep(directory, e);
        let turn = open_lock(directory, &files.turn()).map_err(failed)?;
        if turn.try_lock().is_err() {
            (self.progress)("waiting for another run that boots the same machines");
            turn.lock().map_err(failed)?;
        }
        if files.description().is_some() {
            return Ok(());
        }
        make_room(directory, root.like).map_err(failed)?;
        self.keep(stack, root, memory_bytes, files)
    }

    /// Boots a root machine with the stack's guests in it and keeps it.
    fn keep(
        &mut self,
        stack: &Stack,
        root: RootMachine,
        memory_bytes: u64,
        files: &Files,
    ) -> Result<(), BuildError> {
        self.boot_root(stack, root, memory_bytes, None)?;
        if root.guests == Guests::Kept {
            self.boot_guests(stack, root)?;
        }
        self.load_file_systems_everywhere(root, false);
        self.load_network_modules(stack, root, false);
        self.try_programs_everywhere(root);
        let guests = self.machines_in(root).filter_map(|(index, guest)| {
            Some(KeptGuest {
                index,
                parent: self.machines.parent(index)?,
                spec: guest.booted.as_ref()?.spec.clone(),
                label: guest.machine.label().to_owned(),
                accelerator: guest.accelerator,
            })
        });
        let guests = guests.collect();
        (self.progress)("keeping the booted machines");
        let partial = files.state.with_extension(format!("partial-{}", std::process::id()));
        let _ = fs::remove_file(&partial);
        let kept = self.ground().keep_machine(root.place(), &partial.display().to_string(), KEEP_LIMIT);
        self.stop_root(root.index);
        let written = kept.map_err(BuildError::from).and_then(|()| {
            let whole = || {
                let state = fs::File::open(&partial)?;
                // After a power cut, the name must not refer to an incomplete file.
                state.sync_all()?;
                let description =
                    Description { root: root.like, guests, state_bytes: state.metadata()?.len() };
                fs::rename(&partial, &files.state)?;
                fs::write(&files.description, serde_json::to_vec(&description)?)
            };
            whole().map_err(|e| cannot_keep(&files.state, e))
        });
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }

    /// Boots the guests of a stack before anything is built, as far as they need no disk to boot.
    fn boot_guests(&mut self, stack: &Stack, root: RootMachine) -> Result<(), BuildError> {
        let machines = stack.machines();
        let inside = |index: &MachineIndex| machines.root_of(*index) == root.like;
        for (index, segment) in machines.indexed().filter(|(index, _)| inside(index)) {
            let layer = segment.crossing.map(|at| stack.layer(at));
            let (Some(relation @ Relation::Inside(parent)), Some(layer)) = (machines.relation(index), layer)
            else {
                continue;
            };
            let (LayerDefinition::Hypervisor(definition), Some(options)) =
                (layer.definition(), layer.hypervisor())
            else {
                continue;
            };
            // Neither it nor what is inside it can be booted now.
            if options.disk.attach() == Attach::AtStart || self.machines.get(parent).is_none() {
                continue;
            }
            let files = self.files_in(stack, parent)?;
            let spec = self.guest_spec(stack, (index, relation), definition, &options, files, None);
            self.guest(segment.label, (index, relation), spec, (false, Guests::Kept))?;
        }
        Ok(())
    }

    /// What a kept host depends on: programs, image, the machines in it, and their processor.
    fn kept_key(
        &mut self,
        stack: &Stack,
        root: RootMachine,
        memory_bytes: u64,
    ) -> Result<String, BuildError> {
        let image = self.files_for(stack, root.like)?;
        let mut digest = Sha256::new();
        digest.update(self.program_digest()?);
        digest.update(qemu_identity(&self.ground_facts, &image.contents));
        let machines = stack.machines();
        let inside = || machines.indexed().filter(|(index, _)| machines.root_of(*index) == root.like);
        if matches!(root.guests, Guests::Fresh(_)) {
            digest.update("without guests ");
        }
        let guests: Vec<u64> = inside().skip(1).map(|(guest, _)| memory::guest_needs(stack, guest)).collect();
        digest.update(format!("{} {memory_bytes} {guests:?}", root.like.position()));
        // Its clock and its timers are in the time of this processor.
        if let Some(speed) = self.place.modelled_processor() {
            digest.update(format!(" {speed};"));
        }
        for (index, modules) in network_modules(stack) {
            if machines.root_of(index) == root.like {
                digest.update(format!("{} {modules:?};", index.position()));
            }
        }
        for (_, segment) in inside() {
            let layer = segment.crossing.map(|at| stack.layer(at));
            if let Some((layer, options)) = layer.and_then(|layer| Some((layer, layer.hypervisor()?))) {
                let at_start = options.disk.attach() == Attach::AtStart;
                digest.update(format!(
                    "{} {:?} {} {at_start} {:?};",
                    layer.name(),
                    options.kind,
                    options.cpus,
                    options.disk.xen_guest()
                ));
            }
        }
        // The image has a QEMU of the user's beside its own.
        for (index, segment) in inside() {
            if segment.crossing.is_some_and(|at| stack.layer(at).added_qemu().is_some()) {
                digest.update(format!("{} runs in the added QEMU;", index.position()));
            }
        }
        // The image has a kernel of the user's beside its own.
        for (index, _) in inside().filter(|(index, _)| stack.boots_added_kernel(*index)) {
            digest.update(format!("{} boots the added kernel;", index.position()));
        }
        Ok(hex::encode(&digest.finalize()[..12]))
    }

    /// The digest of this program, which every machine boots as its agent: read once, and not for every cell.
    pub(crate) fn program_digest(&mut self) -> Result<&[u8], BuildError> {
        if self.program_digest.is_none() {
            let program = fs::read(OWN_BINARY).map_err(|e| cannot_keep(Path::new(OWN_BINARY), e))?;
            self.program_digest = Some(Sha256::digest(program).to_vec());
        }
        Ok(self.program_digest.as_deref().unwrap_or_default())
    }
}

/// A lock file in the directory, not locked yet.
fn open_lock(directory: &Path, name: &str) -> io::Result<fs::File> {
    fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(directory.join(name))
}

/// As long as it is held, no other run removes a kept host.
fn lock_shared(directory: &Path) -> io::Result<Lock> {
    let lock = open_lock(directory, REMOVING)?;
    lock.lock_shared()?;
    Ok(Lock(lock))
}

/// A lock that ends when it is dropped. Closing the file alone would not end it while a program is being started: until that program
/// runs, it has the same file open.
struct Lock(fs::File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// As long as it is held, no other run loads a kept host. `None` if another run is loading one: removal can wait until the next is
/// made, and a load may take minutes.
fn try_lock(directory: &Path) -> io::Result<Option<Lock>> {
    let lock = open_lock(directory, REMOVING)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Lock(lock))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn cannot_keep(path: &Path, source: io::Error) -> BuildError {
    LabProblem::CannotKeep { path: path.to_owned(), source }.into()
}

/// Removes half-written kept hosts that killed runs have left in a cache.
pub fn remove_partial_kept_hosts(cache_directory: &Path) -> Vec<PathBuf> {
    remove_partial(&cache_directory.join(DIRECTORY))
}

fn remove_partial(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_left = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let writer = extension.strip_prefix("partial-");
        writer.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    entries.filter(is_left).filter(|path| fs::remove_file(path).is_ok()).collect()
}

/// Removes the least recently used ones before another is kept at a position of its stack, and the remains of killed runs.
fn make_room(directory: &Path, at: MachineIndex) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let is_description = path.extension().is_some_and(|extension| extension == "json");
        if let (true, Some(key)) = (is_description, path.file_stem().and_then(|key| key.to_str())) {
            kept.push((entry.metadata()?.modified()?, Files::of(directory, key)));
        }
    }
    remove_partial(directory);
    kept.sort_by_key(|(used, _)| Reverse(*used));
    let (mut numbers, mut bytes) = (BTreeMap::from([(at, 1)]), 0);
    let mut stays = |files: &Files| {
        // What another run is just writing cannot be read yet.
        let read = files.description().map(|description| (description.root, description.state_bytes));
        let (root, state_bytes) = read.unwrap_or((MachineIndex::OUTERMOST, 0));
        let number = numbers.entry(root).or_insert(0);
        *number += 1;
        bytes += state_bytes;
        *number <= MOST_STACKS && bytes <= MOST_BYTES
    };
    let too_many: Vec<Files> =
        kept.into_iter().map(|(_, files)| files).filter(|files| !stays(files)).collect();
    if !too_many.is_empty()
        && let Some(_nobody_loads_one) = try_lock(directory)?
    {
        too_many.iter().for_each(Files::remove);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
