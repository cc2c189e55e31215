//! Globs over paths below a root: `*`, `?`, `[..]` within a name, `**` for any directories.
//!
//! As in a `.gitignore`: a glob without a slash is a name at any depth, one with a slash starts at the root, and one that
//! matches a directory holds for everything in it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The longest glob, and the most of them in one list: matching takes at most their product with a path's length.
const MAX_LENGTH: usize = 1024;
pub(crate) const MAX_GLOBS: usize = 1000;

/// One character of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Exactly(char),
    /// `?`
    One,
    /// `*`
    Any,
    /// `[a-z]`, `[!a-z]`
    OneOf {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

/// One name of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any number of names, none too.
    Deep,
    Name(Vec<Token>),
}

/// A glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

impl Glob {
    /// Whether it holds for a path below the root: for the path itself or for a directory above it.
    pub fn covers(&self, path: &str) -> bool {
        matches_beginning(&self.parts, &names(path))
    }

    /// Whether it may hold for something in this directory; the root is the empty path.
    pub fn reaches_into(&self, directory: &str) -> bool {
        self.covers(directory) || may_begin(&self.parts, &names(directory))
    }
}

fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}

/// Whether a path, or a directory above it, matches.
fn matches_beginning(parts: &[Part], names: &[&str]) -> bool {
    // Which parts may come next, after each name: all at once, so that many `**` take no longer.
    let mut next = vec![false; parts.len() + 1];
    next[0] = true;
    skip_deep(parts, &mut next);
    for name in names {
        let mut after = vec![false; parts.len() + 1];
        for (index, part) in parts.iter().enumerate().filter(|(index, _)| next[*index]) {
            match part {
                Part::Deep => after[index] = true,
                Part::Name(tokens) if name_matches(tokens, name) => after[index + 1] = true,
                Part::Name(_) => {}
            }
        }
        next = after;
        skip_deep(parts, &mut next);
        if next[parts.len()] {
            return true;
        }
    }
    false
}

/// `**` may stand for nothing.
fn skip_deep(parts: &[Part], next: &mut [bool]) {
    for (index, part) in parts.iter().enumerate() {
        if next[index] && *part == Part::Deep {
            next[index + 1] = true;
        }
    }
}

/// Whether these names may be the beginning of a path that matches.
fn may_begin(parts: &[Part], names: &[&str]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, _) => false,
        (Some((Part::Deep, _)), _) | (Some(_), None) => true,
        (Some((Part::Name(tokens), parts)), Some((name, names))) => {
            name_matches(tokens, name) && may_begin(parts, names)
        }
    }
}

fn name_matches(tokens: &[Token], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut token, mut at) = (0, 0);
    // Where the last `*` stands, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match tokens.get(token) {
            Some(Token::Any) => {
                star = Some((token, at));
                token += 1;
                continue;
            }
            Some(one) if one.takes(name[at]) => {
                token += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some((place, eaten)) = star else { return false };
        star = Some((place, eaten + 1));
        token = place + 1;
        at = eaten + 1;
    }
    tokens[token..].iter().all(|token| *token == Token::Any)
}

impl Token {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Exactly(exactly) => *exactly == character,
            Self::One => true,
            Self::Any => false,
            Self::OneOf { ranges, negated } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&character)) != *negated
            }
        }
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| Err(format!("`{text}` is not a glob: {why}"));
        if text.is_empty() || text.len() > MAX_LENGTH || text.contains('\0') {
            return wrong("it is empty, too long or has a NUL in it");
        }
        if text.starts_with('/') {
            return wrong("paths are relative to the file tools' root, without a slash at the beginning");
        }
        let mut parts = Vec::new();
        let clean = text.strip_suffix('/').unwrap_or(text);
        if !clean.contains('/') {
            parts.push(Part::Deep);
        }
        for name in clean.split('/') {
            match name {
                "" | "." | ".." => return wrong("it has an empty part, `.` or `..`"),
                "**" => parts.push(Part::Deep),
                name => parts.push(Part::Name(tokens(name).map_err(|why| format!("`{text}` is not a glob: {why}"))?)),
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

fn tokens(name: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' if tokens.last() == Some(&Token::Any) => return Err("`**` stands alone between slashes"),
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Exactly(characters.next().ok_or("nothing follows `\\`")?),
            '[' => {
                let negated = characters.next_if(|next| matches!(next, '!' | '^')).is_some();
                let mut ranges = Vec::new();
                loop {
                    let from = characters.next().ok_or("`[` has no `]`")?;
                    // As the first one it is a character.
                    if from == ']' && !ranges.is_empty() {
                        break;
                    }
                    let to = match characters.next_if_eq(&'-') {
                        None => from,
                        Some(_) if characters.peek() == Some(&']') => {
                            ranges.push(('-', '-'));
                            from
                        }
                        Some(_) => characters.next().ok_or("`[` has no `]`")?,
                    };
                    if from > to {
                        return Err("a range goes from the smaller to the larger");
                    }
                    ranges.push((from, to));
                }
                Token::OneOf { ranges, negated }
            }
            other => Token::Exactly(other),
        });
    }
    Ok(tokens)
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Globs of an environment variable, separated by commas or colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GlobList(pub(crate) Vec<Glob>);

impl FromStr for GlobList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let globs = text.split([',', ':']).map(str::trim).filter(|glob| !glob.is_empty());
        let globs: Vec<Glob> = globs.map(str::parse).collect::<Result<_, _>>()?;
        if globs.is_empty() || globs.len() > MAX_GLOBS {
            return Err(format!("it has no glob, or more than {MAX_GLOBS}"));
        }
        Ok(Self(globs))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(glob: &str, path: &str) -> bool {
        glob.parse::<Glob>().unwrap().covers(path)
    }

    #[test]
    fn globs_mean_what_a_gitignore_means() {
        for (glob, yes, no) in [
            ("*.key", &["a.key", "x/y/a.key", "a.key/below"][..], &["a.keys", "key", "a/b.key.txt"][..]),
            (".git", &[".git", ".git/config", "sub/.git/config"], &["git", ".github/x"]),
            ("docs/*", &["docs/a", "docs/a/b"], &["docs", "x/docs/a", "docsa"]),
            ("docs/**", &["docs/a", "docs/a/b", "docs"], &["x/docs/a"]),
            ("**/secret", &["secret", "a/secret", "a/b/secret/c"], &["secrets"]),
            ("a/**/z", &["a/z", "a/b/z", "a/b/c/z/below"], &["b/a/z", "a"]),
            ("secrets/", &["secrets", "secrets/a", "x/secrets/a"], &["secret"]),
            ("**", &["a", "a/b"], &[]),
            ("file?.[ch]", &["file1.c", "x/fileé.h"], &["file.c", "file12.c", "file1.o"]),
            ("[!a-c]x", &["dx"], &["ax", "x"]),
            ("[]-]", &["]", "-"], &["["]),
            ("a\\*b", &["a*b"], &["axb"]),
            ("*a*b*c*", &["xaxbxc", "abc"], &["acb"]),
        ] {
            assert!(yes.iter().all(|path| covers(glob, path)), "{glob} {yes:?}");
            assert!(!no.iter().any(|path| covers(glob, path)), "{glob} {no:?}");
        }
        for wrong in ["", "/etc", "a//b", "../a", "a/./b", "[a", "[b-a]", "a**", "x\\", "a\0"] {
            assert!(wrong.parse::<Glob>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn directories_on_the_way_to_a_match_are_known() {
        let glob: Glob = "src/*/main.rs".parse().unwrap();
        for (directory, reached) in
            [("", true), ("src", true), ("src/a", true), ("src/a/b", false), ("docs", false), ("src/a/main.rs", true)]
        {
            assert_eq!(glob.reaches_into(directory), reached, "{directory}");
        }
        assert!("*.md".parse::<Glob>().unwrap().reaches_into("any/where"));
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob: Glob = format!("{}b", "**/*a*/".repeat(100)).parse().unwrap();
        assert!(!glob.covers(&"aaaaaaaaaaaaaaaa/".repeat(200)));
        let glob: Glob = "*a".repeat(400).parse().unwrap();
        assert!(!glob.covers(&"a".repeat(300)));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_glob_panic(text in ".{0,40}", path in ".{0,40}") {
            if let Ok(glob) = text.parse::<Glob>() {
                if glob.covers(&path) {
                    // What is covered is reached, from every directory above it.
                    let names = names(&path);
                    for count in 0..names.len() {
                        prop_assert!(glob.reaches_into(&names[..count].join("/")));
                    }
                    let below = format!("{path}/below");
                    prop_assert!(glob.covers(&below));
                }
                prop_assert_eq!(glob.to_string().parse::<Glob>(), Ok(glob));
            }
        }

        #[test]
        fn a_path_covers_itself(path in "[a-z.]{1,5}(/[a-z]{1,5}){0,3}") {
            if let Ok(glob) = path.parse::<Glob>() {
                prop_assert!(glob.covers(&path));
            }
        }
    }
}
