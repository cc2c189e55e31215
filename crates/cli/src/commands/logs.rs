//! `log list|show|dump|verify`: what evaluations left behind.

use std::cell::RefCell;
use std::error::Error as _;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use log::{ReadError, Reader, Status};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::args::LogCommand;
use crate::exit::Exit;
use crate::printer::{Escaped, Look, Page, Printer, Span, plain, span};
use crate::table::{page_width, table};

pub(super) fn run(command: LogCommand, printer: &mut Printer) -> Exit {
    let result = match command {
        LogCommand::List { directory } => list(&directory, printer),
        LogCommand::Show { log } => Reader::open(&log).and_then(|reader| show(&log, &reader, printer)),
        LogCommand::Dump { log } => Reader::open(&log).and_then(|reader| dump(&reader)),
        LogCommand::Verify(arguments) => return super::log_verify::verify(&arguments, printer),
    };
    match result {
        Ok(()) => Exit::Done,
        Err(error) => {
            let exit = super::run::failed(&error, Exit::Input, printer);
            if let Some(hint) = error.hint() {
                printer.message(&vec![vec![span(Look::Faint, "  hint"), plain(format!(": {hint}"))]]);
            }
            exit
        }
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

/// The most characters of a text of a header in a table.
const LONGEST_CELL: usize = 200;
/// The most bytes of a table of samples; a row takes about 300.
const LONGEST_TABLE: usize = 8 << 20;
/// Values that take more memory than this are not shown in a cell.
const LARGEST_CELL: u64 = 64 << 10;

fn text(reader: &Reader, path: &str) -> String {
    reader.at(path).and_then(Value::as_str).unwrap_or_default().chars().take(LONGEST_CELL).collect()
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

/// A log of a list: what it says, or why it cannot be read. One log that cannot be read does not end the list.
#[derive(Serialize)]
struct Listed<'a> {
    log: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The logs of a directory as a JSON list. Each is opened when its turn comes: one header is in memory at a time.
struct Listing<'a>(&'a [PathBuf]);

impl Serialize for Listing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|path| Opened(path, Reader::open(path))))
    }
}

struct Opened<'a>(&'a Path, Result<Reader, ReadError>);

impl Serialize for Opened<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let header = self.1.as_ref().ok().map(Reader::header);
        Listed { log: self.0, header, error: self.1.as_ref().err().map(why) }.serialize(serializer)
    }
}

/// An error with its causes, on one line.
fn why(error: &ReadError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.chars().take(2 * LONGEST_CELL).collect()
}

fn list(directory: &Path, printer: &mut Printer) -> Result<(), ReadError> {
    let paths = logs(directory).map_err(|source| ReadError::Io { path: directory.to_owned(), source })?;
    if printer.json() {
        #[derive(Serialize)]
        struct Logs<'a> {
            schema: &'static str,
            logs: Listing<'a>,
        }
        printer.data(&Logs { schema: "ringfence.logs/1", logs: Listing(&paths) });
        return Ok(());
    }
    let rows: Vec<Vec<Span>> = paths
        .iter()
        .map(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let reader = match Reader::open(path) {
                Ok(reader) => reader,
                Err(error) => {
                    printer.message(&vec![vec![span(Look::Doubtful, "warning"), plain(format!(": {}", why(&error)))]]);
                    let unreadable = span(Look::Bad, "unreadable");
                    return vec![plain(""), plain(""), unreadable, plain(""), plain(file)];
                }
            };
            let accuracy = reader.at("/results/scores/0/metrics/accuracy/value").and_then(Value::as_f64);
            vec![
                span(Look::Strong, text(&reader, "/eval/task")),
                plain(text(&reader, "/eval/sandbox/config")),
                name(reader.status()),
                plain(accuracy.map(|value| format!("{value:.3}")).unwrap_or_default()),
                plain(file),
            ]
        })
        .collect();
    printer.page(&table(&["task", "profile", "status", "score", "log"], &rows, page_width()));
    Ok(())
}

/// The summaries of a log's samples as a JSON list, written as they are read.
struct Summaries<'a>(&'a Reader, &'a RefCell<Option<ReadError>>);

impl Serialize for Summaries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        let read = self.0.each_summary(&mut |summary| {
            if written.is_ok() {
                written = list.serialize_element(&summary);
            }
        });
        written?;
        // The list ends where reading failed: what is printed is JSON all the same, and the exit says that it is not all.
        *self.1.borrow_mut() = read.err();
        list.end()
    }
}

fn show(path: &Path, reader: &Reader, printer: &mut Printer) -> Result<(), ReadError> {
    if printer.json() {
        #[derive(Serialize)]
        struct Shown<'a> {
            schema: &'static str,
            log: &'a Path,
            header: &'a Map<String, Value>,
            samples: Summaries<'a>,
        }
        let failed = RefCell::new(None);
        let (header, samples) = (reader.header(), Summaries(reader, &failed));
        printer.data(&Shown { schema: "ringfence.log/1", log: path, header, samples });
        return failed.into_inner().map_or(Ok(()), Err);
    }
    let own = "/eval/metadata/ringfence";
    let mut page: Page = vec![vec![
        span(Look::Strong, text(reader, "/eval/task")),
        plain(format!("  {}  ", text(reader, &format!("{own}/profile")))),
        name(reader.status()),
        plain(format!("  {}", text(reader, "/eval/model"))),
    ]];
    page.push(vec![plain(format!("plan {}", text(reader, &format!("{own}/plan_hash"))))]);
    for affordance in reader.at(&format!("{own}/affordances")).and_then(Value::as_array).into_iter().flatten().take(100)
    {
        let text = |key: &str| short(&affordance[key]);
        page.push(vec![plain(format!("  {} runs in {}, reaches {}", text("name"), text("runs"), text("reach")))]);
    }
    // Read before anything is printed: a log that is damaged there has no table.
    let (mut rows, mut held, mut more) = (Vec::<Vec<Span>>::new(), 0, 0_u64);
    reader.each_summary(&mut |sample| {
        if held > LONGEST_TABLE {
            more += 1;
            return;
        }
        let scores = sample["scores"].as_object().into_iter().flatten().take(10);
        let scores: Vec<String> = scores.map(|(name, score)| format!("{name} {}", short(&score["value"]))).collect();
        let trouble = sample["error"].as_str().or_else(|| sample["limit"].as_str()).unwrap_or_default();
        let cells = [
            short(&sample["id"]),
            short(&sample["epoch"]),
            scores.join(", ").chars().take(2 * LONGEST_CELL).collect(),
            trouble.chars().take(LONGEST_CELL).collect(),
        ];
        held += cells.iter().map(|cell| cell.len() + 64).sum::<usize>();
        rows.push(cells.into_iter().map(plain).collect());
    })?;
    printer.page(&page);
    printer.page(&table(&["sample", "epoch", "scores", "error or limit"], &rows, page_width()));
    if more > 0 {
        printer.page(&vec![vec![plain(format!("and {more} more; `--json` shows all"))]]);
    }
    Ok(())
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(LONGEST_CELL).collect(),
        Value::Array(_) | Value::Object(_) if bounded::cost(value) > LARGEST_CELL => "…".into(),
        other => other.to_string(),
    }
}

/// Copies a sample at a time; on a terminal with control characters escaped.
fn dump(reader: &Reader) -> Result<(), ReadError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if io::stdout().is_terminal() { reader.dump(&mut Escaped::new(out)) } else { reader.dump(&mut out) }
}
