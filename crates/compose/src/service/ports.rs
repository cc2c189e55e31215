//! `expose` and `ports`: ports that other services may reach. Nothing is published on the host.

use std::fmt;

use profile::Located;
use profile::source::{Node, Value};

use crate::reading::Reading;
use crate::rules::PORT_KEYS;
use crate::section::{self, Section};

/// Ports from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The first; not 0.
    pub first: u16,
    /// The last; not less than the first.
    pub last: u16,
    /// Of which protocol.
    pub protocol: Protocol,
}

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP. Services do not reach each other by it.
    Udp,
}

impl PortRange {
    /// Whether a port is one of them.
    pub fn holds(&self, port: u16, protocol: Protocol) -> bool {
        self.protocol == protocol && (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last != self.first {
            write!(f, "-{}", self.last)?;
        }
        match self.protocol {
            Protocol::Tcp => Ok(()),
            Protocol::Udp => f.write_str("/udp"),
        }
    }
}

pub(super) fn read(keys: &mut Section) -> Vec<Located<PortRange>> {
    let reading = keys.reading;
    let mut found: Vec<Located<PortRange>> = Vec::new();
    for item in keys.list("expose") {
        if let Some(text) = section::text(reading, item, "expose") {
            found.extend(section::parsed(reading, &text, "expose", range));
        }
    }
    if let Some((place, node)) = keys.take_with_key("ports") {
        let items = section::list(reading, node, "ports");
        if !items.is_empty() {
            reading.ignore(place, "ports", "nothing is published on the host; other services reach these ports");
        }
        for item in items {
            let place = item.place;
            let port = if matches!(item.value, Value::Map(_)) { long(reading, item) } else { short(reading, item) };
            found.extend(port.map(|port| Located::at(place, port)));
        }
    }
    for port in found.iter().filter(|port| port.value.protocol == Protocol::Udp) {
        let place = port.place.unwrap_or(keys.place);
        reading.ignore(place, "expose", format!("services do not reach each other by UDP: {}", port.value));
    }
    found
}

const SHAPE: &str = "must be a port or a range of ports, such as 8080, 8000-8010 or 53/udp";

/// `8080`, `8000-8010`, `53/udp`.
fn range(text: &str) -> Result<PortRange, &'static str> {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return Err("has a protocol that is neither tcp nor udp"),
    };
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0 && !text.starts_with('+'));
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(PortRange { first, last, protocol }),
        _ => Err(SHAPE),
    }
}

/// `[[ADDRESS:]PUBLISHED:]TARGET[/PROTOCOL]`: all of it must be right, though only the target counts.
fn short(reading: &Reading, item: Node) -> Option<PortRange> {
    let text = section::text(reading, item, "ports")?;
    let parsed = section::parsed(reading, &text, "ports", |text| {
        let (before, target) = text.rsplit_once(':').map_or((None, text), |(before, target)| (Some(before), target));
        if let Some(before) = before {
            let (address, published) = before.rsplit_once(':').map_or((None, before), |(a, p)| (Some(a), p));
            let address = address.map(|address| address.trim_start_matches('[').trim_end_matches(']'));
            if address.is_some_and(|address| address.parse::<std::net::IpAddr>().is_err()) {
                return Err("has an address that is none");
            }
            // Published 0 means any port, and nothing behind an address means the same.
            if !matches!(published, "" | "0") {
                range(published)?;
            }
        }
        range(target)
    })?;
    Some(parsed.value)
}

fn long(reading: &Reading, item: Node) -> Option<PortRange> {
    let place = item.place;
    let mut keys = Section::open(reading, item, "a port", PORT_KEYS)?;
    let target = keys.text("target");
    let protocol = keys.text("protocol").map_or("tcp".to_owned(), |protocol| protocol.value);
    // `ports` as a whole is on record.
    for key in ["app_protocol", "host_ip", "mode", "name", "published"] {
        keys.take(key);
    }
    keys.finish();
    let Some(target) = target else {
        reading.problem(place, "a port has no `target`");
        return None;
    };
    section::parsed(reading, &target, "target", |text| range(&format!("{text}/{protocol}"))).map(|port| port.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_and_ranges() {
        for (text, shown) in [("80", "80"), ("80/TCP", "80"), ("8000-8010", "8000-8010"), ("53/udp", "53/udp")] {
            assert_eq!(range(text).unwrap().to_string(), shown);
        }
        for text in ["", "0", "65536", "-1", "+1", "2-1", "80/sctp", "a", "1-2-3", "1/2/3"] {
            assert!(range(text).is_err(), "{text}");
        }
        let ports = range("10-12").unwrap();
        assert!(ports.holds(10, Protocol::Tcp) && ports.holds(12, Protocol::Tcp));
        assert!(!ports.holds(13, Protocol::Tcp) && !ports.holds(11, Protocol::Udp));
    }
}
