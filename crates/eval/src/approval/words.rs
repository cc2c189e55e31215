//! A command line that is one simple command: what can be said of it for sure.

/// The words of a command that has nothing of the shell's in it but quotes; none for anything else.
///
/// A rule that approves `ls` must not approve `ls; rm`, `ls $(rm)`, `ls > x` or `PATH=. ls`: so whatever the shell would
/// treat in its own way, outside single quotes, makes it no simple command.
pub(super) fn simple(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = command.trim_end_matches('\n').chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        // To a terminal it would be a key.
                        control if control.is_control() => return None,
                        inner => word.push(inner),
                    }
                }
            }
            plain if plain.is_alphanumeric() || "_-./:,+@%^".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word.take());
    let program = words.first()?;
    // A word of the shell's own is not the program of that name.
    let reserved =
        ["if", "while", "for", "case", "function", "time", "eval", "exec", "source", ".", "command", "builtin"];
    (!program.is_empty() && !reserved.contains(&program.as_str())).then_some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_simple_commands_have_words() {
        assert_eq!(simple("ls -l /srv"), Some(vec!["ls".into(), "-l".into(), "/srv".into()]));
        assert_eq!(simple("grep 'a b; c' x"), Some(vec!["grep".into(), "a b; c".into(), "x".into()]));
        assert_eq!(simple("echo ''"), Some(vec!["echo".into(), String::new()]));
        for tricky in [
            "",
            "  ",
            "ls; rm",
            "ls && rm",
            "ls | sh",
            "ls > x",
            "ls $(rm)",
            "ls `rm`",
            "PATH=. ls",
            "ls\nrm",
            "ls #x",
            "ls 'a",
            "ls \"$x\"",
            "ls ~",
            "ls *",
            "l\\s",
            "eval ls",
            "''",
            "ls & rm",
            "! ls",
            "{ ls",
            "(ls)",
            "ls <x",
            "ls\r",
            "ls\u{0}",
        ] {
            assert_eq!(simple(tricky), None, "{tricky:?}");
        }
    }

    proptest! {
        #[test]
        fn quoting_words_gives_them_back(program in "x[a-z]{1,8}", others in proptest::collection::vec("[a-z $;|&<>*?~#!{}()äé-]{0,12}", 0..4)) {
            let words: Vec<String> = std::iter::once(program).chain(others).collect();
            let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(simple(&quoted.join(" ")), Some(words));
        }
    }
}
