//! `overrides:` of a sample: what holds for it alone.

use profile::Problem;
use profile::source::{Complaints, Fields, Node};

use super::amounts::words;
use super::{GenerateConfig, Limits, Own, generate, roles};

const KEYS: &[&str] = &["model", "generate", "model_roles", "mock_roles", "limits"];

/// Reads the mapping.
pub(super) fn read(node: Node, complaints: &Complaints) -> Own {
    let place = node.place;
    let Some(mut fields) = Fields::open(node, "`overrides`", KEYS, complaints) else { return Own::default() };
    let own = Own {
        model: words(&mut fields, "model"),
        generate: fields.take("generate").map(|node| generate::read(node, complaints)).unwrap_or_default(),
        model_roles: fields.take("model_roles").map(|node| roles::read(node, complaints)).unwrap_or_default(),
        mock_roles: fields.take("mock_roles").map(|node| roles::read_mocks(node, complaints)).unwrap_or_default(),
        limits: fields.take("limits").map(|node| Limits::read(node, complaints)).unwrap_or_default(),
    };
    fields.close();
    // Connections are shared by all samples that a model answers in.
    let GenerateConfig { max_connections, max_retries, timeout, attempt_timeout, cache, .. } = &own.generate;
    if max_connections.or(*max_retries).or(*timeout).or(*attempt_timeout).is_some() || cache.is_some() {
        let message = "a sample's `generate` is about answers, not about connections, times, repetitions or the cache";
        complaints.add(Problem::at(place, message).hint("state these under the task's own `generate`"));
    }
    own
}
