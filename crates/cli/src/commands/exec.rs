//! What runs in a sandbox: what the user says, and for the rest what the image says.

use image::Config;
use profile::{Document, Millis, Plan};
use sandbox::{Exec, User};
use secrecy::ExposeSecret as _;

use crate::args::RunArguments;

/// What a command finds set; everything else must be granted.
const LANGUAGE: (&str, &str) = ("LANG", "C.UTF-8");

/// The command's words: after the image's entry point those of the user, and without any the image's own.
pub(super) fn words(arguments: &RunArguments, config: &Config) -> Vec<String> {
    let entrypoint = if arguments.no_entrypoint { &[][..] } else { &config.entrypoint };
    let command = if arguments.command.is_empty() { &config.command } else { &arguments.command };
    [entrypoint, command].concat()
}

pub(super) fn exec(arguments: &RunArguments, document: &Document, plan: &Plan, config: &Config) -> Exec {
    let wall = arguments.timeout.unwrap_or(plan.limits.time.amount);
    Exec {
        argv: words(arguments, config),
        env: with_terminal(arguments, environment(document, config)),
        cwd: arguments.workdir.clone().or_else(|| config.workdir.clone()),
        user: arguments.user.clone().or_else(|| config.user.clone()).map_or(User::Default, User::Named),
        pty: arguments.pty.then(super::terminal::size),
        timeout_ms: Some(Millis(wall.0).0),
        max_output: None,
    }
}

/// The document's entries beat the image's, and those beat ours.
pub(super) fn environment(document: &Document, config: &Config) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = vec![(LANGUAGE.0.into(), LANGUAGE.1.into())];
    for (name, value) in config.env.iter().filter_map(|entry| entry.split_once('=')) {
        env.retain(|(known, _)| known != name);
        env.push((name.to_owned(), value.to_owned()));
    }
    env.retain(|(name, _)| !document.environment.contains_key(name));
    env.extend(document.environment.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())));
    env
}

fn with_terminal(arguments: &RunArguments, mut env: Vec<(String, String)>) -> Vec<(String, String)> {
    if arguments.pty && !env.iter().any(|(name, _)| name == "TERM") {
        env.push(("TERM".into(), std::env::var("TERM").unwrap_or_else(|_| "xterm".into())));
    }
    env
}
