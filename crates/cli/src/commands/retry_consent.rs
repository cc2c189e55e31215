//! Consent for what only a log names. The log's author chose the task file and the parameters of the run, so both are used
//! only if the operator named them (`--task`, `-T`) or confirmed them on a terminal.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;

use ::eval::{DEFAULT_MODEL, Invocation};

use super::eval_obstacle::Obstacle;
use super::eval_prepare::{Asked, Loaded};
use crate::eval_args::RetryArguments;
use crate::printer::{Look, Page, Printer, plain, span};

/// The longest answer that is read.
const LONGEST_ANSWER: u64 = 1024;

/// What the operator still has to confirm.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    task: bool,
    parameters: Vec<String>,
}

impl Unconfirmed {
    /// Compares the log with the command line. Without a terminal, anything left to confirm is a refusal; the task file that
    /// the log names was not opened by then.
    pub(super) fn of(invocation: &Invocation, arguments: &RetryArguments) -> Result<Self, Obstacle> {
        let stated = |name: &String| arguments.parameter.iter().any(|(known, _)| known == name);
        let parameters: Vec<String> =
            invocation.parameters.iter().filter(|(name, _)| !stated(name)).map(|(name, _)| name.clone()).collect();
        let found = Self { task: arguments.task.is_none(), parameters };
        let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if found.is_empty() || can_ask {
            return Ok(found);
        }
        if found.task {
            return Err(Obstacle::Unconfirmed {
                what: format!("only the log names the task file `{}`", invocation.task_path),
                hint: "check that file, then name it yourself: --task FILE; or confirm it on a terminal".into(),
            });
        }
        Err(Obstacle::Unconfirmed {
            what: format!("only the log names the value of the parameter `{}`", found.parameters.join("`, `")),
            hint: "say it again: -T NAME=VALUE; or confirm it on a terminal".into(),
        })
    }

    fn is_empty(&self) -> bool {
        !self.task && self.parameters.is_empty()
    }

    /// Shows what would run, and asks. Runs before any image is fetched or built.
    pub(super) fn confirm(
        &self,
        log: &Path,
        asked: &Asked,
        loaded: &Loaded,
        printer: &mut Printer,
    ) -> Result<(), Obstacle> {
        if self.is_empty() {
            return Ok(());
        }
        printer.message(&page(log, asked, loaded));
        let mut answer = String::new();
        let read = std::io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer);
        let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
        if read.is_ok() && is_yes {
            return Ok(());
        }
        Err(Obstacle::Unconfirmed {
            what: "the task that the log names was not confirmed".into(),
            hint: "answer yes, or name the task yourself: --task FILE".into(),
        })
    }
}

/// Everything of the task that decides what it may do.
fn page(log: &Path, asked: &Asked, loaded: &Loaded) -> Page {
    let (task, document, wish) = (&loaded.task, &loaded.task.document, &asked.wish);
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let profile = wish.profile.unwrap_or(document.profile.value);
    let sandbox =
        document.sandbox.as_ref().map_or("by the profile".to_owned(), |choice| choice.value.provider.to_string());
    let image = document.image.as_ref().map_or("the sandbox's default".to_owned(), |image| image.value.clone());
    let tools = document.tools.as_ref().map_or("the standard set".to_owned(), |tools| {
        list(tools.iter().map(|tool| tool.value.name.clone()).collect())
    });
    let approval = wish.approval.as_ref().or(document.approval.as_ref().map(|stated| &stated.value));
    let phases = document.phases.iter().map(|(phase, zone)| format!("{phase:?} {}", zone.level.value).to_lowercase());
    let rows = [
        ("task file", asked.task.clone()),
        ("profile", profile.to_string()),
        ("sandbox", format!("{sandbox}, image {image}")),
        ("services", list(document.services.keys().cloned().collect())),
        ("network", list(document.network.rules.allow.iter().map(ToString::to_string).collect())),
        ("phases", list(phases.collect())),
        ("mounts", list(document.mounts.iter().map(|mount| mount.value.to_string()).collect())),
        ("environment", list(document.environment.keys().cloned().collect())),
        ("approval", approval.map_or("none".to_owned(), ToString::to_string)),
        ("solvers", list(task.solver_names().into_iter().map(str::to_owned).collect())),
        ("tools", tools),
        ("model", task.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned())),
        (
            "other models",
            list(task.model_roles.iter().map(|(role, one)| format!("{role}={}", one.models.join("+"))).collect()),
        ),
        ("parameters", list(wish.parameter.iter().map(|(name, value)| format!("{name}={value}")).collect())),
    ];
    let title = format!("  {} names this task; it would run as you:", log.display());
    let mut page = vec![vec![span(Look::Strong, "confirm"), plain(title)]];
    page.extend(rows.into_iter().map(|(name, value)| vec![span(Look::Faint, format!("  {name:<12}  ")), plain(value)]));
    page.push(vec![plain("run it? [y]es or [n]o:")]);
    page
}
