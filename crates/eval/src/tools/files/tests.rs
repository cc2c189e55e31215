//! The same calls in memory and in a sandbox give the same answers.

use std::sync::Mutex;

use log::event::What;
use log::message::ToolErrorKind;
use profile::{Bytes, FileMode, FileToolsInForce, Preflight};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use sandbox::User;
use serde_json::{Value, json};

use super::act::Work;
use super::disk::{Disk, Failed};
use super::history::History;
use super::sandboxed::Sandboxed;
use super::store::Store;
use crate::tools::Tool;
use crate::tools::schema::Arguments;

fn rules(root: &str) -> FileToolsInForce {
    FileToolsInForce {
        mode: FileMode::Store,
        root: root.into(),
        read_only: false,
        max_bytes: Bytes(1000),
        preflight: Preflight::Auto,
        allow: Vec::new(),
        deny: vec!["secret".parse().unwrap()],
    }
}

fn arguments(tool: Tool, given: Value) -> Arguments {
    let Value::Object(given) = given else { unreachable!() };
    Arguments::check(tool.name(), tool.parameters(), &given).unwrap()
}

/// One sample in memory.
#[derive(Default)]
struct Memory {
    store: Store,
    history: History,
}

impl Memory {
    async fn call(&mut self, rules: &FileToolsInForce, tool: Tool, given: Value) -> Result<String, ToolErrorKind> {
        let mut work = Work { disk: Disk::Memory(&mut self.store), history: &mut self.history, rules };
        work.act(tool, &arguments(tool, given)).await.map_err(|failed| failed.error.kind)
    }
}

#[tokio::test]
async fn a_sample_works_with_its_files() {
    let (rules, mut files) = (rules("/repo"), Memory::default());
    let mut call = async |tool, given| files.call(&rules, tool, given).await;
    assert_eq!(call(Tool::Ls, json!({})).await, Ok("/repo is empty".into()));
    let write = |path: &str, text: &str| json!({"file_path": path, "content": text});
    assert_eq!(call(Tool::WriteFile, write("a/b.txt", "one\ntwo\n")).await, Ok("Updated file /repo/a/b.txt".into()));
    assert_eq!(
        call(Tool::ReadFile, json!({"file_path": "/repo/a/b.txt"})).await,
        Ok("     1\tone\n     2\ttwo".into())
    );
    assert_eq!(call(Tool::Ls, json!({})).await, Ok("a/".into()));
    assert_eq!(call(Tool::Ls, json!({"path": "a"})).await, Ok("b.txt".into()));
    let edit =
        json!({"file_path": "a/b.txt", "old_string": "o", "new_string": "0", "replace_all": true, "dry_run": true});
    assert!(call(Tool::EditFile, edit.clone()).await.unwrap().starts_with("Would update"));
    assert_eq!(
        call(Tool::ReadFile, json!({"file_path": "a/b.txt", "limit": 1})).await.unwrap().lines().next(),
        Some("     1\tone")
    );
    let mut edit = edit;
    edit["dry_run"] = json!(false);
    edit["expected_count"] = json!(3);
    assert_eq!(call(Tool::EditFile, edit.clone()).await, Err(ToolErrorKind::Unknown));
    edit["expected_count"] = json!(2);
    assert_eq!(call(Tool::EditFile, edit).await, Ok("Updated file /repo/a/b.txt (2 replacements)".into()));
    assert_eq!(call(Tool::WriteFile, write("big", &"x".repeat(1001))).await, Err(ToolErrorKind::Limit));
    assert_eq!(call(Tool::WriteFile, write("secret/x", "")).await, Err(ToolErrorKind::Permission));
    assert_eq!(call(Tool::WriteFile, write("../x", "")).await, Err(ToolErrorKind::Permission));
    assert_eq!(call(Tool::DeleteFile, json!({"file_path": "a"})).await, Err(ToolErrorKind::IsADirectory));
    assert_eq!(call(Tool::DeleteFile, json!({"file_path": "a/b.txt"})).await, Ok("Deleted file /repo/a/b.txt".into()));
    assert_eq!(call(Tool::ReadFile, json!({"file_path": "a/b.txt"})).await, Err(ToolErrorKind::FileNotFound));
}

#[tokio::test]
async fn edits_are_undone_one_by_one() {
    let (rules, mut files) = (rules("/repo"), Memory::default());
    let mut call = async |given| files.call(&rules, Tool::TextEditor, given).await;
    let undo = || json!({"command": "undo_edit", "path": "f"});
    assert_eq!(call(undo()).await, Err(ToolErrorKind::Unknown));
    let create = json!({"command": "create", "path": "f", "file_text": "0"});
    assert_eq!(call(create.clone()).await, Ok("File created successfully at: /repo/f".into()));
    assert_eq!(call(create).await, Err(ToolErrorKind::Unknown), "it is there");
    for number in 0..12 {
        let (old, new) = (number.to_string(), (number + 1).to_string());
        let given = json!({"command": "str_replace", "path": "f", "old_str": old, "new_str": new});
        assert!(call(given).await.is_ok());
    }
    for number in (2..12).rev() {
        assert!(call(undo()).await.unwrap().ends_with(&format!("     1\t{number}\n")), "{number}");
    }
    assert_eq!(call(undo()).await, Err(ToolErrorKind::Unknown), "ten can be undone");
    assert_eq!(call(json!({"command": "create", "path": "g"})).await, Err(ToolErrorKind::Parsing));
    assert!(call(json!({"command": "create", "path": "g", "file_text": ""})).await.is_ok());
    assert!(call(json!({"command": "insert", "path": "g", "insert_line": 0, "insert_text": "x"})).await.is_ok());
    assert!(call(json!({"command": "undo_edit", "path": "g"})).await.is_ok());
    assert_eq!(call(json!({"command": "undo_edit", "path": "g"})).await, Ok("File deleted at: /repo/g".into()));
    let seen = call(json!({"command": "view", "path": "/repo"})).await.unwrap();
    assert!(seen.ends_with("excluding hidden items:\n/repo\n/repo/f\n"), "{seen}");
}

/// Calls that both modes can answer: no delete, and no undo of a file that was made.
fn calls() -> impl Strategy<Value = Vec<(Tool, Value)>> {
    let path = prop_oneof![
        8 => "[ab](/[ab]){0,2}",
        1 => Just("../x".to_owned()),
        1 => Just("secret/a".to_owned()),
        1 => Just("a/é\n\u{1b}[1m".to_owned()),
        1 => Just(String::new()),
    ];
    let text = "[xy\n]{0,8}";
    let one = (0_u8..9, path, text, text, any::<bool>(), -1_i64..4);
    let one = one.prop_map(|(which, path, text, other, flag, number)| match which {
        0 => (Tool::ReadFile, json!({"file_path": path, "offset": number})),
        1 | 2 => {
            (Tool::WriteFile, json!({"file_path": path, "content": text.repeat(if number == 3 { 200 } else { 1 })}))
        }
        3 => (Tool::EditFile, json!({"file_path": path, "old_string": text, "new_string": other, "replace_all": flag})),
        4 => (Tool::Ls, json!({"path": path})),
        5 => (Tool::TextEditor, json!({"command": "view", "path": path})),
        6 => (Tool::TextEditor, json!({"command": "str_replace", "path": path, "old_str": text, "new_str": other})),
        7 => (Tool::TextEditor, json!({"command": "insert", "path": path, "insert_line": number, "insert_text": text})),
        _ => (Tool::TextEditor, json!({"command": "undo_edit", "path": path})),
    });
    proptest::collection::vec(one, 1..40)
}

#[tokio::test]
async fn memory_and_sandbox_give_the_same_answers() {
    let sandbox = sandbox::start_local().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let told = Mutex::new(Vec::new());
    let tell = |what: What| told.lock().unwrap().push(what);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for round in 0..40 {
        let root = directory.path().join(round.to_string()).display().to_string();
        let rules = rules(&root);
        let place = sandbox.confined(root.as_str(), User::Default);
        place.ready(sandbox::Access::Write).await.unwrap();
        let mut memory = Memory::default();
        let mut history = History::default();
        for (tool, given) in calls().new_tree(&mut runner).unwrap().current() {
            let given = arguments(tool, given);
            let mut work = Work { disk: Disk::Memory(&mut memory.store), history: &mut memory.history, rules: &rules };
            let in_memory = work.act(tool, &given).await;
            let disk = Disk::Sandbox(Sandboxed { place: place.clone(), tell: &tell });
            let mut work = Work { disk, history: &mut history, rules: &rules };
            let in_sandbox: Result<String, Failed> = work.act(tool, &given).await;
            assert_eq!(in_memory, in_sandbox, "{tool:?} {given:?}");
        }
    }
    // What was done is told by its length alone.
    let told = told.into_inner().unwrap();
    let lengths = told.iter().all(|what| match what {
        What::Sandbox { action, input, output, file, .. } => {
            let counted = |text: &Option<String>| text.as_ref().is_none_or(|text| text.ends_with(" bytes)"));
            matches!(action.as_str(), "read_file" | "write_file") && counted(input) && counted(output) && file.is_some()
        }
        _ => false,
    });
    assert!(lengths && told.len() > 100, "{}", told.len());
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_sandbox_deletes_nothing() {
    let sandbox = sandbox::start_local().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display().to_string();
    let mut rules = rules(&root);
    let told = |_| {};
    std::fs::write(directory.path().join("f"), [0xff]).unwrap();
    std::os::unix::fs::symlink("f", directory.path().join("l")).unwrap();
    let mut history = History::default();
    let mut call = async |rules: &FileToolsInForce, tool: Tool, given: Value| {
        let disk = Disk::Sandbox(Sandboxed { place: sandbox.confined(root.as_str(), User::Default), tell: &told });
        let mut work = Work { disk, history: &mut history, rules };
        work.act(tool, &arguments(tool, given)).await.map_err(|failed| failed.error)
    };
    let refused = call(&rules, Tool::DeleteFile, json!({"file_path": "f"})).await.unwrap_err();
    assert!(refused.message.starts_with("SandboxUnsupported: "), "{}", refused.message);
    let binary = call(&rules, Tool::ReadFile, json!({"file_path": "f"})).await.unwrap_err();
    assert_eq!(binary.kind, ToolErrorKind::UnicodeDecode);
    let link = call(&rules, Tool::ReadFile, json!({"file_path": "l"})).await.unwrap_err();
    assert!(link.kind == ToolErrorKind::Permission && link.message.contains("symbolic link"), "{}", link.message);
    assert_eq!(call(&rules, Tool::Ls, json!({})).await, Ok("f\nl@".into()));
    rules.read_only = true;
    for (tool, given) in [
        (Tool::DeleteFile, json!({"file_path": "f"})),
        (Tool::WriteFile, json!({"file_path": "g", "content": ""})),
        (Tool::TextEditor, json!({"command": "create", "path": "g", "file_text": ""})),
    ] {
        let refused = call(&rules, tool, given).await.unwrap_err();
        assert!(refused.message.starts_with("SandboxReadOnly: "), "{}", refused.message);
    }
    assert!(!directory.path().join("g").exists());
    sandbox.stop().await.unwrap();
}
