//! From text to layers.

use std::ops::Range;

use nestor_text::nearest;

use crate::absent::{absent, other_name};
use crate::error::{Candidate, replaced, shown};
use crate::layer::WrittenOption;
use crate::lines::Lines;
use crate::{
    Layer, LayerDefinition, LayerSpec, MediumKind, OptionKind, OptionSpec, Stack, StackError, StackErrorKind,
    check, source,
};

/// What separates two layers.
pub(crate) const SEPARATOR: &str = "/";

/// What separates the layers that a write passes from those of the source.
pub(crate) const SOURCE: &str = "//";

/// Reads and checks a stack.
pub(crate) fn stack(text: &str) -> Result<Stack, StackError> {
    read(text).map_err(mended)
}

/// Puts layers together and checks that they fit.
pub(crate) fn of_layers(
    main: impl IntoIterator<Item = Layer>,
    source: impl IntoIterator<Item = Layer>,
) -> Result<Stack, StackError> {
    let mut text = String::new();
    let main = written(main, &mut text, "");
    let source = written(source, &mut text, SOURCE);
    if main.is_empty() {
        return Err(no_layers());
    }
    let lines = Lines::new(main, source);
    check::check(&text, &lines).map_err(mended)?;
    Ok(Stack::from_parts(text, lines))
}

/// The layers of a line at the end of a text, to which they are added, `before` the first.
fn written(line: impl IntoIterator<Item = Layer>, text: &mut String, before: &str) -> Vec<Layer> {
    let mut separator = before;
    let placed = |layer: Layer| {
        text.push_str(separator);
        separator = SEPARATOR;
        layer.written_to(text)
    };
    line.into_iter().map(placed).collect()
}

/// What is written before the layer at a position, where the first line has so many layers.
pub(crate) fn separator_before(position: usize, main: usize) -> &'static str {
    match position {
        0 => "",
        at if at == main => SOURCE,
        _ => SEPARATOR,
    }
}

/// Reads one layer.
pub(crate) fn layer(text: &str) -> Result<Layer, StackError> {
    let (layer, end) = layer_at(text, 0, text.len())?;
    if end == text.len() {
        return Ok(layer);
    }
    let error = StackError::new(StackErrorKind::Type, text, end..text.len(), "one layer is needed here");
    Err(error.suggest("leave out what is below it", text[..end].to_owned()))
}

/// The value of an option, with the option's position in the layer's options; none where it is as by default.
pub(crate) fn option_value(
    spec: &LayerSpec,
    name: &str,
    value: &str,
) -> Result<(usize, Option<WrittenOption>), StackError> {
    let text = format!("{name}={value}");
    let (index, written) = option(&text, spec, 0..text.len())?;
    Ok((index, not_default(&spec.options[index], written)))
}

/// As [`stack`], but what an error suggests is not looked at.
pub(crate) fn read(text: &str) -> Result<Stack, StackError> {
    let lines = lines(text)?;
    check::check(text, &lines)?;
    Ok(Stack::from_parts(text.to_owned(), lines))
}

/// The error with the best stack that it suggests: one that is right, or becomes right by what its own error suggests, and can be built.
///
/// A text that needs many repairs is not worth a suggestion.
pub(crate) fn mended(mut error: StackError) -> StackError {
    let (mends, not_buildable) = mends(error.take_candidates(), true);
    // Of equals, the first.
    match (mends.into_iter().min_by_key(Mend::rank), not_buildable) {
        (Some(mend), _) => error.with_suggestion(&mend.words, &mend.stack, mend.text),
        // Who follows the suggestion would learn it then.
        (None, Some(why)) => error.with_help(why.message()),
        (None, None) => error,
    }
}

/// A stack that can be built, and what was done to get it.
struct Mend {
    words: String,
    text: String,
    stack: Stack,
    /// Whether what is suggested had to be mended itself, because it could not be built.
    is_second: bool,
}

impl Mend {
    /// The lower, the better. Several links are not in virtual time, which is usual.
    fn rank(&self) -> (bool, bool) {
        (self.stack.has_several_links(), self.is_second)
    }
}

/// What comes of the candidates, or of what is suggested in place of those that cannot be built; with why the first of these cannot.
fn mends(candidates: Vec<Candidate>, may_be_second: bool) -> (Vec<Mend>, Option<StackError>) {
    let (mut found, mut not_buildable) = (Vec::new(), None);
    for Candidate { words, text } in candidates {
        let Some((text, stack)) = repaired(text, MOST_REPAIRS) else { continue };
        let Some(mut why) = stack.why_not_buildable() else {
            found.push(Mend { words, text, stack, is_second: false });
            continue;
        };
        if may_be_second {
            let (second, _) = mends(why.take_candidates(), false);
            let message = why.message();
            found.extend(second.into_iter().map(|mend| Mend {
                words: format!("{message}; {}", mend.words),
                is_second: true,
                ..mend
            }));
        }
        not_buildable.get_or_insert(why);
    }
    (found, not_buildable)
}

/// How often what a stack's own error suggests is followed.
const MOST_REPAIRS: usize = 2;

/// A stack that is right, or becomes right by what its own error suggests, as text and as it is read: one that can be built, if there is
/// one.
fn repaired(text: String, repairs: usize) -> Option<(String, Stack)> {
    /// Of each error; the later ones need more layers.
    const MOST_TRIED: usize = 3;
    let mut error = match read(&text) {
        Ok(stack) => return Some((text, stack)),
        Err(error) if repairs > 0 => error,
        Err(_) => return None,
    };
    let mut not_buildable = None;
    for Candidate { text, .. } in error.take_candidates().into_iter().take(MOST_TRIED) {
        match repaired(text, repairs - 1) {
            Some((text, stack)) if stack.why_not_buildable().is_none() => return Some((text, stack)),
            other => not_buildable = not_buildable.or(other),
        }
    }
    not_buildable
}

/// The text without an empty layer or option at `at`, and without the separator beside it.
fn without_gap(text: &str, at: usize) -> String {
    if at == 0 { text[1..].to_owned() } else { replaced(text, at - 1..at, "") }
}

/// Reads the layers of both lines.
fn lines(text: &str) -> Result<Lines, StackError> {
    if text.is_empty() {
        return Err(no_layers());
    }
    let (main, end) = line(text, 0, true)?;
    let source = if end == text.len() { Vec::new() } else { line(text, end + SOURCE.len(), false)?.0 };
    Ok(Lines::new(main, source))
}

/// Reads the layers of a line one by one, each with its options, from a position on; with where it ends: before its source, if it may have
/// one, or with the text.
fn line(text: &str, mut start: usize, may_have_source: bool) -> Result<(Vec<Layer>, usize), StackError> {
    let mut layers: Vec<Layer> = Vec::new();
    loop {
        let wants_source = may_have_source && layers.iter().any(source::is_wanted_by);
        // A path ends only where a source can begin, because it may have `//` in it.
        let source = text[start..].find(SOURCE).filter(|_| wants_source);
        let (layer, end) = layer_at(text, start, source.map_or(text.len(), |at| start + at))?;
        let is_last = wants_source || source::is_wanted_by(&layer) || layer.medium_kind().is_some();
        layers.push(layer);
        if end == text.len() || may_have_source && is_last && text[end..].starts_with(SOURCE) {
            return Ok((layers, end));
        }
        start = end + SEPARATOR.len();
    }
}

fn no_layers() -> StackError {
    let error = StackError::new(StackErrorKind::Empty, "", 0..0, "the stack has no layers");
    error.with_help("a stack is layers from the application to the medium, as in ext4/kvm/raw/xfs/hdd")
}

/// The layer that begins there, and where it ends; a path ends at `line_end`.
fn layer_at(text: &str, start: usize, line_end: usize) -> Result<(Layer, usize), StackError> {
    let name_end = text[start..].find(['/', ':']).map_or(text.len(), |i| start + i);
    let spec = find_layer(text, start..name_end)?;
    if spec.takes_path() {
        return Ok((
            layer_with_path(text, spec, start, name_end..line_end.max(name_end))?,
            line_end.max(name_end),
        ));
    }
    let end = text[name_end..].find('/').map_or(text.len(), |i| name_end + i);
    Ok((layer_with_options(text, spec, start, name_end..end)?, end))
}

fn find_layer(text: &str, span: Range<usize>) -> Result<&'static LayerSpec, StackError> {
    let name = &text[span.clone()];
    let registry = crate::registry();
    if let Some(spec) = registry.iter().find(|s| s.name == name) {
        return Ok(spec);
    }
    if name.is_empty() {
        let error =
            StackError::new(StackErrorKind::EmptyLayer, text, span.clone(), "a layer is missing here");
        let has_options = text[span.end..].starts_with(':');
        return Err(if text.is_empty() {
            error.with_help(
                "write a layer's name, and its options if it is to have some, as in kvm:cache=none",
            )
        } else if has_options || text.len() == 1 {
            error.with_help("write a layer's name before its options, as in kvm:cache=none")
        } else {
            error.suggest("remove the extra `/`", without_gap(text, span.start))
        });
    }
    let message = format!("no layer is called `{}`", shown(name));
    let error = StackError::new(StackErrorKind::UnknownLayer, text, span.clone(), message);
    if text.contains(['{', '}']) {
        return Err(
            error.with_help("braces need a comma inside them and as many `}` as `{`, as in {raw,qcow2}")
        );
    }
    if text.contains(char::is_whitespace) {
        let joined: String = text.split_whitespace().collect();
        return Err(error.suggest("remove the spaces", joined));
    }
    if let Some((words, layer)) = other_name(name) {
        return Err(error.suggest(words, replaced(text, span, layer)));
    }
    if let Some(absent) = absent(name) {
        let error = StackError::new(StackErrorKind::UnknownLayer, text, span, absent.message(name));
        return Err(error.with_help(absent.instead()));
    }
    if let Some(near) = nearest(name, registry.iter().map(|s| s.name)) {
        return Err(error.suggest(&format!("did you mean {near}?"), replaced(text, span, near)));
    }
    Err(error.with_help(all_names()))
}

/// All layers, one kind a line: `file systems: ext2, ext3`.
fn all_names() -> String {
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    for spec in crate::registry() {
        let kind = match spec.definition {
            LayerDefinition::FileSystem(_) => "file systems",
            LayerDefinition::ImageFormat(_) => "image formats",
            LayerDefinition::SourcedImage(_) => "images from a source",
            LayerDefinition::Loop => "loop devices",
            LayerDefinition::Hypervisor(_) => "hypervisors",
            LayerDefinition::Link => "links",
            LayerDefinition::NetworkFileSystem => "network file systems",
            LayerDefinition::NetworkDisk => "network disks",
            LayerDefinition::Partition => "partitions",
            LayerDefinition::PrivilegedDomain => "privileged domains",
            LayerDefinition::Medium(_) => "media",
        };
        match kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, names)) => names.push(spec.name),
            None => kinds.push((kind, vec![spec.name])),
        }
    }
    let lists: Vec<String> =
        kinds.iter().map(|(kind, names)| format!("{kind}: {}", names.join(", "))).collect();
    lists.join("\n")
}

fn layer_with_path(
    text: &str,
    spec: &'static LayerSpec,
    start: usize,
    rest: Range<usize>,
) -> Result<Layer, StackError> {
    let (name, name_end) = (spec.name, rest.start);
    let span = (name_end + 1).min(rest.end)..rest.end;
    let path = &text[span.clone()];
    let bad =
        |span: Range<usize>, message: String| StackError::new(StackErrorKind::BadPath, text, span, message);
    let kind = match &spec.definition {
        LayerDefinition::Medium(kind) => Some(*kind),
        _ => None,
    };
    let example = match kind {
        Some(MediumKind::Device) => "dev:/dev/sdb",
        Some(MediumKind::Directory) => "dir:/srv/lab",
        _ => "file:/srv/disk.img",
    };
    if path.is_empty() || !text[rest].starts_with(':') {
        return Err(
            bad(start..name_end, format!("{name} needs a path")).with_help(format!("write it as {example}"))
        );
    }
    if !path.starts_with('/') {
        let error = bad(span, format!("the path of {name} must be absolute"));
        return Err(error.with_help(format!("begin it with `/`, as in {example}")));
    }
    if path.ends_with('/') && kind == Some(MediumKind::Directory) {
        let error = bad(span, format!("the path of {name} ends with `/`"));
        return Err(error.with_help(format!("end it with the directory's name, as in {example}")));
    }
    if path.ends_with('/') {
        let what = if name == "dev" { "device" } else { "file" };
        let error = bad(span, format!("this names a directory; {name} needs a {what}"));
        return Err(error.with_help(format!("end it with the {what}'s name, as in {example}")));
    }
    if let Some((at, c)) = path.char_indices().find(|(_, c)| c.is_control()) {
        let at = span.start + at;
        let error = bad(at..at + c.len_utf8(), "a path cannot contain a control character here".to_owned());
        return Err(error.with_help("give the file a name without it, or make a link to it"));
    }
    let line_end = span.end;
    let written = WrittenOption { value: path.to_owned(), span: span.clone(), value_span: span };
    let options =
        spec.options.iter().map(|o| (o.kind == OptionKind::Path).then(|| written.clone())).collect();
    Ok(Layer { spec, span: start..line_end, options })
}

/// `rest` is what follows the name up to the next `/`: empty, or `:` and options.
fn layer_with_options(
    text: &str,
    spec: &'static LayerSpec,
    start: usize,
    rest: Range<usize>,
) -> Result<Layer, StackError> {
    let mut options: Vec<Option<WrittenOption>> = spec.options.iter().map(|_| None).collect();
    let mut given = vec![false; options.len()];
    let end = rest.end;
    let mut at = rest.start;
    while at < end {
        let option_start = at + 1;
        let option_end = text[option_start..end].find(':').map_or(end, |i| option_start + i);
        let span = option_start..option_end;
        let (index, written) = option(text, spec, span.clone())?;
        if given[index] {
            let name = spec.options[index].name;
            let message = format!("{name} was already given");
            let error = StackError::new(StackErrorKind::DuplicateOption, text, span.clone(), message);
            return Err(error.suggest("keep one of them", replaced(text, option_start - 1..option_end, "")));
        }
        given[index] = true;
        options[index] = not_default(&spec.options[index], written);
        at = option_end;
    }
    Ok(Layer { spec, span: start..end, options })
}

/// What is as by default counts as not written.
fn not_default(option: &OptionSpec, written: WrittenOption) -> Option<WrittenOption> {
    (option.default != Some(written.value.as_str())).then_some(written)
}

/// Reads one option; gives its position in the layer's options.
fn option(text: &str, spec: &LayerSpec, span: Range<usize>) -> Result<(usize, WrittenOption), StackError> {
    let written = &text[span.clone()];
    if written.is_empty() {
        let error =
            StackError::new(StackErrorKind::EmptyOption, text, span.clone(), "an option is missing here");
        return Err(error.suggest("remove the extra `:`", without_gap(text, span.start)));
    }
    let (index, value_span) = match written.split_once('=') {
        Some((key, _)) => {
            let key_span = span.start..span.start + key.len();
            let index = spec.option_index(key).ok_or_else(|| unknown_option(text, spec, key_span))?;
            (index, span.start + key.len() + 1..span.end)
        }
        None => (bare_option(text, spec, span.clone())?, span.clone()),
    };
    let option = &spec.options[index];
    let is_bare_flag = option.kind == OptionKind::Flag && written == option.name;
    let value = if is_bare_flag { "on" } else { &text[value_span.clone()] };
    match option.kind.canonical(value) {
        Ok(value) => Ok((index, WrittenOption { value, span, value_span })),
        Err(allowed) => Err(bad_value(text, option, &allowed, span, value_span)),
    }
}

/// The option meant by a word without `=`: a flag by its name, else the value of the positional option.
fn bare_option(text: &str, spec: &LayerSpec, span: Range<usize>) -> Result<usize, StackError> {
    let word = &text[span.clone()];
    match spec.option_index(word) {
        Some(index) if spec.options[index].kind == OptionKind::Flag => return Ok(index),
        Some(index) => {
            let option = &spec.options[index];
            let message = format!("{word} needs a value");
            let error = StackError::new(StackErrorKind::MissingValue, text, span.clone(), message);
            let value = match option.kind {
                OptionKind::Positional | OptionKind::Name | OptionKind::Added { .. } => "NAME",
                OptionKind::Choice(words) | OptionKind::Word(words) => {
                    words.first().copied().unwrap_or_default()
                }
                _ => option.default.unwrap_or_default(),
            };
            let allowed = option.kind.allowed();
            return Err(if value.is_empty() || value == "NAME" {
                error.with_help(format!("write {word}= and {allowed}"))
            } else {
                let words = format!("{word} takes {allowed}, as in");
                error.suggest(&words, replaced(text, span, &format!("{word}={value}")))
            });
        }
        None => {}
    }
    let positional = spec.positional().and_then(|p| spec.option_index(p.name));
    positional.ok_or_else(|| unknown_option(text, spec, span))
}

fn unknown_option(text: &str, spec: &LayerSpec, span: Range<usize>) -> StackError {
    let key = &text[span.clone()];
    let name = spec.name;
    let message = match key {
        "" => "the name of the option is missing".to_owned(),
        _ => format!("{name} has no option `{}`", shown(key)),
    };
    let error = StackError::new(StackErrorKind::UnknownOption, text, span.clone(), message);
    let options: Vec<&str> = spec.options.iter().map(|o| o.name).collect();
    let list = match options.as_slice() {
        [] => return error.with_help(format!("{name} has no options")),
        [only] => format!("the option of {name} is {only}"),
        _ => format!("the options of {name} are {}", options.join(", ")),
    };
    // A choice written without its key (`kvm:writeback`), if only one option has it.
    let mut keys =
        spec.options.iter().filter(|o| matches!(o.kind, OptionKind::Choice(words) if words.contains(&key)));
    if let (Some(option), None) = (keys.next(), keys.next()) {
        let meant = format!("{}={key}", option.name);
        return error.suggest(&format!("did you mean {meant}?"), replaced(text, span, &meant));
    }
    match nearest(key, options.iter().copied()) {
        Some(near) => error.suggest(&format!("{list}\ndid you mean {near}?"), replaced(text, span, near)),
        None => error.with_help(list),
    }
}

fn bad_value(
    text: &str,
    option: &OptionSpec,
    allowed: &str,
    span: Range<usize>,
    value_span: Range<usize>,
) -> StackError {
    let name = option.name;
    let value = &text[value_span.clone()];
    let (kind, at, message) = if value.is_empty() {
        (StackErrorKind::MissingValue, span, format!("{name} needs a value"))
    } else {
        (StackErrorKind::BadValue, value_span.clone(), format!("{name} cannot be `{}`", shown(value)))
    };
    let error = StackError::new(kind, text, at, message);
    let takes = format!("{name} takes {allowed}");
    if let OptionKind::Choice(words) | OptionKind::Word(words) = option.kind
        && let Some(near) = nearest(value, words.iter().copied())
    {
        return error.suggest(&format!("{takes}\ndid you mean {near}?"), replaced(text, value_span, near));
    }
    if option.kind == OptionKind::List && value.contains(',') {
        return error
            .suggest("join the words with `+`", replaced(text, value_span, &value.replace(',', "+")));
    }
    error.with_help(match option.default {
        Some(default) => format!("{takes}; the default is {default}"),
        None => takes,
    })
}
