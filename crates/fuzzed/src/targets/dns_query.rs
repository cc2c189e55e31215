//! Any bytes are a DNS query or an error; every response repeats the query's ID and fits a datagram.

use egress::{Shown, read_question};

/// Checks one input.
pub fn dns_query(bytes: &[u8]) {
    if let Some(shown) = Shown::by_query(bytes) {
        for text in shown.query.iter().chain(&shown.bytes) {
            assert!(text.len() <= 255 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
        }
    }
    let Ok(question) = read_question(bytes) else { return };
    if let Ok(name) = &question.name {
        assert!(
            name.as_str()
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte))
        );
    }
    assert!(question.asked().is_ascii());
    for answer in
        [question.answer(Some([198, 18, 1, 0].into())), question.answer(None), question.deny(), question.fail()]
    {
        assert!(answer.len() <= 600 && answer.get(..2) == bytes.get(..2), "{} {answer:?}", answer.len());
    }
}
