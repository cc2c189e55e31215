//! A log with everything that a log can have.

#![allow(
    dead_code,
    clippy::panic,
    clippy::unwrap_used,
    reason = "each test program uses a part; a test may stop at its own set-up"
)]

pub(crate) mod crash;

use log::event::{EvalError, Event, Score, What};
use log::message::{
    ChatMessage, Choice, ModelOutput, Reply, StopReason, ToolCall, ToolError, ToolErrorKind, ToolResult, Usage,
};
use log::{End, SampleEnd, Start, Status};
use serde_json::{Map, Value, json};

pub(crate) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is no object") };
    map
}

pub(crate) fn start(task: &str) -> Start {
    Start {
        spec: json!({
            "eval_id": "evalOne", "run_id": "runOne", "task_id": "taskOne", "created": "2026-10-04T12:30:00+00:00",
            "task": task, "task_version": 0, "dataset": {"name": "d", "samples": 2, "sample_ids": [1, "a/b"], "shuffled": false},
            "model": "mock/scripted", "config": {"epochs": 1}, "tags": ["T0.H1.N2"], "metadata": {"plan": "abc"},
            "sandbox": {"type": "ringfence", "config": "T0.H1.N2"},
        }),
        plan: json!({"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}}),
        task: task.into(),
        eval_id: "evalOne".into(),
        created: "2026-10-04T12:30:00+00:00".into(),
    }
}

pub(crate) fn end(status: Status) -> End {
    let is_success = status == Status::Success;
    End {
        status,
        results: is_success.then(|| {
            json!({
                "total_samples": 2, "completed_samples": 2,
                "scores": [{"name": "exact", "scorer": "exact", "reducer": "mean", "params": {},
                    "metrics": {"accuracy": {"name": "accuracy", "value": 0.5, "params": {}}}}],
            })
        }),
        stats: json!({
            "started_at": "2026-10-04T12:30:00+00:00", "completed_at": "2026-10-04T12:31:00+00:00",
            "model_usage": {"mock/scripted": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
        }),
        error: (status == Status::Error).then(|| EvalError::new("the provider is gone")),
        reductions: is_success
            .then(|| json!([{"scorer": "exact", "reducer": "mean", "samples": [{"sample_id": 1, "value": 0.5}]}])),
        metadata: object(json!({"audit": {"count": 3, "hash": "00ff"}})),
    }
}

pub(crate) fn event(number: usize, what: What) -> Event {
    Event {
        timestamp: "2026-10-04T12:30:01.250000+00:00".into(),
        working_start: 0.5,
        uuid: format!("event{number}"),
        span_id: Some("span1".into()),
        what,
    }
}

pub(crate) fn info(number: usize, data: Value) -> Event {
    event(number, What::Info { source: "ringfence".into(), data })
}

fn call() -> ToolCall {
    ToolCall {
        id: "call1".into(),
        function: "bash".into(),
        arguments: object(json!({"cmd": "ls /"})),
        parse_error: None,
        written: None,
    }
}

fn reply() -> ChatMessage {
    ChatMessage::Assistant(Reply {
        id: Some("m3".into()),
        content: "I look \u{1F600} \u{7}".into(),
        source: Some("generate".into()),
        tool_calls: Some(vec![call()]),
        model: Some("mock/scripted".into()),
    })
}

pub(crate) fn output() -> ModelOutput {
    ModelOutput {
        model: "mock/scripted".into(),
        choices: vec![Choice { message: reply(), stop_reason: StopReason::ToolCalls }],
        completion: "I look \u{1F600} \u{7}".into(),
        usage: Some(Usage { input_tokens: 1, output_tokens: 2, total_tokens: 3, ..Usage::default() }),
        time: Some(0.25),
        error: None,
    }
}

pub(crate) fn messages() -> Vec<ChatMessage> {
    vec![
        ChatMessage::system("be brief"),
        ChatMessage::user("what is there?"),
        reply(),
        ChatMessage::Tool(ToolResult {
            id: Some("m4".into()),
            content: "bin".into(),
            tool_call_id: "call1".into(),
            function: "bash".into(),
            error: Some(ToolError { kind: ToolErrorKind::Timeout, message: "15 s".into() }),
        }),
    ]
}

/// Every kind, and every optional field at least once.
pub(crate) fn every_event() -> Vec<Event> {
    let completed = || Some("2026-10-04T12:30:02+00:00".to_owned());
    let sandbox = |action: &str| What::Sandbox {
        action: action.into(),
        cmd: Some("ls /".into()),
        options: Some(object(json!({"user": "root", "timeout": 3}))),
        file: Some("/etc/hosts".into()),
        input: Some("in".into()),
        result: Some(-9),
        output: Some("out".into()),
        completed: completed(),
    };
    let approval = |decision: &str| What::Approval {
        message: "may I?".into(),
        call: call(),
        approver: "policy".into(),
        decision: decision.into(),
        modified: (decision == "modify").then(call),
        explanation: Some("because".into()),
        metadata: Some(object(json!({"milliseconds": 1.5}))),
    };
    let limit = |kind: &str| What::SampleLimit { kind: kind.into(), message: "enough".into(), limit: Some(3.0) };
    let tool_error = |kind| What::Tool {
        id: "call1".into(),
        kind: "function".into(),
        function: "bash".into(),
        arguments: object(json!({"cmd": "ls", "deep": {"a": [1, 2.5, null, true]}})),
        result: "bin".into(),
        truncated: Some((100, 10)),
        error: Some(ToolError { kind, message: "no".into() }),
        completed: completed(),
        working_time: Some(0.125),
    };
    let mut all = vec![
        What::SpanBegin {
            id: "span1".into(),
            kind: Some("init".into()),
            name: "init".into(),
            parent_id: Some("span0".into()),
        },
        What::SampleInit {
            sample: json!({"id": 1, "input": "what is there?", "target": "bin"}),
            state: json!({"messages": [], "store": {}}),
        },
        What::Model {
            role: Some("grader".into()),
            model: "mock/scripted".into(),
            input: messages().into(),
            tools: vec![json!({"name": "bash", "description": "runs", "parameters": {"type": "object", "properties":
                {"cmd": {"type": "string", "description": "what"}}, "required": ["cmd"], "additionalProperties": false}})].into(),
            tool_choice: json!("auto"),
            config: object(json!({"max_tokens": 100, "temperature": 0.5})),
            output: output(),
            retries: Some(2),
            cache: Some("read".into()),
            error: None,
            completed: completed(),
            working_time: Some(0.25),
        },
        What::State { changes: vec![json!({"op": "add", "path": "/messages/0", "value": {"role": "user"}})] },
        What::Store { changes: vec![json!({"op": "replace", "path": "/n", "value": 2, "replaced": 1})] },
        What::Info { source: "ringfence".into(), data: json!({"kind": "egress", "host": "example.org"}) },
        What::Score {
            score: Score {
                value: json!("C"),
                answer: Some("bin".into()),
                explanation: Some("equal".into()),
                reason: None,
                metadata: Some(object(json!({"k": 1}))),
            },
            target: Some(vec!["bin".into(), "sbin".into()]),
            intermediate: true,
        },
        What::Score {
            score: Score { value: json!(0.5), answer: None, explanation: None, reason: None, metadata: None },
            target: None,
            intermediate: false,
        },
        What::Error { error: EvalError::new("it broke") },
        What::SpanEnd { id: "span1".into() },
    ];
    all.extend(["exec", "read_file", "write_file"].map(sandbox));
    all.extend(["approve", "modify", "reject", "terminate", "escalate"].map(approval));
    all.extend(["message", "time", "working", "token", "operator", "custom"].map(limit));
    let kinds = [
        ToolErrorKind::Parsing,
        ToolErrorKind::Timeout,
        ToolErrorKind::UnicodeDecode,
        ToolErrorKind::Permission,
        ToolErrorKind::FileNotFound,
        ToolErrorKind::IsADirectory,
        ToolErrorKind::Limit,
        ToolErrorKind::Approval,
        ToolErrorKind::Cancelled,
        ToolErrorKind::SandboxUnavailable,
        ToolErrorKind::Unknown,
    ];
    all.extend(kinds.map(tool_error));
    all.into_iter().enumerate().map(|(number, what)| event(number, what)).collect()
}

pub(crate) fn sample_end() -> SampleEnd {
    SampleEnd {
        fields: object(json!({
            "input": "what is there?", "target": ["bin", "sbin"], "choices": ["bin", "home"], "files": ["/a"],
            "setup": "true", "messages": messages(), "output": output(), "metadata": {"level": 1},
            "scores": {"exact": {"value": "C", "answer": "bin", "explanation": "equal"}}, "store": {"n": 2},
            "model_usage": {"mock/scripted": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
            "started_at": "2026-10-04T12:30:00+00:00", "completed_at": "2026-10-04T12:30:09+00:00",
            "total_time": 9.5, "working_time": 8.25, "uuid": "sampleOne", "error": null,
        })),
    }
}
