//! What each sort of approver says to a question.

use log::message::ToolCall;
use profile::{Affordance, HostName, Sensitivity};
use serde_json::{Map, Value, json};

use super::answer::{Answer, Decision};
use super::bound::Bound;
use super::gate::Gate;
use super::person::{About, Choice, Heard, Question};
use super::policy::Approver;
use super::{command, view};
use crate::tools::Tool;

/// What is asked.
pub(super) enum Asked<'a> {
    Call { tool: Tool, call: &'a ToolCall, said: &'a str },
    Result { tool: Tool, call: &'a ToolCall, content: &'a str },
    Name(&'a HostName),
}

impl Asked<'_> {
    fn about(&self) -> About {
        match self {
            Self::Call { .. } => About::Call,
            Self::Result { .. } => About::Result,
            Self::Name(_) => About::Egress,
        }
    }

    pub(super) fn tool_name(&self) -> &str {
        match self {
            Self::Call { tool, .. } | Self::Result { tool, .. } => tool.name(),
            Self::Name(_) => "network",
        }
    }

    fn arguments(&self) -> Map<String, Value> {
        match self {
            Self::Call { call, .. } | Self::Result { call, .. } => call.arguments.clone(),
            Self::Name(name) => [("host".to_owned(), json!(name.to_string()))].into_iter().collect(),
        }
    }
}

pub(super) async fn ask(approver: &Approver, asked: &Asked<'_>, gate: &Gate) -> Answer {
    let affordance = gate.plan.affordances.iter().find(|affordance| affordance.name == asked.tool_name());
    // What was not granted, and a name that nobody listed, is as sensitive as anything.
    let sensitivity = affordance.map_or(Sensitivity::Sensitive, |affordance| affordance.sensitivity);
    let plain = || Answer::new(Decision::Approve, "the tool is not sensitive");
    match (approver, sensitivity) {
        (Approver::Auto(Decision::Approve), _) => Answer::new(Decision::Approve, "every call is approved"),
        (Approver::Auto(decision), _) => Answer::new(*decision, format!("the policy says {}", decision.name())),
        (Approver::PlainTools | Approver::Terminator, Sensitivity::Plain) => plain(),
        (Approver::PlainTools, Sensitivity::Sensitive) => Answer::new(Decision::Escalate, "the tool is sensitive"),
        (Approver::Terminator, Sensitivity::Sensitive) => {
            let words =
                format!("a sensitive tool ends the sample: {}", gate.in_a_line(asked.tool_name(), &asked.arguments()));
            Answer::new(Decision::Terminate, words)
        }
        (Approver::Human { timeout, choices }, _) => {
            let question = Question {
                about: asked.about(),
                sample: gate.sample_name(),
                tool: asked.tool_name().to_owned(),
                view: match asked {
                    Asked::Call { tool, call, .. } => view::of_call(*tool, &call.arguments, &gate.keeper.redactor),
                    Asked::Result { content, .. } => view::of_result(content, &gate.keeper.redactor),
                    Asked::Name(name) => view::of_name(&name.to_string()),
                },
                choices: choices.clone(),
                timeout: *timeout,
            };
            person(&question, gate).await
        }
        (Approver::Command { argv, timeout, pass }, _) => {
            let question = question(asked, affordance, gate);
            command::ask(argv, *timeout, pass, &question).await
        }
    }
}

async fn person(question: &Question, gate: &Gate) -> Answer {
    let no = |why: &str| Answer::new(Decision::Reject, why);
    let Some(person) = &gate.keeper.person else { return no("nobody is there to approve it") };
    let reply = match person.ask(question).await {
        Heard::Reply(reply) => reply,
        Heard::Gone => return no("nobody can be asked any more"),
        Heard::Silence => return no(&format!("nobody answered within {} s", question.timeout.as_secs())),
    };
    if !question.choices.contains(&reply.choice) {
        return no("the answer was none of the choices");
    }
    let reason = reply.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    match reply.choice {
        Choice::Approve => Answer::new(Decision::Approve, format!("a person said yes{reason}")),
        Choice::ApproveSame => Answer {
            bound: Bound { again: true, ..Bound::default() },
            ..Answer::new(Decision::Approve, format!("a person said yes, to the same call again too{reason}"))
        },
        Choice::Modify => Answer {
            arguments: reply.arguments,
            ..Answer::new(Decision::Modify, format!("a person wrote other arguments{reason}"))
        },
        Choice::Reject => no(&format!("a person said no{reason}")),
        Choice::Terminate => Answer::new(Decision::Terminate, format!("a person ended the sample{reason}")),
        Choice::Escalate => Answer::new(Decision::Escalate, format!("a person passed it on{reason}")),
    }
}

/// What a program is told: what a person would be shown, so without secrets.
fn question(asked: &Asked<'_>, affordance: Option<&Affordance>, gate: &Gate) -> Value {
    let redactor = &gate.keeper.redactor;
    let arguments = asked.arguments();
    let mut question = json!({
        "schema": command::SCHEMA,
        "on": match asked.about() { About::Call => "call", About::Result => "result", About::Egress => "egress" },
        "sample": gate.sample,
        "epoch": gate.epoch,
        "profile": gate.plan.profile.to_string(),
        "tool": asked.tool_name(),
        "affordance": affordance,
        "arguments_hmac": gate.keeper.key.tag(asked.tool_name(), &arguments),
    });
    match asked {
        Asked::Call { said, .. } => question["message"] = json!(said),
        Asked::Result { content, .. } => question["result"] = json!(content),
        Asked::Name(_) => {}
    }
    seen(&mut question, redactor);
    // Whoever decides must see what would be done: nothing but known secrets is taken out.
    let mut shown = Value::Object(arguments);
    seen(&mut shown, redactor);
    question["arguments"] = shown;
    question
}

fn seen(value: &mut Value, redactor: &log::Redactor) {
    match value {
        Value::String(text) => *text = redactor.seen(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| seen(item, redactor)),
        Value::Object(map) => map.values_mut().for_each(|item| seen(item, redactor)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
