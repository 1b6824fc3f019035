//! Whether the layers of a stack fit together.

use crate::error::replaced;
use crate::{Conflict, HOST_MEMORY_OPTION, Layer, LayerDefinition, Offer, StackError, StackErrorKind};

/// Checks each layer against the one below it, from the application down, then the options of each.
pub(crate) fn check(text: &str, layers: &[Layer]) -> Result<(), StackError> {
    for (index, layer) in layers.iter().enumerate() {
        match layers.get(index + 1) {
            Some(below) => check_pair(text, layer, below)?,
            None if matches!(layer.definition(), LayerDefinition::Medium(_)) => {}
            None => return Err(missing_medium(text, layer)),
        }
    }
    let refused = |layer: &Layer, conflict: Conflict| {
        let span = conflict.option.and_then(|o| layer.option_span(o)).unwrap_or_else(|| layer.name_span());
        StackError::new(StackErrorKind::Conflict, text, span, conflict.message).with_help(conflict.help)
    };
    for (index, layer) in layers.iter().enumerate() {
        (layer.spec.check)(layer, layers.get(index + 1)).map_err(|conflict| refused(layer, conflict))?;
    }
    check_host_memory(layers).map_err(|(medium, conflict)| refused(medium, conflict))
}

/// The memory of a machine that runs virtual machines is said by them, because it has to hold theirs too.
fn check_host_memory(layers: &[Layer]) -> Result<(), (&Layer, Conflict)> {
    let hypervisor =
        layers.iter().rev().find(|layer| matches!(layer.definition(), LayerDefinition::Hypervisor(_)));
    let medium = layers.last().filter(|medium| medium.is_set(HOST_MEMORY_OPTION));
    let (Some(medium), Some(hypervisor)) = (medium, hypervisor) else { return Ok(()) };
    let name = hypervisor.name();
    Err((
        medium,
        Conflict {
            option: Some(HOST_MEMORY_OPTION),
            message: format!(
                "{HOST_MEMORY_OPTION} of {} is for stacks without a virtual machine",
                medium.name()
            ),
            help: format!("write it as an option of {name}: {name}:{HOST_MEMORY_OPTION}=…"),
        },
    ))
}

fn check_pair(text: &str, upper: &Layer, lower: &Layer) -> Result<(), StackError> {
    let needs = upper.definition().needs();
    let offers = lower.offers();
    if needs.contains(&offers) {
        return Ok(());
    }
    let (name, below) = (upper.name(), lower.name());
    if needs.is_empty() {
        let message = format!("no layer can be below {name}: a medium is the last layer of a stack");
        let error = StackError::new(StackErrorKind::BelowMedium, text, lower.span.clone(), message);
        return Err(error.suggest("end the stack there", text[..upper.span.end].to_owned()));
    }
    let message =
        format!("{name} needs {} below it; {below} offers {}", upper.spec.needs_words(), offers.words());
    let error = StackError::new(StackErrorKind::Type, text, lower.span.clone(), message);
    if matches!(upper.definition(), LayerDefinition::Loop) && offers == Offer::Block {
        let without = replaced(text, upper.span.start..lower.span.start, "");
        return Err(error.suggest(&format!("{below} is already a block device; remove {name}"), without));
    }
    let (words, between) = between(needs, offers);
    Err(error.suggest(words, replaced(text, lower.span.start..lower.span.start, between)))
}

/// What to put between a layer that needs one thing and a layer that offers another, with its separator.
fn between(needs: &[Offer], offers: Offer) -> (&'static str, &'static str) {
    match (needs.contains(&Offer::Block), needs.contains(&Offer::Image), offers) {
        (_, true, Offer::Dir) => ("put an image between them", "raw/"),
        (true, _, Offer::Dir) => ("put a virtual machine and its image between them", "kvm/raw/"),
        (true, _, _) => ("put a virtual machine between them", "kvm/"),
        (false, true, _) => ("put a file system and an image between them", "raw/ext4/"),
        (false, false, Offer::Image) => ("put a virtual machine and a file system between them", "ext4/kvm/"),
        (false, false, _) => ("put a file system between them", "ext4/"),
    }
}

fn missing_medium(text: &str, last: &Layer) -> StackError {
    let message = format!("{} needs {} below it; the stack ends here", last.name(), last.spec.needs_words());
    let error = StackError::new(StackErrorKind::MissingMedium, text, last.span.clone(), message);
    let below = match last.definition().needs() {
        [Offer::Dir] => "/ext4/hdd",
        [Offer::Image] => "/raw/ext4/hdd",
        _ => "/hdd",
    };
    error.suggest("end it with a medium", format!("{text}{below}"))
}
