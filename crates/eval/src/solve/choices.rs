//! Questions with choices: shown as letters, answered by one.

use std::fmt::Write as _;

use log::message::ChatMessage;

use super::{State, Stop};
use crate::task::Sample;

/// The letter of a choice.
pub(crate) fn letter(index: usize) -> char {
    u8::try_from(index).ok().filter(|index| *index < 26).map_or('?', |index| char::from(b'A' + index))
}

/// The letters of some choices.
pub(crate) fn letters(indexes: &[usize]) -> String {
    indexes.iter().map(|index| letter(*index)).collect()
}

/// Adds the choices to the question.
pub(super) fn ask(sample: &Sample, state: &mut State) -> Result<(), Stop> {
    if sample.choices.is_empty() || sample.choices.len() > 26 {
        return Err(Stop::Failed("a question with choices needs between 1 and 26 of them".into()));
    }
    let mut text = String::from("Answer with the letter of one choice, in a last line `ANSWER: LETTER`.\n\n");
    let last = state.messages.iter_mut().rev().find_map(|message| match message {
        ChatMessage::User(said) => Some(said),
        _ => None,
    });
    let Some(said) = last else { return Err(Stop::Failed("there is no question to add choices to".into())) };
    text.push_str(&said.content.text());
    text.push_str("\n\n");
    for (index, choice) in sample.choices.iter().enumerate() {
        let _ = writeln!(text, "{}) {choice}", letter(index));
    }
    said.content.map_text(|_| text);
    Ok(())
}

/// Reads which letter was chosen.
pub(super) fn read(sample: &Sample, state: &mut State) {
    state.chosen = Some(chosen(state.completion(), sample.choices.len()).into_iter().collect());
}

/// Which of so many choices an answer names.
pub(crate) fn chosen(answer: &str, choices: usize) -> Option<usize> {
    let stated =
        answer.lines().rev().find_map(|line| line.trim().to_uppercase().strip_prefix("ANSWER:").map(str::to_owned));
    let said = stated.unwrap_or_else(|| answer.trim().to_uppercase());
    let found: Vec<char> = said.chars().filter(char::is_ascii_uppercase).collect();
    // One letter, and nothing that could be a word.
    match found.as_slice() {
        [one] => (0..choices).find(|index| letter(*index) == *one),
        _ => None,
    }
}
