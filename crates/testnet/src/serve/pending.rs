//! What clients have sent and no server has read yet, as the kernel counts it.
//!
//! A connection is established before it is accepted: a test that asks right after its client might find nothing in
//! the journal although something arrived. So the question waits until the queues of all sockets here are empty.

use std::time::Duration;

use tokio::time::Instant;

/// A socket that nobody reads (the upload behind a refused request) must not hold up an answer for long.
const DEADLINE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);
/// What was read is not yet written down; the queues must be empty this many times in a row.
const EMPTY_READINGS: u32 = 3;

/// Waits until everything that has arrived was read.
pub(crate) async fn settle() {
    let deadline = Instant::now() + DEADLINE;
    let mut empty = 0;
    while empty < EMPTY_READINGS && Instant::now() < deadline {
        empty = if anything_waits() { 0 } else { empty + 1 };
        tokio::time::sleep(PAUSE).await;
    }
}

fn anything_waits() -> bool {
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
        // Files of the kernel: reading them does not block. They show this namespace only.
        std::fs::read_to_string(format!("/proc/self/net/{table}")).is_ok_and(|table| has_unread(&table))
    })
}

/// Whether a row of the table (`proc_pid_net(5)`) has anything in its receive queue: bytes, or for a listener
/// connections.
fn has_unread(table: &str) -> bool {
    table.lines().skip(1).any(|row| {
        let queues = row.split_whitespace().nth(4).and_then(|queues| queues.split_once(':'));
        queues.is_some_and(|(_, receive)| receive.bytes().any(|digit| digit != b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    #[test]
    fn only_the_receive_queue_counts() {
        let sending = "   0: 0AD7B85D:0050 02D6B85D:8000 01 0000FF00:00000000 00:00000000 00000000 0 0 1\n";
        let listening = "   1: 0AD7B85D:0050 00000000:0000 0A 00000000:00000001 00:00000000 00000000 0 0 2\n";
        assert!(!has_unread(HEADER));
        assert!(!has_unread(&[HEADER, sending].concat()));
        assert!(has_unread(&[HEADER, sending, listening].concat()));
    }
}
