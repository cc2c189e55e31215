//! DNS queries from inside, and the answers to them.

use std::net::Ipv4Addr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use profile::HostName;

use crate::reason::Reason;

/// The longest query that is read.
pub const MAX_QUERY: usize = 1232;
/// An address stands for its name as long as the sandbox lives; programs may ask again all the same.
const TTL: u32 = 60;

/// One question.
#[derive(Debug, Clone)]
pub struct Question {
    message: Message,
    query: Query,
    /// What is asked for.
    pub kind: Kind,
    /// Its name, if it is one that could be listed.
    pub name: Result<HostName, Reason>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An IPv4 address.
    Address,
    /// Something that a name may have, and that we have nothing of.
    Other,
    /// Whole zones, or everything at once.
    Refused,
}

/// Reads a query. What is none gets no answer.
pub fn read_question(bytes: &[u8]) -> Result<Question, Reason> {
    if bytes.len() > MAX_QUERY {
        return Err(Reason::BadQuery);
    }
    let message = Message::from_vec(bytes).map_err(|_| Reason::BadQuery)?;
    let header = &message.metadata;
    let (MessageType::Query, OpCode::Query) = (header.message_type, header.op_code) else {
        return Err(Reason::BadQuery);
    };
    let [query] = message.queries.as_slice() else { return Err(Reason::BadQuery) };
    if query.query_class() != DNSClass::IN || !message.answers.is_empty() || !message.authorities.is_empty() {
        return Err(Reason::BadQuery);
    }
    let kind = match query.query_type() {
        RecordType::A => Kind::Address,
        RecordType::ANY | RecordType::AXFR | RecordType::IXFR => Kind::Refused,
        _ => Kind::Other,
    };
    let query = query.clone();
    Ok(Question { name: name_of(&query), kind, query, message })
}

fn name_of(query: &Query) -> Result<HostName, Reason> {
    let text = plain_name(query).ok_or(Reason::BadName)?;
    HostName::parse(&text).map_err(|_| Reason::BadName)
}

/// By its labels, because a text could hold dots and zeros that are none.
fn plain_name(query: &Query) -> Option<String> {
    let mut text = String::new();
    for label in query.name() {
        let plain = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if label.is_empty() || !plain {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    Some(text)
}

impl Question {
    /// The name as it was asked, for the record: escaped.
    pub fn asked(&self) -> String {
        self.query.name().to_ascii().trim_end_matches('.').chars().take(255).collect()
    }

    /// The type as it was asked, for the record.
    pub fn asked_kind(&self) -> String {
        self.query.query_type().to_string()
    }

    /// Its labels in lower case, whatever they hold.
    pub(crate) fn labels(&self) -> Vec<Vec<u8>> {
        self.query.name().iter().map(<[u8]>::to_ascii_lowercase).collect()
    }

    /// Its name in lower case if it has only letters, digits, hyphens and underscores; a service's may have one label.
    pub(crate) fn plain_name(&self) -> Option<String> {
        plain_name(&self.query)
    }

    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// The address of the name, or that it has nothing of the kind.
    pub fn answer(&self, address: Option<Ipv4Addr>) -> Vec<u8> {
        let records = address.map(|address| Record::from_rdata(self.query.name().clone(), TTL, RData::A(A(address))));
        self.reply(ResponseCode::NoError, records.into_iter().collect())
    }

    /// Records that were found elsewhere.
    pub(crate) fn forward(&self, code: ResponseCode, records: Vec<Record>) -> Vec<u8> {
        self.reply(code, records)
    }

    /// That there is no such name: programs give up at once, where a refusal would make them ask again.
    pub fn deny(&self) -> Vec<u8> {
        self.reply(ResponseCode::NXDomain, Vec::new())
    }

    /// That this is not answered.
    pub fn refuse(&self) -> Vec<u8> {
        self.reply(ResponseCode::Refused, Vec::new())
    }

    /// That it cannot be answered now.
    pub fn fail(&self) -> Vec<u8> {
        self.reply(ResponseCode::ServFail, Vec::new())
    }

    fn reply(&self, code: ResponseCode, records: Vec<Record>) -> Vec<u8> {
        let asked = &self.message.metadata;
        let mut reply = Message::response(asked.id, OpCode::Query);
        reply.metadata.recursion_desired = asked.recursion_desired;
        reply.metadata.recursion_available = true;
        reply.metadata.response_code = code;
        reply.add_query(self.query.clone());
        reply.add_answers(records);
        if self.message.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(1232);
            reply.set_edns(edns);
        }
        // What we built can be written; if not, silence is an answer.
        reply.to_vec().unwrap_or_default()
    }
}

/// The same answer as it may go over UDP: too long ones say that they are.
pub(crate) fn for_udp(answer: Vec<u8>) -> Vec<u8> {
    if answer.len() <= MAX_QUERY {
        return answer;
    }
    Message::from_vec(&answer).ok().and_then(|message| message.truncate().to_vec().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::Name;
    use proptest::prelude::*;

    use super::*;

    fn query(name: &Name, kind: RecordType) -> Vec<u8> {
        let mut message = Message::query();
        message.metadata.id = 7;
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(name.clone(), kind));
        message.to_vec().unwrap()
    }

    fn ask(name: &str, kind: RecordType) -> Question {
        read_question(&query(&Name::from_ascii(name).unwrap(), kind)).unwrap()
    }

    #[test]
    fn a_name_gets_its_address() {
        let question = ask("A.Example.org.", RecordType::A);
        assert_eq!(question.name, Ok("a.example.org".parse().unwrap()));
        let answer = Message::from_vec(&question.answer(Some(Ipv4Addr::new(198, 18, 1, 0)))).unwrap();
        assert_eq!(answer.metadata.id, 7);
        assert_eq!(answer.answers.len(), 1);
        assert_eq!(answer.answers[0].data, RData::A(A(Ipv4Addr::new(198, 18, 1, 0))));
        let code = |bytes: Vec<u8>| Message::from_vec(&bytes).unwrap().metadata.response_code;
        assert_eq!(code(question.deny()), ResponseCode::NXDomain);
        assert_eq!(code(question.fail()), ResponseCode::ServFail);
        assert_eq!(code(question.refuse()), ResponseCode::Refused);
    }

    #[test]
    fn kinds_are_told_apart() {
        for (kind, expected) in [
            (RecordType::A, Kind::Address),
            (RecordType::AAAA, Kind::Other),
            (RecordType::HTTPS, Kind::Other),
            (RecordType::TXT, Kind::Other),
            (RecordType::ANY, Kind::Refused),
            (RecordType::AXFR, Kind::Refused),
        ] {
            assert_eq!(ask("a.example.org.", kind).kind, expected, "{kind}");
        }
    }

    #[test]
    fn odd_names_are_no_names() {
        let name = |labels: &[&[u8]]| Name::from_labels(labels.iter().copied()).unwrap();
        for labels in [
            &[&b"a.example"[..], b"org"][..],
            &[b"a\0", b"example", b"org"],
            &[b"a b", b"example", b"org"],
            &["ex\u{e4}mple".as_bytes(), b"org"],
            &[b"localhost"],
            &[b"10", b"0", b"0", b"1"],
        ] {
            let question = read_question(&query(&name(labels), RecordType::A)).unwrap();
            assert_eq!(question.name, Err(Reason::BadName), "{labels:?}");
        }
    }

    #[test]
    fn what_is_no_query_is_not_answered() {
        let good = query(&Name::from_ascii("a.example.org.").unwrap(), RecordType::A);
        let mut response = good.clone();
        response[2] |= 0x80;
        let mut two = Message::from_vec(&good).unwrap();
        two.add_query(two.queries[0].clone());
        for bytes in [vec![], good[..good.len() - 1].to_vec(), response, two.to_vec().unwrap(), vec![0; 2000]] {
            assert!(read_question(&bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes: Vec<u8>, at in 0_usize..40, byte: u8) {
            let _ = read_question(&bytes);
            let mut good = query(&Name::from_ascii("a.example.org.").unwrap(), RecordType::A);
            let at = at % good.len();
            good[at] = byte;
            if let Ok(question) = read_question(&good) {
                let _ = (question.answer(None), question.asked());
            }
        }
    }
}
