//! Raw addresses, other protocols, other ways to name a place.

use crate::egress::bytes::{A, ask, get, over_tcp, tls};
use crate::egress::net::{net, refused, sh, tcp, udp};

const EVIL: &str = "93.184.215.66";
const EVIL_V6: &str = "2606:2800:220:1::66";
const WWW: (&str, &str) = ("www.example.org", "93.184.215.10");
const ALLOWED: &[&str] = &["www.example.org"];

#[test]
fn raw_ip() {
    refused(ALLOWED, (EVIL, EVIL), 80, &get("x", "/canary"), "raw_address");
    // The address of an allowed name is no more welcome than any other.
    refused(ALLOWED, (WWW.1, WWW.1), 80, &get(WWW.0, "/canary"), "raw_address");
}

#[test]
fn raw_ip_v6() {
    let ended = refused(ALLOWED, (EVIL_V6, EVIL_V6), 80, &get("x", "/canary"), "raw_address");
    assert_eq!(ended.recorded("raw_address")["asked"], EVIL_V6);
}

#[test]
fn v4_mapped_v6() {
    let ended = refused(ALLOWED, ("::ffff:93.184.215.66", EVIL), 80, &get("x", "/canary"), "raw_address");
    assert_eq!(ended.recorded("raw_address")["asked"], EVIL);
}

#[test]
fn connect_ip_literal() {
    let request = format!("CONNECT {EVIL}:443 HTTP/1.1\r\nHost: {EVIL}:443\r\n\r\n");
    refused(ALLOWED, WWW, 80, request.as_bytes(), "connect_method");
}

#[test]
fn proxy_env_ignored() {
    let net = net();
    // A program that sets a proxy of its own only names another address.
    let probe = sh(&format!("http_proxy=http://{EVIL}:80 curl -sS -m 5 http://www.example.org/canary"));
    net.reaches(&probe, EVIL, 80);
    let ended = net.inside(ALLOWED, &probe);
    assert_eq!(net.seen(), []);
    ended.recorded("raw_address");
    // And no variable is needed, or set, for what is allowed.
    let ended = net.inside(ALLOWED, &sh("env | grep -i proxy; curl -sS -m 5 http://www.example.org/canary"));
    assert_eq!(ended.out, "canary www.example.org\n", "{ended:?}");
}

/// Datagrams are dropped before anything looks at them: there is nothing to record.
fn no_datagram(port: u16) {
    let net = net();
    let probe = udp(WWW.1, port, b"hello");
    net.reaches(&probe, WWW.1, port);
    for (target, allow) in [(WWW.1, "www.example.org"), (WWW.0, "tcp://www.example.org:7000")] {
        net.inside(&[allow], &udp(target, port, b"hello"));
        assert_eq!(net.arrived(), [], "{target}");
    }
}

#[test]
fn udp_any() {
    no_datagram(7000);
}

#[test]
fn quic() {
    no_datagram(443);
}

#[test]
fn icmp() {
    let net = net();
    let probe = |kind: &str| {
        let program = format!(
            "use Socket; socket(my $s, PF_INET, {kind}, 1) or do {{ print qq(no socket: $!); exit }};
             my $p = pack('C2n3', 8, 0, 0xf7ff - 0x1234, 0x1234, 0) ; send($s, $p, 0, pack_sockaddr_in(0, inet_aton('{}')));
             my $r = ''; vec($r, fileno $s, 1) = 1; if (select($r, undef, undef, 1)) {{ recv($s, my $b, 999, 0); print qq(echo) }}",
            WWW.1
        );
        ["perl", "-e", &program].map(str::to_owned).to_vec()
    };
    assert_eq!(net.direct(&probe("SOCK_RAW")), "echo", "the probe works without the control");
    for kind in ["SOCK_RAW", "SOCK_DGRAM"] {
        let ended = net.inside(ALLOWED, &probe(kind));
        assert!(ended.out.starts_with("no socket"), "{kind}: {ended:?}");
    }
}

#[test]
fn sctp() {
    let net = net();
    let program = format!(
        "use Socket; socket(my $s, PF_INET, SOCK_STREAM, 132) or do {{ print qq(no socket: $!); exit }};
         print connect($s, pack_sockaddr_in(7000, inet_aton('{}'))) ? 'connected' : $!",
        WWW.1
    );
    let probe = ["perl", "-e", &program].map(str::to_owned).to_vec();
    // Without the control the kernel answers: with a socket that finds nobody, or, without SCTP, as the filter does.
    let direct = net.direct(&probe);
    assert!(
        ["Protocol not supported", "Connection refused", "connected"].iter().any(|said| direct.ends_with(said)),
        "{direct}"
    );
    let ended = net.inside(ALLOWED, &probe);
    assert_eq!(ended.out, "no socket: Protocol not supported", "{ended:?}");
}

#[test]
fn dns_other_server() {
    let net = net();
    let probe = udp("8.8.8.8", 53, &ask("evil.example.net", A));
    net.reaches(&probe, "8.8.8.8", 53);
    let ended = net.inside(ALLOWED, &probe);
    assert_eq!(net.seen(), [], "{ended:?}");
    assert_eq!(ended.recorded("name_not_listed")["name"], "evil.example.net");
}

#[test]
fn dns_tcp_other_server() {
    let ended = refused(ALLOWED, ("8.8.8.8", "8.8.8.8"), 53, &over_tcp(&ask("evil.example.net", A)), "name_not_listed");
    assert_eq!(ended.recorded("name_not_listed")["name"], "evil.example.net");
}

#[test]
fn dot() {
    refused(ALLOWED, ("8.8.8.8", "8.8.8.8"), 853, &tls(Some("dns.google")), "raw_address");
}

#[test]
fn doh_by_ip() {
    refused(ALLOWED, ("8.8.8.8", "8.8.8.8"), 443, &tls(Some("www.example.org")), "raw_address");
}

#[test]
fn metadata_ip() {
    let probe = ("169.254.169.254", "169.254.169.254");
    refused(ALLOWED, probe, 80, &get("169.254.169.254", "/latest"), "raw_address");
    // Full network is not that full.
    let net = net();
    let n0 = &["--profile", "T0.H1.N0", "--justification", "a test"];
    let ended = net.run(n0, &tcp("169.254.169.254", 80, &get("169.254.169.254", "/latest")));
    assert_eq!(net.arrived(), []);
    ended.recorded("answer_metadata");
    let ended = net.run(n0, &tcp(EVIL, 80, &get("evil.example.net", "/canary")));
    assert!(ended.out.contains("canary evil.example.net"), "N0 reaches everything else: {ended:?}");
}

#[test]
fn nothing_leaves_n2_and_every_attempt_is_recorded() {
    let net = net();
    let probe = sh("curl -sS -m 5 http://www.example.org/ ; curl -sS -m 5 http://93.184.215.10/");
    let ended = net.run(&["--profile", "T0.H1.N2"], &probe);
    assert_eq!(net.seen(), []);
    assert_eq!(ended.count("no_network"), 3, "two queries and a connection: {ended:#?}");
    assert!(ended.err.contains("network: refused"), "{ended:?}");
}

#[test]
fn what_was_never_connected_was_not_reached() {
    let net = net();
    let probe = sh("(curl -s -m 20 http://dead.example.org/ &) ; sleep 1");
    let ended = net.inside(&["dead.example.org"], &probe);
    ended.recorded("sandbox_ended");
    assert!(!ended.err.contains("reached"), "{ended:?}");
    // A connection to a name server's port that asks nothing is an attempt too.
    let ended = net.inside(ALLOWED, &tcp("8.8.8.8", 53, b"x"));
    assert_eq!(net.arrived(), []);
    assert_eq!(ended.recorded("bad_query")["asked"], "8.8.8.8");
}
