//! The head of a request (RFC 9112). Strict where two readers could understand it differently.

use super::range::Range;

/// A request before its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    /// Visible ASCII, as it was sent.
    pub(super) target: String,
    /// Empty when there was none.
    pub(super) host: String,
    pub(super) framing: Framing,
    pub(super) range: Option<Range>,
    pub(super) keeps_alive: bool,
    pub(super) expects_continue: bool,
    pub(super) upgrades_to_websocket: bool,
}

/// How the end of the body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

impl Framing {
    pub(super) fn announces_a_body(self) -> bool {
        self != Self::Length(0)
    }
}

impl Head {
    /// Whether a first line, with its end, is that of a request.
    pub(super) fn starts_like_one(line: &[u8]) -> bool {
        std::str::from_utf8(line).ok().and_then(|line| request_line(line.trim_end())).is_some()
    }

    /// Reads a head with the empty line at its end; none when it is not well formed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // Header values may be in Latin-1; none that matters here is.
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines();
        let (method, target, minor) = request_line(lines.next()?)?;
        let mut head = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            host: String::new(),
            framing: Framing::Length(0),
            range: None,
            keeps_alive: minor != "0",
            expects_continue: false,
            upgrades_to_websocket: false,
        };
        let (mut hosts, mut framings) = (0, 0);
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim_matches([' ', '\t']);
            if !is_token(name) {
                return None;
            }
            match name.to_ascii_lowercase().as_str() {
                "host" => {
                    hosts += 1;
                    value.escape_default().to_string().clone_into(&mut head.host);
                }
                "content-length" => {
                    framings += 1;
                    head.framing = Framing::Length(digits(value)?);
                }
                "transfer-encoding" => {
                    framings += 1;
                    head.framing = value.eq_ignore_ascii_case("chunked").then_some(Framing::Chunked)?;
                }
                "connection" if has(value, "close") => head.keeps_alive = false,
                "expect" if has(value, "100-continue") => head.expects_continue = true,
                "upgrade" if has(value, "websocket") => head.upgrades_to_websocket = true,
                "range" => head.range = Range::parse(value),
                _ => {}
            }
        }
        // More than one of these is how requests are smuggled (RFC 9112, 11.2).
        (hosts <= 1 && framings <= 1).then_some(head)
    }
}

/// Method, target and minor version.
fn request_line(line: &str) -> Option<(&str, &str, &str)> {
    let (method, rest) = line.split_once(' ')?;
    let (target, version) = rest.split_once(' ')?;
    let minor = version.strip_prefix("HTTP/1.")?;
    let visible = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    (is_token(method) && visible && matches!(minor, "0" | "1")).then_some((method, target, minor))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn has(list: &str, wanted: &str) -> bool {
    list.split(',').any(|item| item.trim().eq_ignore_ascii_case(wanted))
}

/// A number of digits only: `parse` alone would take a sign.
pub(super) fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let text = "POST /a?b HTTP/1.1\r\nhOST: www.example.org\r\ncontent-length: 5\r\nExpect: 100-Continue\r\n\
            Connection: keep-alive, close\r\nUpgrade: websocket\r\nRange: bytes=1-2\r\n\r\n";
        let expected = Head {
            method: "POST".into(),
            target: "/a?b".into(),
            host: "www.example.org".into(),
            framing: Framing::Length(5),
            range: Range::parse("bytes=1-2"),
            keeps_alive: false,
            expects_continue: true,
            upgrades_to_websocket: true,
        };
        assert_eq!(Head::parse(text.as_bytes()), Some(expected));
    }

    #[test]
    fn absent_headers_have_defaults() {
        let newer = Head::parse(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(newer.keeps_alive && newer.host.is_empty() && !newer.framing.announces_a_body());
        assert!(!Head::parse(b"GET / HTTP/1.0\r\n\r\n").unwrap().keeps_alive);
    }

    #[test]
    fn doubtful_heads_are_refused() {
        for headers in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: \r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Host: a\r\nHost: b\r\n",
            "Host : a\r\n",
            " folded: a\r\n",
            "nothing\r\n",
        ] {
            assert_eq!(Head::parse(format!("GET / HTTP/1.1\r\n{headers}\r\n").as_bytes()), None, "{headers:?}");
        }
        for line in
            ["GET /", "GET  / HTTP/1.1", "PRI * HTTP/2.0", "SSH-2.0-x", "G\u{1}T / HTTP/1.1", "GET /\u{1} HTTP/1.1"]
        {
            assert!(!Head::starts_like_one(format!("{line}\r\n").as_bytes()), "{line:?}");
        }
    }
}
