//! Complaints about a request.

use serde_json::{Map, Value};

use super::{Asked, KEY};

#[derive(Default)]
pub(super) struct Check(pub(super) Vec<String>);

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Is {
    Text,
    Number,
    Whole,
    Truth,
    List,
    Object,
    Any,
}

impl Check {
    pub(super) fn complain(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    pub(super) fn expect(&mut self, right: bool, text: &str) {
        if !right {
            self.complain(text);
        }
    }

    /// An object with exactly such fields: `!name` is needed, `name` may be there, nothing else may.
    pub(super) fn object<'a>(
        &mut self,
        value: &'a Value,
        what: &str,
        fields: &[(&str, Is)],
    ) -> Option<&'a Map<String, Value>> {
        let Some(object) = value.as_object() else {
            self.complain(format!("{what} is not an object: {value}"));
            return None;
        };
        for (name, _) in fields.iter().filter(|(name, _)| name.starts_with('!')) {
            self.expect(object.contains_key(&name[1..]), &format!("{what} lacks {name}"));
        }
        for (key, value) in object {
            match fields.iter().find(|(name, _)| name.trim_start_matches('!') == key) {
                None => self.complain(format!("{what} has an unknown field {key}")),
                Some((_, is)) => {
                    let right = match is {
                        Is::Text => value.is_string(),
                        Is::Number => value.is_number(),
                        Is::Whole => value.is_i64() || value.is_u64(),
                        Is::Truth => value.is_boolean(),
                        Is::List => value.is_array(),
                        Is::Object => value.is_object(),
                        Is::Any => true,
                    };
                    self.expect(right, &format!("{what}.{key} is not {is:?}: {value}"));
                }
            }
        }
        Some(object)
    }

    /// A header with exactly this value, once.
    pub(super) fn header(&mut self, asked: &Asked, name: &str, value: &str) {
        let found: Vec<&str> =
            asked.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
        self.expect(found == [value], &format!("header {name} is {found:?}"));
    }

    /// What all requests have: a line, a kind, and a key at one place only.
    pub(super) fn head(&mut self, asked: &Asked, path: &str, key: (&str, &str)) {
        self.expect(asked.line == format!("POST {path} HTTP/1.1"), &format!("the request is `{}`", asked.line));
        self.header(asked, "content-type", "application/json");
        self.header(asked, key.0, key.1);
        let others = asked.headers.iter().filter(|(name, value)| name != key.0 && value.contains(KEY));
        self.expect(others.count() == 0, "the key is in another header");
        self.expect(!asked.body.to_string().contains(KEY) && !asked.line.contains(KEY), "the key is in the request");
    }

    /// A name as functions have it.
    pub(super) fn function_name(&mut self, name: &Value) {
        let sound = |name: &str| {
            !name.is_empty()
                && name.len() <= 64
                && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
        };
        self.expect(name.as_str().is_some_and(sound), &format!("a function's name is {name}"));
    }

    /// A schema of arguments.
    pub(super) fn schema(&mut self, schema: &Value) {
        self.expect(schema["type"] == "object", &format!("a schema is not one of an object: {schema}"));
        self.expect(schema["properties"].is_object(), "a schema has no properties");
    }
}
