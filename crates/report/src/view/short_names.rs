//! Names of recorded layers for narrow columns.

use std::collections::HashMap;

use nestor_results::LayerRecord;
use nestor_stack::{Layer, LayerDefinition, Stack};

/// The short names of a run's layers, by the text that the record has of each.
#[derive(Debug, Default)]
pub struct ShortNames<'a>(HashMap<&'a str, String>);

impl<'a> ShortNames<'a> {
    /// Of the recorded layers of a stack. A stack that this version does not know has none, and so has one of which other layers were recorded.
    pub fn of(stack: Option<&Stack>, recorded: &'a [LayerRecord]) -> Self {
        let recorded: Vec<_> = recorded.iter().filter(|record| !record.is_application()).collect();
        let layers = stack.map(Stack::layers).filter(|layers| layers.len() == recorded.len());
        let names = recorded.iter().zip(layers.unwrap_or_default());
        Self(names.map(|(record, layer)| (record.layer.as_str(), short_name(layer))).collect())
    }

    /// That of a layer, else its text.
    pub fn get(&self, recorded: &str) -> String {
        self.0.get(recorded).map_or_else(|| recorded.to_owned(), Clone::clone)
    }
}

/// A layer without its options; a modelled medium keeps its own, which say what disk it is.
fn short_name(layer: &Layer) -> String {
    match layer.definition() {
        LayerDefinition::Medium(kind) if kind.is_modelled() => layer.label(),
        _ => layer.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nestor_stack::{LayerRole, MachineLabel};

    use super::*;

    fn names_of(text: &str) -> [String; 3] {
        let stack = Stack::parse(text).ok();
        let layer = |layer: &str, role: LayerRole| LayerRecord::new(layer, role, MachineLabel::Host, None);
        let recorded = [
            layer("application", LayerRole::Application),
            layer("ext4:journal=data", "guest fs".into()),
            layer("kvm:cache=none", "virtual machine".into()),
            layer("hdd:wd-re3", LayerRole::Disk),
        ];
        let names = ShortNames::of(stack.as_ref(), &recorded);
        ["ext4:journal=data", "kvm:cache=none", "hdd:wd-re3"].map(|recorded| names.get(recorded))
    }

    #[test]
    fn options_are_left_out_except_what_disk_is_modelled() {
        assert_eq!(names_of("ext4:journal=data/kvm:cache=none/hdd:wd-re3"), ["ext4", "kvm", "hdd:wd-re3"]);
    }

    #[test]
    fn layers_of_a_stack_that_is_not_known_keep_their_text() {
        for unknown in ["ext9/kvm/hdd", "ext4/hdd"] {
            assert_eq!(names_of(unknown), ["ext4:journal=data", "kvm:cache=none", "hdd:wd-re3"], "{unknown}");
        }
    }
}
