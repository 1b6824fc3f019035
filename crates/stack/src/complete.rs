//! What may follow the beginning of a stack: for shells, which complete it.

use nestor_text::Completion;

use crate::parse::{SEPARATOR, SOURCE};
use crate::{LayerSpec, OptionKind, OptionSpec, parse, registry};

/// The names that an option without a list of its own can have (`hdd:wd-re3`), by the layer's name.
pub type Names<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// Whatever a layer stands on, one of these leads from there to a medium.
const ENDS: [&str; 6] = ["hdd", "ext4/hdd", "raw/ext4/hdd", "link/hdd", "link/ext4/hdd", "link/raw/ext4/hdd"];

/// A source, for the stacks that want one.
const USUAL_SOURCE: &str = "//link/raw/ext4/hdd";

/// How many options may be missing of a layer that is offered: `copy` needs one before it is a layer.
const MOST_MISSING: usize = 1;

/// The words that the beginning of a stack can become: a layer or an option more, or the end of the one that is begun. Each is the
/// beginning of a stack that is right, or one itself. Braces are read by [`latest_alternative`].
pub fn completions(text: &str, names: Names<'_>) -> Vec<Completion> {
    let grammar = Grammar { names };
    let Some(begun) = Begun::of(text) else { return Vec::new() };
    match begun {
        Begun::Name { before, name } => grammar.layers(text, before, name),
        Begun::Option { before, layer, given, option } => match option.split_once('=') {
            Some((key, value)) => grammar.values(text, layer, key, value),
            None => grammar.options(text, before, layer, given, option),
        },
    }
}

/// The beginning of one stack out of one with braces: of each group the last alternative that is there. What follows this follows the
/// text as well.
pub fn latest_alternative(text: &str) -> String {
    let (mut latest, mut groups) = (String::new(), Vec::new());
    for c in text.chars() {
        match (c, groups.last().copied()) {
            ('{', _) => groups.push(latest.len()),
            ('}', Some(_)) => drop(groups.pop()),
            (',', Some(start)) => latest.truncate(start),
            _ => latest.push(c),
        }
    }
    latest
}

/// What the end of a text is the beginning of.
enum Begun<'t> {
    /// The name of a layer.
    Name { before: &'t str, name: &'t str },
    /// An option of a layer: what is before the option, and the options that the layer has already.
    Option { before: &'t str, layer: &'static LayerSpec, given: &'t str, option: &'t str },
}

impl<'t> Begun<'t> {
    /// `None`: a path, which this crate does not know, or options of a layer that does not exist.
    fn of(text: &'t str) -> Option<Self> {
        let start = layer_start(text)?;
        let Some((name, options)) = text[start..].split_once(':') else {
            return Some(Self::Name { before: &text[..start], name: &text[start..] });
        };
        let layer = registry().iter().find(|spec| spec.name == name)?;
        let (given, option) = options.rsplit_once(':').unwrap_or(("", options));
        let before = &text[..text.len() - option.len()];
        Some(Self::Option { before, layer, given, option })
    }
}

/// Where the last layer begins; `None` within a path, which may have separators in it.
fn layer_start(text: &str) -> Option<usize> {
    let mut start = 0;
    loop {
        let rest = &text[start..];
        let takes_path = |spec: &&LayerSpec| spec.takes_path() && rest.starts_with(spec.name);
        let is_path = |spec: &&LayerSpec| takes_path(spec) && rest[spec.name.len()..].starts_with(':');
        if registry().iter().copied().any(|spec| is_path(&spec)) {
            return None;
        }
        match rest.find(SEPARATOR) {
            Some(at) => start += at + SEPARATOR.len(),
            None => return Some(start),
        }
    }
}

/// Whether a text is a stack.
fn is_stack(text: &str) -> bool {
    parse::read(text).is_ok()
}

/// The same, or with a source behind it.
fn is_stack_or_lacks_source(text: &str) -> bool {
    is_stack(text) || is_stack(&format!("{text}{USUAL_SOURCE}"))
}

struct Grammar<'a> {
    names: Names<'a>,
}

impl Grammar<'_> {
    /// The layers whose name begins so.
    fn layers(&self, text: &str, before: &str, name: &str) -> Vec<Completion> {
        let layers = registry().iter().filter(|spec| spec.not_buildable.is_none());
        let begun = layers.filter(|spec| spec.name.starts_with(name));
        let of_layers =
            begun.flat_map(|spec| self.ended(text, &format!("{before}{}", spec.name), spec.summary));
        // Half of what is before a source.
        let source = format!("{text}{SEPARATOR}");
        let is_source =
            name.is_empty() && source.ends_with(SOURCE) && self.is_beginning(&source, MOST_MISSING);
        of_layers.chain(is_source.then(|| Completion::new(source, ""))).collect()
    }

    /// The options whose key begins so, or whose value does if it is written without one.
    fn options(
        &self,
        text: &str,
        before: &str,
        layer: &LayerSpec,
        given: &str,
        begun: &str,
    ) -> Vec<Completion> {
        let mut found = Vec::new();
        for option in layer.options.iter().filter(|option| !is_given(layer, option, given)) {
            if option.kind.is_positional() {
                for value in self.listed_values(layer, option).iter().filter(|v| v.starts_with(begun)) {
                    found.extend(self.ended(text, &format!("{before}{value}"), option.summary));
                }
            } else if !option.name.starts_with(begun) {
                // Another one.
            } else if option.kind == OptionKind::Flag {
                found.extend(self.ended(text, &format!("{before}{}", option.name), option.summary));
            } else {
                let key = format!("{before}{}=", option.name);
                let fits = |value: &String| self.is_beginning(&format!("{key}{value}"), MOST_MISSING);
                if self.values_to_try(layer, option).iter().any(fits) {
                    found.push(Completion::new(key, option.summary));
                }
            }
        }
        found
    }

    /// The values of an option that begin so.
    fn values(&self, text: &str, layer: &LayerSpec, key: &str, begun: &str) -> Vec<Completion> {
        let Some(option) = layer.option(key) else { return Vec::new() };
        let before = &text[..text.len() - begun.len()];
        let listed = self.listed_values(layer, option).into_iter();
        // A value that nobody can list is complete where it is one.
        let written = (!begun.is_empty()).then(|| begun.to_owned());
        let mut values: Vec<String> =
            listed.filter(|value| value.starts_with(begun)).chain(written).collect();
        values.dedup();
        let ended = |value: &String| self.ended(text, &format!("{before}{value}"), option.summary);
        values.iter().flat_map(ended).collect()
    }

    /// A text whose last layer or option is whole, with what has to follow it. All that may follow it if it is written already.
    fn ended(&self, written: &str, text: &str, summary: &str) -> Vec<Completion> {
        let mut found: Vec<String> = is_stack(text).then(|| text.to_owned()).into_iter().collect();
        for separator in [SOURCE, SEPARATOR, ":"] {
            let longer = format!("{text}{separator}");
            if (found.is_empty() || written == text) && self.is_beginning(&longer, MOST_MISSING) {
                found.push(longer);
            }
        }
        found.into_iter().map(|text| Completion::new(text, summary)).collect()
    }

    /// Whether a text that ends with a separator, or with a whole layer, is the beginning of a stack, with at most so many options added to
    /// its last layer.
    fn is_beginning(&self, text: &str, missing: usize) -> bool {
        if text.ends_with(':') {
            missing > 0
                && self.longer_by_an_option(text).any(|longer| self.is_beginning(&longer, missing - 1))
        } else if text.ends_with(SEPARATOR) {
            ENDS.iter().map(|end| format!("{text}{end}")).any(|whole| is_stack_or_lacks_source(&whole))
        } else {
            is_stack_or_lacks_source(text)
                || [SEPARATOR, ":"].iter().any(|next| self.is_beginning(&format!("{text}{next}"), missing))
        }
    }

    /// A text that ends with `:`, with each option that its last layer does not have yet.
    fn longer_by_an_option(&self, text: &str) -> impl Iterator<Item = String> {
        // Without the `:`, after which a path begins.
        let start = layer_start(&text[..text.len() - 1]).unwrap_or_default();
        let (name, given) = text[start..].split_once(':').unwrap_or_default();
        let layer = registry().iter().find(|spec| spec.name == name);
        let options =
            layer.into_iter().flat_map(|layer| layer.options.iter().map(move |option| (layer, option)));
        options.filter(move |(layer, option)| !is_given(layer, option, given)).flat_map(
            move |(layer, option)| {
                let has_key = !option.kind.is_positional() && option.kind != OptionKind::Path;
                let key = if has_key { format!("{}=", option.name) } else { String::new() };
                let values = self.values_to_try(layer, option).into_iter();
                values.map(move |value| format!("{text}{key}{value}"))
            },
        )
    }

    /// The values that can be offered.
    fn listed_values(&self, layer: &LayerSpec, option: &OptionSpec) -> Vec<String> {
        match option.kind {
            OptionKind::Flag => ["on", "off"].map(str::to_owned).to_vec(),
            OptionKind::Choice(words) | OptionKind::Word(words) => {
                words.iter().map(|&word| word.to_owned()).collect()
            }
            OptionKind::Positional => (self.names)(layer.name),
            _ => option.default.map(str::to_owned).into_iter().collect(),
        }
    }

    /// Those, or one that may do.
    fn values_to_try(&self, layer: &LayerSpec, option: &OptionSpec) -> Vec<String> {
        let listed = self.listed_values(layer, option);
        if !listed.is_empty() {
            return listed;
        }
        vec![match option.kind {
            OptionKind::Size { min, .. } => min.to_string(),
            OptionKind::Number { min, .. } => min.to_string(),
            OptionKind::BitRate { min, .. } => min.to_string(),
            OptionKind::TimeSpan { min, .. } => min.to_string(),
            OptionKind::Percentage { max } => max.to_string(),
            OptionKind::Sectors { min, .. } => min.to_string(),
            OptionKind::Path => "/a".to_owned(),
            _ => "a".to_owned(),
        }]
    }
}

/// Whether one of the options in a text, separated by `:`, is this one.
fn is_given(layer: &LayerSpec, option: &OptionSpec, given: &str) -> bool {
    given.split(':').filter(|written| !written.is_empty()).any(|written| {
        let key = written.split_once('=').map_or(written, |(key, _)| key);
        match layer.option(key) {
            Some(known) => known.name == option.name,
            None => key == written && key != layer.name && option.kind.is_positional(),
        }
    })
}
