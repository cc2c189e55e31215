//! How a model is to answer. Names are Inspect's, so that logs say what its users know.

use std::time::Duration;

use serde::Serialize;

/// How a model is to answer; absent means as the provider likes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GenerateConfig {
    /// How much chance there is: 0 is as little as may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Only the likeliest tokens that together come to this share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Only so many of the likeliest tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// The longest answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts at which the answer ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_seqs: Option<Vec<String>>,
    /// Where chance begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Against words that are frequent already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Against words that were said already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// How hard it thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<Effort>,
    /// How long it thinks, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u32>,
    /// Whether it may call several tools in one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Whether the provider is asked to remember the beginning; absent means where there are tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_prompt: Option<bool>,
    /// How long answers are kept and used again; absent means not at all.
    #[serde(skip)]
    pub cache: Option<Duration>,
    /// How often a failed request is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Seconds for an answer, with all repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// Seconds for one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<u32>,
    /// Requests at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
}

impl GenerateConfig {
    /// These, with what others say in their place.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let own = self.clone();
        let others = others.clone();
        Self {
            temperature: others.temperature.or(own.temperature),
            top_p: others.top_p.or(own.top_p),
            top_k: others.top_k.or(own.top_k),
            max_tokens: others.max_tokens.or(own.max_tokens),
            stop_seqs: others.stop_seqs.or(own.stop_seqs),
            seed: others.seed.or(own.seed),
            frequency_penalty: others.frequency_penalty.or(own.frequency_penalty),
            presence_penalty: others.presence_penalty.or(own.presence_penalty),
            reasoning_effort: others.reasoning_effort.or(own.reasoning_effort),
            reasoning_tokens: others.reasoning_tokens.or(own.reasoning_tokens),
            parallel_tool_calls: others.parallel_tool_calls.or(own.parallel_tool_calls),
            cache_prompt: others.cache_prompt.or(own.cache_prompt),
            cache: others.cache.or(own.cache),
            max_retries: others.max_retries.or(own.max_retries),
            timeout: others.timeout.or(own.timeout),
            attempt_timeout: others.attempt_timeout.or(own.attempt_timeout),
            max_connections: others.max_connections.or(own.max_connections),
        }
    }
}

/// How hard a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as may be.
    Minimal,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
    /// Very much.
    Xhigh,
}

impl Effort {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("none", Self::None),
        ("minimal", Self::Minimal),
        ("low", Self::Low),
        ("medium", Self::Medium),
        ("high", Self::High),
        ("xhigh", Self::Xhigh),
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, effort)| *effort == self).map_or("medium", |(name, _)| name)
    }
}
