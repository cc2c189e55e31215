//! `eval-set`: many tasks, each answered by many models, one log for each; run again, it goes on where it was.
//!
//! What is finished is told by the logs themselves, so a moment at which it is killed loses no more than what was under way.
//! The manifest says what the set is; the lock keeps a second one out.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use log::{Reader, Status};
use profile::{Problem, Problems};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde_json::json;

use super::eval::failure;
use super::eval_obstacle::Obstacle;
use super::eval_prepare::{Asked, Ready};
use super::eval_run::{self, Outcome};
use super::eval_table::{self, Row};
use super::receipts::Signer;
use super::retry::go_on;
use super::set_manifest::{Entry, Manifest};
use super::trust::Trusting;
use super::{eval_verify, grants, set_logs, set_plot, set_tasks};
use crate::eval_args::SetArguments;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// Where logs go when nobody says.
const LOGS: &str = "logs";
const LOCK: &str = "eval-set.lock";
const PLOT: &str = "eval-set.svg";
const NOBODY_ELSE: &str = "wait until it has ended, or name another --log-dir";

/// One task with one model.
struct Part {
    row: Row,
    entry: Option<Entry>,
    exit: Exit,
}

pub(super) fn run(arguments: &SetArguments, printer: &mut Printer) -> Exit {
    let directory = arguments.running.log_dir.clone().unwrap_or_else(|| LOGS.into());
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    match through(arguments, &directory, printer) {
        Ok(exit) => exit,
        Err(obstacle) => obstacle.report(printer),
    }
}

fn through(arguments: &SetArguments, directory: &Path, printer: &mut Printer) -> Result<Exit, Obstacle> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Problems {
        origin: directory.display().to_string(),
        problems: vec![Problem::new(format!("{what}: {error}"))],
    };
    std::fs::create_dir_all(directory).map_err(|error| failed("it cannot be made", &error))?;
    // Held until the end; of a killed process the kernel lets go.
    let _lock = lock(directory)?;
    let found = set_tasks::find(&arguments.tasks)?;
    let signer = Signer::find(arguments.running.key.as_deref())?;
    let trusting = Trusting::new(&signer, &arguments.trust)?;
    let grants = grants::of(arguments.wish.grants, arguments.wish.profile)?;
    for skipped in &found.skipped {
        let text = format!("  {}: it is no task: it has no `dataset`", skipped.display());
        printer.message(&vec![vec![span(Look::Faint, "skipped"), plain(text)]]);
    }
    let mut manifest = Manifest::open(directory).map_err(|error| failed("its manifest cannot be read", &error))?;
    let logs = set_logs::find(directory);
    let (mut parts, mut ready, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for task in &found.tasks {
        for model in arguments.models.each() {
            let asked = Asked {
                task: task.display().to_string(),
                model: model.clone(),
                wish: arguments.wish.clone(),
                running: arguments.running.clone(),
                grants,
                ..Asked::default()
            };
            let looked = look(&asked, arguments.anew, &trusting, &logs, &manifest);
            match looked {
                Ok((entry, None, row)) => parts.push(Part { row, entry: Some(entry), exit: Exit::Done }),
                Ok((entry, Some(one), row)) => {
                    one.warn(printer);
                    if let Some(earlier) = &one.job.earlier
                        && let Ok(finished) = earlier.finished_of(&one.job.task)
                    {
                        super::retry::say_dropped(earlier.path(), &finished.dropped, printer);
                    }
                    places.push(parts.len());
                    ready.push(*one);
                    parts.push(Part { row, entry: Some(entry), exit: Exit::Done });
                }
                Err(obstacle) => {
                    let error = Some(obstacle.told());
                    let row = Row { error, ..Row::refused(&asked.task, model.as_deref().unwrap_or_default()) };
                    // For people: machines are told once, at the end.
                    let exit = obstacle.report(&mut Printer::new(false));
                    parts.push(Part { row, entry: None, exit });
                }
            }
        }
    }
    manifest.take(parts.iter().filter_map(|part| part.entry.clone()));
    manifest.write(directory).map_err(|error| failed("its manifest cannot be written", &error))?;
    if let Err(exit) = eval_verify::all(&mut ready, printer) {
        return Ok(exit);
    }
    let ended = eval_run::all(ready, arguments.max_tasks, &mut |index, outcome| {
        let (Outcome::Ended(evaluation), Some(place)) = (outcome, places.get(index)) else { return };
        let Some(entry) = parts.get_mut(*place).and_then(|part| part.entry.as_mut()) else { return };
        entry.log = evaluation.log.file_name().map(|name| name.to_string_lossy().into_owned());
        Row::name(evaluation.status).clone_into(&mut entry.status);
        if evaluation.status == Status::Success {
            set_logs::put_aside(directory, &logs, &entry.key, &evaluation.log);
        }
        manifest.take([entry.clone()]);
        // Only said in it: what counts is in the logs, and the next one to end writes it again.
        let _ = manifest.write(directory);
    })
    .map_err(Obstacle::Start)?;
    for (place, ended) in std::iter::zip(&places, ended) {
        if let Some(part) = parts.get_mut(*place) {
            // A log that is there from before says more than nothing.
            if !matches!(ended.outcome, Outcome::NotBegun) || part.row.log.is_none() {
                part.row = Row::of(&ended);
            }
            part.exit = part.exit.worse(failure(ended, printer));
        }
    }
    manifest.write(directory).map_err(|error| failed("its manifest cannot be written", &error))?;
    let rows: Vec<Row> = parts.iter().map(|part| part.row.clone()).collect();
    let plot = directory.join(PLOT);
    super::set_manifest::replace(&plot, set_plot::svg(&rows).as_bytes())
        .map_err(|error| failed("its plot cannot be written", &error))?;
    let set = json!({"id": manifest.id, "directory": directory, "plot": plot});
    let exit = eval_table::print(&rows, Some(&set), printer);
    if !printer.json() {
        printer.page(&vec![vec![span(Look::Faint, "plot"), plain(format!(": {}", plot.display()))]]);
    }
    Ok(parts.iter().map(|part| part.exit).fold(exit, Exit::worse))
}

fn lock(directory: &Path) -> Result<File, Problems> {
    let origin = directory.display().to_string();
    let wrong = |problem| Problems { origin: origin.clone(), problems: vec![problem] };
    // Through no link: what is there may be somebody's.
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = File::options().create(true).append(true).custom_flags(flags).open(directory.join(LOCK));
    let file = file.map_err(|error| wrong(Problem::new(format!("its lock cannot be had: {error}"))))?;
    // Of the process alone: a helper that outlives a killed one for a moment does not hold it.
    match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::AGAIN | Errno::ACCESS) => {
            Err(wrong(Problem::new("another eval-set is at work here").hint(NOBODY_ELSE)))
        }
        Err(error) => Err(wrong(Problem::new(format!("its lock cannot be had: {error}")))),
    }
}

/// Whether every sample of what would go on is finished already: a success may have failed samples.
fn is_finished(ready: &Ready) -> Result<bool, Obstacle> {
    let Some(earlier) = &ready.job.earlier else { return Ok(false) };
    let finished = earlier.finished_of(&ready.job.task);
    finished.map(|found| found.kept == found.total).map_err(Obstacle::Earlier)
}

/// What is to be done about one part: nothing, if its log is finished; to go on from its log; or to begin.
fn look(
    asked: &Asked,
    anew: bool,
    trusting: &Trusting,
    logs: &BTreeMap<String, Vec<PathBuf>>,
    manifest: &Manifest,
) -> Result<(Entry, Option<Box<Ready>>, Row), Obstacle> {
    let mut ready = asked.ready(asked.load()?)?;
    let key = ready.job.key();
    let mut entry = Entry::of(&ready.job, &key);
    let set = Some((manifest.id.clone(), key.clone()));
    ready.job.set.clone_from(&set);
    let begun = Row::begun(&ready.job);
    let Some(newest) = logs.get(&key).and_then(|logs| logs.last()).cloned() else {
        return Ok((entry, Some(Box::new(ready)), begun));
    };
    let earlier = match super::retry::open(&newest, trusting) {
        Err(_) if anew => return Ok((entry, Some(Box::new(ready)), begun)),
        opened => opened?,
    };
    let status = earlier.status();
    let changed = ready.job.invocation.differs(earlier.invocation());
    let changed = changed.map(|what| Obstacle::Changed {
        what: format!("{}: {what} since its log was made", asked.task),
        hint: "bring back what it was, name another --log-dir, or say --anew to begin it anew",
    });
    // A finished log is held against the plan too: what was done under another one is not done.
    let held = match changed {
        Some(changed) => Err(changed),
        None => go_on(ready, earlier),
    };
    let mut ready = match held {
        Ok(ready) => ready,
        Err(Obstacle::Changed { .. }) if anew => {
            let mut ready = asked.ready(asked.load()?)?;
            ready.job.set = set;
            return Ok((entry, Some(Box::new(ready)), begun));
        }
        Err(obstacle) => return Err(obstacle),
    };
    let row = Reader::open(&newest).map(|reader| Row::read(&newest, &reader)).unwrap_or(begun);
    if status == Status::Success && is_finished(&ready)? {
        // What a killed set left beside it.
        set_logs::put_aside(newest.parent().unwrap_or(Path::new(".")), logs, &key, &newest);
        entry.log = newest.file_name().map(|name| name.to_string_lossy().into_owned());
        Row::name(status).clone_into(&mut entry.status);
        return Ok((entry, None, row));
    }
    ready.job.set = set;
    Ok((entry, Some(Box::new(ready)), row))
}
