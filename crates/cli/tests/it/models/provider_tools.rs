//! Tools of model providers in whole evaluations: granted and recorded, or refused before anybody is asked.

use super::*;
use crate::common::evaluation::events;
use crate::common::ringfence;
use crate::fake::{self, Own};

const APIS: [Api; 3] = [Api::Responses, Api::Anthropic, Api::Google];

fn task(profile: &str, more: &str, tools: &str) -> String {
    format!(
        "name: searching\nprofile: {profile}\napproval: ci\njustification: agreed by the operator\n{more}\
         tools: [submit, {tools}]\ngenerate: {{max_retries: 0}}\n\
         dataset: [{{id: one, input: What is it?, target: '42'}}]\nsolver: {{kind: agent}}\nscorer: includes\n"
    )
}

fn tool(own: Own) -> &'static str {
    match own {
        Own::Search => "provider_web_search",
        Own::Code => "provider_code_execution",
    }
}

fn infos<'a>(log: &'a Value, kind: &str) -> Vec<&'a Value> {
    events(log, "info").into_iter().map(|event| &event["data"]).filter(|data| data["kind"] == kind).collect()
}

#[test]
fn granted_tools_of_the_provider_work_and_the_log_says_so() {
    for (api, own) in APIS.into_iter().flat_map(|api| Own::ALL.map(|own| (api, own))) {
        let place = tempfile::tempdir().unwrap();
        let (name, text) = (tool(own), task("T0.H1.N0", "", &format!("{{name: {}}}", tool(own))));
        // A provider that repeats a key does not get it into a log.
        let submit = [("call_2", "submit", json!({"answer": "42"}))];
        let think = [("call_1", "submit_", json!({}))];
        let script = [
            Next::Reply(fake::used(api, own, "first-needle", &think)),
            Next::Reply(fake::used(api, own, &format!("second-needle {KEY}"), &submit)),
        ];
        let fake = Fake::granting(api, script);
        let (code, result, messages) = run(place.path(), api, &fake, &text, &["--allow-full-network"]);
        assert_eq!(code, 0, "{api:?} {own:?}: {messages} {result} {:?}", fake.complaints());
        let requests = fake.requests();
        assert!(requests[1].to_string().contains("first-needle"), "what was found goes back: {}", requests[1]);
        assert_without_key(&place.path().join("logs"));
        keep(&place.path().join("logs"));
        let log = dump(place.path(), result["log"].as_str().unwrap());
        let used = infos(&log, "provider_tool");
        assert_eq!(used.len(), 2, "{api:?} {own:?}: {used:?}");
        for (index, used) in used.iter().enumerate() {
            assert_eq!((&used["tool"], &used["runs"]), (&json!(name), &json!("provider")));
            assert_eq!((&used["number"], &used["kept_answer"]), (&json!(index + 1), &json!(false)));
            assert!(used["result"].as_str().unwrap().contains(["first-needle", "second-needle"][index]), "{used}");
        }
        assert_eq!(infos(&log, "provider_tool_totals")[0]["calls"], json!({name: 2}));
        let offered = &model_events(&log)[0]["tools"];
        assert!(offered.as_array().unwrap().iter().any(|one| one["name"] == name), "{offered}");
        // The header says what was granted and what that means, and the audit chain that it was used.
        let own_part = &log["eval"]["metadata"]["ringfence"];
        let affordances = own_part["affordances"].as_array().unwrap();
        let granted = affordances.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!((&granted["runs"], &granted["reach"]), (&json!("provider"), &json!("provider")));
        assert!(own_part["residual"].to_string().contains("neither enforced nor seen by us"), "{own_part}");
        let logs = std::fs::read_dir(place.path().join("logs")).unwrap().map(|entry| entry.unwrap().path());
        let chain = logs.into_iter().find(|path| path.to_string_lossy().ends_with(".audit.jsonl")).unwrap();
        let chain = std::fs::read_to_string(chain).unwrap();
        assert_eq!(chain.matches("\"kind\":\"provider_tool\"").count(), 4, "two records, each with its data: {chain}");
        assert!(!chain.contains("needle"), "{chain}");
    }
}

#[test]
fn a_single_question_may_have_them_too() {
    let place = tempfile::tempdir().unwrap();
    let text = task("T1.H1.N0", "", "provider_web_search").replace("{kind: agent}", "generate");
    let fake = Fake::granting(Api::Google, [Next::Reply(fake::used(Api::Google, Own::Search, "42", &[]))]);
    let (code, result, messages) = run(place.path(), Api::Google, &fake, &text, &["--allow-full-network"]);
    assert_eq!(code, 0, "{messages} {:?}", fake.complaints());
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(infos(&log, "provider_tool").len(), 1);
}

#[test]
fn a_tool_of_the_provider_that_the_task_does_not_name_fails_the_sample() {
    for (api, own) in APIS.into_iter().flat_map(|api| Own::ALL.map(|own| (api, own))) {
        let place = tempfile::tempdir().unwrap();
        // The other one is granted: one is not all.
        let other = if own == Own::Search { Own::Code } else { Own::Search };
        let fake = Fake::granting(api, [Next::Reply(fake::used(api, own, "needle", &[]))]);
        let (code, result, messages) =
            run(place.path(), api, &fake, &task("T0.H1.N0", "", tool(other)), &["--allow-full-network"]);
        assert_eq!(code, 1, "{api:?} {own:?}: {messages}");
        assert!(result["error"].as_str().unwrap().contains("a tool of its own that nobody granted"), "{result}");
        assert_eq!(fake.requests().len(), 1);
    }
}

#[test]
fn tools_of_the_provider_are_refused_before_anybody_is_asked() {
    let at = |profile: &str, tools: &str| task(profile, "", tools);
    let (search, code) = ("provider_web_search", "provider_code_execution");
    let listed = task("T1.H1.N1", "network: {allow_domains: ['*.example.org']}\n", search);
    let costly = task("T1.H1.N0", "limits: {cost: 1}\n", search);
    let dev = at("T1.H1.N0", search).replace("approval: ci", "approval: dev");
    let prod = at("T0.H1.N0", code).replace("approval: ci", "approval: prod");
    let person = at("T1.H1.N0", search).replace("approval: ci", "approval: policy.yaml");
    let (google, openai) = ("google/test", "openai/test");
    for (text, model, told) in [
        (listed, google, "no rule of ours holds at the provider"),
        (at("T0.H1.N2", search), google, "N2 grants no network"),
        (at("T1.H1.N0", code), google, "it needs T0"),
        (at("T2.H1.N0", search), google, "it needs T1"),
        (at("T1.H1.N0", search), openai, "remove it, or use openai-responses/…, anthropic/…, google/…"),
        (at("T1.H1.N0", search), "mock/echo", "the provider of mock/echo has no such tool"),
        (dev, google, "a person would have to be asked"),
        (prod, google, "a sensitive tool ends the sample"),
        (person, google, "approval.provider_web_search"),
        (costly, google, "nobody knows what `provider_web_search` costs"),
    ] {
        let place = tempfile::tempdir().unwrap();
        write(
            place.path(),
            "policy.yaml",
            "approvers: [{name: human, tools: 'provider_*'}, {name: auto, tools: '*'}]\n",
        );
        let prices = "version: 1\nmodels: {google/test: {input: 1, output: 1}}\n";
        let prices = write(place.path(), "prices.yaml", prices);
        let path = write(place.path(), "task.yaml", &text);
        let fake = Fake::granting(Api::Google, []);
        let mut command = eval(place.path(), &[&path, "--model", model, "--allow-full-network"]);
        with(&mut command, Api::Google, &fake);
        let output = command.env("OPENAI_API_KEY", KEY).env("RINGFENCE_PRICES", &prices).output().unwrap();
        let messages = said(&output);
        assert_eq!(output.status.code(), Some(3), "{text}: {messages}");
        assert!(messages.contains(told), "{told}: {messages}");
        assert!(fake.requests().is_empty() && !place.path().join("logs").exists(), "{text}");
    }
}

#[test]
fn a_plan_shows_tools_of_the_provider_for_what_they_are() {
    let place = tempfile::tempdir().unwrap();
    let document = |tools: &str| {
        let text = format!("profile: T1.H1.N0\napproval: ci\njustification: agreed\ntools: [submit{tools}]\n");
        write(place.path(), "ringfence.yaml", &text)
    };
    let (code, shown, messages) = ringfence(place.path(), &["plan", &document(", provider_web_search")]);
    assert_eq!(code, 0, "{messages}");
    for part in
        ["provider_web_search", "runs: provider", "the model provider's own network", "neither enforced nor seen"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (_, without, _) = ringfence(place.path(), &["plan", &document("")]);
    assert!(!without.contains("provider_web_search"));
}
