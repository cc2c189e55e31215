//! What a build with mutations does: one is chosen when the program starts, and stays.

use std::ffi::CString;
use std::io::Write as _;
use std::process::Command;
use std::sync::OnceLock;

use crate::{MARKER, Mutation, VARIABLE};

/// The exit code of a program that was told to take something away that it does not know.
const UNKNOWN: i32 = 78;

fn selected() -> Option<Mutation> {
    static SELECTED: OnceLock<Option<Mutation>> = OnceLock::new();
    *SELECTED.get_or_init(|| {
        let name = std::env::var_os(VARIABLE)?;
        let found = Mutation::ALL.iter().find(|mutation| name == mutation.id());
        if found.is_none() {
            say(&format!("{VARIABLE} names no mutation: {}", name.to_string_lossy()));
            // Whoever runs this means to see something fail, and would take anything else for a proof.
            std::process::exit(UNKNOWN);
        }
        found.copied()
    })
}

fn say(what: &str) {
    // Where nobody listens, nobody needs it.
    let _ = writeln!(std::io::stderr(), "{MARKER}\n{what}");
}

/// Whether this is taken away.
pub fn mutated(mutation: Mutation) -> bool {
    selected() == Some(mutation)
}

/// Says loudly what kind of build this is. Ends the program where the variable names nothing that there is.
pub fn announce() {
    let taken = selected().map_or("nothing, this time", Mutation::describe);
    say(&format!("taken away: {taken}"));
}

/// Hands the choice on to a command, after its environment was cleared.
pub fn pass_on(command: &mut Command) {
    if let Some(mutation) = selected() {
        command.env(VARIABLE, mutation.id());
    }
}

/// The environment of a program that would have none.
pub fn environment() -> Vec<CString> {
    let entry = |mutation: Mutation| CString::new(format!("{VARIABLE}={}", mutation.id())).ok();
    selected().and_then(entry).into_iter().collect()
}
