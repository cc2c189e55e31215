//! Text to [`Document`].

use std::collections::BTreeMap;

use super::file_tools::FileTools;
use super::limits::Limits;
use super::mount::{self, Mount};
use super::network::{RulesSection, Zone, read_section, read_zone};
use super::sandbox::{Provider, Runtime, SandboxChoice};
use super::search::SearchProvider;
use super::tools::{is_identifier, read_environment, read_tool};
use super::{Document, Phase, Service};
use crate::approval::{Approval, Audit, ParseApprovalError};
use crate::level::{ParseProfileError, Profile};
use crate::problem::{Located, Place, Problem, Problems};
use crate::reader::{Complaints, Fields, parsed, text};
use crate::rules::PortNumber;
use crate::yaml::{self, Node, Value};

impl Document {
    /// Its keys.
    pub const KEYS: &[&str] = &[
        "profile",
        "sandbox",
        "provider",
        "runtime",
        "allow_setuid",
        "image",
        "network",
        "tools",
        "mounts",
        "environment",
        "approval",
        "audit",
        "limits",
        "file_tools",
        "phases",
        "services",
        "justification",
    ];

    /// A document that says nothing but its profile.
    pub fn bare(profile: Profile, origin: impl Into<String>) -> Self {
        Self {
            origin: origin.into(),
            profile: Located::nowhere(profile),
            sandbox: None,
            runtime: None,
            allow_setuid: None,
            image: None,
            network: RulesSection::default(),
            tools: None,
            search: None,
            mounts: Vec::new(),
            environment: BTreeMap::new(),
            approval: None,
            audit: None,
            limits: Limits::default(),
            file_tools: FileTools::default(),
            phases: BTreeMap::new(),
            services: BTreeMap::new(),
            justification: None,
        }
    }

    /// Reads a document; `origin` names it in messages.
    pub fn parse(origin: impl Into<String>, text: &str) -> Result<Self, Problems> {
        let origin = origin.into();
        let complaints = Complaints::default();
        let document = match yaml::parse(text) {
            Ok(node) => Fields::open(node, "a profile document", Self::KEYS, &complaints).map(|mut fields| {
                let document = Self::read(&origin, &mut fields);
                fields.close();
                document
            }),
            Err(problem) => {
                complaints.add(problem);
                None
            }
        };
        match (document, complaints.into_problems()) {
            (Some(document), problems) if problems.is_empty() => Ok(document),
            (_, problems) => Err(Problems { origin, problems }),
        }
    }

    /// Takes [`Self::KEYS`] out of a mapping that may have others too. Complaints that follow mean that the result is
    /// not to be used.
    pub fn read(origin: &str, fields: &mut Fields<'_>) -> Self {
        read(origin, fields, fields.complaints())
    }
}

fn read(origin: &str, fields: &mut Fields<'_>, complaints: &Complaints) -> Document {
    let place = fields.place();
    let profile = fields
        .take("profile")
        .map(|node| parsed::<Profile>(node, "profile", complaints, |error: &ParseProfileError| Some(error.hint())));
    if profile.is_none() {
        complaints
            .add(Problem::at(place, format!("{} needs a `profile`", fields.what())).hint("write profile: T0.H1.N2"));
    }
    // The rest is read even when the profile is wrong, so that all problems show at once.
    let any_profile = Located::nowhere(crate::level::TYPICAL[0].0);
    let mut document = Document::bare(any_profile.value, origin);
    document.profile = profile.flatten().unwrap_or(any_profile);

    document.sandbox = read_sandbox(fields, complaints);
    document.runtime = fields
        .text("runtime")
        .filter(|name| !refuse_blank("runtime", name, complaints))
        .map(|name| Located { value: Runtime(name.value), place: name.place });
    document.allow_setuid = read_allow_setuid(fields);
    document.image = fields.text("image").filter(|image| !refuse_blank("image", image, complaints));
    if let Some(node) = fields.take("network") {
        document.network = read_section(node, complaints);
    }
    document.tools = read_tools(fields, &mut document.search, complaints);
    document.mounts = read_mounts(fields, complaints);
    if let Some(node) = fields.take("environment") {
        document.environment = read_environment(node, complaints);
    }
    document.approval = fields.take("approval").and_then(|node| {
        parsed::<Approval>(node, "approval", complaints, |error: &ParseApprovalError| Some(error.hint()))
    });
    document.audit = fields.take("audit").and_then(|node| read_audit(node, complaints));
    if let Some(node) = fields.take("limits") {
        document.limits = Limits::read(node, complaints);
    }
    if let Some(node) = fields.take("file_tools") {
        document.file_tools = FileTools::read(node, complaints);
    }
    if let Some(node) = fields.take("phases") {
        document.phases = read_phases(node, complaints);
    }
    if let Some(node) = fields.take("services") {
        document.services = read_services(node, complaints);
    }
    document.justification =
        fields.text("justification").filter(|text| !refuse_blank("justification", text, complaints));
    document
}

/// `sandbox: docker` or `sandbox: [docker, compose.yaml]`; `provider:` is another name for it.
fn read_sandbox(fields: &mut Fields<'_>, complaints: &Complaints) -> Option<Located<SandboxChoice>> {
    let (sandbox, provider) = (fields.take("sandbox"), fields.take("provider"));
    if let (Some(_), Some(second)) = (&sandbox, &provider) {
        complaints.add(Problem::at(second.place, "`provider` is another name for `sandbox`: state one of them"));
    }
    let node = sandbox.or(provider)?;
    let place = node.place;
    let (name, config) = match node.value {
        Value::List(items) => {
            let Ok([name, config]) = <[Node; 2]>::try_from(items) else {
                complaints.add(Problem::at(place, "a sandbox with a configuration is [provider, file]"));
                return None;
            };
            let config = text(config, "sandbox", complaints)?;
            if refuse_blank("sandbox", &config, complaints) {
                return None;
            }
            (name, Some(config.value))
        }
        value => (Node { place, value }, None),
    };
    let provider = parsed::<Provider>(name, "sandbox", complaints, |_| None)?;
    if config.is_some() && matches!(provider.value, Provider::Local | Provider::Container) {
        complaints.add(
            Problem::at(place, format!("`{}` takes no configuration file", provider.value))
                .hint(format!("write sandbox: {}", provider.value)),
        );
        return None;
    }
    Some(Located::at(place, SandboxChoice { provider: provider.value, config }))
}

/// `allow_setuid: true`, with its place; `false` is the default and says nothing.
fn read_allow_setuid(fields: &mut Fields<'_>) -> Option<Place> {
    let place = fields.place_of("allow_setuid");
    fields.truth("allow_setuid").filter(|allowed| *allowed).and(place)
}

fn read_mounts(fields: &mut Fields<'_>, complaints: &Complaints) -> Vec<Located<Mount>> {
    let mut mounts: Vec<Located<Mount>> = Vec::new();
    for node in fields.list("mounts") {
        let Some(mount) = parsed::<Mount>(node, "mounts", complaints, |_| None) else { continue };
        if let Some(earlier) = mounts.iter().find(|earlier| mount::overlap(&earlier.value, &mount.value)) {
            let message = format!("the target `{}` overlaps with `{}`", mount.value.target, earlier.value.target);
            complaints.add(Problem {
                place: mount.place,
                message,
                hint: Some("give every mount a place of its own".into()),
            });
        }
        mounts.push(mount);
    }
    mounts
}

/// Complains about a text with nothing in it.
fn refuse_blank(key: &str, text: &Located<String>, complaints: &Complaints) -> bool {
    let blank = text.value.trim().is_empty();
    if blank {
        complaints.add(Problem {
            place: text.place,
            message: format!("`{key}` is empty"),
            hint: Some("fill it in, or remove the key".into()),
        });
    }
    blank
}

fn read_tools(
    fields: &mut Fields<'_>,
    search: &mut Option<SearchProvider>,
    complaints: &Complaints,
) -> Option<Vec<Located<crate::affordance::Affordance>>> {
    let node = fields.take("tools")?;
    let Value::List(items) = node.value else {
        complaints.add(Problem::at(node.place, format!("`tools` must be a list, found {}", node.value.kind())));
        return None;
    };
    let mut tools: Vec<Located<crate::affordance::Affordance>> = Vec::new();
    for item in items {
        let Some(tool) = read_tool(item, search, complaints) else { continue };
        if tools.iter().any(|earlier| earlier.value.name == tool.value.name) {
            complaints.add(Problem {
                place: tool.place,
                message: format!("the tool `{}` is listed twice", tool.value.name),
                hint: None,
            });
        }
        tools.push(tool);
    }
    Some(tools)
}

fn read_audit(node: Node, complaints: &Complaints) -> Option<Located<Audit>> {
    let place = node.place;
    match node.value {
        Value::Bool(true) => Some(Located::at(place, Audit::BesideTheLog)),
        Value::Bool(false) => Some(Located::at(place, Audit::Off)),
        Value::Text(word) if word.eq_ignore_ascii_case("on") => Some(Located::at(place, Audit::BesideTheLog)),
        Value::Text(word) if word.eq_ignore_ascii_case("off") => Some(Located::at(place, Audit::Off)),
        // A device takes everything and keeps nothing.
        Value::Text(path) if path.trim().is_empty() || path.starts_with("/dev/") => {
            let problem = Problem::at(place, format!("`audit` cannot be `{path}`"));
            complaints.add(problem.hint("name a file, or write on or off"));
            None
        }
        Value::Text(path) => Some(Located::at(place, Audit::File(path))),
        other => {
            complaints
                .add(Problem::at(place, format!("`audit` must be a file's name, on or off, found {}", other.kind())));
            None
        }
    }
}

fn read_phases(node: Node, complaints: &Complaints) -> BTreeMap<Phase, Zone> {
    let Some(mut fields) = Fields::open(node, "`phases`", &["setup", "agent", "score"], complaints) else {
        return BTreeMap::new();
    };
    let mut phases = BTreeMap::new();
    for phase in Phase::ALL {
        let Some(node) = fields.take(phase.name()) else { continue };
        let Some(mut inner) = Fields::open(node, "a phase", &["network"], complaints) else { continue };
        if let Some(zone) = inner.take("network").and_then(|node| read_zone(node, complaints)) {
            phases.insert(phase, zone);
        }
        inner.close();
    }
    fields.close();
    phases
}

fn read_services(node: Node, complaints: &Complaints) -> BTreeMap<String, Service> {
    let mut services = BTreeMap::new();
    let Value::Map(entries) = node.value else {
        complaints.add(Problem::at(
            node.place,
            format!("`services` must be a mapping of names, found {}", node.value.kind()),
        ));
        return services;
    };
    for (key, node) in entries {
        let name = key.name;
        if !is_identifier(&name) || Phase::ALL.iter().any(|phase| phase.name() == name) {
            complaints.add(
                Problem::at(key.place, format!("`{name}` cannot be a service's name"))
                    .hint("use letters, digits, _ and -; setup, agent and score are phases"),
            );
            continue;
        }
        let Some(mut fields) =
            Fields::open(node, "a service", &["image", "ports", "network", "environment"], complaints)
        else {
            continue;
        };
        let place = fields.place();
        let has_image = fields.has("image");
        let image = fields.text("image").filter(|image| !refuse_blank("image", image, complaints));
        let ports = fields
            .list("ports")
            .into_iter()
            .filter_map(|node| parsed::<PortNumber>(node, "ports", complaints, |_| None).map(|port| port.value.0))
            .collect();
        let network = fields.take("network").and_then(|node| read_zone(node, complaints));
        let environment = fields.take("environment").map(|node| read_environment(node, complaints)).unwrap_or_default();
        fields.close();
        match image {
            Some(image) => {
                let (mounts, limits, place) = (Vec::new(), None, key.place);
                services.insert(name, Service { place, image, ports, network, environment, mounts, limits });
            }
            None if has_image => {}
            None => complaints.add(Problem::at(place, format!("the service `{name}` needs an `image`"))),
        }
    }
    services
}
