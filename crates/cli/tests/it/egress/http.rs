//! Requests of HTTP.

use serde_json::{Value, json};

use crate::egress::bytes::get;
use crate::egress::net::{net, refused, tcp};

const WWW: (&str, &str) = ("www.example.org", "93.184.215.10");
const ALLOWED: &[&str] = &["www.example.org"];

/// A first request that is refused: with 403 and the reason, as a program can read it.
fn forbidden(request: &str, reason: &str) -> Value {
    let ended = refused(ALLOWED, WWW, 80, request.as_bytes(), reason);
    assert!(ended.out.starts_with("HTTP/1.1 403 "), "{ended:?}");
    assert!(ended.out.contains(&format!("X-Ringfence-Reason: {reason}\r\n")), "{ended:?}");
    ended.recorded(reason)["shown"].clone()
}

#[test]
fn host_mismatch() {
    let shown = forbidden("GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n", "host_mismatch");
    assert_eq!(shown, json!({"request": "GET /", "host": ["evil.example.net"]}));
    let two = "GET / HTTP/1.1\r\nHost: www.example.org\r\nHost: evil.example.net\r\n\r\n";
    let shown = forbidden(two, "host_mismatch");
    assert_eq!(shown, json!({"request": "GET /", "host": ["www.example.org", "evil.example.net"]}));
    let shown = forbidden("GET / HTTP/1.0\r\n\r\n", "host_missing");
    assert_eq!(shown, json!({"request": "GET /"}));
}

#[test]
fn forwarding_headers_that_name_another_host() {
    for header in [
        "X-Forwarded-Host: evil.example.net",
        "Forwarded: for=192.0.2.1;host=evil.example.net",
        "X-Original-URL: http://evil.example.net/",
    ] {
        let request = format!("GET /canary HTTP/1.1\r\nHost: www.example.org\r\n{header}\r\n\r\n");
        let shown = forbidden(&request, "forwarded_host");
        let expected = json!({"request": "GET /canary", "host": ["www.example.org"], "forwarded": [header]});
        assert_eq!(shown, expected);
    }
}

/// A second request on a connection whose first was fine: only the first arrives.
fn second_is_cut(second: &str, reason: &str, shown: &Value) {
    let net = net();
    let both = format!("GET /canary HTTP/1.1\r\nHost: www.example.org\r\n\r\n{second}");
    net.reaches(&tcp(WWW.1, 80, both.as_bytes()), WWW.1, 80);
    let ended = net.inside(ALLOWED, &tcp(WWW.0, 80, both.as_bytes()));
    let requests: Vec<String> =
        net.arrived().into_iter().filter(|seen| seen.what != "connected").map(|seen| seen.what).collect();
    assert_eq!(requests, ["GET /canary"], "{ended:#?}");
    // What went, went; what ended it is a record of its own.
    let verdicts: Vec<&str> = ended
        .records
        .iter()
        .filter(|record| record["reason"] == reason)
        .map(|record| record["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["refused", "allowed"], "{ended:#?}");
    assert_eq!(&ended.recorded(reason)["shown"], shown, "{ended:#?}");
    assert!(ended.err.contains("reached www.example.org (1)") && ended.err.contains("refused"), "{ended:?}");
}

#[test]
fn host_second_request_mismatch() {
    let shown = json!({"request": "GET /second", "host": ["evil.example.net"]});
    second_is_cut("GET /second HTTP/1.1\r\nHost: evil.example.net\r\n\r\n", "host_mismatch", &shown);
}

#[test]
fn second_request_is_checked_in_every_way() {
    let connect = "CONNECT evil.example.net:443 HTTP/1.1\r\nHost: www.example.org\r\n\r\n";
    let shown = json!({"request": "CONNECT evil.example.net:443", "host": ["www.example.org"]});
    second_is_cut(connect, "connect_method", &shown);
    second_is_cut("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2", &json!({"request": "PRI *"}));
    second_is_cut("garbage\r\n\r\n", "not_http", &json!({"bytes": r"garbage\x0d\x0a\x0d\x0a"}));
}

#[test]
fn absolute_form_mismatch() {
    let request = "GET http://evil.example.net/ HTTP/1.1\r\nHost: www.example.org\r\n\r\n";
    let shown = forbidden(request, "target_mismatch");
    assert_eq!(shown, json!({"request": "GET http://evil.example.net/", "host": ["www.example.org"]}));
}

#[test]
fn cl_te_smuggle() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: evil.example.net\r\n\r\n";
    forbidden(
        &format!(
            "POST /echo HTTP/1.1\r\nHost: www.example.org\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        "bad_framing",
    );
    forbidden(
        &format!(
            "POST /echo HTTP/1.1\r\nHost: www.example.org\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n{smuggled}"
        ),
        "bad_framing",
    );
    // In a chunk's framing as well.
    let net = net();
    let request = format!(
        "POST /echo HTTP/1.1\r\nHost: www.example.org\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nabcde\r\n0\r\n\r\n{smuggled}"
    );
    let ended = net.inside(ALLOWED, &tcp(WWW.0, 80, request.as_bytes()));
    assert!(!net.arrived().iter().any(|seen| seen.what.contains("smuggled")), "{ended:?}");
    ended.recorded("bad_framing");
}

#[test]
fn te_obfuscated() {
    for coding in ["xchunked", "chunked, identity", "identity, chunked", " \tchunked;q=1"] {
        let request =
            format!("POST /echo HTTP/1.1\r\nHost: www.example.org\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n");
        forbidden(&request, "bad_framing");
    }
    forbidden(
        "POST /echo HTTP/1.1\r\nHost: www.example.org\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "not_http",
    );
}

#[test]
fn connect_method() {
    let request = "CONNECT evil.example.net:443 HTTP/1.1\r\nHost: evil.example.net:443\r\n\r\n";
    let shown = forbidden(request, "connect_method");
    assert_eq!(shown, json!({"request": "CONNECT evil.example.net:443", "host": ["evil.example.net:443"]}));
    forbidden("CONNECT www.example.org:443 HTTP/1.1\r\nHost: www.example.org:443\r\n\r\n", "connect_method");
}

#[test]
fn h2c_upgrade() {
    forbidden(
        "GET / HTTP/1.1\r\nHost: www.example.org\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        "http2",
    );
}

#[test]
fn prior_knowledge_h2() {
    forbidden("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0", "http2");
}

#[test]
fn websocket_without_rule() {
    let request = "GET /socket HTTP/1.1\r\nHost: www.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    forbidden(request, "upgrade");
    // With the rule it is one: opaque from then on, and recorded.
    let net = net();
    let ended = net.inside(&["ws://www.example.org"], &tcp(WWW.0, 80, format!("{request}any bytes").as_bytes()));
    assert!(ended.out.starts_with("HTTP/1.1 101 ") && ended.out.ends_with("any bytes"), "{ended:?}");
    let record = ended.records.iter().find(|record| record["protocol"] == "http").unwrap();
    assert_eq!((&record["rule"], &record["request"]), (&"ws://www.example.org".into(), &"GET /socket".into()));
}

#[test]
fn header_bomb() {
    let net = net();
    let bomb = r#"
        use IO::Socket::IP;
        my $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 80) or die; $SIG{PIPE} = 'IGNORE';
        print $s "GET / HTTP/1.1\r\nHost: www.example.org\r\n"; my $sent = 0;
        for (1 .. 2000) { last unless syswrite $s, "X-$_: " . ('y' x 1000) . "\r\n"; $sent++ }
        print "$sent of 2000 went\n";
        # Until it is refused: the end of the program would end the sandbox, and with it the connection.
        $SIG{ALRM} = sub { exit }; alarm $ARGV[1]; 1 while sysread $s, my $answer, 4096;
    "#;
    let probe = |target: &str, seconds: &str| ["perl", "-e", bomb, target, seconds].map(str::to_owned);
    net.reaches(&probe(WWW.1, "1"), WWW.1, 80);
    let ended = net.inside(ALLOWED, &probe(WWW.0, "30"));
    assert_eq!(net.seen(), []);
    ended.recorded("head_too_long");
}

#[test]
fn slowloris() {
    let net = net();
    let slow = r#"
        use IO::Socket::IP;
        my $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 80) or die; $SIG{PIPE} = 'IGNORE';
        my $start = time; syswrite $s, "GET / HTTP/1.1\r\nHost: www.example.org\r\n";
        while (time - $start < $ARGV[1]) { last unless syswrite $s, "X: y\r\n"; sleep 1 }
        print time - $start;
    "#;
    let probe = |target: &str, seconds: &str| ["perl", "-e", slow, target, seconds].map(str::to_owned);
    net.reaches(&probe(WWW.1, "2"), WWW.1, 80);
    let ended = net.inside(ALLOWED, &probe(WWW.0, "30"));
    assert_eq!(net.seen(), []);
    ended.recorded("too_slow");
    assert!((9..20).contains(&ended.out.parse::<u32>().unwrap()), "{ended:?}");
}

#[test]
fn honest_requests_pass_unchanged() {
    let net = net();
    let chunked =
        "POST /echo HTTP/1.1\r\nHost: www.example.org\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n";
    let counted = "POST /echo HTTP/1.1\r\nHost: www.example.org\r\nContent-Length: 7\r\n\r\nabcdefg";
    let last = String::from_utf8(get("www.example.org", "/canary")).unwrap();
    let ended = net.inside(ALLOWED, &tcp(WWW.0, 80, format!("{chunked}{counted}{last}").as_bytes()));
    let requests: Vec<String> =
        net.arrived().into_iter().filter(|seen| seen.what != "connected").map(|seen| seen.what).collect();
    assert_eq!(requests, ["POST /echo", "POST /echo", "GET /canary"], "{ended:?}");
    assert!(ended.out.ends_with("canary www.example.org\n"), "{ended:?}");
}
