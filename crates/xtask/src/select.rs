//! Which lanes a command line means: none names the default size, `all` everything but those run by hand.

use std::fmt::Write as _;

use crate::lanes::{Lane, Size};

/// A lane that is not there, and the nearest name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownLane {
    pub(crate) name: String,
    pub(crate) nearest: Option<String>,
}

/// Lanes in the table's order, each once.
pub(crate) fn select<'a>(lanes: &'a [Lane], names: &[String]) -> Result<Vec<&'a Lane>, UnknownLane> {
    for name in names {
        if name != "all" && !lanes.iter().any(|lane| lane.name == *name) {
            return Err(UnknownLane { name: name.clone(), nearest: nearest(lanes, name) });
        }
    }
    let is_meant = |lane: &&Lane| match lane.size {
        _ if names.contains(&lane.name) => true,
        Size::Default => names.is_empty() || names.iter().any(|name| name == "all"),
        Size::All => names.iter().any(|name| name == "all"),
        Size::Hand => false,
    };
    Ok(lanes.iter().filter(is_meant).collect())
}

fn nearest(lanes: &[Lane], name: &str) -> Option<String> {
    let names = lanes.iter().map(|lane| lane.name.as_str()).chain(["all"]);
    names
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known.to_owned())
}

/// The list of lanes, with what each needs and installs.
pub(crate) fn list(lanes: &[Lane]) -> String {
    let mut text = String::new();
    for (size, title) in [
        (Size::Default, "./test.sh: the embedded product"),
        (Size::All, "./test.sh all: these, and with other people's systems"),
        (Size::Hand, "by name only"),
    ] {
        let _ = writeln!(text, "{title}");
        for lane in lanes.iter().filter(|lane| lane.size == size) {
            let _ = writeln!(text, "  {:<8} {}", lane.name, lane.about);
            let mut needs = Vec::new();
            if lane.root {
                needs.push("root".to_owned());
            }
            if !lane.packages.is_empty() {
                needs.push(format!("Debian packages {}", lane.packages.join(" ")));
            }
            if !lane.tools.is_empty() {
                needs.push(format!("cargo tools {}", lane.tools.join(" ")));
            }
            if !lane.python.is_empty() {
                needs.push(format!("Python packages for {}", lane.python.join(" and ")));
            }
            if !needs.is_empty() {
                let _ = writeln!(text, "           needs {}", needs.join("; "));
            }
        }
        text.push('\n');
    }
    text.push_str("Packages that are missing are installed, as root; all else goes to the target directory.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tools;

    fn names(arguments: &[&str]) -> Vec<String> {
        let lanes = crate::lanes::parse(crate::LANES, &Tools::parse(crate::TOOLS).unwrap()).unwrap();
        let arguments: Vec<String> = arguments.iter().map(|&name| name.to_owned()).collect();
        select(&lanes, &arguments).unwrap().iter().map(|lane| lane.name.clone()).collect()
    }

    #[test]
    fn no_name_means_the_default_size() {
        assert_eq!(names(&[]), ["lint", "unit", "sandbox", "egress", "eval", "verify", "serve"]);
    }

    #[test]
    fn all_adds_other_systems_but_nothing_that_is_run_by_hand() {
        let all = names(&["all"]);
        assert_eq!(all[..7], names(&[]));
        assert_eq!(all[7..], ["docker", "fuzz", "wheel", "inspect", "bench"]);
        assert_eq!(names(&["all", "soak"]).last().unwrap(), "soak");
    }

    #[test]
    fn a_lane_runs_once_however_often_it_is_named() {
        assert_eq!(names(&["unit", "lint", "unit"]), ["lint", "unit"]);
    }

    #[test]
    fn an_unknown_lane_is_answered_with_the_nearest_name() {
        let lanes = crate::lanes::parse(crate::LANES, &Tools::parse(crate::TOOLS).unwrap()).unwrap();
        let error = |name: &str| select(&lanes, &[name.to_owned()]).unwrap_err().nearest;
        assert_eq!(error("egres").as_deref(), Some("egress"));
        assert_eq!(error("dokcer").as_deref(), Some("docker"));
        assert_eq!(error("qqq"), None);
    }

    #[test]
    fn the_list_says_what_each_lane_needs() {
        let lanes = crate::lanes::parse(crate::LANES, &Tools::parse(crate::TOOLS).unwrap()).unwrap();
        let list = list(&lanes);
        assert!(list.contains("  fuzz     every fuzz target"), "{list}");
        assert!(list.contains("needs Debian packages g++; cargo tools cargo-fuzz"), "{list}");
        for lane in &lanes {
            assert!(list.contains(&format!("  {:<8} {}", lane.name, lane.about)));
        }
    }
}
