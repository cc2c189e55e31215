//! Judging words.

use crate::task::Location;

/// Without case, punctuation, articles and extra space.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: String = lower.chars().map(|c| if c.is_ascii_punctuation() { ' ' } else { c }).collect();
    words.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the")).collect::<Vec<_>>().join(" ")
}

pub(super) fn is_same(answer: &str, target: &str) -> bool {
    plain(answer) == plain(target)
}

fn fold(text: &str, ignore_case: bool) -> String {
    if ignore_case { text.to_lowercase() } else { text.to_owned() }
}

pub(super) fn equal(one: &str, other: &str, ignore_case: bool) -> bool {
    fold(one.trim(), ignore_case) == fold(other.trim(), ignore_case)
}

pub(super) fn includes(answer: &str, target: &str, ignore_case: bool) -> bool {
    fold(answer, ignore_case).contains(&fold(target, ignore_case))
}

/// An end of a sentence does not change what was said.
fn bare(text: &str) -> &str {
    text.trim().trim_end_matches(['.', ',', ';', ':', '!', '?'])
}

pub(super) fn matches(answer: &str, target: &str, location: Location, ignore_case: bool) -> bool {
    let (answer, target) = (fold(bare(answer), ignore_case), fold(bare(target), ignore_case));
    match location {
        Location::Begin => answer.starts_with(&target),
        Location::End => answer.ends_with(&target),
        Location::Any => answer.contains(&target),
        Location::Exact => answer == target,
    }
}

/// What a regular expression finds: its first group, or all of it. Linear in the text, whatever the expression.
pub(super) fn find(pattern: &str, ignore_case: bool, answer: &str) -> Result<Option<String>, String> {
    let expression = regex::RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(1 << 20)
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
        assert!(includes("it is FLAG{x}", "flag{x}", true) && !includes("it is FLAG{x}", "flag{x}", false));
        assert!(matches("It is Paris.", "paris", Location::End, true));
        assert!(!matches("Paris it is", "paris", Location::End, true));
        assert!(matches("Paris it is", "paris", Location::Begin, true));
        assert_eq!(find(r"answer: (\w+)", true, "ANSWER: yes"), Ok(Some("yes".into())));
        assert_eq!(find(r"\d+", false, "none"), Ok(None));
        assert!(find("(", false, "x").is_err());
    }
}
