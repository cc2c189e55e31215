//! YAML (and so JSON) as a tree in which every value knows its place.
//!
//! Leaves all meaning to [`crate::reader`]; owns the bounds on hostile input.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::problem::{Place, Problem};

/// The largest document we read; a profile is a page, not a data set.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// What it is.
    pub value: Value,
}

/// A mapping's key and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Where it begins.
    pub place: Place,
    /// What it says.
    pub name: String,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`; also `yes`, `no`, `on`, `off`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in the order of the file; keys are unique.
    Map(Vec<(Key, Node)>),
}

impl Value {
    /// What it is, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Which words are truth values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthWords {
    /// `true` and `false`, and also `yes`, `no`, `on`, `off`: what people mean in our own documents.
    Many,
    /// `true` and `false` alone: what files of others mean, in which `no` can be a text.
    Two,
}

/// Reads one document of at most [`MAX_DOCUMENT_BYTES`].
pub fn parse(text: &str) -> Result<Node, Problem> {
    parse_with(text, TruthWords::Many)
}

/// The same with a say in what a truth value is.
pub fn parse_with(text: &str, truth: TruthWords) -> Result<Node, Problem> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(Problem::new(format!("the document is larger than {MAX_DOCUMENT_BYTES} bytes"))
            .hint("a document is a page; data sets go into files of their own"));
    }
    // The parser's own budget bounds depth, aliases and events.
    let options = serde_saphyr::options! { strict_booleans: truth == TruthWords::Two };
    serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options).map(Node::from).map_err(|error| {
        let place = error.location().map(place);
        let message = error.without_snippet().to_string();
        // The parser repeats the places at the end of its message.
        let message = message.find(" at line ").map_or(message.as_str(), |end| &message[..end]);
        let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
        let message = message.split("; use from_str_multiple").next().unwrap_or(message);
        Problem { place, message: format!("not valid YAML: {message}"), hint: None }
    })
}

fn place(location: Location) -> Place {
    Place { line: location.line(), column: location.column() }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self { place: place(spanned.referenced), value: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Integer).map_err(|_| E::custom("a number is too large"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Value>>()? {
            items.push(item.into());
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = access.next_entry::<Spanned<String>, Spanned<Value>>()? {
            let key = Key { place: place(key.referenced), name: key.value };
            entries.push((key, value.into()));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_place() {
        let node = parse("a: 1\nb:\n  - x\n  - {c: ~}\n").unwrap();
        insta::assert_debug_snapshot!(node);
    }

    #[test]
    fn a_no_can_be_a_text() {
        let value = |truth| match parse_with("a: no", truth).unwrap().value {
            Value::Map(entries) => entries[0].1.value.clone(),
            other => other,
        };
        assert_eq!(value(TruthWords::Many), Value::Bool(false));
        assert_eq!(value(TruthWords::Two), Value::Text("no".into()));
    }

    #[test]
    fn broken_documents_say_where() {
        let deep = "[".repeat(100_000);
        let doubled =
            ('b'..='k').zip('a'..).map(|(to, from)| format!("{to}: &{to} [{}*{from}]", format!("*{from},").repeat(9)));
        let bomb =
            [String::from("a: &a [x,x,x,x,x,x,x,x,x,x]")].into_iter().chain(doubled).collect::<Vec<_>>().join("\n");
        let texts = [
            "a: [1\n",
            "a: 1\na: 2\n",
            "a: 1\n---\nb: 2\n",
            "a: \"x\n",
            "\u{0}",
            "? [a]\n: b\n",
            "a: *missing\n",
            &deep,
            &bomb,
        ];
        let errors: Vec<String> = texts
            .iter()
            .map(|text| {
                let shown: String = text.chars().take(20).collect();
                match parse(text) {
                    Ok(_) => format!("{shown:?} was read"),
                    Err(problem) => {
                        format!("{shown:?}: {:?} {}", problem.place.map(|place| place.to_string()), problem.message)
                    }
                }
            })
            .collect();
        insta::assert_snapshot!(errors.join("\n"));
        assert!(parse(&" ".repeat(MAX_DOCUMENT_BYTES + 1)).is_err());
    }
}
