//! `eval`: a task in its profile, from its file to its log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use eval::task::{Task, TaskOverrides};
use eval::{
    EvalFailure, Evaluation, FailOn, Job, Keys, Models, Named, Person, Policy, PolicyError, Settings, Surroundings,
};
use image::{ImageError, Opened};
use log::{Redactor, Status};
use profile::{Facts, Overrides, Plan, Problem, Problems, Profile, Provider, Refusal, Request, Source, Unmet};
use sandbox::StartError;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::ask::Terminal;
use super::eval_display::Shown;
use super::{container, env_file, exec, images, input, plan};
use crate::args::EvalArguments;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// The key under which the audit chain tells arguments apart, so that somebody who has it can check.
const AUDIT_KEY: &str = "RINGFENCE_AUDIT_KEY";
/// Parts of the names of variables that hold keys.
const KEY_NAMES: [&str; 11] = [
    "KEY",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PAT",
    "CREDENTIAL",
    "CREDENTIALS",
    "WEBHOOK",
];
/// Parts of the names of variables that say where something is, not what.
const PLACE_NAMES: [&str; 5] = ["FILE", "PATH", "DIR", "SOCK", "ID"];

/// Whether a variable holds a key, by its name.
fn names_a_key(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has = |words: &[&str]| name.split('_').any(|part| words.contains(&part));
    let ends = ["PASSWORD", "PASSWD", "_PWD", "_AUTH"].iter().any(|end| name.ends_with(end));
    (has(&KEY_NAMES) || ends) && !has(&PLACE_NAMES)
}

enum Obstacle {
    Plan(plan::Obstacle),
    Image(ImageError),
    Start(StartError),
    Eval(EvalFailure),
}

impl<E: Into<plan::Obstacle>> From<E> for Obstacle {
    fn from(error: E) -> Self {
        Self::Plan(error.into())
    }
}

pub(super) fn run(arguments: &EvalArguments, printer: &mut Printer) -> Exit {
    let result = prepare(arguments).and_then(|(job, image)| {
        if job.redactor.too_short() > 0 {
            let text = ": a granted environment value or a key is too short to be taken out of the log";
            printer.message(&vec![vec![span(Look::Doubtful, "warning"), plain(text)]]);
        }
        for (model, unsent) in job.models.unsent() {
            let text = format!(": {model} does not take {}", unsent.join(", "));
            printer.message(&vec![vec![span(Look::Doubtful, "warning"), plain(text)]]);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Obstacle::Start(StartError::Helper(error)))?;
        let name = job.task.name.clone();
        let profile = job.plan.profile;
        let shown = Arc::new(Shown::new(&name));
        let person = {
            let _inside = runtime.enter();
            Terminal::open(Arc::clone(&shown)).map(|terminal| Arc::new(terminal) as Arc<dyn Person>)
        };
        let job = Job { person, ..job };
        let ended = runtime.block_on(interruptible(job, Arc::clone(&shown)));
        shown.finish();
        runtime.shutdown_background();
        // Its layers were in use until now.
        drop(image);
        Ok((ended.map_err(Obstacle::Eval)?, name, profile))
    });
    match result {
        Ok((evaluation, name, profile)) => summary(&evaluation, &name, profile, printer),
        Err(Obstacle::Plan(obstacle)) => plan::report(&obstacle, printer),
        Err(Obstacle::Image(error)) => images::failed(&error, printer),
        Err(Obstacle::Start(error)) => super::run::failed(&error, Exit::Provider, printer),
        Err(Obstacle::Eval(error)) => {
            let exit = match error {
                EvalFailure::Place(_) => Exit::Provider,
                EvalFailure::Log(_) | EvalFailure::Audit(_) => Exit::Failed,
            };
            super::run::failed(&error, exit, printer)
        }
    }
}

/// Ctrl-C once ends what is under way and completes the log; twice ends us now.
async fn interruptible(job: Job, shown: Arc<Shown>) -> Result<Evaluation, EvalFailure> {
    let cancel = CancellationToken::new();
    let asked = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    });
    eval::evaluate(job, shown, cancel).await
}

fn prepare(arguments: &EvalArguments) -> Result<(Job, Option<Opened>), Obstacle> {
    let parameters: BTreeMap<String, String> = arguments.parameter.iter().cloned().collect();
    let mut task = Task::load(Path::new(&arguments.task), &parameters)?;
    task.document.environment.extend(env_file::read(&arguments.env_file)?);
    let stated = arguments.env.iter().map(|(name, value)| (name.clone(), SecretString::from(value.clone())));
    task.document.environment.extend(stated);
    task.apply(TaskOverrides {
        limit: arguments.limit,
        sample_ids: arguments.sample_id.clone(),
        epochs: arguments.epochs,
        model: arguments.model.clone(),
        model_roles: roles(&arguments.model_role),
        limits: arguments.limits.of_sample(),
        time: arguments.limits.time_limit,
        run_limits: arguments.limits.of_run(),
        ..TaskOverrides::default()
    })?;
    let models = models(&task)?;
    let requested = task.document.profile.value.to_string();
    let facts = host::kernel_facts();
    // What is refused anyway is not fetched first.
    let (request, plan) = planned(&task, arguments, None, &facts)?;
    let policy = policy(&request, &plan, Path::new(&arguments.task))?;
    let unmet = [eval::check_models(&task, &plan, &models), policy.check(&plan)].concat();
    granted(&task, &plan, unmet)?;
    let (name, image) = container::open_image(&task.document, None).map_err(Obstacle::Image)?;
    let (request, plan) = planned(&task, arguments, name, &facts)?;
    let container = match plan.provider {
        Provider::Container => Some(container::request(&request, &plan, image.as_ref()).map_err(Obstacle::Start)?),
        _ => None,
    };
    let settings = Settings {
        max_samples: arguments.max_samples,
        max_sandboxes: arguments.max_sandboxes.unwrap_or(arguments.max_samples),
        fail_on: arguments.fail_on_error.unwrap_or(FailOn::Any),
        log_directory: arguments.log_dir.clone(),
        format: arguments.log_format.into(),
        dns_upstream: arguments.dns_upstream,
    };
    let revision = revision(Path::new(&arguments.task));
    let keys = Keys::gather(&plan, |name| std::env::var(name).ok()).map_err(|missing| {
        let problem = Problem::new(missing.to_string()).hint(missing.hint());
        Problems { origin: task.origin.clone(), problems: vec![problem] }
    })?;
    let mut secrets = secrets(&task, &policy, &models);
    secrets.extend(keys.values().map(|key| key.expose_secret().to_owned()));
    let redactor = Redactor::new(secrets, log::redact::KEYS);
    nameless(&task, &redactor)?;
    let audit_key = std::env::var(AUDIT_KEY).ok().filter(|key| !key.is_empty()).map(SecretString::from);
    let facts = json!(facts);
    let config = image.as_ref().map(|opened| opened.image.config.clone()).unwrap_or_default();
    let environment = exec::environment(&task.document, &config);
    let surroundings = Surroundings { environment, directory: config.workdir, user: config.user };
    let request = container;
    let job = Job {
        task,
        requested,
        plan,
        request,
        models,
        surroundings,
        settings,
        redactor,
        keys,
        policy,
        person: None,
        audit_key,
        facts,
        revision,
    };
    Ok((job, image))
}

/// All models of each role.
fn roles(stated: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut roles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (role, model) in stated {
        roles.entry(role.clone()).or_default().push(model.clone());
    }
    roles
}

/// Everybody who answers. A limit of costs holds only where costs are known.
fn models(task: &Task) -> Result<Models, Problems> {
    let failed = |problem| Problems { origin: task.origin.clone(), problems: vec![problem] };
    let models = Models::find(task).map_err(|error| failed(Problem::new(error.to_string()).hint(error.hint())))?;
    let unpriced = models.unpriced();
    if task.limits_cost() && !unpriced.is_empty() {
        let names = unpriced.into_iter().collect::<Vec<_>>().join(", ");
        let problem = Problem::new(format!("a limit of costs cannot hold: there is no price for {names}"));
        return Err(failed(problem.hint("name a file of prices by RINGFENCE_PRICES, or remove the limit")));
    }
    Ok(models)
}

/// Who is asked about calls. A file that the task names lies beside it; one that the operator names is where they say.
fn policy(request: &Request, plan: &Plan, task: &Path) -> Result<Policy, Obstacle> {
    let of_file =
        |settled: &&profile::Provenance| settled.setting == "approval" && matches!(settled.source, Source::File(_));
    let by_file = request.provenance.iter().find(of_file).is_some();
    let named = if by_file { Named::ByTask(task) } else { Named::ByOperator };
    let tools: Vec<String> = plan.affordances.iter().map(|affordance| affordance.name.clone()).collect();
    Policy::load(plan.approval.as_ref(), named, &tools).map_err(|error| match error {
        PolicyError::Wrong(problems) => problems.into(),
        PolicyError::Read { ref source, .. } => {
            let problem =
                Problem::new(format!("{error}: {source}")).hint("check the path: beside the task, or where you are");
            Problems {
                origin: plan.approval.as_ref().map(ToString::to_string).unwrap_or_default(),
                problems: vec![problem],
            }
            .into()
        }
    })
}

/// Names are in file names and in every line of the audit chain: none may be a secret.
fn nameless(task: &Task, redactor: &Redactor) -> Result<(), Problems> {
    let ids = task.dataset.samples.iter().map(|sample| sample.id.to_string());
    let holds = |name: &String| matches!(redactor.text(name), std::borrow::Cow::Owned(_));
    let problem = match std::iter::once(task.name.clone()).chain(ids).position(|name| holds(&name)) {
        None => return Ok(()),
        Some(0) => Problem::new("the task's name holds a secret"),
        Some(number) => Problem::new(format!("the id of sample {number} holds a secret")),
    };
    let problem = problem.hint("give it another name: names are written everywhere");
    Err(Problems { origin: task.origin.clone(), problems: vec![problem] })
}

/// What must not be written down: values that the task grants, what the policy's programs are given, and our own keys.
fn secrets(task: &Task, policy: &Policy, models: &Models) -> Vec<String> {
    let granted = task.document.environment.values().map(|value| ExposeSecret::expose_secret(value).to_owned());
    let passed = policy.passes();
    let own = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let key = names_a_key(&name) || passed.contains(&name);
        key.then_some(value)
    });
    // A key may be from a file.
    granted.chain(own).chain(models.secrets()).collect()
}

fn planned(
    task: &Task,
    arguments: &EvalArguments,
    image: Option<String>,
    facts: &Facts,
) -> Result<(Request, Plan), Obstacle> {
    let overrides = Overrides {
        profile: arguments.profile,
        image,
        approval: arguments.approval.clone(),
        justification: arguments.justification.clone(),
        ..Overrides::default()
    };
    let request = Request::resolve(task.document.clone(), &input::environment()?, overrides);
    let plan = profile::compile(&request, facts)?;
    granted(task, &plan, eval::check(task, &plan))?;
    Ok((request, plan))
}

/// Nothing may stand between a task and its plan.
fn granted(task: &Task, plan: &Plan, unmet: Vec<Unmet>) -> Result<(), Refusal> {
    if unmet.is_empty() {
        return Ok(());
    }
    let origin = Some(task.origin.clone());
    Err(Refusal { schema: Refusal::SCHEMA, profile: plan.profile, origin, unmet, nearest: Vec::new() })
}

/// The commit of the task's files, where they are in a git repository; nothing is run.
fn revision(task: &Path) -> Option<Value> {
    let task = std::fs::canonicalize(task).ok()?;
    let root = task.ancestors().find(|directory| directory.join(".git").is_dir())?;
    let head = std::fs::read_to_string(root.join(".git/HEAD")).ok()?;
    let commit = match head.trim().strip_prefix("ref: ") {
        Some(reference) => std::fs::read_to_string(root.join(".git").join(reference)).ok()?,
        None => head,
    };
    let commit: String = commit.trim().chars().filter(char::is_ascii_hexdigit).collect();
    (commit.len() >= 40).then(|| json!({"type": "git", "origin": "", "commit": commit}))
}

/// What it came to, and where the log is.
fn summary(evaluation: &Evaluation, name: &str, profile: Profile, printer: &mut Printer) -> Exit {
    let (status, look, exit) = match evaluation.status {
        Status::Success => ("success", Look::Good, Exit::Done),
        Status::Cancelled => ("cancelled", Look::Doubtful, Exit::Interrupted),
        Status::Error | Status::Started => ("error", Look::Bad, Exit::Failed),
    };
    let progress = &evaluation.progress;
    if printer.json() {
        printer.data(&json!({
            "schema": "ringfence.evaluation/1", "task": name, "profile": profile.to_string(), "status": status,
            "samples": progress.done, "failed": progress.failed, "results": evaluation.results,
            "log": evaluation.log, "error": evaluation.error,
        }));
        return exit;
    }
    let mut page = vec![vec![
        span(Look::Strong, name.to_owned()),
        plain(format!("  {profile}  ")),
        span(look, status),
        plain(format!(
            "  {} samples, {} failed, {} tool calls, {} tokens, {} refused connections",
            progress.done, progress.failed, progress.tool_calls, progress.tokens, progress.refused
        )),
    ]];
    for score in evaluation.results["scores"].as_array().into_iter().flatten() {
        let metric = |name: &str| score["metrics"][name]["value"].as_f64().unwrap_or_default();
        let reducer = score["reducer"].as_str().map(|reducer| format!(" ({reducer})")).unwrap_or_default();
        let scorer = score["name"].as_str().unwrap_or_default();
        page.push(vec![plain(format!("  {scorer}{reducer}: {:.3} ± {:.3}", metric("accuracy"), metric("stderr")))]);
    }
    if let Some(error) = &evaluation.error {
        page.push(vec![span(Look::Bad, "  error"), plain(format!(": {error}"))]);
    }
    page.push(vec![span(Look::Faint, "  log"), plain(format!(": {}", evaluation.log.display()))]);
    printer.page(&page);
    exit
}
