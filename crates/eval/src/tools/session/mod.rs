//! `bash_session`: a shell that stays from call to call.
//!
//! One per sample, started by the first call, ended with the sample. A command that goes on running is no error: what it
//! prints is got by `read`. `screen.rs` turns what a terminal prints into text, `shell.rs` is the shell itself.

mod screen;
mod shell;

use std::time::Duration;

use log::event::What;
use log::message::{ToolError, ToolErrorKind};
use sandbox::{FailureKind, Outcome, Sandbox, SessionError};
use serde_json::json;
use tokio::sync::Mutex;

use super::schema::{Arguments, parsing};
use super::{Called, Hands, run};
use crate::journal::now;
use shell::{End, Live, Settled};

/// The most that one call may type.
const TYPED: usize = 64 << 10;
/// How long keys without Enter are given to show something.
const KEYS: Duration = Duration::from_millis(500);

/// The shell of one sample. Calls at the same time wait for each other, in their order.
#[derive(Default)]
pub(crate) struct Shell(Mutex<Option<Live>>);

/// What a call wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action<'a> {
    Type(&'a str),
    Submit(&'a str),
    Read,
    Interrupt,
    Restart,
}

fn action(arguments: &Arguments) -> Result<Action<'_>, ToolError> {
    let wrong = |message: String| Err(parsing(message));
    let (name, input) = (arguments.text("action"), arguments.maybe_text("input"));
    if input.is_some_and(|input| input.len() > TYPED) {
        let message = format!("the input is longer than {TYPED} bytes: write a file, or type it in parts");
        return Err(ToolError { kind: ToolErrorKind::Limit, message });
    }
    let plain = match (name, input) {
        ("type", Some(input)) => return Ok(Action::Type(input)),
        ("type_submit", Some(input)) => return Ok(Action::Submit(input)),
        ("type" | "type_submit", None) => return wrong(format!("`{name}` needs the argument `input`")),
        ("read", _) => Action::Read,
        ("interrupt", _) => Action::Interrupt,
        _ => Action::Restart,
    };
    if input.is_some_and(|input| !input.is_empty()) {
        return wrong(format!("`{name}` types nothing: it takes no `input`"));
    }
    Ok(plain)
}

pub(super) async fn act(arguments: &Arguments, sandbox: &Sandbox, hands: &Hands<'_>) -> Called {
    let action = match action(arguments) {
        Ok(action) => action,
        Err(error) => return Called::failed(error),
    };
    let mut slot = hands.kit.shell.0.lock().await;
    let called = match work(action, &mut slot, sandbox, hands).await {
        Ok(called) => called,
        Err(SessionError::Failed { kind: FailureKind::NotFound, .. }) => {
            *slot = None;
            Called::error(ToolErrorKind::FileNotFound, "the shell cannot be started: there is no bash in this sandbox")
        }
        Err(error) => {
            *slot = None;
            run::failed(&error)
        }
    };
    let result = slot.as_ref().and_then(Live::ended).map(|end| code(&end));
    hands.journal.event(What::Sandbox {
        action: "exec".into(),
        cmd: Some(format!("bash_session {}", arguments.text("action"))),
        options: Some([("timeout".to_owned(), json!(hands.manner.timeout.as_secs_f64()))].into_iter().collect()),
        file: None,
        input: arguments.maybe_text("input").map(str::to_owned),
        result,
        output: Some(called.content.clone()),
        completed: Some(now()),
    });
    called
}

async fn work(
    action: Action<'_>,
    slot: &mut Option<Live>,
    sandbox: &Sandbox,
    hands: &Hands<'_>,
) -> Result<Called, SessionError> {
    let manner = &hands.manner;
    let mut restarted = "A new shell waits for input.";
    if let Some(old) = slot.take_if(|_| action == Action::Restart) {
        match old.ended() {
            Some(End::Gone(error @ (SessionError::Died(_) | SessionError::Unresponsive(_)))) => return Err(error),
            // It had ended by itself: what it left behind is nobody's, and lives on.
            Some(_) => {}
            None => {
                old.stop().await?;
                restarted = "A new shell waits for input; what the old one ran has been ended.";
            }
        }
    }
    let live = match slot {
        Some(live) => live,
        None => slot.insert(Live::start(sandbox, manner.surroundings, manner.timeout).await?),
    };
    match live.ended() {
        Some(End::Gone(error)) => return Err(error),
        Some(end) => return Ok(over(&end)),
        None => {}
    }
    if action == Action::Restart {
        return Ok(Called::said(restarted));
    }
    let read = action == Action::Read;
    let mut since = live.since(read);
    let typed = async {
        match action {
            Action::Type(text) => live.type_in(text).await,
            Action::Submit(text) => live.submit(text).await,
            Action::Interrupt => live.interrupt().await,
            Action::Read | Action::Restart => Ok(()),
        }
    };
    let unread = match tokio::time::timeout(manner.timeout, typed).await {
        // Nobody reads: the shell is over, which it says itself.
        Ok(_) => "",
        Err(_) => "[not all of it was typed: nothing reads it; use `interrupt` or `restart`]\n",
    };
    let keys = matches!(action, Action::Type(text) if !text.contains(['\n', '\r']));
    since.owed |= !read && !keys;
    let settled = live.settle(since, if keys { KEYS } else { manner.timeout }, manner.timeout).await;
    let shown = live.take();
    if let Some(End::Gone(error)) = live.ended() {
        return Err(error);
    }
    let nothing = shown.text.is_empty();
    let missing = match shown.dropped {
        0 => String::new(),
        dropped => format!("[… {dropped} bytes before this were not kept]\n"),
    };
    let mut called =
        run::cut(format!("{unread}{missing}{}", shown.text), manner.output, false, hands.journal.redactor());
    if shown.dropped > 0 {
        let whole = u64::try_from(shown.text.len()).unwrap_or(u64::MAX).saturating_add(shown.dropped);
        let kept = called.truncated.map_or(whole - shown.dropped, |(_, kept)| kept);
        called.truncated = Some((whole, kept));
    }
    let note = match (live.ended(), settled) {
        (Some(end), _) => format!("[the shell has ended: {}; `restart` begins a new one]", how(&end)),
        (None, Settled::TimeUp) if nothing => {
            format!("[no output within {} s; the shell goes on, `read` gets what comes]", manner.timeout.as_secs_f64())
        }
        (None, Settled::TimeUp) => {
            format!("[still at it after {} s; `read` gets what comes next]", manner.timeout.as_secs_f64())
        }
        (None, Settled::Quiet) if nothing => "[nothing was shown]".into(),
        (None, Settled::Quiet) => return Ok(called),
    };
    if !called.content.is_empty() && !called.content.ends_with('\n') {
        called.content.push('\n');
    }
    called.content.push_str(&note);
    Ok(called)
}

/// Nothing can be typed into a shell that is over. That its state is gone should not go unnoticed.
fn over(end: &End) -> Called {
    let how = how(end);
    let message =
        format!("the shell has ended: {how}; its directory and variables are gone, use `restart` for a new one");
    Called::error(ToolErrorKind::Unknown, message)
}

fn how(end: &End) -> String {
    match end {
        End::Ended(Outcome::Exited(code)) => format!("exit code {code}"),
        End::Ended(Outcome::Signalled(signal)) => format!("signal {signal}"),
        End::Ended(Outcome::TimedOut | Outcome::OutputLimit(_) | Outcome::Killed) => "it was killed".into(),
        End::Gone(error) => error.to_string(),
    }
}

fn code(end: &End) -> i64 {
    match end {
        End::Ended(Outcome::Exited(code)) => i64::from(*code),
        End::Ended(Outcome::Signalled(signal)) => 128 + i64::from(*signal),
        End::Ended(Outcome::TimedOut | Outcome::OutputLimit(_) | Outcome::Killed) => 137,
        End::Gone(_) => -1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Tool;
    use super::*;

    fn read(arguments: Value) -> Result<String, Option<ToolErrorKind>> {
        let Value::Object(arguments) = arguments else { return Err(None) };
        let checked = Arguments::check("bash_session", Tool::BashSession.parameters(), &arguments);
        let checked = checked.map_err(|error| Some(error.kind))?;
        let read = action(&checked).map(|action| format!("{action:?}"));
        read.map_err(|error| Some(error.kind))
    }

    #[test]
    fn actions_have_the_input_that_they_need() {
        assert_eq!(read(json!({"action": "type", "input": "y"})), Ok("Type(\"y\")".into()));
        assert_eq!(read(json!({"action": "type_submit", "input": ""})), Ok("Submit(\"\")".into()));
        assert_eq!(read(json!({"action": "read", "input": ""})), Ok("Read".into()));
        assert_eq!(read(json!({"action": "interrupt", "input": null})), Ok("Interrupt".into()));
        assert_eq!(read(json!({"action": "restart"})), Ok("Restart".into()));
        for wrong in [json!({"action": "type"}), json!({"action": "read", "input": "x"}), json!({"action": "sing"})] {
            assert_eq!(read(wrong), Err(Some(ToolErrorKind::Parsing)));
        }
        let long = "x".repeat(TYPED + 1);
        assert_eq!(read(json!({"action": "type", "input": long})), Err(Some(ToolErrorKind::Limit)));
    }
}
