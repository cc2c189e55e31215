//! All samples of an evaluation: as many at the same time as may be, and a log that opens whatever happens.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use log::message::Usage;
use log::{End, Format, Recorder, Start, Status};
use profile::{Affordance, Plan};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::approval::{Context, Key, Person, Policy};
use crate::audit::{Audit, Checkpoint};
use crate::budget::Budget;
use crate::display::{Counters, Display, Progress};
use crate::earlier::{Earlier, EarlierError, Found, Kept};
use crate::fail_on::FailOn;
use crate::invocation::Invocation;
use crate::journal::{now, unique};
use crate::model::Models;
use crate::place::{Making, PlaceError, Places};
use crate::sample::{self, Ended, Shared};
use crate::score::{self, Judged};
use crate::solve::Spent;
use crate::task::Task;
use crate::tools::{Keys, Search, Tool};
use crate::{header, score::worth};

/// How an evaluation runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Samples at the same time.
    pub max_samples: usize,
    /// Sandboxes at the same time.
    pub max_sandboxes: usize,
    /// When failed samples fail it.
    pub fail_on: FailOn,
    /// How often a sample that fails is tried again.
    pub retry_on_error: u32,
    /// Where the log goes.
    pub log_directory: PathBuf,
    /// Its format.
    pub format: Format,
    /// Whom the gateway asks for names, instead of this host's resolver.
    pub dns_upstream: Option<std::net::SocketAddr>,
}

/// What commands inside find set.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// The environment: what the image says and what the document grants.
    pub environment: Vec<(String, String)>,
    /// Where commands start; absent means the user's home.
    pub directory: Option<String>,
    /// Who runs them; absent means root inside.
    pub user: Option<String>,
}

/// An evaluation that can start: everything was checked.
pub struct Job {
    /// The task.
    pub task: Task,
    /// What was asked for, before the command line.
    pub requested: String,
    /// What is enforced.
    pub plan: Plan,
    /// A sandbox of the plan, where containers are wanted.
    pub kind: Option<Arc<dyn sandbox::Kind>>,
    /// The services of a sample, where it has several; `kind` is the default one's.
    pub services: Option<stack::Blueprint>,
    /// Who answers.
    pub models: Models,
    /// What the agent's commands find set.
    pub surroundings: Surroundings,
    /// How it runs.
    pub settings: Settings,
    /// What must not be written: values of the environment that the task grants.
    pub redactor: log::Redactor,
    /// Who is asked about calls.
    pub policy: Policy,
    /// Somebody who can be asked; absent means that nobody is there.
    pub person: Option<Arc<dyn Person>>,
    /// The key under which arguments are told apart in the audit chain; absent means one that nobody learns.
    pub audit_key: Option<SecretString>,
    /// The keys of the search provider that the plan names.
    pub keys: Keys,
    /// What was found out about this host, for the log.
    pub facts: Value,
    /// What probes showed of the plan, for the log; null where nobody tried.
    pub verified: Value,
    /// Whether the log is to have a receipt, for the log.
    pub receipt: log::Expectation,
    /// Signs the chain's head after each finished sample; absent means that nothing is signed.
    pub checkpoint: Option<Arc<dyn Checkpoint>>,
    /// The version of the task's files, for the log.
    pub revision: Option<Value>,
    /// How it was asked for, so that it can be run again.
    pub invocation: Invocation,
    /// An earlier log of the same, whose finished samples are kept.
    pub earlier: Option<Earlier>,
    /// The set that it is a part of: the set's id, and which part.
    pub set: Option<(String, String)>,
}

impl Job {
    /// Which part of a set it is: the same for the same task file, parameters and models, whatever else changes.
    pub fn key(&self) -> String {
        let Invocation { task_path, parameters, model_roles, .. } = &self.invocation;
        let (name, model) = (&self.task.name, self.models.agent().name());
        // Maps of text are sorted by their keys, so there is one form.
        let key = json!([name, task_path, parameters, model, model_roles]);
        crate::task::sha256(key.to_string().as_bytes())
    }
}

/// A name that nobody else has, such as a set's.
pub fn unique_name() -> String {
    unique()
}

/// How an evaluation ended.
#[derive(Debug)]
pub struct Evaluation {
    /// Its log.
    pub log: PathBuf,
    /// `success`, `cancelled` or `error`.
    pub status: Status,
    /// Inspect's `results`.
    pub results: Value,
    /// Samples that were finished, and that failed.
    pub progress: Progress,
    /// Why it failed.
    pub error: Option<String>,
}

/// Why there is no evaluation.
#[derive(Debug, Error)]
pub enum EvalFailure {
    /// The log cannot be written.
    #[error("cannot write the log")]
    Log(#[from] log::LogError),
    /// The audit chain cannot be written.
    #[error("cannot write the audit chain")]
    Audit(#[from] log::audit::AuditError),
    /// The earlier log cannot be gone on from.
    #[error("cannot go on from the earlier log")]
    Earlier(#[from] EarlierError),
    /// There is no place to work in.
    #[error("there is no sandbox to work in")]
    Place(#[from] PlaceError),
}

/// Tools of the plan that this version can call.
pub(crate) fn granted(affordances: &[Affordance]) -> Vec<Tool> {
    affordances.iter().filter_map(|affordance| Tool::named(&affordance.name)).collect()
}

/// Runs an evaluation to its end. Cancelling ends what is under way; the log is complete up to there.
pub async fn evaluate(
    job: Job,
    display: Arc<dyn Display>,
    cancel: CancellationToken,
) -> Result<Evaluation, EvalFailure> {
    let (created, eval_id) = (now(), unique());
    // Nothing is written before it is without secrets: metadata and parameters are words of others.
    let without_secrets = |mut value: Value| {
        job.redactor.value(&mut value);
        value
    };
    let none = Found { kept: Vec::new(), dropped: Vec::new() };
    let found = job.earlier.as_ref().map_or(Ok(none), |earlier| earlier.kept(&job.task))?;
    let told = job.earlier.as_ref().map(|earlier| earlier.told(&found));
    let start = Start {
        spec: without_secrets(header::spec(&job, &created, &eval_id, told.as_ref())),
        plan: without_secrets(header::plan(&job)),
        task: job.task.name.clone(),
        eval_id: eval_id.clone(),
        created: created.clone(),
    };
    let (directory, format) = (&job.settings.log_directory, job.settings.format);
    // The chain first: wherever we are killed, a log has its chain.
    let place = Recorder::place(directory, format, &start)?;
    let chain = log::audit::Audit::beside(&place);
    let audit = Audit::new(log::audit::Audit::create(&chain)?).signed_by(job.checkpoint.clone(), place, &eval_id);
    audit.record(
        "start",
        json!({
            "eval_id": eval_id, "plan": job.plan.hash(), "profile": job.plan.profile.to_string(),
            "approval": job.policy.to_json(), "key": if job.audit_key.is_some() { "given" } else { "random" },
            "header": crate::earlier::header_digests(&start.spec),
        }),
    )?;
    if let Some(told) = told {
        record_found(&audit, &job.task, told, &found)?;
    }
    let kept = found.kept;
    for affordance in &job.plan.affordances {
        audit.record("affordance", json!(affordance))?;
    }
    let (glances, kept): (Vec<_>, Vec<_>) =
        kept.into_iter().map(|kept| (kept.glance, (kept.index, kept.judged, kept.spent))).unzip();
    let copied = job.earlier.as_ref().map(|earlier| (earlier.reader(), glances.as_slice()));
    let recorder = Recorder::create_with(directory, format, start, copied).inspect_err(|_| {
        // A chain of nothing is nothing.
        let _ = std::fs::remove_file(&chain);
    })?;
    audit.checkpoint()?;
    let kept: Vec<Before> = std::iter::zip(glances, kept)
        .map(|(glance, (index, judged, spent))| Before { index, epoch: glance.epoch, judged, spent })
        .collect();
    let granted = granted(&job.plan.affordances);
    let total = job.task.dataset.samples.len() * job.task.epochs.count as usize;
    let plan = Arc::new(job.plan);
    let search = Search::new(plan.search.clone(), job.keys);
    let needs_places = job.task.dataset.samples.iter().any(|one| sample::needs_place(&job.task, &plan, &granted, one));
    let places = if needs_places {
        let mut settings = egress::Settings { upstream: job.settings.dns_upstream, ..egress::Settings::default() };
        let asking = job.policy.asks_for_names();
        if let Some(time) = asking {
            settings.limits.decide = time + Duration::from_secs(1);
        }
        let most = job.settings.max_sandboxes.max(1);
        let warm = most.min(total).min(4);
        let run = format!("eval-{}-{}", std::process::id(), &eval_id[..8]);
        let making = job.services.map(Making::Several).or(job.kind.map(Making::One));
        Some(Places::open(Arc::clone(&plan), &run, making, most, (warm, total), (settings, asking.is_some())).await?)
    } else {
        None
    };
    let redactor = Arc::new(job.redactor);
    let key = match &job.audit_key {
        Some(key) => Key::new(key.expose_secret().as_bytes()),
        None => Key::new(format!("{}{}", unique(), unique()).as_bytes()),
    };
    let approvals = Arc::new(Context { policy: job.policy, person: job.person, key, redactor: Arc::clone(&redactor) });
    let shared = Arc::new(Shared {
        scorers: score::names(&job.task.scorers),
        budget: Budget::new(job.task.run_limits),
        task: job.task,
        plan_hash: plan.hash(),
        plan,
        models: job.models,
        places,
        recorder: recorder.clone(),
        audit: audit.clone(),
        redactor,
        approvals,
        surroundings: job.surroundings,
        granted,
        counters: Counters::default(),
        looks: Arc::default(),
        search,
        retry_on_error: job.settings.retry_on_error,
    });
    let all = Run { shared: Arc::clone(&shared), display, cancel, settings: job.settings };
    let outcome = all.samples(total, kept).await?;
    let evaluation = finish(&shared, &recorder, &audit, &job.receipt, &created, outcome)?;
    drop(all);
    if let Some(places) = Arc::into_inner(shared).and_then(|shared| shared.places) {
        // The log is complete. What cannot be ended by us ends with us.
        let _ = places.close().await;
    }
    Ok(evaluation)
}

/// Puts into the chain what was found in an earlier log: how it was vouched for, which samples are kept, and which are not.
fn record_found(audit: &Audit, task: &Task, told: Value, found: &Found) -> Result<(), log::audit::AuditError> {
    audit.record("kept", told)?;
    record_kept(audit, task, &found.kept)?;
    for one in &found.dropped {
        audit.of_name(&one.id, one.epoch).record("dropped", json!({"sha256": one.sha256, "why": one.why}))?;
    }
    Ok(())
}

/// Puts the digests of kept samples into the new chain, as those of samples that run here.
fn record_kept(audit: &Audit, task: &Task, kept: &[Kept]) -> Result<(), log::audit::AuditError> {
    for one in kept {
        let mut data = json!({"sha256": one.glance.sha256, "kept": true});
        if one.unsigned {
            data["unsigned"] = json!(true);
        }
        if let Some(sample) = task.dataset.samples.get(one.index) {
            audit.of(sample, one.glance.epoch).record("sample", data)?;
        }
    }
    Ok(())
}

struct Run {
    shared: Arc<Shared>,
    display: Arc<dyn Display>,
    cancel: CancellationToken,
    settings: Settings,
}

/// A sample that was finished before.
struct Before {
    index: usize,
    epoch: u32,
    judged: Judged,
    spent: Spent,
}

/// What the samples came to.
struct Outcome {
    /// With their epochs.
    judged: Vec<(u32, Judged)>,
    usage: BTreeMap<String, Usage>,
    role_usage: BTreeMap<String, Usage>,
    progress: Progress,
    cancelled: bool,
    error: Option<String>,
}

impl Run {
    /// Starts samples as others end, and takes what they give.
    async fn samples(&self, total: usize, kept: Vec<Before>) -> Result<Outcome, EvalFailure> {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let before = count(kept.len());
        let progress = Progress { total: count(total), kept: before, done: before, ..Progress::default() };
        let mut outcome = Outcome {
            judged: Vec::new(),
            usage: BTreeMap::new(),
            role_usage: BTreeMap::new(),
            progress,
            cancelled: false,
            error: None,
        };
        let mut finished = HashSet::new();
        for Before { index, epoch, judged, spent } in kept {
            finished.insert((index, epoch));
            outcome.judged.push((epoch, judged));
            outcome.add(spent);
        }
        let budget = &self.shared.budget;
        let deadline = budget.time().map(|time| tokio::time::Instant::now() + time);
        let epochs = self.shared.task.epochs.count;
        let samples = self.shared.task.dataset.samples.len();
        let next = (1..=epochs).flat_map(|epoch| (0..samples).map(move |index| (index, epoch)));
        let mut next = next.filter(|one| !finished.contains(one));
        let mut running = JoinSet::new();
        loop {
            self.end_by_budget(&mut outcome);
            while running.len() < self.settings.max_samples.max(1) && outcome.error.is_none() {
                let Some((index, epoch)) = next.next() else { break };
                let shared = Arc::clone(&self.shared);
                running.spawn(async move { sample::run(&shared, &shared.task.dataset.samples[index], epoch).await });
            }
            self.show(&mut outcome, running.len());
            let ended = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    outcome.cancelled = true;
                    None
                }
                ended = running.join_next() => ended,
                () = until(deadline), if budget.over().is_none() => {
                    budget.end_time();
                    continue;
                }
            };
            let Some(ended) = ended else { break };
            match ended {
                Ok(Ok(ended)) => self.take(ended, &mut outcome),
                // A log that cannot be written is no log: everything stops.
                Ok(Err(error)) => {
                    running.shutdown().await;
                    return Err(error);
                }
                Err(panic) => {
                    outcome.progress.failed += 1;
                    outcome.error = Some(format!("a sample failed in an unforeseen way: {panic}"));
                }
            }
        }
        // What is under way ends, with its sandboxes.
        running.shutdown().await;
        self.show(&mut outcome, 0);
        Ok(outcome)
    }

    /// The run's own limits are a better reason than what they did to samples.
    fn end_by_budget(&self, outcome: &mut Outcome) {
        if let Some(over) = self.shared.budget.over() {
            outcome.error.get_or_insert_with(|| {
                format!("{}: no more samples are begun, and none that were under way are scored", over.message)
            });
        }
    }

    fn take(&self, ended: Ended, outcome: &mut Outcome) {
        outcome.progress.done += 1;
        self.end_by_budget(outcome);
        for spent in ended.retried.into_iter().chain([ended.spent]) {
            outcome.add(spent);
        }
        if let Some(error) = ended.error {
            outcome.progress.failed += 1;
            let failed = outcome.progress.failed;
            #[expect(clippy::cast_precision_loss, reason = "a share of samples")]
            let too_many = match self.settings.fail_on {
                FailOn::Any => true,
                FailOn::Count(most) => failed > most,
                FailOn::Share(share) => failed as f64 > share * outcome.progress.total as f64,
                FailOn::Never => false,
            };
            if too_many {
                outcome.error.get_or_insert(error);
            }
        } else {
            outcome.judged.push((ended.epoch, ended.judged));
        }
    }

    fn show(&self, outcome: &mut Outcome, running: usize) {
        let progress = &mut outcome.progress;
        progress.running = u64::try_from(running).unwrap_or(u64::MAX);
        progress.tool_calls = self.shared.counters.tool_calls();
        progress.tokens = self.shared.counters.tokens();
        progress.refused = self.shared.places.as_ref().map_or(0, Places::refused_connections);
        progress.leftover = self.shared.places.as_ref().map_or(0, Places::leftovers);
        let first = self.shared.scorers.first();
        let scores = outcome.judged.iter().filter_map(|(_, judged)| judged.scores.get(first?));
        let values: Vec<f64> =
            scores.filter(|score| !score::is_unscored(score)).map(|score| worth(&score.value)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a count of samples")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        progress.score = (!values.is_empty()).then_some(mean);
        self.display.update(progress);
    }
}

impl Outcome {
    fn add(&mut self, spent: Spent) {
        for (model, usage) in spent.by_model {
            self.usage.entry(model).or_default().add(&usage);
        }
        for (role, usage) in spent.by_role {
            self.role_usage.entry(role).or_default().add(&usage);
        }
    }
}

/// Waits for a time; for ever where there is none.
async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Completes the log; the head of the audit chain is in it, so a shortened chain is found.
fn finish(
    shared: &Shared,
    recorder: &Recorder,
    audit: &Audit,
    receipt: &log::Expectation,
    started: &str,
    mut outcome: Outcome,
) -> Result<Evaluation, EvalFailure> {
    let without_secrets = |mut value: Value| {
        shared.redactor.value(&mut value);
        value
    };
    // In one order, whoever was ready first and however often it was begun: then results are the same to the last digit.
    outcome
        .judged
        .sort_by(|(epoch, one), (other_epoch, other)| (&one.sample, epoch).cmp(&(&other.sample, other_epoch)));
    let judged: Vec<Judged> = outcome.judged.into_iter().map(|(_, judged)| judged).collect();
    outcome.error = outcome.error.map(|error| shared.redactor.text(&error).into_owned());
    let status = match (&outcome.error, outcome.cancelled) {
        (Some(_), _) => Status::Error,
        (None, true) => Status::Cancelled,
        (None, false) => Status::Success,
    };
    audit.record("end", json!({"done": outcome.progress.done, "failed": outcome.progress.failed}))?;
    let head = audit.end()?;
    let (epochs, total) = (&shared.task.epochs, shared.task.dataset.samples.len() * shared.task.epochs.count as usize);
    let results = without_secrets(score::results(&judged, &shared.scorers, &shared.task.metrics, epochs, total));
    let reductions = score::reductions(&judged, &shared.scorers, &epochs.reducers);
    let reductions = without_secrets(Value::Array(reductions));
    let finished = recorder.finish(End {
        status,
        results: Some(results.clone()),
        stats: json!({
            "started_at": started, "completed_at": now(), "model_usage": outcome.usage, "role_usage": outcome.role_usage,
        }),
        error: outcome.error.as_deref().map(log::event::EvalError::new),
        reductions: Some(reductions),
        metadata: [
            ("ringfence_audit".to_owned(), json!({"count": head.count, "hash": head.hash})),
            ("ringfence_redactions".to_owned(), json!(shared.redactor.counts())),
            (log::Expectation::FIELD.to_owned(), receipt.to_json()),
        ]
        .into_iter()
        .collect(),
    })?;
    Ok(Evaluation { log: finished.path, status, results, progress: outcome.progress, error: outcome.error })
}
