//! What well-written files come to.

#![expect(clippy::panic, reason = "a test may stop at its own set-up")]

use std::time::Duration;

use crate::common::{outcome, read, read_among, service};
use compose::{
    Access, Attachment, Condition, Dockerfile, Dropped, HealthTest, Image, MountSource, Network, Origin, Project,
    Protocol, Pull, Restart, Service, Ulimit,
};

fn project(text: &str, files: &[(&str, &str)]) -> Project {
    let result = read_among(text, files);
    result.unwrap_or_else(|_| panic!("{}", outcome(&read_among(text, files))))
}

fn one(keys: &str) -> Service {
    project(&service(keys), &[]).services.remove(0)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn inspects_own_file_is_read() {
    let found = one("command: 'tail -f /dev/null'\ninit: true\nnetwork_mode: none\nstop_grace_period: 1s");
    assert_eq!(found.command.as_ref().unwrap().value, words(&["tail", "-f", "/dev/null"]));
    assert!(found.init);
    assert_eq!(found.attachment, Attachment::None);
    assert_eq!(found.stop_grace_period.unwrap().value, Duration::from_secs(1));
}

#[test]
fn texts_and_numbers_mean_the_same_amounts() {
    for keys in [
        "mem_limit: 2g\ncpus: 0.5\npids_limit: 100\nshm_size: 1gb",
        "mem_limit: 2147483648\ncpus: '0.5'\npids_limit: '100'\nshm_size: 1073741824",
        "deploy: {resources: {limits: {memory: 2G, cpus: '0.5', pids: 100}}}\nshm_size: ${S:-1024m}",
        "mem_limit: 2048m\ndeploy: {resources: {limits: {memory: 2G, cpus: 0.50, pids: 100}}}\nshm_size: 1g",
    ] {
        let limits = one(keys).limits;
        let amounts = [limits.memory, limits.millicpus, limits.processes, limits.shared_memory];
        assert_eq!(amounts.map(|amount| amount.unwrap().value), [2 << 30, 500, 100, 1 << 30], "{keys}");
    }
    let limits = one("mem_limit: 1g\nmemswap_limit: 2g\nmem_reservation: 512m").limits;
    let amounts = [limits.memory_and_swap, limits.memory_kept];
    assert_eq!(amounts.map(|amount| amount.unwrap().value), [2 << 30, 512 << 20]);
    assert!(read(&service("mem_limit: 1g\ndeploy: {resources: {limits: {memory: 2g}}}")).is_err());
    let ulimits = one("ulimits: {stack: -1, nofile: {soft: 10, hard: 20}}").ulimits;
    assert_eq!(ulimits["stack"].value, Ulimit { soft: None, hard: None });
    assert_eq!(ulimits["nofile"].value, Ulimit { soft: Some(10), hard: Some(20) });
}

#[test]
fn variables_come_from_everywhere_in_order() {
    let text = service(
        "env_file: [a.env, {path: b.env, format: raw}, {path: none.env, required: false}]\n\
         environment: {OWN: own, NUMBER: 1.5, YES: yes, BOOL: true, SET: , MISSING: , A: over, TIME: 12:30, DAY: 2024-01-02, FIVE: 5, DOT: $DOT, EXPANDED: '${SET}-$$'}",
    );
    let files = [(".env", "DOT=dot\nSET=inner"), ("a.env", "A=1\nB=1\nC=$SET\n"), ("b.env", "B='2'\n")];
    let found = project(&text, &files);
    let variables = found.services[0].variables();
    let expected = [
        ("A", "over"),
        ("B", "'2'"),
        ("BOOL", "true"),
        ("C", "value"),
        ("DAY", "2024-01-02"),
        ("DOT", "dot"),
        ("EXPANDED", "value-$"),
        ("FIVE", "5"),
        ("NUMBER", "1.5"),
        ("OWN", "own"),
        ("SET", "value"),
        ("TIME", "12:30"),
        ("YES", "yes"),
    ];
    assert_eq!(variables.into_iter().collect::<Vec<_>>(), expected);
    let taken: Vec<_> = found.variables.iter().map(|(name, origin)| (name.as_str(), *origin)).collect();
    assert_eq!(taken, [("DOT", Origin::DotEnv), ("MISSING", Origin::Nowhere), ("SET", Origin::Environment)]);
    let over = found.services[0].environment_over(&words(&["PATH=/bin", "A=image", "broken"]));
    assert_eq!(
        (over["PATH"].as_str(), over["A"].as_str(), over.len()),
        ("/bin", "over", found.services[0].environment.len() + 1)
    );
    let list = one("environment: [A=b=c, SET, MISSING, 'EMPTY=']");
    assert_eq!(list.variables().into_iter().collect::<Vec<_>>(), [("A", "b=c"), ("EMPTY", ""), ("SET", "value")]);
}

#[test]
fn anchors_and_merges_are_honoured() {
    let text = "\
x-common: &common
  image: x
  init: true
  environment: &env {A: 1}
services:
  default:
    <<: *common
    environment: {<<: *env, B: 2}
  other:
    <<: [*common, {init: false, tty: true}]
    image: y
";
    let found = project(text, &[]);
    let [default, other] = &found.services[..] else { panic!() };
    assert!(default.init && other.init && other.tty);
    assert_eq!(default.variables().into_iter().collect::<Vec<_>>(), [("A", "1"), ("B", "2")]);
    assert!(matches!(&other.image, Image::Named(name) if name.value == "y"));
}

#[test]
fn builds_have_a_context_and_instructions() {
    let read_build = |keys: &str| match project(&format!("services: {{default: {{build: {keys}}}}}"), &[])
        .services
        .remove(0)
        .image
    {
        Image::Built { build, .. } => *build,
        Image::Named(_) => panic!("{keys}"),
    };
    let build = read_build(".");
    assert_eq!((build.context.value.to_string().as_str(), build.dockerfile), (".", Dockerfile::At(None)));
    let build = read_build(
        "{context: ../gmail, dockerfile: a/gmail.Dockerfile, args: {A: '${SET}', SET: }, target: t, no_cache: true}",
    );
    assert_eq!(build.context.value.to_string(), "../gmail");
    assert!(
        matches!(build.dockerfile, Dockerfile::At(Some(path)) if path.value.to_string() == "../gmail/a/gmail.Dockerfile")
    );
    let args: Vec<_> = build.args.iter().map(|(name, value)| (name.as_str(), value.value.as_str())).collect();
    assert_eq!(args, [("A", "value"), ("SET", "value")]);
    assert!(build.no_cache && !build.pull && !build.without_network);
    assert!(
        matches!(read_build("{dockerfile_inline: FROM x}").dockerfile, Dockerfile::Inline(text) if text.value == "FROM x")
    );
    let both = one("build: .\nx-local: true\npull_policy: always");
    assert!(matches!(&both.image, Image::Built { tag: Some(tag), .. } if tag.value == "x"));
    assert_eq!(both.pull.unwrap().value, Pull::Never);
}

#[test]
fn mounts_of_every_kind() {
    let text = format!(
        "{}volumes: {{data: , more: {{driver: local}}}}\n",
        service(
            "volumes:\n- data:/a\n- ./conf/x:/etc/x:ro\n- /anonymous\n- {type: volume, source: more, target: /b, read_only: true, volume: {subpath: s}}\n\
             - {type: tmpfs, target: /c, tmpfs: {size: 1m, mode: '1777'}}\n- {type: bind, source: y, target: /d/, read_only: true}\n\
             tmpfs: ['/run:size=64m,mode=755,uid=5,noexec,ro', /dev/shm]"
        )
    );
    let found = project(&text, &[]);
    let shown: Vec<String> = found.services[0]
        .mounts
        .iter()
        .map(|mount| {
            let access = if mount.value.access == Access::ReadOnly { "ro" } else { "rw" };
            let source = match &mount.value.source {
                MountSource::Bind(path) => format!("bind {path}"),
                MountSource::Volume { name, subpath, .. } => format!("volume {name} {subpath:?}"),
                MountSource::Unnamed => "unnamed".into(),
                MountSource::Tmpfs(tmpfs) => {
                    format!("{:?} {:?} {:?} {:?}", tmpfs.size, tmpfs.mode, tmpfs.uid, tmpfs.exec)
                }
            };
            format!("{} {access} {source}", mount.value.target)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn health_has_three_shapes() {
    let test = |keys: &str| one(&format!("healthcheck: {keys}")).health.unwrap().value.test.unwrap();
    assert_eq!(test("{test: curl x}"), HealthTest::Shell("curl x".into()));
    assert_eq!(test("{test: [CMD-SHELL, curl x]}"), HealthTest::Shell("curl x".into()));
    assert_eq!(test("{test: [CMD, curl, x]}"), HealthTest::Command(words(&["curl", "x"])));
    assert_eq!(test("{test: [NONE]}"), HealthTest::Disabled);
    assert_eq!(test("{test: x, disable: true}"), HealthTest::Disabled);
    let health = one("healthcheck: {interval: 1m30s, timeout: 500ms, retries: 5, start_period: 60s}").health;
    let health = health.unwrap().value;
    assert_eq!((health.interval, health.timeout), (Some(Duration::from_secs(90)), Some(Duration::from_millis(500))));
    assert_eq!((health.retries, health.start_period), (Some(5), Some(Duration::from_mins(1))));
    assert_eq!(health.longest_wait(), Duration::from_secs(513));
    assert_eq!(compose::Health::default().longest_wait(), Duration::from_mins(3));
    assert_eq!(health.test, None);
}

#[test]
fn services_start_in_layers() {
    let found = project(
        "services:\n  a: {image: x, depends_on: [b, c]}\n  b: {image: x, depends_on: {d: {condition: service_healthy}}}\n  \
         c: {image: x}\n  d: {image: x}\n  e: {image: x, depends_on: {gone: {required: false}, a: {condition: service_completed_successfully}}}\n",
        &[],
    );
    let layers: Vec<Vec<&str>> =
        found.start_layers().iter().map(|layer| layer.iter().map(|name| name.as_str()).collect()).collect();
    assert_eq!(layers, [vec!["c", "d"], vec!["b"], vec!["a"], vec!["e"]]);
    assert_eq!(found.services[1].depends_on[0].condition, Condition::Healthy);
}

#[test]
fn networks_decide_who_reaches_whom() {
    let found = project(
        "services:\n  default: {image: x, networks: [front]}\n  web: {image: x, networks: {front: {aliases: [site]}, back: {}}}\n  \
         db: {image: x, networks: {back: {aliases: [sql]}}}\n  alone: {image: x}\n  silent: {image: x, network_mode: none}\n  \
         old: {image: x, network_mode: bridge}\nnetworks:\n  front: {driver: bridge}\n  back: {internal: true}\n",
        &[],
    );
    let reach: Vec<String> = found
        .services
        .iter()
        .map(|service| {
            let near = found.neighbours(service);
            let near: Vec<String> =
                near.iter().map(|near| near.names.iter().copied().collect::<Vec<_>>().join("/")).collect();
            format!("{} {} [{}]", service.name, found.reaches_outside(service), near.join(" "))
        })
        .collect();
    assert_eq!(
        reach,
        [
            "default true [site/web]",
            "web true [default db/sql]",
            "db false [web]",
            "alone true []",
            "silent false []",
            "old true []"
        ]
    );
    let levels = found.services.iter().map(|service| found.network_level(service, profile::Network::N1).to_string());
    assert_eq!(levels.collect::<Vec<_>>(), ["N1", "N1", "N2", "N1", "N2", "N1"]);
    let networks: Vec<_> = found.networks.iter().map(|(name, network)| (name.as_str(), *network)).collect();
    assert_eq!(networks, [("back", Network::Internal), ("default", Network::Open), ("front", Network::Open)]);
}

#[test]
fn the_default_is_marked_or_called_so_or_the_first() {
    for (text, default, records) in [
        ("a: {image: x}\n  default: {image: x}", "default", 0),
        ("default: {image: x}\n  b: {image: x, x-default: true}", "b", 0),
        ("b: {image: x}\n  a: {image: x}", "b", 1),
        ("only: {image: x}", "only", 0),
    ] {
        let found = project(&format!("services:\n  {text}\n"), &[]);
        assert_eq!((found.default.as_str(), found.ignored.len()), (default, records), "{text}");
    }
}

#[test]
fn ports_hosts_and_rights() {
    let found = one(
        "expose: [80, '8000-8010']\nports: ['0:443', {target: 53, protocol: udp}]\nextra_hosts: ['a.example:127.0.0.1', 'b=[::1]']\n\
         cap_drop: [ALL]\ncap_add: [CAP_CHOWN]\nsecurity_opt: ['no-new-privileges:true']\nrestart: no\nuser: 1000:1000",
    );
    let ports: Vec<String> = found.ports.iter().map(|port| port.value.to_string()).collect();
    assert_eq!(ports, ["80", "8000-8010", "443", "53/udp"]);
    assert!(found.ports[1].value.holds(8005, Protocol::Tcp));
    let hosts: Vec<String> =
        found.extra_hosts.iter().map(|host| format!("{} {}", host.value.0, host.value.1)).collect();
    assert_eq!(hosts, ["a.example 127.0.0.1", "b ::1"]);
    assert_eq!((found.dropped, found.added[0].value.name()), (Dropped::All, "CHOWN"));
    assert_eq!((found.restart.unwrap().value, found.user.unwrap().value), (Restart::No, "1000:1000".to_owned()));
}

#[test]
fn included_files_see_paths_from_where_they_are() {
    let main = "include: [{path: ../servers/chat.yaml}]\nservices: {default: {build: ., depends_on: [chat], networks: [net]}}\n";
    let chat = "services: {chat: {build: {context: data, dockerfile: D}, volumes: ['./c:/c:ro'], networks: [net], environment: {V: $V}}}\nnetworks: {net: {internal: true}}\n";
    let found = project(main, &[("../servers/chat.yaml", chat), ("../servers/.env", "V=near"), (".env", "V=far")]);
    let chat = &found.services[1];
    assert_eq!(chat.file.as_deref(), Some("../servers/chat.yaml"));
    assert!(matches!(&chat.image, Image::Built { build, .. } if build.context.value.to_string() == "../servers/data"));
    assert!(matches!(&chat.mounts[0].value.source, MountSource::Bind(path) if path.to_string() == "../servers/c"));
    assert_eq!(chat.variables()["V"], "near");
    assert_eq!(found.default.as_str(), "default");
}

#[test]
fn commands_meet_those_of_the_image() {
    let found = one("command: [serve, 80]\nentrypoint: ''");
    assert_eq!(found.argv(&words(&["sh", "-c"]), &words(&["x"])), words(&["serve", "80"]));
    let found = one("entrypoint: [tini, --]");
    assert_eq!(found.argv(&words(&["sh"]), &words(&["x"])), words(&["tini", "--"]));
}

#[test]
fn numbers_that_are_not_what_they_look_like_are_mistakes() {
    for value in ["0123", "0x10", "3.10", "1.0", "1e3", "1_000", "+5"] {
        let found = outcome(&read(&service(&format!("environment: {{A: {value}}}"))));
        assert!(found == "read\n" || found.contains("a number is not the text that it looks like"), "{value}: {found}");
        if found == "read\n" {
            assert_eq!(one(&format!("environment: {{A: {value}}}")).variables()["A"], value);
        }
    }
    for value in ["5", "-5", "3.25", "'0123'", "12345678901"] {
        let found = one(&format!("environment:\n  A: {value} # comment"));
        assert_eq!(found.variables()["A"], value.trim_matches('\''), "{value}");
    }
    let merged = project(
        "x-e: &e {A: 5}\nservices: {a: {image: x, environment: {<<: *e, B: 6}}, b: {image: x, environment: *e}}",
        &[],
    );
    assert_eq!(merged.services[0].variables().into_iter().collect::<Vec<_>>(), [("A", "5"), ("B", "6")]);
}

#[test]
fn names_that_begin_like_notes_are_names() {
    let text = "services:\n  a: {image: x, networks: {x-inner: {}}, environment: {x-note: $SET}, x-note: {b: $}}\n\
                networks: {x-inner: {internal: true}}\n";
    let found = project(text, &[]);
    let service = &found.services[0];
    assert!(!found.reaches_outside(service), "its network is an internal one");
    assert_eq!(service.variables().get("x-note"), Some(&"value"));
}

#[test]
fn what_a_daemon_is_told_of_the_runners_variables_is_known() {
    let told = |keys: &str, dotenv: &str| {
        let found = project(&format!("services: {{a: {{{keys}}}}}\n"), &[(".env", dotenv)]);
        found.told_daemon.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(told("image: 'x:${SET}', environment: {A: $TRUE}", ""), ["SET"]);
    assert_eq!(told("build: {context: ., args: [SET]}", ""), ["SET"]);
    assert_eq!(told("build: {context: ., args: {A: '${SET:-}'}}", ""), ["SET"]);
    assert_eq!(told("build: {context: ., dockerfile_inline: 'RUN echo ${SET}'}", ""), ["SET"]);
    assert_eq!(told("image: 'x:${SAMPLE_METADATA_ID}'", ""), [""; 0], "what the sample says of itself");
    assert_eq!(told("image: 'x:${TAG}'", "TAG=v1"), [""; 0], "what the task itself says");
    assert_eq!(told("image: 'x:${TAG}'", "TAG=${SET}"), ["SET"], "whichever way it takes");
    assert_eq!(told("image: 'x:${TAG:-v1}', environment: {A: $SET, image: $SET, build: $SET}", ""), [""; 0]);
}
