//! One call of a model: is it sound, may it be made, what did it give, may that be seen; all of it written down.

use std::time::{Duration, Instant};

use log::event::What;
use log::message::{ToolCall, ToolErrorKind};
use serde_json::json;

use super::{Stop, Work};
use crate::approval::{Permit, Review, Ruling};
use crate::journal::now;
use crate::tools::{Called, Hands, Manner, Tool, call, sound};

/// Who rejects calls beside the first of a step, where that is switched off.
const ONE_AT_A_TIME: &str = "one_at_a_time";

/// Makes a call, if it may be made; `place` is its place among the calls of this step.
pub(super) async fn one(
    work: &Work<'_>,
    tools: &[Tool],
    wanted: &ToolCall,
    said: &str,
    place: usize,
) -> Result<Called, Stop> {
    let start = Instant::now();
    let _working = work.gate.working();
    let before = work.journal.waited_so_far();
    let (made, called) = attempt(work, tools, wanted, said, place).await?;
    let working = start.elapsed().saturating_sub(work.journal.waited_so_far().saturating_sub(before));
    work.journal.event(What::Tool {
        id: wanted.id.clone(),
        kind: "function".into(),
        function: made.function,
        arguments: made.arguments,
        result: called.content.clone(),
        truncated: called.truncated,
        error: called.error.clone(),
        completed: Some(now()),
        working_time: Some(working.as_secs_f64()),
    });
    Ok(called)
}

/// The call as it was made, and what it gave.
async fn attempt(
    work: &Work<'_>,
    tools: &[Tool],
    wanted: &ToolCall,
    said: &str,
    place: usize,
) -> Result<(ToolCall, Called), Stop> {
    // What cannot be called needs nobody's approval, and gets nobody's time.
    let tool = match sound(wanted, tools) {
        Ok(tool) => tool,
        Err(error) => return Ok((wanted.clone(), Called::failed(error))),
    };
    if place > 0 && !work.plan.parallel_calls {
        let why = "only the first call of a step is approved: make one call at a time";
        work.gate.refuse(wanted, ONE_AT_A_TIME, why);
        return Ok((wanted.clone(), rejected(why)));
    }
    // Finishing needs nobody's approval.
    let ruling = if tool == Tool::Submit {
        Ruling::Approved { call: wanted.clone(), permit: Box::new(Permit::free(tool, wanted, work.gate.key())) }
    } else {
        work.gate.call(tool, wanted, said).await
    };
    let (approved, permit) = match ruling {
        Ruling::Approved { call, permit } => (call, permit),
        Ruling::Rejected(why) => return Ok((wanted.clone(), rejected(&why))),
        Ruling::Terminated(why) => return Err(terminated(work, tool, &why)),
    };
    let limits = &work.plan.limits;
    let manner = Manner {
        timeout: Duration::from_millis(limits.tool_timeout.amount.0),
        output: usize::try_from(limits.output.amount.0).unwrap_or(usize::MAX),
        surroundings: work.surroundings,
    };
    let hands = Hands {
        plan: work.plan,
        sandbox: work.sandbox,
        manner,
        journal: work.journal,
        kit: work.kit,
        permit: &permit,
        key: work.gate.key(),
    };
    let called = call(&approved, tools, &hands).await;
    // An answer is the sample's own, and an error that is only that shows nothing; one of a command may stand beside output.
    let only_an_error = called.error.as_ref().is_some_and(|error| error.message == called.content);
    let reviewed = if tool == Tool::Submit || only_an_error {
        called
    } else {
        match work.gate.result(tool, &approved, &called.content).await {
            Review::Shown => called,
            Review::Replaced(result) => Called { content: result, truncated: None, ..called },
            Review::Withheld(why) => Called::error(ToolErrorKind::Approval, format!("the result was withheld: {why}")),
            Review::Terminated(why) => return Err(terminated(work, tool, &why)),
        }
    };
    Ok((approved, reviewed))
}

fn rejected(why: &str) -> Called {
    Called::error(ToolErrorKind::Approval, format!("the call was not approved: {why}"))
}

fn terminated(work: &Work<'_>, tool: Tool, why: &str) -> Stop {
    work.journal.info(json!({"kind": "approval", "decision": "terminate", "tool": tool.name()}));
    Stop::Limit { kind: "operator", limit: 1.0, message: why.to_owned() }
}
