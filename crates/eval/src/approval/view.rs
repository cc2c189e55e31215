//! What a person is shown of a call: without secrets, in lines, and never more than can be read.

use std::borrow::Cow;

use log::Redactor;
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use crate::tools::Tool;

/// How a line is to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// As it is.
    Plain,
    /// A name.
    Label,
    /// What would run.
    Command,
    /// What would be added.
    Added,
    /// What would be taken away.
    Removed,
    /// A remark of ours.
    Note,
}

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// Line by line.
    pub lines: Vec<(Mark, String)>,
    /// Whether a secret was taken out.
    hidden: bool,
}

/// The most lines that are shown.
const MOST_LINES: usize = 120;
/// The longest line that is shown.
const LONGEST: usize = 400;
/// Texts longer than this are not compared: that takes long.
const MOST_COMPARED: usize = 64 << 10;

/// What a call would do.
pub(super) fn of_call(tool: Tool, arguments: &Map<String, Value>, redactor: &Redactor) -> View {
    let mut view = View::default();
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    match tool {
        Tool::Bash => view.block(Mark::Command, text("command"), redactor),
        Tool::Python => view.block(Mark::Command, text("code"), redactor),
        Tool::BashSession => {
            view.line(Mark::Label, text("action"), redactor);
            view.block(Mark::Command, text("input"), redactor);
        }
        Tool::WriteFile => {
            view.line(Mark::Label, text("file_path"), redactor);
            view.block(Mark::Added, text("content"), redactor);
        }
        Tool::EditFile => {
            view.line(Mark::Label, text("file_path"), redactor);
            view.difference(text("old_string"), text("new_string"), redactor);
            view.rest(arguments, &["file_path", "old_string", "new_string"], redactor);
        }
        Tool::TextEditor => {
            view.line(Mark::Label, &format!("{} {}", text("command"), text("path")), redactor);
            // Whatever is not shown by its meaning is shown by its name.
            let mut shown = vec!["command", "path"];
            match text("command") {
                "create" => {
                    view.block(Mark::Added, text("file_text"), redactor);
                    shown.push("file_text");
                }
                "str_replace" => {
                    view.difference(text("old_str"), text("new_str"), redactor);
                    shown.extend(["old_str", "new_str"]);
                }
                "insert" => {
                    let name = if arguments.contains_key("insert_text") { "insert_text" } else { "new_str" };
                    view.block(Mark::Added, text(name), redactor);
                    shown.push(name);
                }
                _ => {}
            }
            view.rest(arguments, &shown, redactor);
        }
        _ => view.rest(arguments, &[], redactor),
    }
    view.close()
}

/// What a call gave.
pub(super) fn of_result(result: &str, redactor: &Redactor) -> View {
    let mut view = View::default();
    view.block(Mark::Plain, result, redactor);
    view.close()
}

/// A name that a sandbox wants to reach.
pub(super) fn of_name(name: &str) -> View {
    View { lines: vec![(Mark::Command, name.to_owned())], hidden: false }
}

impl View {
    /// Without secrets, and with everything that could do something.
    fn without_secrets<'a>(&mut self, text: &'a str, redactor: &Redactor) -> Cow<'a, str> {
        let seen = redactor.seen(text);
        self.hidden |= matches!(seen, Cow::Owned(_));
        seen
    }

    fn line(&mut self, mark: Mark, text: &str, redactor: &Redactor) {
        let text = self.without_secrets(text, redactor);
        let length = text.chars().count();
        let mut line: String = text.chars().take(LONGEST).collect();
        if length > LONGEST {
            line = format!("{line} […{} more characters]", length - LONGEST);
        }
        self.lines.push((mark, line));
    }

    /// All of it is redacted before it is cut into lines: a secret may have several.
    fn block(&mut self, mark: Mark, text: &str, redactor: &Redactor) {
        let text = self.without_secrets(text, redactor);
        for line in text.split('\n') {
            // One more than is shown, so that it is known that something is missing.
            if self.lines.len() > MOST_LINES {
                self.lines.push((mark, String::new()));
                continue;
            }
            self.line(mark, line, redactor);
        }
    }

    fn difference(&mut self, old: &str, new: &str, redactor: &Redactor) {
        let (old, new) = (self.without_secrets(old, redactor), self.without_secrets(new, redactor));
        if old.len() + new.len() > MOST_COMPARED {
            self.block(Mark::Removed, &old, redactor);
            self.block(Mark::Added, &new, redactor);
            return;
        }
        for change in TextDiff::from_lines(old.as_ref(), new.as_ref()).iter_all_changes() {
            let mark = match change.tag() {
                ChangeTag::Equal => Mark::Plain,
                ChangeTag::Insert => Mark::Added,
                ChangeTag::Delete => Mark::Removed,
            };
            self.line(mark, change.value().trim_end_matches('\n'), redactor);
        }
    }

    /// Arguments that were not shown otherwise: none is hidden.
    fn rest(&mut self, arguments: &Map<String, Value>, shown: &[&str], redactor: &Redactor) {
        let rest: Map<String, Value> = arguments
            .iter()
            .filter(|(name, _)| !shown.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in &rest {
            match value {
                Value::String(text) => self.block(Mark::Plain, &format!("{name}: {text}"), redactor),
                value => self.block(Mark::Plain, &format!("{name}: {value}"), redactor),
            }
        }
    }

    fn close(mut self) -> Self {
        if self.hidden {
            self.lines.insert(0, (Mark::Note, "secrets are not shown: [REDACTED] stands for each".into()));
        }
        let hidden = self.lines.len().saturating_sub(MOST_LINES);
        if hidden > 0 {
            self.lines.truncate(MOST_LINES);
            self.lines.push((
                Mark::Note,
                format!("{hidden} more lines are not shown: what they say would be approved unseen"),
            ));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(tool: Tool, arguments: Value) -> Vec<(Mark, String)> {
        let Value::Object(arguments) = arguments else { return Vec::new() };
        of_call(tool, &arguments, &Redactor::new(["hunter2hunter2"], log::redact::KEYS)).lines
    }

    #[test]
    fn edits_are_shown_as_differences_without_secrets() {
        let lines = view(
            Tool::EditFile,
            json!({"file_path": "/a", "old_string": "one\ntwo\nkey=hunter2hunter2\n", "new_string": "one\nthree\nkey=hunter2hunter2\n", "replace_all": true}),
        );
        let expected = [
            (Mark::Note, "secrets are not shown: [REDACTED] stands for each"),
            (Mark::Label, "/a"),
            (Mark::Plain, "one"),
            (Mark::Removed, "two"),
            (Mark::Added, "three"),
            (Mark::Plain, "key=[REDACTED]"),
            (Mark::Plain, "replace_all: true"),
        ];
        assert_eq!(lines, expected.map(|(mark, text)| (mark, text.to_owned())));
    }

    #[test]
    fn nothing_that_does_something_is_hidden() {
        let run = "true Cookie: a=b;echo one; password=\"$(two)\"; true ?token=$(three)";
        assert_eq!(view(Tool::Bash, json!({"command": run})), [(Mark::Command, run.to_owned())]);
        for name in ["insert_text", "new_str"] {
            let lines =
                view(Tool::TextEditor, json!({"command": "insert", "path": "/a", "insert_line": 0, name: "evil"}));
            assert!(lines.contains(&(Mark::Added, "evil".into())), "{lines:?}");
        }
        let both = json!({"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x", "new_str": "other"});
        assert!(view(Tool::TextEditor, both).contains(&(Mark::Plain, "new_str: other".into())));
        let lines = view(Tool::TextEditor, json!({"command": "view", "path": "/a", "file_text": "odd"}));
        assert!(lines.contains(&(Mark::Plain, "file_text: odd".into())), "{lines:?}");
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let lines = view(Tool::Bash, json!({"command": "true\n".repeat(500)}));
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert!(lines.last().is_some_and(|(mark, text)| *mark == Mark::Note && text.starts_with("381 more lines")));
        let lines = view(Tool::Bash, json!({"command": "x".repeat(1000)}));
        assert!(lines[0].1.ends_with("[…600 more characters]"));
    }
}
