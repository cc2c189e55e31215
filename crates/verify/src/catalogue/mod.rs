//! Every probe there is.

mod calls;
mod host;
mod network;
mod shown;
mod shown_network;
mod tooling;

use std::fmt::Write as _;

use crate::probe::Probe;

/// All probes: the host's, the network's, the tools'.
pub fn catalogue() -> Vec<Probe> {
    [host::PROBES, network::PROBES, tooling::PROBES].concat()
}

/// The catalogue as the table of docs/verify.md.
pub fn catalogue_table() -> String {
    let mut table = String::from("| probe | control | fast | tries | expects |\n|---|---|---|---|---|\n");
    for probe in catalogue() {
        let fast = if probe.speed == crate::probe::Speed::Fast { "yes" } else { "" };
        let Probe { id, control, tries, expects, .. } = probe;
        let _ = writeln!(table, "| `{id}` | `{}` | {fast} | {tries} | {expects} |", control.id());
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::control::Control;
    use crate::probe::Axis;

    #[test]
    fn there_are_enough_probes_and_each_has_its_own_name() {
        let all = catalogue();
        let ids: BTreeSet<&str> = all.iter().map(|probe| probe.id).collect();
        assert_eq!(ids.len(), all.len());
        let count = |axis| all.iter().filter(|probe| probe.axis == axis).count();
        assert!(count(Axis::Host) >= 28, "{}", count(Axis::Host));
        assert!(count(Axis::Network) >= 18, "{}", count(Axis::Network));
        assert!(count(Axis::Tooling) >= 4, "{}", count(Axis::Tooling));
    }

    #[test]
    fn every_control_has_a_probe() {
        let tested: BTreeSet<Control> = catalogue().iter().map(|probe| probe.control).collect();
        let untested: Vec<&Control> = Control::ALL.iter().filter(|control| !tested.contains(control)).collect();
        assert!(untested.is_empty(), "{untested:?}");
    }

    #[test]
    fn the_documentation_lists_the_catalogue() {
        let written = include_str!("../../../../docs/verify.md");
        let table = catalogue_table();
        assert!(written.contains(&table), "docs/verify.md should hold this table:\n{table}");
    }
}
