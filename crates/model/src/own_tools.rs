//! Tools of providers themselves: which there are, whether one was granted, and what is kept of its use.

use std::fmt;

use log::message::{Part, ToolUse, ToolUseKind};
use serde_json::{Map, Value};
use strangers::Shown;

use crate::output::{Reading, Unreadable, cut};

/// A tool of a provider, which runs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderTool {
    /// A search on the web.
    WebSearch,
    /// A runner of code that the model writes.
    CodeExecution,
}

impl fmt::Display for ProviderTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::WebSearch => "web search",
            Self::CodeExecution => "code execution",
        })
    }
}

impl ProviderTool {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::WebSearch, Self::CodeExecution];

    /// The one whose use was recorded.
    pub fn of(kind: ToolUseKind) -> Self {
        match kind {
            ToolUseKind::WebSearch => Self::WebSearch,
            ToolUseKind::CodeExecution => Self::CodeExecution,
        }
    }

    fn kind(self) -> ToolUseKind {
        match self {
            Self::WebSearch => ToolUseKind::WebSearch,
            Self::CodeExecution => ToolUseKind::CodeExecution,
        }
    }
}

/// The most that is told of arguments or a result; what goes back to the provider is whole.
const MOST_TOLD: usize = 16 << 10;

/// A value as people read it: words as they are, everything else as JSON.
fn told(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cut(text, MOST_TOLD),
        other => cut(&other.to_string(), MOST_TOLD),
    }
}

/// A use, as a reply tells of it.
pub(crate) struct Used<'a> {
    pub(crate) tool: ProviderTool,
    pub(crate) id: Option<&'a str>,
    /// In the provider's words.
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) result: &'a Value,
    pub(crate) error: Option<&'a str>,
    /// What goes back in the next turn.
    pub(crate) back: Vec<Value>,
}

/// What was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted<'a>(pub(crate) &'a [ProviderTool]);

impl Granted<'_> {
    /// Whether a tool may have been used; `name` is what the reply calls it.
    pub(crate) fn check(self, tool: Option<ProviderTool>, name: &str) -> Result<ProviderTool, Unreadable> {
        let granted = tool.filter(|tool| self.0.contains(tool));
        granted.ok_or_else(|| Unreadable::Uninvited(Shown::new(name)))
    }
}

impl Reading {
    /// Adds a use of a tool that was granted.
    pub(crate) fn used(&mut self, used: Used<'_>) {
        let own = || format!("use_{}", uuid::Uuid::new_v4().simple());
        self.parts.push(Part::ToolUse(ToolUse {
            tool_type: used.tool.kind(),
            id: used.id.filter(|id| !id.is_empty()).map_or_else(own, |id| cut(id, MOST_TOLD)),
            name: Shown::new(used.name).as_str().to_owned(),
            arguments: told(used.arguments),
            result: told(used.result),
            error: used.error.map(|error| Shown::new(error).as_str().to_owned()),
            internal: (!used.back.is_empty()).then(|| used.back.into()),
        }));
    }

    /// Adds what a use gave, where that comes after it; `None` if there is no such use.
    pub(crate) fn gave(&mut self, id: Option<&str>, result: &Value, error: Option<&str>, back: Value) -> Option<()> {
        let open = self.parts.iter_mut().rev().find_map(|part| match part {
            Part::ToolUse(used) if id.is_none_or(|id| id == used.id) => Some(used),
            _ => None,
        })?;
        open.result = told(result);
        open.error = error.map(|error| Shown::new(error).as_str().to_owned());
        if let Some(Value::Array(kept)) = &mut open.internal {
            kept.push(back);
        }
        Some(())
    }
}

/// What is kept of a use to be sent back; nothing that was kept by another provider.
pub(crate) fn back(used: &ToolUse, known: impl Fn(&Value) -> bool) -> Vec<Value> {
    match &used.internal {
        Some(Value::Array(kept)) if kept.iter().all(known) => kept.clone(),
        _ => Vec::new(),
    }
}

/// An object with these fields of another, where it has them: what else a reply holds is not sent back.
pub(crate) fn only(value: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), value.get(field)?.clone())));
    Value::Object(kept.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_results_are_cut_where_they_are_told_and_whole_where_they_go_back() {
        let long = "ä".repeat(MOST_TOLD);
        let mut reading = Reading::default();
        reading.used(Used {
            tool: ProviderTool::WebSearch,
            id: Some("1"),
            name: "web\u{7}search",
            arguments: &json!({"query": "q"}),
            result: &Value::Null,
            error: None,
            back: vec![json!({"a": 1})],
        });
        assert_eq!(reading.gave(Some("2"), &json!("x"), None, json!({})), None, "a result of nothing");
        assert_eq!(reading.gave(Some("1"), &json!(long), None, json!({"content": long})), Some(()));
        let Some(Part::ToolUse(used)) = reading.parts.first() else { panic!("{:?}", reading.parts) };
        assert!(used.result.len() < MOST_TOLD + 100 && used.result.ends_with("bytes in all)"), "{}", used.result.len());
        assert!(!used.name.contains('\u{7}'));
        assert_eq!(back(used, |_| true)[1]["content"], json!(long));
        assert_eq!(back(used, |kept| kept.get("a").is_some()), Vec::<Value>::new(), "another provider's");
    }
}
