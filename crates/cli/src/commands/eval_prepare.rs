//! From what was asked to an evaluation that can start: everything is checked before anything runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eval::task::{Sources, Task, TaskOverrides};
use eval::{FailOn, Inputs, Invocation, Job, Keys, Models, Named, Policy, PolicyError, Settings, Surroundings};
use log::Redactor;
use profile::{Facts, Grants, Overrides, Plan, Problem, Problems, Profile, Refusal, Request, Source, Unmet};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::container::Found;
use super::eval_obstacle::Obstacle;
use super::receipts::{self, Signer};
use super::services::Services;
use super::{container, docker, env_file, eval_verify, exec, input};
use crate::eval_args::{Running, Verify, Wish};
use crate::printer::{Look, Printer, plain, span};

/// Where logs go when nobody says.
const LOGS: &str = "logs";
/// Samples at the same time when nobody says.
const SAMPLES: usize = 10;
/// More are never under way at the same time, whoever asks for them.
const MOST_SAMPLES: usize = 100_000;
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
pub(super) fn names_a_key(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has = |words: &[&str]| name.split('_').any(|part| words.contains(&part));
    let ends = ["PASSWORD", "PASSWD", "_PWD", "_AUTH"].iter().any(|end| name.ends_with(end));
    // Names a file, too.
    (has(&KEY_NAMES) || ends) && !has(&PLACE_NAMES) && name != receipts::VARIABLE
}

/// What was asked: one task, answered by one model.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// The task file.
    pub(super) task: String,
    /// Absent means whom the task names.
    pub(super) model: Option<String>,
    pub(super) wish: Wish,
    pub(super) running: Running,
    /// What the operator granted, on the command line of this process or in their configuration: never from a log.
    pub(super) grants: Grants,
    /// What the task was read from before; absent means that any will do.
    pub(super) same: Option<Sources>,
    /// Whether somebody said that another will do.
    pub(super) changed_task: bool,
}

/// A task with the command line on top.
pub(super) struct Loaded {
    pub(super) task: Task,
    /// Names of the environment entries that were granted.
    granted: Vec<String>,
}

/// An evaluation that can start.
pub(super) struct Ready {
    pub(super) job: Job,
    /// Its layers are in use until it has ended.
    pub(super) image: Option<Found>,
    /// How much is proven before it starts.
    pub(super) verify: Verify,
    /// Whoever signs what its log says.
    pub(super) signer: Signer,
}

impl Ready {
    /// Says what is worth saying before it starts.
    pub(super) fn warn(&self, printer: &mut Printer) {
        let mut warn = |text: String| printer.message(&vec![vec![span(Look::Doubtful, "warning"), plain(text)]]);
        if self.job.redactor.too_short() > 0 {
            warn(": a granted environment value or a key is too short to be taken out of the log".into());
        }
        for (model, unsent) in self.job.models.unsent() {
            warn(format!(": {model} does not take {}", unsent.join(", ")));
        }
    }
}

impl Asked {
    /// Reads the task and puts the command line on top.
    pub(super) fn load(&self) -> Result<Loaded, Problems> {
        let wish = &self.wish;
        let parameters: BTreeMap<String, String> = wish.parameter.iter().cloned().collect();
        let mut task = Task::load_same(Path::new(&self.task), &parameters, self.same.as_ref())?;
        let mut entries = env_file::read(&wish.entries.env_file)?;
        entries.extend(wish.entries.env.iter().map(|(name, value)| (name.clone(), SecretString::from(value.clone()))));
        let mut granted: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
        granted.sort();
        granted.dedup();
        task.document.environment.extend(entries);
        task.apply(TaskOverrides {
            limit: wish.limit,
            sample_ids: wish.sample_id.clone(),
            epochs: wish.epochs,
            model: self.model.clone(),
            model_roles: roles(&wish.model_role),
            limits: wish.limits.of_sample(),
            time: wish.limits.time_limit,
            run_limits: self.running.limits.of_run(),
            ..TaskOverrides::default()
        })?;
        Ok(Loaded { task, granted })
    }

    /// Checks everything that can be checked before it starts.
    pub(super) fn ready(&self, loaded: Loaded) -> Result<Ready, Obstacle> {
        let invocation = self.invocation(&loaded);
        let mut task = loaded.task;
        let mut services = Services::of(&mut task.document, None, None)?;
        files_of_services(&task, services.as_ref())?;
        let models = models(&task)?;
        let requested = task.document.profile.value.to_string();
        let inputs = services.as_ref().map_or_else(|| container::inputs(&task.document), Services::inputs);
        let profile = self.wish.profile.unwrap_or(task.document.profile.value);
        granted(&task, profile, eval::check_inputs(&task, &inputs))?;
        let facts = docker::facts(&task.document, None);
        // What is refused anyway is not fetched first.
        let (request, plan) = self.planned(&task, None, &facts)?;
        let policy = policy(&request, &plan, Path::new(&self.task))?;
        let unproven = eval_verify::check(self.running.verify, &plan);
        let by_policy = eval::check_inputs(&task, &Inputs { files: policy.files(), ..Inputs::default() });
        let unmet = [eval::check_models(&task, &plan, &models), policy.check(&plan), unproven, by_policy].concat();
        granted(&task, plan.profile, unmet)?;
        let pull = self.running.pull.unwrap_or_default();
        let (name, image) = if let Some(services) = &mut services {
            services.open(&mut task.document, pull, container::secret_mounts(&request)).map_err(Obstacle::Start)?;
            (None, None)
        } else {
            let opened = container::open_image(&task.document, None, (plan.provider, pull), &request);
            opened.map_err(|error| error.either(Obstacle::Image, Obstacle::Start))?
        };
        let (request, mut plan) = self.planned(&task, name, &facts)?;
        let (kind, stack) = match &services {
            Some(services) => {
                services.annotate(&mut plan);
                let kind = services.kinds(&request, &plan).map_err(Obstacle::Start)?.into_iter().next();
                let stack = services.blueprint(&request, &plan).map_err(Obstacle::Start)?;
                (kind.map(|(_, kind)| kind), Some(stack))
            }
            None => (
                container::kind(&request, &plan, image.as_ref(), crate::args::CaptureBy::Passed)
                    .map_err(Obstacle::Start)?,
                None,
            ),
        };
        let revision = revision(Path::new(&self.task));
        let keys = Keys::gather(&plan, |name| std::env::var(name).ok()).map_err(|missing| {
            let problem = Problem::new(missing.to_string()).hint(missing.hint());
            Problems { origin: task.origin.clone(), problems: vec![problem] }
        })?;
        let signer = Signer::find(self.running.key.as_deref())?;
        let mut secrets = secrets(&task, &policy, &models);
        secrets.extend(signer.secret());
        secrets.extend(services.iter().flat_map(Services::secrets));
        secrets.extend(keys.values().map(|key| key.expose_secret().to_owned()));
        crate::panics::remember(&secrets);
        let redactor = Redactor::new(secrets, log::redact::KEYS);
        nameless(&task, &redactor)?;
        let audit_key = std::env::var(AUDIT_KEY).ok().filter(|key| !key.is_empty()).map(SecretString::from);
        let config = match &services {
            Some(services) => services.config(),
            None => image.as_ref().map(Found::config).unwrap_or_default(),
        };
        let environment = exec::environment(&task.document, &config);
        let surroundings = Surroundings { environment, directory: config.workdir, user: config.user };
        let job = Job {
            task,
            requested,
            plan,
            kind,
            services: stack,
            models,
            surroundings,
            settings: self.settings(),
            redactor,
            keys,
            policy,
            person: None,
            audit_key,
            facts: json!(facts),
            verified: Value::Null,
            receipt: signer.expectation(),
            checkpoint: signer.checkpoint(),
            revision,
            invocation,
            earlier: None,
            set: None,
        };
        let verify = self.running.verify.unwrap_or(Verify::Fast);
        Ok(Ready { job, image, verify, signer })
    }

    /// Where logs go.
    pub(super) fn log_directory(&self) -> PathBuf {
        self.running.log_dir.clone().unwrap_or_else(|| LOGS.into())
    }

    fn settings(&self) -> Settings {
        let running = &self.running;
        let max_samples = running.max_samples.unwrap_or(SAMPLES).min(MOST_SAMPLES);
        Settings {
            max_samples,
            max_sandboxes: running.max_sandboxes.unwrap_or(max_samples).min(MOST_SAMPLES),
            fail_on: running.fail_on_error.unwrap_or(FailOn::Any),
            retry_on_error: running.retry_on_error.unwrap_or(0),
            log_directory: self.log_directory(),
            format: running.log_format.map(Into::into).unwrap_or_default(),
            dns_upstream: running.dns_upstream,
        }
    }

    /// What the log says about how it was asked for.
    fn invocation(&self, loaded: &Loaded) -> Invocation {
        let (wish, running) = (&self.wish, &self.running);
        let path = Path::new(&self.task);
        let path = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.into());
        let mut limits = BTreeMap::new();
        wish.limits.record(&mut limits);
        running.limits.record(&mut limits);
        Invocation {
            schema: Invocation::SCHEMA.into(),
            task_file: self.task.clone(),
            task_path: path.to_string_lossy().into_owned(),
            sources: loaded.task.sources.clone(),
            parameters: wish.parameter.iter().cloned().collect(),
            profile: wish.profile.map(|profile| profile.to_string()),
            approval: wish.approval.as_ref().map(ToString::to_string),
            justification: wish.justification.clone(),
            model: self.model.clone(),
            model_roles: roles(&wish.model_role),
            limit: wish.limit.map(|slice| slice.to_string()),
            sample_ids: wish.sample_id.clone(),
            epochs: wish.epochs,
            limits,
            environment: loaded.granted.clone(),
            max_samples: running.max_samples.unwrap_or(SAMPLES),
            max_sandboxes: running.max_sandboxes,
            fail_on_error: running.fail_on_error.map(|when| when.to_string()),
            retry_on_error: running.retry_on_error,
            changed_task: self.changed_task,
            granted: self.grants.words().into_iter().map(str::to_owned).collect(),
        }
    }

    fn planned(&self, task: &Task, image: Option<String>, facts: &Facts) -> Result<(Request, Plan), Obstacle> {
        let overrides = Overrides {
            profile: self.wish.profile,
            image,
            approval: self.wish.approval.clone(),
            justification: self.wish.justification.clone(),
            dangerously_mount_secrets: self.running.dangerously_mount_secrets,
            ..Overrides::default()
        };
        let request = Request::resolve(task.document.clone(), &input::environment()?, overrides);
        let plan = profile::compile(&request, facts)?;
        granted(task, plan.profile, [self.grants.missing(&request, &plan), eval::check(task, &plan)].concat())?;
        Ok((request, plan))
    }
}

/// Files for services that there are not would be written nowhere.
fn files_of_services(task: &Task, services: Option<&Services>) -> Result<(), Problems> {
    let known = |name: &str| services.map_or(name == "default", |services| services.has(name));
    let named = task.dataset.samples.iter().flat_map(|sample| sample.files.keys().map(move |path| (sample, path)));
    let unknown = named.filter_map(|(sample, path)| {
        let service = eval::task::of_service(path).0.filter(|service| !known(service))?;
        let message = format!("sample `{}` has the file `{path}`, and there is no service `{service}`", sample.id);
        Some(Problem::new(message).hint("name a service of the Compose file, or leave it out"))
    });
    let problems: Vec<Problem> = unknown.take(20).collect();
    if problems.is_empty() { Ok(()) } else { Err(Problems { origin: task.origin.clone(), problems }) }
}

/// Nothing may stand between a task and its plan.
fn granted(task: &Task, profile: Profile, unmet: Vec<Unmet>) -> Result<(), Refusal> {
    if unmet.is_empty() {
        return Ok(());
    }
    let origin = Some(task.origin.clone());
    Err(Refusal { schema: Refusal::SCHEMA, profile, origin, unmet, nearest: Vec::new() })
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
    let of_samples = task.dataset.samples.iter().map(|sample| &sample.own);
    let of_samples =
        of_samples.flat_map(|own| own.model.iter().chain(own.model_roles.values().flat_map(|role| &role.models)));
    let in_roles = task.model_roles.values().flat_map(|role| &role.models);
    if task.model.iter().chain(in_roles).chain(of_samples).any(holds) {
        let problem = Problem::new("the name of a model holds a secret");
        let problem = problem.hint("give it another name: names are written everywhere");
        return Err(Problems { origin: task.origin.clone(), problems: vec![problem] });
    }
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
