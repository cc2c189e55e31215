//! Files of environment entries: `NAME=VALUE`, a line each. Their values are secrets: no message shows one.

use std::path::Path;

use profile::{Place, Problem, Problems};
use secrecy::SecretString;

/// The largest such file.
const MOST_BYTES: u64 = 1 << 20;

/// Reads all files, in order; later ones win.
pub(super) fn read(paths: &[std::path::PathBuf]) -> Result<Vec<(String, SecretString)>, Problems> {
    let mut entries = Vec::new();
    for path in paths {
        entries.extend(read_one(path)?);
    }
    Ok(entries)
}

fn read_one(path: &Path) -> Result<Vec<(String, SecretString)>, Problems> {
    let origin = path.display().to_string();
    let wrong = |problem: Problem| Problems { origin: origin.clone(), problems: vec![problem] };
    let cannot = |why: String| wrong(Problem::new(format!("cannot read the environment file: {why}")));
    let metadata = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(cannot("it is not a plain file of at most 1 MiB".into()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let mut entries = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in (1_u64..).zip(text.lines()) {
        match entry(line) {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) => {}
            Err(message) => {
                let problem = Problem::at(Place { line: number, column: 1 }, message);
                problems.push(problem.hint("write NAME=VALUE; a name has letters, digits and _"));
            }
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(Problems { origin, problems }) }
}

/// One line: an entry, nothing (empty, or a remark), or what is wrong with it.
fn entry(line: &str) -> Result<Option<(String, SecretString)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let Some((name, value)) = line.split_once('=') else { return Err("a line without `=`") };
    let name = name.trim();
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("this cannot be the name of an environment entry");
    }
    let value = value.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let value = quoted.unwrap_or(value);
    if value.contains('\0') {
        return Err("a value with a NUL");
    }
    Ok(Some((name.to_owned(), SecretString::from(value.to_owned()))))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn lines_are_entries_remarks_or_wrong() {
        let read =
            |line: &str| entry(line).map(|entry| entry.map(|(name, value)| (name, value.expose_secret().to_owned())));
        let is = |name: &str, value: &str| Ok(Some((name.to_owned(), value.to_owned())));
        assert_eq!(read("A=b"), is("A", "b"));
        assert_eq!(read("  export A_1 = \"b c\" "), is("A_1", "b c"));
        assert_eq!(read("A='x=y'"), is("A", "x=y"));
        assert_eq!(read("A="), is("A", ""));
        assert_eq!(read("A=\""), is("A", "\""));
        assert_eq!((read(""), read(" # A=b")), (Ok(None), Ok(None)));
        for wrong in ["A", "1A=b", "A-B=c", "=b", "A B=c", "A=\0"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
