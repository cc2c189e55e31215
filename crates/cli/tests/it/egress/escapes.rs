//! Attacks on the capture itself, as root inside.

use std::time::{Duration, Instant};

use crate::egress::bytes::get;
use crate::egress::net::{net, records, sh, tcp};

const EVIL: &str = "93.184.215.66";
const ALLOWED: &[&str] = &["www.example.org"];

/// After the attack, what was refused still is, with its record, and what was allowed still works.
fn capture_holds(attack: &str, expected: &str) {
    let net = net();
    net.reaches(&tcp(EVIL, 80, &get("x", "/canary")), EVIL, 80);
    let script = format!(
        "perl -e '{attack}'; echo; curl -sS -m 5 http://{EVIL}/canary; curl -sS -m 5 http://www.example.org/canary"
    );
    let ended = net.inside(ALLOWED, &sh(&script));
    assert!(ended.out.starts_with(expected), "{ended:?}");
    assert!(ended.out.ends_with("canary www.example.org\n"), "{ended:?}");
    assert!(net.arrived().iter().all(|seen| seen.address.to_string() != EVIL), "{ended:?}");
    ended.recorded("raw_address");
}

#[test]
fn flush_rules_as_root() {
    // NETLINK_NETFILTER is 12.
    capture_holds("use Socket; print socket(my $s, 16, SOCK_RAW, 12) ? 1 : $!", "Address family not supported");
}

#[test]
fn delete_route() {
    // RTM_DELROUTE of the default route: header, then rtmsg.
    let delete = "use Socket; socket(my $s, 16, SOCK_RAW, 0) or die; send $s, pack(q(LSSLLC8L), 28, 25, 5, 1, 0, 2, 0, 0, 0, 254, 4, 253, 1, 0), 0; recv $s, my $r, 999, 0; print $! = -unpack(q(x16 l), $r)";
    capture_holds(delete, "Operation not permitted");
}

#[test]
fn kill_listener() {
    // NETLINK_SOCK_DIAG is 4; by it a listener could be destroyed.
    capture_holds("use Socket; print socket(my $s, 16, SOCK_RAW, 4) ? 1 : $!", "Address family not supported");
}

#[test]
fn listener_port_direct() {
    let net = net();
    let attack = r#"
        use IO::Socket::IP; $SIG{PIPE} = 'IGNORE';
        open my $f, '<', '/proc/net/tcp' or die; my @ports = map { /^\s*\d+: 0100007F:([0-9A-F]{4}) 00000000:0000 0A/ ? hex $1 : () } <$f>;
        for my $port (@ports) {
            my $s = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port, Timeout => 3) or do { print 'reset '; next };
            print $s "GET http://93.184.215.66/ HTTP/1.1\r\nHost: 93.184.215.66\r\n\r\n"; print defined(sysread $s, my $b, 99) ? 'answer ' : 'reset ';
        }
    "#;
    let ended = net.inside(ALLOWED, &["perl", "-e", attack].map(str::to_owned));
    assert_eq!(net.seen(), []);
    assert_eq!(ended.out, "reset ", "{ended:?}");
    ended.recorded("capture_port");
}

#[test]
fn host_loopback_service() {
    let net = net();
    let script = "my $l = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 8123, Listen => 5, ReuseAddr => 1) or die; while (my $c = $l->accept) { print $c 'private' }";
    let mut servers: Vec<_> = ["127.0.0.1", "::1"]
        .iter()
        .map(|address| net.testnet.command("perl").args(["-MIO::Socket::IP", "-e", script, address]).spawn().unwrap())
        .collect();
    for address in ["127.0.0.1", "::1"] {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !net.direct(&tcp(address, 8123, b"x")).contains("private") {
            assert!(Instant::now() < deadline, "the probe works without the control");
        }
        let ended = net.inside(ALLOWED, &tcp(address, 8123, b"x"));
        // The box's own loopback has nobody at that port.
        assert!(ended.out.contains("refused"), "{address}: {ended:?}");
    }
    for server in &mut servers {
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn sibling_sandbox() {
    let net = net();
    let scratch = net.scratch();
    let serve = "my $l = IO::Socket::IP->new(LocalHost => '0.0.0.0', LocalPort => 8123, Listen => 5) or die; $| = 1; print qq(ready\n); while (my $c = $l->accept) { print $c 'sibling' }";
    let command = ["perl", "-MIO::Socket::IP", "-e", serve].map(str::to_owned);
    let mut sibling = net.background(&scratch.path().join("log"), &["--profile", "T0.H1.N2"], &command);
    assert_eq!(sibling.line(), "ready");
    for address in ["198.18.0.1", "127.0.0.1"] {
        let ended = net.inside(ALLOWED, &tcp(address, 8123, b"x"));
        assert!(!ended.out.contains("sibling") && ended.out.contains("refused"), "{ended:?}");
    }
    // Within one sandbox the same address works: own addresses stay its own.
    let both = sh(&format!(
        "perl -MIO::Socket::IP -e \"{}\" & sleep 1; perl -MIO::Socket::IP -e 'my $s = IO::Socket::IP->new(PeerHost => q(198.18.0.1), PeerPort => 8123); print <$s>'; kill %1",
        serve.replace('$', "\\$")
    ));
    assert!(net.inside(ALLOWED, &both).out.contains("sibling"));
}

#[test]
fn gateway_killed() {
    let net = net();
    let scratch = net.scratch();
    let log = scratch.path().join("log");
    let script = "curl -sS -m 5 http://www.example.org/canary; while :; do curl -s -m 1 http://www.example.org/canary >/tmp/after; sleep 0.1; done";
    let mut running = net.background(&log, &["--profile", "T0.H1.N1", "--allow", "www.example.org"], &sh(script));
    assert_eq!(running.line(), "canary www.example.org");
    let gateway = rustix::process::Pid::from_raw(i32::try_from(running.child("ringfence-gateway")).unwrap()).unwrap();
    rustix::process::kill_process(gateway, rustix::process::Signal::KILL).unwrap();
    let start = Instant::now();
    let (code, err) = running.end();
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("capture_lost"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!records(&log).is_empty(), "what was recorded before is there");
    std::thread::sleep(Duration::from_millis(300));
    net.testnet.forget().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(net.seen(), [], "no door is left open");
}

#[test]
fn a_log_that_nobody_reads_does_not_hold_up_the_run() {
    let net = net();
    let scratch = net.scratch();
    let fifo = scratch.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666), 0)
        .unwrap();
    std::fs::set_permissions(&fifo, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    // Somebody who opens it and reads nothing.
    let _reader = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let flood = "perl -MSocket -e 'for (1 .. 3000) { socket(my $s, PF_INET, SOCK_STREAM, 0); connect $s, pack_sockaddr_in(80, pack(q(N), 0x5db80000 + $_)) }'; sleep 100";
    let start = Instant::now();
    let mut running = net.background(&fifo, &["--profile", "T0.H1.N2", "--timeout", "3"], &sh(flood));
    let _ = running.line();
    let (code, err) = running.end();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_ne!(code, 0, "{err}");
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run() {
    let net = net();
    let start = Instant::now();
    let script = sh("curl -s -m 5 http://www.example.org/; sleep 20");
    let mut command = net.ringfence(std::path::Path::new("/dev/full"), &["--profile", "T0.H1.N2"], &script);
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("cannot write the network log"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_gateway_that_is_stopped_does_not_hold_up_the_run() {
    let net = net();
    let scratch = net.scratch();
    let mut running = net.background(&scratch.path().join("log"), &["--profile", "T0.H1.N2"], &sh("echo on; sleep 1"));
    assert_eq!(running.line(), "on");
    let gateway = rustix::process::Pid::from_raw(i32::try_from(running.child("ringfence-gateway")).unwrap()).unwrap();
    rustix::process::kill_process(gateway, rustix::process::Signal::STOP).unwrap();
    let start = Instant::now();
    let (_, err) = running.end();
    assert!(start.elapsed() < Duration::from_secs(20), "{err}");
}

#[test]
fn the_gateway_inherits_no_open_file() {
    let net = net();
    let scratch = net.scratch();
    let log = scratch.path().join("log");
    // A descriptor that a shell left open.
    let inner = net.ringfence(&log, &["--profile", "T0.H1.N2"], &sh("echo on; sleep 3"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec 9</etc/passwd; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    let shell = shell.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut running = crate::egress::net::Running(shell.stderr(std::process::Stdio::piped()).spawn().unwrap());
    assert_eq!(running.line(), "on");
    let gateway = running.child("ringfence-gateway");
    let open: Vec<String> = std::fs::read_dir(format!("/proc/{gateway}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|path| path.display().to_string())
        .collect();
    assert!(!open.iter().any(|path| path.contains("passwd")), "{open:?}");
}

#[test]
fn the_gateway_is_confined_as_root_and_as_a_plain_user() {
    let net = net();
    let scratch = net.scratch();
    let script = sh("curl -sS -m 5 http://www.example.org/canary; sleep 3");
    let arguments = ["--profile", "T0.H1.N1", "--allow", "www.example.org"];
    let mut running = net.background(&scratch.path().join("log"), &arguments, &script);
    assert_eq!(running.line(), "canary www.example.org", "and it works");
    let gateway = running.child("ringfence-gateway");
    let uid = net.user().unwrap_or(65_534);
    let tasks = std::fs::read_dir(format!("/proc/{gateway}/task")).unwrap();
    let tasks: Vec<String> =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap()).collect();
    assert!(tasks.len() > 1, "{tasks:?}");
    for status in tasks {
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
            assert!(status.contains(&format!("\n{line}\n")), "{line}: {status}");
        }
        assert!(status.contains(&format!("\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")), "{status}");
    }
    // Not dumpable: its memory and descriptors are root's, also where the user is the same.
    let descriptors = std::fs::metadata(format!("/proc/{gateway}/fd")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&descriptors), 0);
    assert_eq!(std::fs::read(format!("/proc/{gateway}/environ")).unwrap(), b"");
}
