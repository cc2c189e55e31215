//! `OpenAI`'s chat completions, which many servers speak: vLLM, Ollama, llama.cpp and others.

use std::borrow::Cow;

use log::message::{ChatMessage, Content, Detail, Part, Reasoning, Reply, StopReason, ToolCall, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strangers::Shown;

use crate::error::ModelError;
use crate::media;
use crate::output::{Arguments, Reading, Unreadable, arguments_text, put};
use crate::own_tools::Granted;
use crate::request::{Request, ToolChoice, ToolInfo};

/// Whose server it is: `OpenAI`'s own knows one name for the longest answer, others know another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    OpenAi,
    Compatible,
}

/// The body of a request. The messages are written as they stand, without a tree of values in between: a conversation is
/// sent again with every turn, and is most of what is sent.
pub(crate) fn body(model: &str, request: &Request<'_>, server: Server) -> Result<String, ModelError> {
    let config = request.config;
    let mut settings = Map::new();
    let longest = match server {
        Server::OpenAi => "max_completion_tokens",
        Server::Compatible => "max_tokens",
    };
    put(&mut settings, longest, config.max_tokens);
    put(&mut settings, "temperature", config.temperature);
    put(&mut settings, "top_p", config.top_p);
    put(&mut settings, "stop", config.stop_seqs.clone());
    put(&mut settings, "seed", config.seed);
    put(&mut settings, "frequency_penalty", config.frequency_penalty);
    put(&mut settings, "presence_penalty", config.presence_penalty);
    put(&mut settings, "reasoning_effort", config.reasoning_effort.map(crate::Effort::as_str));
    if !request.tools.is_empty() {
        settings.insert("tool_choice".into(), choice(request.tool_choice));
        put(&mut settings, "parallel_tool_calls", config.parallel_tool_calls);
    }
    let tools = request.tools.iter().map(|tool| Offered { kind: "function", function: tool }).collect();
    let body = Body { model, messages: messages(request.messages, server)?, tools, settings };
    serde_json::to_string(&body).map_err(|error| ModelError::Unwritable { why: Shown::new(&error.to_string()) })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Sent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Offered<'a>>,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

#[derive(Serialize)]
struct Offered<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: &'a ToolInfo,
}

/// A message of any kind.
#[derive(Serialize)]
struct Sent<'a> {
    role: &'static str,
    content: Words<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Wanted<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Words<'a> {
    Text(Cow<'a, str>),
    Parts(Value),
    Nothing,
}

#[derive(Serialize)]
struct Wanted<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WantedFunction<'a>,
}

#[derive(Serialize)]
struct WantedFunction<'a> {
    name: &'a str,
    arguments: String,
}

impl<'a> Sent<'a> {
    fn new(role: &'static str, content: Words<'a>) -> Self {
        let tool_calls = Vec::new();
        Self { role, content, tool_call_id: None, reasoning_content: None, reasoning: None, tool_calls }
    }
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn messages(messages: &[ChatMessage], server: Server) -> Result<Vec<Sent<'_>>, ModelError> {
    // Thoughts belong to the step that is under way: servers want them back while tools are called, and not after.
    let asked = messages.iter().rposition(|message| matches!(message, ChatMessage::User(_)));
    let is_under_way = |index: usize| asked.is_none_or(|asked| index > asked);
    let numbered = messages.iter().enumerate();
    numbered.map(|(index, message)| sent(message, server, is_under_way(index))).collect()
}

fn sent(message: &ChatMessage, server: Server, is_under_way: bool) -> Result<Sent<'_>, ModelError> {
    match message {
        ChatMessage::System(said) => Ok(Sent::new("system", Words::Text(said.content.text()))),
        ChatMessage::User(said) => Ok(Sent::new("user", user(&said.content)?)),
        ChatMessage::Assistant(reply) => Ok(assistant(reply, server == Server::Compatible && is_under_way, server)),
        ChatMessage::Tool(result) => {
            let sent = Sent::new("tool", Words::Text(result.content.text()));
            Ok(Sent { tool_call_id: Some(&result.tool_call_id), ..sent })
        }
    }
}

fn user(content: &Content) -> Result<Words<'_>, ModelError> {
    let Content::Parts(parts) = content else { return Ok(Words::Text(content.text())) };
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
    parts.iter().filter_map(part).collect::<Result<Value, ModelError>>().map(Words::Parts)
}

fn assistant(reply: &Reply, thoughts: bool, server: Server) -> Sent<'_> {
    let text = reply.content.text();
    let calls = reply.tool_calls.as_deref().unwrap_or_default();
    // Words may be missing only beside calls.
    let content = if text.is_empty() && !calls.is_empty() { Words::Nothing } else { Words::Text(text) };
    let mut sent =
        Sent { tool_calls: calls.iter().map(|one| call(one, server)).collect(), ..Sent::new("assistant", content) };
    if let (true, Content::Parts(parts)) = (thoughts, &reply.content) {
        for part in parts {
            if let Part::Reasoning(thought) = part {
                let field = match thought.signature.as_deref() {
                    Some("reasoning") => &mut sent.reasoning,
                    _ => &mut sent.reasoning_content,
                };
                *field = Some(&thought.reasoning);
            }
        }
    }
    sent
}

fn call(call: &ToolCall, server: Server) -> Wanted<'_> {
    // Their text is a part of the text that is sent, as servers want it.
    let arguments = arguments_text(call, server);
    Wanted { id: &call.id, kind: "function", function: WantedFunction { name: &call.function, arguments } }
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
            Value::String(text) => reading.arguments(&text),
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
        let arguments = reading.arguments("{\"a\": 1");
        reading.call(Some("c".into()), "add".into(), arguments);
        let arguments = reading.arguments("{\"a\": 1}");
        reading.call(Some("d".into()), "add".into(), arguments);
        let arguments = reading.arguments(&"x".repeat(1 << 20));
        reading.call(Some("e".into()), "add".into(), arguments);
        let sent = |server| reading.calls.iter().map(|one| Value::from(call(one, server).function.arguments)).collect();
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
        let body = |server| serde_json::from_str::<Value>(&body("m", &request, server).unwrap()).unwrap();
        let own = body(Server::OpenAi);
        assert_eq!((&own["max_completion_tokens"], &own["max_tokens"]), (&json!(9), &Value::Null));
        assert_eq!(own["messages"][3], json!({"role": "assistant", "content": "d"}));
        let other = body(Server::Compatible);
        assert_eq!((&other["max_completion_tokens"], &other["max_tokens"]), (&Value::Null, &json!(9)));
        assert_eq!(other["messages"][1], json!({"role": "assistant", "content": "b"}));
        assert_eq!(other["messages"][3], json!({"role": "assistant", "content": "d", "reasoning_content": "hm"}));
    }
}
