use super::*;

fn labels(selector: &str) -> Vec<String> {
    let workspace = Workspace::load().unwrap();
    workspace.select(&Selector::parse(selector).unwrap()).unwrap().iter().map(Program::label).collect()
}

#[test]
fn selectors_name_programs() {
    assert_eq!(labels("egress/tests"), ["egress/gateway", "egress/services"]);
    assert_eq!(labels("sandbox/attacks"), ["sandbox/attacks"]);
    assert_eq!(labels("wire/lib"), ["wire/lib"]);
    assert!(labels("*/bins").contains(&"ringfence/bin ringfence".to_owned()));
}

#[test]
fn what_needs_another_system_is_run_by_name_only() {
    assert!(!labels("log/tests").contains(&"log/inspect".to_owned()));
    assert_eq!(labels("log/inspect"), ["log/inspect"]);
    assert!(!labels("*/bins").iter().any(|label| label.starts_with("bench/")));
    assert_eq!(labels("bench/bins"), ["bench/bin bench"]);
}

#[test]
fn a_selector_without_a_program_is_an_error() {
    let workspace = Workspace::load().unwrap();
    assert!(workspace.select(&Selector::parse("sandbox/attack").unwrap()).is_err());
    for text in ["sandbox", "/lib", "sandbox/", "a/b/c"] {
        assert!(Selector::parse(text).is_err(), "{text}");
    }
}

#[test]
fn binaries_are_compiled_with_a_test_program_of_their_package() {
    let workspace = Workspace::load().unwrap();
    assert_eq!(workspace.beside("testnet").unwrap().label(), "testnet/internet");
    assert_eq!(workspace.beside("ringfence").unwrap().package, "ringfence");
    assert_eq!(workspace.beside("no-such-program"), None);
}

#[test]
fn only_code_blocks_of_rust_are_examples() {
    assert!(has_example("/// ```\n/// assert!(true);\n/// ```\n"));
    assert!(has_example("//! ```no_run\n//! x();\n//! ```\n"));
    assert!(!has_example("//! ```text\n//! a ──▶ b\n//! ```\n"));
    // The end of a block does not open another.
    assert!(!has_example("/// ```yaml\n/// a: b\n/// ```\n"));
    assert!(!has_example("let text = \"```\";\n"));
}
