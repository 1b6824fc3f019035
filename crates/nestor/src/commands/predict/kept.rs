//! What the learnt model of a store counts how much: fitted once, and kept in a file beside the store.

use std::path::{Path, PathBuf};

use nestor_predict::{KeptWeights, Knowledge};

/// The weights kept for a store; none if they cannot be read, for they can be fitted again.
pub fn read(store: &Path) -> Option<KeptWeights> {
    let text = std::fs::read_to_string(file(store)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Keeps the weights of a store. Where that cannot be, they are fitted again the next time.
pub fn write(store: &Path, knowledge: &Knowledge) {
    let Some(kept) = knowledge.kept() else { return };
    let file = file(store);
    let written = serde_json::to_vec_pretty(kept).map_err(std::io::Error::other);
    if let Err(error) = written.and_then(|text| std::fs::write(&file, text)) {
        eprintln!(
            "warning: {} cannot be written ({error}), so the learnt model is fitted again each time; copy the store to where you may write",
            file.display()
        );
    }
}

/// `results.sqlite` has `results.learnt.json`.
fn file(store: &Path) -> PathBuf {
    store.with_extension("learnt.json")
}
