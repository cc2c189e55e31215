//! `command` and `entrypoint`, and what they come to with an image's own.

use profile::Located;
use profile::source::Value;

use crate::section::{self, Section};
use crate::words::split;

/// The most words of a command.
const MAX_WORDS: usize = 1024;

/// A list of words, or a text that is split into words. An empty one is there and says "none".
pub(super) fn read(keys: &mut Section, key: &str) -> Option<Located<Vec<String>>> {
    let node = keys.take(key)?;
    let (reading, place) = (keys.reading, node.place);
    let words = match node.value {
        Value::List(items) if items.len() <= MAX_WORDS => items
            .into_iter()
            .map(|item| section::text(reading, item, key).map(|word| word.value))
            .collect::<Option<_>>()?,
        Value::List(_) => {
            reading.problem(place, format!("`{key}` has more than {MAX_WORDS} words"));
            return None;
        }
        Value::Text(text) => match split(&text) {
            Ok(words) => words,
            Err(error) => {
                reading.problem_with_hint(place, format!("`{key}`: {error}"), format!("write {key}: [sh, -c, \"…\"]"));
                return None;
            }
        },
        other => {
            reading.problem(place, format!("`{key}` must be a list or a text, found {}", other.kind()));
            return None;
        }
    };
    if words.iter().any(|word: &String| word.contains('\0')) {
        reading.problem(place, format!("`{key}` has a zero byte in it"));
        return None;
    }
    Some(Located::at(place, words))
}

/// The command line that results from what a service says and what its image says.
///
/// As with Docker: an entry point of one's own drops the image's command; an empty one drops only the image's entry point.
pub fn argv(
    entrypoint: Option<&[String]>,
    command: Option<&[String]>,
    image_entrypoint: &[String],
    image_command: &[String],
) -> Vec<String> {
    let drops_command = entrypoint.is_some_and(|words| !words.is_empty());
    let command = command.unwrap_or(if drops_command { &[] } else { image_command });
    entrypoint.unwrap_or(image_entrypoint).iter().chain(command).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_and_commands_come_to_what_docker_makes_of_them() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (image_entrypoint, image_command) = (words("entry"), words("serve -p"));
        for (entrypoint, command, expected) in [
            (None, None, "entry serve -p"),
            (None, Some("run x"), "entry run x"),
            (None, Some(""), "entry"),
            (Some("own -v"), None, "own -v"),
            (Some("own"), Some("run"), "own run"),
            (Some(""), None, "serve -p"),
            (Some(""), Some("run"), "run"),
            (Some(""), Some(""), ""),
        ] {
            let (own_entrypoint, own_command) = (entrypoint.map(words), command.map(words));
            let found = argv(own_entrypoint.as_deref(), own_command.as_deref(), &image_entrypoint, &image_command);
            assert_eq!(found, words(expected), "{entrypoint:?} {command:?}");
        }
    }
}
