//! Anthropic's messages.

use log::message::{ChatMessage, Content, Part, Reasoning, Reply, StopReason, ToolResult, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::{Effort, GenerateConfig};
use crate::error::ModelError;
use crate::media;
use crate::output::{Arguments, Reading, Unreadable, put};
use crate::own_tools::{Granted, ProviderTool, Used as ToolUsed, back, only};
use crate::request::{Request, ToolChoice};

/// The version of the API that is spoken here.
pub(crate) const VERSION: &str = "2023-06-01";
/// What the header `anthropic-beta` must say for the provider's code runner.
const CODE_EXECUTION_BETA: &str = "code-execution-2025-08-25";
/// The longest answer where nobody says: the API wants to know, and every model can do this.
const MAX_TOKENS: u32 = 4096;
/// The least that a model may think, if it thinks.
const LEAST_THOUGHT: u32 = 1024;

/// The body of a request.
pub(crate) fn body(model: &str, request: &Request<'_>) -> Result<Value, ModelError> {
    let config = request.config;
    let mut body = Map::new();
    let thinking = config.reasoning_tokens.map(|tokens| tokens.max(LEAST_THOUGHT));
    // The budget for thoughts is part of the longest answer.
    let longest = match (config.max_tokens, thinking) {
        (Some(most), Some(budget)) => most.max(budget.saturating_add(1)),
        (Some(most), None) => most,
        (None, budget) => MAX_TOKENS.saturating_add(budget.unwrap_or(0)),
    };
    body.insert("model".into(), model.into());
    body.insert("max_tokens".into(), longest.into());
    let remember = config.cache_prompt.unwrap_or(!request.tools.is_empty());
    if let Some(system) = system(request.messages, remember) {
        body.insert("system".into(), system);
    }
    body.insert("messages".into(), messages(request.messages, remember)?.into());
    let own = request.provider_tools.iter().map(|tool| match tool {
        ProviderTool::WebSearch => json!({"type": "web_search_20250305", "name": "web_search"}),
        ProviderTool::CodeExecution => json!({"type": "code_execution_20250825", "name": "code_execution"}),
    });
    let tools = request
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}));
    let tools: Vec<Value> = tools.chain(own).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
        body.insert("tool_choice".into(), choice(request.tool_choice, config.parallel_tool_calls));
    }
    if let Some(budget) = thinking {
        body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
    } else if let Some(effort) = config.reasoning_effort.and_then(effort) {
        body.insert("thinking".into(), json!({"type": "adaptive"}));
        body.insert("output_config".into(), json!({"effort": effort}));
    }
    if !thinks(config) {
        put(&mut body, "temperature", config.temperature);
        put(&mut body, "top_p", config.top_p);
        put(&mut body, "top_k", config.top_k);
    }
    put(&mut body, "stop_sequences", config.stop_seqs.clone());
    Ok(Value::Object(body))
}

/// What is not yet part of the API, and asked for by a header.
pub(crate) fn beta(own: &[ProviderTool]) -> Option<&'static str> {
    own.contains(&ProviderTool::CodeExecution).then_some(CODE_EXECUTION_BETA)
}

/// Whether thoughts are asked for: then chance cannot be chosen.
pub(crate) fn thinks(config: &GenerateConfig) -> bool {
    config.reasoning_tokens.is_some() || config.reasoning_effort.and_then(effort).is_some()
}

fn effort(effort: Effort) -> Option<&'static str> {
    match effort {
        Effort::None => None,
        Effort::Minimal | Effort::Low => Some("low"),
        Effort::Medium => Some("medium"),
        Effort::High => Some("high"),
        Effort::Xhigh => Some("xhigh"),
    }
}

fn choice(choice: &ToolChoice, parallel: Option<bool>) -> Value {
    let mut choice = match choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => return json!({"type": "none"}),
        ToolChoice::Any => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    if let Some(parallel) = parallel {
        choice["disable_parallel_tool_use"] = (!parallel).into();
    }
    choice
}

/// Everything before this is remembered by the provider.
fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn system(messages: &[ChatMessage], remember: bool) -> Option<Value> {
    let texts = messages.iter().filter_map(|message| match message {
        ChatMessage::System(said) => Some(said.content.text()),
        _ => None,
    });
    let mut blocks: Vec<Value> =
        texts.filter(|text| !text.trim().is_empty()).map(|text| json!({"type": "text", "text": text})).collect();
    // Tools stand before the instructions, so that this mark is theirs too.
    if let Some(last) = blocks.last_mut().filter(|_| remember) {
        mark(last);
    }
    (!blocks.is_empty()).then(|| blocks.into())
}

/// Roles alternate: results of tools and what is said after them are one message of the user.
fn messages(messages: &[ChatMessage], remember: bool) -> Result<Vec<Value>, ModelError> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let (role, blocks) = match message {
            ChatMessage::System(_) => continue,
            ChatMessage::User(said) => ("user", user(&said.content)?),
            ChatMessage::Assistant(reply) => ("assistant", assistant(reply, index + 1 == messages.len())),
            ChatMessage::Tool(result) => ("user", vec![tool_result(result)]),
        };
        // An empty block is refused, and an empty message too.
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, known)) if *last == role => known.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if let Some(last) = turns.last_mut().filter(|_| remember).and_then(|(_, blocks)| blocks.last_mut()) {
        mark(last);
    }
    Ok(turns.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect())
}

fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn user(content: &Content) -> Result<Vec<Value>, ModelError> {
    let Content::Parts(parts) = content else { return Ok(text(&content.text()).into_iter().collect()) };
    let part = |part: &Part| {
        match part {
        Part::Text { text: said, .. } => text(said).map(Ok),
        Part::Image { image, .. } => Some(media::image(image).map(|image| {
            json!({"type": "image", "source": {"type": "base64", "media_type": image.kind, "data": image.data}})
        })),
        Part::Reasoning(_) | Part::ToolUse(_) => None,
    }
    };
    parts.iter().filter_map(part).collect()
}

/// Thoughts go back exactly as they came: the provider checks their signature. What has none was thought elsewhere.
fn assistant(reply: &Reply, is_last: bool) -> Vec<Value> {
    let mut blocks: Vec<Value> = match &reply.content {
        Content::Text(said) => text(said.trim_end()).into_iter().collect(),
        Content::Parts(parts) => parts.iter().flat_map(|part| block(part, is_last)).collect(),
    };
    blocks.extend(
        reply
            .tool_calls
            .iter()
            .flatten()
            .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.function, "input": call.arguments})),
    );
    blocks
}

fn block(part: &Part, is_last: bool) -> Vec<Value> {
    let one = match part {
        Part::Text { text: said, .. } => text(said.trim_end()),
        Part::Reasoning(thought) if thought.redacted => {
            Some(json!({"type": "redacted_thinking", "data": thought.reasoning}))
        }
        Part::Reasoning(thought) => thought
            .signature
            .as_ref()
            .map(|signature| json!({"type": "thinking", "thinking": thought.reasoning, "signature": signature})),
        // A use that has given nothing is one that paused, and stands at the end or nowhere.
        Part::ToolUse(used) => {
            let blocks = back(used, is_own);
            let is_whole = blocks.len() > 1;
            return if is_whole || is_last { blocks } else { Vec::new() };
        }
        Part::Image { .. } => None,
    };
    one.into_iter().collect()
}

/// Blocks of the provider's own tools: a use, and what it gave.
fn is_own(block: &Value) -> bool {
    block["type"].as_str().is_some_and(|kind| kind == "server_tool_use" || kind.ends_with("_tool_result"))
}

/// The tool of the provider that a use, or a result without its ending, names.
fn own_tool(name: &str) -> Option<ProviderTool> {
    match name {
        "web_search" => Some(ProviderTool::WebSearch),
        "code_execution" | "bash_code_execution" | "text_editor_code_execution" => Some(ProviderTool::CodeExecution),
        _ => None,
    }
}

fn tool_result(result: &ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": result.tool_call_id});
    let text = result.content.text();
    if !text.is_empty() {
        block["content"] = text.into();
    }
    if result.error.is_some() {
        block["is_error"] = true.into();
    }
    block
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    model: Option<String>,
    content: Vec<Value>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Used>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    citations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Used {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

/// What a reply says.
pub(crate) fn read(reply: Value, granted: Granted<'_>) -> Result<Reading, Unreadable> {
    let message: Message = serde_json::from_value(reply)?;
    let mut reading = Reading { model: message.model, usage: message.usage.map(usage), ..Reading::default() };
    for block in message.content {
        if is_own(&block) {
            own_block(&mut reading, &block, granted)?;
            continue;
        }
        let block: Block = serde_json::from_value(block)?;
        match block.kind.as_str() {
            "text" => {
                let cited = block.citations.iter().flatten().filter_map(|cited| cited["type"].as_str());
                for kind in cited.filter(|kind| kind.starts_with("web_search")) {
                    granted.check(Some(ProviderTool::WebSearch), kind)?;
                }
                reading.say_on(block.text);
            }
            "thinking" => reading.parts.push(Part::Reasoning(Reasoning {
                reasoning: block.thinking.unwrap_or_default(),
                signature: block.signature,
                ..Reasoning::default()
            })),
            "redacted_thinking" => reading.parts.push(Part::Reasoning(Reasoning {
                reasoning: block.data.unwrap_or_default(),
                redacted: true,
                ..Reasoning::default()
            })),
            "tool_use" => {
                let name = block.name.ok_or_else(|| Unreadable::because("a call has no name"))?;
                reading.call(block.id, name, Arguments::from_json(block.input));
            }
            other => return Err(Unreadable::because(&format!("it holds a block of kind `{other}`"))),
        }
    }
    reading.paused = message.stop_reason.as_deref() == Some("pause_turn");
    reading.stop = message.stop_reason.as_deref().map(stop);
    Ok(reading)
}

/// A use of a tool of the provider, or what one gave.
fn own_block(reading: &mut Reading, block: &Value, granted: Granted<'_>) -> Result<(), Unreadable> {
    let kind = block["type"].as_str().unwrap_or_default();
    if kind == "server_tool_use" {
        let name = block["name"].as_str().unwrap_or(kind);
        let tool = granted.check(own_tool(name), name)?;
        let back = vec![only(block, &["type", "id", "name", "input"])];
        let (arguments, id) = (&block["input"], block["id"].as_str());
        reading.used(ToolUsed { tool, id, name, arguments, result: &Value::Null, error: None, back });
        return Ok(());
    }
    let name = kind.strip_suffix("_tool_result").unwrap_or(kind);
    let tool = granted.check(own_tool(name), name)?;
    let content = &block["content"];
    let back = only(block, &["type", "tool_use_id", "content"]);
    let (id, error) = (block["tool_use_id"].as_str().unwrap_or_default(), content["error_code"].as_str());
    if reading.gave(Some(id), content, error, back.clone()).is_none() {
        // The use was told before a pause.
        let arguments = &Value::Null;
        reading.used(ToolUsed { tool, id: Some(id), name, arguments, result: content, error, back: vec![back] });
    }
    Ok(())
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::Stop,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" => StopReason::MaxTokens,
        "model_context_window_exceeded" => StopReason::ModelLength,
        "refusal" => StopReason::ContentFilter,
        _ => StopReason::Unknown,
    }
}

fn usage(used: Used) -> Usage {
    let (write, read) = (used.cache_creation_input_tokens, used.cache_read_input_tokens);
    let all = [used.input_tokens, used.output_tokens, write.unwrap_or(0), read.unwrap_or(0)];
    Usage {
        input_tokens: used.input_tokens,
        output_tokens: used.output_tokens,
        total_tokens: all.into_iter().fold(0, u64::saturating_add),
        input_tokens_cache_write: write,
        input_tokens_cache_read: read,
        reasoning_tokens: used.output_tokens_details.and_then(|details| details.thinking_tokens),
        ..Usage::default()
    }
}
