//! What the learnt model of a store counts how much: fitted once for each place, and kept in a file beside the store.

use std::path::{Path, PathBuf};

use nestor_predict::{KeptWeights, Knowledge};
use nestor_results::KnownPlace;
use nestor_text::complaint::WARNING;
use serde::{Deserialize, Serialize};

use crate::whole_file;

/// The weights of one place.
#[derive(Deserialize, Serialize)]
struct OfPlace {
    #[serde(flatten)]
    place: KnownPlace,
    weights: KeptWeights,
}

/// The weights kept for a place of a store; none if they cannot be read, for they can be fitted again.
pub fn read(store: &Path, place: &KnownPlace) -> Option<KeptWeights> {
    of_places(&file(store)).into_iter().find(|kept| kept.place == *place).map(|kept| kept.weights)
}

fn of_places(file: &Path) -> Vec<OfPlace> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Keeps the weights of a place beside those of others. Where that cannot be, they are fitted again the next time.
pub fn write(store: &Path, place: &KnownPlace, knowledge: &Knowledge) {
    let Some(weights) = knowledge.kept().cloned() else { return };
    let file = file(store);
    let mut all = of_places(&file);
    all.retain(|kept| kept.place != *place);
    all.push(OfPlace { place: place.clone(), weights });
    let written = serde_json::to_vec_pretty(&all).map_err(std::io::Error::other);
    if let Err(error) = written.and_then(|text| whole_file::write_in_own(&file, &text)) {
        errln!(
            "{WARNING}{} cannot be written ({error}), so the learnt model is fitted again each time; copy \
             the store to a directory in which you may write",
            file.display()
        );
    }
}

/// `results.sqlite` has `results.learnt.json`.
fn file(store: &Path) -> PathBuf {
    store.with_extension("learnt.json")
}
