//! Networks and volumes of the file.

use std::collections::{BTreeMap, BTreeSet};

use profile::source::Node;

use crate::names::{NetworkName, VolumeName};
use crate::project::Network;
use crate::reading::Reading;
use crate::rules::{NETWORK_KEYS, VOLUME_KEYS};
use crate::section::{self, Section};

/// The most of either.
const MAX_NAMES: usize = 64;

pub(crate) fn networks(reading: &Reading, node: Node, found: &mut BTreeMap<NetworkName, Network>) {
    let place = node.place;
    for (key, node) in section::entries(reading, node, "`networks`").unwrap_or_default() {
        let Some(name) = section::name::<NetworkName>(reading, key.place, &key.name, "a network") else { continue };
        let Some(mut keys) = Section::open(reading, node, "a network", NETWORK_KEYS) else { continue };
        if let Some(driver) = keys.text("driver")
            && driver.value != "bridge"
        {
            let shown: String = driver.value.chars().take(40).collect();
            let what = format!("the network driver `{shown}`");
            reading.refuse(driver.place.unwrap_or(keys.place), "networks", what, "no network of the daemon is made");
        }
        let kind = if keys.truth("internal").unwrap_or(false) { Network::Internal } else { Network::Open };
        keys.finish();
        // Included files may say the same again.
        if found.get(&name).is_some_and(|other| *other != kind) {
            reading.problem(key.place, format!("network `{name}` is in another file already, and not the same"));
        }
        found.insert(name, kind);
    }
    if found.len() > MAX_NAMES {
        reading.problem(place, format!("there are more than {MAX_NAMES} networks"));
    }
}

pub(crate) fn volumes(reading: &Reading, node: Node, found: &mut BTreeSet<VolumeName>) {
    let place = node.place;
    for (key, node) in section::entries(reading, node, "`volumes`").unwrap_or_default() {
        let Some(name) = section::name::<VolumeName>(reading, key.place, &key.name, "a volume") else { continue };
        let Some(mut keys) = Section::open(reading, node, "a volume of the file", VOLUME_KEYS) else { continue };
        if let Some(driver) = keys.text("driver")
            && driver.value != "local"
        {
            let shown: String = driver.value.chars().take(40).collect();
            let what = format!("the volume driver `{shown}`");
            reading.refuse(
                driver.place.unwrap_or(keys.place),
                "volumes",
                what,
                "it brings in files that are not of this sample",
            );
        }
        keys.finish();
        found.insert(name);
    }
    if found.len() > MAX_NAMES {
        reading.problem(place, format!("there are more than {MAX_NAMES} volumes"));
    }
}
