//! Takes secrets out of what is recorded: by the name of a tool's argument, and by value wherever they stand.
//!
//! A secret that is known by value is also found where it was encoded for a URL or in base 64, at any place of a longer
//! encoded text. One pass over a text finds all of them, so the cost is that of reading it.

use std::borrow::Cow;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

/// What stands there instead.
pub const REDACTED: &str = "[REDACTED]";

/// Arguments that Inspect's users expect to be taken out.
pub const KEYS: [&str; 6] = ["api_key", "authorization", "token", "password", "file_text", "content"];

/// Shorter values would be found everywhere.
const SHORTEST: usize = 6;
/// Of longer values the first so many bytes are looked for.
const LONGEST: usize = 4096;

/// Takes out what it was told of.
pub struct Redactor {
    keys: Vec<String>,
    /// None if there is nothing to look for.
    values: Option<AhoCorasick>,
    too_short: usize,
}

impl Redactor {
    /// Takes out these values, and arguments with these keys ([`KEYS`]). Keys are compared without case, and `-` is `_`.
    pub fn new<V: AsRef<str>, K: AsRef<str>>(
        values: impl IntoIterator<Item = V>,
        keys: impl IntoIterator<Item = K>,
    ) -> Self {
        let mut too_short = 0;
        let mut patterns = Vec::new();
        for value in values {
            let value = value.as_ref().trim();
            match value.len() {
                0 => {}
                length if length < SHORTEST => too_short += 1,
                _ => patterns.extend(forms(value)),
            }
        }
        patterns.sort_unstable();
        patterns.dedup();
        // Fails only beyond two thousand million states.
        let values = if patterns.is_empty() { None } else { AhoCorasick::new(&patterns).ok() };
        Self { keys: keys.into_iter().map(|key| plain(key.as_ref())).collect(), values, too_short }
    }

    /// How many values were too short to be looked for; somebody should be told.
    pub fn too_short(&self) -> usize {
        self.too_short
    }

    /// Takes values out of a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(values) = &self.values else { return Cow::Borrowed(text) };
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        // All of them, since one may begin in another; those that touch become one.
        for found in values.find_overlapping_iter(text) {
            let (mut start, end) = (found.start(), found.end());
            while let Some((last_start, last_end)) = ranges.last().copied()
                && start <= last_end
            {
                start = start.min(last_start);
                ranges.pop();
            }
            ranges.push((start, end));
        }
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (start, end) in ranges {
            out.push_str(&text[from..start]);
            out.push_str(REDACTED);
            from = end;
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// A tool's arguments: by key at any depth, and by value.
    pub fn arguments(&self, arguments: &mut Map<String, Value>) {
        self.map(arguments, Where::Arguments);
    }

    /// Anything that is recorded: an event, a message, a whole sample. By value; and by key below every `arguments`.
    pub fn value(&self, value: &mut Value) {
        self.walk(value, Where::Anything);
    }

    fn walk(&self, value: &mut Value, place: Where) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, place)),
            Value::Object(map) => self.map(map, place),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn map(&self, map: &mut Map<String, Value>, place: Where) {
        for (key, value) in map.iter_mut() {
            match place {
                Where::Arguments if !value.is_null() && self.keys.contains(&plain(key)) => *value = REDACTED.into(),
                Where::Anything if key == "arguments" => self.walk(value, Where::Arguments),
                Where::Arguments | Where::Anything => self.walk(value, place),
            }
        }
        // A secret can also be a key; that is rare, so maps are only made anew for it.
        let named: Vec<String> = map.keys().filter(|key| matches!(self.text(key), Cow::Owned(_))).cloned().collect();
        for key in named {
            if let Some(value) = map.remove(&key) {
                map.insert(self.text(&key).into_owned(), value);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Where {
    Arguments,
    Anything,
}

fn plain(key: &str) -> String {
    key.to_lowercase().replace('-', "_")
}

/// All the ways in which a value may be written.
fn forms(value: &str) -> Vec<String> {
    let mut end = value.len().min(LONGEST);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    let value = &value[..end];
    let quoted = Value::from(value).to_string();
    let mut forms = vec![value.to_owned(), quoted[1..quoted.len() - 1].to_owned()];
    // Everything but what no URL encodes; some programs leave more as it is, some write small letters, some `+` for a space.
    for kept in ["-_.~", "-_.~!*'()", "-_.~/", "-_.~:/?#[]@!$&'()*+,;="] {
        let percent = percent(value, kept);
        for form in [percent.replace("%20", "+"), percent] {
            forms.push(lower_escapes(&form));
            forms.push(form);
        }
    }
    for lead in 0..3 {
        let mut bytes = vec![0; lead];
        bytes.extend(value.as_bytes());
        for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = alphabet.encode(&bytes);
            // The first letters are those of what stands before; the last one may be that of what stands behind.
            let start = [0, 2, 3][lead];
            let end = encoded.len() - usize::from(!bytes.len().is_multiple_of(3));
            forms.push(encoded[start..end].to_owned());
        }
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

fn percent(value: &str, kept: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&crate::hex(&[byte]).to_uppercase());
        }
    }
    out
}

fn lower_escapes(percent: &str) -> String {
    let mut out = String::new();
    let mut small = 0;
    for c in percent.chars() {
        out.push(if small > 0 { c.to_ascii_lowercase() } else { c });
        small = if c == '%' { 2 } else { small.max(1) - 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        Redactor::new(values, KEYS)
    }

    #[test]
    fn arguments_are_taken_out_by_key_at_any_depth() {
        let mut arguments = json!({
            "Api-Key": "x", "cmd": "ls", "headers": [{"AUTHORIZATION": {"a": 1}, "accept": "*"}], "token": null, "content": 7
        });
        redactor(&[]).arguments(arguments.as_object_mut().unwrap());
        assert_eq!(
            arguments,
            json!({
                "Api-Key": REDACTED, "cmd": "ls", "headers": [{"AUTHORIZATION": REDACTED, "accept": "*"}], "token": null,
                "content": REDACTED
            })
        );
    }

    #[test]
    fn the_content_of_messages_stays() {
        let mut message =
            json!({"role": "assistant", "content": "words", "tool_calls": [{"arguments": {"content": "file"}}]});
        redactor(&[]).value(&mut message);
        assert_eq!(message["content"], "words");
        assert_eq!(message["tool_calls"][0]["arguments"]["content"], REDACTED);
    }

    #[test]
    fn values_are_taken_out_wherever_they_stand() {
        let redactor = redactor(&["s3cr\"t/+ é", "short"]);
        assert_eq!(redactor.too_short(), 1);
        let basic = base64::engine::general_purpose::STANDARD.encode("user:s3cr\"t/+ é");
        let quoted = json!({"password": "s3cr\"t/+ é"}).to_string();
        let mut value = json!({
            "plain": "a s3cr\"t/+ é b", "url": "https://x/?k=s3cr%22t%2F%2B%20%C3%A9&n=1", "small": "s3cr%22t%2f%2b+%c3%a9",
            "basic": format!("Basic {basic}"), "json": quoted, "list": ["s3cr\"t/+ é"], "s3cr\"t/+ é": 1, "short": "short",
        });
        redactor.value(&mut value);
        let text = value.to_string();
        assert!(!text.contains("s3cr"), "{text}");
        assert_eq!(value["plain"], "a [REDACTED] b");
        assert_eq!(value["url"], "https://x/?k=[REDACTED]&n=1");
        assert_eq!(value["json"], "{\"password\":\"[REDACTED]\"}");
        assert_eq!(value[REDACTED], 1);
        assert!(value["basic"].as_str().unwrap().starts_with("Basic dXNlcj"), "{text}");
        assert!(!value["basic"].as_str().unwrap().contains(&basic[10..basic.len() - 4]), "{text}");
        assert_eq!(value["short"], "short");
    }

    #[test]
    fn secrets_that_overlap_leave_nothing_of_each_other() {
        assert_eq!(redactor(&["abcdef", "defghi"]).text("_abcdefghi_"), "_[REDACTED]_");
        assert_eq!(redactor(&["abcdef", "xabcdefx"]).text("xabcdefxabcdef"), "[REDACTED]");
    }

    #[test]
    fn an_empty_list_takes_out_nothing() {
        assert!(matches!(redactor(&["", "  "]).text("anything"), Cow::Borrowed("anything")));
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_secret(
            secret in "[ -~é]{8,40}", before in any::<String>(), after in any::<String>(), kind in 0..4
        ) {
            let secret = secret.trim();
            prop_assume!(secret.len() >= 8 && !REDACTED.contains(secret));
            let around = format!("{before}{secret}{after}");
            let redactor = redactor(&[secret]);
            let engine = base64::engine::general_purpose::STANDARD;
            let (text, hidden) = match kind {
                0 => (around, secret.to_owned()),
                1 => (percent(&around, "-_.~"), percent(secret, "-_.~")),
                2 => (Value::from(around).to_string(), secret.to_owned()),
                _ => (engine.encode(&around), String::new()),
            };
            let out = redactor.text(&text);
            if kind == 3 {
                prop_assert!(out.contains(REDACTED), "{}", out);
            } else {
                prop_assert!(!out.contains(&hidden), "{}", out);
            }
        }
    }
}
