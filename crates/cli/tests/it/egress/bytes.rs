//! Messages by their bytes.

fn vector(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(data)].concat()
}

/// A greeting of TLS 1.2 that servers understand, with or without a server name, and further extensions.
pub(crate) fn hello(server_name: Option<&str>, more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = server_name {
        extensions.extend(extension(0, &vector(&[&[0][..], &vector(name.as_bytes())].concat())));
    }
    extensions.extend(extension(10, &[0, 4, 0, 29, 0, 23])); // groups
    extensions.extend(extension(11, &[1, 0])); // point formats
    extensions.extend(extension(13, &[0, 6, 4, 3, 8, 4, 4, 1])); // signatures
    extensions.extend(more.iter().flat_map(|(kind, data)| extension(*kind, data)));
    let ciphers = [0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30];
    let body = [&[3, 3][..], &[7; 32], &[0], &vector(&ciphers), &[1, 0], &vector(&extensions)].concat();
    [&[1, 0][..], &vector(&body)].concat()
}

/// Cut into records of at most so many bytes.
pub(crate) fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &vector(part)].concat()).collect()
}

pub(crate) fn tls(server_name: Option<&str>) -> Vec<u8> {
    records(&hello(server_name, &[]), 16_000)
}

pub(crate) const A: u16 = 1;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;
pub(crate) const HTTPS: u16 = 65;
pub(crate) const AXFR: u16 = 252;
pub(crate) const ANY: u16 = 255;

/// A query by its labels.
pub(crate) fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label);
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

pub(crate) fn ask(name: &str, kind: u16) -> Vec<u8> {
    query(&name.split('.').map(str::as_bytes).collect::<Vec<_>>(), kind)
}

/// The same as it goes over TCP.
pub(crate) fn over_tcp(query: &[u8]) -> Vec<u8> {
    vector(query)
}

/// The response code and the number of answers in what the UDP probe printed.
pub(crate) fn answered(hex: &str) -> Option<(u8, u8)> {
    let byte = |at: usize| u8::from_str_radix(hex.trim().get(at * 2..at * 2 + 2)?, 16).ok();
    Some((byte(3)? & 0xf, byte(7)?))
}

pub(crate) fn get(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}
