use proptest::prelude::*;

use super::*;
use crate::hello::testing::{extension, message, record, server_name, vector};

fn sni(names: &[&str]) -> Shown {
    Shown { sni: names.iter().map(|name| (*name).to_owned()).collect(), ..Shown::default() }
}

fn bytes(text: &str) -> Shown {
    Shown { bytes: Some(text.into()), ..Shown::default() }
}

#[test]
fn every_name_of_a_refused_greeting_is_shown() {
    let two = message(&[server_name("a.org"), extension(0xfe0a, &[]), server_name("b.org")]);
    let hidden = Shown { ech: vec!["0xfe0a".into()], ..sni(&["a.org", "b.org"]) };
    for pieces in [3, 50, two.len()] {
        let whole: Vec<u8> = two.chunks(pieces).flat_map(record).collect();
        assert_eq!(Shown::by_tls(&whole).as_ref(), Some(&hidden), "{pieces}");
        let cut = Shown { sni: vec!["a.org".into()], ..hidden.clone() };
        assert_eq!(Shown::by_tls(&whole[..whole.len() - 1]), Some(cut), "{pieces}");
    }
    let listed = vector(&[&[0, 0, 1, b'a'][..], &[0, 0, 1, b'b']].concat());
    assert_eq!(Shown::by_tls(&record(&message(&[extension(0, &listed)]))), Some(sni(&["a", "b"])));
    let odd = record(&message(&[server_name(b"a\0\xff\\.org\x1b[31m")]));
    assert_eq!(Shown::by_tls(&odd), Some(sni(&[r"a\x00\xff\\.org\x1b[31m"])));
    assert_eq!(Shown::by_tls(&record(&message(&[]))), None, "a greeting without a name shows none");
}

#[test]
fn bytes_of_another_protocol_are_shown_in_part() {
    assert_eq!(Shown::by_tls(b"SSH-2.0-x\r\n"), Some(bytes(r"SSH-2.0-x\x0d\x0a")));
    assert_eq!(Shown::by_tls(&record(b"\x02\0\0\0")), Some(bytes(r"\x16\x03\x01\x00\x04\x02\x00\x00\x00")));
    assert_eq!(
        Shown::by_tls(&record(&message(&[]))[..9]),
        Some(bytes(r"\x16\x03\x01\x00/\x01\x00\x00+")),
        "cut before a name"
    );
    assert_eq!(Shown::by_http(&[b'x'; 100]), Some(bytes(&"x".repeat(32))));
    assert_eq!(Shown::by_http(b"\x16\x03\x01"), Some(bytes(r"\x16\x03\x01")));
    for read in [Shown::by_tls, Shown::by_http, Shown::by_query, Shown::by_bytes] {
        assert_eq!(read(b""), None);
    }
}

#[test]
fn every_host_of_a_refused_request_is_shown() {
    let head = b"GET http://b.org/x HTTP/1.1\r\nHost: a.org\r\nX: y\r\nHOST : b.org\r\nx_forwarded_host: c.org\r\n\r\nHost: d.org\r\n";
    let expected = Shown {
        request: Some("GET http://b.org/x".into()),
        host: vec!["a.org".into(), "b.org".into()],
        forwarded: vec!["x_forwarded_host: c.org".into()],
        ..Shown::default()
    };
    assert_eq!(Shown::by_http(head), Some(expected));
    let cut = Shown { request: Some("CONNECT b.org:443".into()), ..Shown::default() };
    assert_eq!(Shown::by_http(b"CONNECT b.org:443"), Some(cut));
}

#[test]
fn every_name_of_a_refused_query_is_shown() {
    let question = |labels: &[&[u8]], kind: u8, class: u8| {
        let name: Vec<u8> =
            labels.iter().flat_map(|label| [&[u8::try_from(label.len()).unwrap()], *label].concat()).collect();
        [&name[..], &[0, 0, kind, 0, class]].concat()
    };
    let two = [question(&[b"a\\.b\x1b", b"org"], 16, 3), question(&[b"b", b"org"], 1, 1)].concat();
    let message = [&[0x12, 0x34, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0][..], &two].concat();
    let expected = vec![r"a\\\x2eb\x1b.org TXT CH".to_owned(), "b.org A IN".to_owned()];
    assert_eq!(Shown::by_query(&message), Some(Shown { query: expected, ..Shown::default() }));
    assert_eq!(Shown::by_query(b"garbage"), Some(bytes("garbage")));
    let long: Vec<&[u8]> = vec![&[0xff; 60], &[0xff; 60], &[0xff; 60], &[0xff; 60]];
    let message = [&[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &question(&long, 1, 1)].concat();
    let shown = Shown::by_query(&message).unwrap();
    assert!(shown.query[0].len() == MAX_TEXT && shown.query[0].ends_with("..."), "{shown:?}");
}

#[test]
fn the_evidence_is_bounded_whatever_is_sent() {
    let many = "Host: b.org\r\n".repeat(1000) + &"X-Host: b.org\r\n".repeat(1000);
    let head = format!("GET /{} HTTP/1.1\r\nHost: {}\r\n{many}\r\n", "\u{1}".repeat(5000), "\u{ff}".repeat(5000));
    let shown = Shown::by_http(head.as_bytes()).unwrap();
    let request = shown.request.clone().unwrap();
    assert!(request.len() <= MAX_TEXT && request.ends_with(r"\x01..."), "{request}");
    assert!(shown.host[0].len() <= MAX_TEXT && shown.host[0].ends_with(r"\xc3..."), "{shown:?}");
    assert_eq!((shown.host.len(), shown.forwarded.len()), (MAX_TEXTS, MAX_TEXTS));
    assert_eq!(escape(&[b'a'; MAX_TEXT - 3]).len(), MAX_TEXT - 3, "what fits is not cut");
}

#[test]
fn a_summary_names_what_differs() {
    let shown = Shown::by_http(b"GET /secret HTTP/1.1\r\nHost: b.org\r\n\r\n").unwrap();
    assert_eq!(shown.to_string(), "Host b.org");
    assert_eq!(Shown::by_http(b"CONNECT b.org:1 HTTP/1.1\r\n\r\n").unwrap().to_string(), "request CONNECT b.org:1");
    assert_eq!(sni(&["b.org"]).to_string(), "SNI b.org");
}

proptest! {
    #[test]
    fn any_bytes_give_bounded_printable_evidence(bytes: Vec<u8>, at in 0_usize..60, byte: u8) {
        let mut hello = record(&message(&[server_name("a.example.org"), extension(0xfe0d, &[0; 8])]));
        let mut head = b"GET http://b.org/ HTTP/1.1\r\nHost: a.org\r\nForwarded: host=b.org\r\n\r\n".to_vec();
        for good in [&mut hello, &mut head] {
            let length = good.len();
            good[at % length] = byte;
        }
        for bytes in [&bytes, &hello, &head] {
            for read in [Shown::by_tls, Shown::by_http, Shown::by_query, Shown::by_bytes] {
                let Some(shown) = read(bytes) else { continue };
                let text = serde_json::to_string(&shown).unwrap();
                prop_assert!(text.len() < 8 << 10 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", text);
                prop_assert_eq!(serde_json::from_str::<Shown>(&text).unwrap(), shown);
            }
        }
    }
}
