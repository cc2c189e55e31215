//! What a tool takes: said once, told to the model as a JSON schema, and held against every call.

use log::message::{ToolError, ToolErrorKind};
use serde_json::{Map, Value, json};

/// What sort of value a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// What a model may also write as a number or a truth.
    Words,
    Integer,
    Truth,
    OneOf(&'static [&'static str]),
    Integers,
    /// The steps of a plan: what and how far.
    Steps,
}

/// How far a step of a plan may be.
pub(crate) const STATUSES: &[&str] = &["pending", "in_progress", "completed"];
/// The most steps that a plan has.
const MOST_STEPS: usize = 1000;

/// One parameter of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) about: &'static str,
}

/// A parameter that every call must give.
pub(super) const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, required: true, about }
}

/// A parameter that a call may leave out; `null` is the same.
pub(super) const fn may(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, required: false, about }
}

/// Arguments that were held against their tool's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks names, presence and types.
    pub(crate) fn check(tool: &str, parameters: &[Parameter], given: &Map<String, Value>) -> Result<Self, ToolError> {
        let mut checked = Map::new();
        for (name, value) in given {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let names: Vec<String> = parameters.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
                let shown: String = name.chars().take(64).collect();
                return Err(parsing(format!("`{tool}` takes no argument `{shown}`; it takes {}", names.join(", "))));
            };
            if value.is_null() && !parameter.required {
                continue;
            }
            let value = parameter
                .kind
                .check(value)
                .map_err(|wanted| parsing(format!("`{name}` of `{tool}` must be {wanted}, found {}", sort(value))))?;
            checked.insert(name.clone(), value);
        }
        match parameters.iter().find(|parameter| parameter.required && !checked.contains_key(parameter.name)) {
            Some(missing) => Err(parsing(format!("`{tool}` needs the argument `{}`", missing.name))),
            None => Ok(Self(checked)),
        }
    }

    /// All of them, as they were understood.
    pub(crate) fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// A text that is there: empty where it was not given.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.maybe_text(name).unwrap_or_default()
    }

    pub(crate) fn maybe_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    pub(crate) fn truth(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn integers(&self, name: &str) -> Option<Vec<i64>> {
        self.0.get(name)?.as_array().map(|list| list.iter().filter_map(Value::as_i64).collect())
    }

    /// The steps of a plan: what and how far.
    pub(crate) fn steps(&self, name: &str) -> Vec<(String, String)> {
        let of = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
        let steps = self.0.get(name).and_then(Value::as_array);
        steps.into_iter().flatten().map(|step| (of(step, "content"), of(step, "status"))).collect()
    }
}

impl Kind {
    /// The value as it is meant; or what was wanted.
    fn check(self, value: &Value) -> Result<Value, String> {
        match (self, value) {
            (Self::Text | Self::Words, Value::String(_)) | (Self::Truth, Value::Bool(_)) => Ok(value.clone()),
            (Self::Words, Value::Number(_) | Value::Bool(_)) => Ok(Value::from(value.to_string())),
            // Some models write 3.0 for 3.
            (Self::Integer, Value::Number(number)) => {
                whole(number).map(Value::from).ok_or_else(|| "a whole number".into())
            }
            (Self::OneOf(words), Value::String(word)) if words.contains(&word.as_str()) => Ok(value.clone()),
            (Self::Integers, Value::Array(list)) => {
                let numbers: Option<Vec<i64>> = list.iter().map(|item| item.as_number().and_then(whole)).collect();
                numbers.filter(|numbers| numbers.len() <= 16).map(Value::from).ok_or_else(|| self.wanted())
            }
            (Self::Steps, Value::Array(steps)) if steps.len() <= MOST_STEPS && steps.iter().all(is_step) => {
                Ok(value.clone())
            }
            _ => Err(self.wanted()),
        }
    }

    fn wanted(self) -> String {
        match self {
            Self::Text | Self::Words => "a text".into(),
            Self::Integer => "a whole number".into(),
            Self::Truth => "true or false".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Integers => "a short list of whole numbers".into(),
            Self::Steps => format!(
                "a list of at most {MOST_STEPS} steps {{content, status}} with a status of {}",
                STATUSES.join(", ")
            ),
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::Text | Self::Words => json!({"type": "string"}),
            Self::Integer => json!({"type": "integer"}),
            Self::Truth => json!({"type": "boolean"}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Integers => json!({"type": "array", "items": {"type": "integer"}}),
            Self::Steps => json!({"type": "array", "items": {
                "type": "object",
                "properties": {"content": {"type": "string"}, "status": {"type": "string", "enum": STATUSES}},
                "required": ["content", "status"],
                "additionalProperties": false,
            }}),
        }
    }
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "exact: it has no fraction and is small")]
    let rounded = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    number.as_i64().or_else(|| number.as_f64().and_then(rounded))
}

fn is_step(step: &Value) -> bool {
    let status = step["status"].as_str().is_some_and(|status| STATUSES.contains(&status));
    status && step["content"].is_string() && step.as_object().is_some_and(|step| step.len() == 2)
}

/// What was found instead, without repeating it: it may be long, or a secret.
fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "another text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The parameters, as models are told.
pub(crate) fn schema(parameters: &[Parameter]) -> Value {
    let property = |parameter: &Parameter| {
        let mut schema = parameter.kind.schema();
        schema["description"] = Value::from(parameter.about);
        (parameter.name.to_owned(), schema)
    };
    let required: Vec<&str> = parameters.iter().filter(|one| one.required).map(|one| one.name).collect();
    json!({
        "type": "object",
        "properties": parameters.iter().map(property).collect::<Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    })
}

pub(crate) fn parsing(message: String) -> ToolError {
    ToolError { kind: ToolErrorKind::Parsing, message }
}
