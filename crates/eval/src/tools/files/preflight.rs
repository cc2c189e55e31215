//! Whether the sandbox can serve the file tools, looked at before they are first used.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use profile::{FileMode, FileToolsInForce, Preflight};
use sandbox::{Access, Sandbox, SessionError, User};
use serde_json::json;

use super::names;
use crate::tools::Hands;

/// How long a look holds for all samples of an evaluation.
const TTL: Duration = Duration::from_mins(5);

/// What all samples of an evaluation know: when a sandbox of its image could last serve. That one could not is not
/// shared: another sample's files or setup may make the root.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<Option<Instant>>);

impl Looks {
    fn is_fresh(&self, now: Instant) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.saturating_duration_since(last) < TTL)
    }

    fn succeeded(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

/// What a sample's file tools work with, once that is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Use(FileMode),
    /// The sample cannot go on.
    Fail(String),
    /// This call cannot be served, for what the agent did; a later one may be.
    Refuse(String),
    /// Nothing more can be done in the sandbox.
    Gone(SessionError),
}

/// Whether the sandbox can serve before its agent does anything, where that decides whose fault a failure is: with `force`, a
/// root that was never usable fails the sample, and one that the agent made unusable fails its calls.
pub(super) async fn is_ready(
    rules: &FileToolsInForce,
    sandbox: &Sandbox,
    user: Option<&str>,
    timeout: Duration,
) -> bool {
    if rules.mode != FileMode::Sandbox || rules.preflight != Preflight::Force {
        return false;
    }
    let user = user.map_or(User::Default, |user| User::Named(user.to_owned()));
    let access = if rules.read_only { Access::Read } else { Access::Write };
    let ready = tokio::time::timeout(timeout, sandbox.confined(rules.root.as_str(), user).ready(access)).await;
    matches!(ready, Ok(Ok(())))
}

/// Decides, and writes down what was found. `was_ready` says whether the sandbox could serve before the agent began.
pub(super) async fn decide(looks: &Looks, was_ready: bool, sandbox: &Sandbox, hands: &Hands<'_>) -> Decision {
    let rules = &hands.plan.file_tools;
    let record = |outcome: &str, mode: FileMode, reason: Option<&str>| {
        hands.journal.info(json!({
            "kind": "file_tools", "preflight": outcome, "mode": mode.to_string(), "root": rules.root, "reason": reason,
        }));
    };
    if rules.preflight == Preflight::Skip {
        record("skipped", FileMode::Sandbox, None);
        return Decision::Use(FileMode::Sandbox);
    }
    if looks.is_fresh(Instant::now()) {
        record("passed", FileMode::Sandbox, Some("another sample of this evaluation found so"));
        return Decision::Use(FileMode::Sandbox);
    }
    let user = hands.manner.surroundings.user.clone().map_or(User::Default, User::Named);
    let access = if rules.read_only { Access::Read } else { Access::Write };
    let place = sandbox.confined(rules.root.as_str(), user);
    let ready = tokio::time::timeout(hands.manner.timeout, place.ready(access)).await;
    let why = match ready {
        Ok(Ok(())) => {
            looks.succeeded(Instant::now());
            record("passed", FileMode::Sandbox, None);
            return Decision::Use(FileMode::Sandbox);
        }
        Ok(Err(error @ (SessionError::Died(_) | SessionError::Unresponsive(_)))) => return Decision::Gone(error),
        Ok(Err(SessionError::Failed { message, .. })) => names::shown(&message),
        Err(_) => {
            let why = format!("its guest did not answer within {} s", hands.manner.timeout.as_secs_f64());
            if rules.preflight == Preflight::Force {
                record("failed", FileMode::Sandbox, Some(&why));
                // The agent may have seen to it.
                return Decision::Gone(SessionError::Unresponsive(why));
            }
            format!("the sandbox does not respond: {why}")
        }
    };
    if rules.preflight == Preflight::Force {
        record("failed", FileMode::Sandbox, Some(&why));
        if was_ready {
            return Decision::Refuse(format!("the sandbox cannot serve the file tools any more: {why}"));
        }
        return Decision::Fail(format!("the sandbox cannot serve the file tools: {why}"));
    }
    record("failed", FileMode::Store, Some(&why));
    Decision::Use(FileMode::Store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_holds_for_five_minutes() {
        let (looks, now) = (Looks::default(), Instant::now());
        assert!(!looks.is_fresh(now));
        looks.succeeded(now);
        assert!(looks.is_fresh(now) && looks.is_fresh(now + Duration::from_secs(299)));
        assert!(!looks.is_fresh(now + Duration::from_mins(5)));
    }
}
