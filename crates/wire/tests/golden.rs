//! The bytes of protocol version 6. If this changes, raise `PROTOCOL_VERSION`.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use wire::{
    Argument, Attempt, Decoder, DialFailure, Entry, Exec, FailureKind, FileKind, FrameError, Guest, Host, Look,
    MAX_CHUNK, MAX_FRAME, Message, Outcome, Part, Stat, Stream, User, WindowSize, Within, WriteMode, encode,
};

fn host_messages() -> Vec<Host> {
    let exec = Exec {
        argv: vec!["sh".into(), "-c".into(), "id".into()],
        env: vec![("LANG".into(), "C.UTF-8".into())],
        cwd: Some("/tmp".into()),
        user: User::Named("1000:1000".into()),
        pty: Some(WindowSize { rows: 24, columns: 80 }),
        timeout_ms: Some(15_000),
        max_output: Some(1 << 20),
    };
    let (id, path) = (7, String::from("/a"));
    let within = Within { root: "/repo".into(), path: "a/b".into(), user: User::Default };
    let looks = [Look::Stat, Look::List, Look::Readable, Look::Writable];
    let looks = looks.map(|look| Host::LookWithin { id, within: within.clone(), look });
    let mut messages = vec![
        Host::Hello { version: 6 },
        Host::Exec { id, exec },
        Host::Input { id, bytes: b"in".to_vec() },
        Host::InputEnd { id },
        Host::Resize { id, size: WindowSize { rows: 50, columns: 132 } },
        Host::Kill { id },
        Host::Credit { id, stream: Stream::Err, bytes: 300 },
        Host::Read { id, path: path.clone(), limit: 100 },
        Host::Write { id, path: path.clone(), mode: WriteMode::Append, permissions: 0o644 },
        Host::Stat { id, path: path.clone() },
        Host::List { id, path },
        Host::Ping { id: u32::MAX },
        Host::Shutdown {},
        Host::Pause { id },
        Host::Resume { id },
        Host::EndAll { id },
        Host::Save { id },
        Host::ReadWithin { id, within: within.clone(), limit: 100 },
        Host::WriteWithin { id, within: within.clone(), permissions: 0o644 },
    ];
    messages.extend(looks);
    messages.push(Host::Dial { id, host: "www.example.org".into(), port: 443, timeout_ms: 10_000, window: 65_536 });
    let (user, timeout_ms) = (User::Default, 2000);
    let call = Attempt::Call { number: 165, arguments: vec![Argument::Number(300), Argument::Bytes(b"x\0".to_vec())] };
    let tcp = Attempt::Tcp { to: "198.51.100.7:443".parse().unwrap(), send: b"hi".to_vec(), timeout_ms };
    let attempts = [call, tcp, Attempt::Descriptors].map(|attempt| (attempt, user.clone()));
    messages.extend(attempts.map(|(attempt, user)| Host::Attempt { id, attempt, user, timeout_ms }));
    let (declared, shared) = (vec!["work".into()], vec!["/mnt".into()]);
    let trees = [
        Attempt::SendTree { part: Part::System, shared: shared.clone(), changes_only: true },
        Attempt::TakeTree { part: Part::Data, declared, shared },
    ];
    messages.extend(trees.map(|attempt| Host::Attempt { id, attempt, user: User::Default, timeout_ms }));
    messages.extend([
        Host::Relay { id, tcp: 61_953, udp: 61_954 },
        Host::Accept { id, window: 65_536 },
        Host::Query { id },
        Host::Answer { id, answer: b"dns".to_vec() },
    ]);
    messages
}

fn guest_messages() -> Vec<Guest> {
    let id = 7;
    let stat = Stat { kind: FileKind::File, size: 5, permissions: 0o644 };
    let mut messages = vec![
        Guest::Hello { version: 6 },
        Guest::Output { id, stream: Stream::Out, bytes: b"out".to_vec() },
        Guest::Output { id, stream: Stream::Err, bytes: b"err".to_vec() },
        Guest::Done { id, bytes: 5 },
        Guest::Failed { id, kind: FailureKind::NotFound, message: "no".into() },
        Guest::Failed { id, kind: FailureKind::HardLink, message: "two".into() },
        Guest::Failed { id, kind: FailureKind::Conflict, message: "changed".into() },
        Guest::Credit { id, bytes: 65_536 },
        Guest::Stat { id, stat: Some(stat) },
        Guest::Stat { id, stat: None },
        Guest::Entries { id, entries: vec![Entry { name: b"x\xff".to_vec(), stat }], last: true },
        Guest::Pong { id },
        Guest::Connected { id },
        Guest::DialFailed { id, why: DialFailure::Refused, message: "no".into() },
        Guest::OutputEnd { id },
        Guest::Accepted { id, to: None },
        Guest::Accepted { id, to: Some("198.18.1.0:443".parse().unwrap()) },
        Guest::Accepted { id, to: Some("[2606:2800::1]:80".parse().unwrap()) },
        Guest::Asked { id, question: b"dns".to_vec() },
    ];
    let outcomes = [
        Outcome::Exited(3),
        Outcome::Signalled(9),
        Outcome::TimedOut,
        Outcome::OutputLimit(Stream::Err),
        Outcome::Killed,
    ];
    messages.extend(outcomes.map(|outcome| Guest::Ended { id, outcome }));
    messages
}

fn bytes(message: &impl Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, &mut out).unwrap();
    out
}

/// Checks that `messages` come back from one stream cut into pieces of every size, and shows their bytes.
fn golden<M: Message + PartialEq + std::fmt::Debug>(messages: &[M]) -> String {
    let stream: Vec<u8> = messages.iter().flat_map(bytes).collect();
    for size in [1, 2, 7, stream.len()] {
        let mut decoder = Decoder::new();
        let mut back = Vec::new();
        for piece in stream.chunks(size) {
            decoder.push(piece);
            while let Some(message) = decoder.take::<M>().unwrap() {
                back.push(message);
            }
        }
        assert_eq!(back, messages);
        assert_eq!(decoder.pending(), 0);
    }
    let hex = |message: &M| bytes(message).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    messages.iter().map(|message| format!("{message:?}\n  {}", hex(message))).collect::<Vec<_>>().join("\n")
}

#[test]
fn version_6() {
    insta::assert_snapshot!("host", golden(&host_messages()));
    insta::assert_snapshot!("guest", golden(&guest_messages()));
}

#[test]
fn guest_frame_oversize() {
    let mut decoder = Decoder::new();
    decoder.push(&u32::try_from(MAX_FRAME + 1).unwrap().to_le_bytes());
    assert_eq!(decoder.take::<Guest>(), Err(FrameError::TooLong(MAX_FRAME + 1)));
    let chunk = Guest::Output { id: 1, stream: Stream::Out, bytes: vec![0; MAX_CHUNK + 1] };
    let mut decoder = Decoder::new();
    decoder.push(&bytes(&chunk));
    assert_eq!(decoder.take::<Guest>(), Err(FrameError::Malformed(65)));
    let mut out = vec![1, 2, 3];
    let huge = Host::Input { id: 1, bytes: vec![0; MAX_FRAME] };
    assert!(matches!(encode(&huge, &mut out), Err(FrameError::TooLong(_))));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn what_is_not_a_message_is_an_error() {
    for (frame, error) in [
        (&[0, 0, 0, 0][..], FrameError::TooShort(0)),
        (&[5, 0, 0, 0, 200, 0, 0, 0, 0], FrameError::UnknownKind(200)),
        // The host's own frames are not the guest's.
        (&bytes(&Host::Ping { id: 1 }), FrameError::UnknownKind(12)),
        // Bytes left over.
        (&[6, 0, 0, 0, 73, 1, 0, 0, 0, 9], FrameError::Malformed(73)),
        // A length inside that promises more than there is.
        (&[7, 0, 0, 0, 69, 1, 0, 0, 0, 0, 255], FrameError::Malformed(69)),
    ] {
        let mut decoder = Decoder::new();
        decoder.push(frame);
        assert_eq!(decoder.take::<Guest>(), Err(error));
    }
}

proptest::proptest! {
    #[test]
    fn guest_frame_garbage(garbage in proptest::collection::vec(proptest::num::u8::ANY, 0..400), cut in 1_usize..50) {
        let mut decoder = Decoder::new();
        'stream: for piece in garbage.chunks(cut) {
            decoder.push(piece);
            loop {
                match decoder.take::<Guest>() {
                    Ok(Some(message)) => assert!(!bytes(&message).is_empty()),
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
        }
    }
}
