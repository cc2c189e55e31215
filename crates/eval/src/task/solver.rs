//! `solver:`, one or several.

use std::collections::HashSet;

use profile::source::{Complaints, Fields, Node, nearest_word, text};
use profile::{Bytes, Located, Millis, Place, Problem, standard_tools};

use super::amounts::{count, text_or_file, words};
use super::files::Files;
use super::kinds::{self, Kind};
use super::{Agent, Iterative, Solver};

const KINDS: &[Kind] = &[
    ("generate", &["kind"]),
    ("system_message", &["kind", "template"]),
    ("prompt_template", &["kind", "template"]),
    ("multiple_choice", &["kind"]),
    ("agent", &["kind", "tools", "max_steps", "attempts", "continue_message", "instructions"]),
    (
        "iterative",
        &["kind", "tools", "max_steps", "time", "keep_messages", "max_message", "continue_message", "instructions"],
    ),
];
/// How often an agent is asked when nobody says.
const MAX_STEPS: u32 = 30;
/// The most that a task may state.
const MOST_STEPS: u32 = 100_000;
const MOST_ATTEMPTS: u32 = 1_000;
/// What a model is sent when nobody says: so many messages, of so many bytes.
const KEEP_MESSAGES: u32 = 40;
const MAX_MESSAGE: Bytes = Bytes(8 << 10);

impl Solver {
    /// The tools that it names.
    pub(crate) fn named_tools(&self) -> &[String] {
        match self {
            Self::Agent(Agent { tools, .. }) | Self::Iterative(Iterative { tools, .. }) => {
                tools.as_deref().unwrap_or_default()
            }
            Self::Generate | Self::SystemMessage(_) | Self::PromptTemplate(_) | Self::MultipleChoice => &[],
        }
    }

    /// Whether it offers a tool that is granted.
    pub(crate) fn offers(&self, name: &str) -> bool {
        match self {
            Self::Agent(Agent { tools, .. }) | Self::Iterative(Iterative { tools, .. }) => {
                tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name))
            }
            Self::Generate | Self::SystemMessage(_) | Self::PromptTemplate(_) | Self::MultipleChoice => false,
        }
    }
}

/// Reads all of them; `declared` are the tools of the document's own.
pub(super) fn read(
    node: Node,
    declared: &[String],
    complaints: &Complaints,
    files: &dyn Files,
) -> Vec<Located<Solver>> {
    let place = node.place;
    let nodes = kinds::one_or_many(node);
    if nodes.is_empty() {
        complaints.add(Problem::at(place, "`solver` is empty").hint("write solver: generate, or remove the key"));
    }
    let read = nodes.into_iter().filter_map(|node| {
        let place = node.place;
        read_one(node, declared, complaints, files).map(|solver| Located::at(place, solver))
    });
    read.collect()
}

fn read_one(node: Node, declared: &[String], complaints: &Complaints, files: &dyn Files) -> Option<Solver> {
    let (kind, mut fields) = kinds::open(node, "a solver", KINDS, complaints)?;
    let solver = match kind {
        "generate" => Some(Solver::Generate),
        "multiple_choice" => Some(Solver::MultipleChoice),
        "system_message" => template(&mut fields, kind, files).map(|(words, _)| Solver::SystemMessage(words)),
        "prompt_template" => template(&mut fields, kind, files).and_then(|(words, place)| {
            if words.contains('{') {
                return Some(Solver::PromptTemplate(words));
            }
            complaints.add(
                Problem::at(place, "the template drops the question").hint("write {prompt} where the question goes"),
            );
            None
        }),
        "iterative" => Some(Solver::Iterative(read_iterative(&mut fields, declared, files))),
        _ => Some(Solver::Agent(read_agent(&mut fields, declared, files))),
    };
    fields.close();
    solver
}

fn template(fields: &mut Fields<'_>, kind: &str, files: &dyn Files) -> Option<(String, Place)> {
    let complaints = fields.complaints();
    let place = fields.place_of("template");
    if place.is_none() {
        complaints.add(
            Problem::at(fields.place(), format!("`{kind}` needs a `template`"))
                .hint(format!("write {{kind: {kind}, template: …}}")),
        );
    }
    let node = fields.take("template")?;
    let words = text_or_file(node, "template", complaints, files)?;
    place.map(|place| (words, place))
}

fn read_agent(fields: &mut Fields<'_>, declared: &[String], files: &dyn Files) -> Agent {
    Agent {
        tools: read_tools(fields, declared).map(names),
        max_steps: count(fields, "max_steps", MOST_STEPS).unwrap_or(MAX_STEPS),
        attempts: count(fields, "attempts", MOST_ATTEMPTS).unwrap_or(1),
        continue_message: words(fields, "continue_message"),
        instructions: instructions(fields, files),
    }
}

fn read_iterative(fields: &mut Fields<'_>, declared: &[String], files: &dyn Files) -> Iterative {
    let tools = read_tools(fields, declared);
    if let Some(submit) = tools.iter().flatten().find(|tool| tool.value == crate::tools::SUBMIT) {
        fields.complaints().add(Problem {
            place: submit.place,
            message: "`iterative` has nothing to submit: it ends with its steps or its time".into(),
            hint: Some("leave `submit` out, or use the solver `agent`".into()),
        });
    }
    let size = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
    Iterative {
        tools: tools.map(names),
        max_steps: count(fields, "max_steps", MOST_STEPS).unwrap_or(MAX_STEPS),
        time: fields.parsed::<Millis>("time").map(|time| time.value.0),
        keep_messages: size(u64::from(count(fields, "keep_messages", MOST_STEPS).unwrap_or(KEEP_MESSAGES))),
        max_message: size(fields.parsed::<Bytes>("max_message").map_or(MAX_MESSAGE, |most| most.value).0),
        continue_message: words(fields, "continue_message"),
        instructions: instructions(fields, files),
    }
}

fn instructions(fields: &mut Fields<'_>, files: &dyn Files) -> Option<String> {
    let node = fields.take("instructions")?;
    text_or_file(node, "instructions", fields.complaints(), files)
}

fn names(tools: Vec<Located<String>>) -> Vec<String> {
    tools.into_iter().map(|tool| tool.value).collect()
}

fn read_tools(fields: &mut Fields<'_>, declared: &[String]) -> Option<Vec<Located<String>>> {
    let complaints = fields.complaints();
    fields.has("tools").then(|| {
        let (mut tools, mut listed) = (Vec::new(), HashSet::new());
        for node in fields.list("tools") {
            let Some(tool) = text(node, "tools", complaints) else { continue };
            if !listed.insert(tool.value.clone()) {
                complaints.add(Problem {
                    place: tool.place,
                    message: format!("the tool `{}` is listed twice", tool.value),
                    hint: None,
                });
            }
            check_tool(&tool, declared, complaints);
            tools.push(tool);
        }
        tools
    })
}

/// Whether the profile grants it is not said here: the plan does.
fn check_tool(tool: &Located<String>, declared: &[String], complaints: &Complaints) {
    let mut known: Vec<String> = standard_tools().map(|tool| tool.name).collect();
    known.extend_from_slice(declared);
    if known.contains(&tool.value) {
        return;
    }
    let hint = match nearest_word(&tool.value, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "declare your own in the task's `tools`, with where it runs".to_owned(),
    };
    let message = format!("`{}` is neither a standard tool nor one of the task's `tools`", tool.value);
    complaints.add(Problem { place: tool.place, message, hint: Some(hint) });
}
