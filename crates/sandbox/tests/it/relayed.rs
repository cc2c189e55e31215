//! A network that the guest relays: what arrives is handed on, nobody else listens there, and a guest that lies about it
//! hurts only itself.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::common::{command, engine, exec, request, sh};
use sandbox::{Capture, Exec, FailureKind, Network, Relay, Request, Sandbox, Session, SessionError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use wire::{Decoder, Guest, Host, MAX_CHUNK, MAX_QUESTION, PROTOCOL_VERSION, Stream, encode};

const SOON: Duration = Duration::from_secs(15);

async fn relayed() -> (Sandbox, Relay) {
    let (sandbox, capture) =
        engine().create_captured(Request { network: Network::Relayed, ..request() }).await.unwrap();
    match capture {
        Capture::Relayed(relay) => (sandbox, relay),
        Capture::Passed(_) => panic!("another capture"),
    }
}

const CONNECT: &str = "use IO::Socket::IP; $| = 1; my $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1]) or do { print qq(no: $@); exit };";

/// A program inside that connects there, sends something and prints what comes back.
fn talk(to: &str, port: u16) -> Exec {
    let program = format!(
        "{CONNECT} print $s 'hello'; $s->flush; shutdown $s, 1; local $/; my $all = <$s>; print defined $all && !$! ? $all : 'broken'"
    );
    command(&["perl", "-e", &program, to, &port.to_string()])
}

#[tokio::test]
async fn connections_come_with_what_they_asked_for() {
    let (sandbox, relay) = relayed().await;
    for (to, port, expected) in [
        ("93.184.215.10", 80, Some("93.184.215.10:80")),
        ("2606:2800::1", 443, Some("[2606:2800::1]:443")),
        ("::ffff:93.184.215.11", 25, Some("93.184.215.11:25")),
        ("127.0.0.1", 61_953, None),
    ] {
        let answered = async {
            let mut arrived = timeout(SOON, relay.accept()).await.unwrap().unwrap();
            assert_eq!(arrived.to.map(|to| to.to_string()).as_deref(), expected);
            let mut said = String::new();
            arrived.connection.read_to_string(&mut said).await.unwrap();
            arrived.connection.write_all(said.to_uppercase().as_bytes()).await.unwrap();
            arrived.connection.shutdown().await.unwrap();
        };
        let ((), completed) = tokio::join!(answered, exec(&sandbox, talk(to, port)));
        assert_eq!(String::from_utf8_lossy(&completed.unwrap().stdout), "HELLO", "{to}");
    }
}

#[tokio::test]
async fn a_connection_that_is_dropped_is_broken() {
    let (sandbox, relay) = relayed().await;
    let dropped = async { drop(timeout(SOON, relay.accept()).await.unwrap().unwrap()) };
    let program = format!("{CONNECT} print defined(sysread $s, my $x, 1) ? 'end' : 'reset'");
    let reads = command(&["perl", "-e", &program, "93.184.215.10", "80"]);
    let ((), completed) = tokio::join!(dropped, exec(&sandbox, reads));
    assert_eq!(completed.unwrap().stdout, b"reset");
}

#[tokio::test]
async fn questions_are_answered_to_whoever_asked() {
    let (sandbox, relay) = relayed().await;
    let program = "use IO::Socket::IP; use IO::Select; my @s = map { IO::Socket::IP->new(PeerHost => '198.18.0.2', PeerPort => 53, Proto => 'udp') or die } 1 .. 5; \
        send $s[$_], qq(question $_), 0 for 0 .. 4; for (0 .. 4) { IO::Select->new($s[$_])->can_read(5) or next; recv $s[$_], my $part, 99, 0; print qq($part,) }";
    let answered = async {
        for _ in 0..5 {
            let inquiry = timeout(SOON, relay.question()).await.unwrap().unwrap();
            let question = String::from_utf8(inquiry.question.clone()).unwrap();
            // One that is dropped is silence.
            if question != "question 3" {
                inquiry.answer(question.replace("question", "answer").into_bytes());
            }
        }
    };
    let ((), completed) = tokio::join!(answered, exec(&sandbox, command(&["perl", "-e", program])));
    assert_eq!(String::from_utf8_lossy(&completed.unwrap().stdout), "answer 0,answer 1,answer 2,answer 4,");
}

#[tokio::test]
async fn who_waits_no_more_takes_nothing() {
    let (sandbox, relay) = relayed().await;
    for _ in 0..300 {
        assert!(timeout(Duration::from_millis(1), relay.accept()).await.is_err());
    }
    let answered = async {
        let mut arrived = timeout(SOON, relay.accept()).await.unwrap().unwrap();
        arrived.connection.write_all(b"here").await.unwrap();
        arrived.connection.shutdown().await.unwrap();
        let mut said = Vec::new();
        arrived.connection.read_to_end(&mut said).await.unwrap();
    };
    let ((), completed) = tokio::join!(answered, exec(&sandbox, talk("93.184.215.10", 80)));
    assert_eq!(completed.unwrap().stdout, b"here");
    // Without anybody who relays, nobody listens.
    drop(relay);
    let completed = exec(&sandbox, talk("93.184.215.10", 80)).await.unwrap();
    assert!(String::from_utf8_lossy(&completed.stdout).starts_with("no: "), "{completed:?}");
}

#[tokio::test]
async fn relay_ports_taken_by_the_workload() {
    let (sandbox, _relay) = relayed().await;
    let program = "use Socket qw(:DEFAULT inet_pton SO_REUSEPORT pack_sockaddr_in6 AF_INET6); my @said; \
        for my $way ([SOCK_STREAM, 61953], [SOCK_DGRAM, 61954]) { for my $at ('127.0.0.1', '0.0.0.0', '::1', '::') { \
        my $six = $at =~ /:/; socket my $s, $six ? AF_INET6 : AF_INET, $way->[0], 0 or next; \
        setsockopt $s, SOL_SOCKET, SO_REUSEADDR, 1; setsockopt $s, SOL_SOCKET, SO_REUSEPORT, 1; \
        my $bound = bind $s, $six ? pack_sockaddr_in6($way->[1], inet_pton(AF_INET6, $at)) : pack_sockaddr_in($way->[1], inet_aton($at)); \
        push @said, qq($at $way->[1]) if $bound && ($way->[0] == SOCK_DGRAM || listen $s, 5) } } print qq(@said)";
    assert_eq!(crate::common::perl(&sandbox, program).await, "", "nobody else listens there");
}

#[tokio::test]
async fn relay_after_a_command() {
    let sandbox = crate::common::create().await;
    sh(&sandbox, "true").await;
    let refused = sandbox.session().relay(61_953, 61_954).await.map(drop);
    assert!(matches!(refused, Err(SessionError::Failed { kind: FailureKind::Invalid, .. })), "{refused:?}");
    let fresh = crate::common::create().await;
    let relay = fresh.session().relay(61_953, 61_954).await.unwrap();
    let again = fresh.session().relay(61_953, 61_954).await.map(drop);
    assert!(matches!(again, Err(SessionError::Failed { kind: FailureKind::Invalid, .. })), "once: {again:?}");
    drop(relay);
}

/// A guest that relays, and answers the first demand for a connection or question with this, by its id.
async fn lying(said: impl Fn(u32) -> Vec<Guest> + Send + 'static) -> (Session, Relay) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let frame = |message: &Guest| {
            let mut out = Vec::new();
            encode(message, &mut out).unwrap();
            out
        };
        theirs.write_all(&frame(&Guest::Hello { version: PROTOCOL_VERSION })).unwrap();
        let (mut decoder, mut buffer) = (Decoder::new(), [0; 4096]);
        while let Ok(count) = theirs.read(&mut buffer) {
            if count == 0 {
                return;
            }
            decoder.push(&buffer[..count]);
            while let Ok(Some(message)) = decoder.take::<Host>() {
                let answers = match message {
                    Host::Relay { id, .. } => vec![Guest::Connected { id }],
                    Host::Accept { id, .. } | Host::Query { id } => said(id),
                    _ => Vec::new(),
                };
                for answer in answers {
                    let _ = theirs.write_all(&frame(&answer));
                }
            }
        }
    });
    let session = Session::open(tokio::net::UnixStream::from_std(ours).unwrap()).await.unwrap();
    let relay = session.relay(1, 2).await.unwrap();
    (session, relay)
}

#[tokio::test]
async fn guest_lies_about_connections() {
    let chunk = |id| Guest::Output { id, stream: Stream::Out, bytes: vec![0; MAX_CHUNK] };
    let to = || Some("93.184.215.10:80".parse().unwrap());
    let lies: [fn(u32) -> Vec<Guest>; 3] = [
        |id| vec![Guest::Accepted { id, to: None }; 2],
        |id| vec![Guest::Accepted { id, to: None }, Guest::Connected { id }],
        |id| vec![Guest::Accepted { id, to: None }, Guest::OutputEnd { id }, Guest::OutputEnd { id }],
    ];
    for lie in lies {
        let (session, relay) = lying(lie).await;
        let _arrived = relay.accept().await;
        timeout(SOON, session.gone()).await.expect("the session ended");
    }
    // More than was granted, to somebody who takes nothing.
    let (session, relay) = lying(move |id| [vec![Guest::Accepted { id, to: to() }], vec![chunk(id); 5]].concat()).await;
    let arrived = relay.accept().await;
    timeout(SOON, session.gone()).await.expect("the session ended");
    drop(arrived);
    // Something else than a connection.
    let (_session, relay) = lying(|id| vec![Guest::Asked { id, question: Vec::new() }]).await;
    assert!(matches!(relay.accept().await, Err(SessionError::Died(_))));
}

#[tokio::test]
async fn guest_lies_about_questions() {
    let lies: [fn(u32) -> Vec<Guest>; 2] = [
        |id| vec![Guest::Asked { id, question: vec![0; MAX_QUESTION + 1] }],
        |id| vec![Guest::Asked { id, question: vec![0] }; 2],
    ];
    for lie in lies {
        let (session, relay) = lying(lie).await;
        let _inquiry = relay.question().await;
        timeout(SOON, session.gone()).await.expect("the session ended");
    }
    let (_session, relay) = lying(|id| vec![Guest::Accepted { id, to: None }]).await;
    assert!(matches!(relay.question().await, Err(SessionError::Died(_))));
}
