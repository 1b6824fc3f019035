//! A record as JSON that people can look through: objects over lines, lists on one.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// `None` if a number has no JSON form.
pub(super) fn readable_json<T: Serialize>(value: &T) -> Option<String> {
    let mut bytes = Vec::new();
    let formatter = ListsOnOneLine { pretty: PrettyFormatter::new(), lists: 0 };
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter)).ok()?;
    String::from_utf8(bytes).ok()
}

/// What is within a list is not broken over lines: time lines and histograms have hundreds of numbers.
struct ListsOnOneLine<'a> {
    pretty: PrettyFormatter<'a>,
    lists: usize,
}

impl Formatter for ListsOnOneLine<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lists += 1;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lists -= 1;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists > 1 { writer.write_all(b"{") } else { self.pretty.begin_object(writer) }
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists > 1 { writer.write_all(b"}") } else { self.pretty.end_object(writer) }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match (self.lists > 1, first) {
            (true, true) => Ok(()),
            (true, false) => writer.write_all(b","),
            (false, _) => self.pretty.begin_object_key(writer, first),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists > 1 { writer.write_all(b":") } else { self.pretty.begin_object_value(writer) }
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists > 1 { Ok(()) } else { self.pretty.end_object_value(writer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stand_on_one_line_and_it_is_still_json() {
        let value = serde_json::json!({
            "a": [1, 2, 3],
            "b": { "c": "x", "d": [] },
            "e": [{ "f": 1, "g": [{ "h": 2, "i": {} }] }, {}],
        });
        let text = readable_json(&value).unwrap();
        insta::assert_snapshot!(text, @r#"
        {
          "a": [1,2,3],
          "b": {
            "c": "x",
            "d": []
          },
          "e": [{
            "f": 1,
            "g": [{"h":2,"i":{}}]
          },{}]
        }
        "#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
