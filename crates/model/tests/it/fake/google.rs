//! `generateContent`: <https://ai.google.dev/api/generate-content>.

use serde_json::{Value, json};

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
    let (mut own, mut functions) = (false, false);
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        // https://ai.google.dev/gemini-api/docs/google-search and /code-execution.
        if *tool == json!({"googleSearch": {}}) || *tool == json!({"codeExecution": {}}) {
            check.expect(asked.granting, &format!("a tool of the provider: {tool}"));
            own = true;
            continue;
        }
        functions = true;
        check.object(tool, "a tool", &[("!functionDeclarations", Is::List)]);
        for function in tool["functionDeclarations"].as_array().into_iter().flatten() {
            let fields = [("!name", Is::Text), ("!description", Is::Text), ("parametersJsonSchema", Is::Object)];
            check.object(function, "a function", &fields);
            check.function_name(&function["name"]);
            check.schema(&function["parametersJsonSchema"]);
        }
    }
    if let Some(config) = body.get("toolConfig") {
        let fields = [("!functionCallingConfig", Is::Object), ("includeServerSideToolInvocations", Is::Truth)];
        check.object(config, "toolConfig", &fields);
        // https://ai.google.dev/gemini-api/docs/generate-content/tool-combination.
        check.expect(config["includeServerSideToolInvocations"].is_null() != (own && functions), "both kinds of tools");
    }
    contents(&mut check, own && functions, body["contents"].as_array().map_or(&[], Vec::as_slice));
    check.0
}

fn contents(check: &mut Check, ids: bool, contents: &[Value]) {
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
                ("executableCode", Is::Object),
                ("codeExecutionResult", Is::Object),
                ("toolCall", Is::Object),
                ("toolResponse", Is::Object),
                ("thoughtSignature", Is::Text),
            ];
            check.object(part, "a part", &fields);
            let things =
                part.as_object().map_or(0, |part| part.keys().filter(|key| *key != "thoughtSignature").count());
            check.expect(things == 1, "a part is one thing");
            let own = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"];
            check.expect(role == "model" || own.iter().all(|kind| part[*kind].is_null()), "a use of the user");
            if part["functionCall"].is_object() {
                let fields = [("!name", Is::Text), ("!args", Is::Object), ("id", Is::Text)];
                check.object(&part["functionCall"], "a call", &fields);
                check.expect(ids != part["functionCall"]["id"].is_null(), "calls beside uses have ids");
                check.expect(role == "model", "a call of the user");
                open.push(part["functionCall"]["name"].to_string());
            }
            if part["functionResponse"].is_object() {
                let response = &part["functionResponse"];
                let fields = [("!name", Is::Text), ("!response", Is::Object), ("id", Is::Text)];
                check.object(response, "a result", &fields);
                check.expect(ids != response["id"].is_null(), "results beside uses have ids");
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
