//! `networks`, `network_mode` and `extra_hosts`: where a service is attached, and names that it knows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use profile::source::{Node, Value};
use profile::{Located, Place};

use super::{Attachment, simple, texts};
use crate::names::NetworkName;
use crate::reading::Reading;
use crate::rules::ATTACHMENT_KEYS;
use crate::section::{self, Section};

/// The most networks of one service.
const MAX_NETWORKS: usize = 64;

pub(super) fn read(keys: &mut Section) -> Attachment {
    let reading = keys.reading;
    let mode = keys.text("network_mode");
    let networks = keys.take("networks");
    let Some(mode) = mode else {
        let found = networks.map(|node| named(reading, node)).unwrap_or_default();
        // As in Compose: whoever names no network is on the one called `default`.
        let found = if found.is_empty() {
            "default".parse().map(|name| (name, Vec::new())).into_iter().collect()
        } else {
            found
        };
        return Attachment::Networks(found);
    };
    let place = mode.place.unwrap_or(keys.place);
    if networks.is_some() {
        reading.problem_with_hint(place, "`network_mode` and `networks` exclude each other", "remove one of them");
    }
    match mode.value.as_str() {
        "none" => Attachment::None,
        "bridge" => Attachment::Bridge,
        other => {
            refuse_mode(reading, place, other);
            Attachment::None
        }
    }
}

fn refuse_mode(reading: &Reading, place: Place, mode: &str) {
    let shown: String = mode.chars().take(80).collect();
    let why = match mode.split_once(':').unwrap_or((mode, "")) {
        ("host", "") => "it is the host's own network, without any rule",
        ("service" | "container", name) if !name.is_empty() => {
            "two containers in one network would have one set of rules"
        }
        _ => {
            let hint = "it is none or bridge; networks of the file are named in `networks`";
            return reading.problem_with_hint(place, format!("unknown `network_mode: {shown}`"), hint);
        }
    };
    reading.refuse(place, "network_mode", format_args!("`network_mode: {shown}`"), why);
}

fn too_many(reading: &Reading, place: Place) -> BTreeMap<NetworkName, Vec<Located<String>>> {
    reading.problem(place, format!("a service is on at most {MAX_NETWORKS} networks"));
    BTreeMap::new()
}

/// A list of names, or a mapping with aliases.
fn named(reading: &Reading, node: Node) -> BTreeMap<NetworkName, Vec<Located<String>>> {
    let place = node.place;
    match node.value {
        Value::List(items) if items.len() > MAX_NETWORKS => too_many(reading, place),
        Value::Map(entries) if entries.len() > MAX_NETWORKS => too_many(reading, place),
        Value::List(items) => items
            .into_iter()
            .filter_map(|item| {
                let place = item.place;
                let text = section::text(reading, item, "networks")?;
                Some((section::name(reading, place, &text.value, "a network")?, Vec::new()))
            })
            .collect(),
        Value::Map(entries) => entries
            .into_iter()
            .filter_map(|(key, node)| {
                let name = section::name(reading, key.place, &key.name, "a network")?;
                let mut keys = Section::open(reading, node, "a network of a service", ATTACHMENT_KEYS)?;
                let aliases = texts(&mut keys, "aliases");
                let aliases =
                    aliases.iter().filter_map(|alias| section::parsed(reading, alias, "aliases", simple::host_name));
                let aliases = aliases.collect();
                keys.finish();
                Some((name, aliases))
            })
            .collect(),
        other => {
            reading.problem(place, format!("`networks` must be a list or a mapping, found {}", other.kind()));
            BTreeMap::new()
        }
    }
}

/// `NAME:ADDRESS` or `NAME=ADDRESS` in a list, or a mapping.
pub(super) fn extra_hosts(keys: &mut Section) -> Vec<Located<(String, IpAddr)>> {
    let Some(node) = keys.take("extra_hosts") else { return Vec::new() };
    let (reading, place) = (keys.reading, node.place);
    let mut found = Vec::new();
    match node.value {
        Value::List(items) => {
            for text in items.into_iter().filter_map(|item| section::text(reading, item, "extra_hosts")) {
                let place = text.place.unwrap_or(place);
                // Names have no `=`; addresses can have `:`.
                match text.value.split_once('=').or_else(|| text.value.split_once(':')) {
                    Some((name, address)) => found.extend(host(reading, place, name, address)),
                    None => reading.problem(place, "an entry of `extra_hosts` is NAME:ADDRESS"),
                }
            }
        }
        Value::Map(entries) => {
            for (key, node) in entries {
                let addresses = match node.value {
                    Value::List(items) => items,
                    _ => vec![node],
                };
                let addresses = addresses.into_iter().filter_map(|node| section::text(reading, node, "extra_hosts"));
                found.extend(addresses.filter_map(|address| host(reading, key.place, &key.name, &address.value)));
            }
        }
        other => reading.problem(place, format!("`extra_hosts` must be a list or a mapping, found {}", other.kind())),
    }
    found
}

fn host(reading: &Reading, place: Place, name: &str, address: &str) -> Option<Located<(String, IpAddr)>> {
    let name = match simple::host_name(name) {
        Ok(name) => name,
        Err(error) => {
            reading.problem(place, format!("`extra_hosts`: {error}"));
            return None;
        }
    };
    if address == "host-gateway" {
        reading.ignore(place, "extra_hosts", format!("`{name}` would be the host, which no sandbox reaches"));
        return None;
    }
    let parsed = address.trim_start_matches('[').trim_end_matches(']').parse().ok();
    if parsed.is_none() {
        reading.problem(place, format!("`extra_hosts`: the address of `{name}` is none"));
    }
    parsed.map(|address| Located::at(place, (name, address)))
}
