//! Names to addresses, by asking the sandbox's own resolver: one small question, one small answer.
//!
//! A static program has no resolver of the system's to use, and needs none: whom to ask is in `resolv.conf`, and what
//! comes back is only ever used to connect from inside, where the sandbox's rules decide.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, read};

/// The longest name in presentation form, and the longest part of one (RFC 1035, 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Name servers that are asked, and addresses that are tried.
const MAX_SERVERS: usize = 3;
const MAX_ADDRESSES: usize = 8;
/// The part of `resolv.conf` that is read: the workload can write to it.
const MAX_SETTINGS: usize = 16 << 10;
const HEAD: usize = 12;
const INTERNET: u16 = 1;

/// What sort of address is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    V4,
    V6,
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 28,
        }
    }
}

/// What a name server said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Addresses(Vec<IpAddr>),
    /// The name exists, and has no address of that kind.
    Nothing,
    NoSuchName,
    /// It could not say.
    Failed,
}

/// A question for the addresses of a name; none if that is not a name.
pub(crate) fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > MAX_NAME {
        return None;
    }
    let mut query = id.to_be_bytes().to_vec();
    // Recursion desired, one question.
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        let plain = label.bytes().all(|byte| byte.is_ascii_graphic());
        let length = u8::try_from(label.len()).ok().filter(|_| plain && (1..=MAX_LABEL).contains(&label.len()))?;
        query.push(length);
        query.extend_from_slice(label.as_bytes());
    }
    query.push(0);
    query.extend(kind.number().to_be_bytes());
    query.extend(INTERNET.to_be_bytes());
    Some(query)
}

/// What `bytes` answer to `question`; none if they are an answer to something else, or no answer at all.
pub(crate) fn answer(question: &[u8], kind: Kind, bytes: &[u8]) -> Option<Answer> {
    let asked = question.get(HEAD..)?;
    let repeated = bytes.get(HEAD..HEAD + asked.len())?;
    let is_reply = bytes.get(2)? & 0x80 != 0;
    if bytes.get(..2)? != question.get(..2)? || !is_reply || !repeated.eq_ignore_ascii_case(asked) {
        return None;
    }
    match bytes.get(3)? & 0x0f {
        0 => {}
        3 => return Some(Answer::NoSuchName),
        _ => return Some(Answer::Failed),
    }
    let mut found = Vec::new();
    let mut at = HEAD + asked.len();
    for _ in 0..short(bytes, 6)? {
        // An answer that was cut short is as good as its whole records.
        let Some((address, next)) = record(bytes, at, kind) else { break };
        found.extend(address);
        at = next;
    }
    found.truncate(MAX_ADDRESSES);
    Some(if found.is_empty() { Answer::Nothing } else { Answer::Addresses(found) })
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|pair| pair.first_chunk()).map(|pair| u16::from_be_bytes(*pair))
}

/// The address in the record at `at`, if it holds one of that kind, and where the next one begins.
fn record(bytes: &[u8], mut at: usize, kind: Kind) -> Option<(Option<IpAddr>, usize)> {
    // Its name: labels until an empty one, or until a pointer, which is never followed.
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => break at += 1,
            pointer if pointer >= 0xc0 => break at += 2,
            length => at += 1 + length,
        }
    }
    let (sort, class, length) = (short(bytes, at)?, short(bytes, at + 2)?, usize::from(short(bytes, at + 8)?));
    let data = bytes.get(at + 10..at + 10 + length)?;
    let address = match (kind, <[u8; 4]>::try_from(data), <[u8; 16]>::try_from(data)) {
        _ if sort != kind.number() || class != INTERNET => None,
        (Kind::V4, Ok(octets), _) => Some(Ipv4Addr::from(octets).into()),
        (Kind::V6, _, Ok(octets)) => Some(Ipv6Addr::from(octets).into()),
        _ => None,
    };
    Some((address, at + 10 + length))
}

/// Whom to ask, by the sandbox's `resolv.conf`.
pub(crate) fn servers() -> Vec<SocketAddr> {
    // The workload may have put anything there: nothing that waits is opened, and nothing but a file is read.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = openat(CWD, "/etc/resolv.conf", flags, Mode::empty()) else { return Vec::new() };
    if !fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) {
        return Vec::new();
    }
    let mut buffer = vec![0; MAX_SETTINGS];
    let count = loop {
        match read(&file, &mut *buffer) {
            Ok(count) => break count,
            Err(Errno::INTR) => {}
            Err(_) => return Vec::new(),
        }
    };
    servers_in(&String::from_utf8_lossy(&buffer[..count]))
}

fn servers_in(settings: &str) -> Vec<SocketAddr> {
    let named = settings.lines().filter_map(|line| line.trim_start().strip_prefix("nameserver"));
    let addresses = named.filter_map(|rest| rest.split_whitespace().next()?.parse::<IpAddr>().ok());
    addresses.take(MAX_SERVERS).map(|address| SocketAddr::new(address, 53)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(question: &[u8], code: u8, records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2] |= 0x80;
        bytes[3] = code;
        bytes[7] = u8::try_from(records.len()).unwrap();
        bytes.extend(records.concat());
        bytes
    }

    const ADDRESS: &[u8] = &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 7];
    const ALIAS: &[u8] = &[1, b'a', 0, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 12];

    #[test]
    fn addresses_are_found_behind_aliases() {
        let asked = question(0x1234, "www.Example.org.", Kind::V4).unwrap();
        assert_eq!(&asked[HEAD..], b"\x03www\x07Example\x03org\0\0\x01\0\x01");
        let found = Answer::Addresses(vec![Ipv4Addr::new(198, 18, 0, 7).into()]);
        assert_eq!(answer(&asked, Kind::V4, &reply(&asked, 0, &[ALIAS, ADDRESS])), Some(found));
        assert_eq!(answer(&asked, Kind::V4, &reply(&asked, 0, &[ALIAS])), Some(Answer::Nothing));
        assert_eq!(answer(&asked, Kind::V4, &reply(&asked, 3, &[])), Some(Answer::NoSuchName));
        assert_eq!(answer(&asked, Kind::V4, &reply(&asked, 2, &[])), Some(Answer::Failed));
    }

    #[test]
    fn what_answers_something_else_is_no_answer() {
        let asked = question(1, "www.example.org", Kind::V4).unwrap();
        let other = question(1, "evil.example.net", Kind::V4).unwrap();
        let late = question(2, "www.example.org", Kind::V4).unwrap();
        for bytes in [reply(&other, 0, &[ADDRESS]), reply(&late, 0, &[ADDRESS]), asked.clone(), Vec::new()] {
            assert_eq!(answer(&asked, Kind::V4, &bytes), None);
        }
        // Cut anywhere, it is less or nothing, and never a panic.
        let whole = reply(&asked, 0, &[ALIAS, ADDRESS]);
        for end in 0..whole.len() {
            assert!(!matches!(answer(&asked, Kind::V4, &whole[..end]), Some(Answer::Addresses(_))));
        }
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        let long = "a".repeat(64);
        for name in ["", ".", "a..b", "a b", "ä.org", long.as_str(), &"a.".repeat(200)] {
            assert_eq!(question(1, name, Kind::V6), None, "{name}");
        }
    }

    #[test]
    fn name_servers_are_read() {
        let text = "# no\nsearch x\nnameserver 198.18.0.2\nnameserver nonsense\n nameserver ::1 # here\n";
        let expected: Vec<SocketAddr> = ["198.18.0.2:53", "[::1]:53"].map(|text| text.parse().unwrap()).into();
        assert_eq!(servers_in(text), expected);
    }
}
