//! Samples of several services: who reaches whom, who waits for whom, what fails and how, and that nothing is left.
//!
//! Servers are of one static program, whoever asks for names is a Debian: static programs have no resolver of their own.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common;
use crate::common::evaluation::{dump, ended, write};
use crate::docker::daemon::{DEBIAN, STATIC, alone, among, docker, gone, inspect, ours};

/// A web server that begins when its page is there, a database that answers on one port, somebody on no network at all, and
/// the agent. The page comes by a volume, from a service that ends.
fn three(agent: &str) -> String {
    format!(
        r#"
services:
  web:
    image: {STATIC}
    x-local: true
    entrypoint: [/busybox, sh, -c]
    command: ["/busybox httpd -p 9090 -h /shared; exec /busybox httpd -f -p 8080 -h /shared"]
    expose: ["8080"]
    volumes: ["shared:/shared:ro"]
    depends_on: {{seed: {{condition: service_completed_successfully}}}}
    healthcheck: {{test: [CMD, /busybox, wget, -q, -O-, "http://127.0.0.1:8080/page"], interval: 1s, retries: 30}}
    networks: {{default: {{aliases: [www.internal]}}}}
  seed:
    image: {STATIC}
    command: [/busybox, sh, -c, "echo seeded > /shared/page"]
    volumes: ["shared:/shared"]
  db:
    image: {STATIC}
    command: [/busybox, sh, -c, "while true; do echo $$GREETING | /busybox nc -l -p 5432; done"]
    environment: {{GREETING: "hello from db"}}
    ports: ["15432:5432"]
    read_only: true
    tmpfs: ["/tmp:size=1m"]
    mem_limit: 64m
  lonely:
    image: {DEBIAN}
    network_mode: none
    command: [sh, -c, "curl -s -m 2 http://web:8080/page; curl -s -m 2 http://192.0.2.9/; sleep 10000"]
  agent:
    image: {DEBIAN}
    x-default: true
    {agent}
    depends_on:
      web: {{condition: service_healthy}}
      db: {{condition: service_started}}
volumes: {{shared: {{}}}}
"#
    )
}

fn composed(place: &Path, text: &str) -> String {
    write(place, "compose.yaml", text)
}

/// `ringfence run` in the default service.
fn run(place: &Path, options: &[&str], script: &str) -> (i32, String, String) {
    let file = place.join("compose.yaml").display().to_string();
    let fixed = ["run", "--compose", &file, "--pull", "never"];
    common::ringfence(place, &[&fixed[..], options, &["--", "sh", "-c", script]].concat())
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether something of this service was refused for this reason.
fn refused(records: &[Value], service: &str, reason: &str) -> bool {
    let of_service =
        |record: &&Value| record["sandbox"].as_str().is_some_and(|name| name.ends_with(&format!("/{service}")));
    records.iter().filter(of_service).any(|record| record["reason"] == reason && record["verdict"] == "refused")
}

fn volumes() -> String {
    docker(&["volume", "ls", "--quiet", "--filter", "label=ringfence.run"])
}

#[test]
fn services_reach_each_other_by_name_and_declared_port_and_nothing_is_left() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    composed(place.path(), &three("environment: {MINE: yes}"));
    let log = place.path().join("network.jsonl");
    let script = "for url in http://web:8080/page http://www.internal:8080/page; do curl -s -m 5 $url; done
        curl -s -m 5 telnet://db:5432 </dev/null
        curl -s -m 5 http://web:9090/page && echo undeclared
        curl -s -m 5 http://192.0.2.1/ && echo outside
        getent hosts lonely >/dev/null && echo lonely
        echo $MINE; exit 5";
    let (code, out, err) = run(place.path(), &["--network-log", &log.display().to_string()], script);
    assert_eq!((code, out.as_str()), (5, "seeded\nseeded\nhello from db\nyes\n"), "{err}");
    let records = records(&log);
    assert!(refused(&records, "agent", "service_port"), "{records:#?}");
    assert!(refused(&records, "agent", "no_network"), "{records:#?}");
    // Nobody is known to whoever is on no network, and its attempts are seen all the same.
    let reached = |record: &&Value| record["verdict"] == "allowed";
    let of_lonely = |record: &&Value| record["sandbox"].as_str().is_some_and(|name| name.ends_with("/lonely"));
    assert_eq!(records.iter().filter(of_lonely).filter(reached).count(), 0, "{records:#?}");
    assert!(records.iter().any(|record| of_lonely(&record)), "{records:#?}");
    let to_web =
        |record: &&Value| record["service"] == "web" && record["verdict"] == "allowed" && record["port"] == 8080;
    assert!(records.iter().filter(to_web).count() >= 2, "{records:#?}");
    gone(Duration::from_secs(20));
    assert_eq!(volumes(), "");
}

/// From every service: addresses, names that are not listed, the host itself. What is listed is not reached here, because
/// nobody answers; but it is allowed.
#[test]
fn every_service_has_the_samples_network_or_less() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let tries = format!(
        "for a in 192.0.2.1 127.0.0.1:{port} 172.17.0.1:{port} 198.18.0.1:{port} 169.254.169.254 other.example; do curl -s -m 2 http://$a/ && echo reached $a >>/shared/$NAME; done; echo tried >>/shared/$NAME; sleep 1000"
    );
    let service = |name: &str, more: &str| {
        format!(
            "  {name}:\n    image: {DEBIAN}\n    entrypoint: [sh, -c]\n    command: [\"{tries}\"]\n    environment: {{NAME: {name}}}\n    volumes: [\"shared:/shared\"]\n{more}"
        )
    };
    let text = format!(
        "services:\n{}{}{}  agent:\n    image: {DEBIAN}\n    x-default: true\n    volumes: [\"shared:/shared\"]\nvolumes: {{shared: {{}}}}\nnetworks: {{inner: {{internal: true}}}}\n",
        service("open", ""),
        service("closed", "    networks: [inner]\n"),
        service("bridged", "    network_mode: bridge\n"),
    )
    .replace('$', "$$");
    composed(place.path(), &text);
    for (profile, allow, of_open) in
        [("T0.H1.N2", None, "no_network"), ("T0.H1.N1", Some("listed.example"), "raw_address")]
    {
        let log = place.path().join(format!("{profile}.jsonl"));
        let path = log.display().to_string();
        let mut options = vec!["--profile", profile, "--network-log", &path, "--dns-upstream", "127.0.0.1:9"];
        options.extend(allow.iter().flat_map(|name| ["--allow", name]));
        let script = "for n in open closed bridged; do while ! grep -q tried /shared/$n 2>/dev/null; do sleep 0.1; done; cat /shared/$n; done";
        let (code, out, err) = run(place.path(), &options, script);
        assert_eq!((code, out.as_str()), (0, "tried\ntried\ntried\n"), "{err}");
        let records = records(&log);
        for (service, reason) in [("open", of_open), ("bridged", of_open), ("closed", "no_network")] {
            assert!(refused(&records, service, reason), "{service} {reason}: {records:#?}");
        }
        if profile == "T0.H1.N1" {
            assert!(refused(&records, "open", "name_not_listed"), "{records:#?}");
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(listener.accept().is_err(), "nothing came to the host");
    gone(Duration::from_secs(20));
    assert_eq!(volumes(), "");
}

#[test]
fn a_service_that_fails_is_named_with_its_last_words_and_nothing_is_left() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let with = |broken: &str| {
        composed(
            place.path(),
            &format!(
                "services:\n  agent: {{image: {DEBIAN}, x-default: true, depends_on: {{good: {{condition: service_started}}}}}}\n  good: {{image: {STATIC}, command: [/busybox, sleep, '1000'], volumes: ['v:/v']}}\n  broken: {{image: {STATIC}, {broken}}}\nvolumes: {{v: {{}}}}\n"
            ),
        );
        let (code, _, err) = run(place.path(), &[], "echo never");
        assert_eq!(code, 4, "{err}");
        gone(Duration::from_secs(20));
        assert_eq!(volumes(), "");
        err
    };
    let said = with("command: [/busybox, sh, -c, 'echo no such config >&2; exit 3']");
    assert!(said.contains("the service `broken` ended with exit code 3; its last words: no such config"), "{said}");
    let said = with("command: [/no/such/program]");
    assert!(said.contains("the service `broken` could not be started"), "{said}");
    let said = with(
        "command: [/busybox, sleep, '1000'], healthcheck: {test: [CMD, /busybox, sh, -c, 'echo sick; exit 1'], interval: 100ms, retries: 2}",
    );
    assert!(said.contains("the service `broken` is not healthy") && said.contains("sick"), "{said}");
    let said = with("command: [/busybox, sleep, '1000'], depends_on: {good: {condition: service_healthy}}");
    assert!(said.contains("the service `broken` waits for `good`, which has no health check"), "{said}");
}

#[test]
fn a_service_that_dies_later_is_told_and_one_that_may_is_started_again() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let text = format!(
        "services:\n  agent: {{image: {DEBIAN}, x-default: true, volumes: ['v:/v']}}\n  short: {{image: {STATIC}, command: [/busybox, sh, -c, '/busybox sleep 1; echo out of it; exit 9']}}\n  again: {{image: {STATIC}, restart: 'on-failure:2', volumes: ['v:/v'], command: [/busybox, sh, -c, 'echo x >>/v/starts; exit 1']}}\nvolumes: {{v: {{}}}}\n"
    );
    composed(place.path(), &text);
    // Its start fails when it has failed for the last time; meanwhile the command runs.
    let (code, out, err) = run(place.path(), &[], "sleep 2; cat /v/starts");
    assert_eq!((code, out.as_str()), (0, "x\nx\nx\n"), "{err}");
    assert!(err.contains("`short` ended with exit code 9: out of it"), "{err}");
    assert!(err.contains("`again` ended with exit code 1"), "{err}");
}

#[test]
fn what_the_profile_forbids_is_refused_before_anything_starts() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let refused = |service: &str| {
        composed(place.path(), &format!("services: {{agent: {{image: {STATIC}, {service}}}}}\n"));
        let (code, _, err) = run(place.path(), &[], "true");
        assert_eq!(code, 3, "{service}: {err}");
        err
    };
    assert!(refused("privileged: true").contains("`privileged"));
    assert!(refused("network_mode: host").contains("network_mode"));
    assert!(refused("volumes: ['/var/run/docker.sock:/var/run/docker.sock']").contains("docker.sock"));
    assert!(refused("cap_add: [SYS_ADMIN]").contains("SYS_ADMIN"));
    std::os::unix::fs::symlink("/etc", place.path().join("link")).unwrap();
    assert!(refused("volumes: ['./link:/etc2:ro']").contains("is a link, and leads to /etc"));
    composed(place.path(), &format!("services: {{agent: {{image: {STATIC}, imagee: x}}}}\n"));
    let (code, _, err) = run(place.path(), &[], "true");
    assert_eq!(code, 2, "{err}");
}

#[test]
fn what_is_granted_is_not_carried_out_by_the_daemon() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let plan = |service: &str, profile: &str| {
        composed(place.path(), &format!("services: {{agent: {{{service}}}}}\n"));
        let file = place.path().join("compose.yaml").display().to_string();
        let mut options =
            vec!["run", "--compose", &file, "--pull", "never", "--env", "KEY=s3cret", "--profile", profile];
        if profile.ends_with("N0") {
            options.extend(["--justification", "a test"]);
        }
        common::ringfence(place.path(), &[&options[..], &["--", "/busybox", "env"]].concat())
    };
    for service in [
        "image: 'x.example/y:${KEY}'",
        "build: {context: ., args: [KEY], dockerfile_inline: 'FROM scratch'}",
        "build: {context: ., dockerfile_inline: \"FROM scratch\\nRUN echo ${KEY}\"}",
    ] {
        // At N0 too: a profile may be raised after the file was read.
        for profile in ["T0.H1.N2", "T0.H1.N0"] {
            let (code, _, err) = plan(service, profile);
            assert_eq!(code, 3, "{service}: {err}");
            assert!(err.contains("the granted variable `KEY`") && !err.contains("s3cret"), "{err}");
        }
    }
    // It is for the sandbox.
    let (code, out, err) = plan(&format!("image: {STATIC}, environment: {{MINE: '${{KEY}}'}}"), "T0.H1.N2");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("MINE=s3cret"), "{out}");
}

#[test]
fn the_plan_says_what_each_service_sees_of_the_host_and_may_use_up() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("data")).unwrap();
    let text = format!(
        "services:\n  agent: {{image: {STATIC}, x-default: true, mem_limit: 3g, environment: {{OWN: x}}, volumes: ['./data:/data:ro']}}\n  db: {{image: {STATIC}, command: [/busybox, sleep, '1000'], mem_limit: 5g, pids_limit: 7, volumes: ['./data:/db:ro']}}\n"
    );
    let file = composed(place.path(), &text);
    let document =
        write(place.path(), "plan.yaml", "profile: T0.H1.N2\napproval: ci\nsandbox: [docker, compose.yaml]\n");
    let (code, out, err) = common::ringfence(place.path(), &["--json", "plan", &document]);
    assert_eq!(code, 0, "{err}");
    let plan = serde_json::from_str::<Value>(&out).unwrap()["plan"].take();
    let data = place.path().join("data").canonicalize().unwrap().display().to_string();
    let names: Vec<&str> =
        plan["affordances"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"OWN") && names.contains(&format!("{data}:/data:ro").as_str()), "{names:?}");
    assert_eq!(plan["services"]["db"]["mounts"], serde_json::json!([format!("{data}:/db:ro")]));
    assert_eq!(plan["limits"]["memory"], 3_u64 << 30, "{}", plan["limits"]);
    assert_eq!(plan["services"]["db"]["limits"]["memory"], 5_u64 << 30, "{}", plan["services"]);
    assert_eq!(plan["services"]["db"]["limits"]["pids"], 7);
    // And it is so.
    let mut command = common::command(place.path());
    command.args(["run", "--compose", &file, "--pull", "never", "--", "/busybox", "sleep", "1000"]);
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut held: Vec<String> = Vec::new();
    while held.len() < 2 && Instant::now() < deadline {
        let format = "{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} {{range .HostConfig.Mounts}}{{.Target}} {{end}}";
        // Not the one that is there for a moment while the network is made.
        held = ours().iter().filter_map(|id| inspect(id, format)).collect();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    held.sort();
    assert_eq!(held.len(), 2, "{held:?}");
    assert!(held[0].starts_with(&format!("{} ", 3_u64 << 30)) && held[0].contains(" /data"), "{held:?}");
    assert!(held[1].starts_with(&format!("{} 7 ", 5_u64 << 30)) && held[1].contains(" /db"), "{held:?}");
    gone(Duration::from_secs(20));
}

#[test]
fn what_a_daemon_would_do_by_halves_is_refused() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let text = format!(
        "services:\n  agent: {{image: {STATIC}, volumes: [{{type: volume, source: v, target: /v, volume: {{subpath: public}}}}]}}\nvolumes: {{v: {{}}}}\n"
    );
    composed(place.path(), &text);
    let api = docker(&["version", "--format", "{{.Server.APIVersion}}"]);
    let minor: u32 = api.split_once('.').unwrap().1.parse().unwrap();
    let (code, _, err) = run(place.path(), &[], "true");
    if minor < 45 {
        assert_eq!(code, 4, "{err}");
        assert!(err.contains("cannot mount `public` of a volume alone"), "{err}");
    }
    let profile = write(place.path(), "gvisor.yaml", "profile: T0.H1.N2\nsandbox: docker\nruntime: no-such-runtime\n");
    let (code, _, err) =
        crate::docker::daemon::run(place.path(), STATIC, &["--profile", &profile], &["/busybox", "true"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("has no runtime `no-such-runtime`; it has") && err.contains("runc"), "{err}");
}

#[test]
fn a_mount_of_one_service_in_what_the_agent_writes_to_is_refused() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("work/in")).unwrap();
    let text = format!(
        "services:\n  agent: {{image: {STATIC}, x-default: true}}\n  db: {{image: {STATIC}, volumes: ['./work/in:/in:ro']}}\n"
    );
    composed(place.path(), &text);
    let work = format!("{}:/work:rw", place.path().join("work").display());
    let (code, _, err) = run(place.path(), &["--mount", &work], "true");
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("which is mounted writable"), "{err}");
}

/// A service's mount that a link in the task's directory leads elsewhere, or that holds keys.
#[test]
fn a_mount_of_a_service_through_a_link_or_of_keys_is_refused() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("real/.ssh")).unwrap();
    std::os::unix::fs::symlink("real", place.path().join("planted")).unwrap();
    for (name, why) in [("planted", "is a link"), ("real", ".ssh holds credentials")] {
        let text = format!(
            "services:\n  agent: {{image: {STATIC}, x-default: true}}\n  db: {{image: {STATIC}, volumes: ['./{name}:/in:ro']}}\n"
        );
        composed(place.path(), &text);
        let (code, _, err) = run(place.path(), &[], "true");
        assert!(code == 3 && err.contains(why), "{name}: {code} {err}");
    }
}

#[test]
fn what_lies_beside_the_document_is_the_tasks() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    for (path, text) in [
        (
            "task/sub/compose.yaml",
            format!(
                "include: [../shared.yaml]\nservices: {{agent: {{image: {STATIC}, x-default: true, volumes: ['../data:/data:ro']}}}}\n"
            ),
        ),
        ("task/shared.yaml", format!("services: {{db: {{image: {STATIC}, command: [/busybox, sleep, '1000']}}}}\n")),
        ("task/data/file", "of the task".to_owned()),
        ("task/doc.yaml", "profile: T0.H1.N2\napproval: ci\nsandbox: [docker, sub/compose.yaml]\n".to_owned()),
        ("task/sub/doc.yaml", "profile: T0.H1.N2\napproval: ci\nsandbox: [docker, compose.yaml]\n".to_owned()),
    ] {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let read = |document: &str| {
        let path = place.path().join(document).display().to_string();
        let fixed = ["run", "--profile", &path, "--pull", "never", "--", "/busybox", "cat", "/data/file"];
        common::ringfence(place.path(), &fixed)
    };
    let (code, out, err) = read("task/doc.yaml");
    assert_eq!((code, out.as_str()), (0, "of the task"), "{err}");
    let (code, _, err) = read("task/sub/doc.yaml");
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("../data") && err.contains("../shared.yaml"), "{err}");
    // Above is above, and a link does not lead there.
    std::fs::remove_dir_all(place.path().join("task/data")).unwrap();
    std::os::unix::fs::symlink("../..", place.path().join("task/data")).unwrap();
    let (code, _, err) = read("task/doc.yaml");
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("is a link, and leads to"), "{err}");
}

#[test]
fn a_phase_with_a_wider_network_has_it_among_services_too() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    composed(
        place.path(),
        &format!(
            "services:\n  agent: {{image: {DEBIAN}, x-default: true}}\n  db: {{image: {STATIC}, command: [/busybox, sleep, '1000']}}\n"
        ),
    );
    let task = r"
name: phases
profile: T0.H1.N2
phases: {setup: {network: {level: N1, allow_domains: [listed.example]}}}
sandbox: [docker, compose.yaml]
approval: ci
tools: [bash, submit]
model: mock/scripted
solver: {kind: agent, max_steps: 10}
scorer: includes
dataset:
  - id: one
    input: Go on.
    target: done
    setup: 'curl -s -m 2 http://192.0.2.7/ || true'
    mock:
      - {tool_calls: [{name: bash, arguments: {command: 'curl -s -m 2 http://listed.example/'}}]}
      - {tool_calls: [{name: submit, arguments: {answer: done}}]}
";
    let path = write(place.path(), "task.yaml", task);
    let (code, result, err) = ended(place.path(), &[&path]);
    assert_eq!(code, 0, "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().or(result["logs"][0].as_str()).unwrap());
    let events = log["samples"][0]["events"].as_array().unwrap();
    let network = |event: &&Value| event["data"]["kind"] == "network" && event["data"]["service"] == "agent";
    let reasons: Vec<&str> =
        events.iter().filter(network).filter_map(|event| event["data"]["record"]["reason"].as_str()).collect();
    // By address: not by the list, as setup has it; and nothing at all, as the agent has it.
    assert!(reasons.contains(&"raw_address") && reasons.contains(&"no_network"), "{reasons:?} {events:#?}");
    gone(Duration::from_secs(30));
}

fn task(place: &Path, samples: usize) -> String {
    composed(place, &three("command: [sleep, '7654']"));
    let mut task = String::from(
        r"
name: several
profile: T0.H1.N2
sandbox: [docker, compose.yaml]
approval: ci
tools: [bash, submit]
model: mock/scripted
solver: {kind: agent, max_steps: 10}
scorer: includes
limits: {memory: 64MiB, pids: 64, time: 5m}
dataset:
",
    );
    for number in 0..samples {
        let _ = writeln!(
            task,
            "  - id: s{number}\n    input: Go on.\n    target: done\n    files: {{'db:/tmp/of-{number}': 'file {number}', /note: 'note {number}'}}\n    mock:\n      - {{tool_calls: [{{name: bash, arguments: {{command: 'cat /note; echo; curl -s -m 5 http://web:8080/page; curl -s -m 5 telnet://db:5432 </dev/null; sleep 1'}}}}]}}\n      - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}"
        );
    }
    write(place, "task.yaml", &task)
}

#[test]
fn ten_samples_of_five_services_at_the_same_time() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let path = task(place.path(), 10);
    let (code, result, err) = ended(place.path(), &[&path, "--max-samples", "10"]);
    assert_eq!(code, 0, "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().or(result["logs"][0].as_str()).unwrap());
    let samples = log["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 10);
    for (number, sample) in samples.iter().enumerate() {
        let said = sample["messages"].to_string();
        assert!(said.contains("seeded\\nhello from db"), "{said}");
        let events = sample["events"].as_array().unwrap();
        let told = |service: &str, action: &str| {
            events.iter().any(|event| {
                event["data"]["kind"] == "service"
                    && event["data"]["service"] == service
                    && event["data"]["action"] == action
            })
        };
        for (service, action) in
            [("web", "healthy"), ("seed", "ended"), ("db", "started"), ("agent", "started"), ("agent", "stopped")]
        {
            assert!(told(service, action), "sample {number}: {service} {action}");
        }
        let network = |event: &&Value| event["data"]["kind"] == "network" && event["data"]["service"] == "agent";
        assert!(events.iter().any(|event| network(&event)), "records say whose they are");
    }
    gone(Duration::from_secs(30));
    assert_eq!(volumes(), "");
}

#[test]
fn containers_say_which_sample_they_are_for() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let path = task(place.path(), 1);
    let labels = std::thread::scope(|scope| {
        let evaluation = scope.spawn(|| ended(place.path(), &[&path]));
        let mut seen = std::collections::BTreeSet::new();
        while !evaluation.is_finished() {
            let format = "{{.Label \"ringfence.sample\"}}";
            let all = docker(&["ps", "--filter", "label=ringfence.sample", "--format", format]);
            seen.extend(all.lines().map(str::to_owned));
            std::thread::sleep(Duration::from_millis(50));
        }
        let (code, result, err) = evaluation.join().unwrap();
        assert_eq!(code, 0, "{err} {result}");
        seen
    });
    assert!(!labels.is_empty() && labels.iter().all(|label| label.contains("s0")), "{labels:?}");
    gone(Duration::from_secs(30));
}

#[test]
fn the_default_services_own_process_begins_anew_for_the_agent_and_not_for_the_scorer() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    composed(place.path(), &three("command: [sh, -c, 'echo run >>/srv/runs; exec sleep 7654']"));
    let task = r#"
name: phases
profile: T0.H1.N2
sandbox: [docker, compose.yaml]
approval: ci
tools: [bash, submit]
model: mock/scripted
solver: {kind: agent, max_steps: 10}
scorer:
  - kind: script
    script: '! pgrep -f "sleep 7[0-9]*4" && ! pgrep -f "sleep 5[0-9]*1" && test "$(wc -l </srv/runs)" = 2 && curl -s -m 5 http://web:8080/page'
dataset:
  - id: one
    input: Go on.
    target: done
    setup: 'while ! test -e /srv/runs; do sleep 0.1; done; (setsid sleep 4321 >/dev/null 2>&1 &)'
    mock:
      - {tool_calls: [{name: bash, arguments: {command: 'while test "$(wc -l </srv/runs)" != 2; do sleep 0.1; done; pgrep -fc "sleep 7[0-9]*4"; pgrep -fc "sleep 4[0-9]*1"; (setsid sleep 5321 >/dev/null 2>&1 &)'}}]}
      - {tool_calls: [{name: submit, arguments: {answer: done}}]}
"#;
    let path = write(place.path(), "task.yaml", task);
    let (code, result, err) = ended(place.path(), &[&path]);
    assert_eq!(code, 0, "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().or(result["logs"][0].as_str()).unwrap());
    let sample = &log["samples"][0];
    let said = sample["messages"].to_string();
    assert!(said.contains("1\\n0"), "its own runs, what setup started is gone: {said}");
    assert!(sample["scores"].to_string().contains("\"C\""), "{}", sample["scores"]);
    gone(Duration::from_secs(30));
}

#[test]
fn killed_runners_leave_no_service_and_no_volume() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let file = composed(place.path(), &three("stdin_open: true"));
    for _ in 0..2 {
        let mut command = common::command(place.path());
        command.args(["run", "--compose", &file, "--pull", "never", "--", "sh", "-c", "echo on; sleep 1000"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(ours().len(), 5, "as many as services");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ours().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (code, _, err) = common::ringfence(place.path(), &["sandbox", "cleanup", "--provider", "docker"]);
    assert_eq!(code, 0, "{err}");
    gone(Duration::from_secs(20));
    assert_eq!(volumes(), "");
}

#[test]
fn the_plan_shows_every_service_and_what_is_left_out() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    composed(place.path(), &three("container_name: mine"));
    let document = "profile: T0.H1.N1\nsandbox: [docker, compose.yaml]\napproval: ci\nnetwork: {allow_domains: [listed.example]}\n";
    let path = write(place.path(), "profile.yaml", document);
    let (code, out, err) = common::ringfence(place.path(), &["--json", "plan", &path]);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let plan = &told["plan"];
    let services = plan["services"].as_object().unwrap();
    assert_eq!(services.keys().collect::<Vec<_>>(), ["db", "lonely", "seed", "web"]);
    let id = |image: &str| docker(&["image", "inspect", "--format", "{{.Id}}", image]);
    assert_eq!(plan["image"]["reference"], format!("{DEBIAN}@{}", id(DEBIAN)));
    assert_eq!(services["db"]["image"]["reference"], format!("{STATIC}@{}", id(STATIC)));
    assert_eq!(
        (&services["db"]["network"]["level"], &services["lonely"]["network"]["level"]),
        (&"N1".into(), &"N2".into())
    );
    let notes = plan["notes"].to_string();
    assert!(notes.contains("service `agent`: `container_name` is left out"), "{notes}");
    assert!(notes.contains("service `db`: `ports` is left out"), "{notes}");
}

#[test]
fn a_document_states_services_of_its_own() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let context = place.path().join("served");
    std::fs::create_dir(&context).unwrap();
    std::fs::write(context.join("Dockerfile"), format!("FROM {STATIC}\nCOPY page /srv/page\nEXPOSE 8000\nCMD [\"/busybox\", \"httpd\", \"-f\", \"-p\", \"8000\", \"-h\", \"/srv\"]\n")).unwrap();
    std::fs::write(context.join("page"), "of its own\n").unwrap();
    docker(&["build", "--network", "none", "--tag", "ringfence/served", &context.display().to_string()]);
    let document = format!(
        "profile: T0.H1.N2\nsandbox: docker\nimage: {DEBIAN}\napproval: ci\nservices: {{site: {{image: ringfence/served}}}}\n"
    );
    let path = write(place.path(), "profile.yaml", &document);
    let script = "for n in 1 2 3 4 5 6 7 8 9 10; do curl -s -m 5 http://site:8000/page && exit; sleep 0.2; done";
    let (code, out, err) =
        common::ringfence(place.path(), &["run", "--profile", &path, "--pull", "never", "--", "sh", "-c", script]);
    assert_eq!((code, out.as_str()), (0, "of its own\n"), "{err}");
}

#[test]
fn verify_proves_every_service() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let text = format!(
        "services:\n  agent: {{image: {STATIC}, x-default: true}}\n  db: {{image: {STATIC}, network_mode: none, volumes: ['v:/v']}}\nvolumes: {{v: {{}}}}\n"
    );
    let file = composed(place.path(), &text);
    let arguments = ["--json", "verify", "--fast", "--compose", &file, "--pull", "never", "T0.H1.N1"];
    let (code, out, err) = common::ringfence(place.path(), &arguments);
    assert_eq!(code, 0, "{err} {out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["services"]["agent"]["zones"]["agent"]["observed"], "T0.H1.N1", "{report:#}");
    assert_eq!(report["services"]["db"]["zones"]["service db"]["observed"], "T0.H1.N2", "{report:#}");
    gone(Duration::from_secs(20));
    assert_eq!(volumes(), "", "what nobody shares ends with its container");
}
