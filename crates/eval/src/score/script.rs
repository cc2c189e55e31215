//! Judging by a script, in the sandbox.

use std::time::Duration;

use log::event::Score;
use sandbox::{Exec, Outcome, Overflow, Sandbox, User};
use serde_json::{Map, Value};

use crate::solve::State;
use crate::task::Sample;

/// The most that is read of what a script says.
const SAID: usize = 1 << 20;
/// What a script finds set; nothing that the agent could have written is looked up by it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Judges by a script, in the sandbox of the score phase.
pub(crate) async fn by_script(
    sandbox: &Sandbox,
    script: &str,
    timeout: Duration,
    sample: &Sample,
    state: &State,
) -> Result<Score, String> {
    let answer = state.completion().to_owned();
    let exec = Exec {
        argv: ["/bin/sh", "-euc", script].map(str::to_owned).to_vec(),
        env: vec![
            ("PATH".into(), PATH.into()),
            ("HOME".into(), "/nonexistent".into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("ANSWER".into(), answer.clone()),
            ("TARGET".into(), sample.target.join("\n")),
        ],
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        max_output: None,
    };
    let completed = sandbox.exec(exec, b"", SAID, Overflow::KeepTail).await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&completed.stdout).into_owned();
    let number = said.lines().next_back().and_then(|line| line.trim().parse::<f64>().ok()).filter(|n| n.is_finite());
    let errors = String::from_utf8_lossy(&completed.stderr).into_owned();
    let explanation = Some(format!("{said}{errors}").chars().take(2000).collect());
    let value = match (completed.outcome, number) {
        (Outcome::Exited(0), Some(number)) => Value::from(number),
        (Outcome::Exited(0), None) => Value::from("C"),
        (Outcome::Exited(_), _) => Value::from("I"),
        (other, _) => return Err(format!("the scoring script did not end by itself: {other:?}")),
    };
    Ok(Score { value, answer: Some(answer), explanation, reason: None, metadata: Some(Map::new()) })
}
