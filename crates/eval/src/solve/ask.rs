//! One question to the model and its answer, both written down.

use std::time::{Duration, Instant};

use ::model::{Answer, Request, ToolChoice};
use log::event::What;
use log::message::{ChatMessage, Choice, ModelOutput, Reply, StopReason};
use serde_json::{Map, Value, json};

use super::{State, Stop, Work, check};
use crate::journal::{now, unique};
use crate::model::{ModelError, ToolInfo};

/// Asks the model once, within the limits; with these messages, or the sample's own.
pub(super) async fn ask(
    work: &Work<'_>,
    state: &mut State,
    tools: &[ToolInfo],
    sent: Option<&[ChatMessage]>,
) -> Result<ChatMessage, Stop> {
    check(work, state)?;
    let sent = sent.unwrap_or(&state.messages);
    let start = Instant::now();
    let told: Vec<::model::ToolInfo> = tools.iter().map(Into::into).collect();
    let request = Request {
        messages: sent,
        tools: &told,
        tool_choice: &ToolChoice::Auto,
        config: work.config,
        scope: &work.scope,
    };
    let asked = Asked { work, sent, tools, start };
    let answer = match work.model.generate(request).await {
        Ok(answer) => answer,
        Err(ModelError::Remote(::model::ModelError::ContentFilter { said })) => {
            let why = format!("the provider's filter refused the request: {said}");
            at_once(none(work.model.name(), Some(StopReason::ContentFilter), why))
        }
        Err(error) => {
            let output = none(work.model.name(), None, error.told());
            asked.write(at_once(output), Some(error.told()));
            return Err(error.into());
        }
    };
    // Queues and repetitions are not the sample's own time.
    work.journal.waited(answer.waited);
    let output = asked.write(answer, None);
    if let Some(usage) = output.usage {
        state.usage.entry(work.model.name().to_owned()).or_default().add(&usage);
        work.counters.add_tokens(usage.total_tokens);
    }
    let message = output.choices.first().map(|choice| choice.message.clone());
    let message = message.ok_or_else(|| Stop::Failed("the model gave no answer".into()))?;
    state.messages.push(message.clone());
    state.output = Some(output);
    Ok(message)
}

/// A question that was asked.
struct Asked<'a> {
    work: &'a Work<'a>,
    sent: &'a [ChatMessage],
    tools: &'a [ToolInfo],
    start: Instant,
}

impl Asked<'_> {
    /// Writes down what came of it.
    fn write(&self, answer: Answer, error: Option<String>) -> ModelOutput {
        let Self { work, sent, tools, start } = self;
        let worked = start.elapsed().saturating_sub(answer.waited).as_secs_f64();
        let mut output = answer.output;
        output.time = Some(worked);
        let offered = tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters}));
        let config = match serde_json::to_value(work.config) {
            Ok(Value::Object(config)) => config,
            _ => Map::new(),
        };
        work.journal.event(What::Model {
            model: work.model.name().to_owned(),
            input: recent(sent),
            tools: offered.collect(),
            tool_choice: Value::from(if tools.is_empty() { "none" } else { "auto" }),
            config,
            output: output.clone(),
            retries: answer.attempts.checked_sub(1).filter(|retries| *retries > 0),
            cache: (answer.attempts == 0).then(|| "read".to_owned()),
            error,
            completed: Some(now()),
            working_time: Some(worked),
        });
        output
    }
}

/// What counts as the answer where there is none: nothing, or an empty one with a reason for its end.
fn none(model: &str, stop: Option<StopReason>, why: String) -> ModelOutput {
    let message = ChatMessage::Assistant(Reply {
        id: Some(unique()),
        content: "".into(),
        source: Some("generate".into()),
        tool_calls: None,
        model: Some(model.to_owned()),
    });
    ModelOutput {
        model: model.to_owned(),
        choices: stop.map(|stop_reason| Choice { message, stop_reason }).into_iter().collect(),
        completion: String::new(),
        usage: None,
        time: None,
        error: Some(why),
    }
}

fn at_once(output: ModelOutput) -> Answer {
    Answer { output, waited: Duration::ZERO, attempts: 1 }
}

/// The most messages that one event of a model repeats: all of them are in the sample itself, and a conversation of
/// thousands would be written thousands of times.
const REPEATED: usize = 100;

fn recent(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let Some(left_out) = messages.len().checked_sub(REPEATED).filter(|count| *count > 0) else {
        return messages.to_vec();
    };
    let note = ChatMessage::system(format!("({left_out} earlier messages are in the sample's own list)"));
    std::iter::once(note).chain(messages[left_out..].iter().cloned()).collect()
}
