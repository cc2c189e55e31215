//! Affordances: what is requested, judged by the profile.

use super::NotGranted;
use crate::affordance::{Affordance, Kind, Reach, Runs, Sensitivity};
use crate::catalogue::{FILE_TOOLS, default_tools};
use crate::document::{FileMode, MountMode};
use crate::grant::{Withheld, judge};
use crate::problem::Located;
use crate::refusal::{Cause, Unmet};
use crate::settings::Request;
use crate::zones::Zones;

#[derive(Default)]
pub(super) struct Judged {
    pub(super) granted: Vec<Affordance>,
    pub(super) withheld: Vec<NotGranted>,
    pub(super) unmet: Vec<Unmet>,
}

/// Judges every affordance by what the agent's own network grants. What a document lists by name must be granted, or the
/// document contradicts itself; what the standard set offers, and what a raised profile or a variable takes away, is
/// withheld and said so.
pub(super) fn affordances(request: &Request, zones: &Zones) -> Judged {
    let mut result = Judged::default();
    let document = &request.document;
    let profile = zones.agent_profile(request.profile);
    let verdict = |tool: &Affordance| judge(profile, &zones.agent.rules, tool);
    let narrowed = |tool: &Affordance| {
        request.narrowed.get(&tool.name).map_or(Ok(()), |setting| Err(Withheld::Narrowed { setting: setting.clone() }))
    };
    match &document.tools {
        None => {
            for tool in default_tools().chain(request.extra_tools.iter().cloned()) {
                let verdict = verdict(&tool).and_then(|()| narrowed(&tool));
                result.keep(tool, verdict);
            }
        }
        Some(tools) => {
            let raised = request.profile != document.profile.value && document.profile.place.is_some();
            for Located { value: tool, place } in tools {
                // A profile raised from outside withholds what the file lists; the file's own must grant it.
                if let (Err(reason), false) = (verdict(tool), raised) {
                    let name = &tool.name;
                    result.unmet.push(
                        Unmet::new(
                            Cause::Contradiction,
                            format!("tooling.{name}"),
                            format!("`{name}` is not granted: {reason}"),
                        )
                        .hint(hint(&reason))
                        .at(*place),
                    );
                    continue;
                }
                result.keep(tool.clone(), verdict(tool).and_then(|()| narrowed(tool)));
            }
        }
    }
    if request.file_tools.mode == FileMode::Store {
        for tool in result.granted.iter_mut().filter(|tool| FILE_TOOLS.contains(&tool.name.as_str())) {
            tool.runs = Runs::Host;
        }
    }
    for mount in &document.mounts {
        let sensitivity = match mount.value.mode {
            MountMode::ReadOnly => Sensitivity::Plain,
            MountMode::ReadWrite => Sensitivity::Sensitive,
        };
        result.granted.push(Affordance::fixture(mount.value.to_string(), Kind::Mount, sensitivity));
    }
    for name in document.environment.keys() {
        result.granted.push(Affordance::fixture(name.clone(), Kind::Environment, Sensitivity::Plain));
    }
    result.granted.sort();
    result
}

impl Judged {
    fn keep(&mut self, tool: Affordance, verdict: Result<(), Withheld>) {
        match verdict {
            Ok(()) => self.granted.push(tool),
            Err(reason) => self.withheld.push(NotGranted { name: tool.name, reason }),
        }
    }
}

fn hint(reason: &Withheld) -> &'static str {
    match reason {
        Withheld::NoNetwork { reach: Reach::Provider } | Withheld::NotListed { reach: Reach::Provider } => {
            "remove the tool, or choose N0 without deny lists: no rule of ours holds at the provider"
        }
        Withheld::Tooling { .. } => "remove the tool, or choose a lower tooling level",
        Withheld::NoNetwork { .. } => "remove the tool, or choose N1 and list what it reaches",
        Withheld::NotListed { .. } => "add what it reaches to network.allow_domains, or remove the tool",
        Withheld::Narrowed { .. } => "unset the variable, or remove the tool",
    }
}
