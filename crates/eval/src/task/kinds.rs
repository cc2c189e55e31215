//! Things of several kinds: a bare word, or `{kind: word, …}` with options.

use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, nearest_word};

/// A kind and its keys, `kind` among them.
pub(super) type Kind = (&'static str, &'static [&'static str]);

/// One, or a list of several.
pub(super) fn one_or_many(node: Node) -> Vec<Node> {
    match node.value {
        Value::List(items) => items,
        value => vec![Node { place: node.place, value }],
    }
}

/// Opens one of `kinds`; `what` is what they are.
pub(super) fn open<'a>(
    node: Node,
    what: &'static str,
    kinds: &'static [Kind],
    complaints: &'a Complaints,
) -> Option<(&'static str, Fields<'a>)> {
    let place = node.place;
    let known = || kinds.iter().map(|(kind, _)| *kind).collect::<Vec<_>>().join(", ");
    let (word, at, rest) = match node.value {
        Value::Text(word) => (word, place, Vec::new()),
        Value::Map(mut entries) => {
            let Some(index) = entries.iter().position(|(key, _)| key.name == "kind") else {
                complaints
                    .add(Problem::at(place, format!("{what} needs a `kind`")).hint(format!("kinds are {}", known())));
                return None;
            };
            let (_, kind) = entries.remove(index);
            let at = kind.place;
            (profile::source::text(kind, "kind", complaints)?.value, at, entries)
        }
        other => {
            complaints.add(
                Problem::at(place, format!("{what} must be a word or a mapping, found {}", other.kind()))
                    .hint(format!("write one of {}, or {{kind: …}} with options", known())),
            );
            return None;
        }
    };
    let Some((kind, keys)) = kinds.iter().find(|(kind, _)| *kind == word) else {
        let problem = Problem::at(at, format!("`{word}` is not {what}"));
        complaints.add(match nearest_word(&word, kinds.iter().map(|(kind, _)| *kind)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint(format!("kinds are {}", known())),
        });
        return None;
    };
    let fields = Fields::open(Node { place, value: Value::Map(rest) }, what, keys, complaints)?;
    Some((kind, fields))
}
