//! What can be said before anything starts: a solver that needs what the profile does not grant is refused.

use profile::{Cause, Plan, Tooling, Unmet};

use crate::provider_tools;
use crate::run::granted;
use crate::task::{Solver, Task};
use crate::tools::{SUBMIT, Tool};
use crate::writable;

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
    unmet.extend(writable::check_included(task));
    unmet
}
