//! What runner and zygote say to each other: one record per packet, descriptors beside it. Both ends are ours.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroups::Limits;

/// The longest record.
const MAX_PACKET: usize = 64 << 10;
/// Most records are an answer or a word, and fit into this.
const SHORT: usize = 1 << 10;
/// The most descriptors beside one.
const MAX_DESCRIPTORS: usize = 4;

/// What a sandbox's root is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Image {
    /// The host's programs, and nothing else of the host.
    Host,
    /// A directory on the host.
    Directory(String),
    /// Directories on the host that are laid over each other, the top one first.
    Layers(Vec<String>),
    /// What was changed in a sandbox of another image, as directories on the host, the top one first, over that image.
    Over(Box<Image>, Vec<String>),
    /// What a sandbox of this zygote had become when it was frozen.
    Snapshot(u32),
    /// The same, but with the root directory, programs and settings as they were in another snapshot, or in the image:
    /// a scorer should not run programs of the agent that it judges. Of `/`, only directories are as they were left.
    Scene {
        /// What is judged.
        files: u32,
        /// Whose root and programs; `None` for the image's.
        tools: Option<u32>,
        /// Names of directories in `/` that are as they were left although they were not there before. Mounts have theirs.
        declared: Vec<String>,
    },
}

/// A host path that is shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The host's path, absolute.
    pub source: String,
    /// The path inside, absolute.
    pub target: String,
    /// Whether it may be written.
    pub writable: bool,
}

/// A mount whose source was opened and checked before: its path must still lead to the same file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The mount; its source has no links in it.
    pub mount: Mount,
    /// The device and inode numbers of the file that was checked. The caller keeps it open until the sandbox is created.
    pub device: u64,
    /// See `device`.
    pub inode: u64,
}

/// A sandbox to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Unique in its run.
    pub id: u32,
    /// Part of the names of its groups: unique on this machine.
    pub name: String,
    /// Its root.
    pub image: Image,
    /// The device and inode numbers of the directory at the bottom of `image` ([`Image::Directory`]), as it was checked. Its path
    /// has no links in it, and the caller keeps it open until the sandbox is created.
    pub directory: Option<(u64, u64)>,
    /// Its limits; `None` where the host cannot hold any.
    pub limits: Option<Limits>,
    /// Bytes that it may write.
    pub disk: u64,
    /// Files that it may make.
    pub inodes: u64,
    /// Host paths that are shown inside.
    pub mounts: Vec<Shown>,
    /// Whether setuid programs work inside (within its own user namespace).
    pub allow_setuid: bool,
    /// Its network.
    pub network: Network,
}

/// What a sandbox finds as its network. Never the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Only its own loopback: every attempt to leave fails at once, and nobody learns of it.
    Loopback,
    /// The same, but attempts land on listeners that are handed out for somebody outside to serve.
    Captured,
    /// The same, but attempts land on listeners of the guest's own, which relays them over its control stream.
    Relayed,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The guest's end of the control stream comes with it.
    Create(Box<Spec>),
    Destroy {
        id: u32,
    },
    /// Keep so many sandboxes begun, of one kind; `name` is part of the names of their groups.
    Prepare {
        network: Network,
        limits: Option<Limits>,
        name: String,
        count: u32,
    },
    /// End a sandbox and keep what it wrote, as this snapshot.
    Freeze {
        id: u32,
        snapshot: u32,
    },
    /// Nobody will fork this snapshot any more.
    Forget {
        snapshot: u32,
    },
    /// Freeze every process of a sandbox, its guest too, by the kernel.
    Pause {
        id: u32,
    },
    Resume {
        id: u32,
    },
    /// Whether a sandbox ended because its guest was killed for want of memory: done if so, else failed.
    Starved {
        id: u32,
    },
    /// Where control groups can be made.
    Groups,
    /// Write what a sandbox or a snapshot changed of its image, as one layer's archive, into the first descriptor that
    /// comes with it, and then into the second how that went.
    Archive {
        what: Changed,
        limit: u64,
    },
}

/// Whose changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Changed {
    /// A sandbox that runs.
    Sandbox(u32),
    /// A snapshot.
    Snapshot(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// With the listeners of a captured network beside it.
    Created {
        pid: i32,
    },
    Groups {
        place: String,
    },
    Done,
    /// A sandbox was told to end, and a process of it has not ended yet. The zygote removes what is left when it has.
    NotEnded,
    Failed {
        step: String,
        errno: i32,
    },
}

pub(crate) fn send(socket: impl AsFd, record: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = postcard::to_allocvec(record).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    if bytes.len() > MAX_PACKET {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a sandbox's description is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Room for the longest record, to be used again and again: every page of it is touched when it is made.
pub(crate) fn room() -> Box<[u8]> {
    vec![0; MAX_PACKET].into_boxed_slice()
}

/// The next record and its descriptors, where it is a short one; `None` at the end.
pub(crate) fn receive<R: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(R, Vec<OwnedFd>)>> {
    receive_into(socket, &mut [0; SHORT])
}

/// The next record and its descriptors, however long it is; `None` at the end.
pub(crate) fn receive_long<R: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(R, Vec<OwnedFd>)>> {
    let mut nothing = RecvAncillaryBuffer::default();
    let look = RecvFlags::PEEK | RecvFlags::TRUNC;
    let length = recvmsg(&socket, &mut [], &mut nothing, look)?.bytes;
    receive_into(socket, &mut vec![0; length.min(MAX_PACKET)])
}

/// The next record and its descriptors; `None` at the end. One that is longer than `bytes` is an error.
pub(crate) fn receive_into<R: DeserializeOwned>(
    socket: impl AsFd,
    bytes: &mut [u8],
) -> io::Result<Option<(R, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        })
        .flatten()
        .collect();
    if message.bytes == 0 {
        return Ok(None);
    }
    let record =
        postcard::from_bytes(&bytes[..message.bytes]).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some((record, descriptors)))
}
