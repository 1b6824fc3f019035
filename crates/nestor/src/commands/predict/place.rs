//! The place that is predicted for.

use anyhow::Result;
use nestor_predict::on_other_processors;
use nestor_results::{Known, KnownPlace, Store};
use nestor_stack::PlaceWish;

use crate::arguments::LabArguments;

/// What was measured at the place that `--on` names, with a note where there is more that does not count.
///
/// # Errors
/// When the store cannot be read.
pub fn known(store: &Store, lab: &LabArguments) -> Result<Known> {
    let known = store.known(&lab.place_of_results(store)?.to_string())?;
    let (unsettled, cells) = (known.unsettled_cells, known.cells.len());
    if unsettled > 0 {
        errln!(
            "note: {unsettled} of {cells} cells have no run with settled throughput; longer runs settle \
             (runtime=)"
        );
    }
    if let Some(places) = on_other_processors(&known) {
        errln!("note: the runs on {places} do not count: the newest run is from {}", known.place.in_words());
    }
    Ok(known)
}

/// `--on` for commands that measure more; `None` where it may be left out. A place that this version does not know is always named.
///
/// # Errors
/// When nothing can be found out about this machine.
pub fn named(place: &KnownPlace, lab: &LabArguments) -> Result<Option<String>> {
    let is_usual = lab.on == PlaceWish::default() && place.on.value() == Some(&lab.usual_place()?);
    Ok((!is_usual).then(|| place.on.as_asked()))
}
