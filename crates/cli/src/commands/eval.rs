//! `eval`: a task in its profile, from its file to its log; by one model, or by several.

use std::path::{Path, PathBuf};

use eval::Evaluation;
use log::Status;
use profile::Profile;
use receipt::IssueError;
use serde_json::json;

use super::eval_obstacle::Obstacle;
use super::eval_prepare::{Asked, Ready};
use super::eval_run::{self, Ended, Outcome};
use super::eval_table::{self, Row};
use super::{eval_verify, grants, score_line};
use crate::eval_args::EvalArguments;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

pub(super) fn run(arguments: &EvalArguments, printer: &mut Printer) -> Exit {
    let models = arguments.models.each();
    let grants = match grants::of(arguments.wish.grants, arguments.wish.profile) {
        Ok(grants) => grants,
        Err(problems) => return Obstacle::from(problems).report(printer),
    };
    // All of them are checked before the first one starts.
    let ready = models.into_iter().map(|model| {
        let asked = Asked {
            task: arguments.task.clone(),
            model,
            wish: arguments.wish.clone(),
            running: arguments.running.clone(),
            grants,
            ..Asked::default()
        };
        asked.ready(asked.load()?)
    });
    match ready.collect::<Result<Vec<Ready>, Obstacle>>() {
        Ok(ready) => through(ready, arguments.max_tasks, printer),
        Err(obstacle) => obstacle.report(printer),
    }
}

/// Runs what is ready to the end, and says what it came to.
pub(super) fn through(mut ready: Vec<Ready>, most: usize, printer: &mut Printer) -> Exit {
    for one in &ready {
        one.warn(printer);
    }
    if let Err(exit) = eval_verify::all(&mut ready, printer) {
        return exit;
    }
    let mut ended = match eval_run::all(ready, most, &mut |_, _| {}) {
        Ok(ended) => ended,
        Err(error) => return Obstacle::Start(error).report(printer),
    };
    if ended.len() > 1 {
        let rows: Vec<Row> = ended.iter().map(Row::of).collect();
        let exit = eval_table::print(&rows, None, printer);
        return ended.into_iter().map(|one| failure(one, printer)).fold(exit, Exit::worse);
    }
    match ended.pop() {
        Some(Ended { name, profile, outcome: Outcome::Ended(evaluation), receipt, .. }) => {
            let (receipt, exit) = signed(receipt, printer);
            summary(&evaluation, &name, profile, receipt.as_deref(), printer).worse(exit)
        }
        Some(other) => failure(other, printer),
        None => Exit::Done,
    }
}

/// Where the receipt is; a log that says that it has one, and has none, is a failure.
fn signed(receipt: Option<Result<PathBuf, IssueError>>, printer: &mut Printer) -> (Option<PathBuf>, Exit) {
    match receipt.transpose() {
        Ok(path) => (path, Exit::Done),
        Err(error) => (None, super::run::failed(&error, Exit::Failed, printer)),
    }
}

/// Why there is no log, or none that is complete, or none that is signed.
pub(super) fn failure(ended: Ended, printer: &mut Printer) -> Exit {
    match ended.outcome {
        Outcome::Ended(_) => signed(ended.receipt, printer).1,
        Outcome::Failed(error) => Obstacle::Eval(error).report(printer),
        Outcome::Lost(why) => {
            let text = format!(": {} failed in an unforeseen way: {why}", ended.name);
            printer.message(&vec![vec![span(Look::Bad, "error"), plain(text)]]);
            Exit::Failed
        }
        Outcome::NotBegun => Exit::Interrupted,
    }
}

/// What it came to, and where the log is.
fn summary(
    evaluation: &Evaluation,
    name: &str,
    profile: Profile,
    receipt: Option<&Path>,
    printer: &mut Printer,
) -> Exit {
    let (status, look, exit) = match evaluation.status {
        Status::Success => ("success", Look::Good, Exit::Done),
        Status::Cancelled => ("cancelled", Look::Doubtful, Exit::Interrupted),
        Status::Error | Status::Started => ("error", Look::Bad, Exit::Failed),
    };
    let progress = &evaluation.progress;
    if printer.json() {
        printer.data(&json!({
            "schema": "ringfence.evaluation/1", "task": name, "profile": profile.to_string(), "status": status,
            "samples": progress.done, "failed": progress.failed, "results": evaluation.results,
            "log": evaluation.log, "receipt": receipt, "error": evaluation.error, "leftover": progress.leftover,
        }));
        return exit;
    }
    let mut page = vec![vec![
        span(Look::Strong, name.to_owned()),
        plain(format!("  {profile}  ")),
        span(look, status),
        plain(format!(
            "  {} samples, {} failed, {} tool calls, {} tokens, {} refused connections",
            progress.done, progress.failed, progress.tool_calls, progress.tokens, progress.refused
        )),
    ]];
    page.extend(score_line::lines(&evaluation.results));
    if let Some(error) = &evaluation.error {
        page.push(vec![span(Look::Bad, "  error"), plain(format!(": {error}"))]);
    }
    if progress.leftover > 0 {
        let text = format!(": {} sandboxes could not be ended; their samples' logs have the reason", progress.leftover);
        page.push(vec![span(Look::Doubtful, "  warning"), plain(text)]);
        page.push(vec![span(Look::Faint, "  hint"), plain(": look for what is left with `ringfence sandbox cleanup`")]);
    }
    page.push(vec![span(Look::Faint, "  log"), plain(format!(": {}", evaluation.log.display()))]);
    if let Some(receipt) = receipt {
        page.push(vec![span(Look::Faint, "  receipt"), plain(format!(": {}", receipt.display()))]);
    }
    printer.page(&page);
    exit
}
