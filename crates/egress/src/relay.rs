//! The data path: bytes from one socket to another, counted, paced, and with buffers only where bytes are.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::reason::Reason;
use crate::socket::Socket;

/// How much is read at once.
const BUFFER: usize = 256 << 10;
/// How much where many share.
const CROWDED: usize = 32 << 10;
/// Buffers that are kept for the next who needs one.
const KEPT: usize = 32;

/// Buffers that are lent to whoever has bytes to move. An idle connection holds none.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Box<[u8]>>>);

impl Buffers {
    fn borrow(&self) -> Box<[u8]> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice())
    }

    fn give_back(&self, buffer: Box<[u8]>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

/// Keeps what the kernel holds for a connection small, where many share.
pub(crate) fn restrain(stream: &Socket) {
    let socket = socket2::SockRef::from(stream);
    // Where it cannot be set, the kernel's own limits hold.
    let _ = socket.set_send_buffer_size(CROWDED);
    let _ = socket.set_recv_buffer_size(CROWDED);
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Out,
    In,
}

/// Counts one connection's bytes.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    started: Instant,
    /// Milliseconds from the start to the last byte.
    last: AtomicU64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { sent: AtomicU64::new(0), received: AtomicU64::new(0), started: Instant::now(), last: AtomicU64::new(0) }
    }

    fn count(&self, direction: Direction, bytes: usize) {
        let counter = if direction == Direction::Out { &self.sent } else { &self.received };
        counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.last.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Resolves when nothing was sent for so long.
    pub(crate) async fn idle(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        loop {
            let silent = self.elapsed_ms().saturating_sub(self.last.load(Ordering::Relaxed));
            match limit.checked_sub(silent) {
                None | Some(0) => return,
                Some(left) => tokio::time::sleep(Duration::from_millis(left)).await,
            }
        }
    }
}

/// What a sandbox may send and receive, over all its connections.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: Option<AtomicU64>,
    bucket: Option<Mutex<Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl Allowance {
    pub(crate) fn new(bytes: Option<u64>, per_second: Option<u64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let bucket = |rate: u64| {
            let rate = rate as f64;
            Mutex::new(Bucket { per_second: rate, tokens: rate / 10.0, filled: Instant::now() })
        };
        Self { left: bytes.map(AtomicU64::new), bucket: per_second.map(bucket) }
    }

    /// Takes so many bytes: waits where they come too fast, fails where there are no more.
    async fn take(&self, bytes: usize) -> Result<(), Reason> {
        if let Some(left) = &self.left {
            let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
            let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(wanted));
            taken.map_err(|_| Reason::ByteLimit)?;
        }
        if let Some(bucket) = &self.bucket {
            let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        }
        Ok(())
    }
}

impl Bucket {
    /// How long whoever takes this much must wait. Tokens may be owed: the next one waits for it.
    fn take(&mut self, bytes: usize) -> Duration {
        let now = Instant::now();
        let burst = self.per_second / 10.0;
        self.tokens = (self.tokens + now.duration_since(self.filled).as_secs_f64() * self.per_second).min(burst);
        self.filled = now;
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let bytes = bytes as f64;
        self.tokens -= bytes;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.per_second) }
    }
}

/// How a stream of bytes ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The sender is done, or one of the two is gone.
    Done,
    Cut(Reason),
}

impl From<Reason> for Ended {
    fn from(reason: Reason) -> Self {
        Self::Cut(reason)
    }
}

/// What one connection's bytes are counted and paced by.
pub(crate) struct Flow<'a> {
    pub(crate) meter: &'a Meter,
    pub(crate) allowance: &'a Allowance,
    pub(crate) buffers: &'a Buffers,
    /// Whether many share: then each holds little while it waits.
    pub(crate) crowded: bool,
}

impl Flow<'_> {
    /// Writes all of it, counted.
    pub(crate) async fn write(&self, to: &Socket, mut bytes: &[u8], way: Direction) -> Result<(), Ended> {
        self.allowance.take(bytes.len()).await?;
        while !bytes.is_empty() {
            match to.try_write(bytes) {
                Ok(count) => {
                    self.meter.count(way, count);
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    to.writable().await.map_err(|_| Ended::Done)?;
                }
                Err(_) => return Err(Ended::Done),
            }
        }
        Ok(())
    }

    /// Moves bytes until the sender is done; then tells the receiver.
    pub(crate) async fn pump(&self, from: &Socket, to: &Socket, way: Direction) -> Ended {
        loop {
            if from.readable().await.is_err() {
                return Ended::Done;
            }
            let moved = if self.crowded {
                self.move_what_is_there(from, to, way, &mut vec![0; CROWDED]).await
            } else {
                let mut buffer = self.buffers.borrow();
                let moved = self.move_what_is_there(from, to, way, &mut buffer).await;
                self.buffers.give_back(buffer);
                moved
            };
            match moved {
                Ok(()) => {}
                Err(Ended::Done) => {
                    to.end();
                    return Ended::Done;
                }
                Err(cut) => return cut,
            }
        }
    }

    /// Until nothing is there; `Err` at the end.
    async fn move_what_is_there(
        &self,
        from: &Socket,
        to: &Socket,
        way: Direction,
        buffer: &mut [u8],
    ) -> Result<(), Ended> {
        loop {
            match from.try_read(buffer) {
                Ok(0) => return Err(Ended::Done),
                Ok(count) => self.write(to, &buffer[..count], way).await?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Ended::Done),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_run_out() {
        let allowance = Allowance::new(Some(10), None);
        assert_eq!(allowance.take(7).await, Ok(()));
        assert_eq!(allowance.take(4).await, Err(Reason::ByteLimit));
        assert_eq!(allowance.take(3).await, Ok(()));
    }

    #[test]
    fn a_rate_makes_wait() {
        let mut bucket = Bucket { per_second: 1000.0, tokens: 100.0, filled: Instant::now() };
        assert_eq!(bucket.take(50), Duration::ZERO);
        let wait = bucket.take(1050);
        assert!(wait > Duration::from_millis(900) && wait <= Duration::from_secs(1), "{wait:?}");
    }
}
