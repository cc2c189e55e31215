//! Connections from inside a sandbox, used outside: what arrives, what ends, what fails.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use std::time::Duration;

use crate::common::{command, request, sh};
use sandbox::{Connection, DialError, DialFailure, Event, Exec, Network, Request, Running, Sandbox, SessionError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(15);

/// A server inside that serves one client by a Perl program, which finds it in `$c`; its port.
async fn serve(sandbox: &Sandbox, program: &str) -> (Running, u16) {
    let script = format!(
        "use IO::Socket::INET; $| = 1; my $l = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die; \
         print $l->sockport, \"\\n\"; my $c = $l->accept; binmode $c; {program}"
    );
    let mut running = sandbox.start(Exec { timeout_ms: None, ..command(&["perl", "-e", &script]) }).unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        match running.next().await {
            Event::Output(_, bytes) => line.extend(bytes),
            other => panic!("{other:?}"),
        }
    }
    (running, String::from_utf8(line).unwrap().trim().parse().unwrap())
}

async fn dial(sandbox: &Sandbox, host: &str, port: u16) -> Result<Connection, DialError> {
    timeout(SOON, sandbox.dial(host, port, Duration::from_secs(5))).await.unwrap()
}

fn why(failed: Result<Connection, DialError>) -> DialFailure {
    match failed {
        Err(DialError::Failed { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

const ECHO: &str = "while (sysread $c, my $part, 65536) { my $o = 0; while ($o < length $part) { $o += syswrite $c, $part, 65536, $o } }";

#[tokio::test]
async fn bytes_come_back_and_an_end_is_an_end() {
    for sandbox in [crate::common::create().await, sandbox::start_local().await.unwrap()] {
        let (_server, port) = serve(&sandbox, ECHO).await;
        let mut connection = dial(&sandbox, "localhost", port).await.unwrap();
        connection.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        connection.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"hello");
        // Half closed: what was sent is answered after the end of what is sent.
        connection.write_all(b"and goodbye").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut rest = Vec::new();
        timeout(SOON, connection.read_to_end(&mut rest)).await.unwrap().unwrap();
        assert_eq!(rest, b"and goodbye");
        assert_eq!(connection.read(&mut back).await.unwrap(), 0);
        assert!(connection.write_all(b"more").await.is_err());
    }
}

#[tokio::test]
async fn other_side_may_end_first() {
    let sandbox = crate::common::create().await;
    let (mut server, port) =
        serve(&sandbox, "print $c 'bye'; $c->flush; shutdown $c, 1; local $/; print STDOUT <$c>").await;
    let mut connection = dial(&sandbox, "127.0.0.1", port).await.unwrap();
    let mut all = String::new();
    connection.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "bye");
    connection.write_all(b"still heard").await.unwrap();
    connection.shutdown().await.unwrap();
    match timeout(SOON, server.next()).await.unwrap() {
        Event::Output(_, bytes) => assert_eq!(bytes, b"still heard"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn much_passes_both_ways_whoever_is_slow() {
    let sandbox = crate::common::create().await;
    let (_server, port) = serve(&sandbox, ECHO).await;
    let connection = dial(&sandbox, "127.0.0.1", port).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(connection);
    let all: Vec<u8> = (0..=250).cycle().take(20 << 20).collect();
    let expected = all.clone();
    let sending = tokio::spawn(async move {
        writer.write_all(&all).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    // Nobody reads: windows fill up, and the sandbox goes on serving others.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!sending.is_finished());
    assert_eq!(sh(&sandbox, "echo here").await, "here");
    let mut back = Vec::new();
    timeout(Duration::from_mins(1), reader.read_to_end(&mut back)).await.unwrap().unwrap();
    assert!(back == expected, "{} bytes", back.len());
    sending.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_reached_says_why() {
    let sandbox = crate::common::create().await;
    assert_eq!(why(dial(&sandbox, "127.0.0.1", 9).await), DialFailure::Refused);
    assert_eq!(why(dial(&sandbox, "[::1]", 9).await), DialFailure::Refused);
    // Only loopback: no way leads out, and nobody is there to ask.
    assert_eq!(why(dial(&sandbox, "93.184.215.10", 80).await), DialFailure::Unreachable);
    assert_eq!(why(dial(&sandbox, "www.example.org", 80).await), DialFailure::NoResolver);
    for nonsense in ["", "a b", "a..b", "ä.org", &"a".repeat(70), &"a.".repeat(3_000_000)] {
        assert_eq!(why(dial(&sandbox, nonsense, 80).await), DialFailure::Invalid);
    }
    assert_eq!(sh(&sandbox, "echo here").await, "here");
}

/// A name server inside that says nothing but this to every question.
fn name_server(tail: &str) -> String {
    format!(
        "use IO::Socket::INET; $| = 1; my $s = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1', LocalPort => 53) or die; \
         print \"up\\n\"; while (1) {{ my $p = recv $s, my $q, 600, 0; my $r = $q; {tail} send $s, $r, 0, $p }}"
    )
}

async fn with_names(tail: &str) -> (Sandbox, Running) {
    let sandbox = crate::common::create().await;
    sandbox.write_file("/etc/resolv.conf", b"nameserver 127.0.0.1\n", 0o644).await.unwrap();
    let exec = Exec { timeout_ms: None, ..command(&["perl", "-e", &name_server(tail)]) };
    let mut running = sandbox.start(exec).unwrap();
    assert!(matches!(timeout(SOON, running.next()).await.unwrap(), Event::Output(..)));
    (sandbox, running)
}

#[tokio::test]
async fn names_are_asked_for_inside() {
    let (sandbox, _names) = with_names(
        "substr($r, 2, 2) = pack('H*', '8180'); substr($r, 6, 2) = pack('n', 1); $r .= pack('H*', 'c00c00010001000000010004') . chr(127) . pack('H*', '000001');",
    )
    .await;
    let (_server, port) = serve(&sandbox, ECHO).await;
    let mut connection = dial(&sandbox, "www.example.org", port).await.unwrap();
    connection.write_all(b"x").await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), b'x');
    let (sandbox, _names) = with_names("substr($r, 2, 2) = pack('H*', '8183');").await;
    assert_eq!(why(dial(&sandbox, "www.example.org", 80).await), DialFailure::UnknownName);
    let (sandbox, _names) = with_names("substr($r, 2, 2) = pack('H*', '8182');").await;
    assert_eq!(why(dial(&sandbox, "www.example.org", 80).await), DialFailure::NoResolver);
    // An answer to another question is none, and its time is up; so is that of one who says nothing.
    let (sandbox, _names) = with_names("substr($r, 0, 2) = 'no';").await;
    let failed = timeout(SOON, sandbox.dial("www.example.org", 80, Duration::from_millis(500))).await.unwrap();
    assert_eq!(why(failed), DialFailure::TimedOut);
    // What the workload put in the place of the settings is not waited for.
    sh(&sandbox, "rm /etc/resolv.conf; mkfifo /etc/resolv.conf").await;
    assert_eq!(why(dial(&sandbox, "www.example.org", 80).await), DialFailure::NoResolver);
}

#[tokio::test]
async fn a_connection_that_is_dropped_is_broken_off() {
    let sandbox = crate::common::create().await;
    let say = "my $n = sysread $c, my $part, 10; print STDOUT defined $n ? qq(end\\n) : qq(reset\\n);";
    let (mut server, port) = serve(&sandbox, say).await;
    let connection = dial(&sandbox, "127.0.0.1", port).await.unwrap();
    // Its end was not said: what was sent may not be all.
    drop(connection);
    match timeout(SOON, server.next()).await.unwrap() {
        Event::Output(_, bytes) => assert_eq!(bytes, b"reset\n"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_broken_connection_is_an_error() {
    let sandbox = crate::common::create().await;
    let (_server, port) =
        serve(&sandbox, "sysread $c, my $part, 1; setsockopt $c, 1, 13, pack('ii', 1, 0); close $c;").await;
    let mut connection = dial(&sandbox, "127.0.0.1", port).await.unwrap();
    connection.write_all(b"x").await.unwrap();
    let error = timeout(SOON, connection.read_u8()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_connection_ends_with_its_sandbox() {
    let sandbox = crate::common::create().await;
    let (_server, port) = serve(&sandbox, ECHO).await;
    let mut connection = dial(&sandbox, "127.0.0.1", port).await.unwrap();
    let session = sandbox.session().clone();
    sandbox.stop().await.unwrap();
    timeout(SOON, session.gone()).await.unwrap();
    assert!(timeout(SOON, connection.read_u8()).await.unwrap().is_err());
    let written = timeout(SOON, async { connection.write_all(&vec![0; 4 << 20]).await }).await.unwrap();
    assert!(written.is_err());
}

#[tokio::test]
async fn a_dead_sandbox_dials_nothing() {
    let sandbox = crate::common::create().await;
    sandbox.session().shutdown();
    timeout(SOON, sandbox.session().gone()).await.unwrap();
    assert!(matches!(dial(&sandbox, "127.0.0.1", 80).await, Err(DialError::Session(SessionError::Died(_)))));
}

#[tokio::test]
async fn who_shares_a_sandbox_dials_too() {
    let sandbox = crate::common::create().await;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let sharing = tokio::spawn(sandbox::share(sandbox.session().clone(), None, listener));
    let joined = Sandbox::join(&socket).await.unwrap();
    let (_server, port) = serve(&sandbox, ECHO).await;
    let mut connection = dial(&joined, "127.0.0.1", port).await.unwrap();
    connection.write_all(b"through").await.unwrap();
    connection.shutdown().await.unwrap();
    let mut back = String::new();
    timeout(SOON, connection.read_to_string(&mut back)).await.unwrap().unwrap();
    assert_eq!(back, "through");
    sharing.abort();
}

#[tokio::test]
async fn captured_networks_are_dialed_into_their_listeners() {
    let captured = Request { network: Network::Captured, ..request() };
    let (sandbox, _capture) = crate::common::engine().create_captured(captured).await.unwrap();
    // Nobody accepts: the kernel's queue does, and nothing of ours left for the world.
    let mut connection = dial(&sandbox, "93.184.215.10", 80).await.unwrap();
    connection.write_all(b"x").await.unwrap();
    assert!(timeout(Duration::from_millis(200), connection.read_u8()).await.is_err());
}
