//! The layers and their options as a table, for the command line's help and the documentation.

use serde::Serialize;

use crate::{Crossing, Offer, OptionKind, registry};

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerHelp {
    /// Its name.
    pub name: &'static str,
    /// What kind of layer it is, in words: `file system`.
    pub kind: &'static str,
    /// One line: what it is.
    pub summary: &'static str,
    /// What it can stand on; empty for a medium.
    pub needs: Vec<Offer>,
    /// What it needs of a source, behind `//`; `None` for all that have none.
    pub source: Option<Offer>,
    /// What it gives to the layer above on each of these.
    pub offers: Vec<Offer>,
    /// Whether what is above it is in another machine.
    pub new_machine: bool,
    /// Its options, in canonical order.
    pub options: Vec<OptionHelp>,
    /// Debian packages a machine needs for it.
    pub packages: &'static [&'static str],
    /// Why it cannot be built yet; `None` if it can.
    pub not_buildable: Option<&'static str>,
}

/// One option.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionHelp {
    /// Its name.
    pub name: &'static str,
    /// How it is written: `cache=none|writeback`, `iothread`, `NAME`.
    pub form: String,
    /// What values it takes, in words.
    pub values: String,
    /// Its value when it is not written.
    pub default: Option<&'static str>,
    /// One line: what it does.
    pub summary: &'static str,
}

/// Every layer with its options, in the order of the registry.
pub fn layers_help() -> Vec<LayerHelp> {
    let option = |o: &crate::OptionSpec| OptionHelp {
        name: o.name,
        form: match o.kind {
            kind if kind.is_positional() => kind.form(),
            OptionKind::Path => o.kind.form(),
            _ => format!("{}={}", o.name, o.kind.form()),
        },
        values: o.kind.allowed(),
        default: o.default,
        summary: o.summary,
    };
    registry()
        .iter()
        .map(|spec| LayerHelp {
            name: spec.name,
            kind: spec.definition.kind(),
            summary: spec.summary,
            needs: spec.definition.needs().collect(),
            source: spec.definition.source(),
            offers: spec.definition.rules().iter().map(|rule| rule.offers).collect(),
            new_machine: spec.definition.crossing() != Crossing::None,
            options: spec.options.iter().map(option).collect(),
            packages: spec.packages,
            not_buildable: spec.not_buildable,
        })
        .collect()
}
