//! One query in, one answer out. Strict: a single question of the Internet class, uncompressed, as clients send it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

const HEADER: usize = 12;
const NAME_LIMIT: usize = 255;
const LABEL_LIMIT: u8 = 63;
const CLASS_INTERNET: u16 = 1;

// Bits of the second 16 of the header (RFC 1035, 4.1.1).
const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const AUTHORITATIVE: u16 = 0x0400;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;

/// Type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u16);

impl Kind {
    pub(super) const A: Self = Self(1);
    pub(super) const AAAA: Self = Self(28);
    pub(super) const TXT: Self = Self(16);
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "A",
            2 => "NS",
            5 => "CNAME",
            6 => "SOA",
            12 => "PTR",
            15 => "MX",
            16 => "TXT",
            28 => "AAAA",
            33 => "SRV",
            64 => "SVCB",
            65 => "HTTPS",
            255 => "ANY",
            other => return write!(formatter, "TYPE{other}"),
        };
        formatter.write_str(name)
    }
}

/// Not a query as this server takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoQuery;

/// A query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    id: u16,
    recursion_desired: bool,
    /// As it was sent: the answer repeats it with the same upper and lower case, which some clients check.
    question: Vec<u8>,
    /// In lower case, labels joined by dots, without one at the end.
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// One record of an answer, without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Txt(&'static str),
}

impl Record {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::A(_) => Kind::A,
            Self::Aaaa(_) => Kind::AAAA,
            Self::Txt(_) => Kind::TXT,
        }
    }

    fn data(self) -> Vec<u8> {
        match self {
            Self::A(address) => address.octets().to_vec(),
            Self::Aaaa(address) => address.octets().to_vec(),
            // The texts here are far below the 255 bytes of one string.
            Self::Txt(text) => [&[u8::try_from(text.len()).unwrap_or(0)], text.as_bytes()].concat(),
        }
    }
}

/// What there is to answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The name exists; there may be no record of the type.
    Records {
        ttl: u32,
        records: Vec<Record>,
    },
    NoSuchName,
}

impl Query {
    /// Reads a query. What comes behind the question (EDNS options) is not looked at.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, NoQuery> {
        let flags = number(bytes, 2)?;
        if flags & (RESPONSE | OPCODE) != 0 || number(bytes, 4)? != 1 {
            return Err(NoQuery);
        }
        let (name, end) = read_name(bytes)?;
        let (kind, class) = (Kind(number(bytes, end)?), number(bytes, end + 2)?);
        if class != CLASS_INTERNET {
            return Err(NoQuery);
        }
        let question = bytes.get(HEADER..end + 4).ok_or(NoQuery)?.to_vec();
        Ok(Self { id: number(bytes, 0)?, recursion_desired: flags & RECURSION_DESIRED != 0, question, name, kind })
    }

    /// Writes the answer to this query.
    pub(super) fn reply(&self, answer: &Answer) -> Vec<u8> {
        let (code, ttl, records) = match answer {
            Answer::Records { ttl, records } => (0, *ttl, records.as_slice()),
            Answer::NoSuchName => (3, 0, &[][..]),
        };
        let desired = if self.recursion_desired { RECURSION_DESIRED } else { 0 };
        let flags = RESPONSE | AUTHORITATIVE | RECURSION_AVAILABLE | desired | code;
        let count = u16::try_from(records.len()).unwrap_or(u16::MAX);
        let mut reply: Vec<u8> = [self.id, flags, 1, count, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
        reply.extend(&self.question);
        for record in records {
            let data = record.data();
            // The name is the question's: a pointer to it (RFC 1035, 4.1.4).
            reply.extend([0xc0, 0x0c]);
            reply.extend([record.kind().0, CLASS_INTERNET].into_iter().flat_map(u16::to_be_bytes));
            reply.extend(ttl.to_be_bytes());
            reply.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
            reply.extend(data);
        }
        reply
    }
}

fn number(bytes: &[u8], at: usize) -> Result<u16, NoQuery> {
    let number = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(NoQuery)?;
    Ok(u16::from_be_bytes(*number))
}

/// The name behind the header, and where it ends.
fn read_name(bytes: &[u8]) -> Result<(String, usize), NoQuery> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = *bytes.get(at).ok_or(NoQuery)?;
        at += 1;
        if length == 0 {
            return Ok((labels.join("."), at));
        }
        // Compression has no place in a question, and would be a length above the limit.
        if length > LABEL_LIMIT {
            return Err(NoQuery);
        }
        let label = bytes.get(at..at + usize::from(length)).ok_or(NoQuery)?;
        // A dot inside of a label must not look like one between two.
        labels.push(label.escape_ascii().to_string().to_ascii_lowercase().replace('.', r"\x2e"));
        at += usize::from(length);
        // One more byte, the root label, must still fit.
        if at + 1 - HEADER > NAME_LIMIT {
            return Err(NoQuery);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A query as a client sends it.
    pub(in super::super) fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [0x1234, RECURSION_DESIRED, 1, 0, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
        for label in name.split('.') {
            bytes.push(label.len().try_into().unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend([kind, CLASS_INTERNET].into_iter().flat_map(u16::to_be_bytes));
        bytes
    }

    #[test]
    fn an_answer_repeats_the_question_and_points_to_it() {
        let bytes = query("wWw.Example.org", 1);
        let query = Query::parse(&bytes).unwrap();
        assert_eq!((query.name.as_str(), query.kind), ("www.example.org", Kind::A));
        let records = vec![Record::A(Ipv4Addr::new(93, 184, 215, 10))];
        let mut expected = b"\x12\x34\x85\x80\0\x01\0\x01\0\0\0\0\x03wWw\x07Example\x03org\0\0\x01\0\x01".to_vec();
        expected.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x5d\xb8\xd7\x0a");
        assert_eq!(query.reply(&Answer::Records { ttl: 60, records }), expected);
        expected.truncate(bytes.len());
        expected[3] = 0x83;
        expected[7] = 0;
        assert_eq!(query.reply(&Answer::NoSuchName), expected);
    }

    #[test]
    fn a_text_carries_its_length() {
        assert_eq!(Record::Txt("canary").data(), b"\x06canary");
    }

    #[test]
    fn options_behind_the_question_are_ignored() {
        let mut bytes = query("www.example.org", 65);
        let plain = Query::parse(&bytes).unwrap();
        bytes[11] = 1;
        bytes.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
        assert_eq!(Query::parse(&bytes), Ok(plain));
    }

    #[test]
    fn what_is_no_query_is_refused() {
        let good = query("www.example.org", 1);
        for length in 0..good.len() {
            assert_eq!(Query::parse(&good[..length]), Err(NoQuery), "{length} bytes");
        }
        // Of: flags (response, opcode), questions, a label's length (a pointer), class.
        for (at, value) in [(2, 0x81), (2, 0x29), (5, 0), (5, 2), (12, 0xc0), (good.len() - 1, 3)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Query::parse(&bad), Err(NoQuery), "byte {at} = {value}");
        }
        let label = "a".repeat(63);
        let long = [label.as_str(); 4].join(".");
        assert_eq!(Query::parse(&query(&long, 1)), Err(NoQuery));
        assert!(Query::parse(&query(&long[..253], 1)).is_ok());
    }

    #[test]
    fn a_name_of_odd_bytes_is_escaped() {
        assert_eq!(Query::parse(&query("a\u{1}é.org", 1)).unwrap().name, r"a\x01\xc3\xa9.org");
        let mut bytes = query("www-example.org", 1);
        bytes[HEADER + 4] = b'.';
        assert_eq!(Query::parse(&bytes).unwrap().name, r"www\x2eexample.org");
    }
}
