//! Words without what does not count: case, punctuation, articles, the spelling of numbers. And how many two texts share.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::number;

/// None if the expression were wrong, which a test rules out.
static ARTICLES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b(?:a|an|the)\b").ok());

/// Without case. As near to Unicode's folding as the standard library comes: `ß` is `ss`, every sigma is one.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Without white space and punctuation at both ends.
pub(super) fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_punctuation() || matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}'))
}

/// One word, or what is left of it.
fn normal_word(word: &str) -> String {
    let word = folded(word);
    let stripped = bare(&word);
    let text = if number::plain(&word).is_some() {
        word.clone()
    } else if number::plain(stripped).is_some() {
        stripped.to_owned()
    } else {
        word.chars().filter(|c| !c.is_ascii_punctuation()).collect()
    };
    // One spelling for each number.
    let text = number::plain(&text).map_or(text, |number| format!("{number:?}"));
    let text = match ARTICLES.as_ref() {
        Some(articles) => articles.replace_all(&text, " ").into_owned(),
        None => text,
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words that count.
pub(super) fn normal(text: &str, stop_words: &[String]) -> Vec<String> {
    let stop: Vec<String> = stop_words.iter().map(|word| normal_word(word)).collect();
    let words = text.split([' ', '-']).map(normal_word).filter(|word| !word.is_empty() && !stop.contains(word));
    words.flat_map(|word| word.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn counted(words: Vec<String>) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The harmonic mean of precision and recall, word by word, with the nearest target; in hundredths.
pub(super) fn f1(answer: &str, targets: &[String], stop_words: &[String]) -> f64 {
    let said = counted(normal(answer, stop_words));
    let best = targets.iter().map(|target| overlap(&said, &counted(normal(target, stop_words)))).fold(0.0, f64::max);
    format!("{best:.2}").parse().unwrap_or(best)
}

fn overlap(said: &HashMap<String, u32>, wanted: &HashMap<String, u32>) -> f64 {
    let sum = |counts: &HashMap<String, u32>| counts.values().map(|count| f64::from(*count)).sum::<f64>();
    // A target without a word that counts is nobody's answer.
    if wanted.is_empty() || said.is_empty() {
        return 0.0;
    }
    let shared: f64 =
        said.iter().filter_map(|(word, count)| wanted.get(word).map(|other| f64::from(*count.min(other)))).sum();
    let (precision, recall) = (shared / sum(said), shared / sum(wanted));
    if shared > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::float_cmp, reason = "hundredths, read from text")]
    fn scores(answer: &str, target: &str, score: f64) {
        assert_eq!(f1(answer, &[target.to_owned()], &[]), score, "{answer} / {target}");
    }

    #[test]
    fn f1_weighs_precision_and_recall() {
        assert!(ARTICLES.is_some());
        scores("the quick brown fox", "a quick fox", 0.8);
        scores("fox fox fox fox", "fox", 0.4);
        scores("Paris!", "paris", 1.0);
        scores("3.140", "(3.14)", 1.0);
        scores("", "x", 0.0);
        scores("the", "a", 0.0);
        // A tie goes to the even digit, as in Inspect: 0.125 is 0.12.
        scores("one b c d e f g h i j k l m n o", "one", 0.12);
        assert!((f1("well it is so", &["so".into()], &["well".into(), "It".into(), "is".into()]) - 1.0).abs() < 1e-9);
        assert!((f1("blue", &["red".into(), "blue".into()], &[]) - 1.0).abs() < 1e-9, "the nearest target counts");
    }
}
