//! One layer of a stack, with its options.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::{
    Bytes, LayerDefinition, LayerSpec, OptionKind, OptionSpec, StackError, StackErrorKind, check, parse,
};

/// One layer of a stack, as written. Equal to another if it is the same kind of layer with the same options, however
/// it was written and wherever.
#[derive(Clone)]
pub struct Layer {
    /// What kind of layer it is.
    pub spec: &'static LayerSpec,
    /// Where its name and options stand in [`Stack::text`](crate::Stack::text).
    pub span: Range<usize>,
    /// By position in `spec.options`; `None` also for an option written with its default value.
    pub(crate) options: Vec<Option<WrittenOption>>,
}

/// An option whose value is not the default.
#[derive(Clone, Debug)]
pub(crate) struct WrittenOption {
    /// In canonical form.
    pub(crate) value: String,
    /// Where the whole option is, key included.
    pub(crate) span: Range<usize>,
    /// Where its value is; the whole option for a bare flag.
    pub(crate) value_span: Range<usize>,
}

impl WrittenOption {
    /// As it is written in canonical form.
    fn shown(&self, spec: &LayerSpec, option: &OptionSpec) -> String {
        let (name, value) = (option.name, &self.value);
        match option.kind {
            // A bare word could also be a flag's name; then the key has to be there.
            OptionKind::Positional | OptionKind::Word(_) if spec.option(value).is_none() => value.clone(),
            OptionKind::Path => value.clone(),
            OptionKind::Flag if value == "on" && option.default == Some("off") => name.to_owned(),
            _ => format!("{name}={value}"),
        }
    }
}

/// How the kernel of a machine treats a block device; `None`: as it does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTuning<'a> {
    /// The I/O scheduler, for `/sys/block/*/queue/scheduler`.
    pub scheduler: Option<&'a str>,
    /// Read-ahead, for `/sys/block/*/queue/read_ahead_kb`; a multiple of 4 KiB.
    pub readahead: Option<Bytes>,
    /// Whether requests are not to be merged, for `/sys/block/*/queue/nomerges`.
    pub no_merges: bool,
}

impl Layer {
    /// Reads one layer, as it is written in a stack.
    ///
    /// # Errors
    ///
    /// What is wrong with it; its text is that of the layer alone.
    pub fn parse(text: &str) -> Result<Self, StackError> {
        parse::layer(text)
    }

    /// Checks options that exclude each other, whatever is below the layer.
    ///
    /// # Errors
    ///
    /// What does not go together; the error's text is that of the layer alone.
    pub fn check(&self) -> Result<(), StackError> {
        let mut text = String::new();
        let alone = self.clone().written_to(&mut text);
        (alone.spec.check)(&alone, None).map_err(|conflict| check::refused(&text, &alone, conflict))
    }

    /// The same layer with another value of an option.
    ///
    /// # Errors
    ///
    /// The layer has no such option, or the option does not take that value; the error's text is that of the option alone.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, StackError> {
        let (index, written) = parse::option_value(self.spec, name, value)?;
        self.options[index] = written;
        Ok(self)
    }

    /// The same layer with what is written in another of its kind, too.
    ///
    /// # Errors
    ///
    /// Both write an option, or they are not of one kind.
    pub fn joined(mut self, other: &Self) -> Result<Self, StackError> {
        let is_twice = |(own, other): (&Option<_>, &Option<_>)| own.is_some() && other.is_some();
        let twice = self.options.iter().zip(&other.options).position(is_twice);
        let message = match twice.map(|index| self.spec.options[index].name) {
            Some(option) => format!("{option} is set in {other}, too"),
            None if self.spec.name != other.spec.name => format!("{other} is another layer"),
            None => {
                self.options =
                    self.options.into_iter().zip(&other.options).map(|(a, b)| a.or(b.clone())).collect();
                return Ok(self);
            }
        };
        let mut text = String::new();
        let placed = self.written_to(&mut text);
        let span = twice.and_then(|index| Some(placed.options[index].as_ref()?.span.clone()));
        let span = span.unwrap_or(0..text.len());
        Err(StackError::new(StackErrorKind::DuplicateOption, &text, span, message)
            .with_help("leave out one of them"))
    }

    /// The same layer with the default of an option.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        if let Some(index) = self.spec.option_index(name) {
            self.options[index] = None;
        }
        self
    }

    /// The same layer at the end of a text, to which it is added.
    pub(crate) fn written_to(mut self, text: &mut String) -> Self {
        let start = text.len();
        text.push_str(self.spec.name);
        for (option, written) in self.spec.options.iter().zip(&mut self.options) {
            let Some(written) = written else { continue };
            let shown = written.shown(self.spec, option);
            text.push(':');
            written.span = text.len()..text.len() + shown.len();
            let is_bare_flag = shown == option.name;
            let value_bytes = if is_bare_flag { shown.len() } else { written.value.len() };
            written.value_span = written.span.end - value_bytes..written.span.end;
            text.push_str(&shown);
        }
        self.span = start..text.len();
        self
    }

    /// A layer of that kind with nothing written but its name.
    pub(crate) fn plain(spec: &'static LayerSpec) -> Self {
        Self { spec, span: 0..spec.name.len(), options: spec.options.iter().map(|_| None).collect() }
    }

    /// The name: `ext4`.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// What the layer is for the builder.
    pub fn definition(&self) -> &'static LayerDefinition {
        &self.spec.definition
    }

    /// The layer in canonical notation, with the options that are not at their default: `hdd:wd-re3`.
    pub fn label(&self) -> String {
        self.to_string()
    }

    /// Whether the layer has such an option.
    pub fn has_option(&self, name: &str) -> bool {
        self.spec.option_index(name).is_some()
    }

    /// The value of an option, else its default; `None` if it has neither or the layer has no such option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let index = self.spec.option_index(name)?;
        match &self.options[index] {
            Some(written) => Some(&written.value),
            None => self.spec.options[index].default,
        }
    }

    /// Whether the option is written with another value than its default.
    pub fn is_set(&self, name: &str) -> bool {
        self.written(name).is_some()
    }

    /// The value of an option as what its kind says that it is.
    pub(crate) fn value<T: FromStr>(&self, name: &str) -> Option<T> {
        self.option(name)?.parse().ok()
    }

    /// The value of an option of kind [`OptionKind::Size`].
    pub fn size(&self, name: &str) -> Option<Bytes> {
        self.value(name)
    }

    /// The value of an option of kind [`OptionKind::Number`].
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)
    }

    /// The value of an option of kind [`OptionKind::Flag`]; `None` if it has neither value nor default.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.option(name).map(|value| value == "on")
    }

    /// Whether an option of kind [`OptionKind::Flag`] is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.flag(name) == Some(true)
    }

    /// The words of an option of kind [`OptionKind::List`].
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.option(name).into_iter().flat_map(|value| value.split('+'))
    }

    /// The path of `dev:`, `file:` and `dir:`.
    pub fn path(&self) -> Option<&Path> {
        let option = self.spec.options.iter().find(|o| o.kind == OptionKind::Path)?;
        self.option(option.name).map(Path::new)
    }

    /// How to treat the block device this layer offers (options `sched`, `readahead` and `merges`).
    pub fn block_tuning(&self) -> BlockTuning<'_> {
        BlockTuning {
            scheduler: self.option("sched"),
            readahead: self.size("readahead"),
            no_merges: self.option("merges") == Some("off"),
        }
    }

    /// The options that do not have their default value, in the order of their [`LayerSpec`]: each by its name and as it is
    /// written.
    pub fn written_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.spec
            .options
            .iter()
            .zip(&self.options)
            .filter_map(|(option, written)| Some((option.name, written.as_ref()?.shown(self.spec, option))))
    }

    /// Where the option is in the stack's text, key included; `None` if it has its default value.
    pub fn option_span(&self, name: &str) -> Option<Range<usize>> {
        self.written(name).map(|o| o.span.clone())
    }

    /// Where the option's value is in the stack's text; `None` if it has its default value.
    pub fn value_span(&self, name: &str) -> Option<Range<usize>> {
        self.written(name).map(|o| o.value_span.clone())
    }

    /// Where the layer's name is in the stack's text.
    pub fn name_span(&self) -> Range<usize> {
        self.span.start..self.span.start + self.spec.name.len()
    }

    fn written(&self, name: &str) -> Option<&WrittenOption> {
        self.options[self.spec.option_index(name)?].as_ref()
    }
}

impl PartialEq for Layer {
    fn eq(&self, other: &Self) -> bool {
        let values = |layer: &Self| -> Vec<Option<String>> {
            layer.options.iter().map(|o| o.as_ref().map(|o| o.value.clone())).collect()
        };
        self.spec.name == other.spec.name && values(self) == values(other)
    }
}

impl Eq for Layer {}

/// By their text.
impl Ord for Layer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.label().cmp(&other.label())
    }
}

impl PartialOrd for Layer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As it is written in a stack.
impl Serialize for Layer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layer({self})")
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec.name)?;
        self.written_options().try_for_each(|(_, option)| write!(f, ":{option}"))
    }
}
