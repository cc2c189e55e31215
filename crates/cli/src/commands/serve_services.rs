//! What `serve` makes of Compose files and of documents with services: the same that `run` does.

use std::path::Path;

use profile::{Document, Egress, Plan, Problem, Profile, Provider, Request};
use serve::{Made, Obstacle, SandboxWish, ServicePart};

use super::plan;
use super::serve_workshop::{problem, started};
use super::services::{Services, Task};
use super::verify::of_services;

/// The services that a wish asks for; `None` where its sandbox is all there is.
pub(super) fn of(
    wish: &SandboxWish,
    document: &mut Document,
    (profile, provider): (Option<Profile>, Option<Provider>),
) -> Result<Option<Services>, Obstacle> {
    let mut own = document.clone();
    // What services may reach is at most what the agent may: by the profile in force, not by the one that it replaces.
    if let Some(profile) = profile {
        own.profile.value = profile;
    }
    let task = wish.compose.as_ref().map_or_else(Task::default, |compose| Task {
        root: compose.root.as_ref().map(Into::into),
        variables: compose.variables.clone().unwrap_or_default(),
    });
    let found = match wish.compose.as_ref().map(|compose| (&compose.file, &compose.text, &compose.directory)) {
        Some((_, Some(text), Some(directory))) => {
            only_docker(provider)?;
            Services::of_text(&mut own, text, Path::new(directory), &task).map(Some)
        }
        Some((Some(file), ..)) => {
            only_docker(provider)?;
            Services::of_file(&mut own, Path::new(file), &task).map(Some)
        }
        _ => {
            seen_from_somewhere(&own)?;
            Services::of(&mut own, None, provider)
        }
    };
    let services = found.map_err(|obstacle| match obstacle {
        plan::Obstacle::Problems(problems) => Obstacle::Problems(problems),
        plan::Obstacle::Refusal(refusal) => Obstacle::Refused(refusal),
    })?;
    if services.is_some() {
        *document = own;
    }
    Ok(services)
}

fn only_docker(provider: Option<Provider>) -> Result<(), Obstacle> {
    if provider == Some(Provider::Docker) {
        return Ok(());
    }
    let said = Problem::new("Compose files are for `provider: docker`");
    Err(problem("compose", said.hint("leave the provider out, or send a profile document with an image")))
}

/// A document that names a file must say where it lies itself: the server's own directory means nothing to a client.
fn seen_from_somewhere(document: &Document) -> Result<(), Obstacle> {
    let named = document.sandbox.as_ref().and_then(|choice| choice.value.config.as_deref());
    if named.is_none_or(|name| Path::new(name).is_absolute()) || Path::new(&document.origin).is_absolute() {
        return Ok(());
    }
    let said = Problem::new("`sandbox` names a file, and nobody says from where");
    Err(problem(&document.origin, said.hint("send the document's absolute path as `origin`, or the file as `compose`")))
}

/// What services, whose images are open, and their plan amount to.
pub(super) fn made(
    services: &Services,
    request: &Request,
    plan: Plan,
    (requested, asks): (Profile, bool),
) -> Result<Made, Obstacle> {
    let blueprint = services.blueprint(request, &plan).map_err(|error| started(&error))?;
    let kinds = services.kinds(request, &plan).map_err(|error| started(&error))?;
    let image = |name: &str| {
        let own = plan.services.get(name).map(|service| &service.image).or(plan.image.as_ref());
        own.map_or_else(String::new, |image| image.reference.clone())
    };
    let reaches = |name: &str| {
        let found = blueprint.services.iter().find(|service| service.name == name);
        found.map_or(Egress::Nothing, |service| service.egress.clone())
    };
    let parts = services.surroundings(request).into_iter().map(|(name, around)| {
        let part = ServicePart {
            kind: None,
            egress: reaches(&name),
            environment: around.environment,
            workdir: Some(around.directory),
            user: around.user.filter(|user| !user.is_empty()),
            image: image(&name),
        };
        (name, part)
    });
    Ok(Made {
        requested,
        default: blueprint.default.clone(),
        services: parts.collect(),
        subjects: of_services(requested, &plan, kinds),
        blueprint: Some(blueprint),
        asks,
        plan,
        held: Box::new(()),
    })
}
