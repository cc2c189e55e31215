//! One command, to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox::{Completed, Exec, Outcome, Overflow, SessionError, Stream, WindowSize};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Caller, Id, Json, short};
use super::problem::{Answer, Code, Problem, ProblemBody};
use crate::app::App;
use crate::life::held::Service;

/// The most that a command is given at once; whoever has more streams it.
const MAX_STDIN: usize = 64 << 20;
/// The largest body: that much in base64, and two mebibytes around it.
pub(crate) const MAX_BODY: usize = MAX_STDIN / 3 * 4 + (2 << 20);
/// What is kept of each stream unless the client says otherwise, and at most.
const OUTPUT: u64 = 10 << 20;
const MAX_OUTPUT: u64 = 256 << 20;
/// The longest time that can be asked for.
const MAX_TIMEOUT: f64 = 7.0 * 24.0 * 3600.0;
/// How many words and variables, and how long together.
const MAX_WORDS: usize = 65_536;

/// What happens to output above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnOverflow {
    /// The command ends.
    Kill,
    /// The end is kept, and `truncated` says that the beginning is gone.
    KeepTail,
}

/// A terminal's size.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) cols: u16,
}

impl From<Size> for WindowSize {
    fn from(size: Size) -> Self {
        Self { rows: size.rows, columns: size.cols }
    }
}

/// A command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecWish {
    /// Which container; the default one if absent.
    pub(crate) service: Option<String>,
    /// The program and its arguments. A program without a slash is looked up in `PATH`.
    #[schema(min_items = 1)]
    pub(crate) argv: Vec<String>,
    /// Added to what the sandbox sets.
    pub(crate) env: Option<BTreeMap<String, String>>,
    /// Where it starts; relative to the service's directory.
    pub(crate) cwd: Option<String>,
    /// Who it runs as: a name, uid or uid:gid of the sandbox.
    pub(crate) user: Option<String>,
    /// Its standard input.
    pub(crate) stdin_base64: Option<String>,
    /// Ends it and everything it started.
    #[schema(exclusive_minimum = 0, maximum = 604_800)]
    pub(crate) timeout_seconds: Option<f64>,
    /// Bytes of each stream; 10 MiB if absent.
    #[schema(minimum = 0, maximum = 268_435_456)]
    pub(crate) output_limit: Option<u64>,
    /// What happens above it; `kill` if absent.
    pub(crate) on_overflow: Option<OnOverflow>,
    /// A terminal instead of pipes; only where the command streams.
    pub(crate) pty: Option<Size>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// By itself, with `code`.
    Exited,
    /// By a signal.
    Signalled,
    /// Its time was up.
    TimedOut,
    /// It said more than it may.
    OutputLimit,
    /// The client ended it.
    Killed,
}

/// How a command ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ended {
    /// In one word.
    pub(crate) outcome: How,
    /// Its exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// The stream that exceeded its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<&'static str>,
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        let plain = |outcome| Self { outcome, code: None, signal: None, stream: None };
        match outcome {
            Outcome::Exited(code) => Self { code: Some(code), ..plain(How::Exited) },
            Outcome::Signalled(signal) => Self { signal: Some(signal), ..plain(How::Signalled) },
            Outcome::TimedOut => plain(How::TimedOut),
            Outcome::OutputLimit(Stream::Out) => Self { stream: Some("stdout"), ..plain(How::OutputLimit) },
            Outcome::OutputLimit(Stream::Err) => Self { stream: Some("stderr"), ..plain(How::OutputLimit) },
            Outcome::Killed => plain(How::Killed),
        }
    }
}

/// A command that ended, with what it said.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecResult {
    #[serde(flatten)]
    ended: Ended,
    /// Its standard output, or the end of it.
    stdout_base64: String,
    /// Its standard error, or the end of it.
    stderr_base64: String,
    /// Whether the beginning of a stream is gone.
    truncated: bool,
}

impl ExecWish {
    fn limit(&self) -> Answer<u64> {
        let limit = self.output_limit.unwrap_or(OUTPUT);
        if limit > MAX_OUTPUT {
            return Err(Problem::bad(format!("`output_limit` is at most {MAX_OUTPUT}")));
        }
        Ok(limit)
    }

    /// The command as the guest is told.
    pub(crate) fn exec(&self, service: &Service) -> Answer<Exec> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(Problem::bad("`argv` needs a program").hint("write it as the first word"));
        }
        let words = self.argv.len() + self.env.as_ref().map_or(0, BTreeMap::len);
        if words > MAX_WORDS {
            return Err(Problem::bad(format!("at most {MAX_WORDS} words and variables")));
        }
        let mut env = service.environment.clone();
        for (name, value) in self.env.iter().flatten() {
            if name.is_empty() || name.contains('=') {
                return Err(Problem::bad("the name of a variable is empty, or has `=` in it"));
            }
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.clone()));
        }
        let texts = self.argv.iter().chain(env.iter().flat_map(|(name, value)| [name, value]));
        if texts.chain(&self.cwd).chain(&self.user).any(|text| text.contains('\0')) {
            return Err(Problem::bad("a text has a NUL in it"));
        }
        let timeout_ms = match self.timeout_seconds {
            None => None,
            Some(seconds) if seconds > 0.0 && seconds <= MAX_TIMEOUT => {
                let millis = Duration::from_secs_f64(seconds).as_millis();
                Some(u64::try_from(millis).unwrap_or(u64::MAX).max(1))
            }
            Some(_) => return Err(Problem::bad("`timeout_seconds` is more than 0 and at most a week")),
        };
        Ok(Exec {
            argv: self.argv.clone(),
            env,
            cwd: self.cwd.as_deref().map(|cwd| service.resolve(cwd)).or_else(|| service.cwd.clone()),
            user: service.user(self.user.as_deref()),
            pty: self.pty.map(WindowSize::from),
            timeout_ms,
            max_output: self.output_limit.filter(|_| self.on_overflow == Some(OnOverflow::Kill)),
        })
    }
}

/// Names the program that cannot be run: the guest speaks of "the command".
fn cannot_run(error: SessionError, program: &str) -> Problem {
    match error {
        SessionError::Failed { kind, message } => {
            SessionError::Failed { kind, message: format!("`{program}`: {message}") }.into()
        }
        gone @ (SessionError::Died(_) | SessionError::Unresponsive(_)) => gone.into(),
    }
}

/// Runs a command to its end. A client that goes away ends it.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/exec", tag = "commands", request_body = ExecWish,
    params(("id" = String, Path, description = "The sandbox")), responses(
    (status = 200, description = "It ended", body = ExecResult),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn exec(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Json(wish): Json<ExecWish, MAX_BODY>,
) -> Answer<axum::Json<ExecResult>> {
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    if wish.pty.is_some() {
        return Err(Problem::bad("a terminal needs a stream").hint("use exec/stream"));
    }
    let service = held.service(wish.service.as_deref())?;
    let limit = usize::try_from(wish.limit()?).unwrap_or(usize::MAX);
    let exec = wish.exec(service)?;
    let input = match &wish.stdin_base64 {
        None => Vec::new(),
        Some(text) => STANDARD.decode(text).map_err(|_| Problem::bad("`stdin_base64` is not base64"))?,
    };
    if input.len() > MAX_STDIN {
        return Err(Problem::new(Code::TooLarge, format!("standard input of more than {MAX_STDIN} bytes"))
            .hint("use exec/stream"));
    }
    let overflow = match wish.on_overflow {
        None | Some(OnOverflow::Kill) => Overflow::Kill,
        Some(OnOverflow::KeepTail) => Overflow::KeepTail,
    };
    drop(wish);
    app.metrics.count_exec();
    let program = short(exec.argv.first().map_or("", String::as_str));
    let completed = service.view.exec(exec, &input, limit, overflow).await;
    let Completed { outcome, stdout, stderr, truncated } = completed.map_err(|error| cannot_run(error, &program))?;
    Ok(axum::Json(ExecResult {
        ended: outcome.into(),
        stdout_base64: STANDARD.encode(stdout),
        stderr_base64: STANDARD.encode(stderr),
        truncated,
    }))
}
