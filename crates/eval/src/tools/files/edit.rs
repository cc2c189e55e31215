//! Text: pages, numbers, replacements. Pure.

use std::fmt::Write as _;

use log::message::{ToolError, ToolErrorKind};

/// The most characters of a line that are shown, and the lines of a page.
const LINE: usize = 2000;
pub(super) const PAGE: i64 = 2000;
/// Lines around an edit that are shown.
const AROUND: usize = 4;
/// Bytes of numbered lines; the model is shown far fewer.
const NUMBERED: usize = 16 << 20;
pub(super) const EMPTY: &str = "System reminder: File exists but has empty contents";

fn error(kind: ToolErrorKind, message: impl Into<String>) -> ToolError {
    ToolError { kind, message: message.into() }
}

/// Lines with their numbers, as `cat -n` shows them.
fn numbered<'a>(lines: impl Iterator<Item = &'a str>, first: usize) -> String {
    let mut out = String::new();
    for (index, line) in lines.enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        if out.len() > NUMBERED {
            out.push_str("\n[… too much to show: ask for fewer lines]");
            break;
        }
        match line.char_indices().nth(LINE) {
            Some((end, _)) => drop(write!(out, "{separator}{:6}\t{}…", first + index, &line[..end])),
            None => drop(write!(out, "{separator}{:6}\t{line}", first + index)),
        }
    }
    out
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// A page of a file: `limit` lines after the first `offset`.
pub(super) fn page(text: &str, offset: i64, limit: i64) -> Result<String, ToolError> {
    let (Ok(from), Ok(count)) = (usize::try_from(offset), usize::try_from(limit)) else {
        return Err(error(ToolErrorKind::Parsing, "`offset` and `limit` cannot be negative"));
    };
    if count == 0 {
        return Err(error(ToolErrorKind::Parsing, "`limit` cannot be 0"));
    }
    if text.is_empty() {
        return Ok(EMPTY.into());
    }
    // A newline at the end begins no further line.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let all = count_lines(text);
    if from >= all {
        let message = format!(
            "Line offset {from} exceeds file length ({all} lines). Use an offset between 0 and {}.",
            all.saturating_sub(1)
        );
        return Err(error(ToolErrorKind::Unknown, message));
    }
    let end = from.saturating_add(count).min(all);
    let mut out = numbered(text.split('\n').skip(from).take(end - from), from + 1);
    if end < all {
        let _ = write!(out, "\n[… {} more lines; read on with offset {end}]", all - end);
    }
    Ok(out)
}

/// Which matches are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matches {
    First,
    All,
}

/// The text after an edit, and how many matches were replaced. `fits` says whether a file may have so many bytes.
pub(super) fn edited(
    text: &str,
    (old, new): (&str, &str),
    which: Matches,
    expected: Option<i64>,
    fits: impl Fn(usize) -> Result<(), ToolError>,
) -> Result<(String, usize), ToolError> {
    if old.is_empty() {
        return Err(error(ToolErrorKind::Parsing, "`old_string` cannot be empty"));
    }
    let found = text.matches(old).count();
    if let Some(expected) = expected.filter(|expected| usize::try_from(*expected) != Ok(found)) {
        let message = format!("Expected {expected} matches of `old_string`, found {found}. Nothing was changed.");
        return Err(error(ToolErrorKind::Unknown, message));
    }
    let times = if which == Matches::All { found } else { found.min(1) };
    // Before it is made: a long text for each of many short ones would be more than there is memory.
    fits((text.len() - times * old.len()).saturating_add(times.saturating_mul(new.len())))?;
    match (found, which) {
        (0, _) if expected.is_some() => Ok((text.to_owned(), 0)),
        (0, _) => Err(error(ToolErrorKind::Unknown, "`old_string` was not found in the file. Nothing was changed.")),
        (_, Matches::First) => Ok((text.replacen(old, new, 1), 1)),
        (_, Matches::All) => Ok((text.replace(old, new), found)),
    }
}

/// A file as `view` shows it; `range` is first and last line, from 1, and -1 is the end.
pub(super) fn viewed(text: &str, shown: &str, range: Option<&[i64]>) -> Result<String, ToolError> {
    let all = count_lines(text);
    let invalid = |why: String| error(ToolErrorKind::Parsing, format!("Invalid `view_range`: {why}"));
    let (first, last) = match range {
        None | Some([]) => (1, all),
        Some([first, last]) => {
            let from = usize::try_from(*first).ok().filter(|from| (1..=all).contains(from)).ok_or_else(|| {
                invalid(format!("its first element `{first}` should be within the lines of the file: [1, {all}]"))
            })?;
            let to = match usize::try_from(*last) {
                Ok(to) => to.min(all),
                Err(_) if *last == -1 => all,
                Err(_) => 0,
            };
            if to < from {
                return Err(invalid(format!(
                    "its second element `{last}` should be -1, or at least its first `{first}`"
                )));
            }
            (from, to)
        }
        Some(_) => return Err(invalid("it should be a list of two integers".into())),
    };
    Ok(as_cat(text.split('\n').skip(first - 1).take(last + 1 - first), shown, first))
}

fn as_cat<'a>(lines: impl Iterator<Item = &'a str>, of: &str, first: usize) -> String {
    format!("Here's the result of running `cat -n` on {of}:\n{}\n", numbered(lines, first))
}

/// The text with the one match of `old` replaced, and what to say of it.
pub(super) fn replaced(text: &str, old: &str, new: &str, shown: &str) -> Result<(String, String), ToolError> {
    if old.is_empty() {
        let message =
            "str_replace: The `old_str` parameter cannot be empty. Consider using the `insert` command instead.";
        return Err(error(ToolErrorKind::Parsing, message));
    }
    // Overlapping ones too: which of them is meant would be a guess.
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(old) {
        places.push(from + at);
        from += at + text[from + at..].chars().next().map_or(1, char::len_utf8);
        if places.len() > 20 {
            break;
        }
    }
    let line_of = |at: usize| text[..at].matches('\n').count();
    match places.as_slice() {
        [] => {
            let message = format!("No replacement was performed, old_str did not appear verbatim in {shown}.");
            Err(error(ToolErrorKind::Unknown, message))
        }
        [at] => {
            let after = format!("{}{new}{}", &text[..*at], &text[at + old.len()..]);
            let line = line_of(*at);
            let said = snippet(&after, shown, line, line + new.matches('\n').count());
            Ok((after, said))
        }
        many => {
            let lines: Vec<String> = many.iter().map(|at| (line_of(*at) + 1).to_string()).collect();
            let message = format!(
                "No replacement was performed. Multiple occurrences of old_str in lines [{}]. Please ensure it is unique",
                lines.join(", ")
            );
            Err(error(ToolErrorKind::Unknown, message))
        }
    }
}

/// The text with `new` as further lines after line `after`, and what to say of it.
pub(super) fn inserted(text: &str, after: i64, new: &str, shown: &str) -> Result<(String, String), ToolError> {
    let all = count_lines(text);
    let Some(at) = usize::try_from(after).ok().filter(|at| *at <= all) else {
        let message = format!(
            "Invalid `insert_line` parameter: {after}. It should be within the range of lines of the file: [0, {all}]"
        );
        return Err(error(ToolErrorKind::Parsing, message));
    };
    let text = match text.match_indices('\n').nth(at.wrapping_sub(1)) {
        _ if at == 0 => format!("{new}\n{text}"),
        Some((end, _)) => format!("{}{new}\n{}", &text[..=end], &text[end + 1..]),
        None => format!("{text}\n{new}"),
    };
    let said = snippet(&text, shown, at, at + count_lines(new) - 1);
    Ok((text, said))
}

/// What was edited, with some lines around it; lines are counted from 0.
fn snippet(text: &str, shown: &str, first: usize, last: usize) -> String {
    let start = first.saturating_sub(AROUND);
    let lines = text.split('\n').skip(start).take(last + AROUND + 1 - start);
    format!(
        "The file {shown} has been edited. {}Review the changes and make sure they are as expected (correct indentation, no \
         duplicate lines, etc). Edit the file again if necessary.",
        as_cat(lines, &format!("a snippet of {shown}"), start + 1)
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_are_numbered_and_cut() {
        assert_eq!(page("one\ntwo\n", 0, PAGE), Ok("     1\tone\n     2\ttwo".into()));
        assert_eq!(page("one\ntwo\nthree", 1, 1), Ok("     2\ttwo\n[… 1 more lines; read on with offset 2]".into()));
        assert_eq!(page("", 0, PAGE), Ok(EMPTY.into()));
        assert_eq!(page("\n", 0, PAGE), Ok("     1\t".into()));
        let beyond = page("one\n", 1, PAGE).unwrap_err();
        assert_eq!(beyond.message, "Line offset 1 exceeds file length (1 lines). Use an offset between 0 and 0.");
        assert_eq!(page("x", -1, 5).unwrap_err().kind, ToolErrorKind::Parsing);
        assert_eq!(page("x", 0, 0).unwrap_err().kind, ToolErrorKind::Parsing);
        let long = page(&"é".repeat(5000), 0, i64::MAX).unwrap();
        assert_eq!(long.chars().count(), 7 + 2000 + 1);
        assert_eq!(page(&"x\n".repeat(3000), 0, PAGE).unwrap().lines().count(), 2001);
    }

    #[test]
    fn edits_replace_the_first_match_unless_all_are_meant() {
        let edit = |which, expected| edited("a b a", ("a", "c"), which, expected, |_| Ok(()));
        assert_eq!(edit(Matches::First, None), Ok(("c b a".into(), 1)));
        assert_eq!(edit(Matches::All, None), Ok(("c b c".into(), 2)));
        assert_eq!(edit(Matches::All, Some(2)), Ok(("c b c".into(), 2)));
        assert!(edit(Matches::All, Some(1)).unwrap_err().message.contains("found 2"));
        assert!(edit(Matches::First, Some(-1)).is_err());
        let fits = |_| Ok(());
        assert!(edited("a", ("x", "y"), Matches::First, None, fits).is_err());
        assert_eq!(edited("a", ("x", "y"), Matches::First, Some(0), fits), Ok(("a".into(), 0)));
        assert_eq!(edited("a", ("", "y"), Matches::First, None, fits).unwrap_err().kind, ToolErrorKind::Parsing);
    }

    #[test]
    fn an_edit_that_multiplies_is_refused_before_it_is_made() {
        let fits = |bytes: usize| {
            if bytes < 10_000_000 { Ok(()) } else { Err(error(ToolErrorKind::Limit, bytes.to_string())) }
        };
        let (many, long) = ("a".repeat(5_000_000), "b".repeat(5_000_000));
        let refused = edited(&many, ("a", &long), Matches::All, None, fits).unwrap_err();
        assert_eq!(refused.message, "25000000000000");
        assert_eq!(edited(&many, ("a", &long), Matches::First, None, fits).map(|(text, _)| text.len()), Ok(9_999_999));
        assert!(page(&"\n".repeat(20 << 20), 0, i64::MAX).unwrap().len() < NUMBERED + 1000);
    }

    #[test]
    fn the_editor_speaks_as_inspects_does() {
        assert_eq!(
            viewed("a\nb\n", "/repo/x", None),
            Ok("Here's the result of running `cat -n` on /repo/x:\n     1\ta\n     2\tb\n     3\t\n".into())
        );
        assert_eq!(
            viewed("a\nb\nc", "x", Some(&[2, -1])),
            Ok("Here's the result of running `cat -n` on x:\n     2\tb\n     3\tc\n".into())
        );
        assert_eq!(viewed("a\nb", "x", Some(&[1, 99])), viewed("a\nb", "x", None));
        for range in [&[0, 1][..], &[4, 5], &[2, 1], &[1], &[1, 2, 3], &[1, -2]] {
            assert_eq!(viewed("a\nb\nc", "x", Some(range)).unwrap_err().kind, ToolErrorKind::Parsing, "{range:?}");
        }
        let (text, said) = replaced("1\n2\n3\n4\n5\n6\n7\n8\n9", "5", "five\nfünf", "x").unwrap();
        assert_eq!(text, "1\n2\n3\n4\nfive\nfünf\n6\n7\n8\n9");
        assert!(said.starts_with(
            "The file x has been edited. Here's the result of running `cat -n` on a snippet of x:\n     1\t1\n"
        ));
        assert!(said.contains("    10\t9\nReview"), "{said}");
        let twice = replaced("a\nb a", "a", "c", "x").unwrap_err();
        assert!(twice.message.contains("in lines [1, 2]"), "{}", twice.message);
        assert!(replaced("aaa", "aa", "b", "x").is_err(), "two that overlap are two");
        assert!(replaced("a", "b", "c", "x").is_err() && replaced("a", "", "c", "x").is_err());
        assert_eq!(inserted("a\nb", 0, "x", "f").unwrap().0, "x\na\nb");
        assert_eq!(inserted("a\nb", 1, "x\ny", "f").unwrap().0, "a\nx\ny\nb");
        assert_eq!(inserted("a\nb", 2, "x", "f").unwrap().0, "a\nb\nx");
        assert!(inserted("a\nb", 3, "x", "f").is_err() && inserted("a", -1, "x", "f").is_err());
    }

    proptest! {
        #[test]
        fn no_edit_panics_and_what_is_replaced_back_is_as_before(text in "[ab\né]{0,30}", old in "[ab\né]{0,4}", at in -2_i64..40) {
            if let Ok((after, _)) = replaced(&text, &old, "#", "x") {
                prop_assert_eq!(replaced(&after, "#", &old, "x").unwrap().0, text.clone());
            }
            if let Ok((after, said)) = inserted(&text, at, "#\n#", "x") {
                prop_assert_eq!(after.matches('#').count(), 2);
                prop_assert!(said.matches('#').count() == 2);
            }
            let _ = (page(&text, at, at + 3), viewed(&text, "x", Some(&[at, at + 2])));
            if let Ok((after, count)) = edited(&text, (&old, "#"), Matches::All, None, |_| Ok(())) {
                prop_assert_eq!(after.matches('#').count(), count);
                prop_assert_eq!(after.replace('#', &old), text);
            }
        }
    }
}
