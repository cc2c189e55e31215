//! The arrows between crates, as ARCHITECTURE.md draws them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Which crates each crate may use.
type Allowed = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Reads the table `| crate | room | may use |`: names stand in backquotes, `all` means every crate above that row.
fn allowed(architecture: &str) -> Allowed {
    let mut table = Allowed::new();
    let rows = architecture
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, may_use] = cells[..] else { panic!("a row of another shape: {row}") };
        let name = name.trim_matches('`').to_owned();
        let used = if may_use == "all" {
            table.keys().cloned().collect()
        } else {
            may_use.split(',').map(|used| used.trim().trim_matches('`').to_owned()).filter(|used| used != "–").collect()
        };
        table.insert(name, used);
    }
    table
}

/// Every use of one of our crates by another that the table does not allow, and every crate that it does not know.
fn violations(allowed: &Allowed, uses: &[(String, String)], crates: &[String]) -> Vec<String> {
    let unknown =
        crates.iter().filter(|name| !allowed.contains_key(*name)).map(|name| format!("`{name}` is not in the table"));
    let forbidden = uses
        .iter()
        .filter(|(user, used)| allowed.get(user).is_some_and(|allowed| !allowed.contains(used)))
        .map(|(user, used)| format!("`{user}` may not use `{used}`"));
    unknown.chain(forbidden).collect()
}

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap();
    let crates: Vec<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let uses: Vec<(String, String)> = metadata
        .packages
        .iter()
        .flat_map(|package| {
            let ours = package.dependencies.iter().filter(|dependency| crates.contains(&dependency.name));
            // What only tests use may point anywhere but to the crate that composes everything.
            ours.filter(|dependency| dependency.kind != DependencyKind::Development || dependency.name == "ringfence")
                .map(|dependency| (package.name.to_string(), dependency.name.clone()))
        })
        .collect();
    assert!(!uses.is_empty());
    let table = allowed(&std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap());
    assert_eq!(violations(&table, &uses, &crates), Vec::<String>::new());
}

#[test]
fn a_turned_arrow_is_noticed() {
    let table = allowed(
        "| crate | room | may use |\n|---|---|---|\n| `low` | x | – |\n| `high` | y | `low` |\n| `top` | z | all |\n",
    );
    let uses =
        [("low", "high"), ("high", "low"), ("top", "low"), ("top", "high")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    let crates = ["low", "high", "top", "new"].map(str::to_owned);
    assert_eq!(violations(&table, &uses, &crates), ["`new` is not in the table", "`low` may not use `high`"]);
}

#[test]
fn unsafe_code_is_forbidden_but_in_jail() {
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let directory = entry.unwrap().path();
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let inherits = manifest.contains("[lints]\nworkspace = true");
        let may_differ = directory.ends_with("jail") || directory.ends_with("guest");
        assert_eq!(inherits, !may_differ, "{}", directory.display());
    }
    // The guest denies it, and only one file may say otherwise.
    let guest = root().join("crates/guest");
    assert!(std::fs::read_to_string(guest.join("Cargo.toml")).unwrap().contains("unsafe_code = \"deny\""));
    let mut open = vec![guest.join("src")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let mentions = std::fs::read_to_string(&path).unwrap().contains("unsafe_code");
        assert_eq!(mentions, path.ends_with("syscalls.rs"), "{}", path.display());
    }
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

/// The promises of SPEC.md: `| number | promise | test |`.
#[test]
fn every_promise_names_a_test_that_exists_or_is_pending() {
    let spec = std::fs::read_to_string(root().join("SPEC.md")).unwrap();
    let (mut sources, mut python) = (String::new(), String::new());
    collect_sources(&root().join("crates"), "rs", &mut sources);
    collect_sources(&root().join("python/tests"), "py", &mut python);
    let rows: Vec<Vec<&str>> = spec
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('.') && !line.starts_with("| no. |"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 10, "SPEC.md has no table of promises");
    let mut numbers = BTreeSet::new();
    for row in rows {
        assert!(numbers.insert(row[0]), "SPEC.md has {} twice", row[0]);
        let test = row.last().unwrap();
        if *test == "pending" {
            continue;
        }
        for name in test.split(',').map(|name| name.trim().trim_matches('`')) {
            let is_named = is_test(&sources, name) || is_python_test(&python, name);
            assert!(is_named, "SPEC.md {} names `{name}`, which is no test", row[0]);
        }
    }
}

/// Whether `fn name(` stands right behind a `#[test]`, or behind `/// A case.` in a program that counts its tests itself.
fn is_test(sources: &str, name: &str) -> bool {
    let is_marked = |before: &str| {
        let before = before.trim_end();
        let before = before.strip_suffix("async").unwrap_or(before).trim_end();
        let mark = before.lines().next_back().unwrap_or_default().trim();
        matches!(mark, "#[test]" | "/// A case." | "#[tokio::test]") || mark.starts_with("#[tokio::test(")
    };
    sources.match_indices(&format!("fn {name}(")).any(|(at, _)| is_marked(&sources[..at]))
}

/// Whether a line begins the function, and pytest would take it for a test.
fn is_python_test(sources: &str, name: &str) -> bool {
    let is_begun = |line: &str| line.strip_prefix("async ").unwrap_or(line).starts_with(&format!("def {name}("));
    name.starts_with("test_") && sources.lines().any(is_begun)
}

fn collect_sources(directory: &Path, extension: &str, sources: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, extension, sources);
        } else if path.extension().is_some_and(|found| found == extension) {
            sources.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// How often a text is in a file.
fn count(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).filter(|window| *window == text).count()
}

/// The program is searched as it is shipped; a build with mutations says that the same search finds it there
/// (`every_program_of_this_build_is_marked`).
#[test]
fn release_builds_have_no_mutations() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_ringfence")).unwrap();
    // Guest and zygote lie in it as they are, so that searching it is searching them.
    assert!(count(&program, b"\x7fELF") >= 3);
    for text in [mutation::MARKER, mutation::VARIABLE] {
        assert_eq!(count(&program, text.as_bytes()), 0, "{text}");
    }
}

/// Nothing turns the feature on: no other feature, no dependency, nothing that cargo settles on by itself.
#[test]
fn no_default_feature_turns_mutations_on() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).exec().unwrap();
    let is_ours = |name: &str| name == "mutations" || name.ends_with("/mutations");
    let mut having = 0;
    for package in metadata.workspace_packages() {
        for (feature, enables) in &package.features {
            assert!(feature == "mutations" || !enables.iter().any(|name| is_ours(name)), "{} {feature}", package.name);
        }
        for dependency in &package.dependencies {
            let on = dependency.features.iter().any(|name| is_ours(name));
            assert!(!on, "{} turns it on in {}", package.name, dependency.name);
        }
        having += usize::from(package.features.contains_key("mutations"));
    }
    assert!(having >= 5, "the feature has another name by now");
    let resolve = metadata.resolve.unwrap();
    for node in &resolve.nodes {
        assert!(!node.features.iter().any(|name| is_ours(name)), "{}", node.id);
    }
}

/// Two crates that may not know each other name the same rights: what a Compose file may ask for is what containers keep.
#[test]
fn a_compose_file_may_ask_for_the_rights_that_containers_keep() {
    assert_eq!(compose::ADDABLE_CAPABILITIES, docker::KEPT);
}
