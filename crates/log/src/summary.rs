//! A sample in a few lines, in the shape of Inspect's `EvalSampleSummary`: what lists of samples are made of.
//!
//! Inspect cuts summaries again when it reads them, at the same lengths. They are cut here so that a list of many samples
//! stays small.

use serde_json::{Map, Value, json};

use crate::SampleName;

/// Of a question or an answer, so many characters.
const LONG: usize = 5120;
/// Of metadata and explanations.
const SHORT: usize = 1024;

/// Fields that a summary has as the sample has them.
const SAME: [&str; 14] = [
    "choices",
    "completed_at",
    "description",
    "message_limit",
    "model_usage",
    "role_usage",
    "started_at",
    "time_limit",
    "token_limit",
    "token_limit_type",
    "token_limit_usage",
    "total_time",
    "turn_count",
    "uuid",
];

/// Sums up a sample from its fields.
///
/// `written` are its messages, where they are not among the fields.
pub(crate) fn summary(id: &SampleName, epoch: u32, fields: &Map<String, Value>, written: usize) -> Value {
    let mut out = Map::new();
    out.insert("id".into(), json!(id));
    out.insert("epoch".into(), json!(epoch));
    for key in SAME.into_iter().chain(["working_time"]) {
        copy(fields, key, &mut out);
    }
    let text = |key: &str| cut_all(fields.get(key).unwrap_or(&Value::Null));
    out.insert("input".into(), text("input"));
    out.insert("target".into(), text("target"));
    if let Some(Value::Object(metadata)) = fields.get("metadata") {
        out.insert("metadata".into(), thin(metadata));
    }
    if let Some(Value::Object(scores)) = fields.get("scores") {
        // Of a score that is none a summary says nothing: Inspect insists on a value.
        let scores = scores.iter().filter(|(_, score)| !score["value"].is_null());
        out.insert("scores".into(), scores.map(|(name, score)| (name.clone(), thin_score(score))).collect());
    }
    if let Some(message) = fields.get("error").and_then(|error| error.get("message")) {
        out.insert("error".into(), message.clone());
    }
    if let Some(limit) = fields.get("limit").filter(|limit| limit.is_object()) {
        out.insert("limit".into(), limit["type"].clone());
        if let Some(reason) = limit.get("reason") {
            out.insert("limit_reason".into(), reason.clone());
        }
    }
    if let Some(retries) = fields.get("error_retries").and_then(Value::as_array) {
        out.insert("retries".into(), json!(retries.len()));
    }
    let messages = fields.get("messages").and_then(Value::as_array).map_or(0, Vec::len).max(written);
    out.insert("message_count".into(), json!(messages));
    out.insert("completed".into(), json!(true));
    Value::Object(out)
}

fn copy(fields: &Map<String, Value>, key: &str, out: &mut Map<String, Value>) {
    if let Some(value) = fields.get(key).filter(|value| !value.is_null()) {
        out.insert(key.into(), value.clone());
    }
}

fn cut(text: &str, most: usize, mark: &str) -> Value {
    match text.char_indices().nth(most) {
        Some((end, _)) => json!(format!("{}{mark}", &text[..end])),
        None => json!(text),
    }
}

/// Words, several words, or messages.
fn cut_all(value: &Value) -> Value {
    match value {
        Value::Null => json!(""),
        Value::String(text) => cut(text, LONG, "...\n(content truncated)"),
        Value::Array(items) => items.iter().map(cut_all).collect(),
        Value::Object(message) => {
            let mut message = message.clone();
            if let Some(Value::String(text)) = message.get("content") {
                let text = cut(text, LONG, "...\n(content truncated)");
                message.insert("content".into(), text);
            }
            Value::Object(message)
        }
        other => other.clone(),
    }
}

fn thin(metadata: &Map<String, Value>) -> Value {
    let short = |value: &Value| match value {
        Value::String(text) => cut(text, SHORT, "..."),
        Value::Array(_) | Value::Object(_) if value.to_string().len() > SHORT => {
            json!("Key removed from summary (> 1k)")
        }
        other => other.clone(),
    };
    metadata.iter().map(|(key, value)| (key.clone(), short(value))).collect()
}

fn thin_score(score: &Value) -> Value {
    let mut out = Map::new();
    for (key, value) in score.as_object().into_iter().flatten() {
        let value = match (key.as_str(), value) {
            ("answer" | "explanation", Value::String(text)) => cut(text, SHORT, "..."),
            ("metadata", Value::Object(metadata)) => thin(metadata),
            // Who changed a score is in the sample.
            ("history", _) => continue,
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_keeps_what_lists_show_and_cuts_the_rest() {
        let fields = json!({
            "input": "i".repeat(6000), "target": ["a", "b"], "messages": [{}, {}], "output": {"large": true},
            "metadata": {"long": "m".repeat(2000), "deep": {"x": "y".repeat(2000)}, "n": 1},
            "scores": {"exact": {"value": "C", "explanation": "e".repeat(2000), "history": []}},
            "error": {"message": "it broke", "traceback": "…"}, "limit": {"type": "time", "limit": 3.0},
            "total_time": 1.5, "uuid": null,
        });
        let summary = summary(&SampleName::Text("x".into()), 2, fields.as_object().unwrap(), 0);
        assert_eq!(
            summary,
            json!({
                "id": "x", "epoch": 2, "input": format!("{}...\n(content truncated)", "i".repeat(5120)),
                "target": ["a", "b"], "message_count": 2, "completed": true,
                "metadata": {"long": format!("{}...", "m".repeat(1024)), "deep": "Key removed from summary (> 1k)", "n": 1},
                "scores": {"exact": {"value": "C", "explanation": format!("{}...", "e".repeat(1024))}},
                "error": "it broke", "limit": "time", "total_time": 1.5,
            })
        );
    }
}
