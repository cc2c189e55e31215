//! Any bytes are a ClientHello, the beginning of one, or an error; bytes after a ClientHello do not change how it is read.

use egress::{Shown, check_hello, read_hello};

/// Checks one input.
pub fn client_hello(bytes: &[u8]) {
    if let Some(shown) = Shown::by_tls(bytes) {
        let texts = shown.sni.iter().chain(&shown.ech).chain(&shown.bytes);
        assert!(texts.clone().count() <= 9);
        for text in texts {
            assert!(text.len() <= 255 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
        }
    }
    let whole = read_hello(bytes);
    if let Ok(Some(hello)) = &whole {
        if check_hello(hello, "www.example.org").is_ok() {
            assert!(hello.server_name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(b"www.example.org")));
            assert!(!hello.encrypted);
        }
        let longer = [bytes, b"anything"].concat();
        assert_eq!(read_hello(&longer), whole);
    }
    // What came before can only have been too little, or the same.
    for end in [bytes.len() / 2, bytes.len().saturating_sub(1)] {
        match read_hello(&bytes[..end]) {
            Ok(None) => {}
            early => assert_eq!(early, whole),
        }
    }
}
