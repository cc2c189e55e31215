//! Parts of a JSON text as they are written, whatever is in them: to keep what is not read byte for byte.
//!
//! Inspect writes numbers that JSON does not have, such as `NaN` for a sample that nobody could judge. Here they are parts like
//! any other; [`lenient`] makes them `null` for whoever reads.

use std::borrow::Cow;

/// The most members of an object whose members are told apart; Inspect's samples have about thirty.
const MOST_MEMBERS: usize = 4096;
/// The most items of an array.
const MOST_ITEMS: usize = 1 << 20;

/// The members of an object, in their order. Nothing if the text is no object, or has thousands of members.
pub fn members(text: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let mut scan = Scan { text, at: 0 };
    let mut all = Vec::new();
    scan.list(b'{', b'}', |scan| {
        let start = scan.at;
        scan.string()?;
        let name: String = serde_json::from_slice(text.get(start..scan.at)?).ok()?;
        scan.space();
        scan.eat(b':')?;
        scan.space();
        all.push((name, scan.value()?));
        (all.len() <= MOST_MEMBERS).then_some(())
    })?;
    Some(all)
}

/// The items of an array. Nothing if the text is no array, or has more than a million items.
pub fn items(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut scan = Scan { text, at: 0 };
    let mut all = Vec::new();
    scan.list(b'[', b']', |scan| {
        all.push(scan.value()?);
        (all.len() <= MOST_ITEMS).then_some(())
    })?;
    Some(all)
}

/// The same text with `null` where JSON has no such number.
pub fn lenient(text: &[u8]) -> Cow<'_, [u8]> {
    const NO_NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let mut out: Option<Vec<u8>> = None;
    let mut scan = Scan { text, at: 0 };
    while let Some(byte) = scan.peek() {
        let start = scan.at;
        let found = match byte {
            b'"' => {
                // A text that does not end is nobody's JSON: it is left to whoever reads it.
                if scan.string().is_none() {
                    scan.at = text.len();
                }
                None
            }
            b'N' | b'I' | b'-' => NO_NUMBERS.iter().find(|word| text[start..].starts_with(word)),
            _ => None,
        };
        if let Some(word) = found {
            out.get_or_insert_with(|| text[..start].to_vec()).extend_from_slice(b"null");
            scan.at += word.len();
        } else {
            if byte != b'"' {
                scan.at += 1;
            }
            if let Some(out) = &mut out {
                out.extend_from_slice(&text[start..scan.at]);
            }
        }
    }
    out.map_or(Cow::Borrowed(text), Cow::Owned)
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// All of a list, and nothing after it.
    fn list(&mut self, open: u8, close: u8, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        self.eat(open)?;
        self.space();
        if self.eat(close).is_none() {
            loop {
                one(self)?;
                self.space();
                if self.eat(b',').is_none() {
                    break;
                }
                self.space();
            }
            self.eat(close)?;
        }
        self.space();
        self.peek().is_none().then_some(())
    }

    /// Over a text in quotes.
    fn string(&mut self) -> Option<()> {
        self.eat(b'"')?;
        loop {
            match self.peek()? {
                b'"' => return self.eat(b'"'),
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    /// One value: brackets are counted, what is between them is not looked at.
    fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => self.string()?,
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') | None if depth == 0 => break,
                Some(_) => {
                    self.at += 1;
                    continue;
                }
                None => return None,
            }
            if depth == 0 {
                break;
            }
        }
        let value = self.text.get(start..self.at)?;
        (!value.is_empty()).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn parts_are_what_is_written() {
        let text = br#" {"a" : [1, {"b":"]}"}], "c\u0041":NaN ,"d": -1.50e3,"e":"x\"y" } "#;
        let parts = members(text).unwrap();
        let shown: Vec<(&str, &str)> =
            parts.iter().map(|(name, part)| (name.as_str(), std::str::from_utf8(part).unwrap())).collect();
        assert_eq!(shown, [("a", r#"[1, {"b":"]}"}]"#), ("cA", "NaN"), ("d", "-1.50e3"), ("e", r#""x\"y""#)]);
        assert_eq!(items(b"[1, [2,3],\"4\"]").unwrap(), [&b"1"[..], b"[2,3]", b"\"4\""]);
        assert_eq!(members(b"{}").unwrap(), []);
        for broken in [&b"{"[..], b"[1]", b"{\"a\"}", b"{\"a\":}", b"{\"a\":1}x", b"{\"a\":\"", b"{\"a\":[1}", b""] {
            assert_eq!(members(broken), None, "{}", String::from_utf8_lossy(broken));
        }
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        let text = br#"{"v": NaN, "s": "NaN -Infinity \" NaN", "l": [-Infinity, Infinity, -1]}"#;
        let read: Value = serde_json::from_slice(&lenient(text)).unwrap();
        assert_eq!(read, serde_json::json!({"v": null, "s": "NaN -Infinity \" NaN", "l": [null, null, -1]}));
        assert!(matches!(lenient(b"{\"a\": 1}"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parts_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[-\\[\\]{}\",:a1N \\\\]{0,60}") {
            let _ = (members(&bytes), items(&bytes), lenient(&bytes).len(), members(text.as_bytes()), items(text.as_bytes()), lenient(text.as_bytes()).len());
        }

        #[test]
        fn members_of_json_are_its_members(map in proptest::collection::btree_map(any::<String>(), any::<(i32, String)>(), 0..6)) {
            let text = serde_json::to_vec(&map).unwrap();
            let parts = members(&text).unwrap();
            prop_assert_eq!(parts.len(), map.len());
            for (name, part) in parts {
                let read: (i32, String) = serde_json::from_slice(part).unwrap();
                prop_assert_eq!(&read, &map[&name]);
            }
        }
    }
}
