//! `when:` in lists of tools: an entry that does not hold is left out, as if it were not written.
//!
//! With a parameter of type boolean, the command line says which tools a task has.

use profile::Problem;
use profile::source::{Complaints, Key, Node, Value};

/// Leaves out what does not hold, of the task's `tools` and of its solvers'.
pub(super) fn choose(entries: &mut [(Key, Node)], complaints: &Complaints) {
    for (key, node) in entries {
        match (key.name.as_str(), &mut node.value) {
            ("tools", Value::List(items)) => tools(items, complaints),
            ("solver", Value::List(solvers)) => solvers.iter_mut().for_each(|one| solver(one, complaints)),
            ("solver", _) => solver(node, complaints),
            _ => {}
        }
    }
}

fn solver(node: &mut Node, complaints: &Complaints) {
    let Value::Map(entries) = &mut node.value else { return };
    for (key, node) in entries {
        if let ("tools", Value::List(items)) = (key.name.as_str(), &mut node.value) {
            tools(items, complaints);
        }
    }
}

fn tools(items: &mut Vec<Node>, complaints: &Complaints) {
    items.retain_mut(|item| {
        let Value::Map(entries) = &mut item.value else { return true };
        let Some(index) = entries.iter().position(|(key, _)| key.name == "when") else { return true };
        let (_, when) = entries.remove(index);
        let holds = match when.value {
            Value::Bool(holds) => holds,
            other => {
                complaints.add(
                    Problem::at(when.place, format!("`when` must be true or false, found {}", other.kind()))
                        .hint("name a parameter of type boolean: when: \"{{name}}\""),
                );
                true
            }
        };
        // Nothing but a name is left: then it is one.
        if let [(key, name)] = entries.as_slice()
            && key.name == "name"
        {
            item.value = name.value.clone();
        }
        holds
    });
}
