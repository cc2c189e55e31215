//! What a probe tries inside a sandbox, and what came of it.
//!
//! An attempt is run like a command, with the rights of a command, but by the guest's own code: it needs no program of
//! the image. Few primitives; what they mean for a control is said by whoever asks.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::message::FailureKind;
use crate::tree::Part;

/// The most that an attempt reads of anything, in bytes.
pub const MAX_ATTEMPTED: usize = 64 << 10;

/// One argument of a system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Argument {
    /// A plain number.
    Number(u64),
    /// The address of these bytes, which the kernel may change. Texts end with a NUL of their own.
    Bytes(Vec<u8>),
}

/// Where a local socket listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalAddress {
    /// A name that belongs to the network namespace.
    Abstract(String),
    /// A path.
    Path(String),
}

/// Something to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    /// A system call by its number.
    Call {
        /// The number on this architecture.
        number: i64,
        /// At most six.
        arguments: Vec<Argument>,
    },
    /// Open a file and read its beginning.
    Read {
        /// Where.
        path: String,
    },
    /// Open a file for writing, and write nothing.
    OpenForWriting {
        /// Where.
        path: String,
    },
    /// Make a file.
    Create {
        /// Where.
        path: String,
        /// Its contents.
        bytes: Vec<u8>,
    },
    /// Where a link leads.
    ReadLink {
        /// Which.
        path: String,
    },
    /// What is in a directory.
    List {
        /// Which.
        path: String,
    },
    /// Which descriptors a command is born with, beyond the three standard ones.
    Descriptors,
    /// Connect, send, and receive until the end.
    Tcp {
        /// To whom.
        to: SocketAddr,
        /// What.
        send: Vec<u8>,
        /// How long all of it may take.
        timeout_ms: u64,
    },
    /// Send one datagram and wait for one.
    Udp {
        /// To whom.
        to: SocketAddr,
        /// What.
        send: Vec<u8>,
        /// How long to wait.
        timeout_ms: u64,
    },
    /// Send an ICMP echo request and wait for its reply.
    Ping {
        /// To whom.
        to: IpAddr,
        /// What it carries.
        payload: Vec<u8>,
        /// How long to wait.
        timeout_ms: u64,
    },
    /// Connect to a local socket and receive until the end.
    Local {
        /// Which.
        to: LocalAddress,
        /// How long all of it may take.
        timeout_ms: u64,
    },
    /// Listen on a TCP port of every address, and answer whoever connects.
    Listen {
        /// Which.
        port: u16,
        /// The answer.
        reply: Vec<u8>,
        /// For how long.
        timeout_ms: u64,
    },
    /// Use this much memory.
    Memory {
        /// How much.
        bytes: u64,
    },
    /// Have this many processes at the same time.
    Processes {
        /// How many.
        count: u32,
    },
    /// Have this many files open at the same time.
    OpenFiles {
        /// How many.
        count: u32,
    },
    /// Write one file of this size; it is removed afterwards.
    Fill {
        /// The directory.
        directory: String,
        /// How large.
        bytes: u64,
    },
    /// Make this many empty files; they are removed afterwards.
    Files {
        /// The directory.
        directory: String,
        /// How many.
        count: u32,
    },
    /// Send a regular file to standard output. No [`Attempted`] is written: a failure is a code, and words on standard
    /// error ([`TransferFailure`]).
    SendFile {
        /// Where.
        path: String,
        /// Fail if it is larger.
        limit: u64,
    },
    /// Write standard input to a file, making its parents. Failures are told as those of `SendFile`.
    TakeFile {
        /// Where.
        path: String,
        /// Permission bits of a new file.
        permissions: u32,
    },
    /// Say what is in a directory: one [`Entry`](crate::Entry) after the other on standard output. Failures are told as
    /// those of `SendFile`.
    ListFiles {
        /// Which.
        path: String,
    },
    /// Say what is at a path, a link itself: a [`Stat`](crate::Stat) on standard output. Failures are told as those of
    /// `SendFile`.
    StatFile {
        /// Where.
        path: String,
    },
    /// Send a part of the file system to standard output as [`Item`](crate::Item)s. Failures are told as those of `SendFile`.
    SendTree {
        /// Which part.
        part: Part,
        /// Paths of mounts that the receiver has too; they are not looked into.
        shared: Vec<String>,
        /// Whether entries that did not change since the guest started are [`Item::Kept`](crate::Item::Kept).
        changes_only: bool,
    },
    /// Make a part of the file system from [`Item`](crate::Item)s on standard input. Failures are told as those of `SendFile`; an entry
    /// that was sent as unchanged and is another here is [`FailureKind::Conflict`].
    TakeTree {
        /// Which part.
        part: Part,
        /// Directories in `/` that need not be there before.
        declared: Vec<String>,
        /// Paths of mounts that the sender has too; they stay as they are.
        shared: Vec<String>,
    },
}

/// Why a transfer by a child failed: kinds as exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferFailure;

impl TransferFailure {
    /// The kinds, by their codes from 64 on: below are those of a child that came to another end.
    const KINDS: [FailureKind; 9] = [
        FailureKind::Other,
        FailureKind::NotFound,
        FailureKind::PermissionDenied,
        FailureKind::IsADirectory,
        FailureKind::NotADirectory,
        FailureKind::NotRegular,
        FailureKind::TooLarge,
        FailureKind::Exhausted,
        FailureKind::Conflict,
    ];

    /// The exit code of a kind.
    pub fn code(kind: FailureKind) -> i32 {
        let index = Self::KINDS.iter().position(|known| *known == kind).unwrap_or(0);
        64 + i32::try_from(index).unwrap_or(0)
    }

    /// The kind of an exit code.
    pub fn kind(code: i32) -> FailureKind {
        let index = usize::try_from(code - 64).ok();
        index.and_then(|index| Self::KINDS.get(index)).copied().unwrap_or(FailureKind::Other)
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// The type and permission bits; 0 where it could not be looked at.
    pub mode: u32,
    /// Which device it is, major and minor; both 0 for others.
    pub device: (u32, u32),
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The other side was done.
    Closed,
    /// Its time was up.
    TimedOut,
    /// With this error number.
    Broken(i32),
}

/// What came of an attempt. The host believes none of it more than a probe must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempted {
    /// The kernel said no, with this error number.
    Refused(i32),
    /// The system call returned this.
    Returned(i64),
    /// These bytes were read.
    Read(Vec<u8>),
    /// These entries are there.
    Listed(Vec<Listed>),
    /// It was sent, and this came back.
    Exchanged {
        /// What came.
        received: Vec<u8>,
        /// How it ended.
        ending: Ending,
    },
    /// It came this far; the error number that ended it, if one did.
    Amount {
        /// How far.
        amount: u64,
        /// Why not farther.
        errno: Option<i32>,
    },
}

impl Attempted {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        // Plain records into a growing buffer cannot fail; nothing would be read as no answer.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// What travelled; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((attempted, [])) => Some(attempted),
            _ => None,
        }
    }
}
