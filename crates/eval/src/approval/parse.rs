//! Policy files: Inspect's shape, read strictly.

use std::time::Duration;

use profile::source::{Complaints, Fields, Node, Value, nearest_word, text};
use profile::{Approval, HostPattern, Located, Problem, standard_tools};

use super::answer::Decision;
use super::person::Choice;
use super::policy::{Approver, On, PATIENCE, Rule, preset};
use super::predicate;
use crate::tools::Tool;

/// How long a program may take when nobody says.
const PROGRAM: Duration = Duration::from_secs(30);
/// The longest that anybody may take.
const LONGEST: Duration = Duration::from_hours(24);

/// Each approver with what it may state.
const APPROVERS: &[(&str, &[&str])] = &[
    ("auto", &["name", "tools", "on", "where", "hosts", "decision"]),
    ("human", &["name", "tools", "on", "where", "hosts", "timeout", "choices"]),
    ("preset", &["name", "tools", "on", "where", "hosts", "preset"]),
    ("command", &["name", "tools", "on", "where", "hosts", "command", "timeout", "pass"]),
];

/// Reads `approvers:`; `declared` are tools beside the standard ones.
pub(super) fn rules(node: Node, declared: &[String], complaints: &Complaints) -> Vec<Rule> {
    let place = node.place;
    let Some(mut fields) = Fields::open(node, "an approval policy", &["approvers"], complaints) else {
        return Vec::new();
    };
    let nodes = fields.list("approvers");
    fields.close();
    if nodes.is_empty() && complaints.is_empty() {
        let problem = Problem::at(place, "the policy has no approvers, so every call would be rejected");
        complaints.add(problem.hint("write approvers: [{name: human, tools: \"*\"}]"));
    }
    nodes.into_iter().flat_map(|node| read(node, declared, complaints)).collect()
}

fn read(node: Node, declared: &[String], complaints: &Complaints) -> Vec<Rule> {
    let place = node.place;
    let name = match &node.value {
        Value::Map(entries) => entries.iter().find(|(key, _)| key.name == "name").map(|(_, node)| node.value.clone()),
        _ => None,
    };
    let names: Vec<&str> = APPROVERS.iter().map(|(name, _)| *name).collect();
    let known = match &name {
        Some(Value::Text(name)) => APPROVERS.iter().find(|(known, _)| known == name),
        _ => None,
    };
    let Some((name, own)) = known else {
        let problem = match &name {
            Some(Value::Text(name)) => {
                let problem = Problem::at(place, format!("no approver is called `{name}`"));
                match nearest_word(name, names.iter().copied()) {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem.hint(format!("use {}", names.join(", "))),
                }
            }
            _ => Problem::at(place, "an approver needs a `name`").hint(format!("use {}", names.join(", "))),
        };
        complaints.add(problem);
        return Vec::new();
    };
    let Some(mut fields) = Fields::open(node, "an approver", own, complaints) else { return Vec::new() };
    fields.take("name");
    let on = fields.parsed::<On>("on").map_or(On::Call, |on| on.value);
    let tools = tools(&mut fields, declared, on);
    let matched: Vec<Tool> =
        Tool::ALL.into_iter().filter(|tool| tools.iter().any(|pattern| matches(pattern, tool.name()))).collect();
    let wheres = fields.take("where").map(|node| predicate::read(node, &matched, complaints)).unwrap_or_default();
    let hosts = hosts(&mut fields, on);
    let approvers = approvers(name, &mut fields, on);
    fields.close();
    let rule = |approver| Rule { approver, on, tools: tools.clone(), wheres: wheres.clone(), hosts: hosts.clone() };
    approvers.into_iter().map(rule).collect()
}

fn approvers(name: &str, fields: &mut Fields<'_>, on: On) -> Vec<Approver> {
    let complaints = fields.complaints();
    let place = fields.place();
    match name {
        "auto" => {
            let decision = fields.parsed::<Decision>("decision");
            if let Some(decision) = decision.as_ref().filter(|decision| decision.value == Decision::Modify) {
                let message = "`auto` cannot modify: it does not know with what".into();
                complaints.add(Problem { place: decision.place, message, hint: None });
            }
            let decision = decision.map_or(Decision::Approve, |decision| decision.value);
            if on == On::Egress && decision == Decision::Approve {
                // The label would say N1, and the plan a list that means nothing.
                let problem = Problem::at(place, "`auto` cannot approve names that no rule lists");
                complaints.add(problem.hint("add them to network.allow_domains, where the plan shows them"));
            }
            vec![Approver::Auto(decision)]
        }
        "human" => {
            nonempty(fields, "choices");
            let choices = if fields.has("choices") {
                let choices = fields.list("choices").into_iter();
                let choices =
                    choices.filter_map(|node| profile::source::parsed::<Choice>(node, "choices", complaints, |_| None));
                choices.map(|choice| choice.value).collect()
            } else {
                Choice::USUAL.to_vec()
            };
            vec![Approver::Human { timeout: time(fields, PATIENCE), choices }]
        }
        "preset" => {
            let preset_name = fields.parsed::<Approval>("preset").map(|preset| preset.value);
            match preset_name {
                Some(approval @ (Approval::Ci | Approval::Dev | Approval::Prod)) if on == On::Call => {
                    preset(&approval).into_iter().map(|rule| rule.approver).collect()
                }
                Some(_) => {
                    complaints.add(Problem::at(place, "a preset is ci, dev or prod, and is asked about calls"));
                    Vec::new()
                }
                None => {
                    complaints.add(Problem::at(place, "`preset` is not said").hint("write preset: ci, dev or prod"));
                    Vec::new()
                }
            }
        }
        _ => {
            let mut argv: Vec<String> = Vec::new();
            for node in fields.list("command") {
                argv.extend(text(node, "command", complaints).map(|text| text.value));
            }
            if argv.is_empty() {
                complaints.add(
                    Problem::at(place, "`command` is not said").hint("write command: [./approve, --strict], a list"),
                );
            }
            let pass = fields.list("pass").into_iter().filter_map(|node| text(node, "pass", complaints));
            let pass = pass.map(|name| name.value).collect();
            vec![Approver::Command { argv, timeout: time(fields, PROGRAM), pass }]
        }
    }
}

/// An empty list reads like none, and would mean something else.
pub(super) fn nonempty(fields: &mut Fields<'_>, key: &str) {
    let empty = fields.node(key).is_some_and(|node| matches!(&node.value, Value::List(items) if items.is_empty()));
    if let Some(place) = fields.place_of(key).filter(|_| empty) {
        fields.complaints().add(Problem::at(place, format!("`{key}` is empty")).hint("fill it in, or remove the key"));
    }
}

fn time(fields: &mut Fields<'_>, default: Duration) -> Duration {
    let Some(Located { value, place }) = fields.parsed::<profile::Millis>("timeout") else { return default };
    let time = Duration::from_millis(value.0);
    if time.is_zero() || time > LONGEST {
        fields.complaints().add(Problem {
            place,
            message: "`timeout` must be above 0 and at most a day".into(),
            hint: None,
        });
    }
    time
}

/// Patterns of tool names: one, or a list.
fn tools(fields: &mut Fields<'_>, declared: &[String], on: On) -> Vec<String> {
    let complaints = fields.complaints();
    let place = fields.place();
    let Some(node) = fields.take("tools") else {
        if on != On::Egress {
            complaints.add(Problem::at(place, "an approver needs `tools`").hint("write tools: \"*\" for all of them"));
        }
        return vec!["*".into()];
    };
    let nodes = match node.value {
        Value::List(nodes) => nodes,
        value => vec![Node { place: node.place, value }],
    };
    if nodes.is_empty() {
        complaints.add(Problem::at(node.place, "`tools` is empty, so the approver would never be asked"));
    }
    let mut known: Vec<String> = standard_tools().map(|tool| tool.name).collect();
    known.extend_from_slice(declared);
    let mut patterns = Vec::new();
    for node in nodes {
        let place = node.place;
        let Some(pattern) = text(node, "tools", complaints) else { continue };
        if !known.iter().any(|name| matches(&pattern.value, name)) {
            let problem = Problem::at(place, format!("`{}` matches no tool", pattern.value));
            complaints.add(match nearest_word(&pattern.value, known.iter().map(String::as_str)) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint("patterns have * and ?, and are held against the tool's name alone"),
            });
        }
        patterns.push(pattern.value);
    }
    patterns
}

fn hosts(fields: &mut Fields<'_>, on: On) -> Vec<HostPattern> {
    let complaints = fields.complaints();
    if let Some(place) = fields.place_of("hosts").filter(|_| on != On::Egress) {
        complaints
            .add(Problem::at(place, "`hosts` is for `on: egress`").hint("use where: {url: {host: […]}} for calls"));
    }
    nonempty(fields, "hosts");
    let hosts = fields.list("hosts").into_iter().filter_map(|node| {
        profile::source::parsed::<HostPattern>(node, "hosts", complaints, |error| Some(error.hint().to_owned()))
    });
    hosts.map(|host| host.value).collect()
}

impl std::str::FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "call" => Ok(Self::Call),
            "result" => Ok(Self::Result),
            "egress" => Ok(Self::Egress),
            _ => Err(format!("`{text}` is nothing to be asked about: use call, result or egress")),
        }
    }
}

/// Whether a pattern with `*` and `?` matches a whole name. Quadratic at worst, on names of at most 64 letters.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    n = from + 1;
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
}
