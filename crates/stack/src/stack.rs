//! A stack that fits together.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::joints;
use crate::lines::Lines;
use crate::offer::offered;
use crate::placement::{link_of_a_guest, without_guest_below};
use crate::{Layer, LayerDefinition, LayerIndex, LayerRole, Offer, StackError, StackErrorKind, parse};

/// A stack that fits together: layers from the application down to a medium, and the source of one of them if it wants one.
///
/// Prints, and is stored by serde, in canonical notation; equal to every stack with the same canonical notation.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Stack {
    text: String,
    lines: Lines,
}

impl Stack {
    /// Reads one stack, without alternatives in braces, and checks that its layers fit together.
    ///
    /// # Errors
    ///
    /// The leftmost mistake, with a correction.
    pub fn parse(text: &str) -> Result<Self, StackError> {
        parse::stack(text)
    }

    /// Puts layers together, application side first, and checks that they fit. The stack has no source.
    ///
    /// # Errors
    ///
    /// The first that does not fit, with a correction; the error's text is the stack in canonical notation.
    pub fn of(layers: impl IntoIterator<Item = Layer>) -> Result<Self, StackError> {
        Self::with_source(layers, [])
    }

    /// The same with the layers of a source, from its link down; none for a stack without one.
    ///
    /// # Errors
    ///
    /// See [`Self::of`].
    pub fn with_source(
        layers: impl IntoIterator<Item = Layer>,
        source: impl IntoIterator<Item = Layer>,
    ) -> Result<Self, StackError> {
        parse::of_layers(layers, source)
    }

    /// The stack with another layer in the place of one.
    ///
    /// # Errors
    ///
    /// See [`Self::of`].
    pub fn with_layer(&self, index: LayerIndex, layer: Layer) -> Result<Self, StackError> {
        let in_place = |(at, own): (LayerIndex, &Layer)| if at == index { &layer } else { own }.clone();
        Self::with_source(self.indexed_layers().map(in_place), self.indexed_source().map(in_place))
    }

    pub(crate) fn from_parts(text: String, lines: Lines) -> Self {
        Self { text, lines }
    }

    /// The layers that a write passes, application side first; never empty, the last is a medium.
    pub fn layers(&self) -> &[Layer] {
        self.lines.main()
    }

    /// The layers of the source, from its link down to the medium of the repository; empty of a stack without one.
    pub fn source(&self) -> &[Layer] {
        self.lines.source()
    }

    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The text it was read from, which all spans are positions in.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The last layer that a write passes.
    pub fn medium(&self) -> &Layer {
        self.layers().last().expect("a stack was checked to end with a medium")
    }

    /// What its top gives to a workload.
    pub fn offers(&self) -> Offer {
        offered(self.layers()).expect("a stack was checked not to be empty")
    }

    /// For workloads that need files.
    ///
    /// # Errors
    ///
    /// If the top of the stack is not a directory.
    pub fn require_directory(&self) -> Result<(), StackError> {
        let (top, offers) = (&self.layers()[0], self.offers());
        if offers == Offer::Dir {
            return Ok(());
        }
        let message = format!("the workload needs a directory; {} offers {}", top.name(), offers.words());
        let error = StackError::new(StackErrorKind::Type, &self.text, top.span.clone(), message);
        let apart = (&[Offer::Dir][..], offers);
        Err(parse::mended(joints::suggested(error, apart, "on top", self.layers())))
    }

    /// For those who build it.
    ///
    /// # Errors
    ///
    /// If a layer is known but cannot be built yet, in whatever place ([`Self::require_place`] says what one place does not have).
    pub fn require_buildable(&self) -> Result<(), StackError> {
        self.why_not_buildable().map_or(Ok(()), |why| Err(parse::mended(why)))
    }

    /// Why it can be built in no place, with candidates of what can.
    pub(crate) fn why_not_buildable(&self) -> Option<StackError> {
        let refused = |layer: &Layer, message: String| {
            StackError::new(StackErrorKind::NotBuildable, &self.text, layer.span.clone(), message)
        };
        let all = self.lines.all();
        if let Some((layer, reason)) = all.iter().find_map(|l| l.spec.not_buildable.map(|r| (l, r))) {
            return Some(refused(layer, format!("{} cannot be built yet", layer.name())).with_help(reason));
        }
        if let Some((layer, other)) = self.needs_two_packs() {
            let message = format!(
                "{} and {} need different packs of the lab image, and a machine has one",
                layer.name(),
                other.name()
            );
            return Some(refused(layer, message).with_help("use kvm or tcg, or an image without a source"));
        }
        if let Some(why) = self.why_not_with_its_kernel().or_else(|| self.why_not_with_its_qemu()) {
            return Some(why);
        }
        let link = link_of_a_guest(self)?;
        let message = "a link joins machines that are in no other, and the one below it is a guest";
        let candidates = without_guest_below(self, link);
        Some(refused(self.layer(link), message.to_owned()).suggest_first_of(candidates))
    }

    /// Whether it has more links than virtual time holds together.
    pub(crate) fn has_several_links(&self) -> bool {
        self.lines.all().iter().filter(|layer| layer.link().is_some()).count() > 1
    }

    /// What a layer is for.
    ///
    /// # Panics
    ///
    /// If that layer does not exist.
    pub fn role(&self, index: LayerIndex) -> LayerRole {
        let layer = self.layer(index);
        match layer.definition() {
            LayerDefinition::FileSystem(_) => {
                LayerRole::FileSystem(self.machines()[self.machine_of(index)].label)
            }
            LayerDefinition::ImageFormat(_) | LayerDefinition::SourcedImage(_) => {
                LayerRole::Image(layer.name().to_owned())
            }
            LayerDefinition::Loop => LayerRole::LoopDevice,
            LayerDefinition::Hypervisor(_) => LayerRole::VirtualMachine,
            LayerDefinition::Link => LayerRole::Link,
            LayerDefinition::NetworkFileSystem => LayerRole::NetworkFileSystem,
            LayerDefinition::NetworkDisk => LayerRole::NetworkDisk,
            LayerDefinition::Partition => LayerRole::Partition,
            LayerDefinition::PrivilegedDomain => LayerRole::PrivilegedDomain,
            LayerDefinition::Medium(_) => LayerRole::Disk,
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, layer) in self.indexed_all() {
            write!(f, "{}{layer}", parse::separator_before(at.position(), self.layers().len()))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({self})")
    }
}

impl PartialEq for Stack {
    fn eq(&self, other: &Self) -> bool {
        self.lines == other.lines
    }
}

impl Eq for Stack {}

impl Hash for Stack {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

impl FromStr for Stack {
    type Err = StackError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl From<Stack> for String {
    fn from(stack: Stack) -> Self {
        stack.to_string()
    }
}

impl TryFrom<String> for Stack {
    type Error = StackError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}
