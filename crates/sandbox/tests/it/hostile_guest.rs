//! A guest that lies: whatever it says, it can only hurt its own sandbox.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at its own set-up")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use sandbox::{Sandbox, Session, SessionError};
use wire::{Guest, MAX_CHUNK, Message, PROTOCOL_VERSION, Stream, WINDOW, encode};

fn frame(message: &impl Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, &mut out).unwrap();
    out
}

/// A session with a guest that says hello, and then these bytes.
async fn session_with(bytes: Vec<u8>) -> Session {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        theirs.write_all(&frame(&Guest::Hello { version: PROTOCOL_VERSION })).unwrap();
        let mut first = [0; 64];
        // The host's hello, then the first question.
        let _ = theirs.read(&mut first);
        let _ = theirs.write_all(&bytes);
        // Held open: an end would hide what the bytes did.
        std::thread::sleep(Duration::from_secs(20));
    });
    Session::open(tokio::net::UnixStream::from_std(ours).unwrap()).await.unwrap()
}

async fn dies_of(bytes: Vec<u8>, reason: &str) {
    let session = session_with(bytes).await;
    tokio::time::timeout(Duration::from_secs(10), session.gone()).await.expect("the session ended");
    let SessionError::Died(said) = session.ping(Duration::from_secs(1)).await.unwrap_err() else {
        unreachable!("a failure")
    };
    assert!(said.contains(reason), "{said}");
}

#[tokio::test]
async fn guest_frame_garbage() {
    dies_of(vec![0xff; 100], "longer than").await;
    dies_of(vec![5, 0, 0, 0, 250, 0, 0, 0, 0], "unknown frame kind").await;
    dies_of(vec![0, 0, 0, 0], "no head").await;
}

#[tokio::test]
async fn guest_frame_oversize() {
    dies_of(0x7fff_ffff_u32.to_le_bytes().to_vec(), "longer than").await;
}

#[tokio::test]
async fn guest_sends_empty_chunks() {
    dies_of(frame(&Guest::Output { id: 1, stream: Stream::Out, bytes: Vec::new() }), "empty chunk").await;
    dies_of(frame(&Guest::Entries { id: 1, entries: Vec::new(), last: false }), "empty list").await;
}

#[tokio::test]
async fn guest_hello_twice() {
    dies_of(frame(&Guest::Hello { version: PROTOCOL_VERSION }), "hello twice").await;
}

#[tokio::test]
async fn guest_of_another_version() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.write_all(&frame(&Guest::Hello { version: 999 })).unwrap();
    let opened = Session::open(tokio::net::UnixStream::from_std(ours).unwrap()).await;
    assert!(matches!(opened, Err(SessionError::Died(_))));
}

#[tokio::test]
async fn guest_frame_flood() {
    // Half a million answers to questions that nobody asked: ignored, and nothing is kept of them.
    let mut flood = Vec::new();
    for id in 0..500_000 {
        flood.extend(frame(&Guest::Pong { id: 1_000_000 + id }));
    }
    let before = resident();
    let session = session_with(flood).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(session);
}

/// A guest that sends output beyond what it was granted to an operation that nobody reads.
#[tokio::test]
async fn guest_ignores_its_window() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        theirs.write_all(&frame(&Guest::Hello { version: PROTOCOL_VERSION })).unwrap();
        let mut first = [0; 4096];
        let _ = theirs.read(&mut first);
        let chunk = frame(&Guest::Output { id: 1, stream: Stream::Out, bytes: vec![0; MAX_CHUNK] });
        for _ in 0..usize::try_from(WINDOW).unwrap() / MAX_CHUNK + 2 {
            if theirs.write_all(&chunk).is_err() {
                return;
            }
        }
        std::thread::sleep(Duration::from_secs(20));
    });
    let session = Session::open(tokio::net::UnixStream::from_std(ours).unwrap()).await.unwrap();
    // The first operation has the id 1; its answer is awaited, and the chunks pile up behind a wrong one.
    let _ = session.ping(Duration::from_secs(5)).await;
    tokio::time::timeout(Duration::from_secs(10), session.gone()).await.ok();
    let resident = resident();
    assert!(resident < 1 << 30, "{resident}");
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A sandbox whose guest answers the first request, whatever it is, with this.
async fn answering(said: impl IntoIterator<Item = Guest> + Send + 'static) -> Sandbox {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&frame(&Guest::Hello { version: PROTOCOL_VERSION })).unwrap();
        let mut decoder = wire::Decoder::new();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer).unwrap();
            decoder.push(&buffer[..count]);
            let mut requests = std::iter::from_fn(|| decoder.take::<wire::Host>().unwrap());
            if requests.any(|request| !matches!(request, wire::Host::Hello { .. })) {
                break;
            }
        }
        for message in said {
            if stream.write_all(&frame(&message)).is_err() {
                return;
            }
        }
        std::thread::sleep(Duration::from_secs(20));
    });
    Sandbox::join(&socket).await.unwrap()
}

/// What a host hears that dials, when a guest says this of the connection.
async fn dials(said: Vec<Guest>) -> (Result<sandbox::Connection, sandbox::DialError>, Sandbox) {
    let sandbox = answering(said).await;
    let dialed = sandbox.dial("www.example.org", 80, Duration::from_secs(1)).await;
    (dialed, sandbox)
}

#[tokio::test]
async fn guest_connects_again_and_again() {
    // What costs no window may be said once.
    let (chunk, id) = (vec![0], 1);
    for said in [
        vec![Guest::Connected { id }; 2],
        vec![Guest::Connected { id }, Guest::OutputEnd { id }, Guest::OutputEnd { id }],
        vec![Guest::Connected { id }, Guest::OutputEnd { id }, Guest::Output { id, stream: Stream::Out, bytes: chunk }],
    ] {
        let (_connection, sandbox) = dials(said).await;
        tokio::time::timeout(Duration::from_secs(10), sandbox.session().gone()).await.expect("the session ended");
    }
    // Something else than an answer.
    let (dialed, _sandbox) = dials(vec![Guest::Pong { id }]).await;
    assert!(matches!(dialed, Err(sandbox::DialError::Session(SessionError::Died(_)))));
}

/// Some entries of a directory with names of this many bytes.
fn entries(count: usize, length: usize, last: bool) -> Guest {
    let stat = wire::Stat { kind: wire::FileKind::File, size: 0, permissions: 0 };
    let entries = vec![wire::Entry { name: vec![b'n'; length], stat }; count];
    Guest::Entries { id: 1, entries, last }
}

/// What a host hears that lists a directory.
async fn lists(said: impl IntoIterator<Item = Guest> + Send + 'static) -> Result<Vec<wire::Entry>, SessionError> {
    let sandbox = answering(said).await;
    tokio::time::timeout(Duration::from_secs(10), sandbox.list("/")).await.expect("a list has an end")
}

fn is_without_end(listed: &Result<Vec<wire::Entry>, SessionError>) -> bool {
    matches!(listed, Err(SessionError::Died(why)) if why.contains("lists without end"))
}

#[tokio::test]
async fn guest_lists_names_without_end() {
    let before = resident();
    // Two hundred names, which is few; two megabytes each, which is 400 MB.
    let listed = lists((0..200).map(|_| entries(1, 2 << 20, false))).await;
    assert!(is_without_end(&listed), "{} entries", listed.map_or(0, |all| all.len()));
    let grown = resident().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes");
    // By number, in frames of a size that an honest guest sends.
    let listed = lists((0..300).map(|_| entries(512, 1, false))).await;
    assert!(is_without_end(&listed), "{} entries", listed.map_or(0, |all| all.len()));
    // What an honest guest may send is taken.
    let honest = (0..100).map(|_| entries(512, 255, false)).chain([entries(0, 0, true)]);
    assert_eq!(lists(honest).await.unwrap().len(), 51_200);
}

#[tokio::test]
async fn guest_lists_long_paths_without_end() {
    // Links are left out, and their paths are kept for the caller: 60 of 200 kB each.
    let links = |last| {
        let stat = wire::Stat { kind: wire::FileKind::Link, size: 0, permissions: 0 };
        Guest::Entries { id: 1, entries: vec![wire::Entry { name: vec![b'n'; 200_000], stat }; 20], last }
    };
    let sandbox = answering(vec![links(false), links(false), links(true)]).await;
    let target = tempfile::tempdir().unwrap();
    let limits = sandbox::TreeLimits { paths: 8 << 20, ..sandbox::TreeLimits::default() };
    let downloaded = sandbox.download("/srv", &target.path().join("copy"), limits).await;
    assert!(matches!(downloaded, Err(sandbox::TreeError::TooLarge)), "{downloaded:?}");
}
