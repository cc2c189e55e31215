//! One sample's life: setup, agent, score (see `phases.rs`); and what is written of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::SampleName;
use log::event::{EvalError, Score, What};
use log::message::Usage;
use profile::Plan;
use sandbox::{Snapshot, System};
use serde_json::{Map, Value, json};

use crate::approval::{Context, Gate};
use crate::budget::Budget;
use crate::display::Counters;
use crate::journal::{Journal, now, profile_data, unique};
use crate::model::Models;
use crate::phases::{blocked, judging_time, score_all, set_up};
use crate::place::{Place, Places, Watched};
use crate::provider_tools;
use crate::run::{EvalFailure, Surroundings};
use crate::score::Judged;
use crate::solve::{self, Speaker, Spent, State, Stop, Work};
use crate::task::{Input, Limits, Sample, SampleId, Scorer, Task, of_service};
use crate::tools::{Files, Kit, Looks, Search, Tool};

/// What all samples of an evaluation share.
pub(crate) struct Shared {
    pub(crate) task: Task,
    pub(crate) plan: Arc<Plan>,
    pub(crate) plan_hash: String,
    pub(crate) models: Models,
    pub(crate) budget: Budget,
    pub(crate) places: Option<Places>,
    pub(crate) recorder: log::Recorder,
    pub(crate) audit: crate::audit::Audit,
    pub(crate) redactor: Arc<log::Redactor>,
    pub(crate) approvals: Arc<Context>,
    pub(crate) surroundings: Surroundings,
    pub(crate) granted: Vec<Tool>,
    pub(crate) scorers: Vec<String>,
    pub(crate) counters: Counters,
    /// What was found out about the sandboxes' files.
    pub(crate) looks: Arc<Looks>,
    pub(crate) search: Search,
    /// How often a sample that fails is tried again.
    pub(crate) retry_on_error: u32,
}

/// How a sample ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) judged: Judged,
    pub(crate) epoch: u32,
    pub(crate) error: Option<String>,
    pub(crate) spent: Spent,
    /// What attempts before the last one used.
    pub(crate) retried: Vec<Spent>,
}

impl From<&SampleId> for SampleName {
    fn from(id: &SampleId) -> Self {
        match id {
            SampleId::Number(number) => Self::Number(*number),
            SampleId::Text(text) => Self::Text(text.clone()),
        }
    }
}

/// Runs one sample and writes it down, again if it fails and may be tried again. An error is one of the log: everything else
/// is the sample's own.
pub(crate) async fn run(shared: &Shared, sample: &Sample, epoch: u32) -> Result<Ended, EvalFailure> {
    let mut retried = Vec::new();
    let mut before = Before::new(shared);
    loop {
        match attempt(shared, sample, epoch, &before).await? {
            Attempt::Ended(ended) => return Ok(Ended { retried, ..ended }),
            Attempt::Again(error, spent, worked) => {
                before.errors.push(error);
                before.used.add(spent.agent());
                before.worked += worked;
                retried.push(spent);
            }
        }
    }
}

enum Attempt {
    Ended(Ended),
    /// It failed, and nothing of it is in the log but this: why, what it used, and how long it worked.
    Again(EvalError, Spent, Duration),
}

/// Earlier attempts at a sample. Its limits hold for all of them together.
struct Before {
    errors: Vec<EvalError>,
    used: Usage,
    worked: Duration,
    deadline: Instant,
}

impl Before {
    fn new(shared: &Shared) -> Self {
        let deadline = Instant::now() + Duration::from_millis(shared.plan.limits.time.amount.0);
        Self { errors: Vec::new(), used: Usage::default(), worked: Duration::ZERO, deadline }
    }

    /// What is left of a sample's limits.
    fn left_of(&self, limits: Limits) -> Limits {
        let worked = u64::try_from(self.worked.as_millis()).unwrap_or(u64::MAX);
        Limits { working: limits.working.map(|limit| limit.saturating_sub(worked)), ..limits }
    }
}

async fn attempt(shared: &Shared, sample: &Sample, epoch: u32, before: &Before) -> Result<Attempt, EvalFailure> {
    let errors = &before.errors;
    let limits = before.left_of(sample.own.limits.or(shared.task.limits));
    let started = now();
    let journal = Journal::new(
        shared.recorder.sample(SampleName::from(&sample.id), epoch)?,
        shared.audit.of(sample, epoch),
        Arc::clone(&shared.redactor),
    );
    let mut state = State::new(sample);
    state.before = before.used;
    {
        let _span = journal.span("init", "init");
        journal.info(profile_data(&shared.plan.profile.to_string(), &shared.plan_hash));
        journal.info(affordances(&shared.plan));
        journal.event(What::SampleInit { sample: described(sample), state: json!({"messages": state.messages}) });
    }
    let (stop, scores) = live(shared, (sample, epoch), limits, before.deadline, &mut state, &journal).await;
    let again = errors.len() < shared.retry_on_error as usize
        && shared.budget.over().is_none()
        && Instant::now() < before.deadline
        && state.is_within(&limits, &journal);
    if let Some(Stop::Failed(why)) = stop.as_ref().filter(|_| again) {
        state.report(&journal, &shared.budget);
        journal.check()?;
        drop(journal.close());
        let why = shared.redactor.text(why).into_owned();
        shared.audit.of(sample, epoch).record("retry", json!({"attempt": errors.len() + 1, "error": why}))?;
        return Ok(Attempt::Again(solve::error(&why), state.spent, journal.worked()));
    }
    let mut fields = fields(sample, &state, &scores);
    if !errors.is_empty() {
        fields.insert("error_retries".into(), json!(errors));
    }
    let mut error = None;
    match stop {
        Some(Stop::Limit { kind, limit, .. }) => {
            fields.insert("limit".into(), json!({"type": kind, "limit": limit}));
        }
        // It had less than others: it is as if it had failed, and is not scored.
        Some(Stop::Run(over)) => {
            fields.insert("limit".into(), json!({"type": over.kind, "limit": over.limit}));
            fields.insert("error".into(), json!(solve::error(&over.message)));
            error = Some(over.message);
        }
        Some(Stop::Failed(why)) => {
            fields.insert("error".into(), json!(solve::error(&why)));
            error = Some(why);
        }
        Some(Stop::Blocked(_)) | None => {}
    }
    state.report(&journal, &shared.budget);
    fields.insert("uuid".into(), Value::from(unique()));
    fields.insert("started_at".into(), Value::from(started));
    fields.insert("completed_at".into(), Value::from(now()));
    fields.insert("total_time".into(), json!(journal.elapsed().as_secs_f64()));
    fields.insert("working_time".into(), json!(journal.worked().as_secs_f64()));
    journal.check()?;
    if let Some(mut recorder) = journal.close() {
        // One after the other: a long conversation should not be held twice.
        for message in std::mem::take(&mut state.messages) {
            recorder.message(&journal.message(&message));
        }
        let sha256 = recorder.complete(log::SampleEnd { fields: journal.redact(fields) })?;
        shared.audit.of(sample, epoch).finished(&sha256)?;
    }
    let judged = Judged::new(sample.id.clone(), epoch, &scores, &sample.metadata, &shared.task.metrics);
    Ok(Attempt::Ended(Ended { judged, epoch, error, spent: state.spent, retried: Vec::new() }))
}

/// What the agent may use and why, and what not: told before it is asked anything.
fn affordances(plan: &Plan) -> Value {
    let granted = plan.affordances.iter().map(|affordance| {
        let mut told = json!(affordance);
        told["reason"] = json!(match affordance.kind {
            profile::Kind::Tool =>
                format!("{} grants what needs {} and reaches {}", plan.profile, affordance.needs, affordance.reach),
            profile::Kind::Mount | profile::Kind::Environment => "the task states it".to_owned(),
        });
        told
    });
    let withheld = plan.withheld.iter().map(|one| json!({"name": one.name, "reason": one.reason.to_string()}));
    json!({
        "kind": "affordances", "granted": granted.collect::<Vec<_>>(), "withheld": withheld.collect::<Vec<_>>(),
    })
}

/// The sample as its data set has it.
fn described(sample: &Sample) -> Value {
    json!({
        "input": input(sample), "choices": choices(sample), "target": target(sample), "id": sample.id.to_json(),
        "metadata": sample.metadata, "files": sample.files.keys().collect::<Vec<_>>().into_iter().map(|path| (path.clone(), Value::from(""))).collect::<Map<_, _>>(),
        "setup": sample.setup,
    })
}

fn input(sample: &Sample) -> Value {
    match &sample.input {
        Input::Text(text) => Value::from(text.as_str()),
        Input::Messages(messages) => json!(messages),
    }
}

fn target(sample: &Sample) -> Value {
    match sample.target.as_slice() {
        [one] => Value::from(one.as_str()),
        many => json!(many),
    }
}

fn choices(sample: &Sample) -> Value {
    if sample.choices.is_empty() { Value::Null } else { json!(sample.choices) }
}

/// What a sample has come to, but for its messages.
fn fields(sample: &Sample, state: &State, scores: &BTreeMap<String, Score>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("input".into(), input(sample));
    fields.insert("choices".into(), choices(sample));
    fields.insert("target".into(), target(sample));
    fields.insert("files".into(), json!(sample.files.keys().collect::<Vec<_>>()));
    fields.insert("setup".into(), json!(sample.setup));
    let none = || json!({"model": "", "choices": [], "completion": ""});
    let mut output = state.output.as_ref().map_or_else(none, |output| json!(output));
    // What counts as the answer, as Inspect's agents leave it: whoever judges the log again finds it.
    output["completion"] = Value::from(state.completion());
    fields.insert("output".into(), output);
    fields.insert("scores".into(), json!(scores));
    fields.insert("metadata".into(), Value::Object(sample.metadata.clone()));
    fields.insert("store".into(), json!({}));
    fields.insert("model_usage".into(), json!(state.spent.by_model));
    fields.insert("role_usage".into(), json!(state.spent.by_role));
    fields
}

/// Whether a sample needs a place to work in.
pub(crate) fn needs_place(task: &Task, plan: &Plan, granted: &[Tool], sample: &Sample) -> bool {
    let mut needing = granted.iter().filter(|tool| tool.needs_sandbox(plan.file_tools.mode));
    let works = needing.any(|tool| task.solvers.iter().any(|solver| solver.offers(tool.name())));
    works || scripted(task) || !sample.files.is_empty() || sample.setup.is_some()
}

/// Whether a scorer is a script, which runs in a sandbox.
pub(crate) fn scripted(task: &Task) -> bool {
    task.scorers.iter().any(|scorer| matches!(scorer, Scorer::Script { .. }))
}

/// Everything between the first and the last event.
async fn live(
    shared: &Shared,
    (sample, epoch): (&Sample, u32),
    limits: Limits,
    deadline: Instant,
    state: &mut State,
    journal: &Journal,
) -> (Option<Stop>, BTreeMap<String, Score>) {
    let name = format!("{}-{epoch}", sample.id);
    let places = shared.places.as_ref().filter(|_| needs_place(&shared.task, &shared.plan, &shared.granted, sample));
    let (mut place, mut prepared) = (None, None);
    let mut stop = match places {
        Some(places) => match prepare(shared, places, sample, &name, journal, deadline).await {
            Ok((ready, snapshot)) => {
                place = Some(ready);
                prepared = snapshot;
                None
            }
            Err(stop) => Some(stop),
        },
        None => None,
    };
    if stop.is_none() {
        let (keeper, plan) = (Arc::clone(&shared.approvals), Arc::clone(&shared.plan));
        let gate = Arc::new(Gate::new(keeper, plan, sample.id.to_json(), epoch, journal.clone()));
        if let (Some(places), Some(place)) = (places, &place) {
            places.ask(place, Some(Arc::clone(&gate)));
        }
        // Other samples' sandboxes, which it waited for, take none of its time.
        let deadline = deadline + journal.queue().waited();
        stop = solve_in(shared, (sample, epoch, &gate), limits, state, journal, place.as_mut(), deadline).await.err();
        if let (Some(places), Some(place)) = (places, &place) {
            places.ask(place, None);
        }
        let of_provider = provider_tools::granted(&shared.plan);
        if !of_provider.is_empty() {
            journal.info(provider_tools::totals(&of_provider, &state.spent.provider_calls));
        }
    }
    if let Some(stop) = &stop {
        tell(journal, stop);
    }
    // Whatever the agent left running ends here; the scorer finds its files only.
    let mut scores = BTreeMap::new();
    let failed = matches!(stop, Some(Stop::Failed(_) | Stop::Run(_) | Stop::Blocked(_)));
    // Programs, settings and the root directory are those from before the agent: it cannot judge itself.
    let system = System::Before { snapshot: prepared, declared: declared(shared, sample) };
    let judging = Box::pin(score_all(shared, (sample, epoch), &name, state, journal, (place, system), failed));
    // What has failed is only tidied up.
    let time = judging_time(shared);
    let judged = tokio::select! {
        biased;
        // Waiting for other samples' sandboxes to end is not judging.
        judged = journal.queue().within(time, judging) => judged.unwrap_or_else(|| {
            Err(Stop::Failed(format!("judging the sample took longer than its {} s", time.as_secs_f64())))
        }),
        over = shared.budget.ended(), if !failed => Err(Stop::Run(over)),
    };
    match judged {
        Ok(found) => scores = found,
        Err(why) => {
            tell(journal, &why);
            stop = Some(why);
        }
    }
    if let Some(Stop::Blocked(why)) = &stop {
        scores = blocked(shared, sample, state, journal, why);
    }
    (stop, scores)
}

/// Directories in `/` that the task itself names: those of the sample's files, of the file tools, and where the agent works. The
/// scorer sees them as the agent left them, whether or not they were there before.
fn declared(shared: &Shared, sample: &Sample) -> Vec<String> {
    let files = sample.files.keys().map(|path| of_service(path).1).filter(|path| !sandbox::is_kept_from_before(path));
    let directories =
        std::iter::once(shared.plan.file_tools.root.as_str()).chain(shared.surroundings.directory.as_deref());
    let first = |path: &str| path.split('/').find(|part| !part.is_empty()).map(str::to_owned);
    files.chain(directories).filter_map(first).collect()
}

/// The setup phase, within the sample's time and the run's limits.
async fn prepare(
    shared: &Shared,
    places: &Places,
    sample: &Sample,
    name: &str,
    journal: &Journal,
    deadline: Instant,
) -> Result<(Place, Option<Snapshot>), Stop> {
    let left = deadline.saturating_duration_since(Instant::now());
    let setting_up = set_up(places, sample, name, scripted(&shared.task), journal);
    tokio::select! {
        biased;
        ready = journal.queue().within(left, setting_up) => ready.unwrap_or_else(|| {
            Err(Stop::Failed("the sample's time was up before it was set up".into()))
        }),
        over = shared.budget.ended() => Err(Stop::Run(over)),
    }
}

/// Writes down why a sample ended.
fn tell(journal: &Journal, stop: &Stop) {
    journal.event(match stop {
        Stop::Limit { kind, limit, message } => {
            What::SampleLimit { kind: (*kind).into(), message: message.clone(), limit: Some(*limit) }
        }
        Stop::Run(over) => {
            What::SampleLimit { kind: over.kind.into(), message: over.message.clone(), limit: Some(over.limit) }
        }
        Stop::Blocked(why) => {
            return journal.info(json!({"kind": "sandbox", "action": "blocked", "reason": why}));
        }
        Stop::Failed(why) => What::Error { error: solve::error(why) },
    });
}

/// Asks the model, until the answer, the end of the time, or the loss of the network.
async fn solve_in(
    shared: &Shared,
    (sample, epoch, gate): (&Sample, u32, &Gate),
    limits: Limits,
    state: &mut State,
    journal: &Journal,
    place: Option<&mut Place>,
    deadline: Instant,
) -> Result<(), Stop> {
    let _span = journal.span("solvers", "solvers");
    let (sandbox, mut networks) = match place {
        Some(place) => {
            let (sandbox, networks) = place.parts();
            (Some(sandbox), networks)
        }
        None => (None, Watched::nothing()),
    };
    let mut kit = Kit { files: Files::sharing(&shared.looks), search: shared.search.clone(), ..Kit::default() };
    if let (Some(sandbox), true) = (sandbox, shared.granted.iter().any(|tool| tool.is_of_files())) {
        let timeout = Duration::from_millis(shared.plan.limits.tool_timeout.amount.0);
        kit.files.look(&shared.plan.file_tools, sandbox, shared.surroundings.user.as_deref(), timeout).await;
    }
    let (chosen, mut config) = shared.models.agent_of(sample);
    if !shared.plan.parallel_calls {
        config.parallel_tool_calls = Some(false);
    }
    let work = Work {
        task: &shared.task,
        sample,
        plan: &shared.plan,
        speaker: Speaker {
            voice: chosen.open(&shared.task, sample, None),
            role: None,
            config,
            scope: format!("epoch {epoch}"),
            journal,
            counters: &shared.counters,
            budget: &shared.budget,
            must_count: limits.need_usage() || shared.budget.needs_usage(),
        },
        limits,
        sandbox,
        journal,
        granted: &shared.granted,
        counters: &shared.counters,
        budget: &shared.budget,
        surroundings: &shared.surroundings,
        gate,
        kit: &kit,
    };
    let limit = Duration::from_millis(shared.plan.limits.time.amount.0).as_secs_f64();
    tokio::select! {
        // Who has an answer has it, whatever ends at the same moment.
        biased;
        solved = tokio::time::timeout_at(deadline.into(), solve::solve(&work, state)) => solved.unwrap_or_else(|_| {
            Err(Stop::Limit { kind: "time", limit, message: format!("the sample's {limit} s were up") })
        }),
        over = shared.budget.ended() => Err(Stop::Run(over)),
        stop = solve::worked_out(journal, limits.working) => Err(stop),
        gone = networks.lost() => Err(gone.stop(&shared.plan)),
    }
}
