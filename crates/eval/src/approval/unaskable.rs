//! Tools that run at the model provider: nobody can be asked before a call is made, nor before the model sees what it gave.
//!
//! So their approval must be known from the policy alone. What would have to be asked, or would be refused, is a refusal
//! before anything starts: else the log would name a gate that was never there.

use profile::{Affordance, Cause, Kind, Plan, Runs, Sensitivity, Unmet};

use super::answer::Decision;
use super::parse::matches;
use super::policy::{Approver, On, Policy, Rule};

/// What a policy says of a tool whatever it is called with.
enum Certain {
    Approved,
    /// Nobody has said anything yet.
    Passed,
    Refused(String),
}

impl Policy {
    /// Why the tools of a plan that run at the model provider cannot be had under this policy.
    pub fn check(&self, plan: &Plan) -> Vec<Unmet> {
        let tools = plan.affordances.iter().filter(|one| one.kind == Kind::Tool && one.runs == Runs::Provider);
        tools.filter_map(|tool| Some((tool, self.objection(tool)?))).map(|(tool, why)| self.unmet(tool, &why)).collect()
    }

    fn unmet(&self, tool: &Affordance, why: &str) -> Unmet {
        let name = &tool.name;
        let reason = format!(
            "`{name}` runs at the model provider, where nobody can be asked before it is called, and by the approval \
             `{}` {why}",
            self.name
        );
        let hint = format!(
            "remove the tool, or approve it in advance: approval: ci, or a policy with {{name: auto, tools: {name}}} first"
        );
        Unmet::new(Cause::Contradiction, format!("approval.{name}"), reason).hint(hint)
    }

    fn objection(&self, tool: &Affordance) -> Option<String> {
        let of_tool = |on: On| {
            let mut matching = self.rules.iter().filter(move |rule| rule.on == on);
            matching.by_ref().filter(|rule| rule.tools.iter().any(|pattern| matches(pattern, &tool.name))).collect()
        };
        let calls: Vec<&Rule> = of_tool(On::Call);
        let decided =
            calls.into_iter().map(|rule| certain(rule, tool)).find(|certain| !matches!(certain, Certain::Passed));
        match decided {
            Some(Certain::Refused(why)) => return Some(why),
            Some(Certain::Approved) => {}
            Some(Certain::Passed) | None => return Some("nobody approves it, which is a no".into()),
        }
        // Results that nobody is asked about are shown.
        let results: Vec<&Rule> = of_tool(On::Result);
        results.into_iter().find_map(|rule| match certain(rule, tool) {
            Certain::Refused(_) => Some("its results would have to be reviewed".into()),
            Certain::Approved | Certain::Passed => None,
        })
    }
}

fn certain(rule: &Rule, tool: &Affordance) -> Certain {
    let plain = tool.sensitivity == Sensitivity::Plain;
    match &rule.approver {
        Approver::Auto(Decision::Escalate) => Certain::Passed,
        _ if !rule.wheres.is_empty() => Certain::Refused("its arguments would have to be known".into()),
        Approver::Auto(Decision::Approve) => Certain::Approved,
        Approver::PlainTools | Approver::Terminator if plain => Certain::Approved,
        Approver::PlainTools => Certain::Passed,
        Approver::Terminator => Certain::Refused("a sensitive tool ends the sample".into()),
        Approver::Auto(decision) => Certain::Refused(format!("the decision is always to {}", decision.name())),
        Approver::Human { .. } => Certain::Refused("a person would have to be asked".into()),
        Approver::Command { .. } => Certain::Refused("a program would have to be asked".into()),
    }
}

#[cfg(test)]
mod tests {
    use profile::{Environment, Facts, Overrides, Request};

    use super::*;
    use crate::approval::Named;

    fn plan() -> Plan {
        let text = "profile: T0.H1.N0\napproval: ci\njustification: agreed\n\
                    tools: [submit, provider_web_search, provider_code_execution]\n";
        let document = profile::Document::parse("task.yaml", text).unwrap();
        let request = Request::resolve(document, &Environment::default(), Overrides::default());
        profile::compile(&request, &Facts::assumed()).unwrap()
    }

    fn objections(policy: &Policy) -> Vec<String> {
        policy.check(&plan()).into_iter().map(|unmet| format!("{}: {}", unmet.control, unmet.reason)).collect()
    }

    #[test]
    fn tools_that_run_at_the_provider_are_approved_in_advance_or_not_had() {
        let preset = |name: &str| Policy::load(Some(&name.parse().unwrap()), Named::ByOperator, &[]).unwrap();
        assert_eq!(objections(&preset("ci")), Vec::<String>::new());
        for (name, why) in [("dev", "a person would have to be asked"), ("prod", "a sensitive tool ends the sample")] {
            let told = objections(&preset(name));
            assert!(told.len() == 2 && told.iter().all(|one| one.contains(why)), "{told:?}");
        }
        let both = |rules: &str| {
            let text = format!("approvers: [{rules}]");
            objections(&Policy::parse("p.yaml", &text, &[]).unwrap()).join("\n")
        };
        let human = "{name: human, tools: '*'}";
        assert_eq!(both(&format!("{{name: auto, tools: 'provider_*'}}, {human}")), "");
        assert_eq!(
            both(&format!("{{name: auto, tools: '*', decision: escalate}}, {{name: auto, tools: '*'}}, {human}")),
            ""
        );
        for (rules, why) in [
            (human.to_owned(), "a person"),
            (format!("{human}, {{name: auto, tools: '*'}}"), "a person"),
            ("{name: auto, tools: bash}".to_owned(), "nobody approves"),
            ("{name: auto, tools: '*', decision: reject}".to_owned(), "always to reject"),
            ("{name: auto, tools: '*', decision: terminate}".to_owned(), "always to terminate"),
            ("{name: auto, tools: '*', decision: escalate}".to_owned(), "nobody approves"),
            ("{name: command, tools: '*', command: [judge]}".to_owned(), "a program"),
            ("{name: auto, tools: '*'}, {name: human, on: result, tools: 'provider_*'}".to_owned(), "reviewed"),
        ] {
            let told = both(&rules);
            assert!(told.contains(why) && told.contains("approval.provider_code_execution"), "{rules}: {told}");
        }
        // One tool's approval is not another's.
        let told = both(&format!("{{name: auto, tools: provider_web_search}}, {human}"));
        assert!(!told.contains("approval.provider_web_search") && told.contains("approval.provider_code_execution"));
    }
}
