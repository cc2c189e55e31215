//! Tools of providers themselves: switched on where they are granted, recorded, and handed back.

use log::message::{ToolUse, ToolUseKind};
use model::ProviderTool;

use super::*;
use crate::fake::{self, Own};

const APIS: [Api; 3] = [Api::Responses, Api::Anthropic, Api::Google];
const NEEDLE: &str = "forty-two";

fn tool(own: Own) -> ProviderTool {
    match own {
        Own::Search => ProviderTool::WebSearch,
        Own::Code => ProviderTool::CodeExecution,
    }
}

/// Whether our own functions are offered too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Functions {
    Offered,
    None,
}

async fn ask_with(
    model: &dyn Model,
    messages: &[ChatMessage],
    provider_tools: &[ProviderTool],
    functions: Functions,
) -> Result<Answer, ModelError> {
    let tools = if functions == Functions::Offered { tools() } else { Vec::new() };
    let (config, tool_choice) = (GenerateConfig::default(), ToolChoice::Auto);
    let config = &config;
    model
        .generate(Request { messages, tools: &tools, provider_tools, tool_choice: &tool_choice, config, scope: "" })
        .await
}

fn uses(answer: &Answer) -> Vec<&ToolUse> {
    let Content::Parts(parts) = &reply(answer).content else { return Vec::new() };
    let uses = parts.iter().filter_map(|part| match part {
        Part::ToolUse(used) => Some(used),
        _ => None,
    });
    uses.collect()
}

#[tokio::test]
async fn granted_tools_of_the_provider_are_switched_on_and_what_they_did_is_kept() {
    for (api, own) in APIS.into_iter().flat_map(|api| Own::ALL.map(|own| (api, own))) {
        let fake = Fake::granting(api, [Next::Reply(fake::used(api, own, NEEDLE, &[]))]);
        let model = open(api, &fake, &GenerateConfig::default(), settings());
        assert!(model.provider_tools().contains(&tool(own)));
        let answer =
            ask_with(&*model, &[ChatMessage::user("what is it?")], &[tool(own)], Functions::None).await.unwrap();
        let cited = (api, own) == (Api::Anthropic, Own::Search);
        assert_eq!(answer.output.completion, if cited { "I have found it" } else { "found it" }, "{api:?} {own:?}");
        let uses = uses(&answer);
        assert_eq!(uses.len(), 1, "{api:?} {own:?}: {uses:?}");
        let kind = if own == Own::Search { ToolUseKind::WebSearch } else { ToolUseKind::CodeExecution };
        assert_eq!((uses[0].tool_type, &uses[0].error), (kind, &None), "{api:?} {own:?}");
        assert!(uses[0].arguments.contains(if own == Own::Search { "what is it?" } else { "6 * 7" }), "{:?}", uses[0]);
        assert!(uses[0].result.contains(NEEDLE), "{api:?} {own:?}: {:?}", uses[0]);
        assert_eq!(fake.requests()[0]["tools"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_tools_of_the_provider_did_goes_back_beside_our_own_calls() {
    for (api, own) in APIS.into_iter().flat_map(|api| Own::ALL.map(|own| (api, own))) {
        let call = [("call_1", "add", json!({"a": 1}))];
        let script = [Next::Reply(fake::used(api, own, NEEDLE, &call)), Next::Reply(fake::said(api, "done"))];
        let fake = Fake::granting(api, script);
        let model = open(api, &fake, &GenerateConfig::default(), settings());
        let mut messages = vec![ChatMessage::user("what is it?")];
        let answer = ask_with(&*model, &messages, &ProviderTool::ALL, Functions::Offered).await.unwrap();
        assert_eq!(uses(&answer).len(), 1, "{api:?} {own:?}");
        // What is kept survives the way through a log.
        let written = serde_json::to_value(&answer.output.choices[0].message).unwrap();
        messages.push(serde_json::from_value(written).unwrap());
        messages.push(ChatMessage::Tool(ToolResult {
            id: None,
            content: "2".into(),
            tool_call_id: reply(&answer).tool_calls.as_ref().unwrap()[0].id.clone(),
            function: "add".into(),
            error: None,
        }));
        let answer = ask_with(&*model, &messages, &ProviderTool::ALL, Functions::Offered).await.unwrap();
        assert_eq!(answer.output.completion, "done");
        let second = fake.requests()[1].to_string();
        assert!(second.contains(NEEDLE), "{api:?} {own:?}: {second}");
        assert!(!second.contains("caller"), "only what the API takes goes back: {second}");
    }
}

#[tokio::test]
async fn what_another_provider_did_is_not_sent() {
    let searched = |api| fake::used(api, Own::Search, NEEDLE, &[("call_1", "add", json!({"a": 1}))]);
    for from in APIS {
        let fake = Fake::granting(from, [Next::Reply(searched(from))]);
        let model = open(from, &fake, &GenerateConfig::default(), settings());
        let mut messages = vec![ChatMessage::user("what is it?")];
        let answer = ask_with(&*model, &messages, &ProviderTool::ALL, Functions::Offered).await.unwrap();
        messages.push(answer.output.choices[0].message.clone());
        messages.push(ChatMessage::Tool(ToolResult {
            id: None,
            content: "2".into(),
            tool_call_id: reply(&answer).tool_calls.as_ref().unwrap()[0].id.clone(),
            function: "add".into(),
            error: None,
        }));
        for to in Api::ALL.into_iter().filter(|to| *to != from) {
            let fake = Fake::start(to, [Next::Reply(fake::said(to, "done"))]);
            let model = open(to, &fake, &GenerateConfig::default(), settings());
            ask_with(&*model, &messages, &[], Functions::Offered).await.unwrap();
            assert!(!fake.requests()[0].to_string().contains(NEEDLE), "{from:?} {to:?}");
        }
    }
}

#[tokio::test]
async fn a_tool_of_the_provider_that_was_not_granted_is_an_error() {
    for (api, own) in APIS.into_iter().flat_map(|api| Own::ALL.map(|own| (api, own))) {
        let other: Vec<ProviderTool> = ProviderTool::ALL.into_iter().filter(|one| *one != tool(own)).collect();
        for granted in [&[][..], &other] {
            for calls in [&[][..], &[("call_1", "add", json!({"a": 1}))]] {
                let fake = Fake::granting(api, [Next::Reply(fake::used(api, own, NEEDLE, calls))]);
                let model = open(api, &fake, &GenerateConfig::default(), settings());
                let answer = ask_with(&*model, &[ChatMessage::user("q")], granted, Functions::Offered).await;
                assert!(matches!(answer, Err(ModelError::Uninvited { .. })), "{api:?} {own:?}: {answer:?}");
                assert_eq!(fake.requests().len(), 1, "it is not tried again");
            }
        }
    }
}

#[tokio::test]
async fn tools_that_nobody_can_grant_stay_an_error() {
    let odd = |api: Api| {
        let mut reply = fake::said(api, "found it");
        match api {
            Api::Responses => reply["output"][0] = json!({"type": "computer_call", "id": "c"}),
            Api::Anthropic => {
                reply["content"][0] = json!({"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {}});
            }
            Api::Google => {
                let part = &mut reply["candidates"][0]["content"]["parts"][0];
                *part = json!({"toolCall": {"id": "t", "toolType": "URL_CONTEXT", "args": {}}});
            }
            Api::OpenAi => return fake::uninvited(api),
        }
        reply
    };
    for api in APIS {
        let fake = Fake::granting(api, [Next::Odd(odd(api))]);
        let model = open(api, &fake, &GenerateConfig::default(), settings());
        let answer = ask_with(&*model, &[ChatMessage::user("q")], &ProviderTool::ALL, Functions::None).await;
        assert!(matches!(answer, Err(ModelError::Uninvited { .. })), "{api:?}: {answer:?}");
    }
}

#[tokio::test]
async fn chat_completions_has_no_tools_of_its_own_and_is_not_even_asked() {
    let fake = Fake::start(Api::OpenAi, []);
    let model = open(Api::OpenAi, &fake, &GenerateConfig::default(), settings());
    assert_eq!(model.provider_tools(), &[]);
    let error =
        ask_with(&*model, &[ChatMessage::user("q")], &[ProviderTool::WebSearch], Functions::None).await.unwrap_err();
    assert!(error.to_string().contains("openai/test has no web search"), "{error}");
    assert!(error.hint().contains("anthropic/…") && !error.hint().contains("openai/…"), "{}", error.hint());
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn an_answer_that_pauses_goes_on() {
    let api = Api::Anthropic;
    let mut first = fake::used(api, Own::Search, NEEDLE, &[]);
    first["content"].as_array_mut().unwrap().truncate(1);
    first["stop_reason"] = "pause_turn".into();
    let mut second = fake::used(api, Own::Search, NEEDLE, &[]);
    second["content"].as_array_mut().unwrap().remove(0);
    // The use is told in the first part, its result in the second.
    let fake = Fake::granting(api, [Next::Reply(first.clone()), Next::Reply(second)]);
    let model = open(api, &fake, &GenerateConfig::default(), settings());
    let answer =
        ask_with(&*model, &[ChatMessage::user("q")], &[ProviderTool::WebSearch], Functions::None).await.unwrap();
    assert_eq!(answer.output.completion, "I have found it");
    assert!(uses(&answer)[0].result.contains(NEEDLE), "{:?}", uses(&answer));
    assert_eq!(answer.output.usage.unwrap().output_tokens, 14);
    let requests = fake.requests();
    assert_eq!(requests[1]["messages"][1]["content"][0]["type"], "server_tool_use");
    // One that never comes to an end is left after a while.
    let fake = Fake::granting(api, std::iter::repeat_n(Next::Reply(first), 20));
    let model = open(api, &fake, &GenerateConfig::default(), settings());
    let _ = ask_with(&*model, &[ChatMessage::user("q")], &[ProviderTool::WebSearch], Functions::None).await;
    assert!(fake.complaints().len() + 1 < 20);
}
