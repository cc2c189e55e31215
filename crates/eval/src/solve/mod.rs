//! From a question to an answer.

mod agent;
mod ask;
mod choices;
mod iterative;
mod near;
mod one_call;
mod prune;
mod template;

use std::collections::BTreeMap;
use std::time::Duration;

use ::model::ProviderTool;
use log::event::EvalError;
use log::message::{ChatMessage, ModelOutput, Usage};
use profile::Plan;
use sandbox::Sandbox;

use crate::approval::Gate;
use crate::budget::{Budget, Over, Used};
use crate::journal::{Journal, unique};
use crate::model::{ModelError, ToolInfo};
use crate::provider_tools;
use crate::task::{Input, Limits, Sample, Solver, Task};
use crate::tools::{Kit, Tool};

pub(crate) use ask::Speaker;
use ask::ask;
pub(crate) use choices::{chosen, letters};
pub(crate) use template::fill_with;

/// What a sample has come to.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) messages: Vec<ChatMessage>,
    pub(crate) output: Option<ModelOutput>,
    /// What was submitted.
    pub(crate) answer: Option<String>,
    /// Which choices were taken, by their place.
    pub(crate) chosen: Option<Vec<usize>>,
    /// What the agent and all others have used.
    pub(crate) spent: Spent,
    pub(crate) tool_calls: u64,
    /// Tools of the model's provider that the solver at work has.
    provider_tools: Vec<ProviderTool>,
    /// What earlier attempts have used; it counts for the same limits.
    pub(crate) before: Usage,
    /// Limits that were said to be near.
    neared: Vec<&'static str>,
    /// What the run's budget knows of already.
    reported: (usize, Duration),
}

/// What was used, by whom.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent {
    /// By the model's name.
    pub(crate) by_model: BTreeMap<String, Usage>,
    /// By role, without the agent.
    pub(crate) by_role: BTreeMap<String, Usage>,
    /// How often tools of the model's provider were used, as far as it told.
    pub(crate) provider_calls: BTreeMap<&'static str, u64>,
    /// By the agent alone: what the sample's own limits are about.
    agent: Usage,
}

impl Spent {
    /// What the agent alone has used.
    pub(crate) fn agent(&self) -> &Usage {
        &self.agent
    }

    /// Adds one answer.
    pub(crate) fn add(&mut self, model: &str, role: Option<&str>, usage: &Usage) {
        self.by_model.entry(model.to_owned()).or_default().add(usage);
        match role {
            Some(role) => self.by_role.entry(role.to_owned()).or_default().add(usage),
            None => self.agent.add(usage),
        }
    }
}

/// Why a sample ends before its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    /// A limit: kind and limit, as Inspect names them.
    Limit { kind: &'static str, limit: f64, message: String },
    /// A limit of the whole run.
    Run(Over),
    /// It has no place to work in, for what an agent may have left in a writable mount. Wrong, not failed.
    Blocked(String),
    /// It failed.
    Failed(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<ModelError> for Stop {
    fn from(error: ModelError) -> Self {
        match error {
            // Whatever the model has come to so far is scored.
            ModelError::Remote(::model::ModelError::ContextLength { .. }) => {
                Self::Limit { kind: "context", limit: 1.0, message: error.to_string() }
            }
            _ => Self::Failed(format!("{} ({})", error.told(), error.hint())),
        }
    }
}

/// Everything that a solver works with.
pub(crate) struct Work<'a> {
    pub(crate) task: &'a Task,
    pub(crate) sample: &'a Sample,
    pub(crate) plan: &'a Plan,
    /// Who is asked.
    pub(crate) speaker: Speaker<'a>,
    /// What the sample may use up.
    pub(crate) limits: Limits,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) journal: &'a Journal,
    /// Which tools the plan grants.
    pub(crate) granted: &'a [Tool],
    pub(crate) counters: &'a crate::display::Counters,
    pub(crate) budget: &'a Budget,
    pub(crate) surroundings: &'a crate::Surroundings,
    /// Who says yes to calls.
    pub(crate) gate: &'a Gate,
    /// What the tools remember.
    pub(crate) kit: &'a Kit,
}

impl State {
    pub(crate) fn new(sample: &Sample) -> Self {
        let messages = match &sample.input {
            Input::Text(text) => {
                let mut message = ChatMessage::user(text.clone());
                if let ChatMessage::User(said) = &mut message {
                    said.id = Some(unique());
                    said.source = Some("input".into());
                }
                vec![message]
            }
            Input::Messages(messages) => messages.clone(),
        };
        Self {
            messages,
            output: None,
            answer: None,
            chosen: None,
            spent: Spent::default(),
            tool_calls: 0,
            provider_tools: Vec::new(),
            before: Usage::default(),
            neared: Vec::new(),
            reported: (0, Duration::ZERO),
        }
    }

    /// What counts as the answer: what was submitted, or the model's last words.
    pub(crate) fn completion(&self) -> &str {
        let last = || self.output.as_ref().map_or("", |output| output.completion.as_str());
        self.answer.as_deref().unwrap_or_else(last)
    }

    fn tokens(&self) -> u64 {
        self.before.total_tokens.saturating_add(self.spent.agent.total_tokens)
    }

    /// Whether anything is left of the sample's limits.
    pub(crate) fn is_within(&self, limits: &Limits, journal: &Journal) -> bool {
        limits.tokens.is_none_or(|limit| self.tokens() < limit)
            && limits.cost.is_none_or(|limit| self.cost() < limit.amount())
            && limits.working.is_none_or(|limit| journal.worked() < Duration::from_millis(limit))
    }

    /// In dollars.
    fn cost(&self) -> f64 {
        self.before.total_cost.unwrap_or(0.0) + self.spent.agent.total_cost.unwrap_or(0.0)
    }

    /// Tells the run's budget what it does not know yet.
    pub(crate) fn report(&mut self, journal: &Journal, budget: &Budget) {
        let (messages, worked) = (self.messages.len(), journal.worked());
        let more = messages.saturating_sub(self.reported.0);
        let working = worked.saturating_sub(self.reported.1);
        self.reported = (messages.max(self.reported.0), worked.max(self.reported.1));
        budget.add(Used { messages: u64::try_from(more).unwrap_or(u64::MAX), working, ..Used::default() });
    }
}

/// Runs every solver of the task.
pub(crate) async fn solve(work: &Work<'_>, state: &mut State) -> Result<(), Stop> {
    tokio::select! {
        solved = solve_all(work, state) => solved,
        never = near::watch_time(work) => match never {},
    }
}

async fn solve_all(work: &Work<'_>, state: &mut State) -> Result<(), Stop> {
    for solver in &work.task.solvers {
        let name = name_of(solver);
        let _span = work.journal.span("solver", name);
        state.provider_tools = provider_tools::offered(work.plan, solver);
        match solver {
            Solver::Generate => {
                generate(work, state, &[]).await?;
            }
            Solver::SystemMessage(text) => {
                let at = state.messages.iter().take_while(|message| matches!(message, ChatMessage::System(_))).count();
                state.messages.insert(at, ChatMessage::system(template::fill(text, None, &work.sample.metadata)));
            }
            Solver::PromptTemplate(text) => template::rephrase(text, &work.sample.metadata, state),
            Solver::MultipleChoice => {
                choices::ask(work.sample, state)?;
                generate(work, state, &[]).await?;
                choices::read(work.sample, state);
            }
            Solver::Agent(agent) => agent::run(work, agent, state).await?,
            Solver::Iterative(own) => iterative::run(work, own, state).await?,
        }
    }
    Ok(())
}

/// A solver's name, as Inspect users know it.
pub(crate) fn name_of(solver: &Solver) -> &'static str {
    match solver {
        Solver::Generate => "generate",
        Solver::SystemMessage(_) => "system_message",
        Solver::PromptTemplate(_) => "prompt_template",
        Solver::MultipleChoice => "multiple_choice",
        Solver::Agent(_) => "agent",
        Solver::Iterative(_) => "iterative",
    }
}

/// Asks the model once, within the limits.
async fn generate(work: &Work<'_>, state: &mut State, tools: &[ToolInfo]) -> Result<ChatMessage, Stop> {
    ask(work, state, tools, None).await
}

/// Limits that are looked at between steps; those that come near are said.
fn check(work: &Work<'_>, state: &mut State) -> Result<(), Stop> {
    let (limits, journal) = (&work.limits, work.journal);
    state.report(journal, work.budget);
    #[expect(clippy::cast_precision_loss, reason = "a limit is shown, not calculated with")]
    let over = |kind: &'static str, used: u64, limit: Option<u64>| match limit {
        Some(limit) if used >= limit => Err(Stop::Limit {
            kind,
            limit: limit as f64,
            message: format!("the sample has used {used} of its {limit} {kind}s"),
        }),
        _ => Ok(()),
    };
    over("message", u64::try_from(state.messages.len()).unwrap_or(u64::MAX), limits.messages.map(u64::from))?;
    over("token", state.tokens(), limits.tokens)?;
    if let Some(limit) = limits.cost.filter(|limit| state.cost() >= limit.amount()) {
        let message = format!("the sample has cost ${:.6} of its {limit}", state.cost());
        return Err(Stop::Limit { kind: "cost", limit: limit.amount(), message });
    }
    if let Some(limit) = limits.working.map(Duration::from_millis).filter(|limit| journal.worked() >= *limit) {
        return Err(worked(limit));
    }
    // The sample's time has a clock of its own.
    let near: Vec<_> = near::of_sample(work, state).into_iter().filter(|near| near.limit != "time").collect();
    near::note(journal, state, &near);
    Ok(())
}

fn worked(limit: Duration) -> Stop {
    let seconds = limit.as_secs_f64();
    Stop::Limit { kind: "working", limit: seconds, message: format!("the sample has worked for {seconds} s") }
}

/// Returns when the sample has worked for too long, whatever it does then; never where nothing limits that.
///
/// How much of a question's time is work is known only when it is answered, so that no limit ends one.
pub(crate) async fn worked_out(journal: &Journal, limit: Option<u64>) -> Stop {
    let Some(limit) = limit.map(Duration::from_millis) else { return std::future::pending().await };
    loop {
        let left = limit.saturating_sub(journal.surely_worked());
        if left.is_zero() {
            return worked(limit);
        }
        tokio::time::sleep(left.max(LOOK)).await;
    }
}

/// The shortest time between two looks at how long a sample has worked.
const LOOK: Duration = Duration::from_millis(10);

/// An error, as logs have it.
pub(crate) fn error(message: &str) -> EvalError {
    EvalError::new(message)
}
