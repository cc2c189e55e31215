//! The fake internet as a program in the runner's namespace finds it.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testnet::addresses::{DEAD, DNS, DOMAIN, ECHO, HTTP, HTTPS, METADATA, PUBLIC_RESOLVER, RUNNER, SSH, WEB, WEB_V6};
use testnet::{Seen, StartError, Testnet, names};

/// A client for one message: sends it, and prints what comes back (over TCP until the server ends, or 2 seconds).
const CLIENT: &str = r#"
    use IO::Socket::IP; use Socket;
    my ($protocol, $host, $port) = @ARGV;
    alarm 10;
    my $message = do { local $/; <STDIN> };
    my $socket = IO::Socket::IP->new(PeerHost => $host, PeerPort => $port, Timeout => 1,
        Type => $protocol eq 'udp' ? SOCK_DGRAM : SOCK_STREAM) or do { print "failed: $!"; exit };
    syswrite $socket, $message;
    shutdown $socket, 1 if $protocol eq 'tcp';
    while (1) {
        my $ready = ''; vec($ready, fileno $socket, 1) = 1;
        last unless select $ready, undef, undef, 2;
        last unless sysread $socket, my $bytes, 65536;
        print $bytes;
        last if $protocol eq 'udp';
    }
"#;

/// A testnet, or none with the reason where there can be none.
fn start(www: &Path) -> Option<Testnet> {
    match Testnet::start(Path::new(env!("CARGO_BIN_EXE_testnet")), www) {
        Err(error @ StartError::NotRoot) => {
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
        started => Some(started.unwrap()),
    }
}

fn run(mut command: Command, input: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().stdout
}

fn say(testnet: &Testnet, protocol: &str, host: impl Into<IpAddr>, port: u16, message: &[u8]) -> Vec<u8> {
    let mut command = testnet.command("perl");
    command.args(["-e", CLIENT, protocol, &host.into().to_string(), &port.to_string()]);
    run(command, message)
}

/// The body of the answer to a GET.
fn get(testnet: &Testnet, host: impl Into<IpAddr>, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", names::WWW);
    let answer = String::from_utf8(say(testnet, "tcp", host, HTTP, request.as_bytes())).unwrap();
    answer.split_once("\r\n\r\n").map_or(answer.clone(), |(_, body)| body.to_owned())
}

fn query(name: &str) -> Vec<u8> {
    let mut bytes = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in name.split('.') {
        bytes.push(label.len().try_into().unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend(b"\0\0\x01\0\x01");
    bytes
}

fn seen(server: &str, address: impl Into<IpAddr>, port: u16, name: &str, what: &str) -> Seen {
    let [server, name, what] = [server, name, what].map(str::to_owned);
    Seen { server, address: address.into(), port, name, what }
}

#[test]
fn names_are_answered_over_udp_and_tcp() {
    let Some(testnet) = start(Path::new("")) else { return };
    assert_eq!(testnet.dns(), format!("{DNS}:53"));
    let question = query(names::WWW);
    let answer = say(&testnet, "udp", DNS, DOMAIN, &question);
    assert_eq!(answer[..8], *b"\x12\x34\x85\x80\0\x01\0\x01");
    assert!(answer.ends_with(&WEB[0].octets()));
    let length = u16::try_from(question.len()).unwrap().to_be_bytes();
    let framed = say(&testnet, "tcp", DNS, DOMAIN, &[&length[..], &question].concat());
    assert_eq!(framed[2..], answer);
    say(&testnet, "udp", PUBLIC_RESOLVER, DOMAIN, &query("missing.example.org"));
    let expected = [
        seen("dns", DNS, DOMAIN, names::WWW, "A"),
        seen("dns", DNS, DOMAIN, "", "connected"),
        seen("dns", DNS, DOMAIN, names::WWW, "A"),
        seen("dns", PUBLIC_RESOLVER, DOMAIN, "missing.example.org", "A"),
    ];
    assert_eq!(testnet.seen().unwrap(), expected);
}

#[test]
fn web_servers_answer_over_both_families_and_at_the_metadata_address() {
    let www = tempfile::tempdir().unwrap();
    std::fs::write(www.path().join("hello.html"), "hello").unwrap();
    let Some(testnet) = start(www.path()) else { return };
    let canary = format!("canary {}\n", names::WWW);
    assert_eq!(get(&testnet, WEB[0], "/canary"), canary);
    assert_eq!(get(&testnet, WEB_V6[4], "/canary"), canary);
    assert_eq!(get(&testnet, METADATA, "/hello.html"), "hello");
    let requests = [(IpAddr::from(WEB[0]), "/canary"), (WEB_V6[4].into(), "/canary"), (METADATA.into(), "/hello.html")];
    let expected: Vec<Seen> = requests
        .into_iter()
        .flat_map(|(address, target)| {
            let request = seen("http", address, HTTP, names::WWW, &format!("GET {target}"));
            [seen("http", address, HTTP, "", "connected"), request]
        })
        .collect();
    assert_eq!(testnet.seen().unwrap(), expected);
    testnet.forget().unwrap();
    assert_eq!(testnet.seen().unwrap(), []);
}

#[test]
fn bytes_are_echoed_and_seen() {
    let Some(testnet) = start(Path::new("")) else { return };
    assert_eq!(say(&testnet, "udp", WEB[1], HTTPS, b"quic?"), b"quic?");
    assert_eq!(say(&testnet, "udp", WEB_V6[1], ECHO, b"datagram"), b"datagram");
    assert_eq!(say(&testnet, "tcp", WEB[1], SSH, b"SSH-2.0-x\r\n"), b"SSH-2.0-x\r\n");
    let expected = [
        seen("udp", WEB[1], HTTPS, "", "quic?"),
        seen("udp", WEB_V6[1], ECHO, "", "datagram"),
        seen("tcp", WEB[1], SSH, "", "connected"),
        seen("tcp", WEB[1], SSH, "", r"SSH-2.0-x\r\n"),
    ];
    assert_eq!(testnet.seen().unwrap(), expected);
}

#[test]
fn what_no_server_understands_is_seen_all_the_same() {
    let Some(testnet) = start(Path::new("")) else { return };
    say(&testnet, "tcp", WEB[0], HTTPS, b"no tls");
    say(&testnet, "tcp", WEB[0], HTTP, b"\x16\x03\x01");
    say(&testnet, "tcp", WEB[0], HTTP, b"");
    say(&testnet, "tcp", DNS, DOMAIN, b"\xff\xffx");
    say(&testnet, "udp", DNS, DOMAIN, b"tunnel");
    let expected = [
        seen("https", WEB[0], HTTPS, "", "connected"),
        seen("https", WEB[0], HTTPS, "", "no tls"),
        seen("http", WEB[0], HTTP, "", "connected"),
        seen("http", WEB[0], HTTP, "", r"\x16\x03\x01"),
        seen("http", WEB[0], HTTP, "", "connected"),
        seen("dns", DNS, DOMAIN, "", "connected"),
        seen("dns", DNS, DOMAIN, "", r"\xff\xffx"),
        seen("dns", DNS, DOMAIN, "", "tunnel"),
    ];
    assert_eq!(testnet.seen().unwrap(), expected);
}

#[test]
fn closed_ports_refuse_and_dead_addresses_are_silent() {
    let Some(testnet) = start(Path::new("")) else { return };
    assert_eq!(say(&testnet, "tcp", WEB[0], 81, b""), b"failed: Connection refused");
    assert_eq!(say(&testnet, "tcp", DEAD, HTTP, b""), b"failed: Connection timed out");
    assert_eq!(say(&testnet, "tcp", RUNNER, HTTP, b""), b"failed: Connection refused");
    assert_eq!(testnet.seen().unwrap(), []);
}

#[test]
fn another_user_may_run_programs_and_read_the_certificate() {
    let Some(testnet) = start(Path::new("")) else { return };
    let mut command = testnet.command_as(65534, "sh");
    command.args(["-c", "id -u; id -g; head -n 1 \"$0\""]).arg(testnet.ca());
    assert_eq!(run(command, b""), b"65534\n65534\n-----BEGIN CERTIFICATE-----\n");
}

#[test]
fn testnets_do_not_see_each_other_and_end_when_dropped() {
    let Some(first) = start(Path::new("")) else { return };
    let second = start(Path::new("")).unwrap();
    assert_eq!(say(&first, "udp", WEB[0], ECHO, b"first"), b"first");
    assert_eq!(second.seen().unwrap(), []);
    drop(second);
    assert_eq!(first.seen().unwrap(), [seen("udp", WEB[0], ECHO, "", "first")]);

    let directory = first.ca().parent().unwrap().to_owned();
    let mut command = first.command("readlink");
    command.arg("/proc/self/ns/net");
    let namespace = String::from_utf8(run(command, b"")).unwrap();
    let holds = |process: &Path| {
        std::fs::read_link(process.join("ns/net")).is_ok_and(|link| link == Path::new(namespace.trim()))
    };
    let has_directory = |process: &Path| text_of(process, "cmdline").contains(directory.to_str().unwrap());
    let [holder, servers] = [processes(holds), processes(has_directory)];
    assert_eq!([name_of(&holder), name_of(&servers)], ["cat", "testnet"]);
    // Held, so that no testnet beside this one gets a namespace of the same number in the meantime.
    let _held = std::fs::File::open(holder[0].join("ns/net")).unwrap();
    drop(first);
    assert!(!directory.exists());
    assert_eq!([processes(holds), processes(has_directory)], [const { Vec::<PathBuf>::new() }; 2]);
}

fn text_of(process: &Path, file: &str) -> String {
    std::fs::read_to_string(process.join(file)).unwrap_or_default()
}

fn name_of(processes: &[PathBuf]) -> String {
    processes.iter().map(|process| text_of(process, "comm").trim().to_owned()).collect()
}

/// All processes of some kind, as their directories below `/proc`.
fn processes(wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    // `self` and its like are links to one of the others.
    entries.filter(|entry| !entry.is_symlink() && wanted(entry)).collect()
}
