//! Wishes that would weaken a profile, each refused by its name and place; and records of what is left out.

#![expect(clippy::panic, reason = "a test may stop at its own set-up")]

use crate::common::{outcome, read, read_among, service};
use compose::ReadError;
use compose::rules::{SERVICE_KEYS, Treatment};

/// The controls that a file with these keys is refused by.
fn refused_by(keys: &str) -> Vec<String> {
    match read(&service(keys)) {
        Err(ReadError::Refused(refused)) => refused.unmet.into_iter().map(|unmet| unmet.control).collect(),
        other => panic!("{keys} is not refused: {}", outcome(&other)),
    }
}

#[test]
fn every_way_to_weaken_a_profile_is_refused_by_name() {
    for (keys, control) in [
        ("privileged: true", "privileged"),
        ("privileged: ${TRUE}", "privileged"),
        ("privileged: \"yes\"", "privileged"),
        ("network_mode: host", "network_mode"),
        ("network_mode: service:other", "network_mode"),
        ("network_mode: \"container:abc\"", "network_mode"),
        ("pid: host", "pid"),
        ("pid: service:other", "pid"),
        ("ipc: host", "ipc"),
        ("ipc: shareable", "ipc"),
        ("uts: host", "uts"),
        ("userns_mode: host", "userns_mode"),
        ("cgroup: host", "cgroup"),
        ("cgroup_parent: /", "cgroup_parent"),
        ("cap_add: [SYS_ADMIN]", "cap_add"),
        ("cap_add: [cap_net_raw]", "cap_add"),
        ("cap_add: [SYS_PTRACE]", "cap_add"),
        ("cap_add: [all]", "cap_add"),
        ("devices: [/dev/kvm]", "devices"),
        ("device_cgroup_rules: ['c 1:3 mr']", "device_cgroup_rules"),
        ("gpus: all", "gpus"),
        ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}", "devices"),
        ("runtime: nvidia", "runtime"),
        ("security_opt: [seccomp=unconfined]", "security_opt"),
        ("security_opt: ['seccomp:./mine.json']", "security_opt"),
        ("security_opt: ['apparmor:unconfined']", "security_opt"),
        ("security_opt: [label=disable]", "security_opt"),
        ("security_opt: [systempaths=unconfined]", "security_opt"),
        ("security_opt: ['no-new-privileges:false']", "security_opt"),
        ("volumes: ['/var/run/docker.sock:/var/run/docker.sock']", "volumes"),
        ("volumes: ['/var/run/docker.sock:/x:ro']", "volumes"),
        ("volumes: ['./my.sock:/x:ro']", "volumes"),
        ("volumes: [{type: bind, source: /run/containerd/containerd.sock, target: /x, read_only: true}]", "volumes"),
        ("volumes: ['/:/host:ro']", "volumes"),
        ("volumes: ['/etc/passwd:/x:ro']", "volumes"),
        ("volumes: ['/proc:/x:ro']", "volumes"),
        ("volumes: ['/data:/x:ro']", "volumes"),
        ("volumes: ['~/.ssh:/x:ro']", "volumes"),
        ("volumes: ['./.ssh:/x:ro']", "volumes"),
        ("volumes: ['../.ssh:/x:ro']", "volumes"),
        ("volumes: ['./a/../.aws/x:/x:ro']", "volumes"),
        ("volumes: ['/a/../etc:/x:ro']", "volumes"),
        ("volumes: ['../../x:/x:ro']", "volumes"),
        ("volumes: ['./a/../../../x:/x:ro']", "volumes"),
        ("volumes: ['./x:/x']", "volumes"),
        ("volumes: ['./x:/x:ro,shared']", "volumes"),
        ("volumes: ['./x:/proc/x:ro']", "volumes"),
        ("volumes: ['/dev']", "volumes"),
        ("volumes: ['./x:/.ringfence/guest:ro']", "volumes"),
        ("volumes: [{type: bind, source: ./x, target: /x, read_only: true, bind: {propagation: rshared}}]", "volumes"),
        ("tmpfs: ['/x:suid']", "tmpfs"),
        ("tmpfs: [/sys]", "volumes"),
        ("volumes_from: [other]", "volumes_from"),
        ("env_file: /etc/shadow", "env_file"),
        ("env_file: ../../secret.env", "env_file"),
        ("env_file: missing.env", "env_file"),
        ("build: https://example.com/x.git", "build.context"),
        ("build: /home", "build.context"),
        ("build: ../..", "build.context"),
        ("build: {context: ., dockerfile: /etc/passwd}", "build.dockerfile"),
        ("build: {context: ., dockerfile: ../../Dockerfile}", "build.dockerfile"),
        ("build: {context: ., network: host}", "build.network"),
        ("build: {context: ., ssh: [default]}", "ssh"),
        ("build: {context: ., privileged: true}", "privileged"),
        ("ulimits: {rtprio: 99}", "ulimits"),
        ("sysctls: {net.ipv4.ip_forward: 1}", "sysctls"),
        ("oom_kill_disable: true", "oom_kill_disable"),
        ("use_api_socket: true", "use_api_socket"),
        ("networks: {default: {ipv4_address: 10.0.0.1}}", "ipv4_address"),
        ("scale: 2", "scale"),
        ("deploy: {replicas: 3}", "replicas"),
        ("secrets: [x]", "secrets"),
        ("configs: [x]", "configs"),
        ("extends: {service: other}", "extends"),
    ] {
        assert_eq!(refused_by(keys), [format!("compose.{control}")], "{keys}");
    }
}

#[test]
fn every_key_that_is_refused_is_refused_and_off_is_off() {
    for rule in SERVICE_KEYS.iter().filter(|rule| rule.treatment == Treatment::Refused) {
        assert_eq!(refused_by(&format!("{}: [x]", rule.key)), [format!("compose.{}", rule.key)]);
        for off in ["false", "[]", "{}", "", "null"] {
            assert_eq!(outcome(&read(&service(&format!("{}: {off}", rule.key)))), "read\n", "{} {off}", rule.key);
        }
    }
}

#[test]
fn every_key_that_is_ignored_is_on_record() {
    for rule in SERVICE_KEYS.iter().filter(|rule| rule.treatment == Treatment::Ignored) {
        let expected = format!("read\nignored 4:5 {}: {}\n", rule.key, rule.why);
        assert_eq!(outcome(&read(&service(&format!("{}: x", rule.key)))), expected);
    }
}

#[test]
fn refusals_of_the_whole_file() {
    let base = "services: {default: {image: x}}\n";
    for (text, control) in [
        ("secrets: {a: {file: /etc/shadow}}", "secrets"),
        ("configs: {a: {file: ./x}}", "configs"),
        ("networks: {a: {external: true}}", "external"),
        ("networks: {a: {driver: host}}", "networks"),
        ("networks: {a: {driver: macvlan}}", "networks"),
        ("volumes: {a: {external: true}}", "external"),
        ("volumes: {a: {driver_opts: {type: none, o: bind, device: /}}}", "driver_opts"),
        ("volumes: {a: {driver: nfs}}", "volumes"),
        ("include: [/etc/compose.yaml]", "include"),
        ("include: [{path: [a.yaml, b.yaml]}]", "include"),
    ] {
        match read(&format!("{base}{text}\n")) {
            Err(ReadError::Refused(refused)) => {
                assert_eq!(refused.unmet.len(), 1, "{text}");
                assert_eq!(refused.unmet[0].control, format!("compose.{control}"), "{text}");
            }
            other => panic!("{text} is not refused: {}", outcome(&other)),
        }
    }
}

#[test]
fn refusals_say_who_where_and_why() {
    let text = "\
services:
  a:
    image: x
    privileged: true
    cap_add: [CHOWN, NET_ADMIN]
    volumes: [/var/run/docker.sock:/s, ./x:/x]
  b:
    image: x
    network_mode: host
    security_opt: ['no-new-privileges:false']
    runtime: runsc
include: [part.yaml]
";
    let part = "services: {c: {image: x, pid: host}}\n";
    insta::assert_snapshot!(outcome(&read_among(text, &[("part.yaml", part)])));
}

#[test]
fn records_say_what_is_left_out() {
    let text = "\
version: '3.8'
x-inspect_k8s_sandbox: {allow_domains: [pypi.org]}
x-mine: {anything: $goes}
services:
  a:
    image: x
    container_name: me
    ports: ['0:80', 8080, '127.0.0.1:5353:53/udp', {target: 22, published: '2222'}]
    labels: {a: b}
    extra_hosts: ['host.docker.internal:host-gateway', 'a.example=10.0.0.1']
    pids_limit: -1
    runtime: runc
    x-note: $1
    depends_on: {b: {condition: service_started, restart: true}}
  b: {image: x}
  c: {image: x, profiles: [debug], privileged: true, labels: [a]}
";
    insta::assert_snapshot!(outcome(&read(text)));
}
