//! Text that others wrote, made safe to show.
//!
//! A server chooses what it answers; its words reach terminals and logs. They are cut, and what a terminal would obey
//! or hide is taken out.

use std::fmt;

/// The longest text of others that is shown, in characters.
pub const MAX_SHOWN: usize = 500;

/// A short text without control characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown(String);

impl Shown {
    /// Takes from a text what may be shown.
    pub fn new(text: &str) -> Self {
        Self::without(text, &[])
    }

    /// The same for a text in which one of our secrets may stand: a server can repeat what it was told.
    pub fn without(text: &str, secrets: &[&str]) -> Self {
        let mut text: String = text.chars().filter_map(visible).collect();
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "[REDACTED]");
        }
        let text = text.trim();
        let mut characters = text.chars();
        let mut shown: String = characters.by_ref().take(MAX_SHOWN).collect();
        if characters.next().is_some() {
            shown.pop();
            shown.push('…');
        }
        Self(shown)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The character to show for this one. Marks that reorder or hide text go too: they make a line say what it does not.
fn visible(character: char) -> Option<char> {
    match character {
        '\t' | '\n' | '\r' => Some(' '),
        '\u{ad}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => None,
        _ if character.is_control() => None,
        _ => Some(character),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_taken_out() {
        assert_eq!(Shown::new("a\u{1b}[31mred\u{7}\r\nb\u{202e}c\u{9b}d ").as_str(), "a[31mred  bcd");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let shown = Shown::new(&"ä".repeat(5000));
        assert_eq!(shown.as_str(), "ä".repeat(MAX_SHOWN - 1) + "…");
        assert_eq!(Shown::new(&"ä".repeat(MAX_SHOWN)).as_str(), "ä".repeat(MAX_SHOWN));
    }

    #[test]
    fn secrets_are_taken_out_before_the_text_is_cut() {
        let text = "x".repeat(MAX_SHOWN - 3) + "hunter2";
        assert!(!Shown::without(&text, &["hunter2", ""]).as_str().contains("hun"));
        assert_eq!(Shown::without("hun\u{7}ter2!", &["hunter2"]).as_str(), "[REDACTED]!");
    }

    proptest! {
        #[test]
        fn every_text_becomes_short_and_plain(text in any::<String>()) {
            let shown = Shown::new(&text);
            prop_assert!(shown.as_str().chars().count() <= MAX_SHOWN);
            prop_assert!(!shown.as_str().chars().any(char::is_control));
        }
    }
}
