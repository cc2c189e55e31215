//! No secret survives redaction, in any encoding and however the text is split; output size and time are linear in the input.

use std::sync::LazyLock;
use std::time::Duration;

use log::Redactor;
use log::redact::{KEYS, Stream};

const SECRETS: [&str; 4] = [
    "s3cr\"t/+<é>&",
    "aaaaaaaaaaaa",
    "abababab",
    "0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ !?",
];

/// A redactor, and what must be in no text that it gave out.
static REDACTOR: LazyLock<(Redactor, Vec<String>)> = LazyLock::new(|| {
    let hex = |secret: &str| in_hexadecimal(secret, "");
    let percent = |secret: &str| in_hexadecimal(secret, "%").to_uppercase();
    let mut hidden = Vec::new();
    for secret in SECRETS {
        let json = serde_json::Value::from(secret).to_string();
        let twice = serde_json::Value::from(json.as_str()).to_string();
        hidden.push(secret.to_owned());
        hidden.push(json[1..json.len() - 1].to_owned());
        hidden.push(twice[3..twice.len() - 3].to_owned());
        hidden.push(hex(secret));
        hidden.push(hex(secret).to_uppercase());
        hidden.push(secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"));
        hidden.push(
            secret
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { percent(&c.to_string()) })
                .collect(),
        );
        for lead in ["", "x", "xy"] {
            let whole = base64(format!("{lead}{secret}").as_bytes());
            let end = (lead.len() + secret.len()) * 8 / 6;
            hidden.push(whole[(lead.len() * 8).div_ceil(6)..end].to_owned());
        }
    }
    (Redactor::new(SECRETS, KEYS), hidden)
});

/// Each byte as two digits behind `mark`.
fn in_hexadecimal(text: &str, mark: &str) -> String {
    text.bytes().flat_map(|byte| [mark.to_owned(), format!("{byte:02x}")]).collect()
}

/// Without padding; not the redactor's own function.
fn base64(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, index| bits << 8 | usize::from(chunk.get(index).copied().unwrap_or(0)));
        for place in 0..=chunk.len() {
            out.push(char::from(letters[bits >> (18 - 6 * place) & 63]));
        }
    }
    out
}

/// Processor time of this thread, whatever else the machine does.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.try_into().unwrap_or(0))
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

/// Checks one input.
pub fn redact(bytes: &[u8]) {
    let (redactor, hidden) = &*REDACTOR;
    let [choice, place, size, rest @ ..] = bytes else { return };
    let part = hidden[usize::from(*choice) % hidden.len()].as_bytes();
    let (before, after) = rest.split_at(usize::from(*place) * rest.len() / 255);
    let text = [before, part, after].concat();

    let start = processor_time();
    let out = redactor.bytes(&text);
    let taken = processor_time().saturating_sub(start);
    // A thousand times what it takes: quadratic work on these sizes takes longer.
    let bound = Duration::from_millis(500) + Duration::from_micros(10) * u32::try_from(text.len()).unwrap_or(u32::MAX);
    assert!(taken < bound, "{taken:?} for {} bytes", text.len());

    // What stands around a mark may make a text anew; without one that was taken out, nothing was hidden.
    assert!(contains(&out, "[REDACTED]"), "nothing was taken out");
    for form in hidden {
        assert!(!contains(&out, form), "{form} survived in {}", String::from_utf8_lossy(&out));
    }
    assert!(out.len() <= 3 * text.len() + 16, "{} of {}", out.len(), text.len());

    let mut stream = Stream::new(redactor);
    let mut streamed = Vec::new();
    for chunk in text.chunks(usize::from(*size) + 1) {
        stream.push(chunk, &mut streamed);
        assert!(stream.held() < 4096, "{} held", stream.held());
    }
    stream.finish(&mut streamed);
    assert_eq!(String::from_utf8_lossy(&streamed), String::from_utf8_lossy(&out), "in chunks of {size}");
    if let Ok(text) = std::str::from_utf8(&text) {
        assert_eq!(redactor.text(text).as_bytes(), &*out);
    }
}
