//! Documents, variables and options to one [`Request`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::environment::{Environment, Switch};
use super::layers::{Layers, Ledger, Provenance, Source};
use crate::approval::Approval;
use crate::catalogue::{EXECUTION_TOOLS, WEB_BROWSER, WEB_SEARCH, WRITE_TOOLS, default_tools, standard_tool};
use crate::document::{Document, FileMode, Preflight, Provider};
use crate::grant::judge;
use crate::level::{Isolation, Profile};
use crate::problem::Located;
use crate::refusal::{Cause, Unmet};
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
    /// Tools that a setting narrows away, with the setting.
    pub narrowed: BTreeMap<String, String>,
    /// Every setting's value and where it came from.
    pub provenance: Vec<Provenance>,
    /// What the settings ask for beyond the file or the profile.
    pub conflicts: Vec<Unmet>,
    /// Things worth telling.
    pub notes: Vec<String>,
}

impl Request {
    /// Applies environment and command line to a document.
    pub fn resolve(mut document: Document, environment: &Environment, overrides: Overrides) -> Self {
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
        settle_approval(&mut ledger, &mut document, environment, overrides.approval);
        settle_limits(&mut ledger, &mut document, environment);
        let file_tools = settle_file_tools(&mut ledger, &document, environment, profile);

        if let Some(provider) = overrides.sandbox {
            document.sandbox = Some(Located::nowhere(provider.into()));
        } else if document.sandbox.as_ref().is_some_and(|choice| choice.value.provider.isolation() == stated.isolation)
            && profile.isolation != stated.isolation
        {
            // The file's sandbox agreed with the file's H; a raised H takes its own default.
            document.sandbox = None;
        }
        document.image = overrides.image.map(Located::nowhere).or(document.image);
        document.justification = overrides.justification.map(Located::nowhere).or(document.justification);
        document.network.rules.allow.extend(overrides.allow);

        let Ledger { provenance, conflicts } = ledger;
        let mut request =
            Self { profile, document, file_tools, narrowed: BTreeMap::new(), provenance, conflicts, notes: Vec::new() };
        request.apply_switches(environment);
        request.narrow_writes(environment);
        request
    }

    fn apply_switches(&mut self, environment: &Environment) {
        let switches = [
            ("INSPECT_ENABLE_EXEC", environment.enable_exec, EXECUTION_TOOLS),
            ("INSPECT_ENABLE_WEB_SEARCH", environment.enable_web_search, &[WEB_SEARCH]),
            ("INSPECT_ENABLE_WEB_BROWSER", environment.enable_web_browser, &[WEB_BROWSER]),
        ];
        for (variable, switch, tools) in switches {
            match switch {
                None => {}
                Some(Switch::Off) => {
                    self.narrowed.extend(tools.iter().map(|tool| ((*tool).to_owned(), variable.to_owned())));
                }
                Some(Switch::On) => self.switch_on(variable, tools),
            }
        }
    }

    fn switch_on(&mut self, variable: &'static str, tools: &[&str]) {
        let rules = &self.document.network.rules;
        let standard = tools.iter().filter_map(|name| standard_tool(name));
        for tool in standard {
            let mut judged = tool.clone();
            if judged.name == WEB_SEARCH {
                // Whatever its provider, it needs a network.
                judged.reach = crate::affordance::Reach::Web;
            }
            if let Err(withheld) = judge(self.profile, rules, &judged) {
                self.conflicts.push(
                    Unmet::new(
                        Cause::Contradiction,
                        format!("tooling.{}", tool.name),
                        format!(
                            "{variable}=1 asks for `{}`, which {} does not grant: {withheld}",
                            tool.name, self.profile
                        ),
                    )
                    .hint(format!("unset {variable}, or choose a profile that grants it")),
                );
                return;
            }
            match &mut self.document.tools {
                Some(listed) if listed.iter().any(|listed| listed.value.name == tool.name) => {}
                Some(_) => self.notes.push(format!(
                    "{variable} is within the profile, but the document does not list `{}` and the environment cannot add it",
                    tool.name
                )),
                None if tool.name == WEB_SEARCH => self.notes.push(format!(
                    "{variable} is within the profile, but no search provider is declared: list {{name: web_search, reach: [name]}}"
                )),
                None if default_tools().any(|default| default.name == tool.name) => {}
                None => {
                    let defaults = default_tools().filter(|default| judge(self.profile, rules, default).is_ok());
                    self.document.tools = Some(defaults.chain([tool]).map(Located::nowhere).collect());
                }
            }
        }
    }

    /// Read-only file tools have no tools that write.
    fn narrow_writes(&mut self, environment: &Environment) {
        if !self.file_tools.read_only {
            return;
        }
        if let (Some(tools), Some(true)) = (&self.document.tools, self.document.file_tools.read_only)
            && environment.fs_read_only.is_none()
        {
            let writing = tools.iter().find(|tool| WRITE_TOOLS.contains(&tool.value.name.as_str()));
            if let Some(tool) = writing {
                let name = &tool.value.name;
                self.conflicts.push(
                    Unmet::new(
                        Cause::Contradiction,
                        format!("tooling.{name}"),
                        format!("`{name}` writes, and `file_tools` is read_only"),
                    )
                    .hint("remove one of them")
                    .at(tool.place),
                );
            }
        }
        let setting = if environment.fs_read_only == Some(Switch::On) {
            "INSPECT_AGENTS_FS_READ_ONLY"
        } else {
            "file_tools.read_only"
        };
        self.narrowed.extend(WRITE_TOOLS.iter().map(|tool| ((*tool).to_owned(), setting.to_owned())));
    }
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
    let place = file.as_ref().and_then(|approval| approval.place);
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
    document.approval = policy.0.map(|value| Located { value, place });
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
                    file: limit.stated.map(|place| (limit.amount, Some(place))),
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
    for (setting, value, place) in document.limits.entries() {
        if ledger.provenance.iter().any(|settled| settled.setting == setting) {
            continue;
        }
        let source = place.map_or(Source::Default, |place| Source::File(Some(place)));
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
    FileToolsInForce { mode, root, read_only, max_bytes, preflight }
}
