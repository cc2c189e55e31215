//! One sample's life: setup, agent, score; and what is written of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::SampleName;
use log::event::{Score, What};
use profile::{Phase, Plan};
use sandbox::{Exec, Outcome, Overflow, Sandbox, Snapshot, System, User};
use serde_json::{Map, Value, json};

use crate::display::Counters;
use crate::journal::{Journal, now, profile_data, unique};
use crate::model;
use crate::place::{Place, Places};
use crate::run::{EvalFailure, Surroundings};
use crate::score::{self, Judged};
use crate::solve::{self, State, Stop, Work};
use crate::task::{FileContent, Input, Sample, SampleId, Scorer, Task};
use crate::tools::Tool;

/// How long a setup script may take.
const SETUP: Duration = Duration::from_mins(5);
/// The most that is kept of what a setup script says.
const SAID: usize = 64 << 10;

/// What all samples of an evaluation share.
pub(crate) struct Shared {
    pub(crate) task: Task,
    pub(crate) plan: Arc<Plan>,
    pub(crate) plan_hash: String,
    pub(crate) model: String,
    pub(crate) places: Option<Places>,
    pub(crate) recorder: log::Recorder,
    pub(crate) audit: crate::audit::Audit,
    pub(crate) redactor: Arc<log::Redactor>,
    pub(crate) surroundings: Surroundings,
    pub(crate) granted: Vec<Tool>,
    pub(crate) scorers: Vec<String>,
    pub(crate) counters: Counters,
}

/// How a sample ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) judged: Judged,
    pub(crate) error: Option<String>,
    pub(crate) usage: BTreeMap<String, log::message::Usage>,
}

impl From<&SampleId> for SampleName {
    fn from(id: &SampleId) -> Self {
        match id {
            SampleId::Number(number) => Self::Number(*number),
            SampleId::Text(text) => Self::Text(text.clone()),
        }
    }
}

/// Runs one sample and writes it down. An error is one of the log: everything else is the sample's own.
pub(crate) async fn run(shared: &Shared, sample: &Sample, epoch: u32) -> Result<Ended, EvalFailure> {
    let started = now();
    let journal = Journal::new(
        shared.recorder.sample(SampleName::from(&sample.id), epoch)?,
        shared.audit.of(sample, epoch),
        Arc::clone(&shared.redactor),
    );
    let mut state = State::new(sample);
    {
        let _span = journal.span("init", "init");
        journal.info(profile_data(&shared.plan.profile.to_string(), &shared.plan_hash));
        journal.event(What::SampleInit { sample: described(sample), state: json!({"messages": state.messages}) });
    }
    let (stop, scores) = live(shared, sample, epoch, &mut state, &journal).await;
    let mut fields = fields(sample, &state, &scores);
    let mut error = None;
    match stop {
        Some(Stop::Limit { kind, limit, .. }) => {
            fields.insert("limit".into(), json!({"type": kind, "limit": limit}));
        }
        Some(Stop::Failed(why)) => {
            fields.insert("error".into(), json!(solve::error(&why)));
            error = Some(why);
        }
        None => {}
    }
    fields.insert("uuid".into(), Value::from(unique()));
    fields.insert("started_at".into(), Value::from(started));
    fields.insert("completed_at".into(), Value::from(now()));
    fields.insert("total_time".into(), json!(journal.elapsed().as_secs_f64()));
    fields.insert("working_time".into(), json!(journal.worked().as_secs_f64()));
    journal.check()?;
    if let Some(mut recorder) = journal.close() {
        // One after the other: a long conversation should not be held twice.
        for message in std::mem::take(&mut state.messages) {
            recorder.message(&journal.without_secrets(json!(message)))?;
        }
        recorder.complete(log::SampleEnd { fields: journal.redact(fields) })?;
    }
    Ok(Ended { judged: Judged { sample: sample.id.clone(), scores }, error, usage: state.usage })
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
    fields.insert("output".into(), state.output.as_ref().map_or_else(none, |output| json!(output)));
    fields.insert("scores".into(), json!(scores));
    fields.insert("metadata".into(), Value::Object(sample.metadata.clone()));
    fields.insert("store".into(), json!({}));
    fields.insert("model_usage".into(), json!(state.usage));
    fields
}

/// Whether a sample needs a place to work in.
pub(crate) fn needs_place(task: &Task, granted: &[Tool], sample: &Sample) -> bool {
    let works = task.solvers.iter().any(|solver| match solver {
        crate::task::Solver::Agent(agent) => granted.iter().any(|tool| {
            tool.needs_sandbox()
                && agent.tools.as_ref().is_none_or(|names| names.iter().any(|name| name == tool.name()))
        }),
        _ => false,
    });
    let scripted = task.scorers.iter().any(|scorer| matches!(scorer, Scorer::Script { .. }));
    works || scripted || !sample.files.is_empty() || sample.setup.is_some()
}

/// Everything between the first and the last event.
async fn live(
    shared: &Shared,
    sample: &Sample,
    epoch: u32,
    state: &mut State,
    journal: &Journal,
) -> (Option<Stop>, BTreeMap<String, Score>) {
    let name = format!("{}-{epoch}", sample.id);
    let deadline = Instant::now() + Duration::from_millis(shared.plan.limits.time.amount.0);
    let places = shared.places.as_ref().filter(|_| needs_place(&shared.task, &shared.granted, sample));
    let (mut place, mut prepared) = (None, None);
    let mut stop = match places {
        Some(places) => match set_up(places, sample, &name, journal).await {
            Ok((ready, snapshot)) => {
                place = Some(ready);
                prepared = snapshot;
                None
            }
            Err(why) => Some(Stop::Failed(why)),
        },
        None => None,
    };
    if stop.is_none() {
        stop = solve_in(shared, sample, state, journal, place.as_mut(), deadline).await.err();
    }
    match &stop {
        Some(Stop::Limit { kind, limit, message }) => {
            journal.event(What::SampleLimit { kind: (*kind).into(), message: message.clone(), limit: Some(*limit) });
        }
        Some(Stop::Failed(why)) => journal.event(What::Error { error: solve::error(why) }),
        None => {}
    }
    // Whatever the agent left running ends here; the scorer finds its files only.
    let mut scores = BTreeMap::new();
    let failed = matches!(stop, Some(Stop::Failed(_)));
    // Programs and settings are those from before the agent: it cannot judge itself.
    let system = prepared.map_or(System::OfImage, System::Of);
    match score_all(shared, sample, &name, state, journal, (place, system), failed).await {
        Ok(found) => scores = found,
        Err(why) => {
            journal.event(What::Error { error: solve::error(&why) });
            stop = Some(Stop::Failed(why));
        }
    }
    (stop, scores)
}

/// Asks the model, until the answer, the end of the time, or the loss of the network.
async fn solve_in(
    shared: &Shared,
    sample: &Sample,
    state: &mut State,
    journal: &Journal,
    place: Option<&mut Place>,
    deadline: Instant,
) -> Result<(), Stop> {
    let _span = journal.span("solvers", "solvers");
    let model = model::open(&shared.model, &shared.task, sample)?;
    let (sandbox, mut served) = match place {
        Some(place) => {
            let (sandbox, served) = place.parts();
            (Some(sandbox), served)
        }
        None => (None, None),
    };
    let work = Work {
        task: &shared.task,
        sample,
        plan: &shared.plan,
        model: model.as_ref(),
        sandbox,
        journal,
        granted: &shared.granted,
        counters: &shared.counters,
        surroundings: &shared.surroundings,
    };
    let limit = Duration::from_millis(shared.plan.limits.time.amount.0).as_secs_f64();
    tokio::select! {
        solved = tokio::time::timeout_at(deadline.into(), solve::solve(&work, state)) => solved.unwrap_or_else(|_| {
            Err(Stop::Limit { kind: "time", limit, message: format!("the sample's {limit} s were up") })
        }),
        why = Place::lost(&mut served) => Err(Stop::Failed(format!("capture_lost: {why}"))),
    }
}

/// The setup phase: files, then the script; what the script started is gone when the agent begins.
async fn set_up(
    places: &Places,
    sample: &Sample,
    name: &str,
    journal: &Journal,
) -> Result<(Place, Option<Snapshot>), String> {
    let _span = journal.span("setup", "setup");
    let text = |error: crate::place::PlaceError| chain(&error);
    let place = places.enter(Phase::Setup, name, None, System::AsLeft, journal).await.map_err(text)?;
    for (path, content) in &sample.files {
        let bytes = match content {
            FileContent::Text(text) => text.clone().into_bytes(),
            FileContent::Host(file) => std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?,
        };
        place.sandbox.write_file(path, &bytes, 0o644).await.map_err(|error| format!("{path}: {error}"))?;
        journal.event(What::Sandbox {
            action: "write_file".into(),
            cmd: None,
            options: None,
            file: Some(path.clone()),
            input: Some(format!("({} bytes)", bytes.len())),
            result: None,
            output: None,
            completed: Some(now()),
        });
    }
    let Some(script) = &sample.setup else {
        places.advance(&place, Phase::Agent).await.map_err(text)?;
        return Ok((place, None));
    };
    if let Err(why) = run_setup(&place.sandbox, script, journal).await {
        let _ = places.leave(place, journal).await;
        return Err(why);
    }
    if !places.has_snapshots() {
        journal.info(json!({"kind": "phase", "note": "a local process has no phases: what setup started lives on"}));
        return Ok((place, None));
    }
    let prepared = places.freeze(place, journal).await.map_err(text)?;
    let place = places.enter(Phase::Agent, name, Some(&prepared), System::AsLeft, journal).await.map_err(text)?;
    Ok((place, Some(prepared)))
}

async fn run_setup(sandbox: &Sandbox, script: &str, journal: &Journal) -> Result<(), String> {
    let exec = Exec {
        argv: ["/bin/sh", "-euc", script].map(str::to_owned).to_vec(),
        env: vec![("LANG".into(), "C.UTF-8".into())],
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: Some(u64::try_from(SETUP.as_millis()).unwrap_or(u64::MAX)),
        max_output: None,
    };
    let completed = sandbox.exec(exec, b"", SAID, Overflow::KeepTail).await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&[completed.stderr, completed.stdout].concat()).into_owned();
    let code = match completed.outcome {
        Outcome::Exited(code) => i64::from(code),
        _ => -1,
    };
    journal.event(What::Sandbox {
        action: "exec".into(),
        cmd: Some("setup".into()),
        options: None,
        file: None,
        input: None,
        result: Some(code),
        output: Some(said.clone()),
        completed: Some(now()),
    });
    if code == 0 { Ok(()) } else { Err(format!("the setup script failed ({:?}): {said}", completed.outcome)) }
}

/// The score phase. A sample that failed is not judged; its place is left all the same.
async fn score_all(
    shared: &Shared,
    sample: &Sample,
    name: &str,
    state: &State,
    journal: &Journal,
    (place, system): (Option<Place>, System),
    failed: bool,
) -> Result<BTreeMap<String, Score>, String> {
    let text = |error: crate::place::PlaceError| chain(&error);
    let scripted = shared.task.scorers.iter().any(|scorer| matches!(scorer, Scorer::Script { .. }));
    let mut scene: Option<Snapshot> = None;
    if let (Some(places), Some(place)) = (&shared.places, place) {
        if scripted && !failed && places.has_snapshots() {
            scene = Some(places.freeze(place, journal).await.map_err(text)?);
        } else {
            places.leave(place, journal).await.map_err(text)?;
        }
    }
    let mut scores = BTreeMap::new();
    if failed {
        return Ok(scores);
    }
    let _span = journal.span("scorers", "scorers");
    for (scorer, scorer_name) in shared.task.scorers.iter().zip(&shared.scorers) {
        let _span = journal.span("scorer", scorer_name);
        let score = match (scorer, score::by_words(scorer, sample, state), &shared.places) {
            (_, Some(score), _) => score,
            (Scorer::Script { script, timeout }, None, Some(places)) => {
                let system = system.clone();
                let place = places.enter(Phase::Score, name, scene.as_ref(), system, journal).await.map_err(text)?;
                let timeout = Duration::from_millis(*timeout);
                let judged = score::by_script(&place.sandbox, script, timeout, sample, state).await;
                places.leave(place, journal).await.map_err(text)?;
                judged?
            }
            _ => return Err("a scoring script needs a sandbox".into()),
        };
        journal.event(What::Score { score: score.clone(), target: Some(sample.target.clone()), intermediate: false });
        scores.insert(scorer_name.clone(), score);
    }
    Ok(scores)
}

/// An error with everything behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
