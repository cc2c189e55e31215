//! What `serve` needs of the command: from a wish to a plan and a kind of sandbox, and a signature for a log.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::docker::Pull;
use profile::{
    Approval, Document, Egress, Facts, Grants, Overrides, Plan, Problem, Problems, Profile, Provider, Request,
};
use receipt::SigningKey;
use sandbox::StartError;
use serve::{Made, Obstacle, ReceiptObstacle, SandboxWish, ServicePart, Workshop};
use verify::Subject;

use super::container::{self, Found};
use super::receipts::{Place, place};
use super::{docker, exec, grants, input, serve_services};

/// How long the host is believed to be as it was: probing it costs more than a sandbox.
const FACTS: Duration = Duration::from_mins(1);
/// The service of a sandbox that has only one.
const ONLY: &str = "default";
/// The policy that puts names before a person; the plan knows it as the preset that needs one.
const HUMAN: &str = "human";

/// The command's workshop.
#[derive(Debug)]
pub(super) struct Bench {
    /// What the operator granted when the server was started. Requests grant nothing: clients send documents of tasks.
    grants: Grants,
    facts: Mutex<Option<(Instant, Facts)>>,
    /// The operator's word when the server was started; no client has it.
    dangerously_mount_secrets: bool,
}

/// The causes of an error in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub(super) fn problem(origin: &str, problem: Problem) -> Obstacle {
    Obstacle::Problems(Problems { origin: origin.to_owned(), problems: vec![problem] })
}

pub(super) fn started(error: &StartError) -> Obstacle {
    match error {
        StartError::Mount { hint, .. } | StartError::MountContents { hint, .. } => {
            let said = Problem::new(chain(error));
            problem("mounts", hint.map_or(said.clone(), |hint| said.hint(hint)))
        }
        StartError::MountSource { .. } => problem("mounts", Problem::new(chain(error))),
        _ => Obstacle::Unavailable(chain(error)),
    }
}

impl Bench {
    /// `dangerously_mount_secrets`: whether mounts may hold credentials.
    pub(super) fn new(grants: Grants, dangerously_mount_secrets: bool) -> Self {
        Self { grants, facts: Mutex::default(), dangerously_mount_secrets }
    }

    /// What this host can enforce. A daemon is asked each time: it comes and goes.
    fn facts(&self, document: &Document, provider: Option<Provider>) -> Facts {
        let named = document.sandbox.as_ref().map(|choice| choice.value.provider);
        if provider.or(named) == Some(Provider::Docker) {
            return docker::facts(document, provider);
        }
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref().filter(|(when, _)| when.elapsed() < FACTS) {
            Some((_, facts)) => facts.clone(),
            None => known.insert((Instant::now(), docker::facts(document, provider))).1.clone(),
        }
    }
}

/// The document that a wish amounts to.
fn document(wish: &SandboxWish) -> Result<(Document, Option<Profile>), Obstacle> {
    let profile = match &wish.profile {
        None => None,
        Some(text) => Some(text.parse::<Profile>().map_err(|error| {
            let hint = error.hint().clone();
            problem("profile", Problem::new(error.to_string()).hint(hint))
        })?),
    };
    match (&wish.document, profile) {
        (Some(text), profile) => {
            let origin = wish.origin.as_deref().unwrap_or("the document");
            Ok((Document::parse(origin, text)?, profile))
        }
        (None, Some(profile)) => Ok((Document::bare(profile, "the request"), None)),
        (None, None) => Err(problem("the request", Problem::new("it names no profile"))),
    }
}

/// Who says yes: stated, the document's, or the operator whose own client this is. And whether a person is asked.
fn approval(wish: &SandboxWish, document: &Document) -> Result<(Option<Approval>, bool), Obstacle> {
    match wish.approval.as_deref() {
        Some(HUMAN) => Ok((Some(Approval::Dev), true)),
        Some(text) => {
            let stated = text.parse::<Approval>();
            let stated = stated.map_err(|error| {
                problem("approval", Problem::new(error.to_string()).hint(format!("{}; or human", error.hint())))
            })?;
            Ok((Some(stated), false))
        }
        None => Ok((document.approval.is_none().then_some(Approval::Operator), false)),
    }
}

impl Workshop for Bench {
    fn prepare(&self, wish: &SandboxWish) -> Result<Made, Obstacle> {
        let (mut document, profile) = document(wish)?;
        let stated = match &wish.provider {
            None => None,
            Some(name) => Some(name.parse::<Provider>().map_err(|error| {
                let known = Provider::ALL.map(|provider| provider.to_string()).join(", ");
                problem("provider", Problem::new(error.to_string()).hint(format!("providers are: {known}")))
            })?),
        };
        // A Compose file means Docker.
        let provider = stated.or(wish.compose.as_ref().map(|_| Provider::Docker));
        let (approval, asks) = approval(wish, &document)?;
        let requested = profile.unwrap_or(document.profile.value);
        let mut services = serve_services::of(wish, &mut document, (profile, provider))?;
        let environment = input::environment()?;
        let facts = self.facts(&document, provider);
        let planned = |document: &Document, image: Option<String>| -> Result<(Request, Plan), Obstacle> {
            let overrides = Overrides {
                profile,
                sandbox: provider,
                image,
                approval: approval.clone(),
                justification: wish.justification.clone(),
                dangerously_mount_secrets: self.dangerously_mount_secrets,
                ..Overrides::default()
            };
            let request = Request::resolve(document.clone(), &environment, overrides);
            let refused = |refusal| Obstacle::Refused(Box::new(refusal));
            let plan = profile::compile(&request, &facts).map_err(refused)?;
            grants::check(self.grants, &request, &plan).map_err(refused)?;
            Ok((request, plan))
        };
        // What is refused anyway is not fetched first.
        let (request, plan) = planned(&document, wish.image.clone())?;
        let asks = |plan: &Plan| asks || plan.approval == Some(Approval::Dev);
        if let Some(services) = &mut services {
            services
                .open(&mut document, Pull::default(), container::secret_mounts(&request))
                .map_err(|error| started(&error))?;
            let (request, mut plan) = planned(&document, None)?;
            services.annotate(&mut plan);
            let asks = asks(&plan);
            return serve_services::made(services, &request, plan, (requested, asks));
        }
        // A sandbox without the services that its plan has would be less than the plan says.
        if !plan.services.is_empty() || plan.provider_config.is_some() {
            let said = Problem::new(format!("services are not served with `sandbox: {}`", plan.provider));
            return Err(problem(&document.origin, said.hint("say `provider: docker`, or leave them out")));
        }
        let opened =
            container::open_image(&document, wish.image.as_deref(), (plan.provider, Pull::default()), &request);
        let (name, image) = opened.map_err(|error| {
            error.either(|error| problem("image", Problem::new(chain(&error))), |error| started(&error))
        })?;
        let (request, plan) = planned(&document, name)?;
        let kind = container::kind(&request, &plan, image.as_ref(), crate::args::CaptureBy::Passed)
            .map_err(|error| started(&error))?;
        let subject = kind.clone().map(|kind| {
            let (plan, offered) = (plan.clone(), plan.affordances.clone());
            (None, Subject { requested, plan, kind, offered })
        });
        let config = image.as_ref().map(Found::config).unwrap_or_default();
        let part = ServicePart {
            kind,
            egress: plan.network.phases.get("agent").map_or(Egress::Nothing, |zone| zone.egress.clone()),
            environment: exec::environment(&request.document, &config),
            workdir: config.workdir.clone(),
            user: config.user.clone().filter(|user| !user.is_empty()),
            image: plan.image.as_ref().map_or_else(|| "host".to_owned(), |image| image.reference.clone()),
        };
        Ok(Made {
            requested,
            asks: asks(&plan),
            plan,
            default: ONLY.into(),
            services: BTreeMap::from([(ONLY.to_owned(), part)]),
            blueprint: None,
            subjects: subject.into_iter().collect(),
            held: Box::new(image),
        })
    }

    fn receipt(&self, log: &Path) -> Result<PathBuf, ReceiptObstacle> {
        let path = match place(None) {
            Place::Stated(path) => path,
            Place::Usual(path) if path.symlink_metadata().is_ok() => path,
            Place::Usual(_) | Place::Nowhere => return Err(ReceiptObstacle::NoKey),
        };
        let failed = |error: &dyn Error| ReceiptObstacle::Failed(chain(error));
        let key = SigningKey::read(&path).map_err(|error| failed(&error))?;
        receipt::issue(log, &key).map_err(|error| failed(&error))
    }
}
