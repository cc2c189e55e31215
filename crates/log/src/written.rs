//! What is written again and again: every event of a model repeats the conversation so far, and the tools. Taking secrets
//! out of a message and writing it takes longer than all that follows, so it is done once for each.

use std::sync::Arc;

use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::Redactor;
use crate::message::ChatMessage;

/// A message or a tool without secrets, as it is written. There is no other way to make one, so nobody has to look again.
#[derive(Debug, Clone)]
pub struct Written(Arc<RawValue>);

impl Written {
    /// Takes secrets out of a message and writes it.
    pub fn message(message: &ChatMessage, redactor: &Redactor) -> Self {
        let written = serde_json::to_value(message).and_then(|mut value| {
            if !redactor.value(&mut value) {
                return to_raw_value(message);
            }
            // What was a message is one still: only texts have changed. Should it not be, nothing of it is written.
            ChatMessage::deserialize(&value)?;
            to_raw_value(&value)
        });
        let note = || ChatMessage::system("(a message that could not be written without a secret)");
        Self::or_nothing(written.or_else(|_| to_raw_value(&note())))
    }

    /// The same for anything whose shape nobody relies on.
    pub fn value(mut value: Value, redactor: &Redactor) -> Self {
        redactor.value(&mut value);
        Self::or_nothing(to_raw_value(&value))
    }

    fn or_nothing(written: serde_json::Result<Box<RawValue>>) -> Self {
        Self(written.map_or_else(|_| Arc::from(RawValue::NULL.to_owned()), Arc::from))
    }

    /// Its JSON.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

/// What an event repeats.
#[derive(Debug, Clone)]
pub enum Repeated<T> {
    /// As it was, or as it was read from a log.
    Plain(Vec<T>),
    /// As it is written.
    Written(Vec<Written>),
}

/// What a model was asked.
pub type Conversation = Repeated<ChatMessage>;

impl<T> Default for Repeated<T> {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

impl<T> From<Vec<T>> for Repeated<T> {
    fn from(plain: Vec<T>) -> Self {
        Self::Plain(plain)
    }
}

impl<T: Serialize + PartialEq> PartialEq for Repeated<T> {
    /// The same if they read the same.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(one), Self::Plain(other)) => one == other,
            _ => serde_json::to_value(self).ok() == serde_json::to_value(other).ok(),
        }
    }
}

impl<T: Serialize> Serialize for Repeated<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(plain) => plain.serialize(serializer),
            Self::Written(written) => {
                let mut list = serializer.serialize_seq(Some(written.len()))?;
                for one in written {
                    list.serialize_element(&*one.0)?;
                }
                list.end()
            }
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Repeated<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::Plain)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{Event, What};
    use crate::redact::KEYS;

    #[test]
    fn a_message_is_written_without_secrets_and_reads_as_one() {
        let redactor = Redactor::new(["hunter2hunter2"], KEYS);
        let plain = ChatMessage::user("nothing \"special\"\n");
        let written = Written::message(&plain, &redactor);
        assert_eq!(serde_json::from_str::<ChatMessage>(written.json()).ok(), Some(plain));
        let written = Written::message(&ChatMessage::user("it is hunter2hunter2"), &redactor);
        assert!(!written.json().contains("hunter2"), "{}", written.json());
        let read: ChatMessage = serde_json::from_str(written.json()).unwrap();
        assert_eq!(read, ChatMessage::user("it is [REDACTED]"));
    }

    #[test]
    fn a_message_that_is_none_without_its_secret_is_not_written() {
        let redactor = Redactor::new(["content"], [""; 0]);
        let written = Written::message(&ChatMessage::user("words"), &redactor);
        let read: ChatMessage = serde_json::from_str(written.json()).unwrap();
        assert!(matches!(read, ChatMessage::System(_)), "{read:?}");
    }

    #[test]
    fn an_event_of_written_messages_is_the_same_as_one_of_messages() {
        let (none, messages) = (Redactor::new([""; 0], [""; 0]), [ChatMessage::user("a"), ChatMessage::system("b")]);
        let tool = json!({"name": "t"});
        let event = |input: Conversation, tools: Repeated<Value>| {
            let what = What::Model {
                model: "m".into(),
                role: None,
                input,
                tools,
                tool_choice: json!("auto"),
                config: serde_json::Map::new(),
                output: serde_json::from_value(json!({"model": "m", "choices": [], "completion": ""})).unwrap(),
                retries: None,
                cache: None,
                error: None,
                completed: None,
                working_time: None,
            };
            Event { timestamp: "t".into(), working_start: 0.5, uuid: "u".into(), span_id: None, what }
        };
        let plain = event(messages.to_vec().into(), vec![tool.clone()].into());
        let repeated = Repeated::Written(messages.iter().map(|one| Written::message(one, &none)).collect());
        let written = event(repeated, Repeated::Written(vec![Written::value(tool, &none)]));
        assert_eq!(plain, written);
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), serde_json::to_value(&plain).ok());
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), plain);
    }
}
