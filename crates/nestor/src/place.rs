//! Which place `--on` means on this machine.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use nestor_lab::{BuildError, Joins, Lab, LabOptions, VirtualTimeMemory, qemu_identity};
use nestor_machine::{Facts, Ground};
use nestor_results::{Store, StoredRun, WrittenPlace};
use nestor_stack::{Accelerator, HostTime, Place, PlaceWish, Stack};

use crate::arguments::{LabArguments, SettledPlace};
use crate::lab_image;
use crate::paths;
use crate::progress::Progress;
use crate::signals::EndOnSignals;

impl LabArguments {
    /// Where cells run. What is not known yet of this machine's KVM and QEMU is tried.
    ///
    /// # Errors
    /// When nothing can be tried: there is no room for the lab image, or the user interrupted.
    pub fn place(&self) -> Result<&SettledPlace> {
        if let Some(settled) = self.settled.get() {
            return Ok(settled);
        }
        let settled = match &self.on {
            PlaceWish::Exactly(place) => SettledPlace::exactly(place.clone()),
            PlaceWish::EmulatedInRightTime => emulated(&facts()?)?,
        };
        Ok(self.settled.get_or_init(|| settled))
    }

    /// Where the results are from that a command only reads: those of this machine's place, if there are any; otherwise those
    /// of an emulated host in the other time. Measurements that follow are made in the same place.
    ///
    /// # Errors
    /// When nothing can be found out about this machine, or the results cannot be read.
    pub fn place_of_results(&self, store: &Store) -> Result<Place> {
        self.place_with(|ground| Ok(store.has_runs_on(ground)?))
    }

    /// The same for going on with a study: where one was begun.
    ///
    /// # Errors
    /// As [`Self::place_of_results`].
    pub fn place_of_begun_study(&self, store: &Store) -> Result<Place> {
        self.place_with(|ground| Ok(store.study_begun_last(ground)?.is_some()))
    }

    /// This machine's place, if it has what is asked for; otherwise an emulated host in the other time, if that has.
    fn place_with(&self, has: impl Fn(&WrittenPlace) -> Result<bool>) -> Result<Place> {
        let likely = self.likely_place()?;
        let other = match (&self.on, &likely) {
            (PlaceWish::EmulatedInRightTime, Place::Emulated(HostTime::Virtual(_))) => {
                Place::Emulated(HostTime::Real)
            }
            (PlaceWish::EmulatedInRightTime, Place::Emulated(HostTime::Real)) => {
                Place::Emulated(HostTime::VIRTUAL)
            }
            _ => return Ok(likely),
        };
        let is_other = !has(&likely.clone().into())? && has(&other.clone().into())?;
        let settled = match likely {
            _ if is_other => SettledPlace::exactly(other),
            Place::Emulated(HostTime::Real) => in_real_time_because_of(&Known::of(&facts()?)),
            likely => SettledPlace::exactly(likely),
        };
        Ok(self.settled.get_or_init(|| settled).place.clone())
    }

    /// Where cells would run, for plans: nothing is tried for it.
    ///
    /// # Errors
    /// When nothing can be found out about this machine.
    pub fn likely_place(&self) -> Result<Place> {
        match self.settled.get() {
            Some(settled) => Ok(settled.place.clone()),
            None => self.usual_place(),
        }
    }

    /// What `--on` means on this machine, whatever results are used; nothing is tried for it.
    ///
    /// # Errors
    /// When nothing can be found out about this machine.
    pub fn usual_place(&self) -> Result<Place> {
        usual_place(&self.on)
    }
}

/// The same of a wish alone.
///
/// # Errors
/// When nothing can be found out about this machine.
pub fn usual_place(wish: &PlaceWish) -> Result<Place> {
    if let PlaceWish::Exactly(place) = wish {
        return Ok(place.clone());
    }
    let facts = facts()?;
    let known = Known::of(&facts);
    let is_real = match known.accelerator {
        Some(accelerator) => accelerator.is_hardware_assisted(),
        None => facts.may_use_hardware,
    };
    let time = match known.joins {
        _ if is_real || facts.hypervisor.is_none() => HostTime::Real,
        Some(Joins::No(_)) => HostTime::Real,
        Some(Joins::Yes { .. } | Joins::Failed(_)) | None => HostTime::VIRTUAL,
    };
    Ok(Place::Emulated(time))
}

fn facts() -> Result<Facts> {
    Ok(Ground::here()?.machine().facts()?)
}

/// What earlier runs have found out.
struct Known {
    accelerator: Option<Accelerator>,
    joins: Option<Joins>,
    identity: String,
}

impl Known {
    fn of(facts: &Facts) -> Self {
        let (directory, (lab_hash, _)) = (paths::cache_directory(), lab_image::state());
        let identity = qemu_identity(facts, &lab_hash.to_string());
        let joins = VirtualTimeMemory::open(&directory).recall(&identity);
        Self { accelerator: nestor_lab::known_accelerator(facts, &lab_hash, &directory), joins, identity }
    }
}

/// An emulated host in the time that is right here: KVM needs no other time than its own.
fn emulated(facts: &Facts) -> Result<SettledPlace> {
    let in_real_time = Place::Emulated(HostTime::Real);
    if facts.hypervisor.is_none() {
        // Opening the lab says what to install.
        return Ok(SettledPlace::exactly(in_real_time));
    }
    let known = Known::of(facts);
    let has_kvm = match known.accelerator {
        Some(accelerator) => accelerator.is_hardware_assisted(),
        None => facts.may_use_hardware && kvm_works()?,
    };
    if has_kvm {
        return Ok(SettledPlace::exactly(in_real_time));
    }
    let joins = match known.joins {
        Some(joins @ (Joins::Yes { .. } | Joins::No(_))) => joins,
        earlier @ (Some(Joins::Failed(_)) | None) => match try_virtual_time()? {
            Ok(found) => {
                let found = found.after(earlier.as_ref());
                VirtualTimeMemory::open(&paths::cache_directory()).remember(&known.identity, &found);
                found
            }
            // The next run tries it again.
            Err(e) => return Ok(instead_in_real_time(&format!("virtual time could not be tried: {e}"))),
        },
    };
    Ok(match joins {
        Joins::Yes { .. } => SettledPlace::exactly(Place::Emulated(HostTime::VIRTUAL)),
        Joins::No(reason) => without_virtual_time(&reason),
        Joins::Failed(reason) => instead_in_real_time(&format!(
            "virtual time failed when it was tried (the next run tries it again): {reason}"
        )),
    })
}

/// Keeps what runs in virtual time that was asked for have shown: with a guest whose instructions were counted, nothing of it is left to be tried.
///
/// # Errors
/// When nothing can be found out about this machine.
pub fn remember_virtual_time(place: &Place, runs: &[StoredRun]) -> Result<()> {
    let shows_all = |run: &StoredRun| {
        let has_guest = run.record.stack.value().is_some_and(|stack| stack.innermost_hypervisor().is_some());
        has_guest && run.record.measured().is_some_and(|measured| measured.path_length.is_some())
    };
    if !place.is_in_virtual_time() || !runs.iter().any(shows_all) {
        return Ok(());
    }
    let known = Known::of(&facts()?);
    if !matches!(known.joins, Some(Joins::Yes { .. })) {
        let found = Joins::Yes { uncounted: None };
        VirtualTimeMemory::open(&paths::cache_directory()).remember(&known.identity, &found);
    }
    Ok(())
}

/// In real time, with the reason if it is this machine's QEMU and not its KVM.
fn in_real_time_because_of(known: &Known) -> SettledPlace {
    match &known.joins {
        Some(Joins::No(reason)) if !known.accelerator.is_some_and(Accelerator::is_hardware_assisted) => {
            without_virtual_time(reason)
        }
        _ => SettledPlace::exactly(Place::Emulated(HostTime::Real)),
    }
}

fn without_virtual_time(reason: &str) -> SettledPlace {
    instead_in_real_time(&format!(
        "virtual time does not work with this QEMU: {reason}; `nestor doctor` says how to try it again"
    ))
}

fn instead_in_real_time(why: &str) -> SettledPlace {
    let remark = format!("in real time, because {why}");
    errln!("{remark}");
    SettledPlace { place: Place::Emulated(HostTime::Real), remark: Some(remark) }
}

fn try_virtual_time() -> Result<Result<Joins, BuildError>> {
    tried("trying virtual time with this QEMU (once)", HostTime::VIRTUAL, |lab| Ok(Joins::probe(lab)))
}

fn kvm_works() -> Result<bool> {
    tried("trying KVM (once)", HostTime::Real, |lab| {
        Ok(lab.find_accelerator(&Stack::parse("ext4/null")?)?.is_hardware_assisted())
    })
}

fn tried<T>(what: &str, time: HostTime, attempt: impl FnOnce(&mut Lab) -> Result<T>) -> Result<T> {
    let progress = Progress::new(1);
    progress.step(what);
    let mut labs = [Lab::open(LabOptions {
        place: Place::Emulated(time),
        image: Some(lab_image::files()?),
        packs: BTreeMap::new(),
        kernels: BTreeMap::new(),
        qemus: BTreeMap::new(),
        cache_directory: paths::cache_directory(),
        overwrite: Vec::new(),
        seed: 1,
        remark: None,
        progress: progress.as_lab_progress(),
    })?];
    let signals = EndOnSignals::of(&labs)?;
    let found = attempt(&mut labs[0]);
    drop(labs);
    progress.finish();
    if signals.interrupted().load(Ordering::Relaxed) {
        bail!("interrupted; everything was taken down");
    }
    found
}
