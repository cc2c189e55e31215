//! Planted secrets: in no part of any log, not in the audit chain, not on the terminal, in whatever way they are written.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::path::Path;

use crate::common::evaluation::{calls, eval, write};
use crate::common::terminal::Terminal;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::json;

/// In the environment of the runner, by a name that says what it is.
const OWN: &str = "own/key \"quoted\" 8d1f77";
/// Granted to the agent by the task.
const GRANTED: &str = "granted+secret/with=odd&chars é 5521";
/// Granted by the command line.
const FROM_FILE: &str = "planted-in-a-file-9911";
const BY_OPTION: &str = "planted-by-option-9912";
/// Known by its shape only: in a file that the agent prints, and in what it says.
const SHAPED: [&str; 3] = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_016C7869b8Dfe1b2Ca3d4E5f6A7b8C9d0E1f",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
];

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The ways in which a secret may be written; of base 64 the part that does not depend on what stands around it.
fn forms(secret: &str) -> Vec<String> {
    let quoted = json!(secret).to_string();
    let mut forms = vec![
        secret.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        hex(secret),
        hex(secret).to_uppercase(),
        percent(secret),
    ];
    for lead in 0..3 {
        for engine in [STANDARD, URL_SAFE] {
            let encoded = engine.encode([&vec![b'.'; lead], secret.as_bytes()].concat());
            forms.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    forms
}

/// Everything that is written of an evaluation: log members unpacked, the audit chain, plain logs.
fn written(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut members = 0;
        for at in 0..bytes.len().saturating_sub(4) {
            if bytes[at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
                let mut text = Vec::new();
                let mut decoder = zstd::stream::read::Decoder::with_buffer(&bytes[at..]).unwrap().single_frame();
                if std::io::Read::read_to_end(&mut decoder, &mut text).is_ok() {
                    members += 1;
                    texts.push((format!("{name}, member at {at}"), text));
                }
            }
        }
        assert!(path.extension().is_none_or(|end| end != "eval") || members >= 4, "{name} has {members} members");
        texts.push((name, bytes));
    }
    assert!(texts.len() >= 2);
    texts
}

fn assert_absent(what: &str, text: &[u8], secrets: &[String]) {
    let text = String::from_utf8_lossy(text);
    for secret in secrets {
        assert!(!text.contains(secret.as_str()), "{what} holds {secret}: {}", around(&text, secret));
    }
}

fn around(text: &str, secret: &str) -> String {
    let at = text.find(secret).unwrap_or(0);
    text.chars().skip(text[..at].chars().count().saturating_sub(80)).take(240).collect()
}

fn task(approval: &str) -> String {
    let mut said = Vec::new();
    for secret in [OWN, GRANTED] {
        let quoted = json!(secret).to_string();
        said.extend([secret.to_owned(), quoted, hex(secret), hex(secret).to_uppercase(), percent(secret)]);
        for lead in ["", "a", "user:"] {
            said.extend([
                STANDARD.encode(format!("{lead}{secret}")),
                URL_SAFE.encode(format!("{lead}{secret} and more")),
            ]);
        }
    }
    said.extend(SHAPED.map(str::to_owned));
    let private = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\n-----END RSA PRIVATE KEY-----";
    let all = said.join("\n");
    let wanted = [
        // What the agent's environment and files hold, as they are and encoded.
        (
            "bash",
            json!({"command": "printf '%s %s' \"$FROM_FILE\" \"$BY_OPTION\"; printf %s \"$GRANTED\"; echo; printf %s \"$GRANTED\" | base64 -w0; echo; printf %s \"$GRANTED\" | od -An -tx1 | tr -d ' \\n'; cat /srv/notes; cat /srv/notes >&2; exit 3"}),
        ),
        // What the model says itself.
        ("bash", json!({"command": format!("echo '{}'", all.replace('\'', ""))})),
        ("think", json!({"thought": all})),
        ("write_file", json!({"file_path": "/repo/a", "content": all})),
        ("bash", json!({"command": "true", "api_key": "by-name-only-4711"})),
        ("no_such_tool", json!({"password": "by-name-only-4711"})),
        ("bash", json!({"command": format!("/no/such/program {}", SHAPED[0])})),
    ];
    let notes = json!(format!("{all}\n{private}\n"));
    format!(
        "name: planted\nprofile: T0.H1.N2\napproval: {approval}\ntools: [bash, think, write_file, submit]\n\
         environment: {{GRANTED: {}}}\nmetadata: {{note: {}}}\n\
         dataset: [{{id: one, input: {}, target: done, files: {{/srv/notes: {notes}}}, metadata: {{key: {}}}}}]\nsolver: agent\nscorer: includes\n{}",
        json!(GRANTED),
        json!(OWN),
        json!(format!("the key is {OWN}")),
        json!(SHAPED[1]),
        calls(&wanted)
    )
}

fn all_secrets() -> Vec<String> {
    let mut secrets: Vec<String> = forms(OWN).into_iter().chain(forms(GRANTED)).collect();
    secrets.extend(SHAPED.map(str::to_owned));
    secrets.extend([FROM_FILE, BY_OPTION, "by-name-only-4711"].map(str::to_owned));
    secrets.push("MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu".into());
    secrets
}

#[test]
fn planted_secrets_are_in_no_log_no_chain_and_not_on_the_terminal() {
    for format in ["eval", "json"] {
        let place = tempfile::tempdir().unwrap();
        let path = write(place.path(), "task.yaml", &task("ci"));
        let file = write(place.path(), "env", &format!("# keys\nFROM_FILE='{FROM_FILE}'\n"));
        let option = format!("BY_OPTION={BY_OPTION}");
        let granted = ["--env-file", &file, "--env", &option];
        let mut command = eval(place.path(), &[&[path.as_str(), "--log-format", format], &granted[..]].concat());
        let output = command.env("SOME_API_KEY", OWN).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let secrets = all_secrets();
        for (name, text) in written(&place.path().join("logs")) {
            assert_absent(&name, &text, &secrets);
        }
        assert_absent("stdout", &output.stdout, &secrets);
        assert_absent("stderr", &output.stderr, &secrets);
        // It ran: what is no secret is there.
        let log = written(&place.path().join("logs"));
        let any = |what: &str| log.iter().any(|(_, text)| String::from_utf8_lossy(text).contains(what));
        assert!(any("[REDACTED] [REDACTED]") && any("ringfence_redactions"));
    }
}

#[test]
fn planted_secrets_are_not_in_what_a_person_is_shown() {
    let place = tempfile::tempdir().unwrap();
    let path = write(place.path(), "task.yaml", &task("dev"));
    let mut command = eval(place.path(), &[&path]);
    command.env("SOME_API_KEY", OWN);
    let mut terminal = Terminal::start(&command);
    for asked in 1..=4 {
        terminal.wait_for("is a no): ", asked);
        terminal.write("y\n");
    }
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let mut secrets = all_secrets();
    // A person decides about a file by what it is to hold; only what is known to be a secret is taken out of it.
    secrets.retain(|secret| secret != "by-name-only-4711");
    assert_absent("the terminal", screen.as_bytes(), &secrets);
}
