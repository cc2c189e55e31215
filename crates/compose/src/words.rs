//! A command as one text, split into words as Compose does it: quotes and backslashes, no shell.

/// Why a text is no command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A quote or backslash has no end.
    #[error("a quote or backslash in it has no end")]
    Unclosed,
    /// A character that means something to a shell. Compose drops what follows, without a word.
    #[error("`{0}` means something only to a shell, and no shell reads this")]
    Operator(char),
}

/// Splits `text` into words.
pub fn split(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    // A word can be there and empty: `''`.
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().push(match rest.next() {
                // As the library of Compose has it.
                Some('t') => '\t',
                Some('n') => '\n',
                Some(escaped) => escaped,
                None => return Err(WordsError::Unclosed),
            }),
            (_, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ' | '\t' | '\r' | '\n', None) => words.extend(word.take()),
            (';' | '&' | '|' | '<' | '>' | '(' | ')' | '`', None) => return Err(WordsError::Operator(c)),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(WordsError::Unclosed);
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_split_as_compose_splits_them() {
        let cases: [(&str, &[&str]); 8] = [
            ("tail -f /dev/null", &["tail", "-f", "/dev/null"]),
            (r#"/bin/sh -c "tail -f /dev/null""#, &["/bin/sh", "-c", "tail -f /dev/null"]),
            ("  a \n b\t", &["a", "b"]),
            ("a'b c'd", &["ab cd"]),
            (r#"a '' "" "#, &["a", "", ""]),
            (r#""a\"b" '\'"#, &[r#"a"b"#, r"\"]),
            (r"a\ b", &["a b"]),
            ("", &[]),
        ];
        for (text, words) in cases {
            assert_eq!(
                split(text).as_deref(),
                Ok(&words.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{text}"
            );
        }
        for text in ["'a", "\"a", "a\\"] {
            assert_eq!(split(text), Err(WordsError::Unclosed), "{text}");
        }
        for text in ["a && b", "a | b", "a > b", "a; b", "$(a)", "`a`"] {
            assert!(matches!(split(text), Err(WordsError::Operator(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in prop::collection::vec("[^']{0,10}", 0..6)) {
            let text: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(split(&text.join(" ")), Ok(words));
        }

        #[test]
        fn any_text_is_words_or_an_error(text in ".{0,60}") {
            let _ = split(&text);
        }
    }
}
