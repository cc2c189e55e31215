//! Messages: <https://docs.anthropic.com/en/api/messages>.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::check::{Check, Is};
use super::{Asked, KEY};

pub(super) fn check(asked: &Asked) -> Vec<String> {
    let mut check = Check::default();
    check.head(asked, "/v1/messages", ("x-api-key", KEY));
    check.header(asked, "anthropic-version", "2023-06-01");
    let fields = [
        ("!model", Is::Text),
        ("!max_tokens", Is::Whole),
        ("!messages", Is::List),
        ("system", Is::List),
        ("tools", Is::List),
        ("tool_choice", Is::Object),
        ("thinking", Is::Object),
        ("output_config", Is::Object),
        ("temperature", Is::Number),
        ("top_p", Is::Number),
        ("top_k", Is::Whole),
        ("stop_sequences", Is::List),
    ];
    let Some(body) = check.object(&asked.body, "the request", &fields) else { return check.0 };
    for block in body.get("system").and_then(Value::as_array).into_iter().flatten() {
        text(&mut check, block);
    }
    let mut beta = Vec::new();
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        // A tool with a `type` is one of the provider: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use.
        if !tool["type"].is_null() {
            let known = [
                json!({"type": "web_search_20250305", "name": "web_search"}),
                json!({"type": "code_execution_20250825", "name": "code_execution"}),
            ];
            check.expect(asked.granting && known.contains(tool), &format!("a tool of the provider: {tool}"));
            beta.extend((tool["name"] == "code_execution").then_some("code-execution-2025-08-25"));
            continue;
        }
        let fields = [("!name", Is::Text), ("description", Is::Text), ("!input_schema", Is::Object)];
        check.object(tool, "a tool", &fields);
        check.function_name(&tool["name"]);
        check.schema(&tool["input_schema"]);
    }
    let asked_for: Vec<&str> =
        asked.headers.iter().filter(|(name, _)| name == "anthropic-beta").map(|(_, value)| value.as_str()).collect();
    check.expect(asked_for == beta, &format!("anthropic-beta is {asked_for:?}"));
    check.expect(body.contains_key("tools") || !body.contains_key("tool_choice"), "tool_choice without tools");
    if let Some(thinking) = body.get("thinking") {
        check.expect(!body.contains_key("temperature") && !body.contains_key("top_k"), "chance beside thinking");
        if thinking["type"] == "enabled" {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
            check.expect(budget >= 1024, "the budget is too small");
            check.expect(body["max_tokens"].as_u64().is_some_and(|most| most > budget), "max_tokens is not more");
        }
    }
    let marks = asked.body.to_string().matches("cache_control").count();
    check.expect(marks <= 4, "more than four marks");
    messages(&mut check, body["messages"].as_array().map_or(&[], Vec::as_slice));
    check.0
}

fn text(check: &mut Check, block: &Value) {
    check.object(block, "a text", &[("!type", Is::Text), ("!text", Is::Text), ("cache_control", Is::Object)]);
    let words = block["text"].as_str().unwrap_or_default();
    check.expect(!words.trim().is_empty(), "text content blocks must be non-empty");
    let mark = &block["cache_control"];
    check.expect(mark.is_null() || *mark == json!({"type": "ephemeral"}), "another mark");
}

fn messages(check: &mut Check, messages: &[Value]) {
    check.expect(messages.first().is_some_and(|first| first["role"] == "user"), "the first message is not the user's");
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut last = "";
    let (turns, mut under_way) = (messages.len(), None);
    for (turn, message) in messages.iter().enumerate() {
        check.object(message, "a message", &[("!role", Is::Text), ("!content", Is::List)]);
        let role = message["role"].as_str().unwrap_or_default();
        check.expect(role != last, "roles do not alternate");
        last = role;
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        check.expect(!blocks.is_empty(), "a message is empty");
        let mut begun = false;
        for block in blocks {
            match (role, block["type"].as_str().unwrap_or_default()) {
                (_, "text") => {
                    begun = true;
                    text(check, block);
                }
                ("user", "image") => {
                    begun = true;
                    let fields = [("!type", Is::Text), ("!source", Is::Object), ("cache_control", Is::Object)];
                    check.object(block, "an image", &fields);
                    let fields = [("!type", Is::Text), ("!media_type", Is::Text), ("!data", Is::Text)];
                    check.object(&block["source"], "a source", &fields);
                }
                ("user", "tool_result") => {
                    check.expect(!begun, "results stand before words");
                    let fields = [
                        ("!type", Is::Text),
                        ("!tool_use_id", Is::Text),
                        ("content", Is::Text),
                        ("is_error", Is::Truth),
                        ("cache_control", Is::Object),
                    ];
                    check.object(block, "a result", &fields);
                    check.expect(open.remove(&block["tool_use_id"].to_string()), "a result without a call");
                }
                ("assistant", "thinking") => {
                    let fields = [("!type", Is::Text), ("!thinking", Is::Text), ("!signature", Is::Text)];
                    check.object(block, "a thought", &fields);
                    let signature = block["signature"].as_str().unwrap_or_default();
                    check.expect(signature.starts_with("signed-"), "a thought that was not thought here");
                }
                ("assistant", "redacted_thinking") => {
                    check.object(block, "a thought", &[("!type", Is::Text), ("!data", Is::Text)]);
                }
                ("assistant", "tool_use") => {
                    let fields = [
                        ("!type", Is::Text),
                        ("!id", Is::Text),
                        ("!name", Is::Text),
                        ("!input", Is::Object),
                        ("cache_control", Is::Object),
                    ];
                    check.object(block, "a call", &fields);
                    check.expect(open.insert(block["id"].to_string()), "two calls have one id");
                }
                ("assistant", "server_tool_use") => {
                    let fields = [
                        ("!type", Is::Text),
                        ("!id", Is::Text),
                        ("!name", Is::Text),
                        ("!input", Is::Object),
                        ("cache_control", Is::Object),
                    ];
                    check.object(block, "a use", &fields);
                    check.expect(under_way.replace(block["id"].clone()).is_none(), "two uses at once");
                }
                ("assistant", "web_search_tool_result" | "bash_code_execution_tool_result") => {
                    let fields = [("!type", Is::Text), ("!tool_use_id", Is::Text), ("!content", Is::Any)];
                    check.object(block, "what a use gave", &fields);
                    check.expect(under_way.take().as_ref() == Some(&block["tool_use_id"]), "a result without a use");
                }
                (role, kind) => check.complain(format!("a {kind} of {role}")),
            }
        }
        check.expect(role == "assistant" || open.is_empty(), &format!("{open:?} have no result"));
        // Only a turn that paused ends within a use, and then nothing comes after it.
        check.expect(under_way.is_none() || turn + 1 == turns, "a use without a result");
    }
    check.expect(open.is_empty(), "calls without results");
}
