//! Chat completions: <https://platform.openai.com/docs/api-reference/chat/create>.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Check, Is};
use super::{Asked, KEY};

pub(super) fn check(asked: &Asked) -> Vec<String> {
    let mut check = Check::default();
    check.head(asked, "/v1/chat/completions", ("authorization", &format!("Bearer {KEY}")));
    let fields = [
        ("!model", Is::Text),
        ("!messages", Is::List),
        ("max_tokens", Is::Whole),
        ("temperature", Is::Number),
        ("top_p", Is::Number),
        ("stop", Is::List),
        ("seed", Is::Whole),
        ("frequency_penalty", Is::Number),
        ("presence_penalty", Is::Number),
        ("reasoning_effort", Is::Text),
        ("tools", Is::List),
        ("tool_choice", Is::Any),
        ("parallel_tool_calls", Is::Truth),
    ];
    let Some(body) = check.object(&asked.body, "the request", &fields) else { return check.0 };
    let tools = body.get("tools").and_then(Value::as_array);
    check.expect(tools.is_none_or(|tools| !tools.is_empty()), "tools is empty");
    check.expect(tools.is_some() || !body.contains_key("tool_choice"), "tool_choice without tools");
    check.expect(tools.is_some() || !body.contains_key("parallel_tool_calls"), "parallel_tool_calls without tools");
    for tool in tools.into_iter().flatten() {
        check.object(tool, "a tool", &[("!type", Is::Text), ("!function", Is::Object)]);
        check.expect(tool["type"] == "function", "a tool that is no function");
        let fields = [("!name", Is::Text), ("description", Is::Text), ("parameters", Is::Object)];
        check.object(&tool["function"], "a function", &fields);
        check.function_name(&tool["function"]["name"]);
        check.schema(&tool["function"]["parameters"]);
    }
    messages(&mut check, body["messages"].as_array().map_or(&[], Vec::as_slice));
    check.0
}

fn messages(check: &mut Check, messages: &[Value]) {
    check.expect(!messages.is_empty(), "no messages");
    // Calls of the last answer that have no result yet.
    let mut open = BTreeSet::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        check.expect(role == "tool" || open.is_empty(), &format!("{open:?} have no result before a {role} message"));
        match role {
            "system" => {
                check.object(message, "a system message", &[("!role", Is::Text), ("!content", Is::Text)]);
            }
            "user" => {
                check.object(message, "a user message", &[("!role", Is::Text), ("!content", Is::Any)]);
                content(check, &message["content"]);
            }
            "assistant" => {
                let fields = [
                    ("!role", Is::Text),
                    ("content", Is::Any),
                    ("tool_calls", Is::List),
                    // Of compatible servers.
                    ("reasoning_content", Is::Text),
                ];
                check.object(message, "an assistant message", &fields);
                let calls = message["tool_calls"].as_array();
                check.expect(calls.is_none_or(|calls| !calls.is_empty()), "tool_calls is empty");
                check.expect(message["content"].is_string() || calls.is_some(), "neither words nor calls");
                for call in calls.into_iter().flatten() {
                    check.object(call, "a call", &[("!id", Is::Text), ("!type", Is::Text), ("!function", Is::Object)]);
                    let function = &call["function"];
                    check.object(function, "a call", &[("!name", Is::Text), ("!arguments", Is::Text)]);
                    let arguments = function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
                    check.expect(arguments.is_some_and(|value: Value| value.is_object()), "arguments are no object");
                    check.expect(open.insert(call["id"].to_string()), "two calls have one id");
                }
            }
            "tool" => {
                let fields = [("!role", Is::Text), ("!content", Is::Text), ("!tool_call_id", Is::Text)];
                check.object(message, "a tool message", &fields);
                check.expect(open.remove(&message["tool_call_id"].to_string()), "a result without a call");
            }
            other => check.complain(format!("no role is called {other}")),
        }
    }
    check.expect(open.is_empty(), "calls without results");
}

fn content(check: &mut Check, content: &Value) {
    let Some(parts) = content.as_array() else {
        check.expect(content.is_string(), "content is neither words nor parts");
        return;
    };
    for part in parts {
        match part["type"].as_str() {
            Some("text") => {
                check.object(part, "a part", &[("!type", Is::Text), ("!text", Is::Text)]);
            }
            Some("image_url") => {
                check.object(part, "a part", &[("!type", Is::Text), ("!image_url", Is::Object)]);
                check.object(&part["image_url"], "an image", &[("!url", Is::Text), ("detail", Is::Text)]);
                let url = part["image_url"]["url"].as_str().unwrap_or_default();
                check.expect(url.starts_with("data:image/"), "an image that is not there");
            }
            other => check.complain(format!("no part is called {other:?}")),
        }
    }
}
