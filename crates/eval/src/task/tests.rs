//! Tasks, good and bad: every mistake has a place and a way out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The files that the tests' tasks include.
fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut many_bad = String::new();
    for _ in 0..100 {
        many_bad.push_str("{\"target\": 1}\n");
    }
    [
        ("good.jsonl", "{\"question\": \"a?\", \"answer\": 1, \"level\": 3, \"id\": \"x\"}\n\n{\"question\": \"b?\", \"answer\": [\"2\", \"zwei\"], \"level\": null}\n"),
        ("good.csv", "\u{feff}input,target,choices,files\r\n\"one, two\",A,\"a,b\",\"{\"\"/srv/x\"\": \"\"words\"\"}\"\r\nthree,B,\"[\"\"c\"\",\"\"d, e\"\"]\",\r\n"),
        ("good.json", "[{\"input\": \"a\", \"target\": 2.5}, {\"input\": [{\"role\": \"user\", \"content\": \"b\"}], \"target\": \"x\"}]"),
        ("bad.jsonl", "{\"input\": \"a\", \"id\": 1}\nnot json\n{\"input\": \"b\", \"id\": \"1\"}\n[1]\n{\"target\": \"x\"}\n{\"input\": \"c\", \"sandbox\": \"docker\"}\n{\"input\": \"a\", \"input\": \"b\"}\n{\"input\": \"n\", \"id\": 18446744073709551615}\n"),
        ("bad.json", "[{\"input\": \"a\"}, {\"input\": 7}, {\"input\": \"c\"},]"),
        ("map.json", "{\"input\": \"a\"}"),
        ("bad.csv", "input,target\na,b,c\n,x\nd,e\n"),
        ("twice.csv", "input,input\na,b\n"),
        ("sparse.csv", "input,target,note\na,b,\n"),
        ("cells.csv", "input,metadata\na,{oops\n"),
        ("many.jsonl", many_bad.as_str()),
        ("empty.jsonl", ""),
        ("base.yaml", "profile: t0.h1.n1\nnetwork: {allow_domains: [example.org]}\napproval: ci\nlimits: {time: 5m}\n"),
        ("wrong.yaml", "profile: T0.H1.N1\nimage: 7\nsurprise: 1\n"),
        ("setup.sh", "echo {{not_ours}}\n"),
        ("data.bin", "\u{1}\u{2}"),
    ]
    .into_iter()
    .map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()))
    .collect()
}

fn parse_with(text: &str, parameters: &[(&str, &str)]) -> Result<Task, profile::Problems> {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Task::parse("task.yaml", text, &parameters, &files())
}

/// A task of a profile and these lines.
fn task(lines: &str) -> Task {
    let text = format!("profile: T0.H1.N2\n{lines}");
    parse_with(&text, &[]).unwrap_or_else(|problems| panic!("{text}: {problems:#?}"))
}

fn said(result: Result<Task, profile::Problems>) -> String {
    match result {
        Ok(_) => "    was accepted\n".to_owned(),
        Err(problems) => said_of(&problems),
    }
}

fn said_of(problems: &profile::Problems) -> String {
    let lines = problems.problems.iter().map(|problem| {
        let place = problem.place.map_or("-".to_owned(), |place| place.to_string());
        let hint = problem.hint.as_ref().map(|hint| format!("\n        hint: {hint}")).unwrap_or_default();
        format!("    {place} {}{hint}\n", problem.message)
    });
    lines.collect()
}

/// Each text with everything we say about it.
fn complaints(texts: &[&str]) -> String {
    let shown = texts.iter().map(|text| format!("{text}\n{}", said(parse_with(text, &[]))));
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_task_is_read() {
    let task = task(
        "name: first\napproval: ci\nimage: host\nmodel: mock/scripted\ntags: [a, b]\nmetadata: {owner: us, n: [1, 2.5]}\n\
         limits: {time: 5m, working_time: 90, messages: 20, tokens: 1000}\nepochs: {count: 3, reducer: [mode, max]}\n\
         solver:\n  - {kind: system_message, template: Be brief.}\n  - {kind: agent, tools: [bash, submit], max_steps: 5, attempts: 2}\n\
         scorer: [exact, {kind: match, location: begin}, {kind: pattern, pattern: 'A: (\\w+)', ignore_case: false}, {kind: script, script: 'true', timeout: 5}]\n\
         mock: [plain, {text: calls, tool_calls: [{name: bash, arguments: {command: ls}}, {name: bash, arguments: '{oops'}, {name: submit}]}]\n\
         dataset:\n  - {id: one, input: Hm?, target: x, files: {/srv/a: words, /srv/b: {file: data.bin}}, setup: {file: setup.sh}, metadata: {k: v}}\n  \
         - {input: [{role: system, content: s}, {role: assistant, content: a}], target: [1, why], mock: [{text: own}]}\n",
    );
    insta::assert_debug_snapshot!((
        (&task.name, &task.dataset, &task.solvers, &task.scorers),
        (&task.epochs, &task.limits, &task.model, &task.mock, &task.tags, &task.metadata),
    ));
    assert_eq!(task.document.profile.value.to_string(), "T0.H1.N2");
    assert_eq!(task.document.limits.time.amount, profile::Millis(300_000));
    assert_eq!(task.document.image.unwrap().value, "host");
}

#[test]
fn what_is_absent_has_a_default() {
    let task = task("dataset: [{input: a}, {input: b}]\nsolver: agent\n");
    assert_eq!(task.name, "task");
    assert_eq!(task.dataset.name, "task");
    assert_eq!(task.scorers, []);
    assert_eq!(task.epochs, Epochs { count: 1, reducers: vec![Reducer::Mean] });
    let agent = Agent { tools: None, max_steps: 30, attempts: 1, continue_message: None, instructions: None };
    assert_eq!(task.solvers, [Solver::Agent(agent)]);
    let ids: Vec<SampleId> = task.dataset.samples.into_iter().map(|sample| sample.id).collect();
    assert_eq!(ids, [SampleId::Number(1), SampleId::Number(2)]);
    assert_eq!(self::task("dataset: [{input: a}]\n").solvers, [Solver::Generate]);
}

#[test]
fn structure() {
    insta::assert_snapshot!(complaints(&[
        "",
        "[]",
        "name: x",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsovler: generate\nsurprise: 1",
        "profile: T0.H1.N9\nname: ''\nimage: 7\ndataset: 7\nmodel: 3\ntags: x\nmetadata: []",
        "profile: T0.H1.N2\ndataset: []\nsolver: []\nepochs: 0",
        "profile: T0.H1.N2\ndataset:\nsolver:",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nlimits: {mesages: 1, messages: 0, tokens: x, working_time: never, memory: lots, nonsense: 1}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nlimits: 7",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nepochs: {reducer: middle}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nepochs: {count: 2.5, reducer: [], extra: 1}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nmetadata: {x: .nan}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nname: \"a\\nb\"",
    ]));
}

#[test]
fn samples() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: [{}, 7, {input: ''}, {input: []}, {input: 5}, {inptu: a}]",
        "profile: T0.H1.N2\ndataset:\n  - {id: x, input: a}\n  - {id: z, input: a}\n  - {id: x, input: b}",
        "profile: T0.H1.N2\ndataset: [{id: 2, input: a}, {input: b}]",
        "profile: T0.H1.N2\ndataset: [{id: 1.5, input: a}, {id: ' ', input: b}, {id: [], input: c}]",
        "profile: T0.H1.N2\ndataset: [{input: [{role: tool, content: x}, {content: x}, {role: user, content: 7}, x]}]",
        "profile: T0.H1.N2\ndataset: [{input: a, target: {x: 1}, choices: a, metadata: [x], sandbox: docker}]",
        "profile: T0.H1.N2\ndataset: [{input: a, files: [x], setup: [x]}]",
        "profile: T0.H1.N2\ndataset: [{input: a, files: {srv/x: a, /srv/../x: a, /: a, /srv/: a, /ok: 7, 'default:/x': a}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, files: {/a: {file: ../x}, /b: {file: /etc/passwd}, /c: {file: missing}, /d: {}}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, setup: {file: missing.sh, mode: 7}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, mock: x}, {input: b, mock: [{}, {txet: a}, {tool_calls: [{arguments: {}}, {name: bash, arguments: [1]}]}]}]",
    ]));
}

#[test]
fn data_files() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: missing.jsonl",
        "profile: T0.H1.N2\ndataset: ../up.jsonl",
        "profile: T0.H1.N2\ndataset: data.parquet",
        "profile: T0.H1.N2\ndataset: empty.jsonl",
        "profile: T0.H1.N2\ndataset: bad.jsonl",
        "profile: T0.H1.N2\ndataset: bad.json",
        "profile: T0.H1.N2\ndataset: map.json",
        "profile: T0.H1.N2\ndataset: bad.csv",
        "profile: T0.H1.N2\ndataset: twice.csv",
        "profile: T0.H1.N2\ndataset: cells.csv",
        "profile: T0.H1.N2\ndataset: {fields: {input: q, sandbox: s, inptu: a}, limit: 0, shuffle: -1, name: ''}",
        "profile: T0.H1.N2\ndataset: {file: good.jsonl, fields: {input: question, target: answr, metadata: [level, colour]}}",
        "profile: T0.H1.N2\ndataset: {file: good.jsonl, shuffle: x, limit: many}",
    ]));
    let problems = parse_with("profile: T0.H1.N2\ndataset: many.jsonl", &[]).unwrap_err();
    assert_eq!(problems.problems.len(), 21);
    assert!(problems.problems[20].message.contains("was not read to its end"));
}

#[test]
fn solvers_and_scorers() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: genrate",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: [magic, 7, {template: x}, {kind: system_message}, prompt_template]",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: {kind: prompt_template, template: no place}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: {kind: generate, max_steps: 3}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: {kind: agent, tools: [bsh, bash, bash, 7, mine], max_steps: 0, attempts: x, continue_message: ' ', instructions: [x]}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: {kind: agent, tools: bash}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nsolver: {kind: iterative, tools: [bash, submit], max_steps: 0, time: soon, keep_messages: 0, max_message: none, attempts: 2}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\ntools: [{name: bash, when: maybe}, {when: true}, {name: bsh, when: true}]\nsolver: [{kind: agent, tools: [{name: bash, when: 1}, {name: bash}]}]",
        "profile: T0.H1.N2\ndataset: [{input: a, target: b}]\nscorer: [include, {kind: match, location: middle, ignore_case: 1}, pattern, script, {kind: script, script: x, timeout: 0}]",
        "profile: T0.H1.N2\ndataset: [{input: a, target: b}]\nscorer: {kind: pattern, pattern: '(a'}",
        "profile: T0.H1.N2\ndataset: [{input: a}, {input: b, target: x}, {input: c}]\nscorer: includes",
        "profile: T0.H1.N2\ndataset: [{input: a, target: ''}]\nscorer: includes",
        "profile: T0.H1.N2\ndataset: [{input: a, target: A}]\nscorer: choice",
        "profile: T0.H1.N2\ndataset: [{input: a, target: A}]\nsolver: multiple_choice\nscorer: choice",
        "profile: T0.H1.N2\ndataset: [{input: a, target: C, choices: [x, z]}]\nsolver: multiple_choice\nscorer: choice",
    ]));
}

#[test]
fn judging() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: [{input: a, target: b}]\nscorer: [{kind: f1, stop_words: x}, {kind: match, numeric: 1}, {kind: exact, numeric: true}]",
        "profile: T0.H1.N2\ndataset: [{input: a, target: b}]\nscorer: {kind: model_graded_qa, template: 'no place', instructions: x, grade_pattern: '(', partial_credit: some, model: [], role: x}",
        "profile: T0.H1.N2\ndataset: [{input: a, target: b}]\nscorer: {kind: model_graded_fact, template: '{answer}', instructions: x, reducer: best, model: [openai/x, ' '], include_history: 3}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nscorer: model_graded_fact",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nscorer: {kind: model_graded_qa, grade_pattern: '(?:(?:(?:\\w{500}){500}){500})'}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nmetrics: []",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nmetrics: [acuracy, 7, {mean: {x: 1}}, {stderr: {cluster: ''}}, {bootstrap: {resamples: 0, level: 95}}, {a: 1, b: 2}, {grouped: {}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, metadata: {k: 1}}]\nmetrics: [{grouped: {by: k, metrics: [{grouped: {by: k}}], all: some}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, metadata: {k: 1}}, {input: b}, {input: c, metadata: {k: null}}]\nmetrics: [{grouped: {by: k}}, {stderr: {cluster: missing}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, metadata: {k: all}}]\nmetrics: [{grouped: {by: k}}, {grouped: {by: k, all: none}}]",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nepochs: {count: 4, reducer: [pass_at_4, at_least_5, pass_at_9]}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nepochs: {count: 4, reducer: [pass_at_0, at_least_x, best]}",
    ]));
    let task = task(
        "dataset: [{input: a, target: b, metadata: {k: 1}}]\nscorer: [{kind: model_graded_qa, model: [a/b, c/d], reducer: mode}, {kind: model_graded_fact, role: judge}]\n\
         metrics: [std, {bootstrap: {level: 0.5}}, {grouped: {by: k, metrics: [mean, bootstrap], all: groups}}]\n",
    );
    insta::assert_debug_snapshot!((&task.scorers, &task.metrics));
    assert_eq!(self::task("dataset: [{input: a}]\n").metrics, Metric::defaults());
}

#[test]
fn small_steps_have_defaults() {
    let small = |lines: &str| match task(lines).solvers.pop() {
        Some(Solver::Iterative(own)) => own,
        other => panic!("{other:?}"),
    };
    let defaults = Iterative {
        tools: None,
        max_steps: 30,
        time: None,
        keep_messages: 40,
        max_message: 8192,
        continue_message: None,
        instructions: None,
    };
    assert_eq!(small("dataset: [{input: a}]\nsolver: iterative\n"), defaults);
    let stated = "solver: {kind: iterative, tools: [bash], max_steps: 7, time: 2m, keep_messages: 3, max_message: 1KiB, continue_message: on, instructions: x}\n";
    let expected = Iterative {
        tools: Some(vec!["bash".into()]),
        max_steps: 7,
        time: Some(120_000),
        keep_messages: 3,
        max_message: 1024,
        continue_message: Some("on".into()),
        instructions: Some("x".into()),
    };
    assert_eq!(small(&format!("dataset: [{{input: a}}]\n{}", stated.replace(": on,", ": 'on',"))), expected);
}

#[test]
fn a_truth_decides_which_tools_there_are() {
    let text = "profile: T0.H1.N2\nparameters: {exec: {type: boolean, default: false}}\ndataset: [{input: a}]\n\
        tools: [think, {name: bash, when: '{{exec}}'}, {name: mine, runs: sandbox, when: '{{exec}}'}]\n\
        solver: [generate, {kind: agent, tools: [think, {name: bash, when: '{{exec}}'}]}]\n";
    let tools = |given: &[(&str, &str)]| {
        let task = parse_with(text, given).unwrap();
        let named: Vec<String> = task.document.tools.into_iter().flatten().map(|tool| tool.value.name).collect();
        (named.join(" "), task.solvers[1].named_tools().join(" "))
    };
    assert_eq!(tools(&[]), ("think".into(), "think".into()));
    assert_eq!(tools(&[("exec", "true")]), ("think bash mine".into(), "think bash".into()));
}

#[test]
fn data_files_are_samples() {
    let read =
        task("dataset: {file: good.jsonl, fields: {input: question, target: answer, metadata: [level]}, name: own}\n")
            .dataset;
    assert_eq!((read.name.as_str(), read.location.as_deref(), read.shuffled), ("own", Some("good.jsonl"), false));
    assert_eq!(read.samples[0].id, SampleId::Text("x".into()));
    assert_eq!(read.samples[0].target, ["1"]);
    assert_eq!(read.samples[0].metadata["level"], json!(3));
    assert_eq!(read.samples[1].id, SampleId::Number(2));
    assert_eq!(read.samples[1].target, ["2", "zwei"]);

    let read = task("dataset: good.csv\n").dataset;
    assert_eq!(read.name, "good");
    assert_eq!(read.samples[0].input, Input::Text("one, two".into()));
    assert_eq!(read.samples[0].choices, ["a", "b"]);
    assert_eq!(read.samples[0].files["/srv/x"], FileContent::Text("words".into()));
    assert_eq!(read.samples[1].choices, ["c", "d, e"]);

    // A column that is there and empty is there.
    assert_eq!(
        task("dataset: {file: sparse.csv, fields: {metadata: [note]}}\n").dataset.samples[0].metadata,
        Map::new()
    );

    let read = task("dataset: good.json\n").dataset;
    assert_eq!(read.samples[0].target, ["2.5"]);
    assert!(matches!(&read.samples[1].input, Input::Messages(messages) if messages.len() == 1));
}

#[test]
fn a_seed_is_an_order() {
    let ids = |lines: &str| -> Vec<String> {
        task(lines).dataset.samples.iter().map(|sample| sample.id.to_string()).collect()
    };
    assert_eq!(ids("dataset: {file: good.json, shuffle: false}\n"), ["1", "2"]);
    assert_eq!(ids("dataset: {file: good.json, shuffle: 1}\n"), ids("dataset: {file: good.json, shuffle: 1}\n"));
    assert_eq!(ids("dataset: {file: good.json, shuffle: true}\n"), ids("dataset: {file: good.json, shuffle: 0}\n"));
    assert!(task("dataset: {file: good.json, shuffle: true, limit: 1}\n").dataset.shuffled);
    assert_eq!(ids("dataset: {file: good.json, shuffle: true, limit: 1}\n").len(), 1);
}

#[test]
fn a_million_samples_are_the_limit() {
    let lines = |count: usize| BTreeMap::from([(PathBuf::from("d.jsonl"), b"{\"input\": \"a\"}\n".repeat(count))]);
    let parse = |count| Task::parse("x", "profile: T0.H1.N2\ndataset: d.jsonl\n", &BTreeMap::new(), &lines(count));
    assert_eq!(parse(1_000_000).unwrap().dataset.samples.len(), 1_000_000);
    let problems = parse(1_000_001).unwrap_err().problems;
    assert_eq!(problems[0].message, "`d.jsonl`, line 1000001: more than 1000000 samples");
}

#[test]
fn parameters_fill_texts() {
    let text = "profile: T0.H1.N2\n\
        parameters:\n  difficulty: {type: text, default: easy, description: How hard.}\n  times: {type: integer, default: 2}\n  \
        share: {type: number, default: 1}\n  loud: {default: false}\n\
        epochs: '{{times}}'\n\
        metadata: {difficulty: '{{difficulty}}', share: '{{ share }}', both: '{{difficulty}}-{{times}} {{7*7}} {{{times}}}', '{{key}}': 1}\n\
        dataset: [{input: 'A {{difficulty}} one, loud: {{loud}}', setup: {file: setup.sh}}]\n";
    let task = parse_with(text, &[("difficulty", "{{times}}"), ("loud", "yes")]).unwrap();
    assert_eq!(task.epochs.count, 2);
    assert_eq!(task.parameters["loud"], json!(true));
    assert_eq!(
        Value::Object(task.metadata),
        json!({"difficulty": "{{times}}", "share": 1.0, "both": "{{times}}-2 {{7*7}} {2}", "{{key}}": 1})
    );
    assert_eq!(task.dataset.samples[0].input, Input::Text("A {{times}} one, loud: true".into()));
    assert_eq!(task.dataset.samples[0].setup.as_deref(), Some("echo {{not_ours}}\n"));
}

#[test]
fn parameters() {
    let declared = "profile: T0.H1.N2\nparameters: {difficulty: {default: easy}, times: {type: integer, default: 1}}\ndataset: [{input: a}]\n";
    let given = [
        said(parse_with(declared, &[("dificulty", "hard"), ("times", "many")])),
        said(parse_with(declared, &[("colour", "red")])),
        said(parse_with("profile: T0.H1.N2\ndataset: [{input: a}]\n", &[("colour", "red")])),
    ];
    let written = complaints(&[
        "profile: T0.H1.N2\nparameters: [x]\ndataset: [{input: a}]",
        "profile: T0.H1.N2\nparameters: {x: easy}\ndataset: [{input: a}]",
        "profile: T0.H1.N2\nparameters: {x: {type: colour}, y: {type: integer, default: z}, '1z': {default: 1}, w: {type: text}, v: {default: [1]}}\ndataset: [{input: a}]",
        "profile: T0.H1.N2\nparameters: {level: {default: a}}\ndataset:\n  - {input: 'A {{levle}} one'}\n  - {input: '{{ other }}'}",
        "profile: T0.H1.N2\nepochs: {{times}}\ndataset: [{input: a}]",
    ]);
    insta::assert_snapshot!(format!("{written}\n{}", given.join("\n")));
}

#[test]
fn parameters_cannot_fill_the_memory() {
    let long = "x".repeat(100_000);
    let text = format!(
        "profile: T0.H1.N2\nparameters: {{a: {{default: {long}}}}}\ndataset: [{{input: \"{}\"}}]\n",
        "{{a}}".repeat(10_000)
    );
    let problems = parse_with(&text, &[]).unwrap_err();
    assert_eq!(problems.problems.len(), 1);
    assert!(problems.problems[0].message.contains("bytes of text"));
}

#[test]
fn very_long_names_are_not_compared() {
    let (declared, used) = ("x".repeat(400_000), "y".repeat(400_000));
    let text = format!(
        "profile: T0.H1.N2\nparameters: {{? {declared} : {{default: 1}}}}\ndataset: [{{input: \"{{{{{used}}}}}\"}}]\n"
    );
    let problems = parse_with(&text, &[]).unwrap_err().problems;
    assert!(problems.len() == 1 && problems[0].message.ends_with("is not a parameter of this task"));
}

#[test]
fn a_profile_document_gives_its_settings() {
    let text = "profile: base.yaml\nimage: host\nlimits: {messages: 5, memory: 1GiB}\ndataset: [{input: a}]\n";
    let task = parse_with(text, &[]).unwrap();
    let document = &task.document;
    assert_eq!(document.profile.value.to_string(), "T0.H1.N1");
    assert!(document.network.rules.allows_something());
    assert_eq!(document.limits.time.amount, profile::Millis(300_000));
    assert_eq!(document.limits.memory.amount, profile::Bytes(1 << 30));
    assert_eq!(task.limits.messages, Some(5));
    // Places are those of the task: it is what a reader has at hand.
    assert_eq!(document.approval.as_ref().unwrap().place, Some(profile::Place { line: 1, column: 10 }));

    insta::assert_snapshot!(complaints(&[
        "profile: base.yaml\napproval: dev\nlimits: {time: 1m, messages: 1}\nnetwork: {}\ndataset: [{input: a}]",
        "profile: wrong.yaml\ndataset: [{input: a}]\ntools: 7",
        "profile: missing.yaml\ndataset: [{input: a}]",
        "profile: ../base.yaml\ndataset: [{input: a}]",
        "profile: base.txt\ndataset: [{input: a}]",
    ]));
}

#[test]
fn the_command_line_chooses_samples() {
    let fresh = || task("dataset: [{id: alpha, input: a}, {id: beta, input: b}, {id: gamma, input: c}, {input: d}]\n");
    let ids = |overrides: TaskOverrides| -> Vec<String> {
        let mut task = fresh();
        task.apply(overrides).unwrap();
        task.dataset.samples.iter().map(|sample| sample.id.to_string()).collect()
    };
    let slice = |text: &str| Some(text.parse::<Slice>().unwrap());
    assert_eq!(ids(TaskOverrides::default()).len(), 4);
    assert_eq!(ids(TaskOverrides { limit: slice("2"), ..Default::default() }), ["alpha", "beta"]);
    assert_eq!(ids(TaskOverrides { limit: slice("2-3"), ..Default::default() }), ["beta", "gamma"]);
    assert_eq!(ids(TaskOverrides { limit: slice("4-99"), ..Default::default() }), ["4"]);
    let named = vec!["gamma".to_owned(), "4".to_owned(), "alpha".to_owned()];
    assert_eq!(ids(TaskOverrides { sample_ids: named.clone(), ..Default::default() }), ["alpha", "gamma", "4"]);
    assert_eq!(ids(TaskOverrides { sample_ids: named, limit: slice("2-2"), ..Default::default() }), ["gamma"]);

    let mut changed = fresh();
    let limits = Limits { messages: Some(7), ..Default::default() };
    let overrides =
        TaskOverrides { epochs: Some(3), model: Some("mock/scripted".into()), limits, ..Default::default() };
    changed.apply(overrides).unwrap();
    assert_eq!((changed.epochs.count, changed.model.as_deref()), (3, Some("mock/scripted")));
    assert_eq!(changed.limits.messages, Some(7));

    for text in ["0", "", "5-2", "0-3", "-3", "3-", "a", "+3", "1-2-3"] {
        assert!(text.parse::<Slice>().is_err(), "{text}");
    }
    let wrong = [
        TaskOverrides { sample_ids: vec!["alhpa".into(), "nobody-like-it".into()], ..Default::default() },
        TaskOverrides { limit: slice("5-6"), epochs: Some(0), model: Some(String::new()), ..Default::default() },
    ];
    let said = wrong.map(|overrides| said_of(&fresh().apply(overrides).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        text in "\\PC*",
        lines in proptest::collection::vec(("(profile|dataset|solver|scorer|metrics|mock|epochs|parameters|limits)", "[-\\[\\]{}a-z0-9:,'. \n]{0,40}"), 0..6),
        data in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let written = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect::<Vec<_>>().concat();
        let mut files = files();
        for name in ["d.jsonl", "d.json", "d.csv"] {
            files.insert(name.into(), data.clone());
        }
        let given = BTreeMap::from([("a".to_owned(), text.clone())]);
        let _ = Task::parse("x", &text, &given, &files);
        let _ = Task::parse("x", &written, &BTreeMap::new(), &files);
        for name in ["d.jsonl", "d.json", "d.csv"] {
            let _ = Task::parse("x", &format!("profile: T0.H1.N2\ndataset: {name}\n"), &BTreeMap::new(), &files);
        }
        let _ = text.parse::<Slice>();
    }
}

#[test]
fn settings_of_the_model_are_read_strictly() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: [{input: a}]\ngenerate: 7",
        "profile: T0.H1.N2\ndataset: [{input: a}]\ngenerate: {temprature: 0, temperature: 3, top_p: x, top_k: 0, max_tokens: 1.5}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\ngenerate: {seed: 1.5, stop_seqs: [], reasoning_effort: hgih, cache: 7, max_retries: -1}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\ngenerate: {parallel_tool_calls: perhaps, timeout: 1h, max_connections: 0, stop_seqs: END}",
    ]));
    let text = "profile: T0.H1.N2\ndataset: [{input: a}]\ngenerate:\n  temperature: 0\n  max_tokens: 1024\n  seed: 1\n  \
                stop_seqs: [END]\n  reasoning_effort: high\n  cache: 12h\n  max_retries: 0\n  parallel_tool_calls: no\n";
    let task = parse_with(text, &[]).unwrap();
    let written = serde_json::to_value(&task.generate).unwrap();
    assert_eq!(
        written,
        serde_json::json!({
            "temperature": 0.0, "max_tokens": 1024, "seed": 1, "stop_seqs": ["END"], "reasoning_effort": "high",
            "max_retries": 0, "parallel_tool_calls": false,
        })
    );
    assert_eq!(task.generate.cache, Some(std::time::Duration::from_hours(12)));
}

#[test]
fn messages_hold_words_and_images() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: [{input: [{role: user, content: []}, {role: user, content: [x, {}, {text: a, image: b}]}]}]",
        "profile: T0.H1.N2\ndataset: [{input: [{role: user, content: [{image: ../x.png}, {image: missing.png}, {image: data.bin}]}]}]",
        "profile: T0.H1.N2\ndataset: [{input: [{role: user, content: [{image: 'data:image/png;base64,AA==', detail: closely}]}]}]",
    ]));
}

#[test]
fn roles_limits_and_overrides() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N2\ndataset: [{input: a}]\nmodel_roles: [x]\nmock_roles: 7",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nmodel_roles: {agent: a/b, Grader: a/b, '': a/b, grader: [], judge: ' ', third: {generate: {}}, fourth: {model: [1], extra: 2}}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nlimits: {cost: 0, run: {cost: lots, tokens: -1, memory: 1GiB, time: soon}}",
        "profile: T0.H1.N2\ndataset: [{input: a}]\nlimits: {run: 7}",
        "profile: T0.H1.N2\ndataset: [{input: a, overrides: {modl: x, generate: {max_connections: 3, cache: true}, limits: {time: 3, cost: 1e9}}}]",
        "profile: T0.H1.N2\ndataset: [{input: a, overrides: [x]}]",
    ]));
    let mut task = task(
        "limits: {cost: 0.25, tokens: 100, run: {cost: 10, time: 1h}}\nmodel_roles: {grader: [a/b, c/d]}\nmodel: e/f\n\
        dataset: [{input: a, overrides: {model: g/h, model_roles: {grader: i/j}, limits: {tokens: 900, messages: 3}}}]\n",
    );
    assert_eq!((task.limits.cost, task.run_limits.sums.cost), (Some(Dollars(250_000)), Some(Dollars(10_000_000))));
    assert_eq!((task.run_limits.time, task.model_roles["grader"].models.len()), (Some(3_600_000), 2));
    assert_eq!(task.dataset.samples[0].own.limits.or(task.limits).tokens, Some(900));
    // Whoever gives a command has the last word, also over single samples.
    task.apply(TaskOverrides {
        model: Some("k/l".into()),
        model_roles: [("grader".to_owned(), vec!["m/n".to_owned()])].into_iter().collect(),
        limits: Limits { tokens: Some(50), ..Limits::default() },
        time: Some(profile::Millis(5_000)),
        ..TaskOverrides::default()
    })
    .unwrap();
    let own = &task.dataset.samples[0].own;
    assert_eq!((&own.model, own.model_roles.len(), own.limits.messages), (&None, 0, Some(3)));
    assert_eq!(own.limits.or(task.limits).tokens, Some(50));
    assert_eq!(
        (task.model.as_deref(), task.model_roles["grader"].models.as_slice()),
        (Some("k/l"), &["m/n".into()][..])
    );
    assert_eq!(task.document.limits.time.amount, profile::Millis(5_000));
    // Data of others chooses neither models nor limits, unless the task says that it may.
    let mut files = files();
    files.insert("own.jsonl".into(), b"{\"input\": \"a\", \"overrides\": {\"model\": \"x/y\"}}\n".to_vec());
    let read = |dataset: &str| {
        let text = format!("profile: T0.H1.N2\ndataset: {dataset}\n");
        Task::parse("task.yaml", &text, &BTreeMap::new(), &files).unwrap().dataset.samples.remove(0).own.model
    };
    assert_eq!(read("own.jsonl"), None);
    assert_eq!(read("{file: own.jsonl, fields: {overrides: overrides}}").as_deref(), Some("x/y"));
}
