//! Judging by a script, in the sandbox.
//!
//! What the agent or its answer makes impossible is a wrong answer with a reason, and counts. Only what the provider or the
//! task is to blame for fails the sample.

use std::time::{Duration, Instant};

use log::event::Score;
use sandbox::{Exec, FailureKind, Outcome, Overflow, Sandbox, SessionError, User};
use serde_json::{Map, Value};

use super::room::{NoRoom, Room};
use crate::gone::Gone;
use crate::solve::State;
use crate::task::Sample;

/// The most that is read of what a script says.
const SAID: usize = 1 << 20;
/// The most characters of it that are kept.
const KEPT: usize = 2000;
/// The shell that runs scripts.
const SHELL: &str = "/bin/sh";

/// Reasons of scores that the agent or its answer made impossible to give.
mod reason {
    /// The script did not end in time.
    pub(super) const TIMEOUT: &str = "scorer_timeout";
    /// The script was ended by a signal, for one because memory ran out, or with it the sandbox.
    pub(super) const KILLED: &str = "scorer_killed";
    /// The script could not be started on what was left.
    pub(super) const BLOCKED: &str = "scorer_blocked";
    /// No sandbox could be made, for what lies in a writable mount.
    pub(super) const MOUNT: &str = "mount_blocked";
}

/// The score of a sample whose sandbox cannot be made, for what lies in a writable mount.
pub(crate) fn blocked(state: &State, why: &str) -> Score {
    wrong(state.completion(), reason::MOUNT, why)
}

/// The score of a sample whose sandbox the agent made useless, where there is no other to judge in.
pub(crate) fn lost(state: &State, why: &str) -> Score {
    wrong(state.completion(), reason::BLOCKED, why)
}

/// The score of a sample whose sandbox what the script ran made useless.
pub(crate) fn killed(state: &State, gone: &Gone) -> Score {
    wrong(state.completion(), reason::KILLED, &gone.to_string())
}

fn wrong(answer: &str, reason: &str, said: &str) -> Score {
    Score {
        value: Value::from("I"),
        answer: Some(answer.to_owned()),
        explanation: Some(said.chars().take(KEPT).collect()),
        reason: Some(reason.to_owned()),
        metadata: Some(Map::new()),
    }
}

/// Judges what the script cannot, because its sandbox is gone. A script may run what the agent left, and that can fill the memory
/// with what outlives processes, until the guest is the only process that the kernel can kill.
async fn gone(sandbox: &Sandbox, error: SessionError, state: &State) -> Result<Score, String> {
    match Gone::why(sandbox, error).await {
        Gone::Failed(why) => Err(why),
        of_agent => Ok(killed(state, &of_agent)),
    }
}

/// Judges by a script, in the sandbox of the score phase.
pub(crate) async fn by_script(
    sandbox: &Sandbox,
    script: &str,
    timeout: Duration,
    sample: &Sample,
    state: &State,
) -> Result<Score, String> {
    let answer = state.completion();
    let wrong = |reason: &str, said: String| wrong(answer, reason, &said);
    let room = match Room::make(sandbox, answer, &sample.target.join("\n")).await {
        Ok(room) => room,
        Err(NoRoom::Agent(why)) => return Ok(wrong(reason::BLOCKED, why)),
        Err(NoRoom::Failed(why)) => return Err(why),
        Err(NoRoom::Gone(error)) => return gone(sandbox, error, state).await,
    };
    let exec = Exec {
        argv: [SHELL, "-euc", script].map(str::to_owned).to_vec(),
        env: room.environment(),
        cwd: Some(room.work()),
        user: User::Default,
        pty: None,
        timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        max_output: None,
    };
    let began = Instant::now();
    let completed = match sandbox.exec(exec, b"", SAID, Overflow::KeepTail).await {
        Ok(completed) => completed,
        // A sandbox so busy that its guest cannot end the script in time, or say anything at all.
        Err(error @ SessionError::Unresponsive(_)) => {
            let reason = if began.elapsed() >= timeout { reason::TIMEOUT } else { reason::BLOCKED };
            return Ok(wrong(reason, error.to_string()));
        }
        // Memory or descriptors that the agent's files took.
        Err(SessionError::Failed { kind: FailureKind::Exhausted, message }) => {
            return Ok(wrong(reason::BLOCKED, message));
        }
        Err(error) => return gone(sandbox, error, state).await,
    };
    let said = String::from_utf8_lossy(&completed.stdout).into_owned();
    let number = said.lines().next_back().and_then(|line| line.trim().parse::<f64>().ok()).filter(|n| n.is_finite());
    let errors = String::from_utf8_lossy(&completed.stderr).into_owned();
    let said = format!("{}{said}{errors}", room.note().unwrap_or_default());
    let value = match (completed.outcome, number) {
        (Outcome::Exited(0), Some(number)) => Value::from(number),
        (Outcome::Exited(0), None) => Value::from("C"),
        (Outcome::Exited(_), _) => Value::from("I"),
        (Outcome::TimedOut, _) => {
            let why = format!("the script did not end within {} s\n{said}", timeout.as_secs_f64());
            return Ok(wrong(reason::TIMEOUT, why));
        }
        (Outcome::Signalled(signal), _) => {
            return Ok(wrong(reason::KILLED, format!("the script was ended by signal {signal}\n{said}")));
        }
        (other, _) => return Err(format!("the scoring script did not end by itself: {other:?}")),
    };
    let explanation = Some(said.chars().take(KEPT).collect());
    Ok(Score { value, answer: Some(answer.to_owned()), explanation, reason: None, metadata: Some(Map::new()) })
}
