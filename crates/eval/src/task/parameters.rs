//! `parameters:` and `{{name}}`.
//!
//! A value that is nothing but `{{name}}` becomes the parameter with its type; within a longer text its words are put in.
//! Replaced is what the task file says, once, before it is read: never keys, never what other files hold, never what a
//! parameter brought along. There is no other templating, so `{{7*7}}` stays as it is.

use std::collections::BTreeMap;

use profile::source::{Complaints, Fields, Key, Node, Value, nearest_word, parsed};
use profile::{Place, Problem};

/// The most that a task file may grow to by its parameters, in bytes of text.
const MAX_EXPANDED_BYTES: usize = 16 << 20;

/// The parameters in force; `None` for one whose value is wrong.
pub(super) type Parameters = BTreeMap<String, Option<Value>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Integer,
    Number,
    Boolean,
}

impl std::str::FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "integer" => Ok(Self::Integer),
            "number" => Ok(Self::Number),
            "boolean" => Ok(Self::Boolean),
            _ => Err(format!("`{text}` is not a type: use text, integer, number, boolean")),
        }
    }
}

impl Type {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Text(_) => Some(Self::Text),
            Value::Integer(_) => Some(Self::Integer),
            Value::Float(_) => Some(Self::Number),
            Value::Bool(_) => Some(Self::Boolean),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        }
    }

    /// What a command line says, which knows only texts.
    fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::Integer => text.parse().ok().map(Value::Integer),
            Self::Number => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float),
            Self::Boolean => match text {
                "true" | "yes" | "on" | "1" => Some(Value::Bool(true)),
                "false" | "no" | "off" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a default such as `1` of a number is small")]
    fn accepts(self, value: Value) -> Option<Value> {
        match (self, value) {
            (Self::Number, Value::Integer(number)) => Some(Value::Float(number as f64)),
            (_, value) => (Self::of(&value) == Some(self)).then_some(value),
        }
    }
}

/// Reads the declarations and fills them with what is given.
pub(super) fn read(declared: Option<Node>, given: &BTreeMap<String, String>, complaints: &Complaints) -> Parameters {
    let mut parameters = Parameters::new();
    match declared.map(|node| (node.place, node.value)) {
        Some((_, Value::Map(entries))) => {
            for (key, node) in entries {
                let value = declare(&key, node, given.get(&key.name), complaints);
                parameters.insert(key.name, value);
            }
        }
        Some((place, other)) => complaints.add(
            Problem::at(place, format!("`parameters` must be a mapping, found {}", other.kind()))
                .hint("write {difficulty: {type: text, default: easy}}"),
        ),
        None => {}
    }
    for name in given.keys().filter(|name| !parameters.contains_key(*name)) {
        let problem = Problem::new(format!("the task has no parameter `{name}`"));
        complaints.add(match nearest_word(name, parameters.keys().map(String::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None if parameters.is_empty() => problem.hint("declare it under `parameters`"),
            None => problem.hint(format!("its parameters are {}", names(&parameters))),
        });
    }
    parameters
}

fn names(parameters: &Parameters) -> String {
    parameters.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn declare(key: &Key, node: Node, given: Option<&String>, complaints: &Complaints) -> Option<Value> {
    if !is_name(&key.name) {
        complaints.add(
            Problem::at(key.place, format!("`{}` cannot be a parameter's name", key.name))
                .hint("letters, digits and _, not beginning with a digit"),
        );
    }
    let mut fields = Fields::open(node, "a parameter", &["type", "default", "description"], complaints)?;
    let stated = fields.take("type").map(|node| parsed::<Type>(node, "type", complaints, |_| None));
    let default = fields.take("default");
    let _ = fields.text("description");
    fields.close();
    let kind = match stated {
        Some(kind) => kind?.value,
        // Without a type it is what its default is.
        None => default.as_ref().map_or(Some(Type::Text), |node| Type::of(&node.value)).unwrap_or(Type::Text),
    };
    let default = match default {
        Some(node) => {
            let (place, found) = (node.place, node.value.kind());
            let value = kind.accepts(node.value);
            if value.is_none() {
                complaints.add(Problem::at(
                    place,
                    format!("the default of `{}` must be {}, found {found}", key.name, kind.words()),
                ));
            }
            Some(value)
        }
        None => None,
    };
    match (given, default) {
        (Some(text), _) => {
            let value = kind.read(text);
            if value.is_none() {
                complaints.add(Problem::new(format!(
                    "the parameter `{}` must be {}, found `{text}`",
                    key.name,
                    kind.words()
                )));
            }
            value
        }
        (None, Some(default)) => default,
        (None, None) => {
            complaints.add(
                Problem::at(key.place, format!("the parameter `{}` has no value", key.name))
                    .hint(format!("give one by -T {}=VALUE, or state a default", key.name)),
            );
            None
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Puts the parameters into every text of a task.
pub(super) fn fill(entries: &mut [(Key, Node)], parameters: &Parameters, complaints: &Complaints) {
    let mut filler = Filler { parameters, complaints, room: MAX_EXPANDED_BYTES };
    for (_, node) in entries {
        filler.node(node);
    }
}

struct Filler<'a> {
    parameters: &'a Parameters,
    complaints: &'a Complaints,
    /// How much more text there may be.
    room: usize,
}

impl Filler<'_> {
    fn node(&mut self, node: &mut Node) {
        match &mut node.value {
            Value::Text(text) => {
                if let Some(value) = self.text(text, node.place) {
                    node.value = value;
                }
            }
            Value::List(items) => items.iter_mut().for_each(|item| self.node(item)),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, node)| self.node(node)),
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {}
        }
    }

    /// What a text becomes, if it becomes anything else.
    fn text(&mut self, text: &str, place: Place) -> Option<Value> {
        if let Some((0, _, name)) = next(text).filter(|(_, end, _)| *end == text.len()) {
            let value = self.value(name, place)?.clone();
            if let Value::Text(words) = &value {
                self.spend(words.len(), place)?;
            }
            return Some(value);
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some((start, end, name)) = next(rest) {
            let words = match self.value(name, place)? {
                Value::Text(words) => words.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::List(_) | Value::Map(_) => return None,
            };
            self.spend(words.len(), place)?;
            filled.push_str(&rest[..start]);
            filled.push_str(&words);
            rest = &rest[end..];
        }
        if filled.is_empty() && rest.len() == text.len() {
            return None;
        }
        filled.push_str(rest);
        Some(Value::Text(filled))
    }

    fn value(&self, name: &str, place: Place) -> Option<&Value> {
        if let Some(value) = self.parameters.get(name) {
            return value.as_ref();
        }
        let problem = Problem::at(place, format!("`{{{{{name}}}}}` is not a parameter of this task"));
        self.complaints.add(match nearest_word(name, self.parameters.keys().map(String::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{{{{{near}}}}}`?")),
            None => {
                problem.hint("declare it under `parameters`; what is meant as it stands goes into a file of its own")
            }
        });
        None
    }

    /// A short file that repeats a long parameter must not fill the memory.
    fn spend(&mut self, bytes: usize, place: Place) -> Option<()> {
        if let Some(room) = self.room.checked_sub(bytes) {
            self.room = room;
            return Some(());
        }
        // Said once.
        if self.room > 0 {
            self.room = 0;
            let message = format!("the parameters make more than {MAX_EXPANDED_BYTES} bytes of text");
            self.complaints.add(Problem::at(place, message));
        }
        None
    }
}

/// The next `{{name}}`: where it begins, where it ends, and its name. Looks at every character at most twice.
fn next(text: &str) -> Option<(usize, usize, &str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let start = from + found;
        let inner = text[start + 2..].trim_start_matches(' ');
        let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        if let Some(rest) = rest.trim_start_matches(' ').strip_prefix("}}").filter(|_| is_name(name)) {
            return Some((start, text.len() - rest.len(), name));
        }
        from = start + 1;
    }
    None
}
