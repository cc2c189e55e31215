//! The shapes of well-known tokens. Precision comes first: each has a beginning that nothing else has, stands where a word
//! begins, and is as long as it must be.

use std::sync::LazyLock;

use super::bytes::{self, ALPHANUMERIC, BASE64, CAPITAL, USERINFO, WORD};
use super::tail::Tail;

/// What a place of a text is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// What comes next decides.
    Open,
    /// A secret begins at `start`, is one up to `sure`, and goes on.
    Secret {
        start: usize,
        sure: usize,
        tail: Tail,
    },
}

/// How a token goes on behind its beginning.
pub(super) enum Rest {
    /// At least so many bytes of a sort.
    AtLeast(usize, u16),
    /// The same, with a digit or a capital letter among the first ones.
    Mixed(usize, u16),
    /// Exactly so many of a sort, and then no letter.
    Exactly(usize, u16),
    JsonWebToken,
    PrivateKey,
    EncodedPrivateKey,
    UrlPassword,
}

pub(super) const RULES: [(&str, Rest); 41] = [
    ("AKIA", Rest::Exactly(16, CAPITAL)),
    ("ASIA", Rest::Exactly(16, CAPITAL)),
    ("sk-ant-", Rest::AtLeast(20, WORD)),
    ("sk-proj-", Rest::AtLeast(20, WORD)),
    ("sk-svcacct-", Rest::AtLeast(20, WORD)),
    ("sk-admin-", Rest::AtLeast(20, WORD)),
    ("sk-or-v1-", Rest::AtLeast(20, WORD)),
    ("sk-", Rest::Mixed(20, ALPHANUMERIC)),
    ("sk_live_", Rest::AtLeast(16, ALPHANUMERIC)),
    ("rk_live_", Rest::AtLeast(16, ALPHANUMERIC)),
    ("whsec_", Rest::Mixed(24, BASE64)),
    ("ghp_", Rest::AtLeast(36, ALPHANUMERIC)),
    ("gho_", Rest::AtLeast(36, ALPHANUMERIC)),
    ("ghs_", Rest::AtLeast(36, ALPHANUMERIC)),
    ("ghu_", Rest::AtLeast(36, ALPHANUMERIC)),
    ("ghr_", Rest::AtLeast(36, ALPHANUMERIC)),
    ("github_pat_", Rest::Mixed(22, WORD)),
    ("glpat-", Rest::Mixed(20, WORD)),
    ("xoxa-", Rest::Mixed(10, WORD)),
    ("xoxb-", Rest::Mixed(10, WORD)),
    ("xoxe-", Rest::Mixed(10, WORD)),
    ("xoxp-", Rest::Mixed(10, WORD)),
    ("xoxr-", Rest::Mixed(10, WORD)),
    ("xoxs-", Rest::Mixed(10, WORD)),
    ("xapp-1-", Rest::Mixed(20, WORD)),
    ("AIza", Rest::AtLeast(35, WORD)),
    ("ya29.", Rest::Mixed(20, WORD)),
    ("hf_", Rest::Mixed(30, ALPHANUMERIC)),
    ("npm_", Rest::AtLeast(36, ALPHANUMERIC)),
    ("pypi-AgEI", Rest::AtLeast(50, WORD)),
    ("dop_v1_", Rest::AtLeast(64, ALPHANUMERIC)),
    ("shpat_", Rest::AtLeast(32, ALPHANUMERIC)),
    ("dckr_pat_", Rest::AtLeast(20, WORD)),
    ("nvapi-", Rest::Mixed(40, WORD)),
    ("AGE-SECRET-KEY-1", Rest::AtLeast(50, CAPITAL)),
    ("eyJ", Rest::JsonWebToken),
    ("BEGIN ", Rest::PrivateKey),
    ("BEGIN%20", Rest::PrivateKey),
    ("BEGIN+", Rest::PrivateKey),
    ("LS0tLS1CRUdJTi", Rest::EncodedPrivateKey),
    ("://", Rest::UrlPassword),
];

/// Rules by which more than letters and digits is taken out: whoever writes the text could hide something there.
pub(super) static HIDING: LazyLock<u64> = LazyLock::new(|| {
    let hiding = |(_, rest): &(&str, Rest)| matches!(rest, Rest::PrivateKey | Rest::UrlPassword);
    RULES.iter().enumerate().filter(|(_, rule)| hiding(rule)).fold(0, |mask, (index, _)| mask | 1 << index)
});

/// Longer heads of web tokens are not taken for such.
const LONGEST_HEAD: usize = 1024;
/// Base 64 of the words between `-----BEGIN ` and `PRIVATE KEY-----`, with that beginning.
const ENCODED_KEYS: [&[u8]; 6] = [
    b"LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t",
    b"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tL",
    b"LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0t",
    b"LS0tLS1CRUdJTiBEU0EgUFJJVkFURSBLRVktLS0tL",
    b"LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZLS0tLS",
    b"LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURSBLRVktLS0tL",
];

/// Judges a place by the rules of this mask, the first one first.
pub(super) fn judge(text: &[u8], at: usize, mut mask: u64, last: bool) -> Found {
    while mask != 0 {
        let found = match RULES.get(mask.trailing_zeros() as usize) {
            Some((prefix, rest)) => follow(text, at, prefix.as_bytes(), rest, last),
            None => Found::Nothing,
        };
        if found != Found::Nothing {
            return found;
        }
        mask &= mask - 1;
    }
    Found::Nothing
}

fn follow(text: &[u8], at: usize, prefix: &[u8], rest: &Rest, last: bool) -> Found {
    let here = &text[at..];
    if !here.starts_with(prefix) {
        return if !last && prefix.starts_with(here) { Found::Open } else { Found::Nothing };
    }
    let behind = &here[prefix.len()..];
    let token = |count: usize, sort: u16, mixed: bool| {
        let run = bytes::run(behind, sort, count);
        if run < count {
            return if run == behind.len() && !last { Found::Open } else { Found::Nothing };
        }
        if mixed && !behind[..count].iter().any(|byte| bytes::is(*byte, CAPITAL)) {
            return Found::Nothing;
        }
        Found::Secret { start: at, sure: at + prefix.len() + count, tail: Tail::Run(sort) }
    };
    match rest {
        Rest::PrivateKey => private_key(text, at, at + prefix.len(), last),
        Rest::UrlPassword => url_password(text, at + prefix.len(), last),
        Rest::AtLeast(count, sort) => token(*count, *sort, false),
        Rest::Mixed(count, sort) => token(*count, *sort, true),
        Rest::Exactly(count, sort) => match token(*count, *sort, false) {
            Found::Secret { start, sure, .. } => match text.get(sure) {
                Some(byte) if bytes::is(*byte, WORD) => Found::Nothing,
                None if !last => Found::Open,
                _ => Found::Secret { start, sure, tail: Tail::Known { left: 0 } },
            },
            other => other,
        },
        Rest::JsonWebToken => web_token(text, at, last),
        Rest::EncodedPrivateKey => {
            if let Some(key) = ENCODED_KEYS.iter().find(|key| here.starts_with(key)) {
                return Found::Secret { start: at, sure: at + key.len(), tail: Tail::Run(BASE64) };
            }
            let open = !last && ENCODED_KEYS.iter().any(|key| key.starts_with(here));
            if open { Found::Open } else { Found::Nothing }
        }
    }
}

/// `eyJ….eyJ….…`: two objects of JSON and a signature.
fn web_token(text: &[u8], at: usize, last: bool) -> Found {
    let here = &text[at..];
    let head = bytes::run(here, WORD, LONGEST_HEAD);
    let behind = &here[head..];
    let mark = b".eyJ";
    if head == LONGEST_HEAD || (head < 12 && !behind.is_empty()) {
        return Found::Nothing;
    }
    if !behind.starts_with(mark) {
        return if !last && mark.starts_with(behind) { Found::Open } else { Found::Nothing };
    }
    match bytes::run(&behind[4..], WORD, 8) {
        8 => Found::Secret { start: at, sure: at + head + 12, tail: Tail::Dotted { dots: 1 } },
        run if 4 + run == behind.len() && !last => Found::Open,
        _ => Found::Nothing,
    }
}

/// What lies between `-----BEGIN … PRIVATE KEY-----` and five dashes. The words themselves stay.
fn private_key(text: &[u8], at: usize, label: usize, last: bool) -> Found {
    if !text[..at].ends_with(b"-----") {
        return Found::Nothing;
    }
    let open = |nothing: bool| if nothing && !last { Found::Open } else { Found::Nothing };
    let is_label = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b' ' | b'%' | b'+');
    let rest = &text[label..];
    let length = rest.iter().take(40).take_while(|byte| is_label(byte)).count();
    let dashes = &rest[length..];
    if !dashes.starts_with(b"-----") {
        return open(b"-----".starts_with(dashes));
    }
    let name = &rest[..length];
    let ends = ["PRIVATE KEY", "PRIVATE%20KEY", "PRIVATE+KEY", "PRIVATE KEY BLOCK"];
    if !ends.iter().any(|end| name.ends_with(end.as_bytes())) {
        return Found::Nothing;
    }
    let start = label + length + 5;
    let body = &text[start..];
    // Ends of lines, also `\n`, `\\r\\n` and `%0A`.
    let space =
        |byte: &u8| matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'\\' | b'n' | b'r' | b'%' | b'0' | b'A' | b'D');
    let lead = body.iter().take(16).take_while(|byte| space(byte)).count();
    let body = &body[lead..];
    let first = bytes::run(body, BASE64, 24);
    let headers: [&[u8]; 5] = [b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:"];
    if first + lead >= 24 || headers.iter().any(|header| body.starts_with(header)) {
        return Found::Secret { start, sure: start, tail: Tail::armour() };
    }
    open(first == body.len() || headers.iter().any(|header| header.starts_with(body)))
}

/// `://user:PASSWORD@host`.
fn url_password(text: &[u8], at: usize, last: bool) -> Found {
    let open = |end: bool| if end && !last { Found::Open } else { Found::Nothing };
    let rest = &text[at..];
    let user = rest.iter().take(64).take_while(|byte| bytes::is(**byte, USERINFO) && **byte != b':').count();
    if rest.get(user) != Some(&b':') {
        return open(user == rest.len());
    }
    let rest = &rest[user + 1..];
    let password = bytes::run(rest, USERINFO, 256);
    match (rest.get(password), rest.get(password + 1)) {
        (Some(b'@'), Some(host)) if password > 0 && (host.is_ascii_alphanumeric() || *host == b'[') => {
            let start = at + user + 1;
            Found::Secret { start, sure: start, tail: Tail::Known { left: password } }
        }
        (Some(b'@'), None) => open(password > 0),
        (None, _) => open(true),
        _ => Found::Nothing,
    }
}
