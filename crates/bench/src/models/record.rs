//! What the server saw: how fast it was asked, and whether every conversation had its turn.
//!
//! Fairness is measured where it shows, at the server, in two ways. Jain's index of how long conversations took
//! (1: all the same; 1/n: one had everything) says whether some were preferred over all of their time. The longest pause
//! between an answer and the next question of the same conversation says whether any was left waiting once.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::script::Asked;

#[derive(Debug, Default)]
struct Conversation {
    began: Duration,
    /// When it was answered last.
    answered: Duration,
    turns: usize,
}

/// What is happening. Times are since the server began.
#[derive(Debug, Default)]
pub(super) struct Record {
    conversations: HashMap<u64, Conversation>,
    pauses: Vec<Duration>,
    /// The duration of each conversation that is done, and when that was.
    done: Vec<(Duration, f64)>,
    first: Option<Duration>,
    last: Duration,
    requests: u64,
    repeated: u64,
    connections: (usize, usize),
    under_way: (usize, usize),
}

/// What it came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Of these, those that had been answered before.
    pub(crate) repeated: u64,
    /// Conversations that had all their turns.
    pub(crate) conversations: usize,
    /// From the first request to the last reply.
    pub(crate) seconds: f64,
    /// The most connections, and requests, at one moment.
    pub(crate) connections: usize,
    pub(crate) at_once: usize,
    /// Jain's index of the conversations' durations.
    pub(crate) fairness: f64,
    /// The longest conversation, in medians.
    pub(crate) slowest: f64,
    /// Between an answer and the next question of the same conversation: the median and the longest, in seconds.
    pub(crate) pause: f64,
    pub(crate) longest_pause: f64,
    /// When a quarter, half, three quarters and all of the conversations were done, in seconds since 1970.
    pub(crate) quarters: Vec<f64>,
}

/// Counts one more, and keeps the most.
fn more((now, most): &mut (usize, usize)) {
    *now += 1;
    *most = (*most).max(*now);
}

impl Record {
    pub(super) fn connected(&mut self) {
        more(&mut self.connections);
    }

    pub(super) fn disconnected(&mut self) {
        self.connections.0 = self.connections.0.saturating_sub(1);
    }

    pub(super) fn asked(&mut self, asked: Asked, at: Duration) {
        more(&mut self.under_way);
        self.first.get_or_insert(at);
        let conversation = self.conversations.entry(asked.conversation).or_default();
        if asked.turn == 0 && conversation.turns == 0 {
            conversation.began = at;
        } else if asked.turn == conversation.turns {
            self.pauses.push(at.saturating_sub(conversation.answered));
        }
    }

    pub(super) fn answered(&mut self, asked: Asked, turns: usize, at: Duration) {
        self.under_way.0 = self.under_way.0.saturating_sub(1);
        self.requests += 1;
        self.last = at;
        let conversation = self.conversations.entry(asked.conversation).or_default();
        if asked.turn != conversation.turns {
            self.repeated += 1;
            return;
        }
        conversation.turns += 1;
        conversation.answered = at;
        if conversation.turns == turns {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.done.push((at.saturating_sub(conversation.began), now.as_secs_f64()));
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let mut durations: Vec<f64> = self.done.iter().map(|(duration, _)| duration.as_secs_f64()).collect();
        durations.sort_by(f64::total_cmp);
        let mut pauses: Vec<f64> = self.pauses.iter().map(Duration::as_secs_f64).collect();
        pauses.sort_by(f64::total_cmp);
        let middle = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let done_at = |quarter: usize| self.done.get((self.done.len() * quarter / 4).checked_sub(1)?);
        Figures {
            requests: self.requests,
            repeated: self.repeated,
            conversations: self.done.len(),
            seconds: self.last.saturating_sub(self.first.unwrap_or_default()).as_secs_f64(),
            connections: self.connections.1,
            at_once: self.under_way.1,
            fairness: jain(&durations),
            slowest: durations.last().map_or(0.0, |longest| longest / middle(&durations)),
            pause: middle(&pauses),
            longest_pause: pauses.last().copied().unwrap_or_default(),
            quarters: (1..=4).filter_map(done_at).map(|(_, at)| *at).collect(),
        }
    }
}

/// Jain's index of fairness: the square of the sum, by the sum of the squares and the number. Nothing is not fair.
#[expect(clippy::cast_precision_loss, reason = "a count of conversations")]
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn equal_shares_are_fair_and_one_who_has_all_is_not() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-9);
        assert!(jain(&[]).abs() < 1e-9);
        assert!((jain(&[4.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn conversations_are_told_apart_and_their_turns_counted() {
        let mut record = Record::default();
        let asked = |conversation, turn| Asked { conversation, turn };
        record.connected();
        record.connected();
        record.asked(asked(1, 0), at(0));
        record.asked(asked(2, 0), at(10));
        record.answered(asked(1, 0), 2, at(50));
        record.answered(asked(2, 0), 2, at(60));
        record.disconnected();
        record.connected();
        record.asked(asked(1, 1), at(70));
        record.answered(asked(1, 1), 2, at(120));
        // Asked again, as after a reply that was lost.
        record.asked(asked(1, 1), at(130));
        record.answered(asked(1, 1), 2, at(180));
        record.asked(asked(2, 1), at(260));
        record.answered(asked(2, 1), 2, at(310));
        let figures = record.figures();
        assert_eq!((figures.requests, figures.repeated, figures.conversations), (5, 1, 2));
        assert_eq!((figures.connections, figures.at_once), (2, 2));
        assert!((figures.seconds - 0.31).abs() < 1e-9 && (figures.longest_pause - 0.2).abs() < 1e-9);
        // 120 ms and 300 ms.
        assert!((figures.fairness - 0.845).abs() < 1e-3, "{figures:?}");
        assert!((figures.slowest - 1.0).abs() < 1e-9 && figures.quarters.len() == 3, "{figures:?}");
    }
}
