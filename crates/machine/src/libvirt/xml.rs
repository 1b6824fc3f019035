//! XML as libvirt reads it: elements with attributes, and text in which nothing means markup.

use std::fmt;
use std::path::Path;

use nestor_ownership::replace;
use nestor_text::{is_hidden, markup_escaped};

use crate::refusal::{Cause, Refusal};

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// An empty one.
    pub const fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), text: String::new(), children: Vec::new() }
    }

    /// With an attribute.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// With a text in it.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// With elements in it, after those that it has.
    pub fn holding(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// Writes it into a file of this user's, for libvirt's tool.
    ///
    /// # Errors
    /// It has a value that XML cannot carry, or there is no room.
    pub fn write(&self, path: &Path) -> Result<(), Refusal> {
        if let Some(value) = self.unwritable() {
            let message =
                format!("libvirt cannot be told of {value:?}: it has a character that XML cannot carry");
            return Err(Refusal::new(Cause::NotSupported, message));
        }
        replace(path, 0o600, self.to_string().as_bytes())
            .map_err(|e| Refusal::of_io(&format!("{} could not be written", path.display()), &e))
    }

    /// A value in it that XML cannot carry, if there is one: a control character, or one that shows nothing.
    fn unwritable(&self) -> Option<&str> {
        let own = self.attributes.iter().map(|(_, value)| value).chain([&self.text]);
        own.into_iter()
            .find(|value| value.contains(is_hidden))
            .map(String::as_str)
            .or_else(|| self.children.iter().find_map(Self::unwritable))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}='{}'", markup_escaped(value))?;
        }
        if self.text.is_empty() && self.children.is_empty() {
            return f.write_str("/>");
        }
        write!(f, ">{}", markup_escaped(&self.text))?;
        self.children.iter().try_for_each(|child| child.fmt(f))?;
        write!(f, "</{}>", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_never_become_markup() {
        let source = Element::new("source").with("file", "/a'/><x b=\"&\">");
        let disk = Element::new("disk").holding([source, Element::new("serial").text("<1>")]);
        assert_eq!(
            disk.to_string(),
            "<disk><source file='/a&#39;/&gt;&lt;x b=&quot;&amp;&quot;&gt;'/><serial>&lt;1&gt;</serial></disk>"
        );
        assert_eq!(disk.unwritable(), None);
    }

    #[test]
    fn what_xml_cannot_carry_is_found_at_any_depth() {
        let inner = Element::new("b").with("path", "/a\u{1b}b");
        assert_eq!(Element::new("a").holding([inner]).unwritable(), Some("/a\u{1b}b"));
        assert_eq!(Element::new("a").text("\u{0}").unwritable(), Some("\u{0}"));
    }
}
