//! The place where stacks are built: the ground, the emulated host if there is one, and the guests that stay booted
//! from one stack to the next.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nestor_machine::lab_image::LabHash;
use nestor_machine::{
    Command, DiskMark, Facts, Ground, LAB_HYPERVISOR, Machine, MachineError, MachineSpec, hypervisor,
};
use nestor_processor::{InstructionMarks, WhyNotCounted};
use nestor_stack::{Accelerator, Depth, LabPack, MachineIndex, MachineLabel, Machines, Place, Stack};

use crate::accelerators::{AcceleratorMemory, MachineIdentity};
use crate::added_kernel::KernelFiles;
use crate::added_qemu::QemuFiles;
use crate::doctor::find_program;
use crate::lab_problem::LabProblem;
use crate::link_counters::KernelLink;
use crate::medium::PluggedDisk;
use crate::memory::AtOnce;
use crate::root_machine::{Guests, RootMachine};
use crate::seed::Seed;
use crate::served_disk::ServedRoot;
use crate::served_link::ServedLink;
use crate::standing::{Booted, Standing};
use crate::{BuildError, memory, packages};

/// Receives progress, in a few words.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// The lab image as files of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct LabFiles {
    /// The kernel.
    pub kernel: String,
    /// Modules for the initramfs.
    pub modules_cpio: String,
    /// The root, a file or a block device.
    pub root: String,
    /// The hypervisor that boots before the kernel, of an image that has one.
    pub hypervisor: Option<String>,
    /// Hash of the image's recipe; `None` of the files that a running machine has of its own.
    pub hash: Option<LabHash>,
    /// SHA-256 of the list of its files with their hashes: one recipe makes another image when Debian has other packages.
    pub contents: String,
}

/// How a lab is opened.
pub struct LabOptions {
    /// Where.
    pub place: Place,
    /// The lab image on this machine; not needed over ssh, where the image is made there.
    pub image: Option<LabFiles>,
    /// The lab images on this machine that have more in them.
    pub packs: BTreeMap<LabPack, LabFiles>,
    /// Those that have a kernel of the user's in them, by its name.
    pub kernels: BTreeMap<String, KernelFiles>,
    /// Those that have a QEMU of the user's in them, by its name.
    pub qemus: BTreeMap<String, QemuFiles>,
    /// Where probes are remembered.
    pub cache_directory: PathBuf,
    /// Devices and files of the user's that may be overwritten although they carry a signature.
    pub overwrite: Vec<PathBuf>,
    /// It decides everything that differs between repeats.
    pub seed: u64,
    /// The remark on the place that every result carries, if any.
    pub remark: Option<String>,
    /// Receives progress.
    pub progress: Progress,
}

/// The place where stacks are built. Dropping it takes everything down.
pub struct Lab {
    pub(crate) place: Place,
    pub(crate) image: Option<LabFiles>,
    pub(crate) packs: BTreeMap<LabPack, LabFiles>,
    pub(crate) kernels: BTreeMap<String, KernelFiles>,
    pub(crate) qemus: BTreeMap<String, QemuFiles>,
    pub(crate) overwrite: Vec<PathBuf>,
    pub(crate) progress: Progress,
    /// The guests and the host, which is the ground itself unless the host is emulated.
    pub(crate) machines: Machines<Standing>,
    /// Those that are as the outermost host, for other instances of the stack.
    pub(crate) other_hosts: Vec<(MachineIndex, MachineLabel)>,
    /// The modelled disks, by the machine that has each.
    pub(crate) disks: BTreeMap<MachineIndex, PluggedDisk>,
    /// The lab image's root, for each machine in virtual time.
    pub(crate) roots: BTreeMap<MachineIndex, ServedRoot>,
    /// The modelled links of the stack.
    pub(crate) links: Vec<ServedLink>,
    /// Those that are this machine's kernel's.
    pub(crate) kernel_links: Vec<KernelLink>,
    pub(crate) seed: Seed,
    remark: Option<String>,
    pub(crate) cache_directory: PathBuf,
    /// The digest of this program, once it was needed.
    pub(crate) program_digest: Option<Vec<u8>>,
    pub(crate) ground_facts: Facts,
    /// Modules that need not be loaded again: machine and name.
    loaded_modules: HashSet<(String, String)>,
    pub(crate) ground_packages: Option<BTreeMap<String, String>>,
    pub(crate) memory: AcceleratorMemory,
    host_memory_bytes: u64,
    /// How long the slowest guest took to boot, by how deep it is; at the root the emulated host.
    pub(crate) slowest_boot_ms: BTreeMap<Depth, u64>,
    /// The client, where it is a machine of the user's. Dropped before its server: it uses what that has.
    pub(crate) client_ground: Option<Ground>,
    /// Whether the outermost machine is the client, as of a stack with a source.
    pub(crate) client_is_outermost: bool,
    // Dropped last: it takes down the machines that the others describe.
    pub(crate) ground: Ground,
}

/// How many labs may run such stacks side by side on a machine without affecting each other's numbers: in virtual time as many as
/// its processors and the memory for their hosts allow, otherwise one. A cell has at most so many instances and nodes.
pub fn most_side_by_side(place: &Place, machine: &Facts, stacks: &[Stack], most: AtOnce) -> usize {
    if !place.is_in_virtual_time() {
        return 1;
    }
    let fitting = machine.memory_bytes / memory::cell_needs(stacks, most);
    usize::try_from(fitting.min(u64::from(machine.cpus))).unwrap_or(1).max(1)
}

impl Lab {
    /// Connects to the ground.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn open(options: LabOptions) -> Result<Self, BuildError> {
        (options.progress)(&format!("starting the agent ({})", options.place));
        let ground = match &options.place {
            Place::Emulated(_) | Place::This => Ground::here()?,
            Place::Ssh(host) | Place::SshPair { server: host, .. } => Ground::over_ssh(host)?,
            Place::Domain(name) => Ground::in_domain(name)?,
            Place::Manager { .. } => return Err(LabProblem::NoGround { place: options.place }.into()),
        };
        let client_ground = match &options.place {
            Place::SshPair { client, .. } => Some(Ground::over_ssh(client)?),
            Place::Emulated(_) | Place::This | Place::Ssh(_) | Place::Domain(_) | Place::Manager { .. } => {
                None
            }
        };
        let ground_facts = ground.machine().facts()?;
        let is_root = |ground: &Ground| Ok::<_, MachineError>(ground.machine().facts()?.root);
        let is_root = ground_facts.root && client_ground.as_ref().map_or(Ok(true), is_root)?;
        if !options.place.is_emulated() && !is_root {
            return Err(LabProblem::NotRoot { place: options.place.clone() }.into());
        }
        if options.place.is_emulated() && ground_facts.hypervisor.is_none() {
            let program = find_program(hypervisor(LAB_HYPERVISOR).program());
            return Err(program
                .map_or(LabProblem::NoHypervisor, |program| LabProblem::SilentHypervisor { program })
                .into());
        }
        Ok(Self {
            place: options.place,
            image: options.image,
            packs: options.packs,
            kernels: options.kernels,
            qemus: options.qemus,
            overwrite: options.overwrite,
            progress: options.progress,
            machines: Machines::default(),
            other_hosts: Vec::new(),
            disks: BTreeMap::new(),
            roots: BTreeMap::new(),
            links: Vec::new(),
            kernel_links: Vec::new(),
            seed: Seed(options.seed),
            remark: options.remark,
            ground_facts,
            loaded_modules: HashSet::new(),
            ground_packages: None,
            memory: AcceleratorMemory::open(&options.cache_directory),
            cache_directory: options.cache_directory,
            program_digest: None,
            host_memory_bytes: 0,
            slowest_boot_ms: BTreeMap::new(),
            client_ground,
            client_is_outermost: false,
            ground,
        })
    }

    /// Makes room for the largest of several stacks, so that the host is booted once for all of them.
    pub fn make_room_for(&mut self, stacks: &[Stack]) {
        let needed = stacks.iter().map(memory::host_needs).max().unwrap_or_default();
        self.host_memory_bytes = self.host_memory_bytes.max(needed);
    }

    /// How many labs like this one may run such stacks side by side: see [`most_side_by_side`].
    pub fn most_side_by_side(&self, stacks: &[Stack], most: AtOnce) -> usize {
        most_side_by_side(&self.place, &self.ground_facts, stacks, most)
    }

    /// The remark on the place that every result carries.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Boots the emulated host, if it is not running, and returns what executes its instructions.
    ///
    /// # Errors
    /// Why it does not boot.
    pub fn find_accelerator(&mut self, stack: &Stack) -> Result<Accelerator, BuildError> {
        self.host(stack, Guests::Kept)?;
        Ok(self.host_accelerator())
    }

    /// Decides what differs between repeats of the next stack.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = Seed(seed);
    }

    /// Where stacks are built.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The machine of the agent nearest to the user.
    pub fn ground(&self) -> &Machine {
        self.ground.machine()
    }

    /// Ends all requests in flight when the user interrupts; the stack is then taken down as always.
    pub fn interrupter(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let grounds = [Some(&self.ground), self.client_ground.as_ref()].into_iter().flatten();
        let ends: Vec<_> = grounds.map(Ground::interrupter).collect();
        move |reason: &str| ends.iter().for_each(|end| end(reason))
    }

    /// What executes the instructions of the outermost host.
    pub fn host_accelerator(&self) -> Accelerator {
        self.machines.get(MachineIndex::OUTERMOST).map_or(Accelerator::Hardware, |host| host.accelerator)
    }

    /// The lab image on the ground; over ssh it is made there.
    pub(crate) fn ground_files(&mut self) -> Result<LabFiles, BuildError> {
        if let Some(files) = &self.image {
            return Ok(files.clone());
        }
        (self.progress)("making the lab image there (a few minutes, once)");
        let command = Command::new(["{nestor}", "lab", "build", "--json"]).timeout_s(3600);
        let text = self.ground_of_guests().machine().run_ok(command)?;
        let files: LabFiles = parse_lab_files(&text).ok_or(LabProblem::UnknownImage)?;
        self.image = Some(files.clone());
        Ok(files)
    }

    /// The lab image with more in it.
    pub(crate) fn pack(&self, pack: LabPack) -> Result<LabFiles, BuildError> {
        Ok(self.packs.get(&pack).cloned().ok_or(LabProblem::NoPack { pack })?)
    }

    /// The outermost host: the emulated one, booted when first needed and again when a stack needs more memory, or
    /// the ground itself.
    pub(crate) fn host(&mut self, stack: &Stack, guests: Guests) -> Result<&Standing, BuildError> {
        if self.place.is_emulated() {
            self.emulate_host(stack, guests)?;
        } else if let Some(bytes) = memory::stated_host_memory(stack) {
            return Err(LabProblem::HostMemoryIsGiven { place: self.place.clone(), bytes }.into());
        } else {
            self.take_ground_of(stack)?;
        }
        self.standing(MachineIndex::OUTERMOST)
    }

    fn emulate_host(&mut self, stack: &Stack, guests: Guests) -> Result<(), BuildError> {
        // In virtual time a cell is independent of all others and of their order.
        let is_virtual = self.place.is_in_virtual_time();
        let under_xen = stack.is_under_xen();
        let for_others = if is_virtual || under_xen { 0 } else { self.host_memory_bytes };
        let stated = memory::stated_host_memory(stack);
        let instances = guests.at_once();
        if let Some(stated_bytes) = stated {
            let needed_bytes = memory::instances_need(stack, instances);
            if instances > 1 && stated_bytes < needed_bytes {
                return Err(LabProblem::TooManyInstances { instances, needed_bytes, stated_bytes }.into());
            }
        }
        let needed = stated.unwrap_or_else(|| {
            for_others.max(memory::host_needs(stack)) + memory::more_instances_need(stack, instances)
        });
        let needs_exactly = stated.is_some() || under_xen;
        let image = self.files_for(stack, MachineIndex::OUTERMOST)?.kernel;
        let fits = |spec: &MachineSpec| {
            let bytes = memory::of_host(spec);
            spec.under_xen.is_some() == under_xen
                && spec.kernel == image
                && if needs_exactly { bytes == needed } else { bytes >= needed }
        };
        if self.emulated_host().is_some_and(|(_, booted)| !fits(&booted.spec)) {
            self.stop_host();
        }
        match self.emulated_host() {
            Some(_) => Ok(()),
            None if is_virtual => self.go_on_from_kept(stack, RootMachine::host(guests), needed),
            None => self.boot_root(stack, RootMachine::host(guests), needed, None),
        }
    }

    /// Notes how long a machine took to boot.
    pub(crate) fn note_boot(&mut self, depth: Depth, took: Duration) {
        // Requests to a machine in virtual time must not depend on durations in real time.
        if self.place.is_in_virtual_time() {
            return;
        }
        let slowest_ms = self.slowest_boot_ms.entry(depth).or_default();
        *slowest_ms = (took.as_millis() as u64).max(*slowest_ms);
    }

    /// Boots a machine in `parent` and keeps what the boot showed about KVM there; of one that is booted fresh, also when it was up.
    pub(crate) fn boot(
        &mut self,
        parent: &Machine,
        spec: MachineSpec,
        (label, guests): (MachineLabel, Guests),
        identity: &MachineIdentity,
    ) -> Result<Standing, BuildError> {
        let started = parent.start_machine(&spec, &label.to_string());
        // Virtual time asks each time, and what it finds is not known of real time.
        let is_remembered = !self.place.is_in_virtual_time();
        if is_remembered
            && started.is_err()
            && spec.accelerator.is_some_and(Accelerator::is_hardware_assisted)
        {
            // It worked once; the next boot asks again.
            self.memory.forget(identity);
        }
        let (machine, boot) = started?;
        // What was asked, or may have changed; not what a layer has in any case.
        if is_remembered && spec.accelerator.is_none_or(Accelerator::is_hardware_assisted) {
            self.memory.remember(identity, boot.accelerator);
        }
        let place = spec.place;
        let greeted_ns = match guests {
            Guests::Fresh(_) => parent.read_clock(false).map(Some),
            Guests::Kept | Guests::Started => Ok(None),
        };
        let looked = greeted_ns.map_err(BuildError::from).and_then(|greeted_ns| {
            Ok(Standing { greeted_ns, ..self.look_at(machine, spec, boot.accelerator)? })
        });
        if looked.is_err() {
            // It has no other user, and the next machine takes its place.
            let _ = parent.stop_machine(place);
        }
        looked
    }

    /// The facts of a running machine.
    pub(crate) fn look_at(
        &mut self,
        machine: Machine,
        spec: MachineSpec,
        accelerator: Accelerator,
    ) -> Result<Standing, BuildError> {
        let facts = machine.facts()?;
        let root = machine.find_disk(&DiskMark::Root, 1000)?;
        let files = LabFiles {
            kernel: "/boot/vmlinuz".into(),
            modules_cpio: "/boot/modules.cpio".into(),
            root,
            hypervisor: None,
            hash: None,
            contents: String::new(),
        };
        self.loaded_modules.retain(|(loaded, _)| loaded != machine.label());
        let packages = packages::of_lab_machine(&machine)?;
        let booted = Some(Booted { spec, files, packages });
        Ok(Standing { machine, accelerator, facts, greeted_ns: None, booted })
    }

    /// Loads kernel modules unless that was done before. A kernel may have them built in, or they may be for another
    /// processor: a step that needs a missing one fails and reports it.
    pub(crate) fn load_modules(&mut self, machine: &Machine, modules: &[&str]) {
        for module in modules {
            if self.loaded_modules.insert((machine.label().to_owned(), (*module).to_owned())) {
                let _ = machine.run(Command::new(["modprobe", "--quiet", module]));
            }
        }
    }

    /// Loads the modules of all file systems at once, so that machines that are kept have them; and notes that it was done, also of
    /// a machine that was `kept` with them.
    pub(crate) fn load_file_systems(&mut self, machine: &Machine, kept: bool) {
        let file_systems = nestor_stack::layers::registry()
            .iter()
            .filter_map(|layer| Some(layer.file_system()?.kernel_modules));
        let modules: BTreeSet<&str> = file_systems.flatten().copied().collect();
        if !kept {
            let _ = machine.run(Command::new(
                ["modprobe", "--quiet", "--all"].into_iter().chain(modules.iter().copied()),
            ));
        }
        self.note_modules(machine, &modules.into_iter().collect::<Vec<_>>());
    }

    /// A machine has modules loaded.
    pub(crate) fn note_modules(&mut self, machine: &Machine, modules: &[&str]) {
        let known = modules.iter().map(|module| (machine.label().to_owned(), (*module).to_owned()));
        self.loaded_modules.extend(known);
    }

    /// The next need of a module loads it again.
    pub(crate) fn forget_module(&mut self, machine: &Machine, module: &str) {
        self.loaded_modules.remove(&(machine.label().to_owned(), module.to_owned()));
    }

    /// The program that emulates the host, in its own words, if the host is emulated.
    pub fn emulator(&self) -> Option<&str> {
        self.ground_facts.hypervisor.as_deref().filter(|_| self.place.is_emulated())
    }

    /// What is remembered of KVM for a guest at `depth`.
    pub(crate) fn guest_identity(&self, depth: Depth) -> MachineIdentity {
        let hash = self.image.as_ref().and_then(|image| image.hash.as_ref());
        let ground = MachineIdentity::of_ground(self.facts_of_host(), hash);
        if self.place.is_emulated() { ground.nested(self.host_accelerator(), depth) } else { ground }
    }

    /// What was found earlier about KVM.
    pub(crate) fn recall(&self, identity: &MachineIdentity) -> Option<Accelerator> {
        // Without what was found before: a probe takes virtual time, and is answered the same each time.
        if self.place.is_in_virtual_time() {
            return None;
        }
        self.memory.recall(identity)
    }

    /// The counts at marks in the machine that is around the application's, and in all that are inside it, since the last call.
    ///
    /// # Errors
    /// When there is no emulated host, or the ground does not answer.
    pub fn take_instructions(&self) -> Result<InstructionMarks, MachineError> {
        // The application is in the first instance, and others have hosts of their own.
        let is_other = |root: &MachineIndex| self.other_hosts().any(|(index, ..)| index == *root);
        let mut roots = self.machines.indexed().rev().map(|(index, _)| self.machines.root_of(index));
        let applications = roots.find(|root| !is_other(root));
        applications.map_or_else(|| Ok(no_instructions()), |root| self.take_instructions_of(root))
    }

    /// The same of a machine that is in no other.
    ///
    /// # Errors
    /// The ground does not answer.
    pub fn take_instructions_of(&self, root: MachineIndex) -> Result<InstructionMarks, MachineError> {
        match self.machines.get(root).and_then(|root| root.booted.as_ref()) {
            Some(booted) => self.ground.machine().take_instructions(booted.spec.place),
            None => Ok(no_instructions()),
        }
    }
}

/// Of a machine of the user's.
fn no_instructions() -> InstructionMarks {
    InstructionMarks { why_not: Some(WhyNotCounted::RealTime), marks: Vec::new() }
}

/// Reads the answer of `nestor lab build --json`.
fn parse_lab_files(text: &str) -> Option<LabFiles> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    Some(LabFiles {
        kernel: field("kernel")?,
        modules_cpio: field("modules_cpio")?,
        root: field("root_squashfs")?,
        hypervisor: field("hypervisor"),
        hash: Some(serde_json::from_value(value.get("hash")?.clone()).ok()?),
        contents: field("contents")?,
    })
}
