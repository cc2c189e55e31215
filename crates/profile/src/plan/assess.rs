//! The whole judgement: a plan as it would be, and everything that speaks against it.

use std::collections::BTreeSet;

use super::controls::{self, Enforcement};
use super::{Control, Image, Pin, Plan, limits, network, residual, statements, tooling};
use crate::catalogue::WEB_SEARCH;
use crate::document::{Document, Provider};
use crate::facts::Facts;
use crate::level::{Isolation, Tooling};
use crate::problem::Located;
use crate::refusal::{Cause, Unmet};
use crate::settings::Request;
use crate::zones::Zones;

/// A plan that holds if `unmet` is empty.
pub(super) struct Assessment {
    pub(super) plan: Plan,
    pub(super) unmet: Vec<Unmet>,
}

impl Assessment {
    fn is_enforceable(&self) -> bool {
        !self.unmet.iter().any(|obstacle| obstacle.cause == Cause::Unenforceable)
    }
}

/// Assesses a request on the provider that it names, or on the first of its H that can enforce it here.
pub(super) fn assess(request: &Request, facts: &Facts) -> Assessment {
    let isolation = request.profile.isolation;
    let named = request.document.sandbox.as_ref().map(|choice| choice.value.provider);
    let default = named.filter(|named| named.isolation() == isolation).unwrap_or(Provider::default_for(isolation));
    let first = assess_on(default, request, facts);
    if named.is_some() || first.is_enforceable() {
        return first;
    }
    let others = Provider::ALL.into_iter().filter(|other| other.isolation() == isolation && *other != default);
    for other in others {
        let mut second = assess_on(other, request, facts);
        if second.is_enforceable() {
            second
                .plan
                .notes
                .push(format!("`sandbox: {other}` was chosen because `{default}` cannot be enforced on this host"));
            return second;
        }
    }
    first
}

fn assess_on(provider: Provider, request: &Request, facts: &Facts) -> Assessment {
    let (profile, document) = (request.profile, &request.document);
    let mut unmet = request.conflicts.clone();
    unmet.extend(sandbox_conflict(request, provider));
    unmet.extend(runtime_conflict(document, provider));
    unmet.extend(setuid_conflict(document, provider));
    let choice = document.sandbox.as_ref().filter(|choice| choice.value.provider == provider);
    let provider_config = choice.and_then(|choice| choice.value.config.clone());
    let image = agent_image(document, provider, provider_config.as_deref()).unwrap_or_else(|obstacle| {
        unmet.push(obstacle);
        None
    });
    unmet.extend(document.services.values().filter_map(|service| image_conflict(&service.image, provider)));
    if provider.isolation() == Isolation::H0 {
        let place = document.mounts.first().and_then(|mount| mount.place);
        unmet.extend(place.map(|place| {
            Unmet::new(
                Cause::Unenforceable,
                "mounts",
                "a local process has the host's own file system, so nothing can be mounted for it",
            )
            .hint("choose H1 or above, or remove the mounts")
            .at(Some(place))
        }));
    }

    let zones = Zones::of(document, profile);
    // Phases and services may differ from the profile's letter; every level that occurs must be enforceable.
    let levels: BTreeSet<_> = zones.all().map(|zone| zone.level).chain([profile.network]).collect();
    let runtime = document.runtime.as_ref().map(|runtime| runtime.value.clone());
    let kernel_boundary = controls::kernel_boundary(provider, runtime.as_ref());
    let Enforcement { mut controls, residual: mut lost, unmet: unenforced } =
        controls::enforce(provider, kernel_boundary, &levels, facts);
    unmet.extend(unenforced);
    let (limit_controls, unbounded, unlimited) = limits::enforce(provider, facts, &document.limits);
    controls.extend(limit_controls);
    lost.extend(unbounded);
    unmet.extend(unlimited);
    controls.extend(own_controls(profile.tooling));
    unmet.extend(network::conflicts(profile, document, &zones, provider));
    let judged = tooling::affordances(request, &zones);
    unmet.extend(judged.unmet);
    let weakest = levels.first().copied().unwrap_or(profile.network);
    unmet.extend(statements::missing(request, weakest));

    let mut plan = Plan {
        schema: Plan::SCHEMA,
        profile,
        provider,
        provider_config,
        allow_setuid: document.allow_setuid.is_some(),
        kernel_boundary,
        runtime,
        image,
        controls,
        search: document.search.clone().filter(|_| judged.granted.iter().any(|tool| tool.name == WEB_SEARCH)),
        affordances: judged.granted,
        withheld: judged.withheld,
        file_tools: request.file_tools.clone(),
        parallel_calls: request.parallel_calls,
        approval: document.approval.as_ref().map(|approval| approval.value.clone()),
        audit: document.audit.as_ref().map(|audit| audit.value.clone()).unwrap_or_default(),
        justification: document.justification.as_ref().map(|text| text.value.clone()),
        network: network::network_plan(&zones, provider),
        services: network::service_plans(document, &zones),
        limits: document.limits.clone(),
        recorded: Vec::new(),
        residual: Vec::new(),
        notes: request.notes.clone(),
    };
    plan.recorded = residual::recorded(&plan);
    plan.residual = residual::remaining(&plan);
    plan.residual.extend(lost);
    plan.residual.extend(residual::mounted_secrets(request, &plan));
    plan.notes.extend(residual::notes(&plan));
    Assessment { plan, unmet }
}

/// The controls that are ours on every provider.
fn own_controls(tooling: Tooling) -> Vec<Control> {
    let control =
        |id, promise: &str, mechanism: &str| Control { id, promise: promise.into(), mechanism: mechanism.into() };
    let offered = "only granted tools are offered and accepted";
    let granted = match tooling {
        Tooling::T0 => None,
        Tooling::T1 => Some(control("tooling.granted", "no standard tool runs code that the agent writes", offered)),
        Tooling::T2 => Some(control("tooling.granted", "the agent has no tools", offered)),
    };
    let separate = control(
        "phases.separate",
        "setup ends before the agent starts; the agent ends before the scorer starts",
        "processes and connections are ended between phases",
    );
    granted.into_iter().chain([separate]).collect()
}

fn sandbox_conflict(request: &Request, provider: Provider) -> Option<Unmet> {
    let choice = request.document.sandbox.as_ref().filter(|choice| choice.value.provider != provider)?;
    let (named, profile) = (choice.value.provider, request.profile);
    let reason = format!("`sandbox: {named}` is {}, but the profile is {profile}", named.isolation());
    let fitting = Provider::names_for(profile.isolation);
    let other = named.isolation();
    let change = if other < profile.isolation { "; weaker: a profile with" } else { ", or a profile with" };
    Some(
        Unmet::new(Cause::Contradiction, "sandbox", reason)
            .hint(format!("use {fitting} for {}{change} {other}", profile.isolation))
            .at(choice.place),
    )
}

fn runtime_conflict(document: &Document, provider: Provider) -> Option<Unmet> {
    let runtime = document.runtime.as_ref()?;
    (!matches!(provider, Provider::Docker | Provider::K8s)).then(|| {
        let reason = format!("`runtime: {}` means nothing to `sandbox: {provider}`", runtime.value.0);
        Unmet::new(Cause::Contradiction, "runtime", reason)
            .hint("remove it, or use sandbox: docker or k8s")
            .at(runtime.place)
    })
}

/// Only where what root inside can do is bounded anyway may programs become root inside.
fn setuid_conflict(document: &Document, provider: Provider) -> Option<Unmet> {
    let bounded = matches!(provider, Provider::Container | Provider::Docker);
    let place = document.allow_setuid.filter(|_| !bounded)?;
    let reason = format!(
        "`allow_setuid` needs a sandbox that bounds what root inside can do, and `sandbox: {provider}` promises nothing of it"
    );
    Some(
        Unmet::new(Cause::Contradiction, "allow_setuid", reason)
            .hint("use sandbox: container or docker, or remove it")
            .at(Some(place)),
    )
}

/// The agent's image. Only a provider on this machine can show the host's files, so elsewhere an image must be named.
fn agent_image(document: &Document, provider: Provider, config: Option<&str>) -> Result<Option<Image>, Unmet> {
    match &document.image {
        Some(image) => image_conflict(image, provider).map_or_else(|| Ok(Some(image_plan(&image.value))), Err),
        None if has_host_files(provider) => Ok(Some(image_plan("host"))),
        None if config.is_some() => Ok(None),
        None => Err(Unmet::new(Cause::Required, "image", format!("`sandbox: {provider}` needs an image"))
            .hint("state image: NAME (--image on the command line)")),
    }
}

fn has_host_files(provider: Provider) -> bool {
    match provider {
        Provider::Local | Provider::Container => true,
        Provider::Docker | Provider::K8s | Provider::Proxmox | Provider::Qemu => false,
    }
}

/// Why `provider` cannot use `image`, if so.
fn image_conflict(image: &Located<String>, provider: Provider) -> Option<Unmet> {
    let unpinned = image_plan(&image.value).pin == Pin::Unpinned;
    let reason = match provider {
        Provider::Local if image.value != "host" => {
            format!("a local process has the host's own file system, and the image is `{}`", image.value)
        }
        _ if unpinned && !has_host_files(provider) => {
            format!("`sandbox: {provider}` cannot show the host's files, and the image is `{}`", image.value)
        }
        _ => return None,
    };
    Some(
        Unmet::new(Cause::Contradiction, "image", reason)
            .hint("name another image, or another sandbox")
            .at(image.place),
    )
}

/// How surely a reference names one image.
pub(super) fn image_plan(reference: &str) -> Image {
    let digest = reference
        .rsplit_once("@sha256:")
        .is_some_and(|(_, hex)| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    // A snapshot has a digest, and lies on something that may have none: then its reference says on what.
    let on_host_files = reference.ends_with("+host") || reference.contains("+dir:");
    let pin = if reference == "host" || reference.starts_with("dir:") || on_host_files {
        Pin::Unpinned
    } else if digest {
        Pin::Digest
    } else {
        Pin::AtStart
    };
    Image { reference: reference.to_owned(), pin }
}
