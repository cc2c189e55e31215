//! What can be said before anything starts: a solver that needs what the profile does not grant is refused.

use std::path::{Path, PathBuf};

use profile::{Cause, MountMode, Plan, Tooling, Unmet};

use crate::provider_tools;
use crate::run::granted;
use crate::task::{Solver, Task};
use crate::tools::{SUBMIT, Tool};

/// Everything that stands between a task and its plan.
pub fn check(task: &Task, plan: &Plan) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    let available = granted(&plan.affordances);
    let works = task.solvers.iter().any(|solver| matches!(solver, Solver::Agent(_) | Solver::Iterative(_)));
    let tools = plan.affordances.iter().filter(|affordance| affordance.kind == profile::Kind::Tool && works);
    let can_be_called = |name: &str| Tool::named(name).is_some() || provider_tools::named(name).is_some();
    for affordance in tools.filter(|affordance| !can_be_called(&affordance.name)) {
        let reason = format!("the tool `{}` cannot be called by this version", affordance.name);
        let hint = "remove it from `tools`: a log must not say that the agent had it";
        unmet.push(Unmet::new(Cause::Contradiction, "tooling", reason).hint(hint));
    }
    for solver in &task.solvers {
        if matches!(solver, Solver::Agent(_)) && !available.contains(&Tool::Submit) {
            let withheld = plan.withheld.iter().any(|one| one.name == SUBMIT) || plan.profile.tooling == Tooling::T2;
            let (reason, hint) = if withheld {
                let reason = format!("an agent needs `{SUBMIT}`, which {} does not grant", plan.profile);
                (reason, "choose a lower T, or the solver `generate`")
            } else {
                (format!("an agent needs `{SUBMIT}`, which the task's `tools` do not name"), "add it to `tools`")
            };
            unmet.push(Unmet::new(Cause::Contradiction, "solver.agent", reason).hint(hint));
        }
        if solver.offers(Tool::WebSearch.name()) && available.contains(&Tool::WebSearch) && plan.search.is_none() {
            let reason = "the agent may use `web_search`, and nobody is named who answers it";
            let hint = "write {name: web_search, provider: tavily}, or google, brave or json";
            unmet.push(Unmet::new(Cause::Contradiction, "tooling.web_search", reason).hint(hint));
        }
        for name in solver.named_tools() {
            let of_provider = provider_tools::granted(plan).into_iter().map(provider_tools::name);
            if available.iter().map(|tool| tool.name()).chain(of_provider).any(|one| one == name) {
                continue;
            }
            let known = plan.affordances.iter().any(|affordance| affordance.name == *name);
            let withheld = plan.withheld.iter().find(|withheld| withheld.name == *name);
            let (reason, hint) = match (known, withheld) {
                (true, _) => (format!("the tool `{name}` is not built yet"), "use bash or python"),
                (false, Some(_)) => (
                    format!("the agent needs `{name}`, which {} does not grant", plan.profile),
                    "choose a lower T, or leave it out",
                ),
                (false, None) => (
                    format!("the agent needs `{name}`, which the task's `tools` do not name"),
                    "add it to `tools`, or leave it out of the solver",
                ),
            };
            unmet.push(Unmet::new(Cause::Contradiction, "solver.tools", reason).hint(hint));
        }
    }
    unmet.extend(included_and_writable(task));
    unmet
}

/// Files of the task in a directory that a sandbox may write to: an agent could change what the next sample, or the next run,
/// is given.
fn included_and_writable(task: &Task) -> Vec<Unmet> {
    let of_services = task.document.services.values().flat_map(|service| &service.mounts);
    let mounts = task.document.mounts.iter().map(|mount| &mount.value).chain(of_services);
    let mut unmet = Vec::new();
    for mount in mounts.filter(|mount| mount.mode == MountMode::ReadWrite) {
        let own = Path::new(&task.origin).parent().unwrap_or(Path::new(""));
        // A mount that cannot be found is another refusal's.
        let sources: Vec<PathBuf> = [Path::new("").join(&mount.source), own.join(&mount.source)]
            .iter()
            .flat_map(|path| path.canonicalize())
            .collect();
        let within = |file: &&PathBuf| sources.iter().any(|source| file.starts_with(source));
        if let Some(file) = task.included.iter().find(within) {
            let reason =
                format!("`{}` is a file of the task, and lies in the writable mount `{mount}`", file.display());
            let hint = "mount another directory, or leave out `:rw`";
            unmet.push(Unmet::new(Cause::Contradiction, "mounts", reason).hint(hint));
        }
    }
    unmet
}
