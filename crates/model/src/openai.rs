//! `OpenAI`'s chat completions, which many servers speak: vLLM, Ollama, llama.cpp and others.

use log::message::{ChatMessage, Content, Detail, Part, Reasoning, Reply, StopReason, ToolCall, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::ModelError;
use crate::media;
use crate::output::{Arguments, Reading, Unreadable, arguments_text, put};
use crate::own_tools::Granted;
use crate::request::{Request, ToolChoice};

/// Whose server it is: `OpenAI`'s own knows one name for the longest answer, others know another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    OpenAi,
    Compatible,
}

/// The body of a request.
pub(crate) fn body(model: &str, request: &Request<'_>, server: Server) -> Result<Value, ModelError> {
    let config = request.config;
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages(request.messages, server)?.into());
    let longest = match server {
        Server::OpenAi => "max_completion_tokens",
        Server::Compatible => "max_tokens",
    };
    put(&mut body, longest, config.max_tokens);
    put(&mut body, "temperature", config.temperature);
    put(&mut body, "top_p", config.top_p);
    put(&mut body, "stop", config.stop_seqs.clone());
    put(&mut body, "seed", config.seed);
    put(&mut body, "frequency_penalty", config.frequency_penalty);
    put(&mut body, "presence_penalty", config.presence_penalty);
    put(&mut body, "reasoning_effort", config.reasoning_effort.map(crate::Effort::as_str));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".into(), tools.collect());
        body.insert("tool_choice".into(), choice(request.tool_choice));
        put(&mut body, "parallel_tool_calls", config.parallel_tool_calls);
    }
    Ok(Value::Object(body))
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn messages(messages: &[ChatMessage], server: Server) -> Result<Vec<Value>, ModelError> {
    // Thoughts belong to the step that is under way: servers want them back while tools are called, and not after.
    let asked = messages.iter().rposition(|message| matches!(message, ChatMessage::User(_)));
    let translate = |(index, message): (usize, &ChatMessage)| match message {
        ChatMessage::System(said) => Ok(json!({"role": "system", "content": said.content.text()})),
        ChatMessage::User(said) => Ok(json!({"role": "user", "content": user(&said.content)?})),
        ChatMessage::Assistant(reply) => {
            let thoughts = server == Server::Compatible && asked.is_none_or(|asked| index > asked);
            Ok(assistant(reply, thoughts, server))
        }
        ChatMessage::Tool(result) => {
            Ok(json!({"role": "tool", "tool_call_id": result.tool_call_id, "content": result.content.text()}))
        }
    };
    messages.iter().enumerate().map(translate).collect()
}

fn user(content: &Content) -> Result<Value, ModelError> {
    let Content::Parts(parts) = content else { return Ok(content.text().into()) };
    let part = |part: &Part| match part {
        Part::Text { text, .. } => Some(Ok(json!({"type": "text", "text": text}))),
        Part::Image { image, detail } => Some(media::image(image).map(|_| {
            let detail = match detail {
                Detail::Low => "low",
                Detail::High | Detail::Original => "high",
                Detail::Auto => "auto",
            };
            json!({"type": "image_url", "image_url": {"url": image, "detail": detail}})
        })),
        Part::Reasoning(_) | Part::ToolUse(_) => None,
    };
    parts.iter().filter_map(part).collect()
}

fn assistant(reply: &Reply, thoughts: bool, server: Server) -> Value {
    let text = reply.content.text();
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let calls = reply.tool_calls.as_deref().unwrap_or_default();
    // Words may be missing only beside calls.
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    message.insert("content".into(), content);
    if let (true, Content::Parts(parts)) = (thoughts, &reply.content) {
        for part in parts {
            if let Part::Reasoning(thought) = part {
                let field = thought.signature.as_deref().filter(|field| *field == "reasoning");
                message.insert(field.unwrap_or("reasoning_content").into(), thought.reasoning.clone().into());
            }
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.iter().map(|one| call(one, server)).collect());
    }
    Value::Object(message)
}

fn call(call: &ToolCall, server: Server) -> Value {
    let arguments = arguments_text(call, server);
    json!({"id": call.id, "type": "function", "function": {"name": call.function, "arguments": arguments}})
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    model: Option<String>,
    choices: Vec<Answered>,
    #[serde(default)]
    usage: Option<Used>,
}

#[derive(Deserialize)]
struct Answered {
    message: Said,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Called>>,
    #[serde(default)]
    annotations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Called {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
struct Used {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    total_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// What a reply says.
pub(crate) fn read(reply: Value, granted: Granted<'_>) -> Result<Reading, Unreadable> {
    let completion: Completion = serde_json::from_value(reply)?;
    let answered = completion.choices.into_iter().next().ok_or_else(|| Unreadable::because("it has no choices"))?;
    let mut reading = Reading { model: completion.model, usage: completion.usage.map(usage), ..Reading::default() };
    let said = answered.message;
    if let Some(cited) = said.annotations.iter().flatten().next() {
        granted.check(None, cited["type"].as_str().unwrap_or("annotation"))?;
    }
    let thoughts = [(said.reasoning_content, None), (said.reasoning, Some("reasoning".to_owned()))];
    let thought =
        thoughts.into_iter().find_map(|(text, signature)| Some((text.filter(|text| !text.is_empty())?, signature)));
    if let Some((reasoning, signature)) = thought {
        reading.parts.push(Part::Reasoning(Reasoning { reasoning, signature, ..Reasoning::default() }));
    }
    reading.say(said.content);
    if let Some(text) = said.refusal.filter(|text| !text.is_empty()) {
        reading.parts.push(Part::Text { text, refusal: Some(true) });
    }
    for called in said.tool_calls.into_iter().flatten() {
        let arguments = match called.function.arguments {
            Value::String(text) => Arguments::parse(&text),
            // Ollama's own way slips through some proxies.
            other => Arguments::from_json(other),
        };
        reading.call(called.id, called.function.name, arguments);
    }
    reading.stop = answered.finish_reason.as_deref().map(stop);
    Ok(reading)
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "stop" | "eos" | "stop_sequence" => StopReason::Stop,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::ContentFilter,
        _ => StopReason::Unknown,
    }
}

fn usage(used: Used) -> Usage {
    let read = used.prompt_tokens_details.and_then(|details| details.cached_tokens);
    Usage {
        input_tokens: used.prompt_tokens.saturating_sub(read.unwrap_or(0)),
        output_tokens: used.completion_tokens,
        total_tokens: used.total_tokens.unwrap_or_else(|| used.prompt_tokens.saturating_add(used.completion_tokens)),
        input_tokens_cache_read: read,
        reasoning_tokens: used.completion_tokens_details.and_then(|details| details.reasoning_tokens),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GenerateConfig;

    #[test]
    fn a_model_sees_the_arguments_that_it_wrote() {
        let mut reading = Reading::default();
        reading.call(Some("c".into()), "add".into(), Arguments::parse("{\"a\": 1"));
        reading.call(Some("d".into()), "add".into(), Arguments::parse("{\"a\": 1}"));
        reading.call(Some("e".into()), "add".into(), Arguments::parse(&"x".repeat(1 << 20)));
        let sent =
            |server| reading.calls.iter().map(|one| call(one, server)["function"]["arguments"].clone()).collect();
        let own: Vec<Value> = sent(Server::OpenAi);
        assert_eq!(own[..2], [json!("{\"a\": 1"), json!("{\"a\":1}")]);
        assert!(own[2].as_str().is_some_and(|text| text.len() < 20_000 && text.ends_with("(1048576 bytes in all)")));
        let others: Vec<Value> = sent(Server::Compatible);
        assert_eq!(others[0], json!("{\"not_a_json_object\":\"{\\\"a\\\": 1\"}"));
        assert_eq!(others[1], own[1]);
    }

    #[test]
    fn the_longest_answer_has_two_names_and_thoughts_stay_where_they_are_known() {
        let config = GenerateConfig { max_tokens: Some(9), ..GenerateConfig::default() };
        let thought = Part::Reasoning(Reasoning { reasoning: "hm".into(), ..Reasoning::default() });
        let answer = |content: Vec<Part>| {
            ChatMessage::Assistant(Reply {
                id: None,
                content: content.into(),
                source: None,
                tool_calls: None,
                model: None,
            })
        };
        let messages = [
            ChatMessage::user("a"),
            answer(vec![thought.clone(), Part::said("b")]),
            ChatMessage::user("c"),
            answer(vec![thought, Part::said("d")]),
        ];
        let request = Request {
            messages: &messages,
            tools: &[],
            provider_tools: &[],
            tool_choice: &ToolChoice::Auto,
            config: &config,
            scope: "",
        };
        let own = body("m", &request, Server::OpenAi).unwrap();
        assert_eq!((&own["max_completion_tokens"], &own["max_tokens"]), (&json!(9), &Value::Null));
        assert_eq!(own["messages"][3], json!({"role": "assistant", "content": "d"}));
        let other = body("m", &request, Server::Compatible).unwrap();
        assert_eq!((&other["max_completion_tokens"], &other["max_tokens"]), (&Value::Null, &json!(9)));
        assert_eq!(other["messages"][1], json!({"role": "assistant", "content": "b"}));
        assert_eq!(other["messages"][3], json!({"role": "assistant", "content": "d", "reasoning_content": "hm"}));
    }
}
