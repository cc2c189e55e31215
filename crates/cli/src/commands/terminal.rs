//! Our own terminal: its size, and raw mode while a command has it.

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox::WindowSize;

/// The size of our terminal, or of none.
pub(super) fn size() -> WindowSize {
    match tcgetwinsize(std::io::stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => WindowSize { rows: size.ws_row, columns: size.ws_col },
        _ => WindowSize { rows: 24, columns: 80 },
    }
}

/// Our terminal in raw mode; dropping it restores what was.
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    /// `None` where standard input is no terminal.
    pub(super) fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        if !isatty(&stdin) {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}
