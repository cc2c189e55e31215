//! `score`: a log, judged again, into a new one.

use std::path::{Path, PathBuf};

use eval::task::{Reducer, Role, Scoring};
use eval::{Action, Prepared, Rescore, RescoreFailure, Rescored, Vouched};
use log::{Format, Redactor};
use profile::{Problem, Problems};
use serde_json::{Value, json};

use super::eval_obstacle::Obstacle;
use super::eval_prepare::names_a_key;
use super::receipts::Signer;
use super::runtime::{self, Workers};
use super::trust::Trusting;
use super::{plan, score_line};
use crate::args::{ScoreAction, ScoreArguments};
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// So many logs of one log are named for it; more need a name of their own.
const MOST_NAMES: u32 = 1000;

pub(super) fn run(arguments: &ScoreArguments, printer: &mut Printer) -> Exit {
    let signer = match Signer::find(arguments.key.as_deref()) {
        Ok(signer) => signer,
        Err(problems) => return plan::report(&problems.into(), printer),
    };
    let trusting = match Trusting::new(&signer, &arguments.trust) {
        Ok(trusting) => trusting,
        Err(problems) => return plan::report(&problems.into(), printer),
    };
    let prepared = match prepared(arguments) {
        Ok(prepared) => prepared,
        Err(error) => return failed(error, printer),
    };
    let vouched = match vouched(&arguments.log, &prepared, &trusting) {
        Ok(vouched) => vouched,
        Err(obstacle) => return obstacle.report(printer),
    };
    match scored(arguments, &signer, prepared, vouched) {
        Ok(scored) => match signer.issue(&scored.log).transpose() {
            Ok(receipt) => summary(&scored, receipt.as_deref(), printer),
            Err(error) => {
                summary(&scored, None, printer);
                super::run::failed(&error, Exit::Failed, printer)
            }
        },
        Err(error) => failed(error, printer),
    }
}

fn failed(error: RescoreFailure, printer: &mut Printer) -> Exit {
    match error {
        RescoreFailure::Wrong(problems) => plan::report(&problems.into(), printer),
        error @ RescoreFailure::Read(_) => super::run::failed(&error, Exit::Input, printer),
        error => super::run::failed(&error, Exit::Failed, printer),
    }
}

/// Who vouches for the log, where the new one can be signed. One that cannot, such as one of Inspect's, needs no voucher.
fn vouched(log: &Path, prepared: &Prepared, trusting: &Trusting) -> Result<Value, Obstacle> {
    if !prepared.can_be_signed() {
        return Ok(Vouched::Nobody.to_json(false));
    }
    let checked = receipt::check(log, &receipt::Trust::Nobody, receipt::Require::AsTheLogSays);
    match checked {
        Ok(checked) => {
            let found = trusting.vouching(log, prepared.digest(), &checked)?;
            Ok(found.vouched.to_json(found.unsigned))
        }
        // Nothing is signed here: the new log claims nothing about the old one.
        Err(_) if trusting.is_nobody() => Ok(Vouched::Nobody.to_json(false)),
        Err(error) => Err(Obstacle::Unsound(error)),
    }
}

fn wrong(message: impl Into<String>, hint: &str) -> RescoreFailure {
    let problems = vec![Problem::new(message).hint(hint)];
    RescoreFailure::Wrong(Problems { origin: "the command line".into(), problems })
}

fn prepared(arguments: &ScoreArguments) -> Result<Prepared, RescoreFailure> {
    output(arguments)?;
    let action = match arguments.action {
        ScoreAction::Append => Action::Append,
        ScoreAction::Overwrite => Action::Overwrite,
    };
    Prepared::new(&arguments.log, scoring(arguments)?, action)
}

fn scored(
    arguments: &ScoreArguments,
    signer: &Signer,
    prepared: Prepared,
    vouched: Value,
) -> Result<Rescored, RescoreFailure> {
    let (output, format) = output(arguments)?;
    let own = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        names_a_key(&name).then_some(value)
    });
    let redactor = Redactor::new(own.chain(prepared.secrets()).chain(signer.secret()), log::redact::KEYS);
    let (receipt, max_samples) = (signer.expectation(), arguments.max_samples);
    let how = Rescore { output, format, author: author(), redactor, receipt, vouched, max_samples };
    let runtime = runtime::start(Workers::PerProcessor);
    let runtime = runtime.map_err(|error| wrong(error.to_string(), "this host gives no threads"))?;
    runtime.block_on(eval::rescore(prepared, how))
}

/// What is judged by: all scorers that are named, and what the command line says on top.
fn scoring(arguments: &ScoreArguments) -> Result<Scoring, RescoreFailure> {
    let mut scoring = Scoring::default();
    for stated in &arguments.scorer {
        scoring.join(Scoring::load(stated).map_err(RescoreFailure::Wrong)?);
    }
    if !arguments.metric.is_empty() {
        scoring.metrics = None;
    }
    for metric in &arguments.metric {
        scoring.add_metric(metric).map_err(RescoreFailure::Wrong)?;
    }
    if !arguments.epochs_reducer.is_empty() {
        let read = |name: &String| name.parse::<Reducer>().map_err(|why| wrong(why, "see --epochs-reducer"));
        scoring.reducers = Some(arguments.epochs_reducer.iter().map(read).collect::<Result<_, _>>()?);
    }
    let mut stated = std::collections::BTreeMap::<&String, Role>::new();
    for (role, model) in &arguments.model_role {
        stated.entry(role).or_default().models.push(model.clone());
    }
    for (role, models) in stated {
        let generate = scoring.model_roles.remove(role).map(|old| old.generate).unwrap_or_default();
        scoring.model_roles.insert(role.clone(), Role { generate, ..models });
    }
    Ok(scoring)
}

/// Where the new log goes: where the command line says, or beside the old one. Nothing that is there is ever replaced.
fn output(arguments: &ScoreArguments) -> Result<(PathBuf, Format), RescoreFailure> {
    let format_of = |path: &Path| match path.extension().and_then(|end| end.to_str()) {
        Some("eval") => Some(Format::Eval),
        Some("json") => Some(Format::Json),
        _ => None,
    };
    if let Some(path) = &arguments.output {
        let named = format!("`{}`", path.display());
        let format = format_of(path)
            .ok_or_else(|| wrong(format!("{named} ends neither in .eval nor in .json"), "end it in .eval"))?;
        if path.exists() || log::audit::Audit::beside(path).exists() {
            return Err(wrong(
                format!("{named}, or its audit chain, is there already"),
                "name a file that is not there: logs are kept",
            ));
        }
        return Ok((path.clone(), format));
    }
    let format = format_of(&arguments.log).unwrap_or_default();
    let stem = arguments.log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |number: u32| match number {
        1 => format!("{stem}-scored.{}", format.extension()),
        _ => format!("{stem}-scored-{number}.{}", format.extension()),
    };
    let paths = (1..=MOST_NAMES).map(|number| arguments.log.with_file_name(name(number)));
    let free = paths.into_iter().find(|path| !path.exists() && !log::audit::Audit::beside(path).exists());
    let free = free.ok_or_else(|| wrong("there are very many scored logs of this log", "name a file by --output"))?;
    Ok((free, format))
}

/// Who has the log judged, as far as the environment says.
fn author() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    let named: String = named.chars().filter(|c| !c.is_control()).take(100).collect();
    if named.is_empty() { format!("uid {}", rustix::process::getuid().as_raw()) } else { named }
}

fn summary(scored: &Rescored, receipt: Option<&Path>, printer: &mut Printer) -> Exit {
    let exit = if scored.failed == 0 { Exit::Done } else { Exit::Failed };
    if printer.json() {
        printer.data(&json!({
            "schema": "ringfence.scored/1", "log": scored.log, "receipt": receipt, "from": {"sha256": scored.from}, "samples": scored.samples,
            "judged": scored.judged, "failed": scored.failed, "results": scored.results,
        }));
        return exit;
    }
    let mut page = vec![vec![plain(format!("{} of {} samples judged", scored.judged, scored.samples))]];
    if scored.failed > 0 {
        let text = format!("  {} samples have no new score: a grader failed", scored.failed);
        page.push(vec![span(Look::Bad, text)]);
    }
    page.extend(score_line::lines(&scored.results));
    page.push(vec![span(Look::Faint, "  log"), plain(format!(": {}", scored.log.display()))]);
    if let Some(receipt) = receipt {
        page.push(vec![span(Look::Faint, "  receipt"), plain(format!(": {}", receipt.display()))]);
    }
    printer.page(&page);
    exit
}
