//! What is taken out, what stays, and that a stream is the same as the whole.

use base64::Engine as _;
use proptest::prelude::*;
use serde_json::json;

use super::forms::percent;
use super::*;

fn redactor(values: &[&str]) -> Redactor {
    Redactor::new(values, KEYS)
}

#[test]
fn arguments_are_taken_out_by_key_at_any_depth() {
    let mut arguments = json!({
        "Api-Key": "x", "cmd": "ls", "headers": [{"AUTHORIZATION": {"a": 1}, "accept": "*"}], "token": null, "content": 7
    });
    redactor(&[]).arguments(arguments.as_object_mut().unwrap());
    assert_eq!(
        arguments,
        json!({
            "Api-Key": REDACTED, "cmd": "ls", "headers": [{"AUTHORIZATION": REDACTED, "accept": "*"}], "token": null,
            "content": REDACTED
        })
    );
}

#[test]
fn the_content_of_messages_stays() {
    let mut message =
        json!({"role": "assistant", "content": "words", "tool_calls": [{"arguments": {"content": "file"}}]});
    redactor(&[]).value(&mut message);
    assert_eq!(message["content"], "words");
    assert_eq!(message["tool_calls"][0]["arguments"]["content"], REDACTED);
}

#[test]
fn values_are_taken_out_wherever_they_stand() {
    let redactor = redactor(&["s3cr\"t/+ é", "short"]);
    assert_eq!(redactor.too_short(), 1);
    let basic = base64::engine::general_purpose::STANDARD.encode("user:s3cr\"t/+ é");
    let quoted = json!({"password": "s3cr\"t/+ é"}).to_string();
    let mut value = json!({
        "plain": "a s3cr\"t/+ é b", "url": "https://x/?k=s3cr%22t%2F%2B%20%C3%A9&n=1", "small": "s3cr%22t%2f%2b+%c3%a9",
        "basic": format!("Basic {basic}"), "json": quoted, "list": ["s3cr\"t/+ é"], "s3cr\"t/+ é": 1, "short": "short",
    });
    redactor.value(&mut value);
    let text = value.to_string();
    assert!(!text.contains("s3cr"), "{text}");
    assert_eq!(value["plain"], "a [REDACTED] b");
    assert_eq!(value["url"], "https://x/?k=[REDACTED]&n=1");
    assert_eq!(value["json"], "{\"password\":\"[REDACTED]\"}");
    assert_eq!(value[REDACTED], 1);
    assert!(value["basic"].as_str().unwrap().starts_with("Basic dXNlcj"), "{text}");
    assert!(!value["basic"].as_str().unwrap().contains(&basic[10..basic.len() - 4]), "{text}");
    assert_eq!(value["short"], "short");
}

#[test]
fn secrets_that_overlap_leave_nothing_of_each_other() {
    assert_eq!(redactor(&["abcdef", "defghi"]).text("_abcdefghi_"), "_[REDACTED]_");
    assert_eq!(redactor(&["abcdef", "xabcdefx"]).text("xabcdefxabcdef"), "[REDACTED]");
}

#[test]
fn an_empty_list_takes_out_nothing() {
    assert!(matches!(redactor(&["", "  "]).text("anything"), Cow::Borrowed("anything")));
}

proptest! {
    #[test]
    fn no_text_keeps_a_secret(
        secret in "[ -~é]{8,40}", before in any::<String>(), after in any::<String>(), kind in 0..4
    ) {
        let secret = secret.trim();
        prop_assume!(secret.len() >= 8 && !REDACTED.contains(secret));
        let around = format!("{before}{secret}{after}");
        let redactor = redactor(&[secret]);
        let engine = base64::engine::general_purpose::STANDARD;
        let (text, hidden) = match kind {
            0 => (around, secret.to_owned()),
            1 => (percent(&around, "-_.~"), percent(secret, "-_.~")),
            2 => (Value::from(around).to_string(), secret.to_owned()),
            _ => (engine.encode(&around), String::new()),
        };
        let out = redactor.text(&text);
        if kind == 3 {
            prop_assert!(out.contains(REDACTED), "{}", out);
        } else {
            prop_assert!(!out.contains(&hidden), "{}", out);
        }
    }
}

/// Each text with what becomes of it.
fn table(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(redactor(&[]).text(text), *expected, "{text}");
    }
}

#[test]
fn tokens_are_known_by_their_shape() {
    let tokens = [
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAY34FZKBOKMUTVV7A",
        "sk-ant-api03-R2D2abcdefghijklmnop_qrstuv-wxyz0123456789AA",
        "sk-proj-abcdefghij1234567890ABCDEFGHIJ",
        "sk-abcdEFGH1234ijklMNOP5678qrst",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "gho_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789",
        "glpat-x7Yz_1234567890abcdE",
        "xoxb-123456789012-1234567890123-AbCdEfGhIjKl",
        "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
        "ya29.a0AfH6SMBx1234567890abcdefghijklmnop",
        "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVB",
    ];
    for token in tokens {
        for (before, after) in [
            ("", ""),
            ("key=", " "),
            ("\"", "\""),
            ("a\\n", "\\n"),
            ("x%3D", "&y"),
            ("\x1b[1;32m", "\x1b[0m"),
            ("é", "é"),
        ] {
            let (text, expected) = (format!("{before}{token}{after}"), format!("{before}{REDACTED}{after}"));
            assert_eq!(redactor(&[]).text(&text), expected, "{text}");
        }
        assert_eq!(redactor(&[]).text(&format!("word{token}")), format!("word{token}"), "in the middle of a word");
    }
}

#[test]
fn what_only_resembles_a_token_stays() {
    let noise =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==".repeat(40);
    for text in [
        "AKIA is how ids begin, AKIAlower, AKIA1234567890ABCDEFG",
        "sk-learn and scikit-learn, sk-abcdefghijklmnopqrstuvwxyz, task-0123456789abcdefghij, sk-some-long-name-of-a-branch",
        "the hash d41d8cd98f00b204e9800998ecf8427e and 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "https://example.org:8080/a@b and https://example.org/a:b@c, git@github.com:a/b.git, mailto:a@b",
        "eyJhbGciOiJIUzI1NiJ9 alone, and eyJhbGciOiJIUzI1NiJ9.dGVzdA==, eyJ.eyJ.",
        "-----BEGIN CERTIFICATE-----\nMIIDazCCAlOgAwIBAgIUabcdefghijklmnop\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
        "look for -----BEGIN PRIVATE KEY----- in files, then -----BEGIN RSA PRIVATE KEY-----\n...\n-----END",
        "ghp_short, npm_install, hf_hub_download, hf_transformers, glpat-, xoxb-token, ya29.short, AIzaShort",
        "{\"token\": \"the\", \"secret\": \"\", \"password\": null, \"content\": \"words of a message\", \"tokens\": \"0123456789abcdef\"}",
        "password: str, token = get_token(), secret=args.secret, cookie: the user has one",
        "Authorization: the user must be allowed to read; Cookie: none; api_key: str",
        "max_token: \"0123456789abcdef0123\" my.authorization: see above",
        noise.as_str(),
    ] {
        assert!(matches!(redactor(&[]).text(text), Cow::Borrowed(_)), "{text}\n{}", redactor(&[]).text(text));
    }
}

#[test]
fn private_keys_are_taken_out_of_their_lines() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    for end in ["\n", "\r\n", "\\n", "\\\\n", "%0A"] {
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let text = format!("a-----BEGIN {label}-----{end}{body}{end}{body}==-----END {label}-----{end}b");
            assert_eq!(
                redactor(&[]).text(&text),
                format!("a-----BEGIN {label}-----[REDACTED]-----END {label}-----{end}b")
            );
        }
    }
    table(&[
        (&format!("-----BEGIN PRIVATE KEY-----\n{body}"), "-----BEGIN PRIVATE KEY-----[REDACTED]"),
        (
            &format!("{{\"k\":\"-----BEGIN EC PRIVATE KEY-----\\n{body}\",\"b\":1}}"),
            "{\"k\":\"-----BEGIN EC PRIVATE KEY-----[REDACTED]\",\"b\":1}",
        ),
        (
            &format!(
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n{body}\n-----END x"
            ),
            "-----BEGIN RSA PRIVATE KEY-----[REDACTED]-----END x",
        ),
        (
            &format!("BEGIN%20-----BEGIN%20PRIVATE%20KEY-----%0A{body}&x"),
            "BEGIN%20-----BEGIN%20PRIVATE%20KEY-----[REDACTED]&x",
        ),
    ]);
}

#[test]
fn nobody_hides_the_rest_of_a_log_behind_the_beginning_of_a_secret() {
    for begin in ["-----BEGIN PRIVATE KEY-----\n", "Authorization: Bearer ", "\"password\": \""] {
        let text = format!("{begin}{}the end", "a ".repeat(200_000).replace("a ", "abcdefghi "));
        let out = redactor(&[]).text(&text).into_owned();
        assert!(out.len() > text.len() - (1 << 17) && out.ends_with("the end"), "{begin}");
    }
    let umlauts = format!("Cookie: a={}", "é".repeat(10_000));
    assert!(redactor(&[]).text(&umlauts).ends_with('é'), "no character is cut in two");
}

#[test]
fn passwords_in_urls_are_taken_out() {
    table(&[
        ("postgres://user:hunter2@db:5432/x", "postgres://user:[REDACTED]@db:5432/x"),
        ("redis://:p%40ss:word@[::1]/0", "redis://:[REDACTED]@[::1]/0"),
        ("(https://a:b@c.org, http://d:80/)", "(https://a:[REDACTED]@c.org, http://d:80/)"),
    ]);
}

#[test]
fn what_stands_behind_a_telling_name_is_taken_out() {
    table(&[
        (r#"{"api_key": "x y", "n": 1}"#, r#"{"api_key": "[REDACTED]", "n": 1}"#),
        (r#"{"Password":"a\"b\\","n":1}"#, r#"{"Password":"[REDACTED]","n":1}"#),
        (r#"{"j":"{\"access-token\": \"a\\\"b\"}"}"#, r#"{"j":"{\"access-token\": \"[REDACTED]\"}"}"#),
        (r"{'authorization': 'Bearer abc'}", "{'authorization': '[REDACTED]'}"),
        ("client_secret = \"abc\"\nnext", "client_secret = \"[REDACTED]\"\nnext"),
        ("tool --api-key='abc' x", "tool --api-key='[REDACTED]' x"),
        ("{\"token\": \"0123456789abcdef\"}", "{\"token\": \"[REDACTED]\"}"),
        ("GET /?a=1&access_token=abcdef&b=2 HTTP/1.1", "GET /?a=1&access_token=[REDACTED]&b=2 HTTP/1.1"),
        ("Authorization: Bearer abc.def-ghi\r\nHost: x", "Authorization: Bearer [REDACTED]\r\nHost: x"),
        ("curl -H \"authorization: Basic dXNlcjpwYXNz\" x", "curl -H \"authorization: Basic [REDACTED]\" x"),
        ("a\\nAuthorization: Bearer abcdef\\nb", "a\\nAuthorization: Bearer [REDACTED]\\nb"),
        ("Cookie: sid=abc; theme=dark\nx", "Cookie: [REDACTED]\nx"),
        ("set-cookie: sid=abc; HttpOnly\nx", "set-cookie: [REDACTED]\nx"),
        ("X-Api-Key: 0123456789abcdef\nx", "X-Api-Key: [REDACTED]\nx"),
        ("\"password\": \"unfinished", "\"password\": \"[REDACTED]"),
    ]);
}

#[test]
fn arguments_that_are_no_json_are_searched_for_names() {
    let mut call = json!({"function": "write", "arguments": "{\"path\": \"a\", \"file_text\": \"line\nline\", \"token\": \"x\", oops"});
    redactor(&[]).value(&mut call);
    assert_eq!(call["arguments"], "{\"path\": \"a\", \"file_text\": \"[REDACTED]\", \"token\": \"[REDACTED]\", oops");
    let mut call = json!({"arguments": "{\"path\":\"a\",\"content\":\"x\"}"});
    redactor(&[]).value(&mut call);
    assert_eq!(call["arguments"], "{\"content\":\"[REDACTED]\",\"path\":\"a\"}");
    let mut call = json!({"arguments": {"pin": 123_456_789, "n": 7}});
    redactor(&["123456789"]).value(&mut call);
    assert_eq!(call, json!({"arguments": {"pin": REDACTED, "n": 7}}));
}

#[test]
fn counts_say_how_often_and_never_what() {
    let redactor = redactor(&["hunter22"]);
    redactor.text("hunter22 and hunter22hunter22, AKIAIOSFODNN7EXAMPLE, Cookie: a=b");
    redactor.arguments(json!({"token": "x"}).as_object_mut().unwrap());
    assert_eq!(redactor.counts(), Counts { value: 3, key: 2, pattern: 1 });
    assert_eq!(serde_json::to_value(redactor.counts()).unwrap(), json!({"value": 3, "key": 2, "pattern": 1}));
}

fn streamed(redactor: &Redactor, chunks: &[&[u8]]) -> Vec<u8> {
    let mut stream = Stream::new(redactor);
    let mut out = Vec::new();
    for chunk in chunks {
        stream.push(chunk, &mut out);
        assert!(stream.held() < 4096, "held {}", stream.held());
    }
    stream.finish(&mut out);
    out
}

const SAMPLE: &str = "\
    -----BEGIN RSA PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\\n-----END RSA PRIVATE KEY-----\n\
    s3cr\"t/+ é s3cr%22t%2F%2B%20%C3%A9 https://user:pw@host/?token=abcdefgh&x=1 \\\"password\\\": \\\"a\\\\\\\"b\\\" end\n\
    Authorization: Bearer abcdefg\r\nCookie: a=b\n\"api_key\": \"x\\\\\" AKIAIOSFODNN7EXAMPLE \
    eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNry ghp_16C7e42F292c6912E7710c838347Ae178B4a. \
    -----BEGIN PRIVATE KEY----- no key, sk-learn s3cr\"t/";

#[test]
fn a_secret_is_found_wherever_a_stream_is_split() {
    let redactor = redactor(&["s3cr\"t/+ é", "t/+ é s3"]);
    let whole = redactor.text(SAMPLE).into_owned();
    let bytes = SAMPLE.as_bytes();
    for at in 0..=bytes.len() {
        let out = streamed(&redactor, &[&bytes[..at], &bytes[at..]]);
        assert_eq!(String::from_utf8_lossy(&out), whole, "split at {at}");
    }
    for size in [1, 2, 3, 7, 64] {
        let out = streamed(&redactor, &bytes.chunks(size).collect::<Vec<_>>());
        assert_eq!(String::from_utf8_lossy(&out), whole, "chunks of {size}");
    }
}

#[test]
fn what_cannot_become_a_secret_is_not_held_back() {
    let redactor = redactor(&["hunter22"]);
    let mut stream = Stream::new(&redactor);
    let mut out = Vec::new();
    stream.push(b"$ ls\nfile\n$ ", &mut out);
    assert_eq!(out, b"$ ls\nfile\n$ ");
    stream.push(b"hunt", &mut out);
    assert_eq!(out, b"$ ls\nfile\n$ ");
    stream.push(b"ing \xff\xfe", &mut out);
    assert_eq!(out, b"$ ls\nfile\n$ hunting \xff\xfe");
}

#[test]
fn an_endless_secret_takes_no_memory() {
    let redactor = redactor(&["hunter22"]);
    for (begin, more) in [
        ("-----BEGIN PRIVATE KEY-----\n", "MIIEvQIBADANBgkqhkiG9w0B\n"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0", "eyJ"),
        ("eyJ", "eyJhbGciOiJIUzI1NiJ9"),
        ("sk-ant-", "0123456789"),
        ("\"password\": \"", "\\\\\\\\\\\\\\"),
        ("https://a:", "b"),
        ("", "hunter2hunter2"),
    ] {
        let chunks: Vec<&[u8]> = std::iter::once(begin.as_bytes()).chain(vec![more.as_bytes(); 20_000]).collect();
        let whole = chunks.concat();
        assert_eq!(streamed(&redactor, &chunks), redactor.bytes(&whole).into_owned(), "{begin}{more}");
    }
}

/// Parts of secrets and of what surrounds them, in any order.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"s3cr\"t/+ ",
        b"s3cr",
        b"aaaaaa",
        b"a",
        b"abaaba",
        b"YWFhYWFh",
        b"6161",
        b"eyJ",
        b".",
        b"eyJhbGciOiJIUzI1",
        b"-----",
        b"BEGIN ",
        b"PRIVATE KEY",
        b"END ",
        b"\n",
        b"\\n",
        b"\\",
        b"\"",
        b"'",
        b":",
        b"=",
        b" ",
        b"api_key",
        b"token",
        b"?",
        b"&",
        b"Authorization",
        b"Bearer ",
        b"Cookie",
        b"://",
        b"user",
        b"@",
        b"AKIA",
        b"IOSFODNN7EXAMPLE",
        b"sk-",
        b"ant-",
        b"0123456789abcdefghij",
        b"ghp_",
        b"%3D",
        b"\x1b[1m",
        b"\xff",
        b"\xc3\xa9",
        b"LS0tLS1CRUdJTi",
        b"BQUklWQVRFIEtFWS0tLS0t",
    ];
    prop::collection::vec(prop::sample::select(words), 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_stream_comes_out_like_the_whole(text in fragments(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let redactor = redactor(&["s3cr\"t/+ é", "aaaaaa", "aaaaaaaaaa", "abaaba", "abaabaabaab"]);
        let whole = redactor.bytes(&text).into_owned();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let out = streamed(&redactor, &chunks);
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole));
        let single: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(streamed(&redactor, &single), whole);
        if let Ok(text) = std::str::from_utf8(&text) {
            prop_assert_eq!(redactor.text(text).into_owned().into_bytes(), redactor.bytes(text.as_bytes()).into_owned());
        }
    }
}

#[test]
fn a_url_at_its_limits_is_the_same_in_a_stream() {
    for (user, password) in [(63, 5), (64, 5), (65, 5), (3, 255), (3, 256), (3, 257)] {
        let text = format!("a://{}:{}@host", "u".repeat(user), "p".repeat(password));
        let redactor = redactor(&[]);
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(String::from_utf8_lossy(&streamed(&redactor, &single)), redactor.text(&text));
        assert_eq!(text != redactor.text(&text), user <= 64 && password <= 256, "{text}");
    }
}

/// The ways in which programs write a secret, made by other code than the redactor's own.
#[test]
fn every_encoding_is_found_at_every_place() {
    let secrets = [
        "s3cr\"t/+<é>&'x",
        "0123456789abcdefABCDEF",
        "correct horse battery staple / with ümläuts & 'quotes' <and> more \"text\"",
    ];
    let standard = base64::engine::general_purpose::STANDARD;
    let lines = |text: &str, width: usize, end: &str| {
        text.as_bytes().chunks(width).map(String::from_utf8_lossy).collect::<Vec<_>>().join(end)
    };
    for secret in secrets {
        let redactor = redactor(&[secret]);
        for before in 0..80 {
            let around = format!("{}{secret}{}", "x".repeat(before), "y".repeat(200));
            let json = serde_json::to_string(&around).unwrap();
            let encoded = standard.encode(&around);
            let hex = crate::hex(around.as_bytes());
            let texts = [
                around.clone(),
                json.clone(),
                serde_json::to_string(&json).unwrap(),
                json.replace('/', "\\/"),
                percent(&around, "-_.~"),
                percent(&around, "-_.~").to_lowercase(),
                encoded.clone(),
                base64::engine::general_purpose::URL_SAFE.encode(&around),
                lines(&encoded, 76, "\n"),
                lines(&encoded, 64, "\r\n"),
                lines(&encoded, 76, "\\n"),
                hex.clone(),
                hex.to_uppercase(),
                lines(&hex, 60, "\n"),
                lines(&hex, 2, " "),
                lines(&hex, 2, ":"),
                format!("\\x{}", lines(&hex, 2, "\\x")),
                around.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
            ];
            for (number, text) in texts.iter().enumerate() {
                let lower = secret.chars().any(char::is_uppercase) && number == 5;
                let out = redactor.text(text);
                assert!(lower || out.contains(REDACTED), "encoding {number} behind {before} bytes:\n{text}");
                // Next to nothing is left of it: what stands before and behind, and a letter that they share with it.
                let left = out.len().saturating_sub(REDACTED.len());
                let expected = text.len() / around.len() * secret.len() / 2;
                assert!(lower || left < text.len() - expected, "encoding {number} behind {before} bytes:\n{out}");
            }
        }
    }
}

#[test]
fn ten_thousand_secrets_and_secrets_of_one_letter_are_no_trouble() {
    let mut secrets: Vec<String> =
        (0..10_000).map(|number| format!("{number:05}-the-same-beginning-{number:05}")).collect();
    secrets.extend((6..80).map(|length| "a".repeat(length)));
    let redactor = Redactor::new(&secrets, KEYS);
    assert_eq!(redactor.text(&format!("x{}x", secrets[7_777])), "x[REDACTED]x");
    assert_eq!(redactor.text(&format!("b{}b", "a".repeat(1_000_000))), "b[REDACTED]b");
    assert_eq!(redactor.text(&"aaaaab".repeat(100_000)), "aaaaab".repeat(100_000));
}

#[test]
fn what_is_run_cannot_be_hidden_behind_a_name() {
    let redactor = Redactor::new(["known-value-123"], KEYS);
    let run =
        "true Cookie: a=b;echo one; password=\"$(two)\"; true ?token=$(three) known-value-123 AKIAIOSFODNN7EXAMPLE";
    let shown = "true Cookie: a=b;echo one; password=\"$(two)\"; true ?token=$(three) [REDACTED] [REDACTED]";
    assert_eq!(redactor.seen(run), shown);
    let mut event = json!({"cmd": run, "arguments": {"command": run, "other": "Cookie: a=b"}});
    redactor.value(&mut event);
    assert_eq!(event, json!({"cmd": shown, "arguments": {"command": shown, "other": "Cookie: [REDACTED]"}}));
    // Neither behind a key that is none, nor in the password of an address.
    for whole in ["-----BEGIN PRIVATE KEY-----\nVersion: $(rm)\n-----END", "http://a:$(rm)@b/"] {
        assert_eq!(redactor.seen(whole), whole);
    }
}

#[test]
fn a_cut_through_a_secret_is_found() {
    let redactor = redactor(&["plainsecret0123456789"]);
    let text = format!("{}plainsecret0123456789{}", "a ".repeat(9000), "b ".repeat(9000));
    for cut in 0..text.len() {
        let inside = (18_001..18_021).contains(&cut);
        if inside || cut % 997 == 0 || cut.abs_diff(18_010) < 20 {
            assert_eq!(redactor.split_by(&text, cut), inside.then_some((18_000, 18_021)), "{cut}");
        }
    }
}
