//! Evidence: the names that a refused connection or query really presented, for its record.
//!
//! Read again from the same bytes, leniently, once they were refused: nothing is decided here. Every text is printable
//! ASCII and bounded, since all of it comes from inside the sandbox.

use std::fmt;

use hickory_proto::op::Message;
use serde::{Deserialize, Serialize};

use crate::hello::{CLIENT_HELLO, HANDSHAKE, HIDDEN_NAMES, MAX_HELLO, Reader, SERVER_NAME};

/// The longest text of the evidence, in bytes.
const MAX_TEXT: usize = 255;
/// The most texts of one kind.
const MAX_TEXTS: usize = 4;
/// How much is shown of bytes in no protocol that was expected.
const MAX_BYTES: usize = 32;
/// How much of an HTTP head is searched.
const MAX_SEARCHED: usize = 64 << 10;

/// Headers that name a host, or an address with a host, beside `Host`. A proxy in front of the server may route by them.
pub(crate) const FORWARDING: [&str; 9] = [
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-server",
    "x-host",
    "x-http-destinationurl",
    "x-http-host-override",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
];

/// What a refused attempt presented. Printable ASCII: a backslash is `\\`, any other byte `\xNN`; `...` ends a text that
/// was cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shown {
    /// Server names of a TLS ClientHello; in an encrypted one, the outer name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sni: Vec<String>,
    /// Extensions of the ClientHello that hide a name, by code point.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ech: Vec<String>,
    /// Method and target of an HTTP request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// Its `Host` headers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub host: Vec<String>,
    /// Its headers that name a host in another way.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub forwarded: Vec<String>,
    /// Names, types and classes of a DNS message that was not answered.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub query: Vec<String>,
    /// The first bytes of what is none of these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<String>,
}

impl Shown {
    /// Reads the evidence from what was to be a TLS ClientHello; `None` if nothing was sent, or no name.
    pub fn by_tls(bytes: &[u8]) -> Option<Self> {
        let message = handshake_message(bytes);
        let mut shown = Self::default();
        let begun = message.first() == Some(&CLIENT_HELLO);
        let whole = collect_names(&mut Reader(&message), &mut shown).is_some();
        if !begun || (!whole && shown.is_empty()) {
            return Self::by_bytes(bytes);
        }
        shown.if_any()
    }

    /// Reads the evidence from what was to be the head of an HTTP request.
    pub fn by_http(bytes: &[u8]) -> Option<Self> {
        let searched = &bytes[..bytes.len().min(MAX_SEARCHED)];
        let mut lines = searched.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first = lines.next().unwrap_or_default();
        let mut words = first.split(|&byte| byte == b' ');
        let method =
            words.next().filter(|word| (1..=20).contains(&word.len()) && word.iter().all(u8::is_ascii_uppercase));
        let (Some(method), Some(target)) = (method, words.next()) else { return Self::by_bytes(bytes) };
        let end = method.len() + 1 + target.len();
        let mut shown = Self { request: Some(escape(&first[..end])), ..Self::default() };
        for line in lines.take_while(|line| !line.is_empty()) {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (name, value) = (header_name(&line[..colon]), line[colon + 1..].trim_ascii());
            if name == "host" {
                push(&mut shown.host, || escape(value));
            } else if FORWARDING.contains(&name.as_str()) {
                push(&mut shown.forwarded, || escape(line.trim_ascii()));
            }
        }
        Some(shown)
    }

    /// Reads the evidence from a DNS message that is not a query to be answered.
    pub fn by_query(bytes: &[u8]) -> Option<Self> {
        let Ok(message) = Message::from_vec(bytes) else { return Self::by_bytes(bytes) };
        let mut shown = Self::default();
        for query in &message.queries {
            // By labels: a dot in one of them is not a separator.
            let labels: Vec<String> = query.name().iter().map(|label| escape(label).replace('.', r"\x2e")).collect();
            let text = format!("{} {} {}", labels.join("."), query.query_type(), query.query_class());
            push(&mut shown.query, || cut(text));
        }
        shown.if_any().or_else(|| Self::by_bytes(bytes))
    }

    /// The first bytes, where they are in no protocol that was expected.
    pub fn by_bytes(bytes: &[u8]) -> Option<Self> {
        let first = &bytes[..bytes.len().min(MAX_BYTES)];
        (!first.is_empty()).then(|| Self { bytes: Some(escape(first)), ..Self::default() })
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn if_any(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }
}

/// In few words, for a summary: the name that differs from the listed one.
impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connect = self.request.iter().filter(|request| !request.contains(" /"));
        let all = [("SNI", &self.sni), ("Host", &self.host), ("header", &self.forwarded), ("query", &self.query)];
        let texts = all.into_iter().flat_map(|(kind, texts)| texts.iter().map(move |text| (kind, text)));
        let texts = texts.chain(connect.map(|request| ("request", request)));
        let texts = texts.chain(self.ech.iter().map(|point| ("ECH", point)));
        let texts = texts.chain(self.bytes.iter().map(|bytes| ("bytes", bytes)));
        for (at, (kind, text)) in texts.enumerate() {
            write!(f, "{}{kind} {text}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

fn push(texts: &mut Vec<String>, text: impl FnOnce() -> String) {
    if texts.len() < MAX_TEXTS {
        texts.push(text());
    }
}

/// Lower case; servers that hand headers on as variables take an underscore for a hyphen.
pub(crate) fn header_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.trim_ascii());
    name.to_ascii_lowercase().replace('_', "-")
}

/// Ends a text that was cut.
const CUT: &str = "...";

/// ASCII, cut to at most [`MAX_TEXT`] bytes.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(MAX_TEXT - CUT.len());
        text.push_str(CUT);
    }
    text
}

/// Printable ASCII of at most [`MAX_TEXT`] bytes.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        let escaped = match byte {
            b'\\' => r"\\".to_owned(),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!(r"\x{byte:02x}"),
        };
        if text.len() + escaped.len() > MAX_TEXT - CUT.len() {
            text.push_str(CUT);
            break;
        }
        text.push_str(&escaped);
    }
    text
}

/// The handshake message in these records, as far as it goes.
fn handshake_message(bytes: &[u8]) -> Vec<u8> {
    let (mut message, mut rest) = (Vec::new(), Reader(bytes));
    while message.len() <= MAX_HELLO {
        let (Some([HANDSHAKE, 3, _]), Some(length)) = (rest.take(3), rest.short()) else { break };
        match rest.take(usize::from(length)) {
            Some([]) => break,
            Some(record) => message.extend_from_slice(record),
            None => {
                message.extend_from_slice(rest.0);
                break;
            }
        }
    }
    message
}

/// Collects every name of a ClientHello that need not have been accepted: one with two names, or one that is cut. `None`
/// where it breaks off; what was found before stays.
fn collect_names(message: &mut Reader<'_>, shown: &mut Shown) -> Option<()> {
    message.take(1 + 3 + 2 + 32)?; // kind, length, version and random
    message.small()?;
    message.large()?;
    message.small()?;
    if message.0.is_empty() {
        return Some(());
    }
    message.short()?;
    while !message.0.is_empty() {
        let kind = message.short()?;
        if HIDDEN_NAMES.contains(&kind) {
            push(&mut shown.ech, || format!("{kind:#06x}"));
        }
        let mut data = message.large()?;
        if kind == SERVER_NAME {
            let mut list = data.large()?;
            while let (Some(_), Some(name)) = (list.byte(), list.large()) {
                push(&mut shown.sni, || escape(name.0));
            }
        }
    }
    Some(())
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
