//! Bytes between a connection inside a sandbox, which its guest holds, and one end of a pair of sockets, whose other end
//! the gateway holds.
//!
//! An end of what one side sends is passed on as such. A pair has no reset of its own: whoever breaks off says so by another
//! way, and closes his end when the other one has. One who is gone has closed without having said that nothing more comes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::Connection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::UnixStream;

/// How much is moved at once, from the gateway and from the guest. Of the first, room is made when there is something;
/// whoever waits for a guest has his all the time.
const INWARD: usize = 32 << 10;
const OUTWARD: usize = 16 << 10;
/// How often somebody who waits looks whether the gateway is still there.
const LOOK: Duration = Duration::from_millis(500);
/// What a connection may still take when the gateway has left: after its both ends, and before.
const LINGER: Duration = Duration::from_mins(1);
const GRACE: Duration = Duration::from_secs(2);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bridged {
    /// Both sides have said everything.
    Done,
    /// The guest's side broke.
    Broken,
    /// The gateway's side broke it off.
    Left,
}

/// Carries bytes both ways to their ends. The guest's connection is closed when this returns.
pub(crate) async fn bridge(connection: Connection, socket: &UnixStream) -> Bridged {
    let (from_guest, to_guest) = tokio::io::split(connection);
    let told = AtomicBool::new(false);
    let (inward, outward) = (inward(socket, to_guest, &told), outward(socket, from_guest, &told));
    tokio::pin!(inward, outward);
    let watch = watch(socket, &told);
    tokio::pin!(watch);
    let (mut in_done, mut out_done) = (false, false);
    while !(in_done && out_done) {
        let ended = tokio::select! {
            ended = &mut inward, if !in_done => { in_done = true; ended }
            ended = &mut outward, if !out_done => { out_done = true; ended }
            () = &mut watch => Bridged::Left,
        };
        if ended != Bridged::Done {
            return ended;
        }
    }
    Bridged::Done
}

/// Waits until the other end is closed, so that nobody there takes what broke for what ended.
pub(crate) async fn wait_for_farewell(socket: &UnixStream) {
    let gone = async {
        while !is_closed(socket) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let _ = tokio::time::timeout(GRACE, gone).await;
}

/// From the gateway to the guest.
async fn inward(socket: &UnixStream, mut to_guest: WriteHalf<Connection>, told: &AtomicBool) -> Bridged {
    loop {
        let Ok(part) = read(socket).await else { return Bridged::Left };
        match part.len() {
            0 if is_closed(socket) && !told.load(Ordering::Relaxed) => return Bridged::Left,
            0 => {
                // One that is over says so to whoever reads from it.
                let _ = to_guest.shutdown().await;
                return Bridged::Done;
            }
            _ if to_guest.write_all(&part).await.is_err() || to_guest.flush().await.is_err() => return Bridged::Done,
            _ => {}
        }
    }
}

/// From the guest to the gateway.
async fn outward(socket: &UnixStream, mut from_guest: ReadHalf<Connection>, told: &AtomicBool) -> Bridged {
    let mut buffer = vec![0; OUTWARD];
    loop {
        match from_guest.read(&mut buffer).await {
            Ok(0) => {
                told.store(true, Ordering::Relaxed);
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
                return Bridged::Done;
            }
            Ok(count) => {
                if write_all(socket, &buffer[..count]).await.is_err() {
                    return Bridged::Left;
                }
            }
            Err(_) => return Bridged::Broken,
        }
    }
}

/// Resolves when the gateway has closed its end and what was under way had its time: whoever waits for a program that
/// does not read would wait for ever.
async fn watch(socket: &UnixStream, told: &AtomicBool) {
    while !is_closed(socket) {
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(if told.load(Ordering::Relaxed) { LINGER } else { GRACE }).await;
}

/// What has come; nothing at the end.
async fn read(socket: &UnixStream) -> io::Result<Vec<u8>> {
    loop {
        socket.readable().await?;
        let mut part = vec![0; INWARD];
        match socket.try_read(&mut part) {
            Ok(count) => {
                part.truncate(count);
                return Ok(part);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write_all(socket: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether both directions of a pair are over. Where we have not ended ours, the other end is closed.
fn is_closed(socket: &UnixStream) -> bool {
    let mut set = [PollFd::new(socket, PollFlags::empty())];
    poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
