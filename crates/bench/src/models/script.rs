//! What the server says: a thought in every turn but the last, in which it submits. Nothing is remembered; a request says
//! by itself which conversation it belongs to and how far that has come.

use serde::Deserialize;
use serde_json::{Value, json};

/// What every conversation is to be solved with, for tasks and for the load generator. The number tells them apart.
pub(super) fn question(conversation: u64) -> String {
    format!("Conversation {conversation}: think step by step, and submit the word `done`.")
}

/// About as much as a model says in a small step.
const THOUGHT: &str = "The next thing to look at is what follows from the step before this one; so far everything agrees \
    with what was asked, and nothing has to be taken back.";

/// What a request asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) conversation: u64,
    /// How often the model has spoken in it already.
    pub(super) turn: usize,
}

#[derive(Deserialize)]
struct Body {
    messages: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    role: String,
    #[serde(default)]
    content: Value,
}

/// Reads the body of a request.
pub(super) fn read(body: &[u8]) -> Result<Asked, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let turn = body.messages.iter().filter(|said| said.role == "assistant").count();
    let asked = body.messages.iter().find(|said| said.role == "user").and_then(|said| said.content.as_str());
    let asked = asked.ok_or("nobody asks anything")?;
    let digits = asked.split(|character: char| !character.is_ascii_digit()).find(|part| !part.is_empty());
    let conversation = digits.and_then(|digits| digits.parse().ok()).ok_or("a conversation without a number")?;
    Ok(Asked { conversation, turn })
}

/// The reply to it, where a conversation has so many turns.
pub(super) fn reply(asked: Asked, turns: usize) -> String {
    let Asked { conversation, turn } = asked;
    let (name, arguments) = if turn + 1 < turns {
        ("think", json!({"thought": format!("Step {turn}. {THOUGHT}")}))
    } else {
        ("submit", json!({"answer": "done"}))
    };
    let call = json!({
        "id": format!("call_{conversation}_{turn}"), "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    });
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    json!({
        "id": format!("chatcmpl-{conversation}-{turn}"), "object": "chat.completion", "created": 1_700_000_000,
        "model": "bench", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        // Without these, Inspect would fetch a tokenizer.
        "usage": {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140},
    })
    .to_string()
}

/// What a client sends that does nothing but talk: a body for every turn, with `NUMBER` where the conversation's belongs.
pub(super) fn requests(turns: usize) -> Vec<String> {
    let tool = |name: &str, argument: &str| {
        let parameters = json!({
            "type": "object", "properties": {argument: {"type": "string", "description": "What it is about"}},
            "required": [argument], "additionalProperties": false,
        });
        let function = json!({"name": name, "description": "What it does, in a sentence.", "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    let instructions = "You are to solve the task with the tools that you have. Call one or more tools in every step. \
        When you are done, call `submit` with your answer.";
    let mut messages = vec![
        json!({"role": "system", "content": instructions}),
        json!({"role": "user", "content": question(0).replacen('0', NUMBER, 1)}),
    ];
    let mut bodies = Vec::new();
    for turn in 0..turns {
        let tools = [tool("think", "thought"), tool("submit", "answer")];
        bodies.push(json!({"model": "bench", "messages": messages, "tools": tools, "tool_choice": "auto"}).to_string());
        let id = format!("call_{turn}");
        let arguments = json!({"thought": format!("Step {turn}. {THOUGHT}")}).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "think", "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": ""}));
    }
    bodies
}

/// Where a conversation's number goes.
pub(super) const NUMBER: &str = "NUMBER";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_far_it_is_and_the_last_reply_submits() {
        for (turn, body) in requests(3).iter().enumerate() {
            let asked = read(body.replacen(NUMBER, "17", 1).as_bytes()).unwrap();
            assert_eq!(asked, Asked { conversation: 17, turn });
            let reply: Value = serde_json::from_str(&reply(asked, 3)).unwrap();
            let name = &reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"];
            assert_eq!(name, if turn == 2 { "submit" } else { "think" });
        }
    }

    #[test]
    fn what_is_no_conversation_is_refused() {
        for odd in ["", "[]", r#"{"messages":[]}"#, r#"{"messages":[{"role":"user","content":"no number"}]}"#] {
            assert!(read(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
