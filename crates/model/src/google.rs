//! Google's Gemini: `generateContent` with function calling.

use log::message::{ChatMessage, Content, Part, Reasoning, Reply, StopReason, ToolResult, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use strangers::Shown;

use crate::config::Effort;
use crate::error::ModelError;
use crate::media;
use crate::output::{Arguments, Reading, Unreadable, put};
use crate::own_tools::{Granted, ProviderTool, Used as ToolUsed, back, only};
use crate::request::{Request, ToolChoice};

/// The body of a request.
pub(crate) fn body(request: &Request<'_>) -> Result<Value, ModelError> {
    let mut body = Map::new();
    if let Some(system) = system(request.messages) {
        body.insert("systemInstruction".into(), system);
    }
    // Beside the provider's own tools, calls and results are paired by their ids.
    let beside = !request.tools.is_empty() && !request.provider_tools.is_empty();
    body.insert("contents".into(), contents(request.messages, beside)?.into());
    let generation = generation(request);
    if !generation.is_empty() {
        body.insert("generationConfig".into(), generation.into());
    }
    let own = request.provider_tools.iter().map(|tool| match tool {
        ProviderTool::WebSearch => json!({"googleSearch": {}}),
        ProviderTool::CodeExecution => json!({"codeExecution": {}}),
    });
    let mut tools: Vec<Value> = own.collect();
    if !request.tools.is_empty() {
        let declared: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
            })
            .collect();
        tools.insert(0, json!({"functionDeclarations": declared}));
        let choice = match request.tool_choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Any => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        };
        let mut config = json!({"functionCallingConfig": choice});
        if beside {
            config["includeServerSideToolInvocations"] = true.into();
        }
        body.insert("toolConfig".into(), config);
    }
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    Ok(Value::Object(body))
}

fn generation(request: &Request<'_>) -> Map<String, Value> {
    let config = request.config;
    let mut generation = Map::new();
    put(&mut generation, "temperature", config.temperature);
    put(&mut generation, "topP", config.top_p);
    put(&mut generation, "topK", config.top_k);
    put(&mut generation, "maxOutputTokens", config.max_tokens);
    put(&mut generation, "stopSequences", config.stop_seqs.clone());
    put(&mut generation, "seed", config.seed);
    put(&mut generation, "frequencyPenalty", config.frequency_penalty);
    put(&mut generation, "presencePenalty", config.presence_penalty);
    let mut thinking = Map::new();
    put(&mut thinking, "thinkingBudget", config.reasoning_tokens);
    if config.reasoning_tokens.is_none() {
        let level = config.reasoning_effort.map(|effort| match effort {
            Effort::None | Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::Xhigh => "high",
        });
        put(&mut thinking, "thinkingLevel", level);
    }
    if !thinking.is_empty() {
        thinking.insert("includeThoughts".into(), true.into());
        generation.insert("thinkingConfig".into(), thinking.into());
    }
    generation
}

fn system(messages: &[ChatMessage]) -> Option<Value> {
    let parts: Vec<Value> = messages
        .iter()
        .filter_map(|message| match message {
            ChatMessage::System(said) => text(&said.content.text()),
            _ => None,
        })
        .collect();
    (!parts.is_empty()).then(|| json!({"parts": parts}))
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"text": text}))
}

/// Roles alternate: all results of one step are one turn, in the order of the calls.
fn contents(messages: &[ChatMessage], ids: bool) -> Result<Vec<Value>, ModelError> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, parts) = match message {
            ChatMessage::System(_) => continue,
            ChatMessage::User(said) => ("user", user(&said.content)?),
            ChatMessage::Assistant(reply) => ("model", model(reply, ids)),
            ChatMessage::Tool(result) => ("user", vec![response(result, ids)]),
        };
        match turns.last_mut() {
            _ if parts.is_empty() => {}
            Some((last, known)) if *last == role => known.extend(parts),
            _ => turns.push((role, parts)),
        }
    }
    Ok(turns.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect())
}

fn user(content: &Content) -> Result<Vec<Value>, ModelError> {
    let Content::Parts(parts) = content else { return Ok(text(&content.text()).into_iter().collect()) };
    let part = |part: &Part| match part {
        Part::Text { text: said, .. } => text(said).map(Ok),
        Part::Image { image, .. } => {
            Some(media::image(image).map(|image| json!({"inlineData": {"mimeType": image.kind, "data": image.data}})))
        }
        Part::Reasoning(_) | Part::ToolUse(_) => None,
    };
    parts.iter().filter_map(part).collect()
}

/// Signatures go back where they came from: on the first call of a step, or on the last words.
fn model(reply: &Reply, ids: bool) -> Vec<Value> {
    let mut signature = None;
    let mut parts: Vec<Value> = Vec::new();
    match &reply.content {
        Content::Text(said) => parts.extend(text(said)),
        Content::Parts(all) => {
            for part in all {
                match part {
                    Part::Text { text: said, .. } => parts.extend(text(said)),
                    Part::Reasoning(thought) => signature = thought.signature.clone().or(signature),
                    Part::ToolUse(used) => parts.extend(back(used, |part| own_part(part).is_some())),
                    Part::Image { .. } => {}
                }
            }
        }
    }
    let words = parts.len();
    parts.extend(reply.tool_calls.iter().flatten().map(|call| {
        let mut called = json!({"name": call.function, "args": call.arguments});
        if ids {
            called["id"] = call.id.as_str().into();
        }
        json!({"functionCall": called})
    }));
    let at = if parts.len() > words { Some(words) } else { parts.iter().rposition(|part| part.get("text").is_some()) };
    if let (Some(signature), Some(part)) = (signature, at.and_then(|at| parts.get_mut(at))) {
        part["thoughtSignature"] = signature.into();
    }
    parts
}

/// Parts of the provider's own tools: which tool, where that is one that can be granted, and by which field.
fn own_part(part: &Value) -> Option<(Option<ProviderTool>, &'static str)> {
    let fields = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"];
    let field = fields.into_iter().find(|field| part.get(field).is_some_and(|inner| !inner.is_null()))?;
    let tool = match (field, part[field]["toolType"].as_str()) {
        ("executableCode" | "codeExecutionResult", _) => Some(ProviderTool::CodeExecution),
        (_, Some("GOOGLE_SEARCH_WEB")) => Some(ProviderTool::WebSearch),
        _ => None,
    };
    Some((tool, field))
}

fn response(result: &ToolResult, ids: bool) -> Value {
    let key = if result.error.is_some() { "error" } else { "result" };
    let mut response = Map::new();
    response.insert(key.into(), result.content.text().into());
    let mut answered = json!({"name": result.function, "response": response});
    if ids {
        answered["id"] = result.tool_call_id.as_str().into();
    }
    json!({"functionResponse": answered})
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    #[serde(default)]
    candidates: Vec<Candidate>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<Used>,
    #[serde(default)]
    model_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Option<Said>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    grounding_metadata: Option<Value>,
    #[serde(default)]
    url_context_metadata: Option<Value>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    parts: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SaidPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<Called>,
}

#[derive(Deserialize)]
struct Called {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize, Clone, Copy)]
struct Used {
    #[serde(default, rename = "promptTokenCount")]
    prompt: u64,
    #[serde(default, rename = "candidatesTokenCount")]
    candidates: u64,
    #[serde(default, rename = "totalTokenCount")]
    total: u64,
    #[serde(default, rename = "cachedContentTokenCount")]
    cached: Option<u64>,
    #[serde(default, rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
}

/// What a reply says.
pub(crate) fn read(reply: Value, granted: Granted<'_>) -> Result<Reading, Unreadable> {
    let generated: Generated = serde_json::from_value(reply)?;
    if let Some(reason) = generated.prompt_feedback.and_then(|feedback| feedback.block_reason) {
        return Err(Unreadable::Filtered(Shown::new(&reason)));
    }
    let mut reading =
        Reading { model: generated.model_version, usage: generated.usage_metadata.map(usage), ..Reading::default() };
    let candidate =
        generated.candidates.into_iter().next().ok_or_else(|| Unreadable::because("it has no candidates"))?;
    if candidate.url_context_metadata.is_some() {
        granted.check(None, "URL context")?;
    }
    let grounding = candidate.grounding_metadata.as_ref();
    if grounding.is_some() {
        granted.check(Some(ProviderTool::WebSearch), "search")?;
    }
    let mut searched = false;
    for part in candidate.content.map(|content| content.parts).unwrap_or_default() {
        if let Some((tool, field)) = own_part(&part) {
            let tool = granted.check(tool, field)?;
            searched |= tool == ProviderTool::WebSearch;
            did(&mut reading, tool, &part, field);
            continue;
        }
        let part: SaidPart = serde_json::from_value(part)?;
        if part.thought {
            let reasoning = part.text.unwrap_or_default();
            let signature = part.thought_signature;
            reading.parts.push(Part::Reasoning(Reasoning { reasoning, signature, ..Reasoning::default() }));
            continue;
        }
        // A signature on words or a call is a thought that only the provider can read.
        if let Some(signature) = part.thought_signature {
            let signature = Some(signature);
            reading.parts.push(Part::Reasoning(Reasoning { signature, redacted: true, ..Reasoning::default() }));
        }
        reading.say(part.text);
        if let Some(called) = part.function_call {
            reading.call(called.id, called.name, Arguments::from_json(called.args));
        }
    }
    // What was searched for is told in one of two ways.
    if let Some(grounding) = grounding.filter(|_| !searched) {
        ground(&mut reading, grounding);
    }
    reading.stop = candidate.finish_reason.as_deref().map(stop);
    Ok(reading)
}

/// What a tool of the provider did, in its parts. They go back as they came, with their signatures.
fn did(reading: &mut Reading, tool: ProviderTool, part: &Value, field: &str) {
    let inner = &part[field];
    let (id, kept) = (inner["id"].as_str(), only(part, &[field, "thoughtSignature"]));
    let outcome = inner["outcome"].as_str().filter(|outcome| *outcome != "OUTCOME_OK");
    let result = if field == "toolResponse" { &inner["response"] } else { &inner["output"] };
    let gives = matches!(field, "codeExecutionResult" | "toolResponse");
    if gives && reading.gave(id, result, outcome, kept.clone()).is_some() {
        return;
    }
    let arguments = if field == "toolCall" { &inner["args"] } else { &inner["code"] };
    let name = inner["toolType"].as_str().unwrap_or("code_execution");
    reading.used(ToolUsed { tool, id, name, arguments, result, error: outcome, back: vec![kept] });
}

/// Searches that are told of beside the words; nothing of it goes back.
fn ground(reading: &mut Reading, grounding: &Value) {
    let (arguments, result) = (&grounding["webSearchQueries"], &grounding["groundingChunks"]);
    let tool = ProviderTool::WebSearch;
    reading.used(ToolUsed { tool, id: None, name: "google_search", arguments, result, error: None, back: Vec::new() });
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "STOP" => StopReason::Stop,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" | "LANGUAGE" => {
            StopReason::ContentFilter
        }
        _ => StopReason::Unknown,
    }
}

fn usage(used: Used) -> Usage {
    let (read, thoughts) = (used.cached, used.thoughts);
    Usage {
        input_tokens: used.prompt.saturating_sub(read.unwrap_or(0)),
        output_tokens: used.candidates.saturating_add(thoughts.unwrap_or(0)),
        total_tokens: used.total,
        input_tokens_cache_read: read,
        reasoning_tokens: thoughts,
        ..Usage::default()
    }
}
