//! `eval-retry`: what failed, was cancelled or is missing in a log runs again; what is finished is kept, in a new log.
//!
//! The log may come from another author. It says what is to be run, never with which rights: a wider profile, a laxer
//! approval, a policy file, a justification, the values of environment entries and the grants for H0, N0 and writable mounts
//! are said again by the operator. The task file and its parameters are named again, or confirmed on a terminal. What would run must
//! be what made the finished samples: the same files, the same plan, the same policy.

use std::path::{Path, PathBuf};

use ::eval::task::Task;
use ::eval::{Dropped, Earlier, Finished, Invocation};
use log::Status;
use profile::{Approval, Problem, Problems, Profile};
use serde_json::json;

use super::eval::through;
use super::eval_obstacle::Obstacle;
use super::eval_prepare::{Asked, Loaded, Ready};
use super::grants;
use super::receipts::Signer;
use super::retry_consent::Unconfirmed;
use super::trust::Trusting;
use crate::eval_args::{LogFormat, RetryArguments, Running, Wish};
use crate::exit::Exit;
use crate::limit_args;
use crate::printer::{Look, Printer, plain, span};

/// What stands in a log where a secret was taken out.
const REDACTED: &str = "[REDACTED]";

pub(super) fn run(arguments: &RetryArguments, printer: &mut Printer) -> Exit {
    match prepare(arguments, printer) {
        Ok(Some(ready)) => through(vec![ready], 1, printer),
        Ok(None) => Exit::Done,
        Err(obstacle) => obstacle.report(printer),
    }
}

/// What is left to run; nothing where all is done.
fn prepare(arguments: &RetryArguments, printer: &mut Printer) -> Result<Option<Ready>, Obstacle> {
    let signer = Signer::find(arguments.running.key.as_deref())?;
    let earlier = open(&arguments.log, &Trusting::new(&signer, &arguments.trust)?)?;
    let asked = asked(&earlier, arguments)?;
    let unconfirmed = Unconfirmed::of(earlier.invocation(), arguments)?;
    let loaded = asked.load()?;
    judge(&earlier, arguments, &loaded.task)?;
    let Finished { kept, total, dropped } = earlier.finished_of(&loaded.task).map_err(Obstacle::Earlier)?;
    if earlier.status() == Status::Success && kept == total {
        nothing_to_do(&arguments.log, &loaded, printer);
        return Ok(None);
    }
    say_dropped(&arguments.log, &dropped, printer);
    unconfirmed.confirm(&arguments.log, &asked, &loaded, printer)?;
    let ready = go_on(asked.ready(loaded)?, earlier)?;
    let job = &ready.job;
    let text = format!(
        "  {}: task {}, profile {}, model {}; {kept} of {total} samples are kept",
        arguments.log.display(),
        asked.task,
        job.plan.profile,
        job.models.agent().name(),
    );
    printer.message(&vec![vec![span(Look::Strong, "going on from"), plain(text)]]);
    Ok(Some(ready))
}

/// So many samples are named; the new log's chain has all.
const MOST_NAMED: usize = 20;

/// Says which results an evaluation does not take over although they were finished.
pub(super) fn say_dropped(log: &Path, dropped: &[Dropped], printer: &mut Printer) {
    if dropped.is_empty() {
        return;
    }
    let name = |one: &Dropped| format!("{} (epoch {}): {}", one.id, one.epoch, one.why);
    let mut names: Vec<String> = dropped.iter().take(MOST_NAMED).map(name).collect();
    if dropped.len() > MOST_NAMED {
        names.push(format!("and {} more", dropped.len() - MOST_NAMED));
    }
    let text = format!(
        ": {}: {} samples were finished before and are not kept: their first results are dropped, they run again or already did: {}",
        log.display(),
        dropped.len(),
        names.join(", "),
    );
    printer.message(&vec![vec![span(Look::Strong, "warning"), plain(text)]]);
}

/// Opens an earlier log. What `log verify` refuses is not gone on from, and what no trusted key signed is not signed again.
pub(super) fn open(log: &Path, trusting: &Trusting) -> Result<Earlier, Obstacle> {
    let earlier = Earlier::open(log).map_err(Obstacle::Earlier)?;
    let checked = receipt::check(log, &receipt::Trust::Nobody, receipt::Require::AsTheLogSays);
    let vouching = trusting.vouching(log, earlier.digest(), &checked.map_err(Obstacle::Unsound)?)?;
    earlier.vouched_by(vouching.vouched).map_err(Obstacle::Earlier)
}

/// Lets an evaluation go on from an earlier log, if what would run is what made it.
pub(super) fn go_on(ready: Ready, earlier: Earlier) -> Result<Ready, Obstacle> {
    let mut job = ready.job;
    let changed = |what: &str| Obstacle::Changed {
        what: format!("{what} since the log was made, and finished samples were made under the old one"),
        hint: "run the task anew with `ringfence eval`, or bring back what it was",
    };
    if job.plan.hash() != earlier.plan_hash() {
        return Err(changed("the plan has changed"));
    }
    if job.models.agent().name() != earlier.model() {
        return Err(changed("the model has changed"));
    }
    if job.approval() != *earlier.approval() {
        return Err(changed("the approval policy has changed"));
    }
    job.set = earlier.set().map(|(id, key)| (id.to_owned(), key.to_owned()));
    job.earlier = Some(earlier);
    Ok(Ready { job, ..ready })
}

fn nothing_to_do(log: &Path, loaded: &Loaded, printer: &mut Printer) {
    if printer.json() {
        printer.data(&json!({
            "schema": "ringfence.evaluation/1", "task": loaded.task.name, "status": "success", "log": log,
            "nothing_to_do": true,
        }));
    } else {
        printer.page(&vec![vec![plain(format!("nothing to do: every sample of {} is finished", log.display()))]]);
    }
}

/// What the log says was asked, with what the command line says now.
fn asked(earlier: &Earlier, arguments: &RetryArguments) -> Result<Asked, Problems> {
    let invocation = earlier.invocation();
    let mut problems = Vec::new();
    let task = arguments.task.clone().unwrap_or_else(|| {
        // Only looked at: opening a pipe would wait for whoever writes into it.
        let is_file = std::fs::metadata(&invocation.task_path).is_ok_and(|found| found.is_file());
        if !is_file || !Path::new(&invocation.task_path).is_absolute() {
            let problem = Problem::new(format!("the task file `{}` is not there", invocation.task_path));
            problems.push(problem.hint("say where it is: --task FILE"));
        }
        invocation.task_path.clone()
    });
    let parameter = parameters(invocation, &arguments.parameter, &mut problems);
    let texts = [&invocation.model, &invocation.limit].into_iter().flatten();
    if texts.chain(&invocation.sample_ids).any(|text| text.contains(REDACTED)) {
        let problem = Problem::new("what was to be run is not in the log any more: a secret was taken out of it");
        problems.push(problem.hint("run the task anew with `ringfence eval`"));
    }
    let limit = read_back(invocation.limit.as_deref(), "limit", &mut problems);
    let fail_on_error = read_back(invocation.fail_on_error.as_deref(), "fail_on_error", &mut problems);
    let (limits, run_limits) = limit_args::read(&invocation.limits).unwrap_or_else(|error| {
        problems.push(Problem::new(error.to_string()));
        Default::default()
    });
    let granted: Vec<String> = names(arguments)?;
    for name in invocation.environment.iter().filter(|name| !granted.contains(name)) {
        let problem = Problem::new(format!("the environment entry `{name}` was granted, and its value is in no log"));
        problems.push(problem.hint(format!("say it again: --env {name}=VALUE, or --env-file FILE")));
    }
    if !problems.is_empty() {
        return Err(Problems { origin: arguments.log.display().to_string(), problems });
    }
    let own = &arguments.running;
    let directory = arguments.log.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(Asked {
        task,
        model: invocation.model.clone(),
        wish: Wish {
            parameter,
            profile: arguments.profile.or_else(|| stated(invocation)),
            model_role: invocation
                .model_roles
                .iter()
                .flat_map(|(role, models)| models.iter().map(|model| (role.clone(), model.clone())))
                .collect(),
            approval: arguments.approval.clone().or_else(|| invocation.approval.as_deref()?.parse().ok()),
            entries: arguments.entries.clone(),
            limit,
            sample_id: invocation.sample_ids.clone(),
            epochs: invocation.epochs,
            justification: arguments.justification.clone(),
            grants: arguments.grants,
            limits,
        },
        running: Running {
            // Never of the log.
            dangerously_mount_secrets: own.dangerously_mount_secrets,
            max_samples: own.max_samples.or(Some(invocation.max_samples)),
            max_sandboxes: own.max_sandboxes.or(invocation.max_sandboxes),
            log_dir: own.log_dir.clone().or_else(|| Some(directory.unwrap_or(Path::new(".")).to_path_buf())),
            log_format: own.log_format.or(Some(match earlier.format() {
                log::Format::Eval => LogFormat::Eval,
                log::Format::Json => LogFormat::Json,
            })),
            fail_on_error: own.fail_on_error.or(fail_on_error),
            retry_on_error: own.retry_on_error.or(invocation.retry_on_error.map(|often| often.min(100))),
            dns_upstream: own.dns_upstream,
            // A log alone cannot switch the proof off.
            verify: own.verify,
            key: own.key.clone(),
            pull: own.pull,
            limits: own.limits.or(&run_limits),
        },
        // A profile that only the log names grants nothing.
        grants: grants::of(arguments.grants, arguments.profile)?,
        same: (!arguments.changed_task).then(|| invocation.sources.clone()),
        changed_task: arguments.changed_task || invocation.changed_task,
    })
}

/// A text of the record as what it stands for.
fn read_back<T: std::str::FromStr>(text: Option<&str>, what: &str, problems: &mut Vec<Problem>) -> Option<T> {
    let read = text?.parse().ok();
    if read.is_none() {
        problems.push(Problem::new(format!("the log's record of `{what}` cannot be read")));
    }
    read
}

/// The profile that the log's command line stated.
fn stated(invocation: &Invocation) -> Option<Profile> {
    invocation.profile.as_deref()?.parse().ok()
}

/// Names of the entries that are granted now.
fn names(arguments: &RetryArguments) -> Result<Vec<String>, Problems> {
    let files = super::env_file::read(&arguments.entries.env_file)?;
    let stated = arguments.entries.env.iter().map(|(name, _)| name.clone());
    Ok(files.into_iter().map(|(name, _)| name).chain(stated).collect())
}

/// The log's parameters. One that is said again must have the log's value, or a value that was taken out of the log: others
/// made the samples.
fn parameters(
    invocation: &Invocation,
    again: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Vec<(String, String)> {
    for (name, said) in again {
        let fits = |value: &String| value == said || value.contains(REDACTED);
        if !invocation.parameters.get(name).is_some_and(fits) {
            let problem = Problem::new(format!("the parameter `{name}` cannot be another than in the log"));
            problems.push(problem.hint("leave it out, or run the task anew with `ringfence eval`"));
        }
    }
    let value = |name: &String, value: &String| {
        let said = again.iter().rev().find(|(again, _)| again == name).map(|(_, value)| value);
        (name.clone(), said.unwrap_or(value).clone())
    };
    let all: Vec<(String, String)> = invocation.parameters.iter().map(|(name, stated)| value(name, stated)).collect();
    for (name, _) in all.iter().filter(|(_, value)| value.contains(REDACTED)) {
        let problem = Problem::new(format!("the value of the parameter `{name}` was taken out of the log"));
        problems.push(problem.hint(format!("say it again: -T {name}=VALUE")));
    }
    all
}

/// What only whoever runs it may choose, and not the log alone.
fn judge(earlier: &Earlier, arguments: &RetryArguments, task: &Task) -> Result<(), Problems> {
    let invocation = earlier.invocation();
    let mut problems = Vec::new();
    let mut again = |what: String, option: String| {
        problems.push(
            Problem::new(format!("{what}, which a log alone cannot choose"))
                .hint(format!("if you mean it, say it again: {option}")),
        );
    };
    if let (Some(text), None) = (&invocation.profile, arguments.profile) {
        let own = task.document.profile.value;
        let is_within = |stated: Profile| own <= stated;
        if !stated(invocation).is_some_and(is_within) {
            again(format!("the log's profile {text} is not within the task's {own}"), format!("--profile {text}"));
        }
    }
    if let (Some(text), None) = (&invocation.approval, &arguments.approval) {
        let own = task.document.approval.as_ref().map(|own| &own.value);
        // A task that states none has whatever is usual, which is a person.
        let least = own.map_or(Approval::Dev.strictness(), Approval::strictness);
        let asked = text.parse::<Approval>().ok().and_then(|approval| approval.strictness());
        if asked.zip(least).is_none_or(|(asked, least)| asked < least) {
            again(format!("the log's approval policy is `{text}`"), format!("--approval {text}"));
        }
    }
    if let (Some(text), None) = (&invocation.justification, &arguments.justification) {
        again(format!("the log's justification is `{text}`"), "--justification TEXT, the same".into());
    }
    if problems.is_empty() {
        return Ok(());
    }
    let origin: PathBuf = arguments.log.clone();
    Err(Problems { origin: origin.display().to_string(), problems })
}
