//! SIGINT, SIGTERM and SIGHUP end a run in order: what runs is ended, then everything that this run started.
//!
//! A handler only notes the signal; `process::wait` and the loops over lanes look at it. The destructors of daemons and of
//! temporary directories then do the rest, as after a panic.

use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Notes signals from now on.
pub(crate) fn watch() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            RECEIVED.store(signal, Ordering::SeqCst);
        }
    });
    Ok(())
}

/// The signal that ends this run, if there was one.
pub(crate) fn received() -> Option<i32> {
    Some(RECEIVED.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}
