//! The task's own part of `limits:`.

use profile::source::{Complaints, Fields, Key, Node, Value, nearest_word};
use profile::{Count, Millis, Problem};

use super::{Dollars, Limits, RunLimits, Task};

/// Its keys; the others are the document's.
const KEYS: &[&str] = &["working_time", "messages", "tokens", "cost"];
/// The key of what all samples together may use up.
const RUN: &str = "run";
const RUN_KEYS: &[&str] = &["time", "working_time", "messages", "tokens", "cost"];

impl Limits {
    /// Takes its keys out of the entries of a task; what is left of `limits:` is the document's.
    pub(super) fn take(entries: &mut Vec<(Key, Node)>, complaints: &Complaints) -> (Self, RunLimits) {
        let none = || (Self::default(), RunLimits::default());
        let Some(index) = entries.iter().position(|(key, _)| key.name == "limits") else { return none() };
        let place = entries[index].1.place;
        // The document complains about what is no mapping.
        let Value::Map(stated) = &mut entries[index].1.value else { return none() };
        let run = stated.iter().position(|(key, _)| key.name == RUN).map(|index| stated.remove(index).1);
        let (own, rest) = std::mem::take(stated).into_iter().partition(|(key, _)| KEYS.contains(&key.name.as_str()));
        *stated = known(rest, complaints);
        if stated.is_empty() {
            entries.remove(index);
        }
        let run = run.map(|node| RunLimits::read(node, complaints)).unwrap_or_default();
        (Self::read(Node { place, value: Value::Map(own) }, complaints), run)
    }

    /// Reads a mapping of them alone.
    pub(super) fn read(node: Node, complaints: &Complaints) -> Self {
        let Some(mut fields) = Fields::open(node, "`limits`", KEYS, complaints) else { return Self::default() };
        let limits = Self::of(&mut fields);
        fields.close();
        limits
    }

    fn of(fields: &mut Fields<'_>) -> Self {
        Self {
            working: fields.parsed::<Millis>("working_time").map(|time| time.value.0),
            messages: super::amounts::count(fields, "messages", u32::MAX),
            tokens: fields.parsed::<Count>("tokens").map(|count| count.value.0),
            cost: fields.parsed::<Dollars>("cost").map(|cost| cost.value),
        }
    }

    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            working: self.working.or(other.working),
            messages: self.messages.or(other.messages),
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
        }
    }

    /// Leaves what others say to them.
    pub(super) fn yield_to(&mut self, others: &Self) {
        self.working = self.working.filter(|_| others.working.is_none());
        self.messages = self.messages.filter(|_| others.messages.is_none());
        self.tokens = self.tokens.filter(|_| others.tokens.is_none());
        self.cost = self.cost.filter(|_| others.cost.is_none());
    }

    /// Whether somebody must say how much was used, for these to hold.
    pub(crate) fn need_usage(&self) -> bool {
        self.tokens.is_some() || self.cost.is_some()
    }
}

impl RunLimits {
    fn read(node: Node, complaints: &Complaints) -> Self {
        let Some(mut fields) = Fields::open(node, "`run`", RUN_KEYS, complaints) else { return Self::default() };
        let time = fields.parsed::<Millis>("time").map(|time| time.value.0);
        let sums = Limits::of(&mut fields);
        fields.close();
        Self { time, sums }
    }
}

/// The document does not know the task's keys, so what neither knows is said here.
fn known(entries: Vec<(Key, Node)>, complaints: &Complaints) -> Vec<(Key, Node)> {
    let own = KEYS.iter().chain(&[RUN]);
    let all: Vec<&str> = own.chain(profile::Limits::KEYS).copied().collect();
    let (known, unknown): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| all.contains(&key.name.as_str()));
    for (key, _) in unknown {
        let problem = Problem::at(key.place, format!("unknown key `{}` in `limits`", key.name));
        complaints.add(match nearest_word(&key.name, all.iter().copied()) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint(format!("known keys are {}", all.join(", "))),
        });
    }
    known
}

impl Task {
    /// Whether anything limits what answers may cost.
    pub fn limits_cost(&self) -> bool {
        let of_samples = self.dataset.samples.iter().any(|sample| sample.own.limits.cost.is_some());
        of_samples || self.limits.cost.is_some() || self.run_limits.sums.cost.is_some()
    }
}
