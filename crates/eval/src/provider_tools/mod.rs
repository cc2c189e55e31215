//! Tools of model providers, which run there: which the plan grants, who offers them, and what stands in their way.
//!
//! They are affordances like all others, and yet no call of ours: the provider makes it while it answers, and tells of it
//! afterwards. What it tells, `record.rs` writes down.

mod record;

use std::collections::BTreeSet;

use ::model::ProviderTool;
use profile::{Cause, Kind, Plan, Runs, Unmet};
use serde_json::{Value, json};

use crate::model::Models;
use crate::task::{Solver, Task};

pub(crate) use record::{Given, note, totals};

/// Its name in a task's `tools`.
pub(crate) fn name(tool: ProviderTool) -> &'static str {
    match tool {
        ProviderTool::WebSearch => "provider_web_search",
        ProviderTool::CodeExecution => "provider_code_execution",
    }
}

/// The tool of that name.
pub(crate) fn named(wanted: &str) -> Option<ProviderTool> {
    ProviderTool::ALL.into_iter().find(|tool| name(*tool) == wanted)
}

/// Those that a plan grants.
pub(crate) fn granted(plan: &Plan) -> Vec<ProviderTool> {
    let tools = plan.affordances.iter().filter(|one| one.kind == Kind::Tool && one.runs == Runs::Provider);
    tools.filter_map(|affordance| named(&affordance.name)).collect()
}

/// Those that a solver switches on. A task has them by name alone, and they need no loop of ours: a single question may
/// have them too.
pub(crate) fn offered(plan: &Plan, solver: &Solver) -> Vec<ProviderTool> {
    let offers = |tool: &ProviderTool| matches!(solver, Solver::Generate) || solver.offers(name(*tool));
    granted(plan).into_iter().filter(offers).collect()
}

/// As the event of a question names it among what was offered.
pub(crate) fn described(tool: ProviderTool) -> Value {
    json!({
        "name": name(tool), "description": format!("The {tool} of the model's provider, which runs there."),
        "parameters": {"type": "object", "properties": {}},
    })
}

/// What stands between the provider's own tools that a plan grants and those who would be asked.
pub fn check_models(task: &Task, plan: &Plan, models: &Models) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    let wanted: Vec<ProviderTool> = granted(plan)
        .into_iter()
        .filter(|tool| task.solvers.iter().any(|solver| offered(plan, solver).contains(tool)))
        .collect();
    let asked: BTreeSet<(&str, &'static str)> = task
        .dataset
        .samples
        .iter()
        .map(|sample| models.agent_of(sample).0)
        .flat_map(|chosen| {
            let lacking = wanted.iter().filter(|tool| !chosen.provider_tools().contains(tool));
            lacking.map(|tool| (chosen.name(), name(*tool)))
        })
        .collect();
    for (model, tool) in asked {
        let control = format!("tooling.{tool}");
        let reason = format!("the task has `{tool}`, and the provider of {model} has no such tool of its own");
        unmet.push(Unmet::new(Cause::Contradiction, control, reason).hint(format!("remove it, or use {}", takers())));
    }
    if let (Some(tool), true) = (wanted.first(), task.limits_cost()) {
        // Providers bill their own tools by the call, which no price of tokens covers.
        let reason = format!("a limit of costs cannot hold: nobody knows what `{}` costs", name(*tool));
        unmet.push(Unmet::new(Cause::Contradiction, "limits.cost", reason).hint("remove the limit, or the tool"));
    }
    unmet
}

/// Models that take them, for people.
fn takers() -> String {
    let takes = ::model::providers().iter().filter(|provider| !provider.provider_tools().is_empty());
    takes.map(|provider| format!("{}/…", provider.name())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standard_tool_at_the_provider_is_one_that_can_be_switched_on() {
        let standard = profile::standard_tools().filter(|tool| tool.runs == Runs::Provider).map(|tool| tool.name);
        let names: BTreeSet<String> = standard.collect();
        let ours: BTreeSet<String> = ProviderTool::ALL.into_iter().map(|tool| name(tool).to_owned()).collect();
        assert_eq!(names, ours);
        assert!(ProviderTool::ALL.into_iter().all(|tool| named(name(tool)) == Some(tool)));
    }
}
