//! Searching the web, and the text of its pages.
//!
//! A page is fetched through a connection that the guest opens in the sandbox's own network (`fetch.rs`): no socket of the
//! host's takes part. A search runs on the host and asks exactly one service, which the plan names (`search.rs`).

mod fetch;
mod http;
mod keys;
mod page;
mod providers;
mod search;
mod tls;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fetch_tests;
#[cfg(test)]
mod search_tests;

pub use keys::{Keys, MissingKey};

pub(super) use fetch::fetch;
pub(crate) use search::Search;
pub(super) use search::search;

/// Who we say we are.
const USER_AGENT: &str = concat!("ringfence/", env!("CARGO_PKG_VERSION"));

/// Text of strangers in one line: no control characters, no runs of space, not too long.
fn tidy(text: &str, most: usize) -> String {
    let mut tidied = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !tidied.is_empty() {
            tidied.push(' ');
        }
        tidied.push_str(word);
        if tidied.len() > most {
            let end = (0..=most).rev().find(|end| tidied.is_char_boundary(*end)).unwrap_or(0);
            tidied.truncate(end);
            tidied.push('…');
            break;
        }
    }
    tidied
}
