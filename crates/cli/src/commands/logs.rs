//! `log list|show|dump|verify`: what evaluations left behind.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use log::{ReadError, Reader, Status};
use serde_json::{Value, json};

use crate::args::LogCommand;
use crate::exit::Exit;
use crate::printer::{Look, Page, Printer, Span, plain, span};
use crate::table::{page_width, table};

pub(super) fn run(command: LogCommand, printer: &mut Printer) -> Exit {
    let result = match command {
        LogCommand::List { directory } => list(&directory, printer),
        LogCommand::Show { log } => Reader::open(&log).and_then(|reader| show(&log, &reader, printer)),
        LogCommand::Dump { log } => Reader::open(&log).and_then(|reader| dump(&reader, printer)),
        LogCommand::Verify(arguments) => return super::log_verify::verify(&arguments, printer),
    };
    match result {
        Ok(()) => Exit::Done,
        Err(error) => super::run::failed(&error, Exit::Input, printer),
    }
}

fn name(status: Status) -> Span {
    match status {
        Status::Success => span(Look::Good, "success"),
        Status::Cancelled => span(Look::Doubtful, "cancelled"),
        Status::Error => span(Look::Bad, "error"),
        Status::Started => span(Look::Doubtful, "started"),
    }
}

fn text<'a>(header: &'a Value, path: &str) -> &'a str {
    header.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The logs of a directory, the newest last.
fn logs(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !receipt::is_receipt(path))
        .filter(|path| path.extension().is_some_and(|extension| extension == "eval" || extension == "json"))
        .filter(|path| path.file_name().is_none_or(|name| name != super::set_manifest::NAME))
        .collect();
    found.sort();
    Ok(found)
}

fn list(directory: &Path, printer: &mut Printer) -> Result<(), ReadError> {
    let paths = logs(directory).map_err(|source| ReadError::Io { path: directory.to_owned(), source })?;
    let opened: Vec<_> = paths
        .into_iter()
        .filter_map(|path| {
            Reader::open(&path).ok().map(|reader| (path, Value::Object(reader.header().clone()), reader))
        })
        .collect();
    if printer.json() {
        let logs: Vec<_> = opened.iter().map(|(path, header, _)| json!({"log": path, "header": header})).collect();
        printer.data(&json!({"schema": "ringfence.logs/1", "logs": logs}));
        return Ok(());
    }
    let rows: Vec<Vec<Span>> = opened
        .iter()
        .map(|(path, header, reader)| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let accuracy = header.pointer("/results/scores/0/metrics/accuracy/value").and_then(Value::as_f64);
            vec![
                span(Look::Strong, text(header, "/eval/task")),
                plain(text(header, "/eval/sandbox/config")),
                name(reader.status()),
                plain(accuracy.map(|value| format!("{value:.3}")).unwrap_or_default()),
                plain(file),
            ]
        })
        .collect();
    printer.page(&table(&["task", "profile", "status", "score", "log"], &rows, page_width()));
    Ok(())
}

fn show(path: &Path, reader: &Reader, printer: &mut Printer) -> Result<(), ReadError> {
    let header = Value::Object(reader.header().clone());
    let summaries = reader.summaries()?;
    if printer.json() {
        printer.data(&json!({"schema": "ringfence.log/1", "log": path, "header": header, "samples": summaries}));
        return Ok(());
    }
    let own = "/eval/metadata/ringfence";
    let mut page: Page = vec![vec![
        span(Look::Strong, text(&header, "/eval/task")),
        plain(format!("  {}  ", text(&header, &format!("{own}/profile")))),
        name(reader.status()),
        plain(format!("  {}", text(&header, "/eval/model"))),
    ]];
    page.push(vec![plain(format!("plan {}", text(&header, &format!("{own}/plan_hash"))))]);
    for affordance in header.pointer(&format!("{own}/affordances")).and_then(Value::as_array).into_iter().flatten() {
        let reach = affordance["reach"].as_str().map_or_else(|| affordance["reach"].to_string(), str::to_owned);
        let (name, runs) =
            (affordance["name"].as_str().unwrap_or_default(), affordance["runs"].as_str().unwrap_or_default());
        page.push(vec![plain(format!("  {name} runs in {runs}, reaches {reach}"))]);
    }
    printer.page(&page);
    let rows: Vec<Vec<Span>> = summaries
        .iter()
        .map(|sample| {
            let scores = sample["scores"].as_object().into_iter().flatten();
            let scores: Vec<String> =
                scores.map(|(name, score)| format!("{name} {}", short(&score["value"]))).collect();
            let trouble = sample["error"].as_str().or_else(|| sample["limit"].as_str()).unwrap_or_default();
            vec![
                plain(short(&sample["id"])),
                plain(sample["epoch"].to_string()),
                plain(scores.join(", ")),
                plain(trouble),
            ]
        })
        .collect();
    printer.page(&table(&["sample", "epoch", "scores", "error or limit"], &rows, page_width()));
    Ok(())
}

fn short(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A sample at a time where nobody looks; whole where a terminal does, so that nothing in it speaks to it.
fn dump(reader: &Reader, printer: &mut Printer) -> Result<(), ReadError> {
    if !io::stdout().is_terminal() {
        return reader.dump(&mut io::BufWriter::new(io::stdout().lock()));
    }
    let mut whole = Vec::new();
    reader.dump(&mut whole)?;
    printer.data(&serde_json::from_slice::<Value>(&whole).unwrap_or_default());
    Ok(())
}
