//! What a message holds: plain words, or parts of several kinds, as Inspect writes them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a message holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Words.
    Text(String),
    /// Words, images and thoughts, in their order.
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
        /// Whether the model refuses with them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<bool>,
    },
    /// What the model thought before it spoke.
    Reasoning(Reasoning),
    /// What the provider did meanwhile with a tool of its own.
    ToolUse(ToolUse),
    /// An image.
    Image {
        /// A data URL, or the address of an image.
        image: String,
        /// How closely it is looked at.
        #[serde(default)]
        detail: Detail,
    },
}

/// What a model thought.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The thoughts, or what only the provider can read of them.
    pub reasoning: String,
    /// What they come to, where the thoughts themselves are hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What the provider wants back with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether only the provider can read them.
    #[serde(default)]
    pub redacted: bool,
}

/// What a provider did with a tool of its own, while it answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Which tool, in Inspect's words.
    pub tool_type: ToolUseKind,
    /// Unique in its message.
    pub id: String,
    /// The tool, in the provider's words.
    pub name: String,
    /// With what, as the provider tells it.
    pub arguments: String,
    /// What it gave, as the provider tells it; cut if it is long.
    pub result: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the provider wants back in the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<Value>,
}

/// Tools of providers that may be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUseKind {
    /// A search on the web.
    WebSearch,
    /// Code that was run.
    CodeExecution,
}

/// How closely an image is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// The model chooses.
    #[default]
    Auto,
    /// Cheaply.
    Low,
    /// Closely.
    High,
    /// As it is.
    Original,
}

impl Content {
    /// The words, without thoughts and images.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => {
                let texts: Vec<&str> = parts.iter().filter_map(Part::text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    /// Whether it holds nothing at all.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }

    /// Changes the words: the first words are handed over, further ones are dropped; everything else stays.
    pub fn map_text(&mut self, change: impl FnOnce(&str) -> String) {
        let changed = change(&self.text());
        match self {
            Self::Text(text) => *text = changed,
            Self::Parts(parts) => {
                let at = parts.iter().position(|part| matches!(part, Part::Text { .. })).unwrap_or(0);
                parts.retain(|part| !matches!(part, Part::Text { .. }));
                parts.insert(at.min(parts.len()), Part::said(changed));
            }
        }
    }
}

impl Part {
    /// Plain words.
    pub fn said(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), refusal: None }
    }

    /// The words, where it is words.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Reasoning(_) | Self::ToolUse(_) | Self::Image { .. } => None,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::Parts(parts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_written_as_inspect_does() {
        let parts = Content::Parts(vec![
            Part::Reasoning(Reasoning { reasoning: "hm".into(), signature: Some("s".into()), ..Reasoning::default() }),
            Part::said("a"),
            Part::Image { image: "data:image/png;base64,AA==".into(), detail: Detail::Auto },
            Part::said("b"),
            Part::ToolUse(ToolUse {
                tool_type: ToolUseKind::WebSearch,
                id: "1".into(),
                name: "web_search".into(),
                arguments: "{}".into(),
                result: "r".into(),
                error: None,
                internal: Some(json!([1])),
            }),
        ]);
        let written = json!([
            {"type": "reasoning", "reasoning": "hm", "signature": "s", "redacted": false},
            {"type": "text", "text": "a"},
            {"type": "image", "image": "data:image/png;base64,AA==", "detail": "auto"},
            {"type": "text", "text": "b"},
            {
                "type": "tool_use", "tool_type": "web_search", "id": "1", "name": "web_search", "arguments": "{}",
                "result": "r", "internal": [1],
            },
        ]);
        assert_eq!(serde_json::to_value(&parts).ok(), Some(written.clone()));
        assert_eq!(serde_json::from_value::<Content>(written).ok(), Some(parts.clone()));
        assert_eq!(serde_json::from_value::<Content>(json!("a")).ok(), Some(Content::from("a")));
        assert_eq!(parts.text(), "a\nb");
    }

    #[test]
    fn changed_words_leave_images_where_they_are() {
        let image = Part::Image { image: "data:".into(), detail: Detail::Auto };
        let mut content = Content::Parts(vec![image.clone(), Part::said("a"), Part::said("b")]);
        content.map_text(|text| format!("<{text}>"));
        assert_eq!(content, Content::Parts(vec![image.clone(), Part::said("<a\nb>")]));
        let mut wordless = Content::Parts(vec![image.clone()]);
        wordless.map_text(|text| format!("<{text}>"));
        assert_eq!(wordless, Content::Parts(vec![Part::said("<>"), image]));
    }
}
