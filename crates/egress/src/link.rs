//! Messages between the runner and the gateway's process: a length, JSON, and descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ipnet::IpNet;
use profile::{Egress, NetworkRules};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::gateway::Settings;
use crate::neighbours::Neighbour;
use crate::reason::Reason;
use crate::record::{Counters, Record};
use crate::served::Decisions;

/// The longest message: a full list of rules fits many times.
const MAX_MESSAGE: usize = 8 << 20;
/// A message's length, and how many descriptors are its own.
const HEAD: usize = 5;
/// The most descriptors beside one message: a sandbox's listeners.
const MAX_DESCRIPTORS: usize = 4;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToGateway {
    Configure(Settings, Asking),
    /// Passed listeners come with it.
    Attach {
        id: u32,
        comes: Comes,
        name: String,
        rules: Rules,
        neighbours: Vec<Neighbour>,
    },
    Replace {
        id: u32,
        rules: Rules,
        decisions: Decisions,
    },
    Detach {
        id: u32,
    },
    Decided {
        ask: u32,
        allowed: bool,
    },
    /// One end of a pair of sockets comes with it, unless there is an error.
    Reached {
        ask: u32,
        error: Option<Reason>,
    },
    /// The service's side of a line broke: what came of it is not all.
    Cut {
        ask: u32,
    },
    /// A relayed connection, one end of a pair of sockets beside it, and what its guest says that it asked for.
    Incoming {
        id: u32,
        number: u64,
        to: Option<SocketAddr>,
    },
    /// A relayed question.
    Question {
        id: u32,
        number: u64,
        question: Vec<u8>,
    },
}

/// How a sandbox's connections come to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Comes {
    ByListeners,
    ByRunner,
}

/// Whether the runner wants to be asked about names that no rule lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asking {
    Wanted,
    Unwanted,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromGateway {
    /// It serves, confined by a filter and by this version of Landlock, where the kernel has one.
    Ready {
        landlock: Option<u32>,
    },
    /// It cannot start.
    Failed(String),
    Attached {
        id: u32,
        error: Option<String>,
    },
    Replaced {
        id: u32,
    },
    Detached {
        id: u32,
        counters: Counters,
    },
    Record(Record),
    Lost {
        id: u32,
        why: String,
    },
    Ask {
        ask: u32,
        sandbox: String,
        name: String,
    },
    /// The sandbox attached under `id` wants a line to a declared port of a neighbour.
    Reach {
        ask: u32,
        id: u32,
        service: String,
        port: u16,
    },
    /// A relayed connection was broken off, and the program should see that.
    Cut {
        number: u64,
    },
    /// The answer to a relayed question; empty for none.
    Answer {
        number: u64,
        answer: Vec<u8>,
    },
}

/// Rules as texts, read again by the same parsers on the other side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rules {
    level: Level,
    allow: Vec<String>,
    allow_cidr: Vec<IpNet>,
    allow_private_answers: Vec<String>,
    deny: Vec<String>,
    deny_cidr: Vec<IpNet>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Level {
    Everything,
    Listed,
    Nothing,
}

impl From<&Egress> for Rules {
    fn from(egress: &Egress) -> Self {
        let none = NetworkRules::default();
        let (level, rules) = match egress {
            Egress::Everything { rules } => (Level::Everything, rules),
            Egress::Listed { rules } => (Level::Listed, rules),
            Egress::Nothing => (Level::Nothing, &none),
        };
        Self {
            level,
            allow: rules.allow.iter().map(ToString::to_string).collect(),
            allow_cidr: rules.allow_cidr.iter().copied().collect(),
            allow_private_answers: rules.allow_private_answers.iter().map(ToString::to_string).collect(),
            deny: rules.deny.iter().map(ToString::to_string).collect(),
            deny_cidr: rules.deny_cidr.iter().copied().collect(),
        }
    }
}

impl TryFrom<Rules> for Egress {
    type Error = String;

    fn try_from(rules: Rules) -> Result<Self, String> {
        let patterns = |texts: &[String]| {
            texts.iter().map(|text| text.parse().map_err(|error| format!("{text}: {error}"))).collect::<Result<_, _>>()
        };
        let allow = rules.allow.iter().map(|text| text.parse().map_err(|error| format!("{text}: {error}")));
        let read = NetworkRules {
            allow: allow.collect::<Result<_, String>>()?,
            allow_cidr: rules.allow_cidr.into_iter().collect(),
            allow_private_answers: patterns(&rules.allow_private_answers)?,
            deny: patterns(&rules.deny)?,
            deny_cidr: rules.deny_cidr.into_iter().collect(),
        };
        Ok(match rules.level {
            Level::Everything => Self::Everything { rules: read },
            Level::Listed => Self::Listed { rules: read },
            Level::Nothing => Self::Nothing,
        })
    }
}

/// Sends one message. One at a time: callers share the stream behind a lock.
pub(crate) async fn send(
    stream: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_MESSAGE);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the rules are too long"))?;
    let count = u8::try_from(descriptors.len()).ok().filter(|_| descriptors.len() <= MAX_DESCRIPTORS);
    let count = count.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let bytes = [&length.to_be_bytes()[..], &[count], &body].concat();
    let mut sent = 0;
    while sent < bytes.len() {
        sent += stream
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                // With the first byte, once.
                if sent == 0 && !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
                {
                    return Err(io::Error::from(io::ErrorKind::InvalidInput));
                }
                let rest = [IoSlice::new(&bytes[sent..])];
                Ok(rustix::net::sendmsg(stream.as_fd(), &rest, &mut ancillary, SendFlags::NOSIGNAL)?)
            })
            .await?;
    }
    Ok(())
}

/// What was received and not yet taken.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Inbox {
    /// The next message and its descriptors; `None` at the end.
    pub(crate) async fn receive<M: DeserializeOwned>(
        &mut self,
        stream: &UnixStream,
    ) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        loop {
            if let Some(&[a, b, c, d, count]) = self.bytes.first_chunk::<HEAD>() {
                let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                if length > MAX_MESSAGE {
                    return Err(io::Error::from(io::ErrorKind::InvalidData));
                }
                // By count: the kernel hands descriptors over with whatever bytes came before theirs.
                let count = usize::from(count);
                if let Some(body) = self.bytes.get(HEAD..HEAD + length)
                    && self.descriptors.len() >= count
                {
                    let message = serde_json::from_slice(body)?;
                    self.bytes.drain(..HEAD + length);
                    return Ok(Some((message, self.descriptors.drain(..count).collect())));
                }
            }
            if self.fill(stream).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn fill(&mut self, stream: &UnixStream) -> io::Result<usize> {
        let mut part = vec![0; 64 << 10];
        let (count, descriptors) = stream
            .async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut slices = [IoSliceMut::new(&mut part)];
                let message =
                    rustix::net::recvmsg(stream.as_fd(), &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                let descriptors: Vec<OwnedFd> = ancillary
                    .drain()
                    .filter_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                        _ => None,
                    })
                    .flatten()
                    .collect();
                Ok((message.bytes, descriptors))
            })
            .await?;
        self.bytes.extend_from_slice(&part[..count]);
        self.descriptors.extend(descriptors);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_the_way() {
        let rules = NetworkRules {
            allow: ["a.org", "*.b.org", "tcp://c.org:22", "ws://d.org", "https://e.org"]
                .map(|text| text.parse().unwrap())
                .into(),
            allow_cidr: ["203.0.113.0/24".parse().unwrap()].into(),
            allow_private_answers: ["a.org".parse().unwrap()].into(),
            deny: ["x.b.org".parse().unwrap()].into(),
            deny_cidr: ["203.0.113.9/32".parse().unwrap()].into(),
        };
        for egress in [Egress::Listed { rules: rules.clone() }, Egress::Everything { rules }, Egress::Nothing] {
            let text = serde_json::to_string(&Rules::from(&egress)).unwrap();
            let back: Rules = serde_json::from_str(&text).unwrap();
            assert_eq!(Egress::try_from(back), Ok(egress));
        }
    }

    #[tokio::test]
    async fn descriptors_travel_with_their_message() {
        let (left, right) = UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let long = "x".repeat(500_000);
        let sending = async {
            send(&left, &"before", &[]).await.unwrap();
            send(&left, &long, &[file.as_fd()]).await.unwrap();
            send(&left, &"second", &[]).await.unwrap();
            drop(left);
        };
        let receiving = async {
            let mut inbox = Inbox::default();
            // So that all lie in the socket together.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let (before, descriptors) = inbox.receive::<String>(&right).await.unwrap().unwrap();
            assert_eq!((before.as_str(), descriptors.len()), ("before", 0));
            let (first, descriptors) = inbox.receive::<String>(&right).await.unwrap().unwrap();
            assert_eq!((first.len(), descriptors.len()), (500_000, 1));
            let (second, descriptors) = inbox.receive::<String>(&right).await.unwrap().unwrap();
            assert_eq!((second.as_str(), descriptors.len()), ("second", 0));
            assert!(inbox.receive::<String>(&right).await.unwrap().is_none());
        };
        tokio::join!(sending, receiving);
    }
}
