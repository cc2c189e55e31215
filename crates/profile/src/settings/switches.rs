//! Variables that switch tools: off narrows away, on must be granted, and neither adds to a list.

use super::environment::{Environment, Switch};
use super::layers::{Provenance, Source};
use super::resolve::Request;
use crate::affordance::{Affordance, Reach};
use crate::catalogue::{
    EXECUTION_TOOLS, PROVIDER_CODE_EXECUTION, PROVIDER_WEB_SEARCH, WEB_BROWSER, WEB_SEARCH, WRITE_TOOLS, default_tools,
    standard_tool,
};
use crate::grant::judge;
use crate::refusal::{Cause, Unmet};
use crate::zones::Zones;

impl Request {
    pub(super) fn apply_switches(&mut self, environment: &Environment) {
        // With what goes with them when they are switched off: who wants no search wants none of the model provider's.
        let switches: [(_, _, _, &[&str]); 3] = [
            ("INSPECT_ENABLE_EXEC", environment.enable_exec, EXECUTION_TOOLS, &[PROVIDER_CODE_EXECUTION]),
            ("INSPECT_ENABLE_WEB_SEARCH", environment.enable_web_search, &[WEB_SEARCH], &[PROVIDER_WEB_SEARCH]),
            ("INSPECT_ENABLE_WEB_BROWSER", environment.enable_web_browser, &[WEB_BROWSER], &[]),
        ];
        if let Some(switch) = environment.disable_parallel {
            let variable = "INSPECT_DISABLE_TOOL_PARALLEL";
            self.parallel_calls = switch == Switch::Off;
            let word = if self.parallel_calls { "on" } else { "off" };
            self.provenance.push(Provenance::plain("tools.parallel", word, Source::Environment(variable)));
        }
        for (variable, switch, tools, with_them) in switches {
            let Some(switch) = switch else { continue };
            let word = if switch == Switch::On { "on" } else { "off" };
            let setting = match variable {
                "INSPECT_ENABLE_EXEC" => "tools.exec",
                "INSPECT_ENABLE_WEB_SEARCH" => "tools.web_search",
                _ => "tools.web_browser",
            };
            self.provenance.push(Provenance::plain(setting, word, Source::Environment(variable)));
            match switch {
                Switch::Off => {
                    let off = tools.iter().chain(with_them);
                    self.narrowed.extend(off.map(|tool| ((*tool).to_owned(), variable.to_owned())));
                }
                Switch::On => self.switch_on(variable, tools),
            }
        }
    }

    fn switch_on(&mut self, variable: &'static str, names: &[&str]) {
        let zones = Zones::of(&self.document, self.profile);
        let tools: Vec<Affordance> = names.iter().filter_map(|name| standard_tool(name)).collect();
        let withheld = tools.iter().find_map(|tool| {
            let mut judged = tool.clone();
            if judged.name == WEB_SEARCH {
                // Whatever its provider, it needs a network.
                judged.reach = Reach::Web;
            }
            judge(zones.agent_profile(self.profile), &zones.agent.rules, &judged).err()
        });
        if let Some(withheld) = withheld {
            self.conflicts.push(
                Unmet::new(
                    Cause::Contradiction,
                    format!("tooling.{}", names[0]),
                    format!(
                        "{variable}=1 asks for {}, which {} does not grant: {withheld}",
                        names.join(", "),
                        self.profile
                    ),
                )
                .hint(format!("unset {variable}, or choose a profile that grants it")),
            );
            return;
        }
        for tool in tools {
            match &self.document.tools {
                Some(listed) if listed.iter().any(|listed| listed.value.name == tool.name) => {}
                Some(_) => self.notes.push(format!(
                    "{variable} is within the profile, but the document does not list `{}` and the environment cannot add it",
                    tool.name
                )),
                None if tool.name == WEB_SEARCH => self.notes.push(format!(
                    "{variable} is within the profile, but no search provider is declared: list {{name: web_search, provider: tavily}}"
                )),
                None if default_tools().any(|default| default.name == tool.name) => {}
                None => self.extra_tools.push(tool),
            }
        }
    }

    /// Read-only file tools have no tools that write.
    pub(super) fn narrow_writes(&mut self, environment: &Environment) {
        if !self.file_tools.read_only {
            return;
        }
        if let (Some(tools), Some(true)) = (&self.document.tools, self.document.file_tools.read_only)
            && environment.fs_read_only.is_none()
            && let Some(tool) = tools.iter().find(|tool| WRITE_TOOLS.contains(&tool.value.name.as_str()))
        {
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
        let setting = if environment.fs_read_only == Some(Switch::On) {
            "INSPECT_AGENTS_FS_READ_ONLY"
        } else {
            "file_tools.read_only"
        };
        self.narrowed.extend(WRITE_TOOLS.iter().map(|tool| ((*tool).to_owned(), setting.to_owned())));
    }
}
