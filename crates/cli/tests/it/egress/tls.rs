//! Greetings of TLS.

use serde_json::{Value, json};

use crate::egress::bytes::{get, hello, records, tls};
use crate::egress::net::{hex, refused, tcp};

const WWW: (&str, &str) = ("www.example.org", "93.184.215.10");
const ALLOWED: &[&str] = &["www.example.org", "api.example.org"];

#[test]
fn sni_other_allowed_name() {
    let ended = refused(ALLOWED, WWW, 443, &tls(Some("api.example.org")), "sni_mismatch");
    assert_eq!(ended.recorded("sni_mismatch")["shown"], json!({"sni": ["api.example.org"]}));
}

#[test]
fn sni_unlisted() {
    let ended = refused(ALLOWED, WWW, 443, &tls(Some("evil.example.net")), "sni_mismatch");
    let record = ended.recorded("sni_mismatch");
    assert_eq!((&record["name"], &record["shown"]), (&json!(WWW.0), &json!({"sni": ["evil.example.net"]})));
    assert!(ended.err.contains("www.example.org [SNI evil.example.net] (1, sni_mismatch)"), "{}", ended.err);
}

#[test]
fn sni_that_speaks_to_the_terminal_is_recorded_escaped() {
    let ended = refused(ALLOWED, WWW, 443, &tls(Some("\u{1b}[2Jevil\u{202e}.net")), "sni_mismatch");
    let shown = json!({"sni": [r"\x1b[2Jevil\xe2\x80\xae.net"]});
    assert_eq!(ended.recorded("sni_mismatch")["shown"], shown);
    assert!(!ended.err.contains('\u{1b}'), "{:?}", ended.err);
}

#[test]
fn sni_of_kilobytes_is_recorded_in_part() {
    let ended = refused(ALLOWED, WWW, 443, &tls(Some(&"a".repeat(5000))), "sni_mismatch");
    let shown = json!({"sni": [format!("{}...", "a".repeat(252))]});
    assert_eq!(ended.recorded("sni_mismatch")["shown"], shown);
}

#[test]
fn sni_missing() {
    let ended = refused(ALLOWED, WWW, 443, &tls(None), "sni_missing");
    assert_eq!(ended.recorded("sni_missing")["shown"], Value::Null, "there was none to show");
}

#[test]
fn ech_present() {
    let bytes = records(&hello(Some("www.example.org"), &[(0xfe0d, vec![0; 64])]), 16_000);
    let ended = refused(ALLOWED, WWW, 443, &bytes, "ech_present");
    let shown = json!({"sni": ["www.example.org"], "ech": ["0xfe0d"]});
    assert_eq!(ended.recorded("ech_present")["shown"], shown);
}

#[test]
fn ech_by_the_code_points_of_its_drafts() {
    for point in [0xfe08, 0xfe0c, 0xff02] {
        let bytes = records(&hello(Some("www.example.org"), &[(point, vec![0; 64])]), 16_000);
        let ended = refused(ALLOWED, WWW, 443, &bytes, "ech_present");
        assert_eq!(ended.recorded("ech_present")["shown"]["ech"], json!([format!("{point:#06x}")]));
    }
}

#[test]
fn tls_on_port_80() {
    let ended = refused(ALLOWED, WWW, 80, &tls(Some("www.example.org")), "not_http");
    let shown = ended.recorded("not_http")["shown"]["bytes"].as_str().unwrap().to_owned();
    assert!(shown.starts_with(r"\x16\x03\x01\x00"), "{shown}");
}

#[test]
fn http_on_port_443() {
    let ended = refused(ALLOWED, WWW, 443, &get("www.example.org", "/canary"), "not_tls");
    assert_eq!(ended.recorded("not_tls")["shown"], json!({"bytes": r"GET /canary HTTP/1.1\x0d\x0aHost: www."}));
}

#[test]
fn clienthello_fragmented() {
    let ended = refused(ALLOWED, WWW, 443, &records(&hello(Some("evil.example.net"), &[]), 3), "sni_mismatch");
    assert_eq!(ended.recorded("sni_mismatch")["shown"], json!({"sni": ["evil.example.net"]}));
    // Fragments of an honest one pass, whole and unchanged: the server's answer is a handshake record.
    let net = crate::egress::net::net();
    let ended = net.inside(ALLOWED, &tcp(WWW.0, 443, &records(&hello(Some(WWW.0), &[]), 50)));
    assert!(net.seen().iter().any(|seen| seen.what == "hello" && seen.name == WWW.0), "{ended:?}");
}

#[test]
fn clienthello_oversize() {
    // A greeting that no server needs: 40 KiB of padding.
    let long = hello(Some("www.example.org"), &[(21, vec![0; 40_000])]);
    refused(ALLOWED, WWW, 443, &records(&long, 16_000), "hello_too_long");
}

#[test]
fn clienthello_slow() {
    let net = crate::egress::net::net();
    let half = &tls(Some("www.example.org"))[..60];
    net.reaches(&tcp(WWW.1, 443, half), WWW.1, 443);
    let slow = r"
        use IO::Socket::IP;
        my $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 443) or die;
        my $start = time; $SIG{PIPE} = 'IGNORE';
        for my $byte (split //, pack 'H*', $ARGV[1]) { last unless syswrite $s, $byte; sleep 1; last if time - $start > 30 }
        print time - $start;
    ";
    let ended = net.inside(ALLOWED, &["perl", "-e", slow, WWW.0, &hex(half)].map(str::to_owned));
    assert_eq!(net.seen(), []);
    ended.recorded("too_slow");
    let seconds: u32 = ended.out.parse().unwrap();
    assert!((9..20).contains(&seconds), "{ended:?}");
}
