//! The file tools as an agent uses them: in memory, and in a real sandbox.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::path::Path;

use serde_json::{Value, json};

/// A task whose agent makes these calls, one after the other, and submits.
fn task(head: &str, calls: &[(&str, Value)]) -> Value {
    let mut mock: Vec<Value> =
        calls.iter().map(|(name, arguments)| json!({"tool_calls": [{"name": name, "arguments": arguments}]})).collect();
    mock.push(json!({"tool_calls": [{"name": "submit", "arguments": {"answer": "done"}}]}));
    let mut task: Value = serde_json::from_str(head).unwrap();
    let own = json!({
        "name": "files", "scorer": "includes", "mock": mock, "solver": {"kind": "agent", "max_steps": 60},
        "dataset": [{"id": "one", "input": "go", "target": "done"}],
    });
    for (key, value) in own.as_object().unwrap() {
        task.as_object_mut().unwrap().entry(key.clone()).or_insert_with(|| value.clone());
    }
    task
}

/// Runs it: exit code, result, log, messages.
fn run(place: &Path, task: &Value, variables: &[(&str, &str)]) -> (i32, Value, Value, String) {
    let path = place.join("task.yaml");
    std::fs::write(&path, task.to_string()).unwrap();
    let mut command = crate::common::command(place);
    command.args(["--json", "eval"]).arg(&path).arg("--log-dir").arg(place.join("logs"));
    command.envs(variables.iter().copied());
    if task["profile"] == "T0.H0.N0" {
        command.args(["--allow-local", "--allow-full-network"]);
    }
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let log = result["log"].as_str().map_or(Value::Null, |log| {
        let output = crate::common::command(place).args(["log", "dump", log]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    });
    (output.status.code().unwrap(), result, log, messages)
}

fn events<'a>(log: &'a Value, kind: &str) -> Vec<&'a Value> {
    log["samples"][0]["events"].as_array().unwrap().iter().filter(|event| event["event"] == kind).collect()
}

/// What every call but the last gave: its result, or the kind of its error and the message.
fn answers(log: &Value) -> Vec<String> {
    let tools = events(log, "tool").into_iter().filter(|tool| tool["function"] != "submit");
    tools
        .map(|tool| match tool["error"]["type"].as_str() {
            Some(kind) => format!("{kind}: {}", tool["error"]["message"].as_str().unwrap()),
            None => tool["result"].as_str().unwrap().to_owned(),
        })
        .collect()
}

fn preflights(log: &Value) -> Vec<(String, String)> {
    let found = events(log, "info").into_iter().map(|event| &event["data"]).filter(|data| data["kind"] == "file_tools");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    found.map(|data| (text(&data["preflight"]), text(&data["mode"]))).collect()
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"file_path": path, "content": content}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"file_path": path}))
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

const STORE: &str = r#"{"profile": "T0.H1.N2", "approval": "ci", "tools": ["read_file", "write_file", "edit_file", "ls",
    "delete_file", "text_editor", "submit"]}"#;

#[test]
fn store_mode_works_in_memory_and_begins_empty() {
    let place = tempfile::tempdir().unwrap();
    let calls = [
        ("ls", json!({})),
        write("notes/a.txt", "one\ntwo\n"),
        read("/repo/notes/a.txt"),
        ("edit_file", json!({"file_path": "notes/a.txt", "old_string": "two", "new_string": "2"})),
        ("text_editor", json!({"command": "view", "path": "/repo/notes/a.txt", "view_range": [2, 2]})),
        (
            "text_editor",
            json!({"command": "str_replace", "path": "/repo/notes/a.txt", "old_str": "one", "new_str": "1"}),
        ),
        ("text_editor", json!({"command": "undo_edit", "path": "/repo/notes/a.txt"})),
        ("ls", json!({"path": "notes"})),
        ("delete_file", json!({"file_path": "notes/a.txt"})),
        read("notes/a.txt"),
        read("/etc/passwd"),
        ("read_file", json!({"path": "x"})),
    ];
    let (code, _, log, err) = run(place.path(), &task(STORE, &calls), &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    assert_eq!(said[0], "/repo is empty");
    assert_eq!(said[2], "     1\tone\n     2\ttwo");
    assert_eq!(said[4], "Here's the result of running `cat -n` on /repo/notes/a.txt:\n     2\t2\n");
    assert!(said[6].starts_with("Last edit to /repo/notes/a.txt undone successfully."), "{}", said[6]);
    assert_eq!(said[7], "a.txt");
    assert_eq!(said[8], "Deleted file /repo/notes/a.txt");
    assert!(said[9].starts_with("file_not_found: File '/repo/notes/a.txt' not found."), "{}", said[9]);
    assert!(said[10].starts_with("permission: ") && said[10].contains("outside the configured filesystem root"));
    assert!(said[11].starts_with("parsing: "), "{}", said[11]);
    // What was written is the model's; the log has it in the tool's arguments, taken out by their names.
    assert!(!events(&log, "tool")[1]["arguments"].to_string().contains("one"), "{}", events(&log, "tool")[1]);
    let tools = log["eval"]["metadata"]["ringfence"]["affordances"].as_array().unwrap();
    assert!(tools.iter().any(|one| one["name"] == "write_file" && one["runs"] == "host"));
}

/// No sandbox is made for it, and nothing appears where its paths point to.
#[test]
fn store_mode_never_touches_a_disk() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let marker = format!("marker-{}", std::process::id());
    let listing = |directory: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let mut head: Value = serde_json::from_str(STORE).unwrap();
    head["file_tools"] = json!({"root": root.display().to_string()});
    let file = root.join("deep/file").display().to_string();
    let calls = [
        write(&file, &marker),
        write("../outside", &marker),
        write("/tmp/ringfence-outside", &marker),
        (
            "text_editor",
            json!({"command": "create", "path": root.join("other").display().to_string(), "file_text": marker}),
        ),
        read(&file),
    ];
    let before = listing(Path::new("/"));
    let (code, _, log, err) = run(place.path(), &task(&head.to_string(), &calls), &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    assert!(said[1].contains("outside the configured") && said[2].contains("outside the configured"));
    assert!(said[4].contains(&marker));
    assert!(!root.exists() && !Path::new("/tmp/ringfence-outside").exists());
    assert_eq!(listing(Path::new("/")), before);
    assert!(events(&log, "sandbox").is_empty(), "nothing was done in a sandbox");
    let info = events(&log, "info");
    assert!(!info.iter().any(|event| event["data"]["kind"] == "sandbox"), "there was none: {info:?}");
    // T1 reads, and has no tool that writes.
    let head = r#"{"profile": "T1.H1.N2", "tools": ["read_file", "ls", "submit"]}"#;
    let (code, _, log, err) = run(place.path(), &task(head, &[("ls", json!({})), write("a", "x")]), &[]);
    assert_eq!(code, 0, "{err}");
    assert!(answers(&log)[1].starts_with("parsing: there is no tool `write_file`"), "{:?}", answers(&log));
    assert!(!events(&log, "info").iter().any(|event| event["data"]["kind"] == "sandbox"));
}

fn sandboxed(tools: &[&str], files: &Value) -> String {
    let mut all = tools.to_vec();
    all.push("submit");
    json!({"profile": "T0.H1.N2", "approval": "ci", "tools": all, "file_tools": files}).to_string()
}

const WRITERS: &[&str] = &["bash", "read_file", "write_file", "edit_file", "ls", "delete_file", "text_editor"];

#[test]
fn sandbox_mode_shares_files_with_the_shell() {
    let place = tempfile::tempdir().unwrap();
    let calls = [
        write("src/a.txt", "from the tool\n"),
        bash("cat /repo/src/a.txt; echo from the shell > /repo/src/b.txt; stat -c %a /repo/src/a.txt"),
        read("src/b.txt"),
        ("text_editor", json!({"command": "view", "path": "/repo"})),
        (
            "edit_file",
            json!({"file_path": "src/b.txt", "old_string": "shell", "new_string": "bash", "expected_count": 1}),
        ),
        bash("cat /repo/src/b.txt"),
        ("delete_file", json!({"file_path": "src/b.txt"})),
        ("text_editor", json!({"command": "create", "path": "/repo/c", "file_text": "1"})),
        ("text_editor", json!({"command": "insert", "path": "/repo/c", "insert_line": 1, "insert_text": "2"})),
        ("text_editor", json!({"command": "undo_edit", "path": "/repo/c"})),
        bash("cat /repo/c; ls -A /repo"),
    ];
    let (code, _, log, err) = run(place.path(), &task(&sandboxed(WRITERS, &json!({"mode": "sandbox"})), &calls), &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    assert_eq!(said[1], "from the tool\n644\n");
    assert_eq!(said[2], "     1\tfrom the shell");
    assert!(said[3].ends_with("\n/repo\n/repo/src/\n/repo/src/a.txt\n/repo/src/b.txt\n"), "{}", said[3]);
    assert_eq!(said[5], "from the bash\n");
    assert!(said[6].starts_with("permission: SandboxUnsupported: "), "{}", said[6]);
    assert_eq!(said[10], "1c\nsrc\n");
    assert_eq!(preflights(&log), [("passed".into(), "sandbox".into())], "recorded, and once");
    let done: Vec<(&str, &str)> = events(&log, "sandbox")
        .iter()
        .filter(|event| event["action"] != "exec")
        .map(|event| (event["action"].as_str().unwrap(), event["file"].as_str().unwrap()))
        .collect();
    assert_eq!(done[..2], [("write_file", "/repo/src/a.txt"), ("read_file", "/repo/src/b.txt")]);
    let first = events(&log, "sandbox").into_iter().find(|event| event["action"] == "write_file").unwrap();
    assert_eq!(first["input"], "(14 bytes)", "lengths, never contents");
    let tools = log["eval"]["metadata"]["ringfence"]["affordances"].as_array().unwrap();
    assert!(tools.iter().any(|one| one["name"] == "write_file" && one["runs"] == "sandbox"));
}

#[test]
fn file_tool_attacks_are_answers() {
    let place = tempfile::tempdir().unwrap();
    let prepare = "mkdir -p /repo/private && cd /repo && ln -s /etc etc && ln -s /etc/passwd link && mkfifo pipe && \
        truncate -s 1G sparse && printf '\\377\\376' > binary && echo x > /srv/x && ln /srv/x hard && \
        echo k > private/key && touch \"$(printf 'a\\nb\\033[31mred')\" \"$(printf 'bad\\377')\"";
    let calls = [
        bash(prepare),
        read("../etc/passwd"),
        read("etc/passwd"),
        read("link"),
        write("link", "owned"),
        write("etc/owned", "owned"),
        read("pipe"),
        write("pipe", "x"),
        read("sparse"),
        read("binary"),
        read("hard"),
        write("hard", "owned"),
        read("private/key"),
        ("ls", json!({})),
        read("/proc/self/environ"),
        read("nul\u{0}name"),
        bash("cat /srv/x; test ! -e /etc/owned && grep -c ^root: /etc/passwd"),
    ];
    let files = json!({"mode": "sandbox", "deny": ["private"]});
    let (code, _, log, err) = run(place.path(), &task(&sandboxed(WRITERS, &files), &calls), &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    let expected = [
        "permission: Access denied: path '../etc/passwd' is outside the configured filesystem root '/repo'",
        "permission: Access denied: '/repo/etc/passwd' is a symbolic link, or lies behind one",
        "permission: Access denied: '/repo/link' is a symbolic link",
        "permission: Access denied: '/repo/link' is a symbolic link",
        "permission: Access denied: '/repo/etc/owned' is a symbolic link, or lies behind one",
        "permission: Access denied: '/repo/pipe' is not a regular file",
        "permission: Access denied: '/repo/pipe' is not a regular file",
        "limit: File exceeds maximum size limit: 5000000 bytes. INSPECT_AGENTS_FS_MAX_BYTES",
        "unicode_decode: File '/repo/binary' is not UTF-8 text",
        "permission: Access denied: '/repo/hard' has more than one name (a hard link)",
        "permission: Access denied: '/repo/hard' has more than one name (a hard link)",
        "permission: PolicyDenied: path '/repo/private/key' is denied by `private`",
        "a\\nb\\x1b[31mred\nbad\\xff\nbinary\netc@\nhard\nlink@\npipe=\nsparse",
        "permission: Access denied: path '/proc/self/environ' is outside the configured filesystem root",
        "parsing: a path cannot have a NUL in it",
        "x\n1\n",
    ];
    for (said, expected) in said[1..].iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}\nexpected {expected}");
    }
    assert_eq!(said.len(), 17);
}

#[test]
fn sandbox_mode_only_reads_unless_a_writer_is_named() {
    let place = tempfile::tempdir().unwrap();
    let mut head = task(
        &sandboxed(&["bash", "read_file", "ls"], &json!({"mode": "sandbox"})),
        &[("ls", json!({})), read("a"), write("b", "x")],
    );
    head["dataset"][0]["files"] = json!({"/repo/a": "given"});
    let (code, _, log, err) = run(place.path(), &head, &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    assert_eq!(said[..2], ["a".to_owned(), "     1\tgiven".to_owned()]);
    assert!(said[2].starts_with("parsing: there is no tool `write_file`"), "{}", said[2]);
}

/// The environment narrows; T1 has no tool that writes.
#[test]
fn variables_narrow_what_is_touched() {
    let place = tempfile::tempdir().unwrap();
    let mut head: Value = serde_json::from_str(STORE).unwrap();
    head["file_tools"] = json!({"allow": ["src", "docs"]});
    let calls = [
        write("src/a", "1"),
        write("docs/a", "1"),
        write("src/key.pem", "1"),
        write("other", "1"),
        write("src/big", "123456"),
    ];
    let variables = [("INSPECT_FS_DENY", "*.pem, docs/*"), ("INSPECT_AGENTS_FS_MAX_BYTES", "5")];
    let (code, _, log, err) = run(place.path(), &task(&head.to_string(), &calls), &variables);
    assert_eq!(code, 0, "{err}");
    let kinds: Vec<String> = answers(&log).iter().map(|said| said.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["Updated", "permission:", "permission:", "permission:", "limit:"]);
    let (code, refused, _, err) =
        run(place.path(), &task(&head.to_string(), &calls), &[("INSPECT_FS_DENY", "/etc/**")]);
    assert!(code == 2 && refused.to_string().contains("INSPECT_FS_DENY"), "{code} {refused} {err}");
}

/// The root is a link: the sandbox cannot serve.
#[test]
fn a_failed_preflight_is_a_recorded_fallback_or_the_end_of_the_sample() {
    let place = tempfile::tempdir().unwrap();
    let calls = [write("a", "x"), read("a"), bash("ls -A /srv; ls -A /etc/repo 2>/dev/null; true")];
    let with = |preflight: &str| {
        let files = json!({"mode": "sandbox", "preflight": preflight});
        let mut task = task(&sandboxed(WRITERS, &files), &calls);
        task["dataset"][0]["setup"] = json!("ln -s /srv /repo");
        task["justification"] = json!("a test");
        run(place.path(), &task, &[])
    };
    let (code, _, log, err) = with("auto");
    assert_eq!(code, 0, "{err}");
    assert_eq!(answers(&log), ["Updated file /repo/a", "     1\tx", ""], "in memory");
    assert_eq!(preflights(&log), [("failed".into(), "store".into())], "said, and once");
    let audit = std::fs::read_dir(place.path().join("logs")).unwrap().flatten().map(|entry| entry.path());
    let audit = audit.into_iter().find(|path| path.to_string_lossy().ends_with(".audit.jsonl")).unwrap();
    assert!(std::fs::read_to_string(audit).unwrap().contains("file_tools"), "in the audit chain too");
    let (code, result, log, err) = with("force");
    assert_eq!(code, 1, "{result} {err}");
    let why = log["samples"][0]["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("the sandbox cannot serve the file tools: ") && why.contains("symbolic link"), "{why}");
    assert_eq!(preflights(&log), [("failed".into(), "sandbox".into())]);
    let (code, _, log, err) = with("skip");
    assert_eq!(code, 0, "{err}");
    assert!(answers(&log)[0].starts_with("permission: "), "{:?}", answers(&log));
    assert_eq!(preflights(&log), [("skipped".into(), "sandbox".into())]);
}

/// The agent makes the root unusable, so that its sample would leave the denominator.
#[test]
fn an_agent_that_takes_the_root_away_fails_its_call_not_its_sample() {
    let place = tempfile::tempdir().unwrap();
    let files = json!({"mode": "sandbox", "preflight": "force"});
    for taken in ["rm -rf /repo && touch /repo", "rm -rf /repo && ln -s /srv /repo"] {
        let calls = [bash(taken), read("a"), bash("rm -f /repo; mkdir /repo; echo back > /repo/a"), read("a")];
        let mut task = task(&sandboxed(WRITERS, &files), &calls);
        task["dataset"][0]["files"] = json!({"/repo/a": "x"});
        task["dataset"][0]["target"] = json!("another answer");
        let (code, result, log, err) = run(place.path(), &task, &[]);
        assert_eq!(code, 0, "{taken}: {result} {err}");
        let answers = answers(&log);
        assert!(answers[1].starts_with("sandbox_unavailable: the sandbox cannot serve"), "{taken}: {answers:?}");
        assert_eq!(answers[3], "     1\tback", "{taken}");
        assert_eq!(log["samples"][0]["scores"]["includes"]["value"], "I", "{taken}: counted");
    }
}

/// H0 is served by the same guest, under a root on this machine.
#[test]
fn a_local_process_is_confined_to_its_root_too() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("work");
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("etc")).unwrap();
    let head = json!({
        "profile": "T0.H0.N0", "approval": "ci", "justification": "a test", "tools": ["read_file", "write_file", "submit"],
        "file_tools": {"mode": "sandbox", "root": root.display().to_string()},
    });
    let calls = [write("a/b", "x"), read("a/b"), read("etc/passwd"), write("etc/owned", "x")];
    let (code, _, log, err) = run(place.path(), &task(&head.to_string(), &calls), &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    assert_eq!(said[1], "     1\tx");
    assert!(said[2].contains("symbolic link") && said[3].contains("symbolic link"), "{said:?}");
    assert_eq!(std::fs::read_to_string(root.join("a/b")).unwrap(), "x");
    assert!(!Path::new("/etc/owned").exists());
}

/// A step's calls are made at the same time, but those of files one after the other.
#[test]
fn edits_of_one_step_are_all_there() {
    let place = tempfile::tempdir().unwrap();
    let edit = |word: &str| {
        let arguments = json!({"file_path": "f", "old_string": word, "new_string": word.to_uppercase()});
        json!({"name": "edit_file", "arguments": arguments})
    };
    let words: Vec<String> = ('a'..='t').map(|letter| format!("{letter}{letter}")).collect();
    for files in [json!({}), json!({"mode": "sandbox"})] {
        let mut task = task(&sandboxed(WRITERS, &files), &[write("f", &words.join(" ")), read("f")]);
        let step = json!({"tool_calls": words.iter().map(|word| edit(word)).collect::<Vec<_>>()});
        task["mock"].as_array_mut().unwrap().insert(1, step);
        let (code, _, log, err) = run(place.path(), &task, &[]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(answers(&log).last().unwrap(), &format!("     1\t{}", words.join(" ").to_uppercase()));
    }
}

/// A guest that stands still for a while: its calls are errors in time, and later ones work again.
#[test]
fn a_sandbox_that_hangs_is_a_timeout() {
    let place = tempfile::tempdir().unwrap();
    let head = json!({
        "profile": "T0.H0.N0", "approval": "ci", "justification": "a test", "tools": ["bash", "read_file", "write_file", "submit"],
        "file_tools": {"mode": "sandbox", "root": place.path().join("work").display().to_string()},
        "limits": {"tool_timeout": 1}, "solver": {"kind": "agent", "max_steps": 1000},
    });
    // A command's parent is its keeper, and the keeper's is the guest.
    let stop = "guest=$(awk '{print $4}' /proc/$PPID/stat); (setsid sh -c \"sleep 0.05; kill -STOP $guest; sleep 2.5; kill -CONT $guest\" \
        >/dev/null 2>&1 &)";
    let mut calls = vec![write("a", "x"), bash(stop)];
    calls.extend((0..600).map(|_| read("a")));
    let (code, _, log, err) = run(place.path(), &task(&head.to_string(), &calls), &[]);
    assert_eq!(code, 0, "{err}");
    let said = answers(&log);
    let hung = said.iter().filter(|said| said.starts_with("timeout: the call was given up")).count();
    assert!((1..5).contains(&hung), "{hung} of {}", said.len());
    assert_eq!(said.last().unwrap(), "     1\tx");
}
