//! What the models of a task are really given: the same lists as the solvers' loops hand out, told as affordances.
//!
//! A proof judges this, not what the plan says: a tool that a loop offered beyond its plan would be found.

use profile::{Affordance, Kind, Plan, Reach, Runs, Sensitivity, Tooling};

use crate::provider_tools;
use crate::run::granted;
use crate::task::{Agent, Iterative, Solver, Task};
use crate::tools::Tool;

fn names(names: Option<&Vec<String>>, tool: Tool) -> bool {
    names.is_none_or(|names| names.iter().any(|name| name == tool.name()))
}

/// Which tools an agent is offered: those that are granted and that it names; always a way to finish.
pub(crate) fn to_agent(granted: &[Tool], agent: &Agent) -> Vec<Tool> {
    let work = granted.iter().copied().filter(|tool| *tool != Tool::Submit && names(agent.tools.as_ref(), *tool));
    work.chain([Tool::Submit]).collect()
}

/// Which tools somebody who works in steps is offered: there is nothing to submit.
pub(crate) fn to_iterative(granted: &[Tool], own: &Iterative) -> Vec<Tool> {
    granted.iter().copied().filter(|tool| *tool != Tool::Submit && names(own.tools.as_ref(), *tool)).collect()
}

/// Everything that any model of the task is given: its tools as they run, and what the plan has beside tools.
pub fn offered(task: &Task, plan: &Plan) -> Vec<Affordance> {
    let available = granted(&plan.affordances);
    let mut offered: Vec<Affordance> = plan.affordances.iter().filter(|one| one.kind != Kind::Tool).cloned().collect();
    for solver in &task.solvers {
        let tools = match solver {
            Solver::Agent(agent) => to_agent(&available, agent),
            Solver::Iterative(own) => to_iterative(&available, own),
            Solver::Generate | Solver::SystemMessage(_) | Solver::PromptTemplate(_) | Solver::MultipleChoice => {
                Vec::new()
            }
        };
        let ours = tools.into_iter().map(|tool| as_it_runs(tool, plan));
        let theirs = provider_tools::offered(plan, solver).into_iter().map(provider_tools::name);
        offered.extend(ours.chain(theirs.map(|name| Affordance { runs: Runs::Provider, ..described(name, plan) })));
    }
    // Several solvers may offer the same.
    offered.sort();
    offered.dedup();
    offered
}

/// As the plan describes it, but where it runs is the tool's own.
fn as_it_runs(tool: Tool, plan: &Plan) -> Affordance {
    let described = described(tool.name(), plan);
    let inside = tool.needs_sandbox(plan.file_tools.mode);
    Affordance { runs: if inside { Runs::Sandbox } else { Runs::Host }, ..described }
}

/// The plan's words for a tool; one that it does not know counts as the worst.
fn described(name: &str, plan: &Plan) -> Affordance {
    let planned = plan.affordances.iter().find(|one| one.kind == Kind::Tool && one.name == name);
    planned.cloned().unwrap_or_else(|| Affordance {
        name: name.to_owned(),
        kind: Kind::Tool,
        runs: Runs::Host,
        reach: Reach::Anything,
        sensitivity: Sensitivity::Sensitive,
        needs: Tooling::T0,
    })
}

#[cfg(test)]
mod tests {
    use profile::{Approval, Document, Environment, Facts, FileMode, Overrides, Request};

    use super::*;

    fn plan(profile: &str, files: FileMode) -> Plan {
        let text = format!(
            "profile: {profile}\ntools: [bash, python, bash_session, read_file, write_file, edit_file, ls, text_editor, think, todo_write, web_fetch, submit]\nnetwork: {{allow_domains: [example.org]}}\nfile_tools: {{mode: {}}}\n",
            if files == FileMode::Store { "store" } else { "sandbox" }
        );
        let document = Document::parse("test.yaml", &text).unwrap();
        let overrides = Overrides { approval: Some(Approval::Operator), ..Overrides::default() };
        let request = Request::resolve(document, &Environment::default(), overrides);
        profile::compile(&request, &Facts::assumed()).unwrap()
    }

    #[test]
    fn every_tool_runs_where_the_plan_says() {
        for files in [FileMode::Store, FileMode::Sandbox] {
            let plan = plan("T0.H1.N1", files);
            for tool in granted(&plan.affordances) {
                let planned = plan.affordances.iter().find(|one| one.name == tool.name());
                assert_eq!(Some(&as_it_runs(tool, &plan)), planned, "{files:?}");
            }
        }
    }

    #[test]
    fn a_tool_that_the_plan_does_not_know_counts_as_the_worst() {
        let mut plan = plan("T0.H1.N1", FileMode::Store);
        plan.affordances.retain(|one| one.name != "bash");
        let found = as_it_runs(Tool::Bash, &plan);
        assert_eq!((found.reach, found.needs), (Reach::Anything, Tooling::T0));
    }
}
