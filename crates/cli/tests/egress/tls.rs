//! Greetings of TLS.

use crate::bytes::{get, hello, records, tls};
use crate::net::{hex, refused, tcp};

const WWW: (&str, &str) = ("www.example.org", "93.184.215.10");
const ALLOWED: &[&str] = &["www.example.org", "api.example.org"];

#[test]
fn sni_other_allowed_name() {
    refused(ALLOWED, WWW, 443, &tls(Some("api.example.org")), "sni_mismatch");
}

#[test]
fn sni_unlisted() {
    refused(ALLOWED, WWW, 443, &tls(Some("evil.example.net")), "sni_mismatch");
}

#[test]
fn sni_missing() {
    refused(ALLOWED, WWW, 443, &tls(None), "sni_missing");
}

#[test]
fn ech_present() {
    let bytes = records(&hello(Some("www.example.org"), &[(0xfe0d, vec![0; 64])]), 16_000);
    refused(ALLOWED, WWW, 443, &bytes, "ech_present");
}

#[test]
fn tls_on_port_80() {
    refused(ALLOWED, WWW, 80, &tls(Some("www.example.org")), "not_http");
}

#[test]
fn http_on_port_443() {
    refused(ALLOWED, WWW, 443, &get("www.example.org", "/canary"), "not_tls");
}

#[test]
fn clienthello_fragmented() {
    refused(ALLOWED, WWW, 443, &records(&hello(Some("evil.example.net"), &[]), 3), "sni_mismatch");
    // Fragments of an honest one pass, whole and unchanged: the server's answer is a handshake record.
    let net = crate::net::net();
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
    let net = crate::net::net();
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
