//! What the server says, in each API's way.

use serde_json::{Value, json};

use super::Api;

/// A call: its id, its name, its arguments.
pub(crate) type Call<'a> = (&'a str, &'a str, Value);

/// Words.
pub(crate) fn said(api: Api, text: &str) -> Value {
    reply(api, None, text, &[], stop_word(api))
}

/// Calls of tools.
pub(crate) fn called(api: Api, calls: &[Call<'_>]) -> Value {
    reply(api, None, "", calls, call_word(api))
}

/// A thought, and then words or calls.
pub(crate) fn thought(api: Api, text: &str, calls: &[Call<'_>]) -> Value {
    reply(api, Some("let me see"), text, calls, if calls.is_empty() { stop_word(api) } else { call_word(api) })
}

/// Words, with this reason for their end.
pub(crate) fn stopped(api: Api, reason: &str) -> Value {
    reply(api, None, "so far", &[], reason)
}

/// A call whose arguments are no JSON, where the API makes that possible.
pub(crate) fn wrong_arguments(api: Api) -> Value {
    let mut reply = called(api, &[("call_1", "add", json!({}))]);
    match api {
        Api::OpenAi => reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "{\"a\": 1".into(),
        Api::Responses => reply["output"][0]["arguments"] = "{\"a\": 1".into(),
        Api::Anthropic => reply["content"][0]["input"] = "not an object".into(),
        Api::Google => reply["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] = json!([1]),
    }
    reply
}

/// What a tool of the provider leaves in a reply.
pub(crate) fn uninvited(api: Api) -> Value {
    let mut reply = said(api, "found it");
    match api {
        Api::OpenAi => {
            reply["choices"][0]["message"]["annotations"] = json!([{"type": "url_citation", "url_citation": {
                "start_index": 0, "end_index": 1, "title": "t", "url": "https://example.com"}}]);
        }
        Api::Responses => {
            reply["output"][0] = json!({
                "type": "web_search_call", "id": "ws_1", "status": "completed",
                "action": {"type": "search", "query": "q", "queries": ["q"]},
            });
        }
        Api::Anthropic => {
            reply["content"][0] = json!({
                "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"},
                "caller": {"type": "direct"},
            });
        }
        Api::Google => reply["candidates"][0]["groundingMetadata"] = json!({"webSearchQueries": ["q"]}),
    }
    reply
}

fn stop_word(api: Api) -> &'static str {
    match api {
        Api::OpenAi => "stop",
        Api::Responses => "completed",
        Api::Anthropic => "end_turn",
        Api::Google => "STOP",
    }
}

fn call_word(api: Api) -> &'static str {
    match api {
        Api::OpenAi => "tool_calls",
        Api::Anthropic => "tool_use",
        Api::Responses | Api::Google => stop_word(api),
    }
}

fn reply(api: Api, thought: Option<&str>, text: &str, calls: &[Call<'_>], stop: &str) -> Value {
    match api {
        Api::OpenAi => openai(thought, text, calls, stop),
        Api::Responses => responses(thought, text, calls, stop),
        Api::Anthropic => anthropic(thought, text, calls, stop),
        Api::Google => google(thought, text, calls, stop),
    }
}

fn openai(thought: Option<&str>, text: &str, calls: &[Call<'_>], stop: &str) -> Value {
    let mut message = json!({"role": "assistant", "content": text, "refusal": null});
    if let Some(thought) = thought {
        message["reasoning_content"] = thought.into();
    }
    if !calls.is_empty() {
        let calls = calls.iter().map(|(id, name, arguments)| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
        });
        message["tool_calls"] = calls.collect();
        message["content"] = Value::Null;
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": stop, "logprobs": null}],
        "usage": {
            "prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37,
            "prompt_tokens_details": {"cached_tokens": 20}, "completion_tokens_details": {"reasoning_tokens": 4},
        },
    })
}

fn responses(thought: Option<&str>, text: &str, calls: &[Call<'_>], stop: &str) -> Value {
    let mut output = Vec::new();
    if let Some(thought) = thought {
        output.push(json!({
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": "signed-abc",
        }));
    }
    if !text.is_empty() {
        output.push(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }));
    }
    output.extend(calls.iter().map(|(id, name, arguments)| {
        json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
            "arguments": arguments.to_string(), "status": "completed",
        })
    }));
    let (status, details) =
        if stop == "completed" { ("completed", Value::Null) } else { ("incomplete", json!({"reason": stop})) };
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "model": "test-2026", "status": status,
        "incomplete_details": details, "error": null, "instructions": null, "metadata": {}, "output": output,
        "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 30, "output_tokens": 7, "total_tokens": 37,
            "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 4},
        },
    })
}

fn anthropic(thought: Option<&str>, text: &str, calls: &[Call<'_>], stop: &str) -> Value {
    let mut content = Vec::new();
    if let Some(thought) = thought {
        content.push(json!({"type": "thinking", "thinking": thought, "signature": "signed-abc"}));
        content.push(json!({"type": "redacted_thinking", "data": "hidden"}));
    }
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text, "citations": null}));
    }
    content.extend(calls.iter().map(|(id, name, input)| {
        json!({"type": "tool_use", "id": id, "name": name, "input": input, "caller": {"type": "direct"}})
    }));
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "test-2026", "content": content,
        "stop_reason": stop, "stop_sequence": null,
        "usage": {
            "input_tokens": 10, "output_tokens": 7, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 15,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    })
}

fn google(thought: Option<&str>, text: &str, calls: &[Call<'_>], stop: &str) -> Value {
    let mut parts = Vec::new();
    if let Some(thought) = thought {
        parts.push(json!({"text": thought, "thought": true}));
    }
    if !text.is_empty() {
        parts.push(json!({"text": text}));
    }
    parts.extend(calls.iter().map(|(_, name, args)| json!({"functionCall": {"name": name, "args": args}})));
    if let (Some(_), Some(part)) = (thought, parts.get_mut(1)) {
        part["thoughtSignature"] = "c2lnbmVkLWFiYw==".into();
    }
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": stop, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 30, "candidatesTokenCount": 3, "totalTokenCount": 37,
            "cachedContentTokenCount": 20, "thoughtsTokenCount": 4,
        },
        "modelVersion": "test-2026", "responseId": "r1",
    })
}
