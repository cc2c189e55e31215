//! `run` as a user runs it, with real sandboxes, and what is left when the runner is killed.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The command: this build's, or the one that a lane points to.
fn ringfence(arguments: &[&str]) -> Command {
    let program =
        std::env::var_os("RINGFENCE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_ringfence")), PathBuf::from);
    let mut command = Command::new(program);
    command.arg("run").args(arguments).env("RINGFENCE_CANARY", "secret");
    command
}

fn run(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child =
        ringfence(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not read its input closes it early.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_command_runs_with_its_own_exit_code() {
    assert_eq!(run(&["--", "sh", "-c", "id -u; exit 7"], ""), (7, "0\n".into(), String::new()));
    assert_eq!(run(&["--", "sh", "-c", "kill -9 $$"], "").0, 137);
    assert_eq!(run(&["--", "sh", "-c", "echo out; echo err >&2"], ""), (0, "out\n".into(), "err\n".into()));
}

#[test]
fn streams_are_passed_through() {
    let input = "x".repeat(300_000);
    assert_eq!(run(&["--", "cat"], &input), (0, input, String::new()));
}

#[test]
fn only_granted_entries_are_set() {
    let (code, out, _) = run(&["--env", "GRANTED=a b", "--", "env"], "");
    assert_eq!(code, 0);
    let mut names: Vec<&str> = out.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["GRANTED", "HOME", "LANG", "PATH", "USER"]);
    assert!(out.contains("GRANTED=a b") && !out.contains("secret"));
}

#[test]
fn mounts_are_read_only_unless_they_say_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("f"), "host\n").unwrap();
    let source = directory.path().display();
    let (code, out, _) =
        run(&["--mount", &format!("{source}:/data"), "--", "sh", "-c", "cat /data/f; echo x > /data/g"], "");
    assert_eq!((code != 0, out.as_str()), (true, "host\n"));
    let (code, ..) = run(&["--mount", &format!("{source}:/data:rw"), "--", "sh", "-c", "echo inside > /data/g"], "");
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(directory.path().join("g")).unwrap(), "inside\n");
}

/// An agent with a writable mount replaces a subdirectory by a link to a place of the host, for the operator's next mount.
#[test]
fn a_link_planted_for_the_next_run_is_not_followed() {
    let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (work, other) = (work.path().canonicalize().unwrap(), other.path().canonicalize().unwrap());
    std::fs::create_dir_all(work.join("out/deep")).unwrap();
    std::fs::create_dir(other.join("deep")).unwrap();
    let secret = other.join("deep/secret");
    std::fs::write(&secret, "the operator's").unwrap();
    let plant = format!("rm -r /work/out && ln -s {} /work/out", other.display());
    let mount = format!("{}:/work:rw", work.display());
    assert_eq!(run(&["--mount", &mount, "--", "sh", "-c", &plant], ""), (0, String::new(), String::new()));
    // As the last part of a source, in the middle of it, and as the root of an image.
    for source in ["out", "out/", "out/deep"] {
        let mount = format!("{}:/o:rw", work.join(source).display());
        let (code, out, err) = run(&["--mount", &mount, "--", "sh", "-c", "cat /o/*; echo planted > /o/secret"], "");
        assert_eq!((code, out.as_str()), (3, ""), "{source}: {err}");
        let (link, target) = (work.join("out").display().to_string(), other.display().to_string());
        assert!(err.contains(&link) && err.contains(&target) && err.contains("hint: "), "{source}: {err}");
    }
    let image = format!("dir:{}", work.join("out").display());
    let (code, _, err) = run(&["--image", &image, "--", "/bin/true"], "");
    assert!(code == 3 && err.contains("is a link"), "{code} {err}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "the operator's");
    // Who means it names the target.
    let mount = format!("{}:/o", other.join("deep").display());
    assert_eq!(run(&["--mount", &mount, "--", "cat", "/o/secret"], "").1, "the operator's");
}

#[test]
fn mounts_that_give_keys_away_need_the_operators_dangerous_word() {
    let pem = "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n";
    for (path, contents) in [
        (".ssh/config", ""),
        ("deep/er/.aws/credentials", ""),
        (".kube/config", ""),
        (".docker/config.json", "{}"),
        (".netrc", ""),
        (".gnupg/x", ""),
        (".config/gcloud/x", ""),
        (".config/ringfence/signing.key", ""),
        ("keys/id_rsa", ""),
        ("tls/server.pem", pem),
        (".npmrc", "//r.example.org/:_authToken=abc\n"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().canonicalize().unwrap().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, contents).unwrap();
        let mount = format!("{}:/data", directory.path().display());
        let (code, out, err) = run(&["--mount", &mount, "--", "ls", "/data"], "");
        assert_eq!((code, out.as_str()), (3, ""), "{path}: {err}");
        let offending = |shown: &Path| err.contains(&format!("{} ", shown.display()));
        assert!(file.ancestors().take(3).any(offending), "{path}: {err}");
        assert!(err.contains("--dangerously-mount-secrets"), "{path}: {err}");
        let allowed = ["--dangerously-mount-secrets", "--mount", &mount, "--", "ls", "-a", "/data"];
        let (code, out, err) = run(&allowed, "");
        assert!(code == 0 && out.contains(path.split('/').next().unwrap()), "{path}: {code} {err}");
    }
    // An image's directory is no other way in; what packages bring along below usr is not searched.
    let image = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(image.path().join("usr/lib/python3/test")).unwrap();
    std::fs::write(image.path().join("usr/lib/python3/test/key.pem"), pem).unwrap();
    let named = format!("dir:{}", image.path().display());
    assert_eq!(run(&["--image", &named, "--", "/bin/true"], "").0, 127, "only the program is missing");
    std::fs::create_dir_all(image.path().join("root/.aws")).unwrap();
    let (code, _, err) = run(&["--image", &named, "--", "/bin/true"], "");
    assert!(code == 3 && err.contains("root/.aws holds credentials"), "{code} {err}");
    assert!(err.contains("--dangerously-mount-secrets"), "{err}");
    assert_eq!(run(&["--dangerously-mount-secrets", "--image", &named, "--", "/bin/true"], "").0, 127);
    // A document cannot say it.
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("p.yaml");
    std::fs::write(&document, "profile: T0.H1.N2\napproval: ci\ndangerously_mount_secrets: true\n").unwrap();
    assert_eq!(run(&["--profile", document.to_str().unwrap(), "--", "true"], "").0, 2);
}

/// An agent that can write to its image's directory changes what later samples, and its own scorer, run.
#[test]
fn a_writable_mount_shares_no_files_with_the_directory_of_an_image() {
    let outer = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(outer.path().join("image/usr")).unwrap();
    let image = format!("dir:{}/image", outer.path().display());
    for shared in ["image", "image/usr", "."] {
        let source = outer.path().join(shared).canonicalize().unwrap();
        let with = |mode: &str| {
            let mount = format!("{}:/shared{mode}", source.display());
            run(&["--image", &image, "--mount", &mount, "--", "/bin/true"], "")
        };
        let (code, _, err) = with(":rw");
        assert!(code == 3 && err.contains("shares files with the image dir:"), "{shared}: {code} {err}");
        let (code, _, err) = with("");
        assert!(code == 127, "only the program is missing: {shared}: {code} {err}");
    }
}

#[test]
fn homes_and_our_own_directories_are_not_mounted() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    for name in ["homes/me/project", "configuration/ringfence", "store", "other"] {
        std::fs::create_dir_all(place.join(name)).unwrap();
    }
    let mounted = |source: &Path, more: &[&str]| {
        let mount = format!("{}:/data", source.display());
        let mut command = ringfence(&[more, &["--mount", &mount, "--", "true"]].concat());
        command.env("HOME", place.join("homes/me")).env("XDG_CONFIG_HOME", place.join("configuration"));
        let output = command.env("RINGFENCE_STORE", place.join("store")).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (source, why) in [
        ("homes/me", "whole home"),
        ("homes", "whole home"),
        ("configuration", "Ringfence's configuration"),
        ("configuration/ringfence", "Ringfence's configuration"),
        ("store", "the store of images"),
    ] {
        let (code, err) = mounted(&place.join(source), &[]);
        assert!(
            code == 3 && err.contains(why) && err.contains("--dangerously-mount-secrets"),
            "{source}: {code} {err}"
        );
        assert_eq!(mounted(&place.join(source), &["--dangerously-mount-secrets"]).0, 0, "{source}");
    }
    for source in ["homes/me/project", "other"] {
        assert_eq!(mounted(&place.join(source), &[]), (0, String::new()), "{source}");
    }
}

#[test]
fn an_ordinary_project_is_mounted_as_it_is() {
    let project = tempfile::tempdir().unwrap();
    for (path, contents) in [
        (".git/config", "[core]\n"),
        (".config/settings.toml", ""),
        (".npmrc", "//r.example.org/:_authToken=${NPM_TOKEN}\n"),
        ("certs/ca.pem", "-----BEGIN CERTIFICATE-----\n"),
        ("answers.key", "1: a\n"),
        ("keys/id_rsa.pub", "ssh-rsa AAAA\n"),
        ("src/main.rs", "fn main() {}\n"),
    ] {
        let file = project.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, contents).unwrap();
    }
    // Links in what is mounted lead nowhere on the host.
    std::os::unix::fs::symlink("/etc", project.path().join("link")).unwrap();
    let output = ringfence(&["--mount", ".:/work", "--workdir", "/work", "--", "cat", "src/main.rs", "link/hostname"])
        .current_dir(project.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fn main() {}\nsandbox\n", "{output:?}");
}

/// Another user makes the directory of running sandboxes first, so that theirs is found or none is.
#[test]
fn a_squatted_runtime_directory_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    if is_root() {
        return; // Root's is in /run, where only root makes anything.
    }
    let place = tempfile::tempdir().unwrap();
    let uid = rustix::process::geteuid().as_raw();
    // What others made is not private: they can write to it.
    for squatted in ["tmp", "runtime", "runtime/ringfence"] {
        std::fs::create_dir(place.path().join(squatted)).unwrap();
    }
    let old = place.path().join("tmp").join(format!("ringfence-{uid}"));
    std::fs::create_dir(&old).unwrap();
    for open in [&old, &place.path().join("runtime"), &place.path().join("runtime/ringfence")] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::create_dir(place.path().join("home")).unwrap();
    let with = |mut command: Command, home: &Path| {
        command.env("TMPDIR", place.path().join("tmp")).env("XDG_RUNTIME_DIR", place.path().join("runtime"));
        command.env("HOME", home);
        command
    };
    let home = place.path().join("home");
    let mut child = with(ringfence(&["--", "sh", "-c", "echo ready; cat"]), &home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    let mut list = with(Command::new(ringfence(&[]).get_program()), &home);
    let listed = list.args(["sandbox", "list"]).output().unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.lines().any(|line| line.starts_with(&format!("{}-", child.id()))), "{listed}");
    assert_eq!(std::fs::read_dir(&old).unwrap().count(), 0);
    if !Path::new(&format!("/run/user/{uid}")).exists() {
        // Without any place it runs, and says that it is not listed.
        let output = with(ringfence(&["--", "true"]), &place.path().join("tmp/nowhere")).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && err.contains("will not find this sandbox"), "{err}");
    }
}

#[test]
fn a_directory_is_an_image() {
    let image = tempfile::tempdir().unwrap();
    let (code, _, err) = run(&["--image", &format!("dir:{}", image.path().display()), "--", "/bin/true"], "");
    assert_eq!(code, 127, "{err}");
    assert!(err.contains("No such file"), "{err}");
    assert_eq!(std::fs::read_dir(image.path()).unwrap().count(), 0, "the image itself is not changed");
}

#[test]
fn errors_say_what_to_do() {
    for (arguments, code, says) in [
        (&["--allow", "a.example.org", "--", "true"][..], 3, "allows no network"),
        (&["--profile", "T0.H1.N1", "--allow", "*", "--", "true"], 2, "every name"),
        (&["--profile", "T0.H1.N0", "--", "true"], 3, "justification"),
        (&["--network-log", "/nonexistent/log", "--", "true"], 2, "cannot write the network log"),
        (&["--dns-upstream", "nowhere", "--", "true"], 2, "--dns-upstream"),
        (&["--profile", "T0.H0.N2", "--", "true"], 3, "cannot enforce N2"),
        (&["--profile", "T0.H0.N0", "--", "true"], 3, "justification"),
        (&["--profile", "T2.H1.N2", "--", "true"], 3, "grants no arbitrary execution"),
        (&["--image", "localhost:1/no-such-image:3.12", "--", "true"], 4, "no image `localhost:1/no-such-image:3.12`"),
        (&["--image", "archive:/nonexistent.tar", "--", "true"], 2, "cannot read /nonexistent.tar"),
        (&["--profile", "T9.H1.N1", "--", "true"], 2, "hint:"),
        (&["--profile", "/nonexistent.yaml", "--", "true"], 2, "document that exists"),
        (&["--mount", "/run:/x", "--", "true"], 2, "sockets"),
        (&["--mount", "/nonexistent-dir:/x", "--", "true"], 4, "/nonexistent-dir"),
        (&["--env", "1X=y", "--", "true"], 2, "letters"),
        (&["--user", "no-such-user", "--", "true"], 126, "no user"),
        (&["--workdir", "/no/such", "--", "true"], 127, "does not exist"),
        (&["--", "no-such-program"], 127, "No such file"),
        (&["true"], 2, "Usage"),
        (&[], 2, "hint: write it at the end"),
        (&["--no-entrypoint"], 2, "Usage"),
    ] {
        let (found, _, err) = run(arguments, "");
        assert_eq!(found, code, "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn a_timeout_ends_the_command() {
    let start = Instant::now();
    let (code, _, err) = run(&["--timeout", "500ms", "--", "sleep", "100"], "");
    assert_eq!(code, 124);
    assert!(err.contains("ended after 500ms"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn h0_needs_a_justification_and_has_no_isolation() {
    let (code, out, err) =
        run(&["--profile", "T0.H0.N0", "--justification", "a test", "--", "sh", "-c", "env; pwd"], "");
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains("secret"), "{out}");
}

#[test]
fn memory_is_bounded_or_refused() {
    let (code, _, err) = run(&["--memory", "64MiB", "--", "perl", "-e", "my $x = 'x' x 500_000_000"], "");
    if is_root() {
        assert_eq!(code, 137, "{err}");
    } else {
        assert!(code == 3 || code == 137, "{err}");
    }
}

/// A runner that a failing test does not leave behind.
struct Runner(Child);

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sandbox whose command prints one line and then sleeps; returns when the line is there.
fn start_sleeping(marker: u32) -> Runner {
    let script = format!("setsid sleep {marker} & echo ready; sleep {marker}");
    let mut child = ringfence(&["--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    Runner(child)
}

/// Processes of this user whose command line has `text`.
fn processes(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
        })
        .count()
}

fn groups(text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((directory, depth)) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir())
        {
            if entry.file_name().to_string_lossy().contains(text) {
                found.push(entry.path());
            }
            if depth < 6 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What is left after the limit is named, with what is in it.
///
/// A helper whose runner was killed can still be making a group when the others are gone: the groups must be absent
/// for half a second of looks, not for one.
fn wait_until_no_groups(text: &str, limit: Duration) {
    let deadline = Instant::now() + limit;
    let mut absent = Instant::now();
    while Instant::now() < deadline && absent.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(10));
        if !groups(text).is_empty() {
            absent = Instant::now();
        }
    }
    let left: Vec<(PathBuf, String)> = groups(text)
        .into_iter()
        .map(|group| (group.clone(), std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default()))
        .collect();
    assert!(left.is_empty(), "groups are left: {left:?}");
}

#[test]
fn a_killed_runner_leaves_nothing_within_2_seconds() {
    let marker = 400_000 + std::process::id();
    let mut runner = start_sleeping(marker);
    let group = format!("ringfence-{}-", runner.0.id());
    wait_until("both sleep", Duration::from_secs(5), || processes(&format!("sleep\0{marker}")) >= 2);
    assert_eq!(groups(&group).is_empty(), !is_root());
    let zygote = helpers_of(runner.0.id(), "ringfence-zygote");
    let gateway = helpers_of(runner.0.id(), "ringfence-gateway");
    assert_eq!((zygote.len(), gateway.len()), (1, 1), "two helpers");
    runner.0.kill().unwrap();
    runner.0.wait().unwrap();
    let limit = Duration::from_secs(2);
    wait_until("processes are left", limit, || processes(&format!("sleep\0{marker}")) == 0);
    for helper in [zygote[0], gateway[0]] {
        wait_until("a helper is left", limit, || has_ended(helper));
    }
    wait_until_no_groups(&group, limit);
}

/// Whether a process is gone, or a zombie: when an orphan is reaped is up to the machine's init, which may look once a second.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

fn sandbox_command(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(ringfence(&[]).get_program());
    let mut child = command
        .arg("sandbox")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The name on the list of the sandbox that this runner holds.
fn name_of(runner: &Runner) -> String {
    let prefix = format!("{}-", runner.0.id());
    let (code, out, err) = sandbox_command(&["list"], "");
    assert_eq!(code, 0, "{err}");
    let line = out.lines().find(|line| line.starts_with(&prefix)).unwrap_or_default().to_owned();
    assert!(line.contains("runs") && line.contains("T0.H1.N2 sh -c"), "{out}");
    line.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_running_sandbox_is_listed_joined_and_stopped() {
    let mut runner = start_sleeping(800_000 + std::process::id());
    let name = name_of(&runner);
    // In the same sandbox: the first command's processes are there.
    let (code, out, err) = sandbox_command(&["exec", &name, "--", "sh", "-c", "pgrep -c sleep; cat; exit 5"], "typed");
    assert_eq!((code, out.as_str()), (5, "2\ntyped"), "{err}");
    let big = "x".repeat(3 << 20);
    let (code, out, _) = sandbox_command(&["exec", &name, "--", "cat"], &big);
    assert_eq!((code, out.len()), (0, big.len()), "more than a window goes through");
    let (code, _, err) = sandbox_command(&["exec", &name, "--", "no-such-program"], "");
    assert_eq!(code, 127, "{err}");
    assert_eq!(sandbox_command(&["stop", &name], "").0, 0);
    assert_eq!(runner.0.wait().unwrap().code(), Some(4));
    let (code, _, err) = sandbox_command(&["exec", &name, "--", "true"], "");
    assert_eq!(code, 2);
    assert!(err.contains("no sandbox") && err.contains("hint:"), "{err}");
}

#[test]
fn cleanup_removes_what_a_killed_runner_left_and_nothing_else() {
    let mut killed = start_sleeping(900_000 + std::process::id());
    let alive = start_sleeping(950_000 + std::process::id());
    let (left, lives) = (name_of(&killed), name_of(&alive));
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    let (_, out, _) = sandbox_command(&["list"], "");
    assert!(out.lines().any(|line| line.starts_with(&left) && line.contains("left behind")), "{out}");
    let (code, _, err) = sandbox_command(&["cleanup"], "");
    assert_eq!(code, 0, "{err}");
    let (_, out, _) = sandbox_command(&["list"], "");
    assert!(!out.contains(&left) && out.contains(&lives), "{out}");
}

/// Runners killed at random moments, from before the first sandbox to after the command runs.
#[test]
fn runners_killed_at_random_leave_nothing() {
    let rounds = std::env::var("RINGFENCE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5_u32);
    for round in 0..rounds {
        let marker = 700_000 + std::process::id() + round;
        let mut runner = Runner(
            ringfence(&["--", "sleep", &marker.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        // Spread over the first 60 ms, in which everything happens; the same moments in every run.
        std::thread::sleep(Duration::from_millis(u64::from(round * 13 % 60)));
        let group = format!("ringfence-{}-", runner.0.id());
        runner.0.kill().unwrap();
        runner.0.wait().unwrap();
        // Two seconds are another test's promise. This one asks whether anything stays, on a starved machine too.
        let limit = Duration::from_secs(20);
        wait_until("processes are left", limit, || processes(&format!("sleep\0{marker}")) == 0);
        wait_until_no_groups(&group, limit);
    }
}

#[test]
fn a_killed_helper_takes_its_sandboxes_along() {
    let marker = 500_000 + std::process::id();
    let mut runner = start_sleeping(marker);
    let zygote = helpers_of(runner.0.id(), "ringfence-zygote");
    let pid = rustix::process::Pid::from_raw(i32::try_from(zygote[0]).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("processes are left", Duration::from_secs(2), || processes(&format!("sleep\0{marker}")) == 0);
    assert_eq!(runner.0.wait().unwrap().code(), Some(4), "a dead sandbox is a failure of the provider");
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    children.flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// The children of that name.
fn helpers_of(pid: u32, name: &str) -> Vec<u32> {
    let is_named = |child: &u32| {
        std::fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.starts_with(name.as_bytes()))
    };
    children_of(pid).into_iter().filter(is_named).collect()
}

#[test]
fn an_interrupt_ends_the_command_and_exits_130() {
    let marker = 600_000 + std::process::id();
    let mut runner = start_sleeping(marker);
    let pid = rustix::process::Pid::from_raw(i32::try_from(runner.0.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(runner.0.wait().unwrap().code(), Some(130));
    assert_eq!(processes(&format!("sleep\0{marker}")), 0);
}

#[test]
fn the_readers_end_ends_the_command() {
    let mut child = ringfence(&["--", "yes"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1000];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut some).unwrap();
    drop(child.stdout.take());
    wait_until("it goes on", Duration::from_secs(5), || child.try_wait().unwrap().is_some());
}

/// Runs with a limit of the shell's `ulimit`.
fn limited(limit: &str, arguments: &[&str]) -> (i32, String) {
    let runner = ringfence(arguments);
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limit} || exit 99; exec \"$@\""), "bash"]);
    command.arg(runner.get_program()).args(runner.get_args()).env("RUST_BACKTRACE", "0");
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn too_few_descriptors_are_named_with_the_number_that_is_needed() {
    let (code, err) = limited("-n 64", &["--", "true"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("RLIMIT_NOFILE allows 64") && err.contains("256") && err.contains("hint"), "{err}");
    let (code, err) = limited("-S -n 64", &["--", "true"]);
    assert_eq!(code, 0, "a soft limit is raised: {err}");
}

#[test]
fn too_few_processes_are_an_error_and_not_a_panic() {
    if is_root() {
        // The limit does not hold for root.
        return;
    }
    for most in [1, 2, 4, 6, 8, 12, 16, 20] {
        let start = Instant::now();
        let (code, err) = limited(&format!("-u {most}"), &["--", "true"]);
        assert!(!err.contains("panic"), "{most}: {err}");
        assert_eq!(code, 4, "{most}: {err}");
        assert!(err.contains("RLIMIT_NPROC"), "{most}: {err}");
        assert!(start.elapsed() < Duration::from_secs(20), "{most}: {err}");
    }
}

#[test]
fn a_full_disk_ends_the_command_and_is_an_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let spam = "while :; do echo x; echo y >&2; done";
    let output = ringfence(&["--", "sh", "-c", spam]).stdin(Stdio::null()).stdout(full()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write to standard output") && err.contains("No space left"), "{err}");
    // Nothing can be said, so the code alone must.
    let output = ringfence(&["--", "sh", "-c", spam]).stdin(Stdio::null()).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    if is_root() {
        let script = "mount -t tmpfs -o size=64k none /mnt && exec \"$@\" > /mnt/out";
        let runner = ringfence(&["--", "sh", "-c", spam]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(runner.get_program()).args(runner.get_args());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_starved_guest_does_not_turn_a_timeout_into_a_dead_sandbox() {
    if !is_root() {
        // Nothing bounds processes here: such a bomb would be the machine's.
        return;
    }
    timeout_of_fork_bombs("", &FORK_BOMBS);
}

/// Processes that double, and the same with a session for each.
pub(crate) const FORK_BOMBS: [&str; 2] =
    ["while (1) { fork }", "use POSIX; while (1) { if (!fork) { POSIX::setsid } }"];

/// Fork bombs end by their timeout, with these lines about the engine in their document.
pub(crate) fn timeout_of_fork_bombs(engine: &str, bombs: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("slow.yaml");
    // A tenth of a processor for 300 processes that never wait: as slow as a machine gets.
    let text = format!("profile: T0.H1.N2\n{engine}limits: {{cpu: 0.1, pids: 300, memory: 512MiB}}\n");
    std::fs::write(&document, text).unwrap();
    for bomb in bombs {
        let start = Instant::now();
        let arguments = ["--profile", document.to_str().unwrap(), "--timeout", "2s", "--", "perl", "-e", bomb];
        let (code, _, err) = run(&arguments, "");
        assert_eq!(code, 124, "{bomb}: {err}");
        assert!(start.elapsed() < Duration::from_secs(40), "{bomb}: {:?}", start.elapsed());
    }
}

#[test]
fn stopped_helpers_do_not_keep_the_runner() {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = |pid: u32| Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let marker = 800_000 + std::process::id();
    let mut interrupted = start_sleeping(marker);
    let mut timed_out = Runner(
        ringfence(&["--timeout", "4s", "--", "sh", "-c", &format!("echo ready; sleep {marker}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut ready = [0; 6];
    std::io::Read::read_exact(timed_out.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    for runner in [&interrupted, &timed_out] {
        let helpers = ["ringfence-zygote", "ringfence-gateway"].map(|name| helpers_of(runner.0.id(), name));
        assert!(helpers.iter().all(|found| found.len() == 1), "{helpers:?}");
        for helper in helpers.into_iter().flatten() {
            kill_process(pid(helper), Signal::STOP).unwrap();
        }
    }
    kill_process(pid(interrupted.0.id()), Signal::INT).unwrap();
    for runner in [&mut interrupted, &mut timed_out] {
        wait_until("the runner goes on", Duration::from_secs(90), || runner.0.try_wait().unwrap().is_some());
        assert_eq!(runner.0.wait().unwrap().code(), Some(4), "a helper that does not answer is the provider's failure");
    }
    wait_until("processes are left", Duration::from_secs(5), || processes(&format!("sleep\0{marker}")) == 0);
}
