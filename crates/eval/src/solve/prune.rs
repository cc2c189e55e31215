//! What a model is sent of a long conversation. The sample's own list keeps everything.

use std::collections::HashSet;

use log::message::ChatMessage;

/// Instructions, the question and the last `keep` messages, none of them (but for instructions and question) longer than
/// `most` bytes and a note. A tool's result is never sent without its call, nor a call without its result: providers
/// refuse such conversations.
pub(super) fn prune(messages: &[ChatMessage], keep: usize, most: usize) -> Vec<ChatMessage> {
    let question = messages.iter().position(|message| matches!(message, ChatMessage::User(_)));
    let is_head = |(index, message): &(usize, &ChatMessage)| {
        matches!(message, ChatMessage::System(_)) || Some(*index) == question
    };
    let others = messages.iter().enumerate().rev().filter(|one| !is_head(one));
    let begin = others.take(keep).last().map_or(messages.len(), |(index, _)| index);
    let mut kept: Vec<ChatMessage> = Vec::new();
    for one in messages.iter().enumerate() {
        if is_head(&one) {
            kept.push(one.1.clone());
        } else if one.0 >= begin {
            kept.push(shortened(one.1, most));
        }
    }
    paired(kept)
}

/// Without results whose call is missing, and calls whose result is.
fn paired(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    // Names of calls may repeat in a conversation: a result belongs to the last that was said before it.
    let mut answered: Vec<HashSet<String>> = Vec::with_capacity(messages.len());
    let mut last: Option<usize> = None;
    let mut orphans = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        answered.push(HashSet::new());
        match message {
            ChatMessage::Assistant(_) => last = Some(index),
            ChatMessage::Tool(result) => {
                let calls = last.and_then(|at| match &messages[at] {
                    ChatMessage::Assistant(reply) => reply.tool_calls.as_ref().map(|calls| (at, calls)),
                    _ => None,
                });
                let found = calls.filter(|(_, calls)| calls.iter().any(|call| call.id == result.tool_call_id));
                // A second result of one call is one too many.
                if !found.is_some_and(|(at, _)| answered[at].insert(result.tool_call_id.clone())) {
                    orphans.insert(index);
                }
            }
            ChatMessage::System(_) | ChatMessage::User(_) => {}
        }
    }
    let kept = messages.into_iter().zip(answered).enumerate().filter_map(|(index, (mut message, answered))| {
        if let ChatMessage::Assistant(reply) = &mut message
            && let Some(mut calls) = reply.tool_calls.take()
        {
            calls.retain(|call| answered.contains(&call.id));
            reply.tool_calls = (!calls.is_empty()).then_some(calls);
            if reply.tool_calls.is_none() && reply.content.text().is_empty() {
                return None;
            }
        }
        (!orphans.contains(&index)).then_some(message)
    });
    kept.collect()
}

fn shortened(message: &ChatMessage, most: usize) -> ChatMessage {
    let mut message = message.clone();
    if message.text().len() > most {
        message.content_mut().map_text(|text| {
            let begin = text.floor_char_boundary(most / 2);
            let end = text.ceil_char_boundary(text.len() - most / 2);
            format!("{}\n[… {} bytes are left out …]\n{}", &text[..begin], end - begin, &text[end..])
        });
    }
    message
}

#[cfg(test)]
mod tests {
    use log::message::{Reply, ToolCall, ToolResult};
    use proptest::prelude::*;

    use super::*;

    fn reply(content: &str, calls: &[&str]) -> ChatMessage {
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            function: "bash".into(),
            arguments: serde_json::Map::new(),
            parse_error: None,
            written: None,
        };
        let tool_calls = (!calls.is_empty()).then(|| calls.iter().map(call).collect());
        ChatMessage::Assistant(Reply { id: None, content: content.into(), source: None, tool_calls, model: None })
    }

    fn result(id: &str) -> ChatMessage {
        ChatMessage::Tool(ToolResult {
            id: None,
            content: "out".into(),
            tool_call_id: id.into(),
            function: "bash".into(),
            error: None,
        })
    }

    #[test]
    fn the_question_and_the_last_messages_are_sent() {
        let all = [
            ChatMessage::system("instructions"),
            ChatMessage::user("the question"),
            reply("", &["a", "b"]),
            result("a"),
            result("b"),
            ChatMessage::user("go on"),
            reply("", &["a"]),
            result("a"),
        ];
        assert_eq!(prune(&all, 40, 1000), all);
        // `b` would stand alone.
        let expected = [&all[..2], &all[5..]].concat();
        assert_eq!(prune(&all, 4, 1000), expected);
        assert_eq!(prune(&all, 3, 1000), expected);
        // And here its call would.
        assert_eq!(prune(&all[..4], 2, 1000), [&all[..2], &[reply("", &["a"]), result("a")]].concat());
        assert_eq!(prune(&all, 1, 1000), &all[..2]);
        assert_eq!(prune(&[reply("words", &["x"])], 1, 1000), [reply("words", &[])]);
    }

    #[test]
    fn long_messages_are_shortened_but_for_the_question() {
        let long = "ä".repeat(1000);
        let sent = prune(&[ChatMessage::user(long.clone()), reply(&long, &[])], 5, 101);
        assert_eq!(sent[0].text(), long);
        assert!(sent[1].text().len() < 200 && sent[1].text().contains("bytes are left out"), "{}", sent[1].text());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_has_no_orphans(
            kinds in proptest::collection::vec((0_u8..5, 0_u8..4, 0_u8..4), 0..40),
            keep in 1_usize..20,
        ) {
            let all: Vec<ChatMessage> = kinds.iter().map(|(kind, one, two)| match kind {
                0 => ChatMessage::system("s"),
                1 => ChatMessage::user("u"),
                2 => reply("words", &[]),
                3 => reply("", &[&one.to_string(), &two.to_string()]),
                _ => result(&one.to_string()),
            }).collect();
            let sent = prune(&all, keep, 100);
            let systems = |list: &[ChatMessage]| list.iter().filter(|one| matches!(one, ChatMessage::System(_))).count();
            prop_assert_eq!(systems(&sent), systems(&all));
            prop_assert!(sent.len() <= systems(&all) + 1 + keep);
            let mut open: Vec<String> = Vec::new();
            for message in &sent {
                match message {
                    ChatMessage::Assistant(reply) => {
                        prop_assert!(open.is_empty(), "a call without its result");
                        open = reply.tool_calls.iter().flatten().map(|call| call.id.clone()).collect();
                        open.sort();
                        open.dedup();
                    }
                    ChatMessage::Tool(result) => {
                        let at = open.iter().position(|id| *id == result.tool_call_id);
                        prop_assert!(at.is_some(), "a result without its call");
                        open.remove(at.unwrap_or_default());
                    }
                    _ => {}
                }
            }
            prop_assert!(open.is_empty(), "a call without its result");
            prop_assert_eq!(prune(&sent, keep, 100), sent);
        }
    }
}
