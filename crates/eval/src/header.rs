//! What a log says before its samples: who was asked what, in which profile, with what it could reach.

use profile::Plan;
use serde_json::{Map, Value, json};

use crate::journal::unique;
use crate::score;
use crate::solve;
use crate::task::{Dollars, RunLimits, Solver};
use crate::{Earlier, Job};

/// Where a log says which profile probes saw.
const OBSERVED: &str = "ringfence_observed";

/// Inspect's `eval`: its own fields, and ours under `metadata.ringfence` and `sandbox`.
///
/// `kept` is what is said of an earlier log that it goes on from.
pub(crate) fn spec(job: &Job, created: &str, eval_id: &str, kept: Option<&Value>) -> Value {
    let task = &job.task;
    let ids: Vec<Value> = task.dataset.samples.iter().map(|sample| sample.id.to_json()).collect();
    let scorers = score::described(&task.scorers, &task.metrics);
    let mut metadata = task.metadata.clone();
    metadata.insert("ringfence".into(), own(job, kept));
    // What a receipt says was seen: ours to say, never the task's.
    metadata.remove(OBSERVED);
    if let Some(observed) = job.verified.get("observed") {
        metadata.insert(OBSERVED.into(), observed.clone());
    }
    // Logs that go on from each other are of one task, as Inspect has it.
    let task_id = job.earlier.as_ref().and_then(Earlier::task_id).map_or_else(unique, str::to_owned);
    json!({
        "eval_set_id": job.set.as_ref().map(|(id, _)| id),
        "eval_id": eval_id,
        "run_id": unique(),
        "created": created,
        "task": task.name,
        "task_id": task_id,
        "task_version": 0,
        "task_file": task.origin,
        "task_args": task.parameters,
        "tags": task.tags,
        "dataset": {
            "name": task.dataset.name, "location": task.dataset.location, "samples": ids.len(), "sample_ids": ids,
            "shuffled": task.dataset.shuffled,
        },
        "sandbox": {"type": "ringfence", "config": job.plan.profile.to_string()},
        "model": job.models.agent().name(),
        "model_generate_config": job.models.agent().config,
        "model_base_url": job.models.agent().address(),
        "model_args": {},
        "model_roles": job.models.roles_json(),
        "config": config(job),
        "revision": job.revision,
        "packages": {"ringfence": env!("CARGO_PKG_VERSION")},
        "metadata": metadata,
        "scorers": scorers,
    })
}

/// What is ours: the contract, and what it rests on.
fn own(job: &Job, kept: Option<&Value>) -> Value {
    let Plan { controls, affordances, withheld, residual, image, .. } = &job.plan;
    json!({
        "requested": job.requested,
        "profile": job.plan.profile.to_string(),
        "plan": job.plan,
        "plan_hash": job.plan.hash(),
        "controls": controls,
        "affordances": affordances,
        "withheld": withheld,
        "residual": residual,
        "image": image,
        "approval": approval(job),
        "model": {"unsent": job.models.agent().unsent()},
        "run_limits": run_limits(&job.task.run_limits),
        "host": job.facts,
        "verified": job.verified,
        "invocation": job.invocation,
        "kept": kept,
        "set_key": job.set.as_ref().map(|(_, key)| key),
    })
}

/// What all samples together may use up; absent means without end.
fn run_limits(limits: &RunLimits) -> Value {
    let RunLimits { time, sums } = limits;
    json!({
        "time": time.map(|millis| millis / 1000), "working": sums.working.map(|millis| millis / 1000),
        "messages": sums.messages, "tokens": sums.tokens, "cost": sums.cost.map(Dollars::amount),
    })
}

/// Who is asked about calls.
fn approval(job: &Job) -> Option<Value> {
    let approval = job.plan.approval.as_ref()?;
    let mut policy = job.policy.to_json();
    policy["means"] = json!(approval.summary());
    Some(policy)
}

impl Job {
    /// Who is asked about calls, as the log will have it.
    pub fn approval(&self) -> Value {
        let mut approval = json!(approval(self));
        self.redactor.value(&mut approval);
        approval
    }
}

fn config(job: &Job) -> Value {
    let (task, plan) = (&job.task, &job.plan);
    let reducers: Vec<String> = task.epochs.reducers.iter().map(ToString::to_string).collect();
    let approval = plan.approval.as_ref().map(|_| job.policy.approvers());
    let mut config = Map::new();
    config.insert("epochs".into(), json!(task.epochs.count));
    config.insert("epochs_reducer".into(), json!(reducers));
    config.insert("approval".into(), json!(approval));
    config.insert("message_limit".into(), json!(task.limits.messages));
    config.insert("token_limit".into(), json!(task.limits.tokens));
    config.insert("cost_limit".into(), json!(task.limits.cost.map(Dollars::amount)));
    config.insert("time_limit".into(), json!(plan.limits.time.amount.0 / 1000));
    config.insert("working_limit".into(), json!(task.limits.working.map(|millis| millis / 1000)));
    config.insert("max_samples".into(), json!(job.settings.max_samples));
    config.insert("max_sandboxes".into(), json!(job.settings.max_sandboxes));
    config.insert("log_samples".into(), json!(true));
    if job.settings.retry_on_error > 0 {
        config.insert("retry_on_error".into(), json!(job.settings.retry_on_error));
    }
    Value::Object(config)
}

/// Inspect's `plan`: the solvers.
pub(crate) fn plan(job: &Job) -> Value {
    let steps: Vec<Value> = job
        .task
        .solvers
        .iter()
        .map(|solver| {
            let params = match solver {
                Solver::SystemMessage(template) | Solver::PromptTemplate(template) => json!({"template": template}),
                Solver::Agent(agent) => {
                    json!({"tools": agent.tools, "max_steps": agent.max_steps, "attempts": agent.attempts})
                }
                Solver::Iterative(own) => json!({
                    "tools": own.tools, "max_steps": own.max_steps, "time": own.time.map(|millis| millis / 1000),
                    "keep_messages": own.keep_messages, "max_message": own.max_message,
                }),
                Solver::Generate | Solver::MultipleChoice => json!({}),
            };
            json!({"solver": solve::name_of(solver), "params": params})
        })
        .collect();
    json!({"name": "plan", "steps": steps, "finish": null, "config": {}})
}
