//! What host and guest say to each other.

use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::attempt::Attempt;
use crate::frame::{FrameError, Message};

/// The version that both sides must speak.
pub const PROTOCOL_VERSION: u32 = 6;
/// How many bytes of a stream may be under way before the receiver grants more.
pub const WINDOW: u32 = 1 << 20;
/// The longest question of a program's that is passed on.
pub const MAX_QUESTION: usize = 2048;
/// The most entries of one directory, and the most bytes of their names together: a name may be long, and a count alone
/// would bound nothing.
pub const MAX_LISTED: usize = 100_000;
/// See [`MAX_LISTED`].
pub const MAX_LISTED_BYTES: usize = 16 << 20;

/// One of a command's output streams; a file that is read travels as `Out`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output, or everything of a terminal.
    Out,
    /// Standard error.
    Err,
}

/// Who a command runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum User {
    /// The sandbox's own default: root inside.
    Default,
    /// A name of the sandbox's passwd file, or `uid` or `uid:gid` in decimal.
    Named(String),
}

/// A terminal's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// The program and its arguments; never empty. A program without a slash is looked up in `PATH`.
    pub argv: Vec<String>,
    /// The whole environment but `HOME`, `USER` and `PATH`, which have defaults.
    pub env: Vec<(String, String)>,
    /// The working directory; absent means the user's home.
    pub cwd: Option<String>,
    /// Who it runs as.
    pub user: User,
    /// A terminal of this size instead of pipes.
    pub pty: Option<WindowSize>,
    /// Ends the whole tree after this many milliseconds.
    pub timeout_ms: Option<u64>,
    /// Ends the whole tree when a stream exceeds this many bytes.
    pub max_output: Option<u64>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// Replaces what is there.
    Replace,
    /// Adds at the end.
    Append,
}

/// Where a confined operation works: nothing outside the root is reached, whoever swaps what meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// An absolute path; no part of it may be a link.
    pub root: String,
    /// Below the root, relative, without `..`; empty is the root itself. No part of it may be a link.
    pub path: String,
    /// Whose rights count.
    pub user: User,
}

/// What a confined look is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Look {
    /// What is there: answered as a stat.
    Stat,
    /// What is in that directory: answered as a list.
    List,
    /// Whether files can be read there.
    Readable,
    /// Whether files can be made there too; directories that are missing are made.
    Writable,
}

/// What the host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// First of all.
    Hello {
        /// The host's protocol version.
        version: u32,
    },
    /// Run a command under this id.
    Exec {
        /// Chosen by the host, never reused in a session.
        id: u32,
        /// The command.
        exec: Exec,
    },
    /// Bytes for a command's standard input, for a file that is written, or for a connection.
    Input {
        /// Which command or write.
        id: u32,
        /// At most [`crate::MAX_CHUNK`].
        bytes: Vec<u8>,
    },
    /// The input ends.
    InputEnd {
        /// Which command or write.
        id: u32,
    },
    /// The terminal has another size.
    Resize {
        /// Which command.
        id: u32,
        /// The size.
        size: WindowSize,
    },
    /// End a command's whole tree, or forget a transfer.
    Kill {
        /// Which.
        id: u32,
    },
    /// The host has taken this many bytes of a stream.
    Credit {
        /// Which command or read.
        id: u32,
        /// Which stream.
        stream: Stream,
        /// How many.
        bytes: u32,
    },
    /// Read a regular file.
    Read {
        /// The transfer's id.
        id: u32,
        /// Where.
        path: String,
        /// Fail if it is larger.
        limit: u64,
    },
    /// Write a file; its bytes follow as input.
    Write {
        /// The transfer's id.
        id: u32,
        /// Where; parents are made.
        path: String,
        /// How.
        mode: WriteMode,
        /// Permission bits of a new file.
        permissions: u32,
    },
    /// What is at a path.
    Stat {
        /// The question's id.
        id: u32,
        /// Where; a link itself is looked at.
        path: String,
    },
    /// What is in a directory.
    List {
        /// The question's id.
        id: u32,
        /// Where.
        path: String,
    },
    /// Are you there?
    Ping {
        /// The question's id.
        id: u32,
    },
    /// Stop every process but the guest where it is.
    Pause {
        /// The question's id.
        id: u32,
    },
    /// Let them go on.
    Resume {
        /// The question's id.
        id: u32,
    },
    /// End every process but the guest, in one step that no fork escapes.
    EndAll {
        /// The question's id.
        id: u32,
    },
    /// Send what was changed of the image as a layer's archive. Asked of whoever holds the sandbox; a guest cannot.
    Save {
        /// The transfer's id.
        id: u32,
    },
    /// Read a regular file under a root.
    ReadWithin {
        /// The transfer's id.
        id: u32,
        /// Where.
        within: Within,
        /// Fail if it is larger.
        limit: u64,
    },
    /// Write a file under a root, whole or not at all; its bytes follow as input.
    WriteWithin {
        /// The transfer's id.
        id: u32,
        /// Where; parents are made.
        within: Within,
        /// Permission bits of a new file.
        permissions: u32,
    },
    /// Look at something under a root.
    LookWithin {
        /// The question's id.
        id: u32,
        /// Where.
        within: Within,
        /// What for.
        look: Look,
    },
    /// End everything.
    Shutdown,
    /// Open a TCP connection from inside. Its bytes then travel as input and output; the end of the input is the end of
    /// what is sent, killing it closes it.
    Dial {
        /// The connection's id.
        id: u32,
        /// A name, or an address.
        host: String,
        /// Where it listens.
        port: u16,
        /// How long it may take until the connection stands.
        timeout_ms: u64,
        /// How many bytes may be under way in each direction; at most [`WINDOW`].
        window: u32,
    },
    /// Be the sandbox's network: listen on loopback at these ports, to which rules bring what programs send. Before any
    /// command, and once. Answered as a connection that stands; killing it closes them.
    Relay {
        /// The network's id.
        id: u32,
        /// For connections.
        tcp: u16,
        /// For questions to name servers.
        udp: u16,
    },
    /// Take the next connection of a program's. Its bytes then travel as those of a connection that was dialled.
    Accept {
        /// The connection's id.
        id: u32,
        /// How many bytes may be under way in each direction; at most [`WINDOW`].
        window: u32,
    },
    /// Take the next question of a program's to a name server.
    Query {
        /// The question's id.
        id: u32,
    },
    /// The answer to a question; nothing follows under its id. Killing it instead is silence.
    Answer {
        /// Which question.
        id: u32,
        /// A DNS message.
        answer: Vec<u8>,
    },
    /// Try something as a command of this user would, and write what came of it to standard output. It runs, and ends,
    /// like a command.
    Attempt {
        /// The command's id.
        id: u32,
        /// What to try.
        attempt: Attempt,
        /// As whom.
        user: User,
        /// Ends it after this many milliseconds.
        timeout_ms: u64,
    },
}

/// Why there is no connection, or no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DialFailure {
    /// The sandbox's resolver knows no such name.
    UnknownName,
    /// There is no resolver, or none that answers.
    NoResolver,
    /// Nobody listens there, or somebody says no.
    Refused,
    /// No way leads there.
    Unreachable,
    /// Its time was up.
    TimedOut,
    /// The other side broke it off.
    Reset,
    /// The sandbox has all the connections or descriptors that it may have.
    Exhausted,
    /// Neither a name nor an address, or an id in use.
    Invalid,
    /// Anything else; the message says more.
    Other,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It exited by itself.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Its time was up; the tree was ended.
    TimedOut,
    /// A stream exceeded its limit; the tree was ended.
    OutputLimit(Stream),
    /// The host asked for it; the tree was ended.
    Killed,
}

/// Why something could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// No such file, program or directory.
    NotFound,
    /// The sandbox's user may not.
    PermissionDenied,
    /// A directory, where a file was meant.
    IsADirectory,
    /// Something else than a directory, where one was meant.
    NotADirectory,
    /// A pipe, socket or device: neither read nor written.
    NotRegular,
    /// Larger than the limit.
    TooLarge,
    /// No such user in the sandbox.
    UnknownUser,
    /// The user exists, but its ids are not mapped into this sandbox.
    UnmappedUser,
    /// The sandbox has all the processes that it may have.
    ProcessLimit,
    /// No memory, descriptors or space left in the sandbox.
    Exhausted,
    /// Not understood: an empty argv, a NUL in a text, an id in use.
    Invalid,
    /// Anything else; the message says more.
    Other,
    /// A symbolic link, where none is followed.
    Link,
    /// A file with more than one name, one of which may lie outside the root.
    HardLink,
    /// An entry of a tree is not the one that the sender took it for.
    Conflict,
}

/// What sort of thing is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// What sort of thing.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub permissions: u32,
}

impl Stat {
    /// As it travels by itself, where a child of the guest's says it.
    pub fn encode(&self) -> Vec<u8> {
        // Plain records into a growing buffer cannot fail; nothing would be read as no answer.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// What travelled; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((stat, [])) => Some(stat),
            _ => None,
        }
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name as bytes: names need not be text.
    pub name: Vec<u8>,
    /// What is there.
    pub stat: Stat,
}

impl Entry {
    /// As it travels by itself, where a child of the guest's says it.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// One after the other; `None` where there is anything else, or more than `most`.
    pub fn decode_all(mut bytes: &[u8], most: usize) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (entry, rest) = postcard::take_from_bytes(bytes).ok()?;
            if all.len() == most {
                return None;
            }
            all.push(entry);
            bytes = rest;
        }
        Some(all)
    }
}

/// What the guest says. The host believes none of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guest {
    /// First of all: ready.
    Hello {
        /// The guest's protocol version.
        version: u32,
    },
    /// Bytes of a stream.
    Output {
        /// Which command or read.
        id: u32,
        /// Which stream.
        stream: Stream,
        /// At most [`crate::MAX_CHUNK`].
        bytes: Vec<u8>,
    },
    /// A command ended; nothing follows under this id.
    Ended {
        /// Which command.
        id: u32,
        /// How.
        outcome: Outcome,
    },
    /// A read or write is complete, or a connection is over; nothing follows under this id.
    Done {
        /// Which transfer.
        id: u32,
        /// How many bytes it was.
        bytes: u64,
    },
    /// It could not be done; nothing follows under this id.
    Failed {
        /// Which.
        id: u32,
        /// Why.
        kind: FailureKind,
        /// In words, for people.
        message: String,
    },
    /// The guest has taken this many bytes of an input.
    Credit {
        /// Which command or write.
        id: u32,
        /// How many.
        bytes: u32,
    },
    /// The answer to a stat.
    Stat {
        /// The question's id.
        id: u32,
        /// What is there; absent if nothing is.
        stat: Option<Stat>,
    },
    /// A part of the answer to a list.
    Entries {
        /// The question's id.
        id: u32,
        /// Some entries.
        entries: Vec<Entry>,
        /// Whether these are the last.
        last: bool,
    },
    /// Here.
    Pong {
        /// The question's id.
        id: u32,
    },
    /// The connection stands: input may be sent.
    Connected {
        /// Which connection.
        id: u32,
    },
    /// There is no connection, or no more; nothing follows under this id.
    DialFailed {
        /// Which connection.
        id: u32,
        /// Why.
        why: DialFailure,
        /// In words, for people.
        message: String,
    },
    /// The other side of a connection sends no more; input may go on.
    OutputEnd {
        /// Which connection.
        id: u32,
    },
    /// A program has connected: input may be sent.
    Accepted {
        /// The connection's id.
        id: u32,
        /// The address that it asked for; absent if it went straight to the listener.
        to: Option<SocketAddr>,
    },
    /// A program has a question.
    Asked {
        /// The question's id.
        id: u32,
        /// Its bytes, at most [`MAX_QUESTION`]; whether it is a question at all is for the host to say.
        question: Vec<u8>,
    },
}

/// Declares the frames of one direction: records by kind, then the one variant that carries raw chunks.
macro_rules! frames {
    ($message:ident {
        $($kind:literal => $record:ident $([$id:ident])? { $($field:ident),* },)+
    } chunks {
        write $chunk:pat => ($chunk_kind:expr, $chunk_id:expr, $bytes:expr),
        $(read $read_kind:literal => $read:expr,)+
    }) => {
        impl Message for $message {
            fn write(&self, payload: &mut Vec<u8>) -> (u8, u32) {
                match self {
                    $(Self::$record { $($id,)? $($field),* } => {
                        append(&($($field,)*), payload);
                        ($kind, 0 $(+ *$id)?)
                    })+
                    $chunk => {
                        payload.extend_from_slice($bytes);
                        ($chunk_kind, $chunk_id)
                    }
                }
            }

            fn read(kind: u8, id: u32, payload: &[u8]) -> Result<Self, FrameError> {
                match kind {
                    $($kind => {
                        let ($($field,)*) = parse(kind, payload)?;
                        Ok(Self::$record { $($id: id,)? $($field),* })
                    })+
                    $($read_kind => {
                        if payload.len() > crate::MAX_CHUNK {
                            return Err(FrameError::Malformed(kind));
                        }
                        let read: fn(u32, Vec<u8>) -> Self = $read;
                        Ok(read(id, payload.to_vec()))
                    })+
                    unknown => Err(FrameError::UnknownKind(unknown)),
                }
            }
        }
    };
}

frames!(Host {
    1 => Hello { version },
    2 => Exec [id] { exec },
    4 => InputEnd [id] {},
    5 => Resize [id] { size },
    6 => Kill [id] {},
    7 => Credit [id] { stream, bytes },
    8 => Read [id] { path, limit },
    9 => Write [id] { path, mode, permissions },
    10 => Stat [id] { path },
    11 => List [id] { path },
    12 => Ping [id] {},
    13 => Shutdown {},
    14 => Pause [id] {},
    15 => Resume [id] {},
    16 => Save [id] {},
    17 => ReadWithin [id] { within, limit },
    18 => WriteWithin [id] { within, permissions },
    19 => LookWithin [id] { within, look },
    20 => EndAll [id] {},
    24 => Dial [id] { host, port, timeout_ms, window },
    25 => Attempt [id] { attempt, user, timeout_ms },
    26 => Relay [id] { tcp, udp },
    27 => Accept [id] { window },
    28 => Query [id] {},
    29 => Answer [id] { answer },
} chunks {
    write Self::Input { id, bytes } => (3, *id, bytes),
    read 3 => |id, bytes| Self::Input { id, bytes },
});

frames!(Guest {
    64 => Hello { version },
    67 => Ended [id] { outcome },
    68 => Done [id] { bytes },
    69 => Failed [id] { kind, message },
    70 => Credit [id] { bytes },
    71 => Stat [id] { stat },
    72 => Entries [id] { entries, last },
    73 => Pong [id] {},
    80 => Connected [id] {},
    81 => DialFailed [id] { why, message },
    82 => OutputEnd [id] {},
    83 => Accepted [id] { to },
    84 => Asked [id] { question },
} chunks {
    write Self::Output { id, stream, bytes } => (if *stream == Stream::Out { 65 } else { 66 }, *id, bytes),
    read 65 => |id, bytes| Self::Output { id, stream: Stream::Out, bytes },
    read 66 => |id, bytes| Self::Output { id, stream: Stream::Err, bytes },
});

fn append(record: &impl Serialize, payload: &mut Vec<u8>) {
    // Plain records into a growing buffer cannot fail; a failure would leave a payload that the other side refuses.
    if let Ok(bytes) = postcard::to_allocvec(record) {
        payload.extend_from_slice(&bytes);
    }
}

fn parse<R: DeserializeOwned>(kind: u8, payload: &[u8]) -> Result<R, FrameError> {
    match postcard::take_from_bytes(payload) {
        Ok((record, [])) => Ok(record),
        _ => Err(FrameError::Malformed(kind)),
    }
}
