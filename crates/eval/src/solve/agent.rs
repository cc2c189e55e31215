//! A model that works with tools, one step after the other, until it submits.

use std::time::{Duration, Instant};

use log::event::What;
use log::message::{ChatMessage, Said, ToolCall, ToolError, ToolErrorKind, ToolResult};
use serde_json::json;

use super::{State, Stop, Work, generate};
use crate::approval::{Decision, decide};
use crate::journal::{now, unique};
use crate::score;
use crate::task::Agent;
use crate::tools::{Called, Hands, Manner, SUBMIT, Tool, call};

const INSTRUCTIONS: &str = "You are to solve the task with the tools that you have. Call one or more tools in every step. \
    When you are done, call `submit` with your answer.";
const CONTINUE: &str = "Go on with the next step. If you think that you are done, call `submit` with your answer.";
const WRONG: &str = "That is not the right answer. Try again, and call `submit` when you have another.";

/// Which tools an agent is offered: those that are granted and that it names; always a way to finish.
fn offered(work: &Work<'_>, agent: &Agent) -> Vec<Tool> {
    let named = |tool: &Tool| agent.tools.as_ref().is_none_or(|names| names.iter().any(|name| name == tool.name()));
    let mut tools: Vec<Tool> =
        work.granted.iter().copied().filter(|tool| *tool != Tool::Submit).filter(named).collect();
    tools.push(Tool::Submit);
    tools
}

pub(super) async fn run(work: &Work<'_>, agent: &Agent, state: &mut State) -> Result<(), Stop> {
    let tools = offered(work, agent);
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
            state.messages.push(ChatMessage::User(Said { id: Some(unique()), content: text, source: None }));
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
async fn step(
    work: &Work<'_>,
    tools: &[Tool],
    calls: Vec<ToolCall>,
    state: &mut State,
) -> Result<Option<String>, Stop> {
    let made = calls.iter().map(|call| one(work, tools, call));
    let made: Vec<Result<Called, Stop>> = futures_util::future::join_all(made).await;
    let mut submitted = None;
    for (call, called) in calls.into_iter().zip(made) {
        let called = called?;
        state.tool_calls += 1;
        work.counters.add_tool_call();
        let (died, ends) = (called.died, called.ends);
        let message = called.content.clone();
        submitted = called.submitted.or(submitted);
        state.messages.push(ChatMessage::Tool(ToolResult {
            id: Some(unique()),
            content: called.content,
            tool_call_id: call.id,
            function: call.function,
            error: called.error,
        }));
        if let Some(why) = ends {
            return Err(Stop::Failed(why));
        }
        if died {
            return Err(Stop::Failed(format!("the sandbox is gone: {message}")));
        }
    }
    Ok(submitted)
}

/// Asks whether the call may be made, makes it, and writes both down.
async fn one(work: &Work<'_>, tools: &[Tool], wanted: &ToolCall) -> Result<Called, Stop> {
    let start = Instant::now();
    let affordance = work.plan.affordances.iter().find(|affordance| affordance.name == wanted.function);
    // Finishing needs nobody's approval.
    let said = if wanted.function == SUBMIT { Vec::new() } else { decide(work.plan.approval.as_ref(), affordance) };
    for decided in &said {
        work.journal.event(What::Approval {
            message: String::new(),
            call: wanted.clone(),
            approver: decided.approver.into(),
            decision: decided.decision.name().into(),
            explanation: Some(decided.explanation.into()),
        });
    }
    let last = said.last();
    let called = match last.map_or(Decision::Approve, |decided| decided.decision) {
        Decision::Approve => {
            let limits = &work.plan.limits;
            let manner = Manner {
                timeout: Duration::from_millis(limits.tool_timeout.amount.0),
                output: usize::try_from(limits.output.amount.0).unwrap_or(usize::MAX),
                surroundings: work.surroundings,
            };
            let hands = Hands { plan: work.plan, sandbox: work.sandbox, manner, journal: work.journal, kit: work.kit };
            call(wanted, tools, &hands).await
        }
        Decision::Terminate => {
            let why = last.map_or("", |decided| decided.explanation);
            work.journal.info(json!({"kind": "approval", "decision": "terminate", "tool": wanted.function}));
            return Err(Stop::Limit { kind: "operator", limit: 1.0, message: format!("`{}`: {why}", wanted.function) });
        }
        Decision::Reject | Decision::Escalate => Called::failed(ToolError {
            kind: ToolErrorKind::Approval,
            message: format!("the call was not approved: {}", last.map_or("", |decided| decided.explanation)),
        }),
    };
    work.journal.event(What::Tool {
        id: wanted.id.clone(),
        kind: "function".into(),
        function: wanted.function.clone(),
        arguments: wanted.arguments.clone(),
        result: called.content.clone(),
        truncated: called.truncated,
        error: called.error.clone(),
        completed: Some(now()),
        working_time: Some(start.elapsed().as_secs_f64()),
    });
    Ok(called)
}
