//! A model that works in small steps until its steps or its time are used up. There is nothing to submit: its last words
//! are the answer.

use std::time::Duration;

use log::message::{ChatMessage, Said, ToolCall, ToolError, ToolErrorKind, ToolResult};
use serde_json::json;
use tokio::time::Instant;

use super::agent::step;
use super::near::{self, Near};
use super::prune::prune;
use super::{State, Stop, Work, ask};
use crate::journal::unique;
use crate::offered;
use crate::task::Iterative;

const INSTRUCTIONS: &str = "You work on the task in small steps, with the tools that you have. Nobody waits for a last one: \
    you are asked for the next step until your steps or your time are used up. Keep what matters in files or in your list, \
    and say in words what you have come to: your last words are your answer.";
const CONTINUE: &str = "Go on with the next small step.";

pub(super) async fn run(work: &Work<'_>, own: &Iterative, state: &mut State) -> Result<(), Stop> {
    let tools = offered::to_iterative(work.granted, own);
    let infos: Vec<_> = tools.iter().map(|tool| tool.info()).collect();
    state.messages.insert(0, ChatMessage::system(own.instructions.clone().unwrap_or_else(|| INSTRUCTIONS.into())));
    let start = Instant::now();
    let deadline = own.time.map(|millis| start + Duration::from_millis(millis));
    let (mut told, mut ended) = (Vec::new(), "steps");
    for number in 0..own.max_steps {
        if number > 0 {
            tell(state, own.continue_message.clone().unwrap_or_else(|| CONTINUE.into()));
        }
        let budgets = [
            Near::of("steps", u64::from(number), Some(u64::from(own.max_steps))),
            Near::of_time("solver_time", start.elapsed(), own.time),
        ];
        let mut near: Vec<Near> = budgets.into_iter().flatten().collect();
        near::note(work.journal, state, &near);
        near.extend(near::of_sample(work, state));
        if let Some(notice) = notice(&near, &mut told) {
            tell(state, notice);
        }
        let sent = prune(&state.messages, own.keep_messages, own.max_message);
        let Some(said) = within(deadline, ask(work, state, &infos, Some(&sent))).await else {
            ended = "time";
            break;
        };
        let calls = match said? {
            ChatMessage::Assistant(reply) => reply.tool_calls.unwrap_or_default(),
            _ => Vec::new(),
        };
        if calls.is_empty() {
            continue;
        }
        let wanted = calls.clone();
        let Some(done) = within(deadline, step(work, &tools, calls, state)).await else {
            cancelled(wanted, state);
            ended = "time";
            break;
        };
        done?;
    }
    work.journal.info(json!({"kind": "iterative", "ended": ended, "seconds": start.elapsed().as_secs_f64()}));
    Ok(())
}

/// What something comes to, if it does so in time.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

fn tell(state: &mut State, content: String) {
    state.messages.push(ChatMessage::User(Said { id: Some(unique()), content: content.into(), source: None }));
}

/// What the model is told of limits that are near, each once.
fn notice(near: &[Near], told: &mut Vec<&'static str>) -> Option<String> {
    let fresh: Vec<&Near> = near.iter().filter(|one| !told.contains(&one.limit)).collect();
    told.extend(fresh.iter().map(|one| one.limit));
    let said = fresh.iter().map(|one| match one.limit {
        "steps" => format!("{} of {} steps", one.used, one.of),
        "message" | "token" => format!("{} of {} {}s", one.used, one.of, one.limit),
        _ => format!("{:.0} of {} seconds", one.used, one.of),
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| {
        format!(
            "A limit is near: {} are used. Bring what matters to an end, and say what you have come to.",
            said.join(", ")
        )
    })
}

/// Calls whose result nobody waited for have one all the same: a conversation without is broken.
fn cancelled(calls: Vec<ToolCall>, state: &mut State) {
    for call in calls {
        let message = "the time for all steps was up".to_owned();
        state.messages.push(ChatMessage::Tool(ToolResult {
            id: Some(unique()),
            content: message.clone().into(),
            tool_call_id: call.id,
            function: call.function,
            error: Some(ToolError { kind: ToolErrorKind::Cancelled, message }),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_told_once() {
        let mut told = Vec::new();
        let steps = Near { limit: "steps", used: 8.0, of: 10.0 };
        let time = Near { limit: "time", used: 96.4, of: 120.0 };
        let said = notice(&[steps, time], &mut told);
        assert!(said.is_some_and(|said| said.contains("8 of 10 steps, 96 of 120 seconds")));
        assert_eq!(notice(&[steps, time], &mut told), None);
        assert!(notice(&[Near { limit: "token", ..steps }], &mut told).is_some());
    }
}
