//! Files of variables: `.env` beside a Compose file, and what `env_file:` names.

use std::collections::BTreeMap;

use crate::template::{TemplateError, expand};

/// The largest such file.
pub const MAX_ENV_FILE_BYTES: usize = 256 << 10;
/// The most variables in one.
const MAX_VARIABLES: usize = 4096;

/// Why a file of variables cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct DotEnvError {
    /// Which line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: DotEnvFault,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DotEnvFault {
    /// No `NAME=VALUE`.
    #[error("not NAME=VALUE")]
    Shape,
    /// A quote without its end.
    #[error("a quote has no end")]
    Unclosed,
    /// Something behind a quoted value.
    #[error("something stands behind the closing quote")]
    Behind,
    /// A value whose variables cannot be put in.
    #[error(transparent)]
    Template(TemplateError),
    /// More than is read.
    #[error("the file is too large")]
    TooLarge,
}

/// Reads `NAME=VALUE` lines with comments, `export`, quotes and variables. A name alone has the value that `lookup` has for it,
/// or is not there.
pub fn parse(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<BTreeMap<String, String>, DotEnvError> {
    let mut found = BTreeMap::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fault = |rest: &str, why| {
        let read = text.len().saturating_sub(rest.len());
        DotEnvError { line: 1 + text.bytes().take(read).filter(|byte| *byte == b'\n').count(), why }
    };
    if text.len() > MAX_ENV_FILE_BYTES {
        return Err(fault(text, DotEnvFault::TooLarge));
    }
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(found);
        }
        if rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let start = rest;
        let (name, value, after) = entry(rest).map_err(|why| fault(start, why))?;
        let value = match value {
            Some(Written::Literal(value)) => Some(value.to_owned()),
            Some(Written::Template(value)) => {
                let known = |name: &str| found.get(name).cloned().or_else(|| lookup(name));
                Some(expand(&value, &known).map_err(|error| fault(start, DotEnvFault::Template(error)))?)
            }
            None => lookup(name),
        };
        if let Some(value) = value {
            found.insert(name.to_owned(), value);
        }
        if found.len() > MAX_VARIABLES {
            return Err(fault(start, DotEnvFault::TooLarge));
        }
        rest = after;
    }
}

/// Reads `NAME=VALUE` lines in which nothing but the first `=` has a meaning (`format: raw`).
pub fn parse_raw(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<BTreeMap<String, String>, DotEnvError> {
    let mut found = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let fault = |why| DotEnvError { line: index + 1, why };
        if text.len() > MAX_ENV_FILE_BYTES || found.len() >= MAX_VARIABLES {
            return Err(fault(DotEnvFault::TooLarge));
        }
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').map_or((line, None), |(name, value)| (name, Some(value)));
        if !is_name(name) {
            return Err(fault(DotEnvFault::Shape));
        }
        if let Some(value) = value.map(str::to_owned).or_else(|| lookup(name)) {
            found.insert(name.to_owned(), value);
        }
    }
    Ok(found)
}

/// Whether a text can be the name of a variable here.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 256
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// A value as it was written.
enum Written<'a> {
    /// In single quotes: taken as it is.
    Literal(&'a str),
    /// With variables to be put in.
    Template(String),
}

/// One entry, and what follows it.
fn entry(text: &str) -> Result<(&str, Option<Written<'_>>, &str), DotEnvFault> {
    let text = match text.strip_prefix("export") {
        Some(after) if after.starts_with([' ', '\t']) => after.trim_start_matches([' ', '\t']),
        _ => text,
    };
    let end = text.find(['=', ':', '\n']).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let name = name.trim_end();
    if !is_name(name) {
        return Err(DotEnvFault::Shape);
    }
    let Some(after) = after.strip_prefix(['=', ':']) else { return Ok((name, None, after)) };
    let after = after.trim_start_matches([' ', '\t']);
    let (value, after) = if let Some(after) = after.strip_prefix('\'') {
        let (value, after) = after.split_once('\'').ok_or(DotEnvFault::Unclosed)?;
        (Written::Literal(value), nothing_behind(after)?)
    } else if let Some(after) = after.strip_prefix('"') {
        let (value, after) = double_quoted(after)?;
        (Written::Template(value), nothing_behind(after)?)
    } else {
        let (line, after) = after.split_once('\n').unwrap_or((after, ""));
        // A `#` begins a comment only behind a space: `a#b` is a value.
        let comment = line.char_indices().zip(std::iter::once(' ').chain(line.chars()));
        let end = comment.into_iter().find(|((_, c), before)| *c == '#' && matches!(before, ' ' | '\t'));
        let value = end.map_or(line, |((at, _), _)| line.get(..at).unwrap_or(line));
        (Written::Template(value.trim_end().to_owned()), after)
    };
    Ok((name, Some(value), after))
}

/// Only spaces and a comment may stand behind a quoted value.
fn nothing_behind(text: &str) -> Result<&str, DotEnvFault> {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') { Ok(after) } else { Err(DotEnvFault::Behind) }
}

/// A value up to its closing quote, as a template.
fn double_quoted(text: &str) -> Result<(String, &str), DotEnvFault> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => match chars.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                // A template's way to write a plain dollar sign.
                Some('$') => value.push_str("$$"),
                Some(escaped @ ('"' | '\\')) => value.push(escaped),
                Some(other) => value.extend(['\\', other]),
                None => return Err(DotEnvFault::Unclosed),
            },
            _ => value.push(c),
        }
    }
    Err(DotEnvFault::Unclosed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "OUTER").then(|| "outer".to_owned())
    }

    #[test]
    fn every_way_to_write_a_variable() {
        let text = "\u{feff}# comment\n\nA=1\nexport B = two words  # comment\nC='$A # \\n'\nD=\"x\\ty $A \\$A\" # c\nE=a#b\nF=\n\
                    G: yaml\nOUTER\nMISSING\nH=${A}-${OUTER}-${NONE:-d}\nI=\"two\nlines\"\nJ='two\nlines'\r\nK=#c\nA=again\nL=last";
        let expected = [
            ("A", "again"),
            ("B", "two words"),
            ("C", "$A # \\n"),
            ("D", "x\ty 1 $A"),
            ("E", "a#b"),
            ("F", ""),
            ("G", "yaml"),
            ("H", "1-outer-d"),
            ("I", "two\nlines"),
            ("J", "two\nlines"),
            ("K", ""),
            ("L", "last"),
            ("OUTER", "outer"),
        ];
        let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(parse(text, &lookup), Ok(expected));
    }

    #[test]
    fn broken_lines_are_numbered() {
        for (text, line, why) in [
            ("A=1\n=2", 2, DotEnvFault::Shape),
            ("A=1\n\nB C=2", 3, DotEnvFault::Shape),
            ("A='x", 1, DotEnvFault::Unclosed),
            ("\nA=\"x\n\n", 2, DotEnvFault::Unclosed),
            ("A='x'y", 1, DotEnvFault::Behind),
            ("A=$", 1, DotEnvFault::Template(TemplateError::Stray)),
        ] {
            assert_eq!(parse(text, &lookup), Err(DotEnvError { line, why }), "{text:?}");
        }
        assert!(parse(&"A=1\n".repeat(MAX_ENV_FILE_BYTES), &lookup).is_err());
    }

    #[test]
    fn raw_files_mean_nothing_but_what_they_say() {
        let found = parse_raw("# c\nA='$B' # x\nB=a=b\nOUTER\nNONE\n", &lookup).unwrap();
        let expected = [("A", "'$B' # x"), ("B", "a=b"), ("OUTER", "outer")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    proptest! {
        #[test]
        fn any_text_is_variables_or_an_error(text in "([A-C='\"#$\\\\{} \n]|.){0,60}") {
            let _ = (parse(&text, &lookup), parse_raw(&text, &lookup));
        }

        #[test]
        fn single_quotes_protect_any_text(value in "[^']{0,40}") {
            let found = parse(&format!("A='{value}'"), &lookup).unwrap();
            prop_assert_eq!(&found["A"], &value);
        }
    }
}
