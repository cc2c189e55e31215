//! Reads `WWW-Authenticate` (RFC 9110, section 11): how a registry wants to be asked.
//!
//! A header may hold several challenges, and both challenges and their parameters are separated by commas. What cannot
//! be read ends the reading; nothing is guessed.

/// The most parameters and schemes that are read.
const MAX_WORDS: usize = 64;

/// What a registry wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A token from the realm.
    Bearer { realm: String, service: Option<String> },
    /// Name and password.
    Basic,
}

/// The challenge to answer: a token before a password, which then goes to fewer hands.
pub(crate) fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let challenges: Vec<Scheme> = headers.flat_map(schemes).collect();
    let bearer = challenges.iter().find_map(|scheme| {
        let realm = scheme.name.eq_ignore_ascii_case("bearer").then(|| scheme.only("realm"))??;
        Some(Challenge::Bearer { realm: realm.to_owned(), service: scheme.only("service").map(str::to_owned) })
    });
    let basic = || challenges.iter().any(|scheme| scheme.name.eq_ignore_ascii_case("basic"));
    bearer.or_else(|| basic().then_some(Challenge::Basic))
}

#[derive(Debug)]
struct Scheme {
    name: String,
    parameters: Vec<(String, String)>,
}

impl Scheme {
    /// The value of a parameter that stands there once: of two, another reader might take the other.
    fn only(&self, name: &str) -> Option<&str> {
        let mut values = self.parameters.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value)
    }
}

fn schemes(header: &str) -> Vec<Scheme> {
    let mut schemes: Vec<Scheme> = Vec::new();
    let mut rest = header;
    for _ in 0..MAX_WORDS {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some((word, after)) = token(rest) else { break };
        let after = after.trim_start_matches([' ', '\t']);
        match (after.strip_prefix('='), schemes.last_mut()) {
            (Some(value), Some(scheme)) => {
                let Some((value, after)) = value_of(value.trim_start_matches([' ', '\t'])) else { break };
                scheme.parameters.push((word.to_owned(), value));
                rest = after;
            }
            (Some(_), None) => break,
            (None, _) => {
                schemes.push(Scheme { name: word.to_owned(), parameters: Vec::new() });
                rest = after;
            }
        }
    }
    schemes
}

/// A token (RFC 9110, section 5.6.2) and what follows.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
    let end = text.find(|letter| !is_token(letter)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A token or a quoted string, and what follows.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text).map(|(value, rest)| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) }
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let realm = "https://auth.docker.io/token";
        for (headers, expected) in [
            (
                &[
                    r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull""#,
                ][..],
                Some(bearer(realm, Some("registry.docker.io"))),
            ),
            (&[r#"bearer REALM = "https://auth.docker.io/token""#], Some(bearer(realm, None))),
            (
                &[r#"Basic realm="x", Bearer realm="https://auth.docker.io/token", service=s"#],
                Some(bearer(realm, Some("s"))),
            ),
            (&["Basic", r#"Bearer realm="https://auth.docker.io/token""#], Some(bearer(realm, None))),
            (&[r#"Bearer realm="a\"b,\\c=""#], Some(bearer("a\"b,\\c=", None))),
            (&[r#"Basic realm="Registry Realm""#], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (&["Negotiate abc==, Basic"], None),
            (&["Bearer"], None),
            (&[r#"Bearer realm="a",realm="b""#], None),
            (&[r#"Bearer realm="never closed"#], None),
            (&[r#"realm="a""#], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(read(headers.iter().copied()), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_header_without_end_is_read_to_a_limit() {
        assert_eq!(schemes(&"a ".repeat(100_000)).len(), MAX_WORDS);
    }

    proptest! {
        #[test]
        fn any_header_can_be_read(header in "[a-zA-Z \"\\\\=,ä]{0,40}") {
            let _ = read([header.as_str()].into_iter());
        }
    }
}
