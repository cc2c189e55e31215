//! Names of files as text that can be shown: they are bytes of anybody's making.

use std::fmt::Write as _;

/// A name without anything that a terminal or a reader would take for more than a name.
pub(super) fn escaped(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                other => push(&mut out, other),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// The same for a text that is only repeated: a backslash in it stays one.
pub(super) fn shown(text: &str) -> String {
    // A path of a whole megabyte would say no more.
    let mut out = String::new();
    for character in text.chars().take(500) {
        push(&mut out, character);
    }
    if text.chars().nth(500).is_some() {
        out.push('…');
    }
    out
}

fn push(out: &mut String, character: char) {
    match character {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        // What turns the direction of a line, or breaks it.
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        }
        control if control.is_control() => {
            let _ = write!(out, "\\x{:02x}", u32::from(control));
        }
        plain => out.push(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_speak_to_a_terminal() {
        assert_eq!(escaped(b"plain-\xc3\xa9.txt"), "plain-é.txt");
        assert_eq!(escaped(b"a\nb\x1b[31m\x7f\xff\\x"), "a\\nb\\x1b[31m\\x7f\\xff\\\\x");
        assert_eq!(escaped("\u{9b}31m\u{202e}txt.exe".as_bytes()), "\\x9b31m\\u{202e}txt.exe");
        assert_eq!(shown("a\\b\r"), "a\\b\\r");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_pass_unescaped(name in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            assert!(!escaped(&name).chars().any(char::is_control));
        }
    }
}
