//! The task's own part of `limits:`.

use profile::source::{Complaints, Fields, Key, Node, Value, nearest_word};
use profile::{Count, Millis, Problem};

use super::Limits;

/// Its keys; the others are the document's.
const KEYS: &[&str] = &["working_time", "messages", "tokens"];

impl Limits {
    /// Takes its keys out of the entries of a task; what is left of `limits:` is the document's.
    pub(super) fn take(entries: &mut Vec<(Key, Node)>, complaints: &Complaints) -> Self {
        let Some(index) = entries.iter().position(|(key, _)| key.name == "limits") else { return Self::default() };
        let place = entries[index].1.place;
        // The document complains about what is no mapping.
        let Value::Map(stated) = &mut entries[index].1.value else { return Self::default() };
        let (own, rest) = std::mem::take(stated).into_iter().partition(|(key, _)| KEYS.contains(&key.name.as_str()));
        *stated = known(rest, complaints);
        if stated.is_empty() {
            entries.remove(index);
        }
        Self::read(Node { place, value: Value::Map(own) }, complaints)
    }

    fn read(node: Node, complaints: &Complaints) -> Self {
        let Some(mut fields) = Fields::open(node, "`limits`", KEYS, complaints) else { return Self::default() };
        let working = fields.parsed::<Millis>("working_time").map(|time| time.value.0);
        let messages = super::amounts::count(&mut fields, "messages", u32::MAX);
        let tokens = fields.parsed::<Count>("tokens").map(|count| count.value.0);
        fields.close();
        Self { working, messages, tokens }
    }
}

/// The document does not know the task's keys, so what neither knows is said here.
fn known(entries: Vec<(Key, Node)>, complaints: &Complaints) -> Vec<(Key, Node)> {
    let all: Vec<&str> = KEYS.iter().chain(profile::Limits::KEYS).copied().collect();
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
