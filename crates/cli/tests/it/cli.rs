//! The command as a user runs it: whole output, exit codes.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use insta_cmd::{assert_cmd_snapshot, get_cargo_bin};

/// The command with nothing inherited, on a host that is the same everywhere (`--any-host`, or `check`).
fn ringfence(arguments: &[&str]) -> Command {
    let program = std::env::var_os("RINGFENCE").map_or_else(|| get_cargo_bin("ringfence"), PathBuf::from);
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command
}

/// The same with a document on standard input.
fn with_document(arguments: &[&str], text: &str) -> (i32, String, String) {
    run(&mut ringfence(arguments), text)
}

fn run(command: &mut Command, input: &str) -> (i32, String, String) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn profile_list() {
    assert_cmd_snapshot!(ringfence(&["profile", "list"]));
}

#[test]
fn explain_a_profile() {
    assert_cmd_snapshot!(ringfence(&[
        "profile",
        "explain",
        "t0.h1.n1",
        "--any-host",
        "--allow",
        "Example.ORG",
        "--allow",
        "tcp://git.example.org:22"
    ]));
}

#[test]
fn explain_prints_what_is_required_and_exits_0() {
    let (code, out, err) = with_document(&["profile", "explain", "T0.H0.N0", "--any-host"], "");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("approval") && out.contains("justification"), "{out}");
}

#[test]
fn explain_refuses_what_cannot_be_enforced() {
    assert_cmd_snapshot!(ringfence(&["profile", "explain", "T0.H0.N2", "--any-host"]));
}

#[test]
fn explain_says_what_a_profile_looks_like() {
    assert_cmd_snapshot!(ringfence(&["profile", "explain", "T9.H1.N1"]));
}

#[test]
fn a_flag_beyond_the_profile_is_refused_by_name() {
    assert_cmd_snapshot!(ringfence(&["profile", "explain", "T1.H1.N1", "--any-host"]).env("INSPECT_ENABLE_EXEC", "1"));
}

#[test]
fn a_flag_that_is_neither_on_nor_off_is_an_error() {
    assert_cmd_snapshot!(
        ringfence(&["profile", "explain", "T1.H1.N1", "--any-host"]).env("INSPECT_ENABLE_EXEC", "maybe")
    );
}

#[test]
fn n0_without_justification_is_refused_by_check() {
    let (code, _, err) = with_document(&["profile", "check", "-"], "profile: T0.H1.N0\napproval: ci\n");
    assert_eq!(code, 3);
    assert!(err.contains("justification"), "{err}");
}

#[test]
fn an_unknown_key_has_its_line() {
    let (code, out, err) =
        with_document(&["profile", "check", "-"], "profile: T0.H1.N2\napproval: ci\n\nsurprise: 1\n");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("error: standard input:4:1: unknown key `surprise`"), "{err}");
}

#[test]
fn a_sound_document_is_said_to_be_one() {
    let (code, out, err) = with_document(&["profile", "check", "-"], "profile: T0.H1.N2\napproval: ci\n");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "ok: standard input is a sound document for T0.H1.N2 on container\n");
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("binary.yaml");
    std::fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    for path in ["/nonexistent/ringfence.yaml", directory.path().to_str().unwrap(), binary.to_str().unwrap()] {
        let (code, out, err) = with_document(&["plan", path], "");
        assert_eq!((code, out.as_str()), (2, ""), "{path}");
        assert!(err.contains("cannot be read") && err.contains("hint:"), "{err}");
    }
}

#[test]
fn what_a_file_says_cannot_speak_to_the_terminal() {
    let (code, _, err) =
        with_document(&["profile", "check", "-"], "profile: T0.H1.N2\n\"\\e[2J\\e]0;owned\\a\\u202e\": 1\n");
    assert_eq!(code, 2);
    assert!(!err.contains('\u{1b}') && !err.contains('\u{7}') && !err.contains('\u{202e}'), "{err:?}");
    assert!(err.contains("\\u{1b}[2J"), "{err:?}");
}

#[test]
fn settings_show_where_they_came_from() {
    let mut command = ringfence(&["profile", "check", "-", "--explain-config", "--approval", "prod"]);
    command.env("INSPECT_AGENTS_TOOL_TIMEOUT", "5").env("INSPECT_PROFILE", "T1.H1.N2");
    command.env("INSPECT_FS_ALLOW", "src:docs").env("INSPECT_FS_DENY", "*.pem");
    let document = "profile: T0.H1.N2\napproval: ci\nlimits: {tool_timeout: 10, memory: 1GiB}\n\
        file_tools: {mode: sandbox, deny: [.git]}\n";
    let (code, out, err) = run(&mut command, document);
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!(out);
}

#[test]
fn json_is_stable() {
    assert_cmd_snapshot!(ringfence(&["profile", "explain", "T2.H1.N2", "--any-host", "--json"]));
    assert_cmd_snapshot!(ringfence(&["profile", "explain", "T0.H0.N1", "--any-host", "--json"]));
    let (code, out, _) = with_document(&["plan", "-", "--json"], "profil: T0.H1.N2\n");
    assert_eq!(code, 2);
    insta::assert_snapshot!(out);
    let (code, out, _) = with_document(&["profile", "check", "-", "--json"], "profile: T0.H1.N2\napproval: ci\n");
    assert_eq!(code, 0);
    insta::assert_snapshot!(out);
}

#[test]
fn doctor_has_a_row_for_everything_and_a_verdict_per_h() {
    let (code, out, err) = with_document(&["doctor", "--json"], "");
    assert_eq!((code, err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["schema"], "ringfence.doctor/1");
    assert_eq!(report["capabilities"].as_array().unwrap().len(), 15);
    let (code, out, _) = with_document(&["doctor"], "");
    assert_eq!(code, 0);
    for text in ["user namespaces", "how to get it", "H3  remote virtual machine"] {
        assert!(out.contains(text), "{text}: {out}");
    }
}

#[test]
fn choose_by_flags() {
    let flags = [
        "profile",
        "choose",
        "--tools",
        "code",
        "--priority",
        "hostile",
        "--internet",
        "listed",
        "--audience",
        "shared",
    ];
    assert_cmd_snapshot!(ringfence(&flags));
}

#[test]
fn choose_without_a_terminal_says_which_flags_are_missing() {
    assert_cmd_snapshot!(ringfence(&["profile", "choose", "--tools", "web"]));
}

#[test]
fn what_choose_writes_is_a_document() {
    for internet in ["none", "listed", "full"] {
        let flags = [
            "profile",
            "choose",
            "--tools",
            "code",
            "--priority",
            "simplicity",
            "--internet",
            internet,
            "--audience",
            "private",
        ];
        let (code, document, _) = with_document(&flags, "");
        assert_eq!(code, 0);
        let (code, _, err) = with_document(&["profile", "check", "-"], &document);
        // Only what the user alone can say is missing.
        let expected = if internet == "full" { 3 } else { 0 };
        assert_eq!(code, expected, "{document}{err}");
        assert!(expected == 0 || err.contains("justification (required)"), "{err}");
    }
}

#[test]
fn examples_are_sound() {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let directory = std::env::var_os("RINGFENCE_EXAMPLES").map_or_else(own, PathBuf::from);
    let all = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let examples: Vec<_> = all.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect();
    assert!(examples.len() >= 3);
    // Tasks are read by a test of `eval`.
    let is_task = |path: &Path| std::fs::read_to_string(path).unwrap().contains("\ndataset:");
    for example in examples.into_iter().filter(|path| !is_task(path)) {
        let (code, _, err) = with_document(&["profile", "check", example.to_str().unwrap()], "");
        assert_eq!((code, err.as_str()), (0, ""), "{}", example.display());
    }
}

#[test]
fn the_documented_document_is_sound() {
    let page = include_str!("../../../../docs/profile-document.md");
    let document = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let (code, _, err) = with_document(&["profile", "check", "-"], document);
    // It shows a writable mount, which the operator grants; nothing else is said.
    let needed: Vec<&str> = err.lines().collect();
    assert!(code == 0 && matches!(needed[..], [one] if one.contains("--allow-writable-mounts")), "{code} {err}");
}

#[test]
fn completions_are_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = with_document(&["completions", shell], "");
        assert_eq!(code, 0);
        assert!(out.contains("ringfence") && out.len() > 1000, "{shell}");
    }
}

#[test]
fn colours_are_for_terminals_only() {
    let (_, out, _) = run(ringfence(&["profile", "list"]).env("TERM", "xterm-256color"), "");
    assert!(!out.contains('\u{1b}'));
    let (_, out, _) = run(ringfence(&["profile", "list"]).env("TERM", "xterm-256color").env("CLICOLOR_FORCE", "1"), "");
    assert!(out.contains('\u{1b}'));
    let (_, out, _) = run(ringfence(&["profile", "list"]).env("TERM", "xterm-256color").env("NO_COLOR", "1"), "");
    assert!(!out.contains('\u{1b}'));
}

#[test]
fn a_closed_pipe_does_not_turn_a_refusal_into_success() {
    for arguments in [
        &["profile", "explain", "T0.H0.N2", "--any-host"][..],
        &["profile", "explain", "T0.H0.N2", "--any-host", "--json"],
    ] {
        let mut child = ringfence(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn a_full_disk_is_not_success() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = ringfence(&["profile", "list"]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_variable_that_is_not_text_is_an_error() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut command = ringfence(&["profile", "explain", "T0.H1.N2", "--any-host"]);
    command.env("INSPECT_ENABLE_EXEC", std::ffi::OsStr::from_bytes(b"0\xff"));
    let (code, _, err) = run(&mut command, "");
    assert_eq!(code, 2);
    assert!(err.contains("INSPECT_ENABLE_EXEC is not UTF-8 text"), "{err}");
}

#[test]
fn arguments_cannot_speak_to_the_terminal() {
    for argument in ["\u{1b}[31mT9", "T0.H1.N1\u{202e}"] {
        let (code, _, err) = run(&mut ringfence(&["profile", "explain", argument]), "");
        assert_eq!(code, 2);
        assert!(!err.contains('\u{1b}') && !err.contains('\u{202e}'), "{err:?}");
    }
}

#[test]
fn blank_statements_are_no_statements() {
    for flag in ["--justification", "--image"] {
        let (code, _, err) = run(&mut ringfence(&["profile", "explain", "T0.H1.N0", "--any-host", flag, " "]), "");
        assert_eq!(code, 2, "{err}");
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let mut command = ringfence(&["profile", "explain", "T0.H1.N1", "--any-host"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}
