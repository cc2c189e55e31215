//! Files and variables from the outside, bounded.

use std::fs::File;
use std::io::{self, Read};

use profile::{Document, Environment, MAX_DOCUMENT_BYTES, Problem, Problems, VARIABLES};

/// Reads and parses a document; `-` is standard input.
pub(super) fn document(path: &str) -> Result<Document, Problems> {
    let origin = if path == "-" { "standard input" } else { path };
    let text = read(path).map_err(|error| {
        let problem = Problem::new(format!("cannot be read: {error}"))
            .hint("name a readable profile document, or - for standard input");
        Problems { origin: origin.to_owned(), problems: vec![problem] }
    })?;
    // A task has a document's keys among its own.
    if path != "-" && text.lines().any(|line| line.starts_with("dataset:")) {
        let task = eval::task::Task::load(std::path::Path::new(path), &std::collections::BTreeMap::new())?;
        return Ok(task.document);
    }
    Document::parse(origin, &text)
}

fn read(path: &str) -> io::Result<String> {
    // One byte more than allowed, so that the parser sees that it is too much.
    let limit = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    if path == "-" {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 text at byte {place}"))
    })
}

/// The variables of this process that we know. One that is not text is an error: it may be meant to narrow something.
pub(super) fn environment() -> Result<Environment, Problems> {
    let is_unreadable = |name: &str| std::env::var_os(name).is_some_and(|value| value.to_str().is_none());
    let unreadable: Vec<Problem> = VARIABLES
        .iter()
        .filter(|(name, _)| is_unreadable(name))
        .map(|(name, _)| Problem::new(format!("{name} is not UTF-8 text")).hint(format!("correct it, or unset {name}")))
        .collect();
    if !unreadable.is_empty() {
        return Err(Problems { origin: "the environment".into(), problems: unreadable });
    }
    Environment::parse(&host::Surroundings::of_this_process().variables)
}
