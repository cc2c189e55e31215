//! Responses: <https://platform.openai.com/docs/api-reference/responses/create>.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::check::{Check, Is};
use super::{Asked, KEY};

pub(super) fn check(asked: &Asked) -> Vec<String> {
    let mut check = Check::default();
    check.head(asked, "/v1/responses", ("authorization", &format!("Bearer {KEY}")));
    let fields = [
        ("!model", Is::Text),
        ("!input", Is::List),
        ("!store", Is::Truth),
        ("include", Is::List),
        ("max_output_tokens", Is::Whole),
        ("temperature", Is::Number),
        ("top_p", Is::Number),
        ("reasoning", Is::Object),
        ("tools", Is::List),
        ("tool_choice", Is::Any),
        ("parallel_tool_calls", Is::Truth),
    ];
    let Some(body) = check.object(&asked.body, "the request", &fields) else { return check.0 };
    check.expect(body.get("store") == Some(&json!(false)), "the conversation is stored");
    let mut include = vec!["reasoning.encrypted_content"];
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        // https://platform.openai.com/docs/guides/tools-web-search, and /tools-code-interpreter.
        let own = match tool["type"].as_str() {
            Some("web_search") => Some((json!({"type": "web_search"}), "web_search_call.action.sources")),
            Some("code_interpreter") => Some((
                json!({"type": "code_interpreter", "container": {"type": "auto"}}),
                "code_interpreter_call.outputs",
            )),
            _ => None,
        };
        if let Some((own, included)) = own {
            check.expect(asked.granting && *tool == own, &format!("a tool of the provider: {tool}"));
            include.push(included);
            continue;
        }
        let fields = [
            ("!type", Is::Text),
            ("!name", Is::Text),
            ("description", Is::Text),
            ("!parameters", Is::Object),
            ("!strict", Is::Truth),
        ];
        check.object(tool, "a tool", &fields);
        check.expect(tool["type"] == "function", "a tool of the provider");
        check.function_name(&tool["name"]);
        check.schema(&tool["parameters"]);
    }
    check.expect(body.get("include") == Some(&json!(include)), "include is something else");
    input(&mut check, &body["input"]);
    check.0
}

fn input(check: &mut Check, items: &Value) {
    let mut open = BTreeSet::new();
    for item in Some(items).and_then(Value::as_array).into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        let pairing = matches!(kind, "function_call" | "function_call_output");
        check.expect(pairing || open.is_empty(), "calls without results");
        match kind {
            "message" => {
                check.object(item, "a message", &[("!role", Is::Text), ("!content", Is::Any)]);
                let role = item["role"].as_str().unwrap_or_default();
                check.expect(["system", "user", "assistant"].contains(&role), "no such role");
                for part in item["content"].as_array().into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("input_text") => {
                            check.object(part, "a part", &[("!type", Is::Text), ("!text", Is::Text)]);
                        }
                        Some("input_image") => {
                            let fields = [("!type", Is::Text), ("!image_url", Is::Text), ("!detail", Is::Text)];
                            check.object(part, "a part", &fields);
                        }
                        other => check.complain(format!("no part is called {other:?}")),
                    }
                }
            }
            "reasoning" => {
                let fields =
                    [("!type", Is::Text), ("!id", Is::Text), ("!summary", Is::List), ("encrypted_content", Is::Text)];
                check.object(item, "a thought", &fields);
            }
            "function_call" => {
                let fields =
                    [("!type", Is::Text), ("!call_id", Is::Text), ("!name", Is::Text), ("!arguments", Is::Text)];
                check.object(item, "a call", &fields);
                check.expect(open.insert(item["call_id"].to_string()), "two calls have one id");
            }
            "function_call_output" => {
                check.object(item, "a result", &[("!type", Is::Text), ("!call_id", Is::Text), ("!output", Is::Text)]);
                check.expect(open.remove(&item["call_id"].to_string()), "a result without a call");
            }
            "web_search_call" => {
                let fields = [("!type", Is::Text), ("!id", Is::Text), ("!status", Is::Text), ("!action", Is::Object)];
                check.object(item, "a search", &fields);
            }
            "code_interpreter_call" => {
                let fields = [
                    ("!type", Is::Text),
                    ("!id", Is::Text),
                    ("!status", Is::Text),
                    ("!container_id", Is::Text),
                    ("!code", Is::Text),
                    ("!outputs", Is::List),
                ];
                check.object(item, "code", &fields);
            }
            other => check.complain(format!("no item is called {other}")),
        }
    }
    check.expect(open.is_empty(), "calls without results");
}
