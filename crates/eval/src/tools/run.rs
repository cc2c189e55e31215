//! Commands and code in the sandbox.

use log::Redactor;
use log::event::What;
use log::message::{ToolError, ToolErrorKind};
use sandbox::{Exec, FailureKind, Outcome, Overflow, Sandbox, SessionError, User};
use serde_json::json;

use super::{Called, Hands};
use crate::journal::now;

/// The most that is read of one call's streams; the model is shown less.
const READ: usize = 10 << 20;

/// Runs a command by a login shell.
pub(super) async fn bash(command: &str, sandbox: &Sandbox, hands: &Hands<'_>) -> Called {
    run(sandbox, ["bash", "--login", "-c", command].map(str::to_owned).to_vec(), "", hands).await
}

/// Runs Python code, read from its standard input.
pub(super) async fn python(code: &str, sandbox: &Sandbox, hands: &Hands<'_>) -> Called {
    run(sandbox, vec!["python3".into(), "-".into()], code, hands).await
}

async fn run(sandbox: &Sandbox, argv: Vec<String>, input: &str, hands: &Hands<'_>) -> Called {
    let Hands { manner, journal, .. } = hands;
    let exec = Exec {
        argv,
        env: manner.surroundings.environment.clone(),
        cwd: manner.surroundings.directory.clone(),
        user: manner.surroundings.user.clone().map_or(User::Default, User::Named),
        pty: None,
        timeout_ms: Some(u64::try_from(manner.timeout.as_millis()).unwrap_or(u64::MAX)),
        max_output: None,
    };
    let command = exec.argv.join(" ");
    let ended = sandbox.exec(exec, input.as_bytes(), READ, Overflow::KeepTail).await;
    let (result, called) = match ended {
        Ok(completed) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&completed.stdout), text(&completed.stderr));
            let separator = if err.is_empty() || err.ends_with('\n') { "" } else { "\n" };
            let mut called =
                cut(format!("{err}{separator}{out}"), manner.output, completed.truncated, journal.redactor());
            let code = match completed.outcome {
                Outcome::Exited(code) => i64::from(code),
                Outcome::Signalled(signal) => 128 + i64::from(signal),
                Outcome::TimedOut => {
                    let message = format!("the command was ended: its {} s were up", manner.timeout.as_secs_f64());
                    called.error = Some(ToolError { kind: ToolErrorKind::Timeout, message });
                    124
                }
                Outcome::OutputLimit(_) | Outcome::Killed => 137,
            };
            (code, called)
        }
        Err(error) => (-1, failed(&error)),
    };
    journal.event(What::Sandbox {
        action: "exec".into(),
        cmd: Some(command),
        options: Some([("timeout".to_owned(), json!(manner.timeout.as_secs_f64()))].into_iter().collect()),
        file: None,
        input: (!input.is_empty()).then(|| input.to_owned()),
        result: Some(result),
        output: Some(called.content.clone()),
        completed: Some(now()),
    });
    called
}

pub(super) fn failed(error: &SessionError) -> Called {
    let (kind, gone) = match error {
        SessionError::Died(_) | SessionError::Unresponsive(_) => {
            (ToolErrorKind::SandboxUnavailable, Some(error.clone()))
        }
        SessionError::Failed { kind, .. } => (
            match kind {
                FailureKind::NotFound => ToolErrorKind::FileNotFound,
                FailureKind::PermissionDenied => ToolErrorKind::Permission,
                FailureKind::IsADirectory => ToolErrorKind::IsADirectory,
                FailureKind::TooLarge | FailureKind::ProcessLimit | FailureKind::Exhausted => ToolErrorKind::Limit,
                _ => ToolErrorKind::Unknown,
            },
            None,
        ),
    };
    Called { gone, ..Called::failed(ToolError { kind, message: error.to_string() }) }
}

/// Keeps the beginning and the end, and says that something is missing. No part of a secret is left at a cut: in the log
/// nothing would find it any more.
pub(super) fn cut(text: String, limit: usize, tail_only: bool, redactor: &Redactor) -> Called {
    let length = text.len();
    if length <= limit && !tail_only {
        return Called::said(text);
    }
    let floor = |at: usize| (0..=at.min(length)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let ceil = |at: usize| (at..=length).find(|at| text.is_char_boundary(*at)).unwrap_or(length);
    let half = limit / 2;
    let (begin, end) = (floor(half), ceil(length.saturating_sub(half)));
    let begin = redactor.split_by(&text, begin).map_or(begin, |(start, _)| floor(start));
    let end = redactor.split_by(&text, end).map_or(end, |(_, past)| ceil(past)).max(begin);
    let (content, kept) = if length <= limit {
        (format!("[… the beginning is missing]\n{text}"), length)
    } else {
        let missing = end - begin;
        (format!("{}\n[… {missing} bytes are missing …]\n{}", &text[..begin], &text[end..]), begin + (length - end))
    };
    let of = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    Called { truncated: Some((of(length), of(kept))), ..Called::said(content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_in_the_middle_and_says_so() {
        let none = Redactor::new([""; 0], [""; 0]);
        let called = cut("ä".repeat(1000), 101, false, &none);
        let (before, after) = called.truncated.unwrap_or_default();
        assert_eq!(before, 2000);
        assert!(after <= 101 && called.content.contains("bytes are missing"), "{}", called.content);
        assert_eq!(cut("short".into(), 100, false, &none).truncated, None);
        assert!(cut("end".into(), 100, true, &none).content.starts_with("[… the beginning is missing]"));
    }

    #[test]
    fn no_part_of_a_secret_is_left_at_a_cut() {
        let redactor = Redactor::new(["plainsecret0123456789z"], [""; 0]);
        for lead in 20..70 {
            let text = format!("{}plainsecret0123456789z{}", "-".repeat(lead), "=".repeat(200));
            let shown = cut(text, 100, false, &redactor).content;
            assert!(shown.contains("plainsecret0123456789z") || !shown.contains("plains"), "{shown}");
            let text = format!("{}plainsecret0123456789z{}", "-".repeat(200), "=".repeat(lead));
            let shown = cut(text, 100, false, &redactor).content;
            assert!(shown.contains("plainsecret0123456789z") || !shown.contains("6789z"), "{shown}");
        }
    }
}
