//! Reads the greeting of TLS (RFC 8446 §4.1.2) without being part of it: which server is meant, and is that hidden.
//!
//! The bytes are the agent's. Whatever is not exactly a greeting is refused; nothing is guessed.

use crate::reason::Reason;

/// The longest greeting, over all its records. Browsers with post-quantum keys send about two KiB.
pub const MAX_HELLO: usize = 16 << 10;
const MAX_RECORD: usize = 16 << 10;
const RECORD_HEAD: usize = 5;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const CLIENT_HELLO: u8 = 1;
pub(crate) const SERVER_NAME: u16 = 0;
/// Extensions that hide a server name: Encrypted ClientHello (0xfe0d), its drafts, which used one code point after the
/// other, and encrypted SNI before it. A server that still speaks a draft would follow the hidden name.
pub const HIDDEN_NAMES: [u16; 9] = [0xfe0d, 0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c, 0xff02, 0xff03, 0xffce];

/// What a greeting says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The server name, byte by byte as it was written.
    pub server_name: Option<Vec<u8>>,
    /// Whether another name may be hidden in it.
    pub encrypted: bool,
    /// How many bytes it took. What follows is not part of it.
    pub length: usize,
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
        if let Some((hello, whole)) = read_message(&message)? {
            // Nothing may follow it in its last record: a client has nothing more to say before it is answered.
            let ends_here = whole == message.len() && available.len() == length;
            let taken = bytes.len() - after.len() + length;
            return if ends_here {
                Ok(Some(Hello { length: taken, ..hello }))
            } else if whole < message.len() {
                Err(Reason::NotTls)
            } else {
                Ok(None)
            };
        }
        if message.len() > MAX_HELLO {
            return Err(Reason::HelloTooLong);
        }
        let Some((_, next)) = after.split_at_checked(length) else { return Ok(None) };
        rest = next;
    }
}

/// The greeting, and how long its message is.
fn read_message(message: &[u8]) -> Result<Option<(Hello, usize)>, Reason> {
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
        Some(body) => read_body(&mut Reader(body)).ok_or(Reason::NotTls).map(|hello| Some((hello, 4 + length))),
    }
}

/// Takes from the front; `None` when there is too little.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector whose length is in one byte.
    pub(crate) fn small(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// A vector whose length is in two bytes.
    pub(crate) fn large(&mut self) -> Option<Self> {
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
    let mut hello = Hello { server_name: None, encrypted: false, length: 0 };
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
        hello.encrypted |= HIDDEN_NAMES.contains(&kind);
    }
    body.0.is_empty().then_some(hello)
}

/// Exactly one name, of the kind host name.
fn read_server_name(data: &mut Reader<'_>) -> Option<Vec<u8>> {
    let mut list = data.large()?;
    data.0.is_empty().then_some(())?;
    (list.byte()? == 0).then_some(())?;
    let name = list.large()?.0;
    list.0.is_empty().then_some(())?;
    Some(name.to_vec())
}

/// What a server's first bytes mean for whoever reads greetings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The greeting was taken: what follows is for the two of them.
    Taken,
    /// The client is asked to greet again, in the open.
    Again,
}

/// The random of a `ServerHello` that is no hello (RFC 8446 §4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Reads a server's answer as far as it matters; `Ok(None)` when more bytes are needed.
pub(crate) fn read_answer(bytes: &[u8]) -> Result<Option<Answer>, Reason> {
    const SERVER_HELLO: u8 = 2;
    /// Message head and version, then the random.
    const RANDOM: usize = RECORD_HEAD + 4 + 2;
    match bytes.first() {
        None => return Ok(None),
        Some(&HANDSHAKE) => {}
        // An alert, or no TLS at all: nothing that a client would answer with a greeting.
        Some(_) => return Ok(Some(Answer::Taken)),
    }
    let Some(head) = bytes.get(..RECORD_HEAD + 1) else { return Ok(None) };
    if head[RECORD_HEAD] != SERVER_HELLO {
        return Ok(Some(Answer::Taken));
    }
    if usize::from(u16::from_be_bytes([head[3], head[4]])) < RANDOM + 32 - RECORD_HEAD {
        // Cut so that we could not tell.
        return Err(Reason::NotTls);
    }
    let Some(random) = bytes.get(RANDOM..RANDOM + 32) else { return Ok(None) };
    Ok(Some(if random == RETRY { Answer::Again } else { Answer::Taken }))
}

/// How many bytes of records come before the next greeting: what a client may send in between.
pub(crate) fn before_greeting(bytes: &[u8]) -> Result<Option<usize>, Reason> {
    const CHANGE_CIPHER: u8 = 20;
    const EARLY_DATA: u8 = 23;
    let mut at = 0;
    loop {
        let Some(&kind) = bytes.get(at) else { return Ok(None) };
        if kind == HANDSHAKE {
            return Ok(Some(at));
        }
        if !matches!(kind, CHANGE_CIPHER | EARLY_DATA) {
            return Err(Reason::NotTls);
        }
        let Some(head) = bytes.get(at..at + RECORD_HEAD) else { return Ok(None) };
        at += RECORD_HEAD + usize::from(u16::from_be_bytes([head[3], head[4]]));
        if at > bytes.len() {
            return Ok(None);
        }
    }
}

/// Whether the greeting is for exactly this name.
pub fn check_hello(hello: &Hello, name: &str) -> Result<(), Reason> {
    if hello.encrypted {
        return Err(Reason::EchPresent);
    }
    match &hello.server_name {
        None => Err(Reason::SniMissing),
        Some(server) if server.eq_ignore_ascii_case(name.as_bytes()) => Ok(()),
        Some(_) => Err(Reason::SniMismatch),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Messages of TLS by their bytes.

    use super::*;

    pub(crate) fn vector(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    pub(crate) fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector(data)].concat()
    }

    pub(crate) fn server_name(name: impl AsRef<[u8]>) -> Vec<u8> {
        extension(SERVER_NAME, &vector(&[&[0][..], &vector(name.as_ref())].concat()))
    }

    pub(crate) fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let body = [&[3, 3][..], &[7; 32], &[0], &vector(&[0x13, 1]), &[1, 0], &vector(&extensions.concat())].concat();
        [&[CLIENT_HELLO, 0][..], &vector(&body)].concat()
    }

    pub(crate) fn record(bytes: &[u8]) -> Vec<u8> {
        [&[HANDSHAKE, 3, 1][..], &vector(bytes)].concat()
    }

    pub(crate) fn hello_record(name: &str) -> Vec<u8> {
        record(&message(&[server_name(name)]))
    }

    fn answer(random: &[u8; 32]) -> Vec<u8> {
        let body = [&[3, 3][..], random, &[0], &[0x13, 1], &[0]].concat();
        record(&[&[2, 0][..], &vector(&body)].concat())
    }

    pub(crate) fn again() -> Vec<u8> {
        answer(&RETRY)
    }

    pub(crate) fn taken() -> Vec<u8> {
        answer(&[7; 32])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{again, extension, message, record, server_name, taken, vector};
    use super::*;

    fn hello(name: &str, length: usize) -> Hello {
        Hello { server_name: Some(name.as_bytes().to_vec()), encrypted: false, length }
    }

    #[test]
    fn the_server_name_is_read_however_it_is_cut() {
        let whole = message(&[extension(10, &[0, 2, 0, 29]), server_name("a.example.org")]);
        for pieces in [1, 3, 7, whole.len()] {
            let bytes: Vec<u8> = whole.chunks(pieces).flat_map(record).collect();
            assert_eq!(read_hello(&bytes), Ok(Some(hello("a.example.org", bytes.len()))), "{pieces}");
            for end in 0..bytes.len() {
                assert_eq!(read_hello(&bytes[..end]), Ok(None), "{pieces} {end}");
            }
        }
        // What follows the greeting is not ours to read.
        let alone = record(&whole);
        let more = [&alone[..], &[23, 3, 3]].concat();
        assert_eq!(read_hello(&more), Ok(Some(hello("a.example.org", alone.len()))));
        assert_eq!(read_hello(&record(&[&whole[..], &whole].concat())), Err(Reason::NotTls), "two in one record");
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
        assert_eq!(said(&[server_name(b"a.example.org\xff")]), Err(Reason::SniMismatch));
    }

    #[test]
    fn every_code_point_that_hides_a_name_is_refused() {
        let hidden = [0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c, 0xfe0d, 0xff02, 0xff03, 0xffce];
        for kind in hidden {
            for extensions in [
                [server_name("a.example.org"), extension(kind, &[0; 8])],
                [extension(kind, &[]), server_name("a.example.org")],
            ] {
                let hello = read_hello(&record(&message(&extensions))).unwrap().unwrap();
                assert_eq!(check_hello(&hello, "a.example.org"), Err(Reason::EchPresent), "{kind:#x}");
            }
        }
        // Their neighbours, renegotiation info and GREASE hide nothing.
        for kind in [0xfe07, 0xfe0e, 0xff01, 0xff04, 0xffcd, 0xffcf, 0x0a0a, 0xfafa] {
            let hello = read_hello(&record(&message(&[server_name("a.example.org"), extension(kind, &[0])]))).unwrap();
            assert_eq!(check_hello(&hello.unwrap(), "a.example.org"), Ok(()), "{kind:#x}");
        }
    }

    #[test]
    fn a_request_to_greet_again_is_seen() {
        assert_eq!(read_answer(&again()), Ok(Some(Answer::Again)));
        assert_eq!(read_answer(&taken()), Ok(Some(Answer::Taken)));
        assert_eq!(read_answer(&[21, 3, 3, 0, 2, 2, 40]), Ok(Some(Answer::Taken)));
        for end in 0..43 {
            assert_eq!(read_answer(&again()[..end]), Ok(None), "{end}");
        }
        assert_eq!(read_answer(&record(&[2, 0, 0, 40, 3, 3])), Err(Reason::NotTls), "cut too short to tell");
        let next = record(&message(&[server_name("b.example.org")]));
        let between = [&[20, 3, 3, 0, 1, 1][..], &[23, 3, 3, 0, 3, 1, 2, 3]].concat();
        assert_eq!(before_greeting(&[&between[..], &next].concat()), Ok(Some(between.len())));
        assert_eq!(before_greeting(&between), Ok(None));
        assert_eq!(before_greeting(b"GET"), Err(Reason::NotTls));
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
