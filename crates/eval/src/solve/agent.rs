//! A model that works with tools, one step after the other, until it submits.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use log::message::{ChatMessage, Said, ToolCall, ToolResult};

use super::one_call::one;
use super::{State, Stop, Work, generate};
use crate::gone::Gone;
use crate::journal::unique;
use crate::offered;
use crate::score;
use crate::task::Agent;
use crate::tools::{Called, Tool};

const INSTRUCTIONS: &str = "You are to solve the task with the tools that you have. Call one or more tools in every step. \
    When you are done, call `submit` with your answer.";
const CONTINUE: &str = "Go on with the next step. If you think that you are done, call `submit` with your answer.";
const WRONG: &str = "That is not the right answer. Try again, and call `submit` when you have another.";

pub(super) async fn run(work: &Work<'_>, agent: &Agent, state: &mut State) -> Result<(), Stop> {
    let tools = offered::to_agent(work.granted, agent);
    let infos: Vec<_> = tools.iter().map(|tool| tool.info()).collect();
    let instructions = agent.instructions.clone().unwrap_or_else(|| INSTRUCTIONS.into());
    state.messages.insert(0, ChatMessage::system(instructions));
    let mut attempts = 0;
    for _ in 0..agent.max_steps {
        let said = generate(work, state, &infos).await?;
        let calls = match said {
            ChatMessage::Assistant(reply) => reply.tool_calls.unwrap_or_default(),
            _ => Vec::new(),
        };
        if calls.is_empty() {
            let text = agent.continue_message.clone().unwrap_or_else(|| CONTINUE.into());
            state.messages.push(ChatMessage::User(Said { id: Some(unique()), content: text.into(), source: None }));
            continue;
        }
        let submitted = step(work, &tools, calls, state).await?;
        if let Some(answer) = submitted {
            attempts += 1;
            state.answer = Some(answer);
            if attempts >= agent.attempts || score::is_right(work.task, work.sample, state) {
                return Ok(());
            }
            state.messages.push(ChatMessage::User(Said { id: Some(unique()), content: WRONG.into(), source: None }));
        }
    }
    Ok(())
}

/// Makes all calls of one step, at the same time; returns what was submitted.
pub(super) async fn step(
    work: &Work<'_>,
    tools: &[Tool],
    calls: Vec<ToolCall>,
    state: &mut State,
) -> Result<Option<String>, Stop> {
    let said = state.output.as_ref().map(|output| output.completion.clone()).unwrap_or_default();
    // Every call is a message more. One may be the last; many at once that do not fit are not made.
    let messages = state.messages.len().saturating_add(calls.len());
    if let Some(limit) =
        work.limits.messages.filter(|limit| calls.len() > 1 && messages > usize::try_from(*limit).unwrap_or(usize::MAX))
    {
        let message = format!("{} calls at once are more than the sample's {limit} messages", calls.len());
        return Err(Stop::Limit { kind: "message", limit: f64::from(limit), message });
    }
    let (made, stopped) = together(work, tools, &calls, &said).await;
    let mut submitted = None;
    for (call, called) in calls.into_iter().zip(made) {
        // What was under way when the sample was ended has given nothing.
        let Some(called) = called else { continue };
        state.tool_calls += 1;
        work.counters.add_tool_call();
        let (gone, ends) = (called.gone, called.ends);
        submitted = called.submitted.or(submitted);
        state.messages.push(ChatMessage::Tool(ToolResult {
            id: Some(unique()),
            content: called.content.into(),
            tool_call_id: call.id,
            function: call.function,
            error: called.error,
        }));
        if let Some(why) = ends {
            return Err(Stop::Failed(why));
        }
        if let Some(error) = gone {
            let gone = match work.sandbox {
                Some(sandbox) => Gone::why(sandbox, error).await,
                None => Gone::Failed(error.to_string()),
            };
            // The agent may have caused it: what it left is judged, as after any other limit.
            return Err(match gone {
                Gone::Failed(why) => Stop::Failed(format!("the sandbox is gone: {why}")),
                of_agent => of_agent.stop(work.plan),
            });
        }
    }
    stopped.map_or(Ok(submitted), Err)
}

/// Makes calls at the same time, until all are made or one of them ends the sample: then the others are given up.
async fn together(
    work: &Work<'_>,
    tools: &[Tool],
    calls: &[ToolCall],
    said: &str,
) -> (Vec<Option<Called>>, Option<Stop>) {
    let mut made: Vec<Option<Called>> = calls.iter().map(|_| None).collect();
    let mut under_way: FuturesUnordered<_> = calls
        .iter()
        .enumerate()
        .map(|(place, call)| async move { (place, one(work, tools, call, said, place).await) })
        .collect();
    while let Some((place, called)) = under_way.next().await {
        match called {
            Ok(called) => made[place] = Some(called),
            Err(stop) => return (made, Some(stop)),
        }
    }
    (made, None)
}
