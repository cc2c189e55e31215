//! A Compose file, its surroundings, and what they come to as text.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use compose::{Project, ReadError, Surroundings};
use profile::Place;

/// Reads a file among others, with the variables `SET`, `EMPTY` and `TRUE`; one directory above belongs to the task.
pub(crate) fn read_among(text: &str, files: &[(&str, &str)]) -> Result<Project, ReadError> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| {
        let found = path.to_str().and_then(|path| files.get(path));
        found.map(|text| (*text).to_owned()).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))
    };
    let variables = |name: &str| match name {
        "SET" => Some("value".to_owned()),
        "EMPTY" => Some(String::new()),
        "TRUE" => Some("true".to_owned()),
        _ => None,
    };
    compose::read(
        text,
        "compose.yaml",
        &Surroundings {
            variables: &variables,
            sample: &|name| (name == "SAMPLE_METADATA_ID").then(|| "s1".to_owned()),
            files: &read,
            levels_up: 1,
        },
    )
}

/// Reads a file that stands alone.
pub(crate) fn read(text: &str) -> Result<Project, ReadError> {
    read_among(text, &[])
}

/// A file with one service of these keys beside its image.
pub(crate) fn service(keys: &str) -> String {
    let mut text = "services:\n  default:\n    image: x\n".to_owned();
    for line in keys.lines() {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// What reading came to, in a few lines.
pub(crate) fn outcome(result: &Result<Project, ReadError>) -> String {
    let lines: Vec<String> = match result {
        Ok(project) => {
            let records = project.ignored.iter().map(|ignored| {
                let place = at(ignored.place);
                format!("ignored {place} {}: {}", ignored.key, ignored.why)
            });
            std::iter::once("read".to_owned()).chain(records).collect()
        }
        Err(ReadError::Problems(problems)) => {
            let problems = problems.problems.iter();
            problems.map(|it| format!("problem {} {}{}", at(it.place), it.message, hint(it.hint.as_deref()))).collect()
        }
        Err(ReadError::Refused(refused)) => {
            let unmet = refused.unmet.iter();
            unmet
                .map(|it| format!("refused {} {}: {}{}", at(it.place), it.control, it.reason, hint(it.hint.as_deref())))
                .collect()
        }
    };
    lines.join("\n") + "\n"
}

fn at(place: Option<Place>) -> String {
    place.map_or("?".into(), |place| place.to_string())
}

fn hint(hint: Option<&str>) -> String {
    hint.map(|hint| format!("\n    hint: {hint}")).unwrap_or_default()
}
