//! Every provider against a strict server of its API: what is sent, what is understood, and every fault.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

mod own_tools;

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{Api, Fake, KEY, Next};
use log::message::{ChatMessage, Content, Part, Reply, StopReason, ToolError, ToolErrorKind, ToolResult, Usage};
use model::{
    Answer, Backoff, CacheSettings, Effort, GenerateConfig, Model, ModelError, Price, Request, Settings, Timing,
    ToolChoice, ToolInfo,
};
use serde_json::{Value, json};

fn settings() -> Settings {
    let ms = Duration::from_millis;
    Settings {
        timing: Timing { connect: ms(2000), read: ms(10_000), attempt: ms(10_000), total: ms(20_000) },
        backoff: Backoff { first: ms(1), most: ms(2), retries: 3 },
        max_connections: 4,
        ..Settings::default()
    }
}

fn open(api: Api, fake: &Fake, config: &GenerateConfig, settings: Settings) -> Arc<dyn Model> {
    let (key, base) = api.variables();
    let address = fake.base(api);
    let environment = |name: &str| match name {
        _ if name == key => Some(KEY.to_owned()),
        _ if name == base => Some(address.clone()),
        _ => None,
    };
    model::open(&format!("{}/test", api.name()), config, settings, &environment).unwrap().model
}

fn tools() -> Vec<ToolInfo> {
    let numbers = json!({
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false,
    });
    ["add", "take"]
        .map(|name| ToolInfo { name: name.into(), description: format!("to {name}"), parameters: numbers.clone() })
        .into()
}

async fn ask(model: &dyn Model, messages: &[ChatMessage], config: &GenerateConfig) -> Result<Answer, ModelError> {
    let (tools, tool_choice) = (tools(), ToolChoice::Auto);
    let provider_tools = &[];
    model
        .generate(Request { messages, tools: &tools, provider_tools, tool_choice: &tool_choice, config, scope: "" })
        .await
}

/// One question, one reply.
async fn exchange(api: Api, next: Next) -> (Result<Answer, ModelError>, Vec<Value>) {
    let fake = Fake::start(api, [next]);
    let config = GenerateConfig { max_retries: Some(0), ..GenerateConfig::default() };
    let model = open(api, &fake, &config, settings());
    let answer = ask(&*model, &[ChatMessage::user("hello")], &config).await;
    (answer, fake.requests())
}

fn reply(answer: &Answer) -> &Reply {
    match &answer.output.choices[0].message {
        ChatMessage::Assistant(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_provider_gives_a_plain_answer_and_its_usage() {
    for api in Api::ALL {
        let (answer, _) = exchange(api, Next::Reply(crate::fake::said(api, "four"))).await;
        let answer = answer.unwrap();
        assert_eq!((answer.output.completion.as_str(), answer.attempts), ("four", 1), "{api:?}");
        assert_eq!(reply(&answer).content, Content::from("four"));
        assert_eq!(answer.output.choices[0].stop_reason, StopReason::Stop);
        assert_eq!(answer.output.model, "test-2026");
        let expected = Usage {
            input_tokens: 10,
            output_tokens: 7,
            total_tokens: 37,
            input_tokens_cache_write: (api == Api::Anthropic).then_some(5),
            input_tokens_cache_read: Some(if api == Api::Anthropic { 15 } else { 20 }),
            reasoning_tokens: Some(4),
            total_cost: None,
        };
        assert_eq!(answer.output.usage, Some(expected), "{api:?}");
    }
}

#[tokio::test]
async fn two_tools_are_called_at_once_and_their_results_go_back() {
    for api in Api::ALL {
        let calls = [("call_1", "add", json!({"a": 1, "b": 2})), ("call_2", "take", json!({"a": 3}))];
        let fake = Fake::start(
            api,
            [Next::Reply(crate::fake::called(api, &calls)), Next::Reply(crate::fake::said(api, "done"))],
        );
        let config = GenerateConfig::default();
        let model = open(api, &fake, &config, settings());
        let mut messages = vec![ChatMessage::system("be brief"), ChatMessage::user("add and take")];
        let answer = ask(&*model, &messages, &config).await.unwrap();
        assert_eq!(answer.output.choices[0].stop_reason, StopReason::ToolCalls, "{api:?}");
        let called = reply(&answer).tool_calls.clone().unwrap();
        let made: Vec<_> = called.iter().map(|call| (call.function.as_str(), call.arguments["a"].clone())).collect();
        assert_eq!(made, [("add", json!(1)), ("take", json!(3))]);
        messages.push(answer.output.choices[0].message.clone());
        for (index, call) in called.into_iter().enumerate() {
            let message = "no such number".to_owned();
            let error = (index == 1).then_some(ToolError { kind: ToolErrorKind::Unknown, message });
            messages.push(ChatMessage::Tool(ToolResult {
                id: None,
                content: if index == 0 { "3" } else { "" }.into(),
                tool_call_id: call.id,
                function: call.function,
                error,
            }));
        }
        // Words beside results, as agents are told to go on.
        messages.push(ChatMessage::user("go on"));
        let answer = ask(&*model, &messages, &config).await.unwrap();
        assert_eq!(answer.output.completion, "done");
        assert_eq!(fake.requests().len(), 2, "{api:?}");
    }
}

#[tokio::test]
async fn thoughts_are_kept_and_sent_back_as_each_provider_wants_them() {
    for api in Api::ALL {
        let call = [("call_1", "add", json!({"a": 1}))];
        let fake = Fake::start(
            api,
            [Next::Reply(crate::fake::thought(api, "", &call)), Next::Reply(crate::fake::said(api, "done"))],
        );
        let config = GenerateConfig { reasoning_effort: Some(Effort::High), ..GenerateConfig::default() };
        let model = open(api, &fake, &config, settings());
        let mut messages = vec![ChatMessage::user("think")];
        let answer = ask(&*model, &messages, &config).await.unwrap();
        let Content::Parts(parts) = &reply(&answer).content else { panic!("{api:?}: {:?}", reply(&answer)) };
        let kept = parts.iter().any(|part| match part {
            Part::Reasoning(thought) => {
                thought.reasoning == "let me see" || thought.summary.as_deref() == Some("let me see")
            }
            _ => false,
        });
        assert!(kept, "{api:?}: {parts:?}");
        assert_eq!(answer.output.completion, "", "a thought is no answer");
        messages.push(answer.output.choices[0].message.clone());
        messages.push(ChatMessage::Tool(ToolResult {
            id: None,
            content: "2".into(),
            tool_call_id: reply(&answer).tool_calls.as_ref().unwrap()[0].id.clone(),
            function: "add".into(),
            error: None,
        }));
        ask(&*model, &messages, &config).await.unwrap();
        let second = &fake.requests()[1];
        match api {
            Api::OpenAi => assert_eq!(second["messages"][1]["reasoning_content"], "let me see"),
            Api::Responses => assert_eq!(second["input"][1]["encrypted_content"], "signed-abc"),
            Api::Anthropic => {
                let kinds = ["thinking", "redacted_thinking", "tool_use"];
                let sent = second["messages"][1]["content"].as_array().unwrap();
                assert_eq!(sent.iter().map(|block| block["type"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
                assert_eq!(sent[0]["signature"], "signed-abc");
            }
            Api::Google => assert_eq!(second["contents"][1]["parts"][0]["thoughtSignature"], "c2lnbmVkLWFiYw=="),
        }
    }
}

#[tokio::test]
async fn reasons_to_stop_are_told_apart() {
    use StopReason::{ContentFilter, MaxTokens, ModelLength, Stop, Unknown};
    let table: [(Api, &[(&str, StopReason)]); 4] = [
        (Api::OpenAi, &[("length", MaxTokens), ("content_filter", ContentFilter), ("stop", Stop), ("new", Unknown)]),
        (Api::Responses, &[("max_output_tokens", MaxTokens), ("content_filter", ContentFilter), ("new", Unknown)]),
        (
            Api::Anthropic,
            &[
                ("max_tokens", MaxTokens),
                ("refusal", ContentFilter),
                ("stop_sequence", Stop),
                ("model_context_window_exceeded", ModelLength),
                ("new", Unknown),
            ],
        ),
        (Api::Google, &[("MAX_TOKENS", MaxTokens), ("SAFETY", ContentFilter), ("NEW", Unknown)]),
    ];
    for (api, reasons) in table {
        for (reason, expected) in reasons {
            let reply = crate::fake::stopped(api, reason);
            let next = if *expected == Unknown { Next::Odd(reply) } else { Next::Reply(reply) };
            let (answer, _) = exchange(api, next).await;
            assert_eq!(answer.unwrap().output.choices[0].stop_reason, *expected, "{api:?} {reason}");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_the_models_mistake() {
    for api in Api::ALL {
        let (answer, _) = exchange(api, Next::Odd(crate::fake::wrong_arguments(api))).await;
        let answer = answer.unwrap();
        let call = &reply(&answer).tool_calls.as_ref().unwrap()[0];
        assert!(call.parse_error.as_ref().unwrap().contains("not a JSON object"), "{api:?}: {call:?}");
        assert!(call.arguments.is_empty());
        let written = if matches!(api, Api::OpenAi | Api::Responses) { "{\"a\": 1" } else { "" };
        assert!(call.written.as_ref().unwrap().starts_with(written), "{api:?}: {call:?}");
    }
}

#[tokio::test]
async fn tools_of_the_provider_are_an_error() {
    for api in Api::ALL {
        let (answer, _) = exchange(api, Next::Reply(crate::fake::uninvited(api))).await;
        assert!(matches!(answer, Err(ModelError::Uninvited { .. })), "{api:?}: {answer:?}");
    }
}

#[tokio::test]
async fn every_setting_is_sent_or_named_as_unsent() {
    let config = GenerateConfig {
        temperature: Some(0.5),
        top_p: Some(0.9),
        top_k: Some(5),
        max_tokens: Some(100),
        stop_seqs: Some(vec!["END".into()]),
        seed: Some(1),
        frequency_penalty: Some(0.1),
        presence_penalty: Some(0.2),
        parallel_tool_calls: Some(false),
        cache_prompt: Some(true),
        ..GenerateConfig::default()
    };
    for api in Api::ALL {
        let fake = Fake::start(api, [Next::Reply(crate::fake::said(api, "yes"))]);
        let (key, base) = api.variables();
        let address = fake.base(api);
        let environment = |name: &str| match name {
            _ if name == key => Some(KEY.to_owned()),
            _ if name == base => Some(address.clone()),
            _ => None,
        };
        let opened = model::open(&format!("{}/test", api.name()), &config, settings(), &environment).unwrap();
        ask(&*opened.model, &[ChatMessage::user("hello")], &config).await.unwrap();
        let sent = fake.requests()[0].clone();
        let expected = match api {
            Api::OpenAi => json!({
                "temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "stop": ["END"], "seed": 1,
                "frequency_penalty": 0.1, "presence_penalty": 0.2, "parallel_tool_calls": false,
            }),
            Api::Responses => json!({
                "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100, "parallel_tool_calls": false,
            }),
            Api::Anthropic => json!({
                "temperature": 0.5, "top_p": 0.9, "top_k": 5, "max_tokens": 100, "stop_sequences": ["END"],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            }),
            Api::Google => json!({"generationConfig": {
                "temperature": 0.5, "topP": 0.9, "topK": 5, "maxOutputTokens": 100, "stopSequences": ["END"], "seed": 1,
                "frequencyPenalty": 0.1, "presencePenalty": 0.2,
            }}),
        };
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&sent[key], value, "{api:?} {key}");
        }
        let unsent: &[&str] = match api {
            Api::OpenAi => &["top_k", "cache_prompt"],
            Api::Responses => &["top_k", "stop_seqs", "seed", "frequency_penalty", "presence_penalty", "cache_prompt"],
            Api::Anthropic => &["seed", "frequency_penalty", "presence_penalty"],
            Api::Google => &["parallel_tool_calls", "cache_prompt"],
        };
        assert_eq!(opened.unsent, unsent, "{api:?}");
        if api == Api::Anthropic {
            assert_eq!(sent["messages"][0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
        }
    }
}

#[tokio::test]
async fn images_are_sent_with_the_question() {
    let pixel = "data:image/png;base64,iVBORw0KGgo=";
    for api in Api::ALL {
        let fake = Fake::start(api, [Next::Reply(crate::fake::said(api, "a dot"))]);
        let config = GenerateConfig { max_retries: Some(0), ..GenerateConfig::default() };
        let model = open(api, &fake, &config, settings());
        let image = |url: &str| {
            let image = Part::Image { image: url.into(), detail: log::message::Detail::High };
            [ChatMessage::user(vec![Part::said("what is this?"), image])]
        };
        assert_eq!(ask(&*model, &image(pixel), &config).await.unwrap().output.completion, "a dot", "{api:?}");
        assert!(fake.requests()[0].to_string().contains("iVBORw0KGgo="));
        let elsewhere = ask(&*model, &image("https://example.com/a.png"), &config).await;
        assert!(matches!(elsewhere, Err(ModelError::Image { .. })), "{api:?}: {elsewhere:?}");
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test]
async fn answers_are_kept_where_that_is_wished_and_cost_once() {
    let place = tempfile::tempdir().unwrap();
    for api in Api::ALL {
        let fake = Fake::start(api, ["one", "two", "three"].map(|text| Next::Reply(crate::fake::said(api, text))));
        let config = GenerateConfig::default();
        let price = Price { input: 1.0, output: 1.0, ..Price::default() };
        let cache = Some(CacheSettings::at(place.path()));
        let model = open(api, &fake, &config, Settings { cache, price: Some(price), ..settings() });
        let (tools, tool_choice) = (tools(), ToolChoice::Auto);
        let ask = async |question: &str, scope: &str| {
            let messages = [ChatMessage::user(question)];
            let request = Request {
                messages: &messages,
                tools: &tools,
                provider_tools: &[],
                tool_choice: &tool_choice,
                config: &config,
                scope,
            };
            model.generate(request).await.unwrap()
        };
        let first = ask("a", "1").await;
        let again = ask("a", "1").await;
        assert_eq!((first.attempts, again.attempts), (1, 0), "{api:?}");
        assert_eq!((first.output.completion.as_str(), again.output.completion.as_str()), ("one", "one"));
        let cost = |answer: &Answer| answer.output.usage.unwrap().total_cost.unwrap();
        assert!((cost(&first) - 37e-6).abs() < 1e-12 && cost(&again) == 0.0, "{} {}", cost(&first), cost(&again));
        assert_ne!(reply(&first).id, reply(&again).id);
        // Another scope, another question: another answer.
        assert_eq!(ask("a", "2").await.output.completion, "two");
        assert_eq!(ask("b", "1").await.output.completion, "three");
        assert_eq!(fake.requests().len(), 3);
    }
    for entry in std::fs::read_dir(place.path()).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(KEY) && text.contains("\"version\":1"));
    }
}
