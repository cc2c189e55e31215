//! What was written of a conversation, so that the next event does not write it anew: whatever has not changed since is
//! repeated as it stands.

use std::sync::Arc;

use log::message::ChatMessage;
use log::{Redactor, Written};
use serde_json::json;

use crate::model::ToolInfo;

/// What the last event had.
#[derive(Default)]
pub(crate) struct Told {
    /// In their order.
    messages: Vec<(Arc<ChatMessage>, Written)>,
    tools: (Vec<ToolInfo>, Vec<Written>),
}

impl Told {
    /// These messages, as they are written. They are remembered in place of those from before, so that this never holds
    /// more than one event repeats.
    pub(crate) fn all(&mut self, messages: &[ChatMessage], redactor: &Redactor) -> Vec<Written> {
        let mut from = 0;
        let next = messages.iter().map(|message| match self.find(from, message) {
            Some((at, known)) => {
                from = at + 1;
                known.clone()
            }
            None => (Arc::new(message.clone()), Written::message(message, redactor)),
        });
        self.messages = next.collect();
        self.messages.iter().map(|(_, written)| written.clone()).collect()
    }

    /// One message, which is not remembered.
    pub(crate) fn one(&self, message: &ChatMessage, redactor: &Redactor) -> Written {
        self.find(0, message).map_or_else(|| Written::message(message, redactor), |(_, (_, written))| written.clone())
    }

    /// These tools, as they are written.
    pub(crate) fn tools(&mut self, tools: &[ToolInfo], redactor: &Redactor) -> Vec<Written> {
        if self.tools.0 != tools {
            let written = tools.iter().map(|tool| Written::value(json!(tool), redactor)).collect();
            self.tools = (tools.to_vec(), written);
        }
        self.tools.1.clone()
    }

    /// Compared as a whole: a message may have been cut or changed, and have the same id.
    fn find(&self, from: usize, message: &ChatMessage) -> Option<(usize, &(Arc<ChatMessage>, Written))> {
        self.messages.iter().enumerate().skip(from).find(|(_, (known, _))| **known == *message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(written: &[Written]) -> Vec<String> {
        let text = |written: &Written| match serde_json::from_str(written.json()) {
            Ok(ChatMessage::User(said)) => said.content.text().into_owned(),
            other => format!("{other:?}"),
        };
        written.iter().map(text).collect()
    }

    #[test]
    fn conversations_that_grow_shrink_and_change_are_written_as_they_are() {
        let redactor = Redactor::new(["hunter2hunter2"], [""; 0]);
        let mut told = Told::default();
        let said = |texts: &[&str]| texts.iter().map(|text| ChatMessage::user(*text)).collect::<Vec<_>>();
        for turn in [
            &["a"][..],
            &["a", "b", "hunter2hunter2"],
            &["b", "hunter2hunter2", "c"],
            &["b", "changed", "c", "c", "b"],
            &[],
            &["c"],
        ] {
            let expected: Vec<String> = turn.iter().map(|text| text.replace("hunter2hunter2", "[REDACTED]")).collect();
            assert_eq!(texts(&told.all(&said(turn), &redactor)), expected);
            assert_eq!(told.messages.len(), turn.len());
        }
        assert_eq!(texts(&[told.one(&ChatMessage::user("hunter2hunter2"), &redactor)]), ["[REDACTED]"]);
    }

    #[test]
    fn tools_are_written_as_they_are_now() {
        let redactor = Redactor::new(["hunter2hunter2"], [""; 0]);
        let tool = |name: &str| ToolInfo { name: name.into(), description: "d".into(), parameters: json!({}) };
        let mut told = Told::default();
        for (name, shown) in [("a", "a"), ("a", "a"), ("hunter2hunter2", "[REDACTED]"), ("b", "b")] {
            let written: Vec<String> =
                told.tools(&[tool(name)], &redactor).iter().map(|tool| tool.json().to_owned()).collect();
            assert_eq!(written, [json!(tool(shown)).to_string()]);
        }
        assert!(told.tools(&[], &redactor).is_empty());
    }

    #[test]
    fn what_is_known_is_not_written_again() {
        let redactor = Redactor::new(["hunter2hunter2"], [""; 0]);
        let (mut told, messages) = (Told::default(), [ChatMessage::user("hunter2hunter2"), ChatMessage::user("b")]);
        for _ in 0..5 {
            told.all(&messages, &redactor);
            told.one(&messages[0], &redactor);
        }
        assert_eq!(redactor.counts().value, 1);
    }
}
