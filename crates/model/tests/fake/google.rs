//! `generateContent`: <https://ai.google.dev/api/generate-content>.

use serde_json::Value;

use super::check::{Check, Is};
use super::{Asked, KEY};

pub(super) fn check(asked: &Asked) -> Vec<String> {
    let mut check = Check::default();
    check.head(asked, "/v1beta/models/test:generateContent", ("x-goog-api-key", KEY));
    let fields = [
        ("!contents", Is::List),
        ("systemInstruction", Is::Object),
        ("generationConfig", Is::Object),
        ("tools", Is::List),
        ("toolConfig", Is::Object),
    ];
    let Some(body) = check.object(&asked.body, "the request", &fields) else { return check.0 };
    if let Some(config) = body.get("generationConfig") {
        let fields = [
            ("temperature", Is::Number),
            ("topP", Is::Number),
            ("topK", Is::Whole),
            ("maxOutputTokens", Is::Whole),
            ("stopSequences", Is::List),
            ("seed", Is::Whole),
            ("frequencyPenalty", Is::Number),
            ("presencePenalty", Is::Number),
            ("thinkingConfig", Is::Object),
        ];
        check.object(config, "generationConfig", &fields);
        if config["thinkingConfig"].is_object() {
            let fields = [("includeThoughts", Is::Truth), ("thinkingBudget", Is::Whole), ("thinkingLevel", Is::Text)];
            check.object(&config["thinkingConfig"], "thinkingConfig", &fields);
        }
    }
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        // Everything else would be a tool of the provider.
        check.object(tool, "a tool", &[("!functionDeclarations", Is::List)]);
        for function in tool["functionDeclarations"].as_array().into_iter().flatten() {
            let fields = [("!name", Is::Text), ("!description", Is::Text), ("parametersJsonSchema", Is::Object)];
            check.object(function, "a function", &fields);
            check.function_name(&function["name"]);
            check.schema(&function["parametersJsonSchema"]);
        }
    }
    contents(&mut check, body["contents"].as_array().map_or(&[], Vec::as_slice));
    check.0
}

fn contents(check: &mut Check, contents: &[Value]) {
    let mut open: Vec<String> = Vec::new();
    let mut last = "";
    for content in contents {
        check.object(content, "a turn", &[("!role", Is::Text), ("!parts", Is::List)]);
        let role = content["role"].as_str().unwrap_or_default();
        check.expect(role != last && ["user", "model"].contains(&role), "roles do not alternate");
        last = role;
        for part in content["parts"].as_array().into_iter().flatten() {
            let fields = [
                ("text", Is::Text),
                ("inlineData", Is::Object),
                ("functionCall", Is::Object),
                ("functionResponse", Is::Object),
                ("thoughtSignature", Is::Text),
            ];
            check.object(part, "a part", &fields);
            let kinds = ["text", "inlineData", "functionCall", "functionResponse"];
            check.expect(kinds.iter().filter(|kind| !part[**kind].is_null()).count() == 1, "a part is one thing");
            if part["functionCall"].is_object() {
                check.object(&part["functionCall"], "a call", &[("!name", Is::Text), ("!args", Is::Object)]);
                check.expect(role == "model", "a call of the user");
                open.push(part["functionCall"]["name"].to_string());
            }
            if part["functionResponse"].is_object() {
                let response = &part["functionResponse"];
                check.object(response, "a result", &[("!name", Is::Text), ("!response", Is::Object)]);
                let answered = response["name"].to_string();
                let at = open.iter().position(|name| *name == answered);
                check.expect(at.is_some() && role == "user", "a result without a call");
                at.map(|at| open.remove(at));
            }
        }
        check.expect(role == "model" || open.is_empty(), "calls without results");
    }
    check.expect(open.is_empty(), "calls without results");
}
