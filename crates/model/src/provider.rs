//! Who can be asked: names, addresses, keys, and what each server's refusals mean.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::{Host, Url};

use crate::config::GenerateConfig;
use crate::error::ModelError;
use crate::keys::Environment;
use crate::openai::Server;
use crate::output::{Reading, Unreadable};
use crate::own_tools::{Granted, ProviderTool};
use crate::request::Request;
use crate::{anthropic, google, openai, responses};

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Chat completions, of `OpenAI` or a compatible server.
    OpenAi,
    /// Responses, of `OpenAI` or a compatible server.
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Google,
}

const ALL: [Provider; 4] = [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic, Provider::Google];

/// All providers.
pub fn providers() -> &'static [Provider] {
    &ALL
}

impl Provider {
    /// The part of a model's name before the slash.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
        }
    }

    /// The provider of `openai/gpt-5`, and the rest of the name.
    pub(crate) fn of(name: &str) -> Option<(Self, &str)> {
        let (first, model) = name.split_once('/')?;
        let provider = *ALL.iter().find(|provider| provider.name() == first)?;
        // Google's stand in the address itself.
        let plain = |character: char| is_plain(character) && (provider != Self::Google || !"/:@".contains(character));
        (!model.is_empty() && !model.contains("..") && model.chars().all(plain)).then_some((provider, model))
    }

    /// The variables that may hold its key; the first is the one that users are told of.
    pub(crate) fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi | Self::OpenAiResponses => &["OPENAI_API_KEY"],
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::Google => &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        }
    }

    fn base_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Google => "GOOGLE_BASE_URL",
        }
    }

    fn own_base(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Google => "https://generativelanguage.googleapis.com",
        }
    }

    /// What is asked below its address.
    fn path(self, model: &str) -> String {
        match self {
            Self::OpenAi => "chat/completions".into(),
            Self::OpenAiResponses => "responses".into(),
            Self::Anthropic => "v1/messages".into(),
            Self::Google => format!("v1beta/models/{model}:generateContent"),
        }
    }

    /// Settings that this provider does not take: they are not sent, and the log says so.
    pub(crate) fn unsent(self, config: &GenerateConfig) -> Vec<&'static str> {
        let stated = |stated: bool, name: &'static str| stated.then_some(name);
        let unsent = match self {
            Self::OpenAi => vec![
                stated(config.top_k.is_some(), "top_k"),
                stated(config.reasoning_tokens.is_some(), "reasoning_tokens"),
                stated(config.cache_prompt.is_some(), "cache_prompt"),
            ],
            Self::OpenAiResponses => vec![
                stated(config.top_k.is_some(), "top_k"),
                stated(config.stop_seqs.is_some(), "stop_seqs"),
                stated(config.seed.is_some(), "seed"),
                stated(config.frequency_penalty.is_some(), "frequency_penalty"),
                stated(config.presence_penalty.is_some(), "presence_penalty"),
                stated(config.reasoning_tokens.is_some(), "reasoning_tokens"),
                stated(config.cache_prompt.is_some(), "cache_prompt"),
            ],
            Self::Google => vec![
                stated(config.parallel_tool_calls.is_some(), "parallel_tool_calls"),
                stated(config.cache_prompt.is_some(), "cache_prompt"),
            ],
            Self::Anthropic => {
                let thinks = anthropic::thinks(config);
                vec![
                    stated(config.seed.is_some(), "seed"),
                    stated(config.frequency_penalty.is_some(), "frequency_penalty"),
                    stated(config.presence_penalty.is_some(), "presence_penalty"),
                    stated(config.temperature.is_some() && thinks, "temperature"),
                    stated(config.top_p.is_some() && thinks, "top_p"),
                    stated(config.top_k.is_some() && thinks, "top_k"),
                ]
            }
        };
        unsent.into_iter().flatten().collect()
    }

    /// Tools of its own that can be switched on.
    pub fn provider_tools(self) -> &'static [ProviderTool] {
        match self {
            Self::OpenAi => &[],
            Self::OpenAiResponses | Self::Anthropic | Self::Google => &ProviderTool::ALL,
        }
    }

    /// A header that these tools of its own need.
    pub(crate) fn tool_header(self, own: &[ProviderTool]) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Anthropic => anthropic::beta(own).map(|beta| ("anthropic-beta", beta)),
            Self::OpenAi | Self::OpenAiResponses | Self::Google => None,
        }
    }

    pub(crate) fn body(self, model: &str, request: &Request<'_>, server: Server) -> Result<String, ModelError> {
        let body = match self {
            Self::OpenAi => return openai::body(model, request, server),
            Self::OpenAiResponses => responses::body(model, request, server),
            Self::Anthropic => anthropic::body(model, request),
            Self::Google => google::body(request),
        };
        body.map(|body| body.to_string())
    }

    /// What a reply says, in which nothing but these tools of its own may have been used.
    pub(crate) fn read(self, reply: Value, granted: Granted<'_>) -> Result<Reading, Unreadable> {
        match self {
            Self::OpenAi => openai::read(reply, granted),
            Self::OpenAiResponses => responses::read(reply, granted),
            Self::Anthropic => anthropic::read(reply, granted),
            Self::Google => google::read(reply, granted),
        }
    }

    /// What goes with every request. Values of keys are marked, so that nobody prints them.
    pub(crate) fn headers(self, key: Option<&SecretString>) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        if self == Self::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        let Some(key) = key else { return Some(headers) };
        let (name, text) = match self {
            Self::OpenAi | Self::OpenAiResponses => ("authorization", format!("Bearer {}", key.expose_secret())),
            Self::Anthropic => ("x-api-key", key.expose_secret().to_owned()),
            Self::Google => ("x-goog-api-key", key.expose_secret().to_owned()),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
        Some(headers)
    }

    /// Where to ask, and whose server that is.
    pub(crate) fn address(self, model: &str, environment: Environment<'_>) -> Result<(Url, Server), ModelError> {
        let stated =
            environment(self.base_variable()).map(|base| base.trim().to_owned()).filter(|base| !base.is_empty());
        let server = match stated {
            None => Server::OpenAi,
            Some(ref base) if base.trim_end_matches('/') == self.own_base() => Server::OpenAi,
            Some(_) => Server::Compatible,
        };
        let wrong = |why| ModelError::BaseUrl { variable: self.base_variable(), why };
        let base = stated.as_deref().unwrap_or(self.own_base()).trim_end_matches('/');
        let url = Url::parse(&format!("{base}/{}", self.path(model))).map_err(|_| wrong("it is not a URL"))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it holds more than an address"));
        }
        let plain_allowed = environment("RINGFENCE_PLAIN_HTTP").is_some_and(|value| value == "1");
        match url.scheme() {
            "https" => Ok((url, server)),
            "http" if is_this_machine(&url) || plain_allowed => Ok((url, server)),
            "http" => Err(wrong("without TLS everybody on the way reads along (RINGFENCE_PLAIN_HTTP=1 allows it)")),
            _ => Err(wrong("it is neither https nor http")),
        }
    }
}

/// Letters of models' names: they become part of addresses.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_./:@".contains(character)
}

pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// JSON of the words that replies are made of, in any order and depth.
    fn json_like_replies() -> impl Strategy<Value = Value> {
        const WORDS: [&str; 38] = [
            "choices",
            "message",
            "content",
            "tool_calls",
            "function",
            "arguments",
            "name",
            "usage",
            "output",
            "type",
            "text",
            "thinking",
            "tool_use",
            "reasoning",
            "summary",
            "function_call",
            "candidates",
            "parts",
            "functionCall",
            "args",
            "finishReason",
            "stop",
            "annotations",
            "status",
            "incomplete_details",
            "server_tool_use",
            "web_search_tool_result",
            "web_search",
            "tool_use_id",
            "id",
            "web_search_call",
            "code_interpreter_call",
            "action",
            "executableCode",
            "codeExecutionResult",
            "toolCall",
            "groundingMetadata",
            "{\"a\": 1",
        ];
        let word = || (0..WORDS.len()).prop_map(|index| WORDS[index]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            word().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((word(), inner), 0..5).prop_map(|entries| {
                    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_reply_is_read_without_harm(reply in json_like_replies()) {
            let shapes = [
                reply.clone(),
                json!({"choices": [{"message": reply}]}),
                json!({"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": reply}}]}}]}),
                json!({"content": [reply], "output": [reply], "candidates": [{"content": {"parts": [reply]}}]}),
                json!({"content": reply, "output": reply, "candidates": reply, "usage": reply, "usageMetadata": reply}),
            ];
            for shape in shapes {
                for provider in providers() {
                    for granted in [&[][..], &ProviderTool::ALL] {
                        let Ok(reading) = provider.read(shape.clone(), Granted(granted)) else { continue };
                        let uses = reading.parts.iter().any(|part| matches!(part, log::message::Part::ToolUse(_)));
                        prop_assert!(!granted.is_empty() || !uses, "nothing was granted");
                        let output = reading.into_output("a/b");
                        // What was read is written into logs, and read from there again.
                        let written = serde_json::to_value(&output).unwrap();
                        prop_assert_eq!(serde_json::from_value::<crate::Output>(written).unwrap(), output);
                    }
                }
            }
        }
    }

    fn address(base: &str, plain: bool) -> Option<String> {
        let environment = |name: &str| match name {
            "OPENAI_BASE_URL" => Some(base.to_owned()),
            "RINGFENCE_PLAIN_HTTP" => plain.then(|| "1".to_owned()),
            _ => None,
        };
        Provider::OpenAi.address("m", &environment).ok().map(|(url, _)| url.to_string())
    }

    #[test]
    fn keys_travel_by_tls_or_not_at_all() {
        assert_eq!(address("", false).as_deref(), Some("https://api.openai.com/v1/chat/completions"));
        assert_eq!(
            address("http://localhost:8000/v1/", false).as_deref(),
            Some("http://localhost:8000/v1/chat/completions")
        );
        assert_eq!(address("http://127.0.0.9:1/v1", false).as_deref(), Some("http://127.0.0.9:1/v1/chat/completions"));
        assert_eq!(address("http://gpu.example/v1", false), None);
        assert!(address("http://gpu.example/v1", true).is_some());
        for odd in ["gpu", "ftp://x/v1", "https://u:p@x/v1", "https://x/v1?key=1", "http://localhost.evil.example/"] {
            assert_eq!(address(odd, false), None, "{odd}");
        }
    }

    #[test]
    fn names_are_a_provider_and_a_model() {
        assert_eq!(Provider::of("openai/meta-llama/Llama-3:8b"), Some((Provider::OpenAi, "meta-llama/Llama-3:8b")));
        for odd in [
            "openai",
            "openai/",
            "other/x",
            "openai/a b",
            "openai/a?b",
            "openai/ä",
            "",
            "google/a/b",
            "google/a:b",
            "openai/../x",
        ] {
            assert_eq!(Provider::of(odd), None, "{odd}");
        }
    }
}
