//! Variables in a text: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME?message}`, `${NAME:+alternative}`, `$$`.
//!
//! What a variable holds is never looked at for variables again.

/// How deep defaults may be nested.
const MAX_DEPTH: usize = 16;
/// The longest text that a template may become.
pub const MAX_EXPANDED_BYTES: usize = 256 << 10;

/// Why a text with variables cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A `$` that begins no variable.
    #[error("a `$` in it begins no variable")]
    Stray,
    /// A `${` without its `}`.
    #[error("a `${{` in it has no `}}`")]
    Unclosed,
    /// Something in `${…}` that is neither a name nor an operator.
    #[error("`${{…}}` holds a name, and then nothing or one of `:-` `-` `:?` `?` `:+` `+`")]
    Shape,
    /// A variable that must have a value.
    #[error("the variable `{name}` must be set{}{message}", if message.is_empty() { "" } else { ": " })]
    Required {
        /// Its name.
        name: String,
        /// What the text says about it.
        message: String,
    },
    /// Defaults in defaults.
    #[error("its variables are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// More than [`MAX_EXPANDED_BYTES`].
    #[error("with its variables it is longer than {MAX_EXPANDED_BYTES} bytes")]
    TooLong,
}

impl TemplateError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Stray | Self::Unclosed | Self::Shape => "write $$ for a plain dollar sign",
            Self::Required { .. } => "set it in the environment or in the file .env",
            Self::TooDeep | Self::TooLong => "write the value out",
        }
    }
}

/// Puts the values of variables into `text`. A variable without value and default is empty.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, TemplateError> {
    let mut expander = Expander { rest: text, lookup, made: 0 };
    expander.run(Level::Whole, Wanted::Yes, 0)
}

/// Where a text ends.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    /// With the text.
    Whole,
    /// At the next `}`.
    Braced,
}

/// Whether anybody wants the result: a default that is not needed must be well-formed and nothing else.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Yes,
    No,
}

struct Expander<'a> {
    rest: &'a str,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    made: usize,
}

impl Expander<'_> {
    fn run(&mut self, level: Level, wanted: Wanted, depth: usize) -> Result<String, TemplateError> {
        if depth > MAX_DEPTH {
            return Err(TemplateError::TooDeep);
        }
        let mut out = String::new();
        loop {
            let stop = self.rest.find(|c| c == '$' || (c == '}' && level == Level::Braced));
            let (before, after) = self.rest.split_at(stop.unwrap_or(self.rest.len()));
            self.rest = after;
            self.push(&mut out, before, wanted)?;
            if stop.is_none() {
                return if level == Level::Braced { Err(TemplateError::Unclosed) } else { Ok(out) };
            }
            if self.eat("}") {
                return Ok(out);
            }
            self.eat("$");
            if self.eat("$") {
                self.push(&mut out, "$", wanted)?;
            } else if self.eat("{") {
                let value = self.braced(wanted, depth)?;
                self.push(&mut out, &value, wanted)?;
            } else {
                let name = self.name().ok_or(TemplateError::Stray)?;
                let value = self.value(&name, wanted).unwrap_or_default();
                self.push(&mut out, &value, wanted)?;
            }
        }
    }

    /// What follows `${`, up to and with its `}`.
    fn braced(&mut self, wanted: Wanted, depth: usize) -> Result<String, TemplateError> {
        let name = self.name().ok_or(TemplateError::Shape)?;
        let value = self.value(&name, wanted);
        if self.eat("}") {
            return Ok(value.unwrap_or_default());
        }
        let colon = self.eat(":");
        let operator = self.rest.chars().next();
        if !matches!(operator, Some('-' | '?' | '+')) {
            return Err(if self.rest.contains('}') { TemplateError::Shape } else { TemplateError::Unclosed });
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        let value = value.filter(|value| !(colon && value.is_empty()));
        let needed = if operator == Some('+') { value.is_some() } else { value.is_none() };
        let word_wanted = if needed { wanted } else { Wanted::No };
        let word = self.run(Level::Braced, word_wanted, depth + 1)?;
        match operator {
            Some('+') => Ok(word),
            Some('?') if value.is_none() && wanted == Wanted::Yes => {
                Err(TemplateError::Required { name, message: word })
            }
            _ => Ok(value.unwrap_or(word)),
        }
    }

    fn value(&self, name: &str, wanted: Wanted) -> Option<String> {
        (wanted == Wanted::Yes).then(|| (self.lookup)(name)).flatten()
    }

    fn push(&mut self, out: &mut String, text: &str, wanted: Wanted) -> Result<(), TemplateError> {
        if wanted == Wanted::No {
            return Ok(());
        }
        self.made = self.made.saturating_add(text.len());
        // A default is counted once for itself and once for where it goes, at each of a few depths.
        if self.made > MAX_EXPANDED_BYTES {
            return Err(TemplateError::TooLong);
        }
        out.push_str(text);
        Ok(())
    }

    fn eat(&mut self, token: &str) -> bool {
        let after = self.rest.strip_prefix(token);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn name(&mut self) -> Option<String> {
        if !self.rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (name, after) = self.rest.split_at(end);
        self.rest = after;
        Some(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "SET" => Some("value".into()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${SET} $$".into()),
            "LONG" => Some("x".repeat(1000)),
            _ => None,
        }
    }

    #[test]
    fn variables_mean_what_they_mean_in_compose() {
        for (text, expected) in [
            ("plain", "plain"),
            ("$SET", "value"),
            ("${SET}", "value"),
            ("a${SET}b$SET-c", "avaluebvalue-c"),
            ("$NONE|${NONE}", "|"),
            ("${NONE-d}${EMPTY-d}${SET-d}", "dvalue"),
            ("${NONE:-d}${EMPTY:-d}${SET:-d}", "ddvalue"),
            ("${NONE+a}|${EMPTY+a}|${SET+a}", "|a|a"),
            ("${NONE:+a}|${EMPTY:+a}|${SET:+a}", "||a"),
            ("${SET?no}${EMPTY?no}${SET:?no}", "valuevalue"),
            ("${NONE:-${EMPTY:-${SET}}}", "value"),
            ("${NONE:-a$$b}", "a$b"),
            ("${SET:-${NONE:?never asked}}", "value"),
            ("${NONE-}", ""),
            ("$$SET $$$$ $${SET}", "$SET $$ ${SET}"),
            ("$TRICK", "${SET} $$"),
            ("${NONE:-http://x:80/?a=b}", "http://x:80/?a=b"),
        ] {
            assert_eq!(expand(text, &lookup).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn broken_templates_are_named() {
        let deep = format!("{}x{}", "${N:-".repeat(40), "}".repeat(40));
        let required = |message: &str| TemplateError::Required { name: "NONE".into(), message: message.into() };
        for (text, error) in [
            ("a$", TemplateError::Stray),
            ("$1", TemplateError::Stray),
            ("$ {A}", TemplateError::Stray),
            ("${A", TemplateError::Unclosed),
            ("${A:-b", TemplateError::Unclosed),
            ("${}", TemplateError::Shape),
            ("${A!}", TemplateError::Shape),
            ("${A:b}", TemplateError::Shape),
            ("${NONE?}", required("")),
            ("${NONE:?say $SET}", required("say value")),
            ("${NONE:-${NONE:?inner}}", required("inner")),
            (&deep, TemplateError::TooDeep),
            (&"$LONG".repeat(1000), TemplateError::TooLong),
        ] {
            assert_eq!(expand(text, &lookup), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_a_dollar_stays_as_it_is(text in "[^$]{0,80}") {
            prop_assert_eq!(expand(&text, &lookup), Ok(text));
        }

        #[test]
        fn a_doubled_dollar_protects_any_text(text in ".{0,80}") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), &lookup), Ok(text));
        }

        #[test]
        fn any_text_is_expanded_or_an_error(text in "([${}:?+A-Z-]|.){0,60}") {
            let _ = expand(&text, &lookup);
        }
    }
}
