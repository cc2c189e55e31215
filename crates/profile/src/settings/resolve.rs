//! Documents, variables and options to one [`Request`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::environment::{Environment, Switch};
use super::layers::{Layers, Ledger, Provenance, Source};
use super::raise;
use crate::affordance::Affordance;
use crate::approval::Approval;
use crate::catalogue::WRITE_TOOLS;
use crate::document::{Document, FileMode, Phase, Preflight, Provider, Stated};
use crate::glob::Glob;
use crate::level::{Isolation, Profile};
use crate::problem::Located;
use crate::refusal::Unmet;
use crate::rules::AllowRule;
use crate::units::Bytes;

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Another profile than the document's.
    pub profile: Option<Profile>,
    /// Another provider.
    pub sandbox: Option<Provider>,
    /// Another image.
    pub image: Option<String>,
    /// Further names to allow.
    pub allow: Vec<AllowRule>,
    /// Another approval policy.
    pub approval: Option<Approval>,
    /// A justification.
    pub justification: Option<String>,
    /// Mounts may hold credentials. Only the command line says so: no document has a key for it.
    pub dangerously_mount_secrets: bool,
}

/// How the file tools behave, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileToolsInForce {
    /// Where they work.
    pub mode: FileMode,
    /// The directory they are confined to in sandbox mode.
    pub root: String,
    /// Whether they may only read.
    pub read_only: bool,
    /// The largest file they touch.
    pub max_bytes: Bytes,
    /// What happens when the sandbox cannot serve them.
    pub preflight: Preflight,
    /// Every list must have a glob that covers a path; without a list, which is written as null, everything is allowed.
    #[serde(serialize_with = "null_if_none")]
    pub allow: Vec<Vec<Glob>>,
    /// Globs that no path may be covered by.
    pub deny: Vec<Glob>,
}

/// In a document an empty list of allowed paths allows nothing: what allows everything must not look like it.
fn null_if_none<S: serde::Serializer>(lists: &[Vec<Glob>], serializer: S) -> Result<S::Ok, S::Error> {
    if lists.is_empty() { serializer.serialize_none() } else { lists.serialize(serializer) }
}

impl FileToolsInForce {
    /// The glob that keeps a file below the root from being touched, if one does; `None` in it is a missing one.
    pub fn forbids(&self, path: &str) -> Option<Option<&Glob>> {
        if let Some(glob) = self.deny.iter().find(|glob| glob.covers(path)) {
            return Some(Some(glob));
        }
        let allowed = self.allow.iter().all(|list| list.iter().any(|glob| glob.covers(path)));
        (!allowed).then_some(None)
    }

    /// The same for looking into a directory: something in it may be allowed. The root is the empty path.
    pub fn forbids_looking_into(&self, directory: &str) -> Option<Option<&Glob>> {
        if let Some(glob) = self.deny.iter().find(|glob| glob.covers(directory)) {
            return Some(Some(glob));
        }
        let allowed = self.allow.iter().all(|list| list.iter().any(|glob| glob.reaches_into(directory)));
        (!allowed).then_some(None)
    }
}

/// What a request was made of, kept so that it can be made again under another profile.
#[derive(Debug, Clone)]
struct Inputs {
    document: Document,
    environment: Environment,
    overrides: Overrides,
}

/// Everything that is asked for, after all layers.
#[derive(Debug, Clone)]
pub struct Request {
    /// The profile in force.
    pub profile: Profile,
    /// The document with the layers above it applied; its own `profile` stays what the file states.
    pub document: Document,
    /// How the file tools behave.
    pub file_tools: FileToolsInForce,
    /// Tools beside the standard set that a switch asks for; empty where the document lists its tools.
    pub extra_tools: Vec<Affordance>,
    /// Tools that a setting narrows away, with the setting.
    pub narrowed: BTreeMap<String, String>,
    /// Whether calls of one step may be made at the same time.
    pub parallel_calls: bool,
    /// Every setting's value and where it came from.
    pub provenance: Vec<Provenance>,
    /// What the settings ask for beyond the file or the profile.
    pub conflicts: Vec<Unmet>,
    /// Things worth telling.
    pub notes: Vec<String>,
    /// Mounts may hold credentials.
    pub dangerously_mount_secrets: bool,
    inputs: Box<Inputs>,
}

impl Request {
    /// Applies environment and command line to a document.
    pub fn resolve(document: Document, environment: &Environment, overrides: Overrides) -> Self {
        let inputs = Box::new(Inputs { document, environment: environment.clone(), overrides });
        let Inputs { mut document, environment, overrides } = (*inputs).clone();
        let mut ledger = Ledger::default();
        // A profile without a place was given on the command line, not in a file.
        let from_file = document.profile.place.is_some();
        let stated = document.profile.value;
        let profile = ledger.settle(
            Layers {
                setting: "profile",
                default: (stated, Source::Default),
                file: from_file.then_some((stated, document.profile.place)),
                environment: environment.profile.map(|profile| ("INSPECT_PROFILE", profile)),
                command_line: overrides.profile.or((!from_file).then_some(stated)),
            },
            |file, wanted| file <= wanted,
        );
        let mut notes = Vec::new();
        raise::apply(&mut document, profile, &mut notes);
        settle_approval(&mut ledger, &mut document, &environment, overrides.approval.clone());
        settle_limits(&mut ledger, &mut document, &environment);
        let file_tools = settle_file_tools(&mut ledger, &document, &environment, profile);
        apply_overrides(&mut document, &overrides);
        ledger.provenance.extend(unlayered(&document, &overrides));

        let Ledger { provenance, conflicts } = ledger;
        let mut request = Self {
            profile,
            document,
            file_tools,
            extra_tools: Vec::new(),
            narrowed: BTreeMap::new(),
            parallel_calls: true,
            provenance,
            conflicts,
            notes,
            dangerously_mount_secrets: overrides.dangerously_mount_secrets,
            inputs,
        };
        request.apply_switches(&environment);
        request.narrow_writes(&environment);
        request
    }

    /// The same request as if `profile` had been stated in the first place.
    pub(crate) fn under(&self, profile: Profile) -> Self {
        let Inputs { mut document, mut environment, mut overrides } = (*self.inputs).clone();
        document.profile.value = profile;
        environment.profile = None;
        overrides.profile = None;
        overrides.sandbox = overrides.sandbox.filter(|provider| provider.isolation() == profile.isolation);
        let disagrees =
            document.sandbox.as_ref().is_some_and(|choice| choice.value.provider.isolation() != profile.isolation);
        if disagrees {
            document.sandbox = None;
            document.runtime = None;
        }
        Self::resolve(document, &environment, overrides)
    }
}

/// What the operator says on top of the file.
fn apply_overrides(document: &mut Document, overrides: &Overrides) {
    let Overrides { sandbox, image, allow, justification, .. } = overrides.clone();
    document.sandbox = sandbox.map(|provider| Located::nowhere(provider.into())).or(document.sandbox.take());
    document.image = image.map(Located::nowhere).or(document.image.take());
    document.justification = justification.map(Located::nowhere).or(document.justification.take());
    // Where the agent has a list of its own, that is the one that an operator means too.
    if let Some(own) = document.phases.get_mut(&Phase::Agent).and_then(|zone| zone.rules.as_mut()) {
        own.allow.extend(allow.iter().cloned());
    }
    document.network.rules.allow.extend(allow);
}

/// The settings that only the file and the command line can give.
fn unlayered(document: &Document, overrides: &Overrides) -> Vec<Provenance> {
    // A located value without a place was given on the command line.
    fn stated<T>(
        setting: &'static str,
        value: Option<&Located<T>>,
        show: impl Fn(&T) -> String,
        absent: &str,
    ) -> Provenance {
        match value {
            None => Provenance::plain(setting, absent, Source::Default),
            Some(Located { value, place: None }) => Provenance::plain(setting, show(value), Source::CommandLine),
            Some(Located { value, place }) => Provenance::plain(setting, show(value), Source::File(*place)),
        }
    }
    let allowed: Vec<String> = document.network.rules.allow.iter().map(ToString::to_string).collect();
    let network = match (overrides.allow.is_empty(), document.network.place) {
        (false, _) => Source::CommandLine,
        (true, Some(place)) => Source::File(Some(place)),
        (true, None) => Source::Default,
    };
    let tools = match &document.tools {
        None => Provenance::plain("tools", "the standard set", Source::Default),
        Some(tools) => {
            let names: Vec<&str> = tools.iter().map(|tool| tool.value.name.as_str()).collect();
            Provenance::plain("tools", names.join(", "), Source::File(tools.first().and_then(|tool| tool.place)))
        }
    };
    vec![
        stated("sandbox", document.sandbox.as_ref(), |choice| choice.provider.to_string(), "by the profile's H"),
        stated("runtime", document.runtime.as_ref(), |runtime| runtime.0.clone(), "the provider's"),
        stated("image", document.image.as_ref(), Clone::clone, "by the sandbox"),
        Provenance::plain(
            "network.allow",
            if allowed.is_empty() { "nothing".into() } else { allowed.join(", ") },
            network,
        ),
        tools,
        stated("audit", document.audit.as_ref(), ToString::to_string, "beside the log"),
        stated("justification", document.justification.as_ref(), Clone::clone, "none"),
    ]
}

fn settle_approval(
    ledger: &mut Ledger,
    document: &mut Document,
    environment: &Environment,
    command_line: Option<Approval>,
) {
    struct Policy(Option<Approval>);
    impl std::fmt::Display for Policy {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match &self.0 {
                Some(approval) => approval.fmt(f),
                None => f.write_str("none"),
            }
        }
    }
    let file = document.approval.take();
    let policy = ledger.settle(
        Layers {
            setting: "approval",
            default: (Policy(None), Source::Default),
            file: file.map(|approval| (Policy(Some(approval.value)), approval.place)),
            environment: environment
                .approval
                .clone()
                .map(|approval| ("INSPECT_APPROVAL_PRESET", Policy(Some(approval)))),
            command_line: command_line.map(|approval| Policy(Some(approval))),
        },
        |Policy(file), Policy(wanted)| match (file, wanted) {
            (Some(file), Some(wanted)) => {
                file == wanted
                    || matches!((file.strictness(), wanted.strictness()), (Some(file), Some(wanted)) if file <= wanted)
            }
            _ => true,
        },
    );
    document.approval = policy.0.map(Located::nowhere);
}

fn settle_limits(ledger: &mut Ledger, document: &mut Document, environment: &Environment) {
    /// A limit is stated or it is the default; the variable may only lower a stated one.
    macro_rules! settle {
        ($field:ident, $variable:literal, $wanted:expr) => {
            let limit = document.limits.$field;
            document.limits.$field.amount = ledger.settle(
                Layers {
                    setting: concat!("limits.", stringify!($field)),
                    default: (limit.amount, Source::Default),
                    file: (limit.stated != Stated::Nowhere).then(|| (limit.amount, limit.stated.place())),
                    environment: $wanted.map(|wanted| ($variable, wanted)),
                    command_line: None,
                },
                |file, wanted| wanted <= file,
            );
        };
    }
    settle!(tool_timeout, "INSPECT_AGENTS_TOOL_TIMEOUT", environment.tool_timeout);
    settle!(output, "INSPECT_MAX_TOOL_OUTPUT", environment.max_tool_output);
    // The other limits have no variable: the file's or the default.
    for (setting, value, stated) in document.limits.entries() {
        if ledger.provenance.iter().any(|settled| settled.setting == setting) {
            continue;
        }
        let source = match stated {
            Stated::Nowhere => Source::Default,
            Stated::File(place) => Source::File(Some(place)),
            Stated::CommandLine => Source::CommandLine,
        };
        ledger.provenance.push(Provenance { setting, value, source, overrides: None });
    }
}

fn settle_file_tools(
    ledger: &mut Ledger,
    document: &Document,
    environment: &Environment,
    profile: Profile,
) -> FileToolsInForce {
    let stated = &document.file_tools;
    let mode = ledger.settle(
        Layers {
            setting: "file_tools.mode",
            default: (FileMode::Store, Source::Default),
            file: stated.mode.as_ref().map(|mode| (mode.value, mode.place)),
            environment: environment.fs_mode.map(|mode| ("INSPECT_AGENTS_FS_MODE", mode)),
            command_line: None,
        },
        |file, wanted| file <= wanted,
    );
    let root = ledger.settle(
        Layers {
            setting: "file_tools.root",
            default: ("/repo".to_owned(), Source::Default),
            file: stated.root.as_ref().map(|root| (root.value.clone(), root.place)),
            environment: environment.fs_root.clone().map(|root| ("INSPECT_AGENTS_FS_ROOT", root)),
            command_line: None,
        },
        |file, wanted| {
            let file = file.trim_end_matches('/');
            wanted.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        },
    );
    // In a sandbox at H1 and above the file tools only read, unless the document names one that writes.
    let names_a_writer = document.tools.iter().flatten().any(|tool| WRITE_TOOLS.contains(&tool.value.name.as_str()));
    let guarded = mode == FileMode::Sandbox && profile.isolation >= Isolation::H1;
    let read_only = ledger.settle(
        Layers {
            setting: "file_tools.read_only",
            default: (guarded && !names_a_writer, if guarded { Source::Profile } else { Source::Default }),
            file: stated.read_only.map(|read_only| (read_only, None)),
            environment: environment.fs_read_only.map(|switch| ("INSPECT_AGENTS_FS_READ_ONLY", switch == Switch::On)),
            command_line: None,
        },
        |file, wanted| file <= wanted,
    );
    let max_bytes = ledger.settle(
        Layers {
            setting: "file_tools.max_bytes",
            default: (Bytes(5_000_000), Source::Default),
            file: stated.max_bytes.as_ref().map(|bytes| (bytes.value, bytes.place)),
            environment: environment.fs_max_bytes.map(|bytes| ("INSPECT_AGENTS_FS_MAX_BYTES", bytes)),
            command_line: None,
        },
        |file, wanted| wanted <= file,
    );
    let preflight = ledger.settle(
        Layers {
            setting: "file_tools.preflight",
            default: if guarded { (Preflight::Force, Source::Profile) } else { (Preflight::Auto, Source::Default) },
            file: stated.preflight.as_ref().map(|preflight| (preflight.value, preflight.place)),
            environment: environment.preflight.map(|preflight| ("INSPECT_SANDBOX_PREFLIGHT", preflight)),
            command_line: None,
        },
        |file, wanted| file <= wanted,
    );
    let (allow, deny) = settle_globs(ledger, document, environment);
    FileToolsInForce { mode, root, read_only, max_bytes, preflight, allow, deny }
}

/// The environment only narrows: what it allows must be allowed by the file too, and what it denies is denied as well.
fn settle_globs(ledger: &mut Ledger, document: &Document, environment: &Environment) -> (Vec<Vec<Glob>>, Vec<Glob>) {
    let stated = &document.file_tools;
    let values = |globs: &[Located<Glob>]| globs.iter().map(|glob| glob.value.clone()).collect::<Vec<_>>();
    let show = |globs: &[Glob]| globs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let or = |text: String, empty: &str| if text.is_empty() { empty.to_owned() } else { text };
    let place = |globs: &[Located<Glob>]| Source::File(globs.first().and_then(|glob| glob.place));

    let file = stated.allow.as_ref().map(|globs| (values(globs), place(globs)));
    let allow: Vec<Vec<Glob>> =
        file.iter().map(|(globs, _)| globs.clone()).chain(environment.fs_allow.clone()).collect();
    let lists: Vec<String> = allow.iter().map(|list| or(show(list), "nothing")).collect();
    let below = file.map(|(globs, source)| (or(show(&globs), "nothing"), source));
    ledger.provenance.push(layered(
        "file_tools.allow",
        or(lists.join("; and also "), "everything"),
        below,
        environment.fs_allow.as_ref().map(|_| "INSPECT_FS_ALLOW"),
    ));

    let file = values(&stated.deny);
    let below = (!file.is_empty()).then(|| (show(&file), place(&stated.deny)));
    let deny: Vec<Glob> = file.into_iter().chain(environment.fs_deny.iter().flatten().cloned()).collect();
    ledger.provenance.push(layered(
        "file_tools.deny",
        or(show(&deny), "nothing"),
        below,
        environment.fs_deny.as_ref().map(|_| "INSPECT_FS_DENY"),
    ));
    (allow, deny)
}

fn layered(
    setting: &'static str,
    value: String,
    file: Option<(String, Source)>,
    variable: Option<&'static str>,
) -> Provenance {
    match (variable, file) {
        (Some(variable), overrides) => Provenance { setting, value, source: Source::Environment(variable), overrides },
        (None, Some((_, source))) => Provenance::plain(setting, value, source),
        (None, None) => Provenance::plain(setting, value, Source::Default),
    }
}
