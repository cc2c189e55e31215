//! What waits to be sent: control frames before data.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, write};
use wire::{Guest, encode};

/// Above this, no more output is read from commands until the host has taken some.
const HIGH_WATER: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct Outbox {
    control: VecDeque<Vec<u8>>,
    data: VecDeque<Vec<u8>>,
    queued: usize,
    /// What is under way: a frame once begun must be finished.
    current: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Sends before any data that waits. Never for a frame that must come after a stream's bytes.
    pub(crate) fn urgent(&mut self, message: &Guest) {
        Self::push(&mut self.control, &mut self.queued, message);
    }

    /// Sends in order with the data.
    pub(crate) fn in_order(&mut self, message: &Guest) {
        Self::push(&mut self.data, &mut self.queued, message);
    }

    fn push(queue: &mut VecDeque<Vec<u8>>, queued: &mut usize, message: &Guest) {
        let mut frame = Vec::new();
        // Our own messages are below the limit: chunks are cut, lists are sent in parts, texts are truncated.
        if encode(message, &mut frame).is_ok() {
            *queued += frame.len();
            queue.push_back(frame);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued > HIGH_WATER
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0 && self.sent == self.current.len()
    }

    /// Writes until everything is sent or the stream takes no more. An error means that the host is gone.
    pub(crate) fn flush(&mut self, stream: &OwnedFd) -> Result<(), Errno> {
        loop {
            if self.sent == self.current.len() {
                let Some(frame) = self.control.pop_front().or_else(|| self.data.pop_front()) else { return Ok(()) };
                self.queued -= frame.len();
                self.current = frame;
                self.sent = 0;
            }
            match write(stream.as_fd(), &self.current[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
