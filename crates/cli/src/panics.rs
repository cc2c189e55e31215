//! What a panic says, without secrets: whatever went wrong, a key is not in the message.

use std::cell::Cell;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use log::Redactor;

use crate::printer;

/// What must not be said. Filled before anything runs that knows it.
static KNOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether a panic of this thread is handled by its caller.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of a library that panics on an error of the system; `None` where it did. Nothing is printed.
pub(crate) fn silently<T>(call: impl FnOnce() -> T) -> Option<T> {
    EXPECTED.set(true);
    // What the call has changed is given up with it.
    let result = catch_unwind(AssertUnwindSafe(call));
    EXPECTED.set(false);
    result.ok()
}

/// Has panics speak through us.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        if EXPECTED.get() {
            return;
        }
        // Nobody is left who could be told that this failed.
        let _ = writeln!(std::io::stderr(), "{}", told(&panic.to_string()));
    }));
}

/// Keeps these out of every message.
pub(crate) fn remember(secrets: &[String]) {
    if let Ok(mut known) = KNOWN.lock() {
        known.extend(secrets.iter().filter(|secret| !secret.is_empty()).cloned());
        known.sort();
        known.dedup();
    }
}

/// The message as it may be shown. Where it is not known what may not be said, nothing is.
fn told(message: &str) -> String {
    match KNOWN.try_lock() {
        Ok(known) => {
            let redactor = Redactor::new(known.clone(), [""; 0]);
            printer::sanitise(&redactor.text(message))
        }
        Err(_) => "ringfence panicked; what it said may hold a secret and is not shown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_panic_is_a_value() {
        assert_eq!(silently(|| 1), Some(1));
        assert_eq!(silently(|| std::panic::resume_unwind(Box::new("no thread"))), None::<()>);
        assert!(!EXPECTED.get());
    }

    #[test]
    fn a_panic_says_no_secret_and_nothing_to_a_terminal() {
        remember(&["hunter2hunter2".to_owned(), String::new()]);
        let said = told("panicked at x.rs:1: key is hunter2hunter2 \u{1b}[2J");
        assert!(said.contains("x.rs:1") && !said.contains("hunter2") && !said.contains('\u{1b}'), "{said}");
        let _held = KNOWN.lock();
        assert!(!told("hunter2hunter2").contains("hunter2"));
    }
}
