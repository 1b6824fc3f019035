//! Opens a lab for a command, runs a campaign in it, and takes everything down, also when interrupted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use nestor_lab::{AtOnce, Lab, LabOptions, most_side_by_side, require_machine, require_users_xen};
use nestor_machine::Ground;
use nestor_machine::agent::{ledger, work_root};
use nestor_measure::Bench;
use nestor_measure::campaign::{CampaignEnd, CampaignOptions, run_campaign};
use nestor_results::{Decisions, Store, Study, WrittenStack};
use nestor_stack::{HostTime, LabPack, Place, PlaceWish};
use nestor_stack::{LayerIndex, Offer, Stack, StackError};
use nestor_text::units::plural;
use nestor_workload::{LifeCycle, Workload, WorksOn};

use crate::arguments::{LabArguments, SettledPlace};
use crate::at_manager;
use crate::lab_image;
use crate::paths;
use crate::place::remember_virtual_time;
use crate::progress::Progress;
use crate::scripts::check_files;
use crate::signals::EndOnSignals;

/// Runs a campaign where the arguments say and returns how it ended.
///
/// # Errors
/// When the lab cannot be opened, results cannot be kept, or it was interrupted.
pub fn run(
    study: &Study,
    arguments: &LabArguments,
    as_study: bool,
    store: &mut Store,
) -> Result<CampaignEnd> {
    let (end, interrupted) = run_until_interrupted(study, arguments, as_study, store)?;
    refuse_interrupted(&end, interrupted)?;
    Ok(end)
}

/// The error of a campaign that was interrupted.
///
/// # Errors
/// When it was.
pub fn refuse_interrupted(end: &CampaignEnd, interrupted: bool) -> Result<()> {
    if interrupted {
        bail!("interrupted; everything was taken down, and {} finished results were kept", end.kept);
    }
    Ok(())
}

/// The same, with whether it was interrupted. Runs of no study are kept together, so that other programs can read what this command says.
///
/// # Errors
/// When the lab cannot be opened or results cannot be kept.
pub fn run_until_interrupted(
    study: &Study,
    arguments: &LabArguments,
    as_study: bool,
    store: &mut Store,
) -> Result<(CampaignEnd, bool)> {
    let (end, interrupted) = run_in_lab(study, arguments, as_study, store)?;
    if !as_study {
        store.save_command(study, &end.runs)?;
    }
    Ok((end, interrupted))
}

fn run_in_lab(
    study: &Study,
    arguments: &LabArguments,
    as_study: bool,
    store: &mut Store,
) -> Result<(CampaignEnd, bool)> {
    let stacks = check_study(study, arguments)?;
    remove_leftovers()?;
    let SettledPlace { place, remark } = arguments.place()?.clone();
    check_settled(study, &place)?;
    stacks.iter().try_for_each(|stack| require_users_xen(stack, &place))?;
    if matches!(place, Place::Manager { .. }) {
        let options = CampaignOptions { as_study, trace_to: None, again: arguments.again };
        return at_manager::run(study, &place, &options, arguments.quiet, store);
    }
    let image = if needs_image_here(&place, &stacks) { Some(lab_image::files()?) } else { None };
    let packs = lab_image::packs_of(stacks.iter().filter_map(|stack| pack_here(&place, stack)))?;
    let kernels = lab_image::kernels_of(&stacks)?;
    let qemus = lab_image::qemus_of(&place, &stacks)?;
    let progress = Progress::new(study.stacks.len() as u64).quiet(arguments.quiet);
    let open = || {
        Lab::open(LabOptions {
            place: place.clone(),
            image: image.clone(),
            packs: packs.clone(),
            kernels: kernels.clone(),
            qemus: qemus.clone(),
            cache_directory: paths::cache_directory(),
            overwrite: arguments.overwrite.clone(),
            seed: study.seed,
            remark: remark.clone(),
            progress: progress.as_lab_progress(),
        })
    };
    let mut labs = vec![open()?];
    let most = as_wished(labs[0].most_side_by_side(&stacks, at_once(study)), study, arguments);
    while labs.len() < most {
        labs.push(open()?);
    }
    let signals = EndOnSignals::of(&labs)?;
    let options = CampaignOptions { as_study, trace_to: arguments.trace_to.clone(), again: arguments.again };
    let benches = labs.iter_mut().map(|lab| lab as &mut (dyn Bench + Send)).collect();
    let end = run_campaign(benches, study, store, &options, signals.interrupted(), &progress);
    progress.step("taking the machines down");
    drop(labs);
    progress.finish();
    let end = end?;
    remember_virtual_time(&place, &end.runs)?;
    Ok((end, signals.interrupted().load(Ordering::Relaxed)))
}

/// The most that a cell of a study has at the same time.
pub fn at_once(study: &Study) -> AtOnce {
    AtOnce { instances: study.most_instances(), nodes: study.most_nodes() }
}

/// How many cells of a study will run at once on this machine, for plans.
///
/// # Errors
/// When nothing can be found out about this machine.
pub fn likely_side_by_side(study: &Study, place: &Place, arguments: &LabArguments) -> Result<usize> {
    // Elsewhere it is one, and no agent need be started to learn it.
    if !place.is_in_virtual_time() {
        return Ok(1);
    }
    let stacks = stacks_of(study.run_stacks());
    let machine = Ground::here()?.machine().facts()?;
    Ok(as_wished(most_side_by_side(place, &machine, &stacks, at_once(study)), study, arguments))
}

fn as_wished(possible: usize, study: &Study, arguments: &LabArguments) -> usize {
    let wished = arguments.jobs.map_or(usize::MAX, |jobs| jobs.get());
    possible.min(wished).min(study.all_cells(true, &Decisions::default()).len()).max(1)
}

/// Refuses, before anything is tried or started, a study with a cell that cannot run where the arguments say; returns its stacks.
///
/// # Errors
/// The layer or workload that cannot be there.
pub fn check_study(study: &Study, arguments: &LabArguments) -> Result<Vec<Stack>> {
    let stacks = check_plan(study, arguments)?;
    require_made(&stacks, arguments)?;
    Ok(stacks)
}

/// The same of a plan: what has to be made before it can be carried out may still be missing.
///
/// # Errors
/// The layer or workload that cannot be there.
pub fn check_plan(study: &Study, arguments: &LabArguments) -> Result<Vec<Stack>> {
    let stacks = stacks_of(study.run_stacks());
    check_stacks(&stacks, arguments)?;
    let place = place_to_check(&arguments.on);
    for written in &study.workloads {
        let Some(workload) = written.value() else { continue };
        check_files(workload)?;
        let run = study.stacks.iter().filter(|stack| study.runs(stack, written));
        run.filter_map(WrittenStack::value).try_for_each(|stack| check_target(stack, workload, &place))?;
    }
    Ok(stacks)
}

/// The stacks that this version knows.
pub fn stacks_of<'a>(written: impl Iterator<Item = &'a WrittenStack>) -> Vec<Stack> {
    written.filter_map(WrittenStack::value).cloned().collect()
}

/// Refuses stacks that cannot be where the arguments say.
fn check_stacks(stacks: &[Stack], arguments: &LabArguments) -> Result<()> {
    check_wish(stacks, &arguments.on)?;
    check_machine(stacks, &arguments.on)
}

/// Refuses stacks that need a pack of the lab image, a kernel or a QEMU that is not there.
///
/// # Errors
/// What is missing, and how to make it.
pub fn require_made(stacks: &[Stack], arguments: &LabArguments) -> Result<()> {
    let place = place_to_check(&arguments.on);
    // Elsewhere, what a machine is comes before what it needs.
    if place.is_emulated() {
        lab_image::require_packs(stacks.iter().filter_map(Stack::lab_pack))?;
    }
    lab_image::kernels_of(stacks)?;
    lab_image::qemus_of(&place, stacks)?;
    Ok(())
}

/// Leaves out the optional parts of a study of which a stack cannot run where the arguments say, each with the reason, and says so.
pub fn leave_out_what_cannot_run(study: &mut Study, arguments: &LabArguments) {
    for part in study.parts.iter_mut().filter(|part| part.optional) {
        let stacks = stacks_of(part.stacks.iter());
        let refused = check_stacks(&stacks, arguments).and_then(|()| require_made(&stacks, arguments)).err();
        part.left_out = refused.map(|error| {
            error
                .to_string()
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect::<Vec<_>>()
                .join("; ")
        });
    }
    let mut cells: BTreeMap<&str, usize> = BTreeMap::new();
    for part in &study.parts {
        let Some(reason) = &part.left_out else { continue };
        let left_out = part.cells().filter(|(stack, workload)| !study.runs(stack, workload)).count();
        *cells.entry(reason).or_default() += left_out * part.replications as usize;
    }
    for (reason, count) in cells {
        errln!("note: {} left out: {reason}", plural(count, "optional cell"));
    }
}

/// Removes what killed runs left on this machine, so that it neither takes space nor time from what runs now. What
/// cannot be removed is no reason not to run: `nestor doctor` shows it.
///
/// # Errors
/// The place of work directories is not this user's alone.
pub fn remove_leftovers() -> Result<()> {
    for leftover in ledger::leftovers(&work_root())?.dead {
        if leftover.clean().is_ok() {
            errln!("removed what a killed run left in {}", leftover.directory.display());
        }
    }
    Ok(())
}

/// Refuses, before anything is tried or started, what cannot be built in a place or has no room for a workload.
///
/// # Errors
/// The layer that cannot be built there.
pub fn check_wish(stacks: &[Stack], wish: &PlaceWish) -> Result<()> {
    let place = place_to_check(wish);
    stacks.iter().try_for_each(|stack| check_place(stack, &place))
}

/// Where what was wished for is checked. An emulated host has the same layers in either time, and in real time all options.
pub fn place_to_check(wish: &PlaceWish) -> Cow<'_, Place> {
    match wish {
        PlaceWish::EmulatedInRightTime => Cow::Owned(Place::Emulated(HostTime::Real)),
        PlaceWish::Exactly(place) => Cow::Borrowed(place),
    }
}

/// Refuses what this machine has no memory or no medium for: one mistyped word makes no results.
fn check_machine(stacks: &[Stack], wish: &PlaceWish) -> Result<()> {
    let (place, available_bytes) = (place_to_check(wish), nestor_kernel::memory::total_bytes()?);
    Ok(stacks.iter().try_for_each(|stack| require_machine(stack, &place, available_bytes))?)
}

/// The same of a place whose time is settled, too.
///
/// # Errors
/// The layer or option that cannot be there.
pub fn check_settled(study: &Study, place: &Place) -> Result<()> {
    stacks_of(study.run_stacks()).iter().try_for_each(|stack| check_place(stack, place))
}

fn check_place(stack: &Stack, place: &Place) -> Result<()> {
    if stack.offers() == Offer::Image {
        stack.require_directory()?;
    }
    Ok(stack.require_place(place)?)
}

/// Refuses a workload that makes files on a stack without a file system at the top, and the other way round.
fn check_target(stack: &Stack, workload: &Workload, place: &Place) -> Result<()> {
    if let Some(life) = workload.life() {
        stack.require_instances(life.count, life.nodes)?;
        stack.require_nodes_at(life.nodes, place)?;
        check_managed_life(stack, &life)?;
    } else if let Some((at, instance)) = stack.managed() {
        let product = instance.kind().product();
        let message = format!(
            "{product} starts this machine, and Nestor measures only its life: {workload} needs a machine of Nestor's"
        );
        return Err(StackError::at_layer(stack, at, message, "use the workload life:cycle").into());
    }
    let (message, help) = match (workload.works_on(), stack.offers()) {
        (WorksOn::Directories, Offer::Block) => (
            format!("{workload} makes files, but this stack offers a block device"),
            "put a file system at the top, as in ext4/…",
        ),
        (WorksOn::Devices, Offer::Dir) => (
            format!("{workload} works on a block device, but this stack offers a directory"),
            "remove the file system at the top",
        ),
        _ => return Ok(()),
    };
    Err(StackError::at_layer(stack, LayerIndex::TOP, message, help).into())
}

/// Nothing runs in an instance of a manager: Nestor has no way into it.
fn check_managed_life(stack: &Stack, life: &LifeCycle) -> Result<()> {
    let Some((at, instance)) = stack.managed() else { return Ok(()) };
    let Some(run) = &life.run else { return Ok(()) };
    let message = format!(
        "{run} is to run in an instance that {} starts, and Nestor has no way into it",
        instance.kind().product()
    );
    Err(StackError::at_layer(stack, at, message, "omit run=: life:cycle").into())
}

/// Which lab image with more in it this machine has to have for a stack: for the emulated host, or for guests here.
fn pack_here(place: &Place, stack: &Stack) -> Option<LabPack> {
    match place {
        Place::Emulated(_) => stack.lab_pack(),
        Place::This => stack.lab_pack_of_guests(),
        // Machines are as they are, and make the image of their guests themselves.
        Place::Ssh(_) | Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => None,
    }
}

/// Whether this machine has to have the lab image: for an emulated host, or for guests here that have no other.
fn needs_image_here(place: &Place, stacks: &[Stack]) -> bool {
    let has_guest =
        |stack: &Stack| stack.innermost_hypervisor().is_some() && stack.lab_pack_of_guests().is_none();
    match place {
        Place::Emulated(_) => true,
        Place::This => stacks.iter().any(has_guest),
        Place::Ssh(_) | Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => false,
    }
}
