//! `generate:`: how the model is to answer. Names are Inspect's.

use std::time::Duration;

use model::{Effort, GenerateConfig};
use profile::source::{Complaints, Fields, Node, Value, nearest_word};
use profile::{Millis, Problem};

use super::amounts::count;

const KEYS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "stop_seqs",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
    "reasoning_tokens",
    "parallel_tool_calls",
    "cache_prompt",
    "cache",
    "max_retries",
    "timeout",
    "attempt_timeout",
    "max_connections",
];
/// How long answers are kept where nobody says.
const WEEK: Duration = Duration::from_hours(7 * 24);
/// The most texts at which an answer ends: what all providers take.
const MOST_STOPS: usize = 4;

/// Reads the mapping.
pub(super) fn read(node: Node, complaints: &Complaints) -> GenerateConfig {
    let Some(mut fields) = Fields::open(node, "`generate`", KEYS, complaints) else { return GenerateConfig::default() };
    let seconds = u32::try_from(Duration::from_hours(24).as_secs()).unwrap_or(u32::MAX);
    let config = GenerateConfig {
        temperature: number(&mut fields, "temperature", 0.0, 2.0),
        top_p: number(&mut fields, "top_p", 0.0, 1.0),
        top_k: count(&mut fields, "top_k", u32::MAX),
        max_tokens: count(&mut fields, "max_tokens", u32::MAX),
        stop_seqs: stops(&mut fields),
        seed: whole(&mut fields, "seed"),
        frequency_penalty: number(&mut fields, "frequency_penalty", -2.0, 2.0),
        presence_penalty: number(&mut fields, "presence_penalty", -2.0, 2.0),
        reasoning_effort: effort(&mut fields),
        reasoning_tokens: count(&mut fields, "reasoning_tokens", u32::MAX),
        parallel_tool_calls: fields.truth("parallel_tool_calls"),
        cache_prompt: fields.truth("cache_prompt"),
        cache: cache(&mut fields),
        max_retries: retries(&mut fields),
        timeout: count(&mut fields, "timeout", seconds),
        attempt_timeout: count(&mut fields, "attempt_timeout", seconds),
        max_connections: count(&mut fields, "max_connections", 1000),
    };
    fields.close();
    config
}

fn wrong(fields: &Fields<'_>, node: &Node, message: &str) {
    fields.complaints().add(Problem::at(node.place, format!("{message}, found {}", shown(&node.value))));
}

fn shown(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => other.kind().to_owned(),
    }
}

fn number(fields: &mut Fields<'_>, key: &str, least: f64, most: f64) -> Option<f64> {
    let node = fields.take(key)?;
    #[expect(clippy::cast_precision_loss, reason = "a number in a small range")]
    let number = match node.value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    };
    let number = number.filter(|number| (least..=most).contains(number));
    if number.is_none() {
        wrong(fields, &node, &format!("`{key}` must be a number from {least} to {most}"));
    }
    number
}

fn whole(fields: &mut Fields<'_>, key: &str) -> Option<i64> {
    let node = fields.take(key)?;
    if let Value::Integer(number) = node.value {
        return Some(number);
    }
    wrong(fields, &node, &format!("`{key}` must be a whole number"));
    None
}

/// Unlike other counts, none at all is a choice.
fn retries(fields: &mut Fields<'_>) -> Option<u32> {
    let node = fields.take("max_retries")?;
    if let Value::Integer(number) = node.value
        && let Some(count) = u32::try_from(number).ok().filter(|count| *count <= 100)
    {
        return Some(count);
    }
    wrong(fields, &node, "`max_retries` must be a whole number from 0 to 100");
    None
}

fn stops(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let place = fields.place_of("stop_seqs")?;
    let complaints = fields.complaints();
    let items = fields.list("stop_seqs");
    let texts: Vec<String> = items
        .into_iter()
        .filter_map(|item| profile::source::text(item, "stop_seqs", complaints))
        .map(|text| text.value)
        .collect();
    if texts.is_empty() || texts.len() > MOST_STOPS || texts.iter().any(String::is_empty) {
        complaints.add(
            Problem::at(place, format!("`stop_seqs` must be 1 to {MOST_STOPS} texts"))
                .hint("write stop_seqs: [\"END\"], or remove the key"),
        );
    }
    Some(texts)
}

fn effort(fields: &mut Fields<'_>) -> Option<Effort> {
    let text = fields.text("reasoning_effort")?;
    let found = Effort::ALL.iter().find(|(name, _)| *name == text.value).map(|(_, effort)| *effort);
    if found.is_none() {
        let names: Vec<&str> = Effort::ALL.iter().map(|(name, _)| *name).collect();
        let hint = match nearest_word(&text.value, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("efforts are {}", names.join(", ")),
        };
        let message = format!("`{}` is not an effort", text.value);
        fields.complaints().add(Problem { place: text.place, message, hint: Some(hint) });
    }
    found
}

/// `true`: for a week; a time: for so long; absent or `false`: not at all.
fn cache(fields: &mut Fields<'_>) -> Option<Duration> {
    let node = fields.take("cache")?;
    match &node.value {
        Value::Bool(kept) => kept.then_some(WEEK),
        Value::Text(text) if text.parse::<Millis>().is_ok() => {
            text.parse::<Millis>().ok().map(|millis| Duration::from_millis(millis.0))
        }
        _ => {
            fields.complaints().add(
                Problem::at(node.place, "`cache` must be true, false, or how long answers are kept")
                    .hint("write cache: true, or cache: 12h"),
            );
            None
        }
    }
}
