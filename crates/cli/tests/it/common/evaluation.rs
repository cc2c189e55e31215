//! Evaluations as a user runs them, with a scripted model.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The command, for a task, with a log directory of its own.
pub(crate) fn eval(place: &Path, arguments: &[&str]) -> Command {
    let mut command = super::command(place);
    command.arg("--json").arg("eval").args(arguments).arg("--log-dir").arg(place.join("logs"));
    command
}

/// Runs to the end: code, result, messages.
pub(crate) fn ended(place: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let output = eval(place, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_str(&said).unwrap_or(Value::Null), messages)
}

pub(crate) fn write(place: &Path, name: &str, text: &str) -> String {
    let path = place.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The whole log, by our own reader.
pub(crate) fn dump(place: &Path, log: &str) -> Value {
    let output = super::command(place).args(["log", "dump", log]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Replies of a scripted model that make these calls, one after the other, and then submit `done`.
pub(crate) fn calls(calls: &[(&str, Value)]) -> String {
    let mut mock = String::from("mock:\n");
    for (tool, arguments) in calls {
        let arguments = serde_json::to_string(arguments).unwrap();
        writeln!(mock, "  - {{text: I call., tool_calls: [{{name: {tool}, arguments: {arguments}}}]}}").unwrap();
    }
    mock + "  - {tool_calls: [{name: submit, arguments: {answer: done}}]}\n"
}

/// The events of one kind in the first sample.
pub(crate) fn events<'a>(log: &'a Value, kind: &str) -> Vec<&'a Value> {
    log["samples"][0]["events"].as_array().unwrap().iter().filter(|event| event["event"] == kind).collect()
}
