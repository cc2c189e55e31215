//! Control groups: whether we may make one with the limits that a sandbox needs.

use jail::cgroups::{CONTROLLERS, Hierarchy, Version, hierarchies};
use profile::Finding;

const FIX: &str = "run as root, or with a delegated group: systemd-run --user --scope -p Delegate=yes -- …";

pub(crate) fn limits() -> Finding {
    let Ok(hierarchies) = hierarchies() else { return Finding::unknown("/proc is not readable") };
    let works = |controller: &str| hierarchies.iter().any(|hierarchy| hierarchy.find(controller).is_some());
    let missing: Vec<&str> = CONTROLLERS.into_iter().filter(|controller| !works(controller)).collect();
    let layout = layout(&hierarchies);
    if missing.is_empty() {
        Finding::works(format!("memory, pids and cpu ({layout})"))
    } else {
        Finding::missing(format!("no group with {} can be made ({layout})", missing.join(", ")), FIX)
    }
}

fn layout(hierarchies: &[Hierarchy]) -> &'static str {
    let has = |version| hierarchies.iter().any(|hierarchy| hierarchy.version == version);
    match (has(Version::One), has(Version::Two)) {
        (true, true) => "hybrid v1 and v2",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "not mounted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_hierarchies_nothing_is_claimed() {
        assert_eq!(layout(&[]), "not mounted");
    }
}
