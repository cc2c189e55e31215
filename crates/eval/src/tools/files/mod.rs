//! Files, in memory or in the sandbox. `act.rs` says what each tool does, `guard.rs` what it may touch, `edit.rs` is the text
//! alone; `store.rs` and `sandboxed.rs` are the two places.

mod act;
mod disk;
mod edit;
mod guard;
mod history;
mod names;
mod preflight;
mod sandboxed;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use log::event::What;
use log::message::ToolErrorKind;
use profile::{FileMode, FileToolsInForce};
use sandbox::{Sandbox, User};

use super::run::{cut, failed};
use super::schema::Arguments;
use super::{Called, Hands, Tool};
use act::Work;
use disk::Disk;
use history::History;
use preflight::Decision;
use sandboxed::Sandboxed;
use store::Store;

pub(crate) use preflight::Looks;

/// The files of one sample.
#[derive(Default)]
pub(crate) struct Files {
    looks: Arc<Looks>,
    /// Whether the sandbox could serve before the agent began.
    was_ready: bool,
    /// One call at a time, in the order of the calls: an edit reads and then writes.
    kept: tokio::sync::Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    store: Store,
    history: History,
    /// Where this sample's files are; decided by the first call, and kept.
    mode: Option<FileMode>,
}

impl Files {
    /// Files of a sample that shares with others what was found out about their sandboxes.
    pub(crate) fn sharing(looks: &Arc<Looks>) -> Self {
        Self { looks: Arc::clone(looks), ..Self::default() }
    }

    /// Looks at the sandbox before the agent does anything.
    pub(crate) async fn look(
        &mut self,
        rules: &FileToolsInForce,
        sandbox: &Sandbox,
        user: Option<&str>,
        timeout: Duration,
    ) {
        self.was_ready = preflight::is_ready(rules, sandbox, user, timeout).await;
    }
}

pub(super) async fn call(tool: Tool, arguments: &Arguments, sandbox: Option<&Sandbox>, hands: &Hands<'_>) -> Called {
    let mut kept = hands.kit.files.kept.lock().await;
    let sandbox = sandbox.filter(|_| hands.plan.file_tools.mode == FileMode::Sandbox);
    let mode = match (kept.mode, sandbox) {
        (Some(mode), _) => mode,
        (None, None) => FileMode::Store,
        (None, Some(sandbox)) => {
            match preflight::decide(&hands.kit.files.looks, hands.kit.files.was_ready, sandbox, hands).await {
                Decision::Use(mode) => mode,
                Decision::Fail(why) => {
                    return Called { ends: Some(why.clone()), ..Called::error(ToolErrorKind::SandboxUnavailable, why) };
                }
                Decision::Refuse(why) => return Called::error(ToolErrorKind::SandboxUnavailable, why),
                Decision::Gone(error) => return failed(&error),
            }
        }
    };
    kept.mode = Some(mode);
    let Kept { store, history, .. } = &mut *kept;
    let tell = |what: What| hands.journal.event(what);
    let rules = &hands.plan.file_tools;
    let disk = match (mode, sandbox) {
        (FileMode::Sandbox, Some(sandbox)) => {
            let user = hands.manner.surroundings.user.clone().map_or(User::Default, User::Named);
            Disk::Sandbox(Sandboxed { place: sandbox.confined(rules.root.as_str(), user), tell: &tell })
        }
        _ => Disk::Memory(store),
    };
    let mut work = Work { disk, history, rules };
    match tokio::time::timeout(hands.manner.timeout, work.act(tool, arguments)).await {
        Ok(Ok(said)) => cut(said, hands.manner.output, false, hands.journal.redactor()),
        Ok(Err(failed)) => Called { gone: failed.gone, ..Called::failed(failed.error) },
        Err(_) => {
            let seconds = hands.manner.timeout.as_secs_f64();
            Called::error(ToolErrorKind::Timeout, format!("the call was given up: its {seconds} s were up"))
        }
    }
}
