//! Mistakes: each with its place and a hint, all at once.

use crate::common::{outcome, read, read_among, service};
use proptest::prelude::*;

#[test]
fn mistakes_are_told_all_at_once() {
    let text = "\
services:
  default:
    imgae: x
    image: 'a b'
    comand: x
    command: a && b
    entrypoint: 'open \"quote'
    mem_limit: lots
    cpus: -2
    cpu: 3
    init: maybe
    working_dir: relative
    user: 'a b'
    environment: [=x, '${A:?must be there}', 'B=$']
    volumes: [data:/x, 'a:b:c:d', './x:y:ro', './x:/z:wild']
    tmpfs: ['/x:bigger=1']
    ports: [99999, 'x:80', {published: 80}]
    expose: [0]
    healthcheck: {test: [CURL, x], interval: 5, retries: -1, every: 1s}
    depends_on: {other: {condition: ready}, defualt: {}}
    networks: [fornt]
    network_mode: none
    extra_hosts: [a, 'b:c']
    cap_drop: [CHWON]
    security_opt: [mystery]
    restart: sometimes
    platform: windows/amd64
    pull_policy: now
    ulimits: {nofiles: 3, nofile: {soft: 5, hard: 3}}
    deploy: {resources: {limits: {memory: 1g, cpu: 1}}}
    stop_signal: please
    stop_grace_period: 5
  '-x': {image: x}
  empty:
  list: []
  nothing: {init: true}
networks:
  front: {internal: perhaps}
volumes: []
service: {}
";
    insta::assert_snapshot!(outcome(&read(text)));
}

#[test]
fn names_must_point_somewhere() {
    let text = "\
services:
  a: {image: x, depends_on: [b], networks: [frnot], volumes: ['data:/x', 'datas:/y']}
  b: {image: x, depends_on: [c]}
  c: {image: x, depends_on: [b], x-default: true}
  d: {image: x, x-default: true, depends_on: {e: {required: false}, f: {}, nobody: {required: false}}}
  e: {image: x, networks: {front: {aliases: [f]}}}
  f: {image: x, networks: {front: {}}, profiles: [p]}
  g: {image: x, networks: {front: {aliases: [e]}}, depends_on: {h: {condition: service_healthy}}}
  h: {image: x, healthcheck: {disable: true}}
networks: {front: {}}
volumes: {datas: }
";
    insta::assert_snapshot!(outcome(&read(text)));
}

#[test]
fn files_that_are_no_compose_files() {
    let many: Vec<String> = (0..65).map(|number| format!("  s{number}: {{image: x}}")).collect();
    let nested = format!("a: {}", "[".repeat(5000));
    let bomb = {
        let lines: Vec<String> = ('b'..='i')
            .zip('a'..)
            .map(|(to, from)| format!("x-{to}: &{to} [{}]", vec![format!("*{from}"); 9].join(",")))
            .collect();
        format!("x-a: &a [1,2,3]\n{}\nservices: {{d: {{image: x}}}}\n", lines.join("\n"))
    };
    let texts = [
        "",
        "[]",
        "text",
        "services:",
        "services: []",
        "services: {}",
        "services: {a: {image: x}}\nservices: {b: {image: x}}",
        "a: [",
        &nested,
        &bomb,
        &format!("services:\n{}\n", many.join("\n")),
        &format!("services: {{d: {{image: {}}}}}", "x".repeat(300_000)),
    ];
    let outcomes: Vec<String> = texts
        .iter()
        .map(|text| format!("{:?}\n{}", text.chars().take(40).collect::<String>(), outcome(&read(text))))
        .collect();
    insta::assert_snapshot!(outcomes.join("\n"));
}

#[test]
fn includes_are_bounded_and_say_where() {
    let main = "include: [a.yaml, b/compose.yaml]\nservices: {default: {image: x}}\n";
    let files = [
        ("a.yaml", "services: {default: {image: y}, a: {imgae: y}}\nnetworks: {n: {internal: true}}\n"),
        (
            "b/compose.yaml",
            "include: [../a.yaml, missing.yaml, ../../up.yaml]\nservices: {b: {image: $B, env_file: e}}\nnetworks: {n: }\n",
        ),
        ("b/.env", "B='x"),
        ("b/e", "A=1\n=2\n"),
        ("../up.yaml", "services: [\n"),
    ];
    insta::assert_snapshot!(outcome(&read_among(main, &files)));
    // A file that includes itself, and many that include one another.
    assert!(outcome(&read_among("include: [a.yaml]", &[("a.yaml", "include: [a.yaml]")])).contains("included twice"));
    let names: Vec<String> = (0..40).map(|number| format!("{number}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "services: {}")).collect();
    let found = outcome(&read_among(&format!("include: [{}]", names.join(", ")), &files));
    assert!(found.contains("more than 16 files are included"), "{found}");
}

#[test]
fn variables_cannot_make_a_file_without_end() {
    let large = format!("BIG={}", "x".repeat(200_000));
    let text = service(&format!("command: [{}]", vec!["$BIG"; 100].join(", ")));
    let found = outcome(&read_among(&text, &[(".env", &large)]));
    assert!(found.contains("all variables together"), "{found}");
    let text = service(&format!("command: ['{}']", "$BIG".repeat(50)));
    let found = outcome(&read_among(&text, &[(".env", &large)]));
    assert!(found.contains("longer than"), "{found}");
}

#[test]
fn large_files_are_read_or_refused_in_time() {
    let many = |line: &dyn Fn(usize) -> String| (0..20_000).map(line).collect::<String>();
    let start = std::time::Instant::now();
    for text in [
        format!("services:\n{}", many(&|n| format!(" s{n}: {{}}\n"))),
        format!("services: {{a: {{image: x, {}}}}}", many(&|n| format!("imag{n}: , "))),
        format!("services: {{a: {{image: x, networks: [{}]}}}}", many(&|n| format!("net{n},"))),
        format!("services: {{a: {{image: x, volumes: [{}]}}}}", many(&|n| format!("/v{n},"))),
        format!("services: {{a: {{image: x, depends_on: [{}]}}}}", many(&|n| format!("a{n},"))),
        format!("services: {{a: {{image: x, environment: {{{}}}}}}}", many(&|n| format!("a{n}: 1,"))),
        format!("services: {{a: {{image: x, command: \"{}\"}}}}", many(&|_| "$SET ".into())),
        format!("services: {{a: {{image: x}}}}\nvolumes: {{{}}}", many(&|n| format!("v{n}: ,"))),
    ] {
        let _ = read(&text);
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

/// Lines that have something to do with Compose, in any order and depth.
fn lines() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "services:",
        "default:",
        "a:",
        "image: x",
        "build: .",
        "build:",
        "context: ..",
        "command: a 'b",
        "- a",
        "- a:b",
        "- 1",
        "volumes:",
        "networks:",
        "ports:",
        "environment:",
        "depends_on:",
        "healthcheck:",
        "test: x",
        "deploy:",
        "resources:",
        "limits:",
        "memory: 1g",
        "- ${A:-b}",
        "<<: *x",
        "&x",
        "x-a: &x",
        "tmpfs: /x",
        "cap_add: [ALL]",
        "include: [a]",
        "env_file: .env",
        "profiles: [a]",
        "{",
        "}",
        "[",
        "~",
        "!!binary x",
        "ulimits: {core: -1}",
        "cpus: .5",
        "mem_limit: 1e3",
    ]);
    let line = (0..5_usize, word).prop_map(|(depth, word)| format!("{}{word}\n", "  ".repeat(depth)));
    prop::collection::vec(line, 0..25).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_text_is_a_project_or_says_why_not(text in prop_oneof![lines(), ".{0,100}", "services: \\{a: \\{.{0,60}\\}\\}"]) {
        let result = read_among(&text, &[(".env", text.as_str()), ("a", text.as_str())]);
        prop_assert!(result.is_ok() || !outcome(&result).is_empty());
    }

    #[test]
    fn any_value_of_any_key_is_read_or_says_why_not(
        key in prop::sample::select(compose::rules::SERVICE_KEYS.iter().map(|rule| rule.key).collect::<Vec<_>>()),
        value in prop_oneof![".{0,40}", "[\\[\\]{}:,a-z0-9$/.-]{0,40}", "-?[0-9.]{1,30}"],
    ) {
        let quoted = serde_json::to_string(&value).unwrap();
        for value in [value, quoted.clone(), format!("[{quoted}]"), format!("{{{quoted}: {quoted}}}")] {
            let result = read(&service(&format!("{key}: {value}")));
            prop_assert!(result.is_ok() || !outcome(&result).is_empty());
        }
    }
}
