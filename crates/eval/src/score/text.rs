//! Judging words.

use super::words::{bare, folded, normal};
use crate::task::Location;

/// Whether it is the target, but for what does not count. A target of which nothing counts is nobody's answer.
pub(super) fn is_same(answer: &str, target: &str) -> bool {
    let wanted = normal(target, &[]);
    !wanted.is_empty() && normal(answer, &[]) == wanted
}

fn fold(text: &str, ignore_case: bool) -> String {
    if ignore_case { folded(text) } else { text.to_owned() }
}

pub(super) fn equal(one: &str, other: &str, ignore_case: bool) -> bool {
    fold(one.trim(), ignore_case) == fold(other.trim(), ignore_case)
}

pub(super) fn includes(answer: &str, target: &str, ignore_case: bool) -> bool {
    fold(answer, ignore_case).contains(&fold(target, ignore_case))
}

/// Punctuation around it does not change what was said.
pub(super) fn matches(answer: &str, target: &str, location: Location, ignore_case: bool) -> bool {
    let (answer, target) = (fold(answer.trim(), ignore_case), fold(target.trim(), ignore_case));
    // Of a target that is punctuation nothing would be left, which is in every answer.
    let (answer, target) = match (bare(&answer), bare(&target)) {
        (_, "") => (answer.as_str(), target.as_str()),
        bare => bare,
    };
    match location {
        Location::Begin => answer.starts_with(target),
        Location::End => answer.ends_with(target),
        Location::Any => answer.contains(target),
        Location::Exact => answer == target,
    }
}

/// What a regular expression finds: its first group, or all of it. Linear in the text, whatever the expression.
pub(super) fn find(pattern: &str, ignore_case: bool, answer: &str) -> Result<Option<String>, String> {
    let expression = regex::RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(crate::task::PATTERN_SIZE)
        .build()
        .map_err(|error| format!("the pattern is not a regular expression: {error}"))?;
    let found = expression.captures(answer);
    Ok(found.and_then(|found| found.get(1).or_else(|| found.get(0)).map(|part| part.as_str().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_judged_as_people_would() {
        assert!(is_same("The answer, 42!", "answer 42"));
        assert!(!is_same("43", "42"));
        assert!(!is_same("", "the"), "nothing is not the answer");
        assert!(includes("it is FLAG{x}", "flag{x}", true) && !includes("it is FLAG{x}", "flag{x}", false));
        assert!(matches("It is Paris.", "paris", Location::End, true));
        assert!(matches("It is **Paris**", "paris", Location::End, true));
        assert!(!matches("Paris it is", "paris", Location::End, true));
        assert!(matches("Paris it is", "paris", Location::Begin, true));
        assert!(!matches("Paris", ".", Location::End, true) && matches("so.", ".", Location::End, true));
        assert_eq!(find(r"answer: (\w+)", true, "ANSWER: yes"), Ok(Some("yes".into())));
        assert_eq!(find(r"\d+", false, "none"), Ok(None));
        assert!(find("(", false, "x").is_err());
    }
}
