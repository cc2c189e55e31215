//! Takes secrets out of whatever is recorded or shown: logs, the audit chain, approvals, terminals, errors.
//!
//! By the name of a tool's argument; by value, in the encodings of `forms`; and by shape: tokens that look like nothing else
//! (`tokens`), and what stands behind a telling name in a text (`keyed`). One pass, bounded memory, a constant time for
//! each byte; [`Stream`] does the same for what arrives in chunks. How often is counted, what is never kept.

mod bytes;
mod fold;
mod forms;
mod keyed;
mod repeats;
mod scan;
mod stream;
mod tail;
mod tokens;
mod triggers;
mod values;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use bounded::Budget;
use serde::Serialize;
use serde_json::{Map, Value};

use self::forms::SHORTEST;
use self::keyed::{Keys, Source};
use self::scan::Scan;
pub use self::stream::Stream;
use self::values::Values;

/// What stands there instead.
pub const REDACTED: &str = "[REDACTED]";

/// Arguments that users expect to be taken out.
pub const KEYS: [&str; 14] = [
    "api_key",
    "authorization",
    "token",
    "password",
    "secret",
    "cookie",
    "file_text",
    "content",
    "x_api_key",
    "set_cookie",
    "access_token",
    "refresh_token",
    "client_secret",
    "proxy_authorization",
];

/// How far around a cut secrets are looked for.
pub const AROUND: usize = 8 << 10;

/// Memory for the values of arguments that are JSON in a text, beside their texts.
const VALUES: u64 = 8 << 20;

/// How often something was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// A value that was known.
    pub value: u64,
    /// An argument by its name, or what stood behind such a name in a text.
    pub key: u64,
    /// A token by its shape.
    pub pattern: u64,
}

#[derive(Default)]
struct Tally {
    values: AtomicU64,
    keys: AtomicU64,
    patterns: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Takes out what it was told of, and what looks like a secret.
pub struct Redactor {
    keys: Keys,
    /// None if there is nothing to look for.
    values: Option<Values>,
    too_short: usize,
    tally: Tally,
}

impl Redactor {
    /// Takes out these values, and arguments with these keys ([`KEYS`]). Keys are compared without case, and `-` is `_`.
    pub fn new<V: AsRef<str>, K: AsRef<str>>(
        values: impl IntoIterator<Item = V>,
        keys: impl IntoIterator<Item = K>,
    ) -> Self {
        let mut too_short = 0;
        let mut long_enough = BTreeSet::new();
        for value in values {
            let value = value.as_ref().trim();
            match value.len() {
                0 => {}
                length if length < SHORTEST => too_short += 1,
                _ => {
                    long_enough.insert(value.to_owned());
                }
            }
        }
        Self {
            keys: Keys::new(keys.into_iter().map(|key| key.as_ref().to_owned())),
            values: Values::new(&forms::all(&long_enough)),
            too_short,
            tally: Tally::default(),
        }
    }

    /// How many values were too short to be looked for; somebody should be told.
    pub fn too_short(&self) -> usize {
        self.too_short
    }

    /// How often something was taken out so far.
    pub fn counts(&self) -> Counts {
        let [value, key, pattern] =
            [&self.tally.values, &self.tally.keys, &self.tally.patterns].map(|count| count.load(Ordering::Relaxed));
        Counts { value, key, pattern }
    }

    /// Takes secrets out of a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.written(text, Source::Text)
    }

    /// The same for somebody who must see what would be done: values that are known and tokens are taken out, and nothing
    /// that could hide a command.
    pub fn seen<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.written(text, Source::Seen)
    }

    fn written<'a>(&self, text: &'a str, source: Source) -> Cow<'a, str> {
        match self.whole(text.as_bytes(), source) {
            None => Cow::Borrowed(text),
            // Whatever is taken out begins and ends between characters.
            Some(out) => Cow::Owned(
                String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// The secret that a cut at this place would leave a part of, as its beginning and end; within [`AROUND`] bytes.
    pub fn split_by(&self, text: &str, cut: usize) -> Option<(usize, usize)> {
        let from = cut.saturating_sub(AROUND);
        let around = text.as_bytes().get(from..text.len().min(cut + AROUND))?;
        let places = Scan::new(Source::Text).places(self, around);
        // Those that touch are one.
        let mut found: Option<(usize, usize)> = None;
        for (start, end) in places.into_iter().map(|(start, end)| (start + from, end + from)) {
            if start < cut && cut < end {
                let (first, last) = found.unwrap_or((start, end));
                found = Some((first.min(start), last.max(end)));
            }
        }
        found
    }

    /// The same for bytes that need not be text.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.whole(bytes, Source::Text).map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    fn whole(&self, bytes: &[u8], source: Source) -> Option<Vec<u8>> {
        let mut scan = Scan::new(source);
        let mut out = Vec::new();
        scan.read(self, bytes, true, true, &mut out);
        scan.changed.then(|| {
            scan.finish(bytes, &mut out);
            out
        })
    }

    /// A tool's arguments: by key at any depth, and whatever [`text`](Self::text) takes out. Says whether anything was.
    pub fn arguments(&self, arguments: &mut Map<String, Value>) -> bool {
        self.map(arguments, Where::Arguments)
    }

    /// Anything that is recorded: an event, a message, a whole sample. As [`text`](Self::text) does; and by key below every
    /// `arguments`. Says whether anything was taken out.
    pub fn value(&self, value: &mut Value) -> bool {
        self.walk(value, Where::Anything)
    }

    fn walk(&self, value: &mut Value, place: Where) -> bool {
        match value {
            Value::String(text) => self.string(text, Source::Text),
            // Every one of them, whatever was found before.
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| self.walk(item, place) | changed),
            Value::Object(map) => self.map(map, place),
            Value::Number(number) if place == Where::Arguments => match self.text(&number.to_string()) {
                Cow::Owned(redacted) => {
                    *value = redacted.into();
                    true
                }
                Cow::Borrowed(_) => false,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn string(&self, text: &mut String, source: Source) -> bool {
        match self.written(text, source) {
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
            Cow::Borrowed(_) => false,
        }
    }

    /// Arguments that are one text: JSON, or what a model took for it.
    fn unread(&self, text: &mut String) -> bool {
        let budget = Budget::new(VALUES + text.len() as u64);
        match bounded::value(text.as_bytes(), &budget) {
            Ok(Value::Object(mut arguments)) => {
                let changed = self.arguments(&mut arguments);
                if changed {
                    *text = Value::Object(arguments).to_string();
                }
                changed
            }
            // Too many values to be looked through for secret keys.
            Err(_) if budget.left() == 0 => {
                add(&self.tally.keys);
                *text = REDACTED.into();
                true
            }
            _ => self.string(text, Source::Arguments),
        }
    }

    fn map(&self, map: &mut Map<String, Value>, place: Where) -> bool {
        let mut changed = false;
        for (key, value) in map.iter_mut() {
            changed |= match (place, value) {
                (Where::Arguments, value) if !value.is_null() && self.keys.contains(key) => {
                    add(&self.tally.keys);
                    *value = REDACTED.into();
                    true
                }
                (Where::Anything, Value::String(text)) if key == "arguments" => self.unread(text),
                (Where::Anything, value) if key == "arguments" => self.walk(value, Where::Arguments),
                (place, Value::String(text)) if is_run(key, place) => self.string(text, Source::Executed),
                (place, value) => self.walk(value, place),
            };
        }
        // A secret can also be a key; that is rare, so maps are only made anew for it.
        let named: Vec<(String, String)> = map
            .keys()
            .filter_map(|key| match self.text(key) {
                Cow::Owned(redacted) => Some((key.clone(), redacted)),
                Cow::Borrowed(_) => None,
            })
            .collect();
        changed |= !named.is_empty();
        for (key, redacted) in named {
            if let Some(value) = map.remove(&key) {
                map.insert(redacted, value);
            }
        }
        changed
    }
}

/// Whether what stands under this key is run: a log must show what was done.
fn is_run(key: &str, place: Where) -> bool {
    key == "cmd" || (place == Where::Arguments && matches!(key, "command" | "code" | "input"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Arguments,
    Anything,
}

#[cfg(test)]
mod tests;
