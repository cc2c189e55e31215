//! One question to a model and its answer, both written down.

use std::time::{Duration, Instant};

use ::model::{Answer, GenerateConfig, ProviderTool, Request, ToolChoice};
use log::event::What;
use log::message::{ChatMessage, Choice, ModelOutput, Reply, StopReason};
use log::{Conversation, Repeated, Written};
use serde_json::{Map, Value};

use super::{Spent, State, Stop, Work, check};
use crate::budget::{Budget, Used};
use crate::display::Counters;
use crate::journal::{Journal, now, unique};
use crate::model::{ModelError, ToolInfo, Voice};
use crate::provider_tools::{self, Given};

/// Asks the agent's model once, within the limits; with these messages, or the sample's own.
pub(super) async fn ask(
    work: &Work<'_>,
    state: &mut State,
    tools: &[ToolInfo],
    sent: Option<&[ChatMessage]>,
) -> Result<ChatMessage, Stop> {
    check(work, state)?;
    let sent = sent.unwrap_or(&state.messages);
    let output = work.speaker.ask_with(sent, tools, &state.provider_tools, &mut state.spent).await?;
    let message = output.choices.first().map(|choice| choice.message.clone());
    let message = message.ok_or_else(|| Stop::Failed("the model gave no answer".into()))?;
    state.messages.push(message.clone());
    state.output = Some(output);
    Ok(message)
}

/// Somebody who can be asked in one sample, in a role; everything that is asked is written down and counted.
pub(crate) struct Speaker<'a> {
    /// Who answers. Whoever asks often has one voice for all of it: a scripted one goes on with its script.
    pub(crate) voice: Voice<'a>,
    /// In which role; absent means as the agent.
    pub(crate) role: Option<&'a str>,
    /// How it is to answer.
    pub(crate) config: GenerateConfig,
    /// Answers that are kept are kept apart by this.
    pub(crate) scope: String,
    pub(crate) journal: &'a Journal,
    pub(crate) counters: &'a Counters,
    pub(crate) budget: &'a Budget,
    /// Whether an answer must say what it used, because a limit rests on it.
    pub(crate) must_count: bool,
}

impl Speaker<'_> {
    /// Asks once. What the run may use up ends it; limits of the sample are the caller's.
    pub(crate) async fn ask(
        &self,
        messages: &[ChatMessage],
        tools: &[ToolInfo],
        spent: &mut Spent,
    ) -> Result<ModelOutput, Stop> {
        self.ask_with(messages, tools, &[], spent).await
    }

    /// The same, with tools of the model's provider switched on.
    pub(super) async fn ask_with(
        &self,
        messages: &[ChatMessage],
        tools: &[ToolInfo],
        provider_tools: &[ProviderTool],
        spent: &mut Spent,
    ) -> Result<ModelOutput, Stop> {
        if let Some(over) = self.budget.over() {
            return Err(Stop::Run(over.clone()));
        }
        let start = Instant::now();
        let request = Request {
            messages,
            tools,
            provider_tools,
            tool_choice: &ToolChoice::Auto,
            config: &self.config,
            scope: &self.scope,
        };
        let asked = Asked { speaker: self, sent: messages, tools, provider_tools, start };
        let held = self.journal.hold();
        let answered = self.voice.generate(request).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(ModelError::Remote(::model::ModelError::ContentFilter { said })) => {
                let why = format!("the provider's filter refused the request: {said}");
                at_once(none(self.voice.name(), Some(StopReason::ContentFilter), why))
            }
            Err(error) => {
                let output = none(self.voice.name(), None, error.told());
                asked.write(at_once(output), Some(error.told()));
                return Err(error.into());
            }
        };
        // Queues and repetitions are not the sample's own time.
        self.journal.waited(answer.waited);
        drop(held);
        let refused = answer.output.error.is_some();
        let given = if answer.attempts == 0 { Given::Before } else { Given::Now };
        let output = asked.write(answer, None);
        let calls = provider_tools::note(self.journal, self.voice.name(), &output, given, &mut spent.provider_calls);
        (0..calls).for_each(|_| self.counters.add_tool_call());
        self.count(&output, refused, spent)?;
        Ok(output)
    }

    fn count(&self, output: &ModelOutput, refused: bool, spent: &mut Spent) -> Result<(), Stop> {
        let Some(usage) = output.usage else {
            // A limit that nobody can count is none.
            return if self.must_count && !refused {
                let why = "does not say how many tokens it used, so that a limit of tokens or cost cannot hold";
                Err(Stop::Failed(format!("{} {why} (remove the limit, or ask another server)", self.voice.name())))
            } else {
                Ok(())
            };
        };
        spent.add(self.voice.name(), self.role, &usage);
        self.counters.add_tokens(usage.total_tokens);
        let cost = usage.total_cost.unwrap_or(0.0);
        self.budget.add(Used { tokens: usage.total_tokens, cost, ..Used::default() });
        Ok(())
    }
}

/// A question that was asked.
struct Asked<'a> {
    speaker: &'a Speaker<'a>,
    sent: &'a [ChatMessage],
    tools: &'a [ToolInfo],
    provider_tools: &'a [ProviderTool],
    start: Instant,
}

impl Asked<'_> {
    /// Writes down what came of it.
    fn write(&self, answer: Answer, error: Option<String>) -> ModelOutput {
        let Self { speaker, sent, tools, provider_tools, start } = self;
        let worked = start.elapsed().saturating_sub(answer.waited).as_secs_f64();
        let mut output = answer.output;
        output.time = Some(worked);
        let own = provider_tools
            .iter()
            .map(|tool| Written::value(provider_tools::described(*tool), speaker.journal.redactor()));
        let offered: Vec<Written> = speaker.journal.tools(tools).into_iter().chain(own).collect();
        let config = match serde_json::to_value(&speaker.config) {
            Ok(Value::Object(config)) => config,
            _ => Map::new(),
        };
        speaker.journal.event(What::Model {
            model: speaker.voice.name().to_owned(),
            role: speaker.role.map(str::to_owned),
            input: recent(speaker.journal, sent),
            tool_choice: Value::from(if offered.is_empty() { "none" } else { "auto" }),
            tools: Repeated::Written(offered),
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

fn recent(journal: &Journal, messages: &[ChatMessage]) -> Conversation {
    let left_out = messages.len().saturating_sub(REPEATED);
    let mut written = journal.conversation(&messages[left_out..]);
    if left_out > 0 {
        let note = format!("({left_out} earlier messages are in the sample's own list)");
        written.insert(0, Written::message(&ChatMessage::system(note), journal.redactor()));
    }
    Conversation::Written(written)
}
