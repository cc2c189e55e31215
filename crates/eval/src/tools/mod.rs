//! What a model may call: what each tool takes, and how a call goes wrong.

mod run;

use log::message::{ToolError, ToolErrorKind};
use serde_json::{Map, Value, json};

use crate::model::ToolInfo;

pub(crate) use run::{Called, Manner, call};

/// The tool by which an agent says that it has finished.
pub(crate) const SUBMIT: &str = "submit";

/// A tool of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Bash,
    Python,
    Submit,
}

impl Tool {
    pub(crate) const ALL: [Self; 3] = [Self::Bash, Self::Python, Self::Submit];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::Submit => SUBMIT,
        }
    }

    /// Whether it needs a sandbox to run in.
    pub(crate) fn needs_sandbox(self) -> bool {
        self != Self::Submit
    }

    /// Its one argument, and what that is.
    fn argument(self) -> (&'static str, &'static str) {
        match self {
            Self::Bash => ("command", "The command to run"),
            Self::Python => ("code", "The Python code to run"),
            Self::Submit => ("answer", "The answer"),
        }
    }

    pub(crate) fn info(self) -> ToolInfo {
        let (argument, about) = self.argument();
        let description = match self {
            Self::Bash => "Run a command with bash and get what it prints.",
            Self::Python => "Run Python code and get what it prints; print what you want to see.",
            Self::Submit => "Say that the task is done, with its answer.",
        };
        let parameters = json!({
            "type": "object",
            "properties": {argument: {"type": "string", "description": about}},
            "required": [argument],
            "additionalProperties": false,
        });
        ToolInfo { name: self.name(), description, parameters }
    }

    /// The argument of a call, if the call is sound.
    pub(crate) fn argument_of(self, arguments: &Map<String, Value>) -> Result<String, ToolError> {
        let (argument, _) = self.argument();
        if let Some(other) = arguments.keys().find(|key| *key != argument) {
            return Err(parsing(format!("`{}` takes no argument `{other}`; it takes `{argument}`", self.name())));
        }
        match arguments.get(argument) {
            Some(Value::String(text)) => Ok(text.clone()),
            // Models write numbers and truths where a text is meant.
            Some(value @ (Value::Number(_) | Value::Bool(_))) if self == Self::Submit => Ok(value.to_string()),
            Some(other) => Err(parsing(format!("`{argument}` of `{}` must be a text, found {other}", self.name()))),
            None => Err(parsing(format!("`{}` needs the argument `{argument}`", self.name()))),
        }
    }
}

pub(crate) fn parsing(message: String) -> ToolError {
    ToolError { kind: ToolErrorKind::Parsing, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    #[test]
    fn arguments_are_checked() {
        let of = |value| Tool::Bash.argument_of(&arguments(value)).map_err(|error| error.kind);
        assert_eq!(of(json!({"command": "ls"})), Ok("ls".to_owned()));
        for wrong in [json!({}), json!({"command": 1}), json!({"cmd": "ls"}), json!({"command": "ls", "user": "root"})]
        {
            assert_eq!(of(wrong), Err(ToolErrorKind::Parsing));
        }
        assert_eq!(Tool::Submit.argument_of(&arguments(json!({"answer": 42}))).ok(), Some("42".to_owned()));
    }
}
