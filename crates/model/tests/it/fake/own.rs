//! Replies in which a tool of the provider was used, in each API's way.

use serde_json::{Value, json};

use super::replies::Call;
use super::{Api, called, said, uninvited};

/// A tool of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Search,
    Code,
}

impl Own {
    pub(crate) const ALL: [Self; 2] = [Self::Search, Self::Code];
}

/// A use, and then words or calls. Results hold `needle`.
pub(crate) fn used(api: Api, own: Own, needle: &str, calls: &[Call<'_>]) -> Value {
    let mut reply = if calls.is_empty() { said(api, "found it") } else { called(api, calls) };
    let mut before = match api {
        Api::OpenAi => return uninvited(api),
        Api::Responses => responses(own, needle),
        Api::Anthropic => anthropic(own, needle),
        Api::Google => google(own, needle, !calls.is_empty()),
    };
    if api == Api::Google && before.is_empty() {
        reply["candidates"][0]["groundingMetadata"] = json!({
            "webSearchQueries": ["what is it?"],
            "groundingChunks": [{"web": {"uri": "https://example.com/a", "title": needle}}],
        });
    }
    let list = match api {
        Api::OpenAi | Api::Responses => &mut reply["output"],
        Api::Anthropic => &mut reply["content"],
        Api::Google => &mut reply["candidates"][0]["content"]["parts"],
    };
    if let Value::Array(then) = list.take() {
        before.extend(then);
    }
    *list = before.into();
    if let (Api::Responses, Own::Search, true) = (api, own, calls.is_empty()) {
        reply["output"][1]["content"][0]["annotations"] = json!([{
            "type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "https://example.com/a",
        }]);
    }
    reply
}

fn responses(own: Own, needle: &str) -> Vec<Value> {
    vec![match own {
        Own::Search => json!({
            "type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": {
                "type": "search", "query": "what is it?", "queries": ["what is it?"],
                "sources": [{"type": "url", "url": format!("https://example.com/{needle}")}],
            },
        }),
        Own::Code => json!({
            "type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "cntr_1",
            "code": "print(6 * 7)", "outputs": [{"type": "logs", "logs": needle}],
        }),
    }]
}

fn anthropic(own: Own, needle: &str) -> Vec<Value> {
    let direct = json!({"type": "direct"});
    match own {
        Own::Search => vec![
            json!({
                "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "what is it?"},
                "caller": direct,
            }),
            json!({
                "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "caller": direct,
                "content": [{
                    "type": "web_search_result", "url": "https://example.com/a", "title": needle,
                    "encrypted_content": "sealed", "page_age": null,
                }],
            }),
            // Words are cut where a source is cited.
            json!({"type": "text", "text": "I ", "citations": null}),
            json!({
                "type": "text", "text": "have ",
                "citations": [{
                    "type": "web_search_result_location", "url": "https://example.com/a", "title": "t",
                    "encrypted_index": "sealed", "cited_text": "it",
                }],
            }),
        ],
        Own::Code => vec![
            json!({
                "type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution",
                "input": {"command": "echo $((6 * 7))"}, "caller": direct,
            }),
            json!({
                "type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "bash_code_execution_result", "stdout": needle, "stderr": "", "return_code": 0,
                    "content": [],
                },
            }),
        ],
    }
}

/// Searches stand among the parts only beside functions.
fn google(own: Own, needle: &str, functions: bool) -> Vec<Value> {
    match own {
        Own::Search if !functions => Vec::new(),
        Own::Search => vec![
            json!({
                "toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["what is it?"]}},
                "thoughtSignature": "c2lnbmVk",
            }),
            json!({"toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"found": needle}}}),
        ],
        Own::Code => vec![
            json!({"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}}),
            json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": needle}}),
        ],
    }
}
