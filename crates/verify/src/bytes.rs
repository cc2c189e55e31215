//! Messages by their bytes: what probes say.

use std::net::Ipv4Addr;

fn vector(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(data)].concat()
}

/// A greeting of TLS 1.2; the nonce is its random.
pub(crate) fn tls(server_name: Option<&str>, nonce: &[u8; 32]) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = server_name {
        extensions.extend(extension(0, &vector(&[&[0][..], &vector(name.as_bytes())].concat())));
    }
    extensions.extend(extension(10, &[0, 4, 0, 29, 0, 23]));
    extensions.extend(extension(11, &[1, 0]));
    extensions.extend(extension(13, &[0, 6, 4, 3, 8, 4, 4, 1]));
    let ciphers = [0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30];
    let body = [&[3, 3][..], nonce, &[0], &vector(&ciphers), &[1, 0], &vector(&extensions)].concat();
    let hello = [&[1, 0][..], &vector(&body)].concat();
    [&[22, 3, 1][..], &vector(&hello)].concat()
}

/// A request whose path is the nonce.
pub(crate) fn get(host: &str, nonce: &str) -> Vec<u8> {
    format!("GET /{nonce} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// A request to be led on.
pub(crate) fn connect(target: &str, nonce: &str) -> Vec<u8> {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nX-Nonce: {nonce}\r\n\r\n").into_bytes()
}

/// Kinds of queries.
pub(crate) const A: u16 = 1;
pub(crate) const TXT: u16 = 16;

/// A query for a name.
pub(crate) fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x52, 0x46, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The same as it goes over TCP.
pub(crate) fn over_tcp(query: &[u8]) -> Vec<u8> {
    vector(query)
}

/// The address at the end of an answer to a query for one; `None` for anything else.
pub(crate) fn address(answer: &[u8]) -> Option<Ipv4Addr> {
    let count = u16::from_be_bytes([*answer.get(6)?, *answer.get(7)?]);
    let fields = answer.get(answer.len().checked_sub(6)?..)?;
    let [high, low, a, b, c, d] = *fields else { return None };
    (count >= 1 && u16::from_be_bytes([high, low]) == 4).then(|| Ipv4Addr::new(a, b, c, d))
}

/// Where one text is in another.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_read_by_the_gateway() {
        let bytes = tls(Some("a.example.org"), &[7; 32]);
        let hello = egress::read_hello(&bytes).unwrap().unwrap();
        assert_eq!(hello.server_name.as_deref(), Some(&b"a.example.org"[..]));
        assert!(contains(&bytes, &[7; 32]));
    }

    #[test]
    fn an_address_is_found_only_in_an_answer() {
        let mut answer = query("a.org", A);
        assert_eq!(address(&answer), None);
        answer[7] = 1;
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 198, 18, 0, 7]);
        assert_eq!(address(&answer), Some(Ipv4Addr::new(198, 18, 0, 7)));
        assert_eq!(address(&[]), None);
    }
}
