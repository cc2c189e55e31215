//! `docs/compose.md` says of every key what the tables of the crate say.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::fmt::Write;

use compose::ADDABLE_CAPABILITIES;
use compose::rules::{TABLES, Treatment};

/// The tables of the documentation.
fn tables() -> String {
    let mut text = String::new();
    for (name, rules) in TABLES {
        write!(text, "\n### {name}\n\n| key | what happens | how, or why not |\n|---|---|---|\n").unwrap();
        for rule in *rules {
            let treatment = match rule.treatment {
                Treatment::Honoured => "honoured",
                Treatment::Ignored => "left out, recorded",
                Treatment::Refused => "refused",
            };
            writeln!(text, "| `{}` | {treatment} | {} |", rule.key, rule.why).unwrap();
        }
    }
    text
}

#[test]
fn the_documentation_lists_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compose.md");
    let written = std::fs::read_to_string(path).unwrap();
    let (before, _) = written.split_once("\n### ").unwrap();
    let expected = format!("{before}{}", tables());
    // `RINGFENCE_WRITE_DOCS=1` writes the tables anew.
    if std::env::var_os("RINGFENCE_WRITE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(written == expected, "docs/compose.md differs from the tables; RINGFENCE_WRITE_DOCS=1 writes it");
    let few: Vec<String> = ADDABLE_CAPABILITIES.iter().map(|name| format!("`{name}`")).collect();
    assert!(before.contains(&few.join(", ")), "the documentation names other capabilities");
}

#[test]
fn no_key_is_in_a_table_twice() {
    for (name, rules) in TABLES {
        let mut keys: Vec<&str> = rules.iter().map(|rule| rule.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), rules.len(), "{name}");
    }
}
