//! The whole judgement: a plan as it would be, and everything that speaks against it.

use super::controls::{self, Enforcement};
use super::network::zones;
use super::{Image, Pin, Plan, residual, statements, tooling};
use crate::document::{CGROUP_LIMITS, Provider};
use crate::facts::Facts;
use crate::level::Tooling;
use crate::refusal::{Cause, Unmet};
use crate::settings::Request;

/// A plan that holds if `unmet` is empty.
pub(super) struct Assessment {
    pub(super) plan: Plan,
    pub(super) unmet: Vec<Unmet>,
}

pub(super) fn assess(request: &Request, facts: &Facts) -> Assessment {
    let (profile, document) = (request.profile, &request.document);
    let mut unmet = request.conflicts.clone();

    let choice = document.sandbox.as_ref();
    let named = choice.map(|choice| choice.value.provider);
    let provider = named
        .filter(|named| named.isolation() == profile.isolation)
        .unwrap_or(Provider::default_for(profile.isolation));
    if let Some(named) = named.filter(|named| named.isolation() != profile.isolation) {
        unmet.push(
            Unmet::new(
                Cause::Contradiction,
                "sandbox",
                format!("`sandbox: {named}` is {}, but the profile is {profile}", named.isolation()),
            )
            .hint(format!(
                "use {} for {}, or change the profile's H",
                Provider::names_for(profile.isolation),
                profile.isolation
            ))
            .at(choice.and_then(|choice| choice.place)),
        );
    }
    unmet.extend(runtime_conflict(request, provider));
    let provider_config = choice.and_then(|choice| choice.value.config.clone()).filter(|_| named == Some(provider));
    let image = match agent_image(request, provider, provider_config.as_deref()) {
        Ok(image) => image,
        Err(obstacle) => {
            unmet.push(obstacle);
            None
        }
    };

    let zones = zones(profile, document, provider);
    // Phases and services may differ from the profile's letter; every level that occurs must be enforceable.
    let mut levels = zones.levels();
    levels.insert(profile.network);
    let weakest = levels.iter().copied().min().unwrap_or(profile.network);
    let stated_limit = document
        .limits
        .entries()
        .into_iter()
        .find_map(|(name, _, place)| (place.is_some() && CGROUP_LIMITS.contains(&name)).then_some(name));
    let Enforcement { mut controls, residual: lost, unmet: unenforced } =
        controls::enforce(provider, &levels, facts, stated_limit);
    if profile.tooling > Tooling::T0 {
        let promise = if profile.tooling == Tooling::T1 {
            "the agent cannot run code of its own"
        } else {
            "the agent has no tools"
        };
        controls.push(super::Control {
            id: "tooling.granted",
            promise: promise.into(),
            mechanism: "only granted tools are offered and accepted".into(),
        });
    }
    controls.push(super::Control {
        id: "phases.separate",
        promise: "setup ends before the agent starts; the agent ends before the scorer starts".into(),
        mechanism: "processes and connections are ended between phases".into(),
    });
    unmet.extend(unenforced);
    let judged = tooling::affordances(request);
    unmet.extend(zones.unmet);
    unmet.extend(judged.unmet);
    unmet.extend(statements::missing(profile, document, weakest));

    let mut plan = Plan {
        schema: Plan::SCHEMA,
        profile,
        provider,
        provider_config,
        runtime: document.runtime.as_ref().map(|runtime| runtime.value.clone()),
        kernel_boundary: controls::kernel_boundary(provider, document.runtime.as_ref().map(|runtime| &runtime.value)),
        image,
        controls,
        affordances: judged.granted,
        withheld: judged.withheld,
        file_tools: request.file_tools.clone(),
        approval: document.approval.as_ref().map(|approval| approval.value.clone()),
        audit: document.audit.as_ref().map(|audit| audit.value.clone()).unwrap_or_default(),
        justification: document.justification.as_ref().map(|text| text.value.clone()),
        network: zones.network,
        services: zones.services,
        limits: document.limits.clone(),
        recorded: Vec::new(),
        residual: Vec::new(),
        notes: request.notes.clone(),
    };
    plan.recorded = residual::recorded(&plan);
    plan.residual = residual::remaining(&plan);
    plan.residual.extend(lost);
    plan.notes.extend(residual::notes(&plan));
    Assessment { plan, unmet }
}

fn runtime_conflict(request: &Request, provider: Provider) -> Option<Unmet> {
    let runtime = request.document.runtime.as_ref()?;
    (!matches!(provider, Provider::Docker | Provider::K8s)).then(|| {
        Unmet::new(
            Cause::Contradiction,
            "runtime",
            format!("`runtime: {}` means nothing to `sandbox: {provider}`", runtime.value.0),
        )
        .hint("remove it, or use sandbox: docker or k8s")
        .at(runtime.place)
    })
}

/// The agent's image. Only the machine that has the host's files can show them, so elsewhere an image must be named.
fn agent_image(request: &Request, provider: Provider, config: Option<&str>) -> Result<Option<Image>, Unmet> {
    let stated = request.document.image.as_ref();
    let has_host_files = match provider {
        Provider::Local | Provider::Container => true,
        Provider::Docker | Provider::K8s | Provider::Proxmox | Provider::Qemu => false,
    };
    match stated {
        None if has_host_files => Ok(Some(image_plan("host"))),
        None if config.is_some() => Ok(None),
        None => Err(Unmet::new(Cause::Required, "image", format!("`sandbox: {provider}` needs an image"))
            .hint("state image: NAME (--image on the command line)")),
        Some(image) => {
            let plan = image_plan(&image.value);
            if plan.pin == Pin::Unpinned && !has_host_files {
                return Err(Unmet::new(
                    Cause::Contradiction,
                    "image",
                    format!("`sandbox: {provider}` cannot show the host's files, and the image is `{}`", image.value),
                )
                .hint("name an image by tag or digest")
                .at(image.place));
            }
            Ok(Some(plan))
        }
    }
}

/// How surely a reference names one image.
pub(super) fn image_plan(reference: &str) -> Image {
    let digest = reference
        .rsplit_once("@sha256:")
        .is_some_and(|(_, hex)| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let pin = if reference == "host" || reference.starts_with("dir:") {
        Pin::Unpinned
    } else if digest {
        Pin::Digest
    } else {
        Pin::AtStart
    };
    Image { reference: reference.to_owned(), pin }
}
