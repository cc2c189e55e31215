//! Attacks on the scorer: what an agent leaves for the score script's programs to find, or to stumble over.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::common::evaluation::{dump, ended, write};
use crate::common::planted::{PLANT, SLOW_TO_END, TRY_ALL, works};
use serde_json::{Value, json};

/// A task with these samples: an id, what the agent runs, what it submits.
fn task(samples: &[(&str, &str, &str)], scorer: &Value, more: &str) -> String {
    let mut text = format!(
        "name: scorer\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nsolver: {{kind: agent, tools: [bash]}}\n\
         scorer: {scorer}\n{more}dataset:\n"
    );
    for (id, command, answer) in samples {
        let calls = json!([
            {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
            {"tool_calls": [{"name": "submit", "arguments": {"answer": answer}}]},
        ]);
        writeln!(text, "  - {{id: {id}, input: go, target: done, mock: {calls}}}").unwrap();
    }
    text
}

fn accuracy(result: &Value) -> f64 {
    result["results"]["scores"][0]["metrics"]["accuracy"]["value"].as_f64().unwrap_or(f64::NAN)
}

fn about(one: f64, other: f64, why: &Value) {
    assert!((one - other).abs() < 1e-9, "{one} is not {other}: {why}");
}

fn score<'a>(log: &'a Value, id: &str) -> &'a Value {
    let samples = log["samples"].as_array().unwrap();
    &samples.iter().find(|sample| sample["id"] == id).unwrap()["scores"]["script"]
}

#[test]
fn nothing_that_the_scorers_interpreters_read_by_default_is_the_agents() {
    let place = tempfile::tempdir().unwrap();
    let text = task(&[("one", PLANT, "done")], &json!({"kind": "script", "script": TRY_ALL}), "");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!(code, 0, "{err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let said = score(&log, "one")["explanation"].as_str().unwrap();
    let left = log["samples"][0]["messages"].to_string();
    assert!(said.contains("; fooled:\n"), "{said} {left}");
    assert!(left.contains(&works(crate::common::is_root())), "the attacks were made: {left}");
    for name in ["perl-debugger", "perl-prove", "locale", "locpath", "preload"] {
        assert!(said.contains(&format!(" {name}")), "{said}");
    }
    about(accuracy(&result), 0.0, &result);
    // What this host has was tried.
    for (program, name) in [
        ("python3", "python"),
        ("git", "git-left"),
        ("git", "git-fetch"),
        ("git", "git-signature"),
        ("bash", "bash"),
        ("perl", "perl"),
        ("node", "node"),
    ] {
        let is_there = std::path::Path::new("/usr/bin").join(program).exists();
        assert_eq!(said.contains(&format!(" {name}")), is_there, "{said}");
    }
}

/// A repository in /srv whose configuration names a program wherever git takes one for a fixed name. Each writes its own name to
/// /srv/owned. Of `out` only the name is left, so reading it means fetching it.
const REPOSITORY: &str = r#"
mkdir -p /srv/repo /srv/own /srv/other && cd /srv/repo
for name in promisor gpg gpgsm keygen ssh proxy alternates editor askpass pager hook credential named; do
    printf '#!/bin/sh\necho %s >> /srv/owned\nexit 1\n' $name > /srv/own/$name && chmod 755 /srv/own/$name
done
git init -q . && git init -q /srv/other
git config user.email a@b; git config user.name a; echo wrong > out; git add out; git commit -qm x
for kind in 'gpg -----BEGIN PGP SIGNATURE-----' 'gpgsm -----BEGIN SIGNED MESSAGE-----' 'keygen -----BEGIN SSH SIGNATURE-----'; do
    git cat-file commit HEAD | sed "3a gpgsig ${kind#* }\n x\n -----END" > /srv/signed
    sed -i "s/^ -----END/ $(echo "${kind#* }" | sed s/BEGIN/END/)/" /srv/signed
    git update-ref refs/tags/${kind%% *} "$(git hash-object -t commit -w /srv/signed)"
done
git config log.showSignature true; git config gpg.ssh.allowedSignersFile /dev/null
git config gpg.program /srv/own/gpg; git config gpg.x509.program /srv/own/gpgsm; git config gpg.ssh.program /srv/own/keygen
for key in core.pager pager.log pager.show; do git config $key /srv/own/pager; done
git config core.sshCommand /srv/own/ssh; git config core.gitProxy /srv/own/proxy; git config core.askPass /srv/own/askpass
git config core.editor /srv/own/editor; git config sequence.editor /srv/own/editor; git config credential.helper /srv/own/credential
git config core.fsmonitor /srv/own/hook; cp /srv/own/hook .git/hooks/post-index-change; cp /srv/own/hook .git/hooks/reference-transaction
git config core.alternateRefsCommand /srv/own/alternates; echo /srv/other/.git/objects > .git/objects/info/alternates
git config core.repositoryformatversion 1; git config extensions.partialClone origin; git config remote.origin.promisor true
git config remote.origin.url /srv/other; git config remote.origin.uploadpack /srv/own/promisor
cp -r /srv/repo /srv/named; cd /srv/named; echo more > out; git -c core.hooksPath=/dev/null commit -qam y
for setting in filter.own.clean filter.own.smudge diff.own.textconv diff.own.command diff.external merge.own.driver; do
    git config $setting "/srv/own/named"
done
echo '* filter=own diff=own merge=own' | tee .gitattributes > .git/info/attributes; touch out
cd /srv/repo; blob=$(git rev-parse HEAD:out); rm -f .git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-)
rm -f /srv/owned; git -C /srv/repo tag
"#;

/// Says which commands ran a program of the repository's; right only if one did.
const READ_REPOSITORY: &str = r#"
ran=
try() {
    rm -f /srv/owned
    "$@" >/dev/null 2>&1 </dev/null || true
    test ! -e /srv/owned || ran="$ran [${*#-C}: $(sort -u /srv/owned | tr '\n' ' ')]"
}
if git --version; then
    try git -C /srv/repo cat-file -p HEAD:out
    # What the documentation names as running no program at all, by names of the repository's choice neither.
    for place in /srv/repo /srv/named; do
        try git -C $place cat-file -e HEAD:out
        try git -C $place cat-file blob HEAD:out
        try git -C $place rev-parse HEAD
        try git -C $place ls-tree -r -l HEAD
        try git -C $place rev-list --objects --all
        try git -C $place for-each-ref
        try git -C $place merge-base HEAD gpg
        try git -C $place log
        try git -C $place diff --no-ext-diff --no-textconv gpg HEAD
    done
    for tag in gpg gpgsm keygen; do
        try git -C /srv/repo log -1 $tag
        try git -C /srv/repo show -s $tag
        try git -C /srv/repo verify-commit $tag
        try git -C /srv/repo log -1 --format=%G? $tag
    done
    try git -C /srv/repo status
    try git -C /srv/repo diff
    try git -C /srv/repo --paginate log
    try git -C /srv/repo rev-list --alternate-refs --all
    try git -C /srv/repo fetch
    try git -C /srv/repo ls-remote ssh://127.0.0.1:1/x
    try git -C /srv/repo ls-remote git://127.0.0.1:1/x
    try git -C /srv/repo commit --allow-empty
    # A script that allows protocols itself.
    try env GIT_ALLOW_PROTOCOL=ssh:git git -C /srv/repo ls-remote ssh://127.0.0.1:1/x
    try env GIT_ALLOW_PROTOCOL=ssh:git git -C /srv/repo ls-remote git://127.0.0.1:1/x
    try sh -c 'printf "protocol=https\nhost=h\n\n" | git -C /srv/repo credential fill'
    # git without GIT_NO_LAZY_FETCH, and with.
    try env -u GIT_NO_LAZY_FETCH git -C /srv/repo cat-file -p HEAD:out
    try env -u GIT_ALLOW_PROTOCOL git -C /srv/repo cat-file -p HEAD:out
fi
echo "ran:$ran"
git -C /srv/named diff >/dev/null 2>&1 || true
test ! -e /srv/owned || echo "of a name of its own:" $(sort -u /srv/owned)
test -n "$ran"
"#;

#[test]
fn git_that_reads_the_agents_repository_runs_no_program_that_its_configuration_names() {
    let place = tempfile::tempdir().unwrap();
    let text = task(&[("one", REPOSITORY, "done")], &json!({"kind": "script", "script": READ_REPOSITORY}), "");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    if std::path::Path::new("/usr/bin/git").exists() {
        let left = log["samples"][0]["messages"].to_string();
        assert!(left.contains(r"gpg\ngpgsm\nkeygen"), "the repository was made: {left}");
    }
    let said = score(&log, "one")["explanation"].as_str().unwrap();
    assert!(said.contains("ran:\n"), "{said}");
    // What the documentation says that nothing is done about.
    let is_there = std::path::Path::new("/usr/bin/git").exists();
    assert_eq!(said.contains("of a name of its own: named\n"), is_there, "{said}");
    about(accuracy(&result), 0.0, &result);
}

#[test]
fn what_a_task_puts_among_the_programs_is_the_scorers() {
    let place = tempfile::tempdir().unwrap();
    let script = "sh /usr/local/lib/check /srv/answer";
    let tamper = "echo wrong > /srv/answer; echo 'exit 0' > /usr/local/lib/check; cat /usr/local/lib/check";
    let samples = [("tampered", tamper, "done"), ("honest", "echo right > /srv/answer", "done")];
    let text = task(&samples, &json!({"kind": "script", "script": script}), "");
    let files = "files: {/usr/local/lib/check: 'grep -q right \"$1\"'}, mock:";
    let text = text.replace("mock:", files);
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!(code, 0, "{err}");
    about(accuracy(&result), 0.5, &result);
}

#[test]
fn what_the_agent_makes_impossible_to_judge_is_wrong_and_counts() {
    impossible_to_judge("", 5);
}

/// Samples that their script cannot judge, with these lines about the engine in their task.
pub(crate) fn impossible_to_judge(engine: &str, timeout: u32) {
    let place = tempfile::tempdir().unwrap();
    let script = "test \"$(cat /srv/answer)\" = right; test ! -e /srv/run || sh /srv/run; test \"$ANSWER\" = done";
    let huge = "x".repeat(200_000);
    let samples = [
        ("right", "echo right > /srv/answer", "done"),
        ("wrong", "echo wrong > /srv/answer", "done"),
        ("pipe", "mkfifo /srv/answer", "done"),
        ("socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/srv/answer\")'", "done"),
        ("killer", "echo right > /srv/answer; echo 'kill -9 $PPID' > /srv/run", "done"),
        ("nul", "echo right > /srv/answer", "do\0ne"),
        ("long", "echo right > /srv/answer", huge.as_str()),
        ("endless", "echo right > /srv/answer; echo 'exec sleep 600' > /srv/run", "done"),
    ];
    let scorer = json!({"kind": "script", "script": script, "timeout": timeout});
    let text = task(&samples, &scorer, &format!("{engine}limits: {{time: 2m}}\n"));
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    about(accuracy(&result), 1.0 / 8.0, &result);
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(score(&log, "right")["value"], "C");
    for (id, reason) in [
        ("wrong", Value::Null),
        ("pipe", json!("scorer_timeout")),
        ("socket", Value::Null),
        ("killer", json!("scorer_killed")),
        ("nul", Value::Null),
        ("long", Value::Null),
        ("endless", json!("scorer_timeout")),
    ] {
        assert_eq!((&score(&log, id)["value"], &score(&log, id)["reason"]), (&json!("I"), &reason), "{id}");
    }
    let said = score(&log, "nul")["explanation"].as_str().unwrap();
    assert!(said.contains("$ANSWER is not set") && said.contains("$ANSWER_FILE"), "{said}");
}

#[test]
fn an_answer_that_no_environment_holds_is_read_from_its_file() {
    let place = tempfile::tempdir().unwrap();
    let script = "test \"$(wc -c < \"$ANSWER_FILE\")\" -ge 3; test \"$(cat \"$TARGET_FILE\")\" = done; test -z \"$(ls -A)\"; \
                  test -z \"$(ls -A \"$HOME\")\"; test -w \"$TMPDIR\"";
    let huge = "x".repeat(700_000);
    let samples = [("short", "true", "abc"), ("long", "true", huge.as_str()), ("nul", "true", "a\0b")];
    let text = task(&samples, &json!({"kind": "script", "script": script}), "");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    about(accuracy(&result), 1.0, &result);
}

#[test]
fn an_answer_larger_than_the_disk_is_wrong() {
    let place = tempfile::tempdir().unwrap();
    let huge = "x".repeat(700_000);
    let samples = [("short", "true", "abc"), ("long", "true", huge.as_str())];
    let text = task(&samples, &json!({"kind": "script", "script": "true"}), "limits: {disk: 512KiB}\n");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    about(accuracy(&result), 0.5, &result);
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(score(&log, "long")["reason"], "scorer_blocked", "{}", score(&log, "long"));
}

#[test]
fn a_name_in_the_way_of_a_mount_does_not_keep_the_scorer_from_its_place() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let source = place.path().join("given");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("x"), "given").unwrap();
    std::fs::write(place.path().join("single"), "single").unwrap();
    let mounts = json!([
        format!("{}:/data/given", source.display()),
        format!("{}:/data/single", place.path().join("single").display()),
    ]);
    let samples = [
        ("link", "mv /data /gone && ln -s /etc /data", "done"),
        ("file", "mv /data /gone && touch /data", "done"),
        (
            "below",
            "mv /data /gone && mkdir /data && ln -s /etc /data/given && mkfifo /data/single && touch /data/own",
            "done",
        ),
        ("swapped", "mv /data /gone && mkdir /data /data/single && touch /data/given", "done"),
    ];
    let scorer = json!({"kind": "script", "script": "test \"$(cat /data/given/x /data/single)\" = givensingle"});
    let text = task(&samples, &scorer, &format!("mounts: {mounts}\n"));
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    for sample in log["samples"].as_array().unwrap() {
        let said = sample["messages"].to_string();
        assert!(!said.contains("cannot move") && !said.contains("busy"), "the attack was made: {said}");
    }
    about(accuracy(&result), 1.0, &result);
}

/// A script that names what it finds of these in `/`, and is right only if there is nothing.
fn absent(names: &[&str]) -> Value {
    let names = names.join(" ");
    let script = format!(
        "found=; for name in {names}; do if test -e \"/$name\" || test -L \"/$name\"; then found=\"$found $name\"; fi; done; \
         echo \"found:$found\"; test -z \"$found\""
    );
    json!({"kind": "script", "script": script})
}

#[test]
fn what_the_agent_makes_in_the_root_directory_is_not_the_scorers() {
    let place = tempfile::tempdir().unwrap();
    let files =
        ["Directory.Build.props", ".babelrc", "tsconfig.json", ".mocharc.yml", "bunfig.toml", "no-tool-knows-this"];
    let others = ["node_modules", ".config", "new", "link", "pipe", "socket", "empty"];
    let make = format!(
        "cd /; for name in {}; do echo x > \"$name\"; done; mkdir -p node_modules/check .config new empty; ln -s /etc link; \
         mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/socket\")'; ls -A /",
        files.join(" ")
    );
    let samples = [("one", make.as_str(), "done")];
    let text = task(&samples, &absent(&[&files[..], &others[..]].concat()), "");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let listed = log["samples"][0]["messages"].to_string();
    for name in files.iter().chain(&others) {
        assert!(listed.contains(name), "the attack was made: {listed}");
    }
    assert_eq!(score(&log, "one")["value"], "C", "{}", score(&log, "one"));
}

#[test]
fn what_was_in_the_root_directory_before_the_agent_is_the_scorers_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    // Larger than what could be copied for each scorer; executable; a link; a directory that the agent replaces.
    let setup = "head -c 9000000 /dev/zero > /large; printf '#!/bin/sh\\necho right\\n' > /tool; chmod 755 /tool; ln -s tool /name; \
                 mkdir /made /gone /swapped; echo old > /made/old; mkdir -m 1777 /shared; chown 7:8 /shared";
    let tamper = "echo x > /large; printf '#!/bin/sh\\necho wrong\\n' > /tool.new; chmod 755 /tool.new; mv /tool.new /tool; \
                  ln -sfn /etc/passwd /name; echo wrong > /declared; rm /removed; rm -r /gone /swapped; touch /swapped; \
                  echo left > /made/left; mkdir /work/sub; echo left > /work/sub/left; echo left > /shared/left";
    let check = "test \"$(wc -c < /large)\" = 9000000; test \"$(/tool)\" = right; test \"$(readlink /name)\" = tool; \
                 test \"$(cat /declared /removed)\" = \"original\"; test ! -e /gone; test ! -e /swapped; \
                 test \"$(cat /made/old /made/left /work/start /work/sub/left /shared/left | tr -d '\\n')\" = oldleftstartleftleft; \
                 test \"$(stat -c %a /shared)\" = 1777";
    let samples = [("one", tamper, "done")];
    let text = task(&samples, &json!({"kind": "script", "script": check}), "");
    let files = json!({"/declared": "orig", "/removed": "inal", "/work/start": "start"});
    let text = text.replace("mock:", &format!("files: {files}, setup: {}, mock:", json!(setup)));
    // A plain user has one id only.
    let text = if rustix::process::geteuid().is_root() { text } else { text.replace("chown 7:8 /shared", "true") };
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(score(&log, "one")["value"], "C", "{} {}", score(&log, "one"), log["samples"][0]["messages"]);
}

#[test]
fn directories_that_the_task_declares_are_seen_as_the_agent_left_them() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(place.path().join("given")).unwrap();
    std::fs::write(place.path().join("given/x"), "given").unwrap();
    let mount = format!("{}:/data/given", place.path().join("given").display());
    let command = "echo left > /data/left; echo left > /work/left; echo left > /repository/left";
    let script =
        "test \"$(cat /data/given/x /data/left /work/left /repository/left | tr -d '\\n')\" = givenleftleftleft";
    let text = task(
        &[("one", &format!("mkdir -p /repository; {command}"), "done")],
        &json!({"kind": "script", "script": script}),
        "",
    );
    let text = text.replace("mock:", "files: {/work/start: x}, mock:");
    let text =
        text.replace("dataset:\n", &format!("mounts: ['{mount}']\nfile_tools: {{root: /repository}}\ndataset:\n"));
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(score(&log, "one")["value"], "C", "{} {}", score(&log, "one"), log["samples"][0]["messages"]);
}

#[test]
fn a_name_that_is_hidden_and_in_the_way_of_a_mount_does_not_keep_the_scorer_from_its_place() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(place.path().join("given")).unwrap();
    std::fs::write(place.path().join("given/x"), "given").unwrap();
    let source = place.path().join("given").display().to_string();
    let mounts =
        json!([format!("{source}:/node_modules/given"), format!("{source}:/.config/a/b"), format!("{source}:/.git")]);
    let away = "mv /node_modules /gone && mv /.config /also && ";
    let samples = [
        ("below", "mkdir /node_modules && ln -s /etc /node_modules/given && mkdir /.config && touch /.config/a"),
        ("link", "ln -s /etc /node_modules && ln -s /gone /.config"),
        ("file", "touch /node_modules && mkfifo /.config"),
        ("deeper", "mkdir -p /node_modules/given /.config/a && touch /.config/a/b"),
    ];
    let samples = samples.map(|(id, command)| (id, format!("{away}{command}")));
    let samples: Vec<_> = samples.iter().map(|(id, command)| (*id, command.as_str(), "done")).collect();
    let check = "test \"$(cat /node_modules/given/x /.config/a/b/x /.git/x)\" = givengivengiven; test ! -e /gone";
    let text = task(&samples, &json!({"kind": "script", "script": check}), &format!("mounts: {mounts}\n"));
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    for sample in log["samples"].as_array().unwrap() {
        let said = sample["messages"].to_string();
        assert!(!said.contains("cannot") && !said.contains("busy"), "the attack was made: {said}");
    }
    about(accuracy(&result), 1.0, &log["samples"]);
}

#[test]
fn a_root_directory_full_of_names_does_not_keep_the_scorer_from_its_place() {
    let place = tempfile::tempdir().unwrap();
    let fill = "cd /; i=0; while mkdir d$i 2>/dev/null && : > f$i; do i=$((i+1)); done; rm -r f0 d0 f1 d1; exit 0";
    let text = task(
        &[("one", fill, "done")],
        &json!({"kind": "script", "script": "test ! -e /f5"}),
        "limits: {disk: 16MiB}\n",
    );
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    about(accuracy(&result), 1.0, &result);
}

/// A directory that is mounted writable as /out, with the options that grant it.
fn shared_directory(place: &std::path::Path) -> (std::path::PathBuf, String) {
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out = place.join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mounts = json!([format!("{}:/out:rw", out.display()), format!("{}:/seen", out.display())]);
    (out, format!("mounts: {mounts}\n"))
}

#[test]
fn a_socket_that_an_agent_leaves_in_a_writable_mount_keeps_no_sample_from_its_place() {
    let place = tempfile::tempdir().unwrap();
    let (out, mounts) = shared_directory(place.path());
    let leave = "python3 -c 'import socket\nfor kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:\n    \
                 s = socket.socket(socket.AF_UNIX, kind); s.bind(\"/out/left%d\" % kind); kind == 2 or s.listen()'";
    let samples = [("one", leave, "done"), ("two", "ls /out/left1", "done"), ("three", "true", "done")];
    let text = task(&samples, &json!({"kind": "script", "script": "test -S /out/left1"}), &mounts);
    let task = write(place.path(), "task.yaml", &text);
    let (code, result, err) = ended(place.path(), &[&task, "--allow-writable-mounts", "--max-samples", "1"]);
    assert!(out.join("left1").exists() && out.join("left5").exists(), "the attack was made");
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    about(accuracy(&result), 1.0, &result);
    // Planned anew, it is the operator's to look at.
    let (code, said, err) = ended(place.path(), &[&task, "--allow-writable-mounts"]);
    assert!(code == 3 && format!("{said}{err}").contains("holds the socket"), "{code} {said} {err}");
}

/// A helper that waited for such a process was taken for dead, and ended with the sandboxes of other samples.
#[test]
fn a_process_that_the_kernel_takes_long_to_end_harms_no_other_sample() {
    let place = tempfile::tempdir().unwrap();
    let (_, mounts) = shared_directory(place.path());
    let slow = SLOW_TO_END.replace("DIRECTORY", "/out");
    let samples = [("one", slow.as_str(), "wrong"), ("two", "sleep 30", "done"), ("three", "sleep 30", "done")];
    let scorer = json!([{"kind": "includes"}, {"kind": "script", "script": "exit 1"}]);
    let text = task(&samples, &scorer, &format!("limits: {{tool_timeout: 60}}\n{mounts}"));
    let task = write(place.path(), "task.yaml", &text);
    let (code, result, err) = ended(place.path(), &[&task, "--allow-writable-mounts", "--max-samples", "3"]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    for sample in log["samples"].as_array().unwrap() {
        let expected = if sample["id"] == "one" { ["I", "I"] } else { ["C", "I"] };
        let values = ["includes", "script"].map(|scorer| sample["scores"][scorer]["value"].as_str().unwrap());
        assert_eq!(values, expected, "{} {}", sample["id"], sample["scores"]);
    }
}

#[test]
fn a_socket_of_the_host_that_appears_in_a_writable_mount_is_not_reached_and_its_samples_count() {
    host_socket_in_a_mount("");
}

/// A socket of the host in a writable mount, with these lines about the engine in the task.
pub(crate) fn host_socket_in_a_mount(engine: &str) {
    let place = tempfile::tempdir().unwrap();
    let (out, mounts) = shared_directory(place.path());
    let wait = "touch /out/begun; while [ ! -e /out/go ]; do sleep 0.02; done";
    let call = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/out/host\")' && touch /out/reached";
    let samples = [("one", wait, "done"), ("two", call, "done"), ("three", call, "done")];
    let scorer = json!([{"kind": "includes"}, {"kind": "script", "script": "true"}]);
    let more = format!("{engine}limits: {{tool_timeout: 60}}\n{mounts}");
    let task = write(place.path(), "task.yaml", &task(&samples, &scorer, &more));
    let listener = std::thread::spawn(move || {
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while !out.join("begun").exists() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let listener = std::os::unix::net::UnixListener::bind(out.join("host")).unwrap();
        std::fs::set_permissions(out.join("host"), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(out.join("go"), "").unwrap();
        (listener, out)
    });
    let (code, result, err) = ended(place.path(), &[&task, "--allow-writable-mounts", "--max-samples", "1"]);
    let (listener, out) = listener.join().unwrap();
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err() && !out.join("reached").exists(), "nothing connected, not even we");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let samples = log["samples"].as_array().unwrap();
    let score = |id: &str, scorer: &str| samples.iter().find(|one| one["id"] == id).unwrap()["scores"][scorer].clone();
    // What is judged by words needs no place; all else is wrong, with the reason.
    assert_eq!((&score("one", "includes")["value"], &score("one", "script")["value"]), (&json!("C"), &json!("I")));
    for (id, scorer) in [("one", "script"), ("two", "script"), ("two", "includes"), ("three", "includes")] {
        let score = score(id, scorer);
        assert_eq!((&score["value"], &score["reason"]), (&json!("I"), &json!("mount_blocked")), "{id} {score}");
        assert!(score["explanation"].as_str().unwrap().contains("out/host"), "{score}");
    }
    assert!(samples.iter().all(|sample| sample["error"].is_null()), "{log}");
}

/// What an agent leaves without rights in a writable mount keeps no later sample of the same user from starting.
#[test]
fn closed_sockets_and_directories_in_a_writable_mount_are_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let (out, mounts) = shared_directory(place.path());
    let leave = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/out/s\")'; chmod 0 /out/s; \
                 mkdir /out/d; touch /out/d/f; chmod 0 /out/d";
    let samples = [("one", leave, "done"), ("two", "true", "done")];
    let scorer = json!({"kind": "script", "script": "true"});
    let task = write(place.path(), "task.yaml", &task(&samples, &scorer, &mounts));
    let (code, result, err) = ended(place.path(), &[&task, "--allow-writable-mounts", "--max-samples", "1"]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    about(accuracy(&result), 1.0, &result);
    let mode = |name: &str| std::fs::symlink_metadata(out.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("s"), mode("d")), (0, 0), "as they were left");
    std::fs::set_permissions(out.join("d"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn directories_too_deep_to_be_searched_in_a_writable_mount_count_as_wrong() {
    too_deep_in_a_mount("");
}

/// A writable mount that cannot be searched, with these lines about the engine in the task.
pub(crate) fn too_deep_in_a_mount(engine: &str) {
    let place = tempfile::tempdir().unwrap();
    let (_, mounts) = shared_directory(place.path());
    let dig = "cd /out; for i in $(seq 140); do mkdir d; cd d; done";
    let samples = [("one", dig, "done"), ("two", "true", "done")];
    let scorer = json!({"kind": "script", "script": "true"});
    let task = write(place.path(), "task.yaml", &task(&samples, &scorer, &format!("{engine}{mounts}")));
    let (code, result, err) = ended(place.path(), &[&task, "--allow-writable-mounts", "--max-samples", "1"]);
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    for id in ["one", "two"] {
        assert_eq!(score(&log, id)["reason"], "mount_blocked", "{}", score(&log, id));
    }
    about(accuracy(&result), 0.0, &result);
}

/// Stops the first process of the sandbox in which a command with this argument runs: what a guest that is starved looks like.
fn starve(argument: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    let found = loop {
        assert!(std::time::Instant::now() < deadline, "the command is not there");
        let processes =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let is_it = |pid: &String| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line == format!("sleep\0{argument}\0").as_bytes())
        };
        match processes.into_iter().find(is_it) {
            Some(pid) => break pid,
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    let field = |pid: &str, name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let mut pid = found;
    while field(&pid, "NSpid:") != "1" {
        pid = field(&pid, "PPid:");
    }
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
}

#[test]
fn a_guest_that_does_not_end_its_command_ends_the_agents_phase_and_the_sample_counts() {
    let place = tempfile::tempdir().unwrap();
    let argument = (86_400 + u64::from(std::process::id())).to_string();
    let calls = json!([
        {"tool_calls": [{"name": "bash", "arguments": {"command": format!("echo right > /srv/answer; sleep {argument}")}}]},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo wrong > /srv/answer"}}]},
        {"tool_calls": [{"name": "submit", "arguments": {"answer": "done"}}]},
    ]);
    let text = format!(
        "name: starved\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nsolver: {{kind: agent, tools: [bash]}}\n\
         limits: {{tool_timeout: 1, time: 2m}}\nscorer: [includes, {{kind: script, script: 'grep -q right /srv/answer'}}]\n\
         dataset: [{{id: one, input: go, target: done, mock: {calls}}}]\n"
    );
    let task = write(place.path(), "task.yaml", &text);
    let starving = std::thread::spawn(move || starve(&argument));
    let (code, result, err) = ended(place.path(), &[&task]);
    starving.join().unwrap();
    assert_eq!((code, &result["failed"]), (0, &json!(0)), "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let sample = &log["samples"][0];
    assert_eq!((&sample["error"], &sample["limit"]["type"]), (&Value::Null, &json!("time")), "{sample}");
    // What it left is judged as it is; it submitted nothing.
    assert_eq!(
        (&sample["scores"]["script"]["value"], &sample["scores"]["includes"]["value"]),
        (&json!("C"), &json!("I"))
    );
}
