//! Whether the layers of a stack fit together.

use crate::error::{enumerated, replaced};
use crate::joints;
use crate::layers::hypervisors::{check_without_disk, check_without_link};
use crate::layers::network::check_served;
use crate::lines::Lines;
use crate::memory::{check_available, check_room_for_guests};
use crate::offer::offered;
use crate::source::{check_source, image_of};
use crate::under_xen::check_xen;
use crate::{
    Conflict, Crossing, HOST_MEMORY_OPTION, Layer, LayerDefinition, Offer, StackError, StackErrorKind,
};

/// Checks what each layer offers to the one above it, then the options of each.
pub(crate) fn check(text: &str, lines: &Lines) -> Result<(), StackError> {
    check_types(text, lines.main(), &Wanted::ByAnApplication)?;
    check_source(text, lines)?;
    check_options(text, lines.main(), lines.source())?;
    check_options(text, lines.source(), &[])
}

/// Checks the options of each layer of a line; `source` is the line of its source, if it has one.
fn check_options(text: &str, layers: &[Layer], source: &[Layer]) -> Result<(), StackError> {
    let refused = |layer: &Layer, conflict: Conflict| refused(text, layer, conflict);
    for (index, layer) in layers.iter().enumerate() {
        let below = layers.get(index + 1).map(|below| image_of(below, source));
        (layer.spec.check)(layer, below.as_deref())
            .and_then(|()| check_disk(&layers[index..]))
            .map_err(|conflict| refused(layer, conflict))?;
    }
    check_xen(layers).map_err(|(layer, conflict)| refused(layer, conflict))?;
    check_available(layers).map_err(|(link, conflict)| refused(link, conflict))?;
    check_room_for_guests(layers).map_err(|(layer, conflict)| refused(layer, conflict))?;
    check_host_memory(layers).map_err(|(medium, conflict)| refused(medium, conflict))
}

/// An error that points at the option of a layer, or at the layer's name.
pub(crate) fn refused(text: &str, layer: &Layer, conflict: Conflict) -> StackError {
    let span = conflict.option.and_then(|o| layer.option_span(o)).unwrap_or_else(|| layer.name_span());
    StackError::new(StackErrorKind::Conflict, text, span, conflict.message).with_help(conflict.help)
}

/// A virtual machine over a link has no disk. What a network disk serves is below all that joins the two machines.
fn check_disk(layers: &[Layer]) -> Result<(), Conflict> {
    match layers[0].definition() {
        LayerDefinition::Hypervisor(_) if offered(layers) != Some(Offer::Block) => {
            check_without_disk(&layers[0]).and_then(|()| check_without_link(&layers[0]))
        }
        LayerDefinition::NetworkDisk => {
            check_served(&layers[0], layers[1..].iter().find(|layer| layer.crossing() == Crossing::None))
        }
        _ => Ok(()),
    }
}

/// The memory of a machine that runs virtual machines is said by them, because it has to hold theirs too.
fn check_host_memory(layers: &[Layer]) -> Result<(), (&Layer, Conflict)> {
    let crossing = layers.iter().rev().find(|layer| layer.crossing() != Crossing::None);
    let hypervisor = crossing.filter(|layer| layer.crossing() == Crossing::Inside);
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

/// What the first layer of a line is for.
pub(crate) enum Wanted<'a> {
    /// An application uses it.
    ByAnApplication,
    /// It is the source of this layer, which needs that.
    ByLayer(&'a Layer, Offer),
}

impl Wanted<'_> {
    /// What it may offer.
    fn offers(&self) -> Vec<Offer> {
        match self {
            Self::ByAnApplication => Offer::AT_THE_TOP.to_vec(),
            Self::ByLayer(_, offer) => vec![*offer],
        }
    }

    /// What is said where it offers something else.
    fn misfit(&self, first: &Layer, offers: Offer) -> String {
        let (name, offers) = (first.name(), offers.words());
        match self {
            Self::ByAnApplication => {
                format!("an application needs a directory or a block device; {name} offers {offers}")
            }
            Self::ByLayer(layer, needs) => {
                format!("{} needs {} as its source; {name} offers {offers}", layer.name(), needs.words())
            }
        }
    }
}

/// From the top down: what a layer offers depends on what is below it, so what it needs there depends on what the layers
/// above it need.
pub(crate) fn check_types(text: &str, layers: &[Layer], by: &Wanted<'_>) -> Result<(), StackError> {
    let mut wanted = by.offers();
    let mut upper = None;
    for (index, layer) in layers.iter().enumerate() {
        let mut rules =
            layer.definition().rules().iter().filter(|rule| wanted.contains(&rule.offers)).peekable();
        if rules.peek().is_none() {
            return Err(misfit(text, layers, (by, &wanted), index));
        }
        wanted = rules.filter_map(|rule| rule.needs).collect();
        upper = Some(layer);
    }
    match upper {
        Some(last) if !wanted.is_empty() => Err(missing_medium(text, last, &wanted)),
        _ => Ok(()),
    }
}

/// What is said of a layer that needs one thing on layers that offer another, from `index` on.
fn misfit(text: &str, layers: &[Layer], (by, needs): (&Wanted<'_>, &[Offer]), index: usize) -> StackError {
    let (lower, offers) = (&layers[index], offered(&layers[index..]).expect("a layer offers something"));
    let error = |message| StackError::new(StackErrorKind::Type, text, lower.span.clone(), message);
    let Some(upper) = index.checked_sub(1).map(|above| &layers[above]) else {
        let place = match by {
            Wanted::ByAnApplication => "on top",
            Wanted::ByLayer(..) => "first in the source",
        };
        return joints::suggested(error(by.misfit(lower, offers)), (needs, offers), place, layers);
    };
    let line_end = layers.last().map_or(text.len(), |last| last.span.end);
    let (name, below) = (upper.name(), lower.name());
    if needs.is_empty() {
        let message = format!("no layer can be below {name}: a medium is the last layer of a stack");
        let error = StackError::new(StackErrorKind::BelowMedium, text, lower.span.clone(), message);
        return error.suggest("end the stack there", replaced(text, upper.span.end..line_end, ""));
    }
    let error = error(format!("{name} needs {} below it; {below} offers {}", words(needs), offers.words()));
    let without_upper = || replaced(text, upper.span.start..lower.span.start, "");
    match upper.definition() {
        LayerDefinition::Loop if offers == Offer::Block => {
            error.suggest(&format!("{below} is already a block device; remove {name}"), without_upper())
        }
        LayerDefinition::SourcedImage(_) if offers == Offer::Image => {
            let end = layers.get(index + 1).map_or(line_end, |next| next.span.start);
            let words = format!("{name} is the image here; remove {below}");
            error.suggest(&words, replaced(text, lower.span.start..end, ""))
        }
        LayerDefinition::PrivilegedDomain => {
            let medium = layers.last().map_or(lower.span.start, |medium| medium.span.start);
            let without = [&text[..upper.span.start], &text[lower.span.start..medium]].concat();
            if offered(&layers[layers.len() - 1..]) == Some(Offer::Dir) {
                // What stands on the directory needs one.
                let file_system = if lower.span.start == medium { "" } else { "ext4/" };
                let other = format!("{without}{file_system}{upper}/file:/srv/disk.img");
                return error.suggest("use a medium that is a block device", other);
            }
            let moved = format!("{without}{upper}/{}", &text[medium..]);
            error.suggest(&format!("put {name} directly above the medium"), moved)
        }
        LayerDefinition::Link | LayerDefinition::NetworkFileSystem if name == below => {
            let words = format!("one {name} is enough; remove the other");
            let has_options = |layer: &Layer| layer.written_options().next().is_some();
            match (has_options(upper), has_options(lower)) {
                // Which of them is meant is not known.
                (true, true) => error.with_help(words),
                (_, true) => error.suggest(&words, without_upper()),
                (_, false) => error.suggest(&words, replaced(text, upper.span.end..lower.span.end, "")),
            }
        }
        _ => joints::suggested(error, (needs, offers), "between them", &layers[index..]),
    }
}

fn missing_medium(text: &str, last: &Layer, needs: &[Offer]) -> StackError {
    let message = format!("{} needs {} below it; the stack ends here", last.name(), words(needs));
    let error = StackError::new(StackErrorKind::MissingMedium, text, last.span.clone(), message);
    let between = joints::above_block_device(needs);
    let end = last.span.end;
    error.suggest("end it with a medium", replaced(text, end..end, &format!("/{between}hdd")))
}

fn words(offers: &[Offer]) -> String {
    enumerated(offers.iter().map(|offer| offer.words()), "or")
}
