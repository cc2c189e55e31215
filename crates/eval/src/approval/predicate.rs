//! Conditions on a call's arguments, held against what the tool says it takes.

use profile::source::{Complaints, Fields, Node, Value as Yaml};
use profile::{HostPattern, Place, Problem};
use regex::Regex;
use serde_json::{Map, Value};

use super::parse::nonempty;
use super::words::simple;
use crate::tools::{Kind, Tool};

/// One condition on one argument.
#[derive(Debug, Clone)]
pub(super) struct Predicate {
    argument: String,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    OneOf(Vec<String>),
    StartsWith(String),
    Contains(String),
    Matches(Regex),
    /// Below a directory, by its words.
    Under(String),
    /// A simple command whose program is one of these.
    Program(Vec<String>),
    /// An address of the web at one of these hosts.
    Host(Vec<HostPattern>),
    Number {
        least: Option<i64>,
        most: Option<i64>,
    },
    Truth(bool),
}

const KEYS: &[&str] =
    &["equals", "one_of", "starts_with", "contains", "matches", "under", "program", "host", "at_least", "at_most"];
/// The largest automaton that an expression may become.
const MOST_EXPRESSION: usize = 1 << 20;

impl Predicate {
    /// Whether the call's arguments are such. An argument that is not there fulfils nothing.
    pub(super) fn holds(&self, arguments: &Map<String, Value>) -> bool {
        let Some(value) = arguments.get(&self.argument) else { return false };
        match (&self.test, value) {
            (Test::Truth(wanted), Value::Bool(found)) => wanted == found,
            (Test::Number { least, most }, Value::Number(found)) => found
                .as_i64()
                .is_some_and(|found| least.is_none_or(|least| found >= least) && most.is_none_or(|most| found <= most)),
            (of_texts, Value::String(text)) => of_texts.of_text(text),
            _ => false,
        }
    }
}

impl Test {
    fn of_text(&self, text: &str) -> bool {
        match self {
            Self::OneOf(words) => words.iter().any(|word| word == text),
            Self::StartsWith(start) => text.starts_with(start),
            Self::Contains(part) => text.contains(part),
            Self::Matches(expression) => expression.is_match(text),
            Self::Under(directory) => {
                let below = text.strip_prefix(directory.trim_end_matches('/'));
                below.is_some_and(|rest| rest.starts_with('/')) && !text.split('/').any(|part| part == "..")
            }
            Self::Program(programs) => {
                simple(text).is_some_and(|words| words.first().is_some_and(|word| programs.contains(word)))
            }
            Self::Host(hosts) => url::Url::parse(text).is_ok_and(|url| {
                let name = url.host_str().and_then(|host| profile::HostName::parse(host).ok());
                name.is_some_and(|name| hosts.iter().any(|pattern| pattern.matches(&name)))
            }),
            Self::Number { .. } | Self::Truth(_) => false,
        }
    }

    /// The sort of argument that it can be held against.
    fn fits(&self, kind: Kind) -> bool {
        match (self, kind) {
            (Self::Number { .. }, Kind::Integer) | (Self::Truth(_), Kind::Truth) => true,
            (Self::Number { .. } | Self::Truth(_), _) => false,
            (_, kind) => matches!(kind, Kind::Text | Kind::Words | Kind::OneOf(_)),
        }
    }
}

/// Reads `where:` of a rule for these tools.
pub(super) fn read(node: Node, tools: &[Tool], complaints: &Complaints) -> Vec<Predicate> {
    let place = node.place;
    let Yaml::Map(entries) = node.value else {
        let hint = "write where: {command: {program: [ls, cat]}}";
        complaints.add(Problem::at(place, "`where` must be a mapping of arguments to conditions").hint(hint));
        return Vec::new();
    };
    if entries.is_empty() {
        complaints
            .add(Problem::at(place, "`where` is empty, so it would hold always").hint("fill it in, or remove it"));
    }
    let mut predicates = Vec::new();
    for (key, node) in entries {
        let place = key.place;
        for test in tests(node, complaints) {
            let predicate = Predicate { argument: key.name.clone(), test };
            if check(&predicate, tools, place, complaints) {
                predicates.push(predicate);
            }
        }
    }
    predicates
}

/// Whether the argument exists and is of a sort that the condition can be held against, in at least one of the tools.
fn check(predicate: &Predicate, tools: &[Tool], place: Place, complaints: &Complaints) -> bool {
    let name = &predicate.argument;
    let parameters = tools.iter().flat_map(|tool| tool.parameters()).filter(|parameter| parameter.name == name);
    let mut parameters = parameters.peekable();
    if parameters.peek().is_none() {
        let known: Vec<&str> =
            tools.iter().flat_map(|tool| tool.parameters()).map(|parameter| parameter.name).collect();
        let problem = Problem::at(place, format!("none of the rule's tools takes an argument `{name}`"));
        complaints.add(match known.as_slice() {
            [] => problem,
            known => problem.hint(format!("they take {}", known.join(", "))),
        });
        return false;
    }
    let fits = parameters.any(|parameter| predicate.test.fits(parameter.kind));
    let others = tools.iter().any(|tool| *tool != Tool::Bash && tool.parameters().iter().any(|one| one.name == name));
    if matches!(predicate.test, Test::Program(_)) && others {
        let message = "`program` can be held against the `command` of `bash` alone";
        complaints.add(Problem::at(place, message).hint("write tools: bash"));
        return false;
    }
    if !fits {
        let message = format!("this condition cannot be held against `{name}`, which is of another type");
        complaints.add(Problem::at(place, message).hint("texts: equals, one_of, starts_with, contains, matches, under, program, host; numbers: equals, at_least, at_most; truths: equals"));
    }
    fits
}

/// The conditions of one argument; a bare value is `equals`.
fn tests(node: Node, complaints: &Complaints) -> Vec<Test> {
    let place = node.place;
    let mut tests = Vec::new();
    if !matches!(node.value, Yaml::Map(_)) {
        tests.extend(equals(&node, complaints));
        return tests;
    }
    let Some(mut fields) = Fields::open(node, "a condition", KEYS, complaints) else { return tests };
    for list in ["one_of", "program", "host"] {
        nonempty(&mut fields, list);
    }
    if let Some(node) = fields.take("equals") {
        tests.extend(equals(&node, complaints));
    }
    if fields.has("one_of") {
        tests.push(Test::OneOf(texts(&mut fields, "one_of")));
    }
    tests.extend(fields.text("starts_with").map(|text| Test::StartsWith(text.value)));
    tests.extend(fields.text("contains").map(|text| Test::Contains(text.value)));
    if let Some(under) = fields.text("under") {
        if !under.value.starts_with('/') {
            let message = format!("`under: {}` is not an absolute path", under.value);
            complaints.add(Problem { place: under.place, message, hint: Some("write under: /repo/docs".into()) });
        }
        tests.push(Test::Under(under.value));
    }
    if let Some(text) = fields.text("matches") {
        // By itself first: `x)|(.*` would be one only within what is put around it.
        let alone = Regex::new(&text.value);
        // Held against all of the text: a condition that is met somewhere in it is met by anything around it.
        let whole = format!(r"\A(?:{})\z", text.value);
        match alone.and_then(|_| regex::RegexBuilder::new(&whole).size_limit(MOST_EXPRESSION).build()) {
            Ok(expression) => tests.push(Test::Matches(expression)),
            Err(error) => complaints.add(Problem::at(
                text.place.unwrap_or(place),
                format!("`matches` is not a regular expression: {error}"),
            )),
        }
    }
    if fields.has("program") {
        tests.push(Test::Program(texts(&mut fields, "program")));
    }
    if fields.has("host") {
        let hosts = fields.list("host").into_iter();
        let hosts = hosts.filter_map(|node| {
            profile::source::parsed::<HostPattern>(node, "host", complaints, |error| Some(error.hint().to_owned()))
        });
        tests.push(Test::Host(hosts.map(|host| host.value).collect()));
    }
    let (least, most) = (integer(&mut fields, "at_least"), integer(&mut fields, "at_most"));
    if least.is_some() || most.is_some() {
        tests.push(Test::Number { least, most });
    }
    fields.close();
    if tests.is_empty() && complaints.is_empty() {
        complaints.add(Problem::at(place, "a condition without content").hint(format!("use {}", KEYS.join(", "))));
    }
    tests
}

fn equals(node: &Node, complaints: &Complaints) -> Option<Test> {
    match &node.value {
        Yaml::Text(text) => Some(Test::OneOf(vec![text.clone()])),
        Yaml::Integer(number) => Some(Test::Number { least: Some(*number), most: Some(*number) }),
        Yaml::Bool(truth) => Some(Test::Truth(*truth)),
        other => {
            complaints.add(Problem::at(node.place, format!("a value to compare with cannot be {}", other.kind())));
            None
        }
    }
}

fn texts(fields: &mut Fields<'_>, key: &str) -> Vec<String> {
    let complaints = fields.complaints();
    fields
        .list(key)
        .into_iter()
        .filter_map(|node| profile::source::text(node, key, complaints))
        .map(|text| text.value)
        .collect()
}

fn integer(fields: &mut Fields<'_>, key: &str) -> Option<i64> {
    let node = fields.take(key)?;
    match node.value {
        Yaml::Integer(number) => Some(number),
        other => {
            let message = format!("`{key}` must be a whole number, found {}", other.kind());
            fields.complaints().add(Problem::at(node.place, message));
            None
        }
    }
}
