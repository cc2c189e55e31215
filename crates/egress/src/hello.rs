//! Reads the greeting of TLS (RFC 8446 §4.1.2) without being part of it: which server is meant, and is that hidden.
//!
//! The bytes are the agent's. Whatever is not exactly a greeting is refused; nothing is guessed.

use crate::reason::Reason;

/// The longest greeting, over all its records. Browsers with post-quantum keys send about two KiB.
pub const MAX_HELLO: usize = 16 << 10;
const MAX_RECORD: usize = 16 << 10;
const RECORD_HEAD: usize = 5;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
/// Encrypted ClientHello, and its predecessor.
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// What a greeting says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The server name, as it was written.
    pub server_name: Option<String>,
    /// Whether another name may be hidden in it.
    pub encrypted: bool,
}

/// Reads a greeting from the first bytes of a connection; `Ok(None)` when more are needed.
pub fn read_hello(bytes: &[u8]) -> Result<Option<Hello>, Reason> {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        let Some((&kind, _)) = rest.split_first() else { return Ok(None) };
        if kind != HANDSHAKE {
            return Err(Reason::NotTls);
        }
        let Some((head, after)) = rest.split_at_checked(RECORD_HEAD) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if head[1] != 3 || length == 0 || length > MAX_RECORD {
            return Err(Reason::NotTls);
        }
        let available = &after[..length.min(after.len())];
        message.extend_from_slice(available);
        if let Some(hello) = read_message(&message)? {
            return Ok(Some(hello));
        }
        if message.len() > MAX_HELLO {
            return Err(Reason::HelloTooLong);
        }
        let Some((_, next)) = after.split_at_checked(length) else { return Ok(None) };
        rest = next;
    }
}

fn read_message(message: &[u8]) -> Result<Option<Hello>, Reason> {
    let Some((head, body)) = message.split_at_checked(4) else {
        return if message.first().is_none_or(|&kind| kind == CLIENT_HELLO) { Ok(None) } else { Err(Reason::NotTls) };
    };
    if head[0] != CLIENT_HELLO {
        return Err(Reason::NotTls);
    }
    let length = u32::from_be_bytes([0, head[1], head[2], head[3]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > MAX_HELLO {
        return Err(Reason::HelloTooLong);
    }
    match body.get(..length) {
        None => Ok(None),
        Some(body) => read_body(&mut Reader(body)).ok_or(Reason::NotTls).map(Some),
    }
}

/// Takes from the front; `None` when there is too little.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector whose length is in one byte.
    fn small(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// A vector whose length is in two bytes.
    fn large(&mut self) -> Option<Self> {
        let length = self.short()?;
        self.take(usize::from(length)).map(Reader)
    }
}

fn read_body(body: &mut Reader<'_>) -> Option<Hello> {
    body.take(2 + 32)?; // version and random
    (body.small()?.len() <= 32).then_some(())?; // session
    let ciphers = body.large()?.0.len();
    (ciphers >= 2 && ciphers % 2 == 0).then_some(())?;
    (!body.small()?.is_empty()).then_some(())?; // compression
    let mut hello = Hello { server_name: None, encrypted: false };
    if body.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = body.large()?;
    let mut seen = Vec::new();
    while !extensions.0.is_empty() {
        let kind = extensions.short()?;
        let mut data = extensions.large()?;
        // One of each kind; a second server name would be a second opinion.
        (!seen.contains(&kind)).then_some(())?;
        seen.push(kind);
        if kind == SERVER_NAME {
            hello.server_name = Some(read_server_name(&mut data)?);
        }
        hello.encrypted |= ENCRYPTED.contains(&kind);
    }
    body.0.is_empty().then_some(hello)
}

/// Exactly one name, of the kind host name.
fn read_server_name(data: &mut Reader<'_>) -> Option<String> {
    let mut list = data.large()?;
    data.0.is_empty().then_some(())?;
    (list.byte()? == 0).then_some(())?;
    let name = list.large()?.0;
    list.0.is_empty().then_some(())?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// Whether the greeting is for exactly this name.
pub fn check_hello(hello: &Hello, name: &str) -> Result<(), Reason> {
    if hello.encrypted {
        return Err(Reason::EchPresent);
    }
    match &hello.server_name {
        None => Err(Reason::SniMissing),
        Some(server) if server.eq_ignore_ascii_case(name) => Ok(()),
        Some(_) => Err(Reason::SniMismatch),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector(data)].concat()
    }

    fn server_name(name: &str) -> Vec<u8> {
        extension(SERVER_NAME, &vector(&[&[0][..], &vector(name.as_bytes())].concat()))
    }

    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let body = [&[3, 3][..], &[7; 32], &[0], &vector(&[0x13, 1]), &[1, 0], &vector(&extensions.concat())].concat();
        [&[CLIENT_HELLO, 0][..], &vector(&body)].concat()
    }

    fn record(bytes: &[u8]) -> Vec<u8> {
        [&[HANDSHAKE, 3, 1][..], &vector(bytes)].concat()
    }

    fn hello(name: &str) -> Hello {
        Hello { server_name: Some(name.into()), encrypted: false }
    }

    #[test]
    fn the_server_name_is_read_however_it_is_cut() {
        let whole = message(&[extension(10, &[0, 2, 0, 29]), server_name("a.example.org")]);
        for pieces in [1, 3, 7, whole.len()] {
            let bytes: Vec<u8> = whole.chunks(pieces).flat_map(record).collect();
            assert_eq!(read_hello(&bytes), Ok(Some(hello("a.example.org"))), "{pieces}");
            for end in 0..bytes.len() {
                assert_eq!(read_hello(&bytes[..end]), Ok(None), "{pieces} {end}");
            }
        }
        // What follows the greeting is not ours to read.
        assert_eq!(read_hello(&[record(&whole), vec![23, 3, 3]].concat()), Ok(Some(hello("a.example.org"))));
    }

    #[test]
    fn missing_hidden_and_other_names_have_their_own_reasons() {
        let said = |extensions: &[Vec<u8>]| {
            let hello = read_hello(&record(&message(extensions))).unwrap().unwrap();
            check_hello(&hello, "a.example.org")
        };
        assert_eq!(said(&[server_name("a.example.org")]), Ok(()));
        assert_eq!(said(&[server_name("A.Example.ORG")]), Ok(()));
        assert_eq!(said(&[]), Err(Reason::SniMissing));
        assert_eq!(said(&[server_name("a.example.org.")]), Err(Reason::SniMismatch));
        assert_eq!(said(&[server_name("b.example.org")]), Err(Reason::SniMismatch));
        assert_eq!(said(&[server_name("a.example.org\0.evil.net")]), Err(Reason::SniMismatch));
        assert_eq!(said(&[server_name("a.example.org"), extension(0xfe0d, &[0; 8])]), Err(Reason::EchPresent));
    }

    #[test]
    fn what_is_no_greeting_is_refused() {
        let twice = message(&[server_name("a.example.org"), server_name("b.example.org")]);
        let two_names = extension(SERVER_NAME, &vector(&[&[0, 0, 1, b'a'][..], &[0, 0, 1, b'b']].concat()));
        let mut long = record(&message(&[]));
        long[6] = 1; // a message of more than 64 KiB
        for (bytes, reason) in [
            (b"GET / HTTP/1.1\r\n".to_vec(), Reason::NotTls),
            (vec![HANDSHAKE, 2, 0, 0, 5], Reason::NotTls),
            (vec![HANDSHAKE, 3, 1, 0, 0], Reason::NotTls),
            (vec![HANDSHAKE, 3, 1, 0xff, 0xff], Reason::NotTls),
            (record(&[2, 0, 0, 0]), Reason::NotTls),
            (record(&twice), Reason::NotTls),
            (record(&message(&[two_names])), Reason::NotTls),
            (record(&message(&[vec![0, 0, 0, 9]])), Reason::NotTls),
            (long, Reason::HelloTooLong),
        ] {
            assert_eq!(read_hello(&bytes), Err(reason), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes: Vec<u8>, cut in 0_usize..200) {
            let _ = read_hello(&bytes);
            let mut good = record(&message(&[server_name("a.example.org")]));
            let at = cut % good.len();
            good[at] ^= bytes.first().copied().unwrap_or(1);
            let _ = read_hello(&good);
        }
    }
}
