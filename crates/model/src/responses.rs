//! `OpenAI`'s responses. Nothing is stored there: every request holds the whole conversation.

use log::message::{ChatMessage, Content, Detail, Part, Reasoning, Reply, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::ModelError;
use crate::media;
use crate::openai::Server;
use crate::output::{Reading, Unreadable, arguments_text, put};
use crate::own_tools::{Granted, ProviderTool, Used as ToolUsed, back, only};
use crate::request::{Request, ToolChoice};

/// The body of a request.
pub(crate) fn body(model: &str, request: &Request<'_>, server: Server) -> Result<Value, ModelError> {
    let config = request.config;
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("input".into(), input(request.messages, server)?.into());
    body.insert("store".into(), false.into());
    body.insert("include".into(), include(request.provider_tools));
    put(&mut body, "max_output_tokens", config.max_tokens);
    put(&mut body, "temperature", config.temperature);
    put(&mut body, "top_p", config.top_p);
    if let Some(effort) = config.reasoning_effort {
        body.insert("reasoning".into(), json!({"effort": effort.as_str(), "summary": "auto"}));
    }
    let own = request.provider_tools.iter().map(|tool| match tool {
        ProviderTool::WebSearch => json!({"type": "web_search"}),
        ProviderTool::CodeExecution => json!({"type": "code_interpreter", "container": {"type": "auto"}}),
    });
    let tools = request.tools.iter().map(|tool| {
        json!({
            "type": "function", "name": tool.name, "description": tool.description,
            "parameters": tool.parameters, "strict": false,
        })
    });
    let tools: Vec<Value> = tools.chain(own).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
        let choice = match request.tool_choice {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Any => "required".into(),
            ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
        };
        body.insert("tool_choice".into(), choice);
        put(&mut body, "parallel_tool_calls", config.parallel_tool_calls);
    }
    Ok(Value::Object(body))
}

/// What replies are to hold besides: thoughts that we can hand back although nobody stores them, and all that can be
/// learned of what the provider's own tools did.
fn include(own: &[ProviderTool]) -> Value {
    let of = |tool: &ProviderTool| match tool {
        ProviderTool::WebSearch => "web_search_call.action.sources",
        ProviderTool::CodeExecution => "code_interpreter_call.outputs",
    };
    std::iter::once("reasoning.encrypted_content").chain(own.iter().map(of)).collect()
}

fn input(messages: &[ChatMessage], server: Server) -> Result<Vec<Value>, ModelError> {
    let mut items = Vec::new();
    for message in messages {
        match message {
            ChatMessage::System(said) => items.push(json!({"role": "system", "content": said.content.text()})),
            ChatMessage::User(said) => items.push(json!({"role": "user", "content": user(&said.content)?})),
            ChatMessage::Assistant(reply) => items.extend(assistant(reply, server)),
            ChatMessage::Tool(result) => items.push(json!({
                "type": "function_call_output", "call_id": result.tool_call_id, "output": result.content.text(),
            })),
        }
    }
    Ok(items)
}

fn user(content: &Content) -> Result<Value, ModelError> {
    let Content::Parts(parts) = content else { return Ok(content.text().into()) };
    let part = |part: &Part| match part {
        Part::Text { text, .. } => Some(Ok(json!({"type": "input_text", "text": text}))),
        Part::Image { image, detail } => Some(media::image(image).map(|_| {
            let detail = match detail {
                Detail::Low => "low",
                Detail::High | Detail::Original => "high",
                Detail::Auto => "auto",
            };
            json!({"type": "input_image", "image_url": image, "detail": detail})
        })),
        Part::Reasoning(_) | Part::ToolUse(_) => None,
    };
    parts.iter().filter_map(part).collect()
}

/// Thoughts, words and calls are items of their own. Thoughts without an id were not thought there.
fn assistant(reply: &Reply, server: Server) -> Vec<Value> {
    let mut items = Vec::new();
    let said = |text: &str| json!({"role": "assistant", "content": text});
    match &reply.content {
        Content::Text(text) if text.is_empty() => {}
        Content::Text(text) => items.push(said(text)),
        Content::Parts(parts) => {
            for part in parts {
                match part {
                    Part::Text { text, .. } => items.push(said(text)),
                    Part::Reasoning(Reasoning { reasoning, summary, signature: Some(id), redacted: true }) => {
                        let summary: Vec<Value> =
                            summary.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
                        items.push(json!({
                            "type": "reasoning", "id": id, "summary": summary, "encrypted_content": reasoning,
                        }));
                    }
                    Part::ToolUse(used) => items.extend(back(used, |item| own_item(&item["type"]).is_some())),
                    Part::Reasoning(_) | Part::Image { .. } => {}
                }
            }
        }
    }
    items.extend(reply.tool_calls.iter().flatten().map(|call| {
        let arguments = arguments_text(call, server);
        json!({"type": "function_call", "call_id": call.id, "name": call.function, "arguments": arguments})
    }));
    items
}

/// Items of the provider's own tools: which tool, and what of them goes back in the next turn.
fn own_item(kind: &Value) -> Option<(ProviderTool, &'static [&'static str])> {
    match kind.as_str()? {
        "web_search_call" => Some((ProviderTool::WebSearch, &["type", "id", "status", "action"])),
        "code_interpreter_call" => {
            Some((ProviderTool::CodeExecution, &["type", "id", "status", "container_id", "code", "outputs"]))
        }
        _ => None,
    }
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    status: Option<String>,
    output: Vec<Value>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    usage: Option<Used>,
}

#[derive(Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    content: Option<Vec<Piece>>,
    #[serde(default)]
    summary: Option<Vec<Piece>>,
    #[serde(default)]
    encrypted_content: Option<String>,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    annotations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Used {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    total_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// What a reply says.
pub(crate) fn read(reply: Value, granted: Granted<'_>) -> Result<Reading, Unreadable> {
    let response: Response = serde_json::from_value(reply)?;
    if response.status.as_deref() == Some("failed") {
        let why = response.error.as_ref().and_then(|error| error["message"].as_str()).unwrap_or("without a reason");
        return Err(Unreadable::because(&format!("it failed: {why}")));
    }
    let mut reading = Reading { model: response.model, usage: response.usage.map(usage), ..Reading::default() };
    let mut refused = false;
    for item in response.output {
        if let Some((tool, fields)) = own_item(&item["type"]) {
            let name = item["type"].as_str().unwrap_or_default();
            let tool = granted.check(Some(tool), name)?;
            reading.used(did(tool, &item, name, fields));
            continue;
        }
        let item: Item = serde_json::from_value(item)?;
        match item.kind.as_str() {
            "message" => {
                for piece in item.content.into_iter().flatten() {
                    for cited in piece.annotations.iter().flatten() {
                        let kind = cited["type"].as_str().unwrap_or("annotation");
                        let of = match kind {
                            "url_citation" => Some(ProviderTool::WebSearch),
                            "container_file_citation" => Some(ProviderTool::CodeExecution),
                            _ => None,
                        };
                        granted.check(of, kind)?;
                    }
                    reading.say(piece.text);
                    if let Some(text) = piece.refusal {
                        refused = true;
                        reading.parts.push(Part::Text { text, refusal: Some(true) });
                    }
                }
            }
            "reasoning" => reading.parts.push(thought(item)),
            "function_call" => {
                let name = item.name.ok_or_else(|| Unreadable::because("a call has no name"))?;
                let arguments = reading.arguments(item.arguments.as_deref().unwrap_or_default());
                reading.call(item.call_id, name, arguments);
            }
            // Everything else is a tool of the provider that nobody can grant: files, a computer.
            other => {
                granted.check(None, other)?;
            }
        }
    }
    let reason = response.incomplete_details.and_then(|details| details.reason);
    reading.stop = match (response.status.as_deref(), reason.as_deref()) {
        (_, Some("max_output_tokens")) => Some(StopReason::MaxTokens),
        (_, Some("content_filter")) => Some(StopReason::ContentFilter),
        (Some("completed"), _) if refused => Some(StopReason::ContentFilter),
        (Some("completed"), _) => Some(StopReason::Stop),
        _ => Some(StopReason::Unknown),
    };
    Ok(reading)
}

/// What a tool of the provider did. A search's sources and a program's output are there because `include` asks for them.
fn did<'a>(tool: ProviderTool, item: &'a Value, name: &'a str, fields: &[&str]) -> ToolUsed<'a> {
    let status = item["status"].as_str();
    let (arguments, result) = match tool {
        ProviderTool::WebSearch => (&item["action"], &item["action"]["sources"]),
        ProviderTool::CodeExecution => (&item["code"], &item["outputs"]),
    };
    ToolUsed {
        tool,
        id: item["id"].as_str(),
        name,
        arguments,
        result,
        error: status.filter(|status| *status != "completed"),
        back: vec![only(item, fields)],
    }
}

fn thought(item: Item) -> Part {
    let texts = |pieces: Option<Vec<Piece>>| {
        let texts: Vec<String> = pieces.into_iter().flatten().filter_map(|piece| piece.text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    let summary = texts(item.summary);
    Part::Reasoning(match item.encrypted_content {
        Some(reasoning) => Reasoning { reasoning, summary, signature: item.id, redacted: true },
        None => Reasoning { reasoning: texts(item.content).unwrap_or_default(), summary, ..Reasoning::default() },
    })
}

fn usage(used: Used) -> Usage {
    let read = used.input_tokens_details.and_then(|details| details.cached_tokens);
    Usage {
        input_tokens: used.input_tokens.saturating_sub(read.unwrap_or(0)),
        output_tokens: used.output_tokens,
        total_tokens: used.total_tokens,
        input_tokens_cache_read: read,
        reasoning_tokens: used.output_tokens_details.and_then(|details| details.reasoning_tokens),
        ..Usage::default()
    }
}
