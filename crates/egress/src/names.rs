//! The resolver that a sandbox finds: only listed names, and nothing is forwarded before the verdict.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::RData;
use mutation::{Mutation, mutated};
use profile::Egress;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::sync::OwnedSemaphorePermit;

use crate::question::{Kind, MAX_QUERY, Question, for_udp, read_question};
use crate::reason::Reason;
use crate::record::{Outcome, Protocol};
use crate::served::Served;
use crate::services;
use crate::shown::Shown;
use crate::socket::Socket;
use crate::verdict::{Attempt, Verdict, decide, denies_labels};

/// Queries on one TCP connection, and how long it may say nothing.
const MAX_ON_CONNECTION: usize = 1000;
const SILENCE: Duration = Duration::from_secs(10);

/// Serves queries until the socket is of no use any more; returns why.
pub(crate) async fn serve_udp(served: Arc<Served>, socket: UdpSocket) -> io::Error {
    #[cfg(feature = "mutations")]
    if crate::stray::is_watching(&socket) {
        return crate::stray::forward(&socket).await;
    }
    let socket = Arc::new(socket);
    let mut buffer = vec![0; MAX_QUERY + 1];
    loop {
        let (count, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            // The echo of an answer that nobody waited for.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return error,
        };
        let Some((question, place)) = admit(&served, &buffer[..count]) else { continue };
        let (served, socket) = (Arc::clone(&served), Arc::clone(&socket));
        tokio::spawn(async move {
            if let Some(bytes) = in_life(&served, &question).await {
                let _ = socket.send_to(&bytes, from).await;
            }
            drop(place);
        });
    }
}

/// The answer to one query that came as a datagram, if it gets one.
pub(crate) async fn serve_question(served: &Served, bytes: &[u8]) -> Option<Vec<u8>> {
    let (question, _place) = admit(served, bytes)?;
    in_life(served, &question).await
}

/// A query that is one, comes in time, and has a place.
fn admit(served: &Served, bytes: &[u8]) -> Option<(Question, OwnedSemaphorePermit)> {
    let question = accept(served, bytes)?;
    let Ok(place) = Arc::clone(&served.questions).try_acquire_owned() else {
        note(served, Some(&question), Err(Reason::QueryRate));
        return None;
    };
    Some((question, place))
}

/// The answer as a datagram, unless the sandbox ends first.
async fn in_life(served: &Served, question: &Question) -> Option<Vec<u8>> {
    tokio::select! {
        bytes = answer(served, question) => Some(for_udp(bytes)),
        () = served.ended.cancelled() => None,
    }
}

/// Serves queries on one connection; `Err` if it held none.
pub(crate) async fn serve_tcp(served: &Served, stream: &mut Socket) -> Result<(), Reason> {
    for number in 0..MAX_ON_CONNECTION {
        let nothing = || if number == 0 { Err(Reason::BadQuery) } else { Ok(()) };
        let Ok(Ok(length)) = tokio::time::timeout(SILENCE, stream.read_u16()).await else { return nothing() };
        let mut bytes = vec![0; usize::from(length)];
        let Ok(Ok(_)) = tokio::time::timeout(SILENCE, stream.read_exact(&mut bytes)).await else { return nothing() };
        let Some(question) = accept(served, &bytes) else { return Ok(()) };
        let answer = answer(served, &question).await;
        let Ok(length) = u16::try_from(answer.len()) else { return Ok(()) };
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        if !matches!(tokio::time::timeout(SILENCE, stream.write_all(&framed)).await, Ok(Ok(()))) {
            return Ok(());
        }
    }
    Ok(())
}

/// A query that is one, and comes in time.
fn accept(served: &Served, bytes: &[u8]) -> Option<Question> {
    if !served.may_ask() {
        note(served, None, Err(Reason::QueryRate));
        return None;
    }
    match read_question(bytes) {
        Ok(question) => Some(question),
        Err(reason) => {
            let mut record = served.journal.record(Protocol::Dns, Outcome::Refused);
            record.reason = Some(reason);
            record.shown = Shown::by_query(bytes).map(Box::new);
            served.journal.note(record);
            None
        }
    }
}

fn note(served: &Served, question: Option<&Question>, verdict: Result<String, Reason>) {
    let outcome = if verdict.is_ok() { Outcome::Allowed } else { Outcome::Refused };
    let mut record = served.journal.record(Protocol::Dns, outcome);
    if let Some(question) = question {
        record.name = Some(question.name.as_ref().map_or_else(|_| question.asked(), ToString::to_string));
        record.request = Some(question.asked_kind());
    }
    match verdict {
        Ok(rule) => record.rule = Some(rule),
        Err(reason) => record.reason = Some(reason),
    }
    served.journal.note(record);
}

/// The answer to a question, as bytes; noted.
async fn answer(served: &Served, question: &Question) -> Vec<u8> {
    let refused = |reason: Reason, bytes: Vec<u8>| {
        note(served, Some(question), Err(reason));
        bytes
    };
    if let Some(bytes) = answer_service(served, question) {
        return bytes;
    }
    let rules = served.rules();
    if mutated(Mutation::ResolverForwards) {
        let _ = served.outside.look_up(question.query()).await;
    }
    if let (Egress::Everything { .. }, Kind::Other | Kind::Address) = (&*rules, question.kind) {
        return forward(served, question, &rules).await;
    }
    let name = match &question.name {
        Ok(name) => name,
        Err(reason) => return refused(*reason, question.deny()),
    };
    let rule = match decide(&rules, &Attempt::Query(name.clone())) {
        Verdict::Allowed { rule, .. } => rule,
        Verdict::Refused(Reason::NameNotListed) if question.kind == Kind::Address && served.decider.is_some() => {
            match served.ask(name).await {
                Ok(()) => format!("{name} (decided)"),
                Err(reason @ Reason::DeciderTimeout) => return refused(reason, question.fail()),
                Err(reason) => return refused(reason, question.deny()),
            }
        }
        Verdict::Refused(reason) => return refused(reason, question.deny()),
    };
    match question.kind {
        Kind::Refused => refused(Reason::QueryKind, question.refuse()),
        Kind::Other => {
            note(served, Some(question), Ok(rule));
            question.answer(None)
        }
        Kind::Address => {
            let address = served.book().address_of(name);
            match address {
                None => refused(Reason::WildcardLimit, question.fail()),
                address => {
                    note(served, Some(question), Ok(rule));
                    question.answer(address)
                }
            }
        }
    }
}

/// The answer to a question for a neighbour, at every level and before any rule: its name is inside the fence, and hides
/// whatever has it outside.
fn answer_service(served: &Served, question: &Question) -> Option<Vec<u8>> {
    let name = question.plain_name()?;
    let service = served.neighbours.service(&name)?;
    let refused = question.kind == Kind::Refused;
    let mut record = served.journal.record(Protocol::Dns, if refused { Outcome::Refused } else { Outcome::Allowed });
    record.request = Some(question.asked_kind());
    record.service = Some(service.to_string());
    record.rule = Some(services::rule(service));
    record.reason = refused.then_some(Reason::QueryKind);
    let bytes = match question.kind {
        Kind::Refused => question.refuse(),
        Kind::Other => question.answer(None),
        Kind::Address => question.answer(served.book().address_of_service(&name)),
    };
    record.name = Some(name);
    served.journal.note(record);
    Some(bytes)
}

/// Where everything may be reached, real answers are given; names that are denied are still denied.
async fn forward(served: &Served, question: &Question, rules: &Egress) -> Vec<u8> {
    // By labels: what is no host name can be asked for all the same, and would carry as much.
    if denies_labels(rules, &question.labels()) {
        note(served, Some(question), Err(Reason::NameDenied));
        return question.deny();
    }
    let (code, records) = served.outside.look_up(question.query()).await;
    if let Ok(name) = &question.name {
        for record in &records {
            match &record.data {
                RData::A(address) => served.remember(address.0.into(), name),
                RData::AAAA(address) => served.remember(address.0.into(), name),
                _ => {}
            }
        }
    }
    note(served, Some(question), Ok("*".into()));
    question.forward(code, records)
}
