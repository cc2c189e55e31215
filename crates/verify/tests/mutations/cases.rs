//! All cases, and what each must come to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mutation::Mutation;
use serde_json::Value;

use crate::runner::ALONE;
use crate::table::{Row, Users, documented, row};

/// A user without rights.
const PLAIN: &str = "23456";
/// How long a case may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// Cases at the same time: most of what they do is waiting.
const AT_ONCE: usize = 2;

/// What a runner came to.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Runs the cases whose names hold one of the filters, and counts like any other test program.
pub(crate) fn run(filters: &[&str]) -> ExitCode {
    let place = tempfile::tempdir().unwrap();
    let program = copied(place.path());
    let cases = cases(&program);
    let wanted: Vec<&(String, Check)> =
        cases.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|part| name.contains(part))).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, check)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (begun, result) = (Instant::now(), check());
                    let seconds = begun.elapsed().as_secs_f32();
                    println!("test {name} ... {} ({seconds:.1} s)", if result.is_ok() { "ok" } else { "FAILED" });
                    if let Err(why) = result {
                        failed.lock().unwrap().push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    for why in &failed {
        println!("\n{why}");
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {} passed; {} failed", wanted.len() - failed.len(), failed.len());
    ExitCode::from(u8::from(!failed.is_empty()))
}

/// This program where a plain user may execute it.
fn copied(place: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let program = place.join("mutations");
    std::fs::copy("/proc/self/exe", &program).unwrap();
    for path in [place, &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    program
}

fn cases(program: &Path) -> Vec<(String, Check)> {
    let mut cases: Vec<(String, Check)> = vec![
        ("every_program_of_this_build_is_marked".into(), Box::new(every_program_of_this_build_is_marked)),
        ("the_documentation_lists_the_mutations".into(), Box::new(the_documentation_lists_the_mutations)),
    ];
    let is_root = rustix::process::geteuid().is_root();
    // Whoever is no root runs as they are.
    for user in if is_root { &["root", PLAIN][..] } else { &["self"] } {
        let suffix = if *user == PLAIN { "_as_a_plain_user" } else { "" };
        let start = |mutation: Option<&str>| {
            let (program, user, mutation) = (program.to_owned(), (*user).to_owned(), mutation.map(str::to_owned));
            move || verified(&program, &user, mutation.as_deref())
        };
        let whole = start(None);
        cases.push((
            format!("nothing_taken_away{suffix}"),
            Box::new(move || nothing_taken_away_fails_nothing(&whole()?)),
        ));
        let unknown = start(Some("no-such-thing"));
        cases.push((format!("an_unknown_name{suffix}"), Box::new(move || an_unknown_name_is_refused(&unknown()?))));
        for row in Mutation::ALL.iter().copied().map(row) {
            if row.users == Users::All || *user == "root" {
                let (name, taken) = (row.mutation.id().replace('-', "_"), start(Some(row.mutation.id())));
                cases.push((
                    format!("{name}{suffix}"),
                    Box::new(move || a_control_taken_away_fails_exactly_its_own_probes(&row, &taken()?)),
                ));
            }
        }
    }
    cases
}

/// Runs a verification in a process of its own.
fn verified(program: &Path, user: &str, mutation: Option<&str>) -> Result<Ended, String> {
    let mut command = Command::new(program);
    command.arg(ALONE).arg(program).arg(user).env_clear();
    if let Some(mutation) = mutation {
        command.env(mutation::VARIABLE, mutation);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| error.to_string())?;
    let ended = in_time(child)?;
    if ended.err.contains(mutation::MARKER) { Ok(ended) } else { Err(format!("it is not loud: {}", ended.err)) }
}

/// Waits for its end, and ends it when its time is up.
fn in_time(mut child: Child) -> Result<Ended, String> {
    use std::io::Read as _;
    fn read(stream: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(stream) = stream {
                let _ = stream.take(16 << 20).read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    }
    let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("it took too long".into());
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    Ok(Ended { code: status.code(), out: text(out), err: text(err) })
}

/// The probes of a record by verdict.
fn by_verdict(ended: &Ended) -> Result<BTreeMap<String, Vec<Value>>, String> {
    let report: Value = serde_json::from_str(&ended.out).map_err(|_| format!("{}{}", ended.out, ended.err))?;
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for probed in report["probes"].as_array().ok_or("no probes")? {
        found.entry(probed["verdict"].as_str().unwrap_or_default().to_owned()).or_default().push(probed.clone());
    }
    Ok(found)
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// A case.
fn nothing_taken_away_fails_nothing(ended: &Ended) -> Result<(), String> {
    let found = by_verdict(ended)?;
    let unmet = || format!("{:#?} {:#?}", found.get("fail"), found.get("unknown"));
    expect(ended.code == Some(0) && !found.contains_key("fail") && !found.contains_key("unknown"), unmet)
}

/// A case.
fn an_unknown_name_is_refused(ended: &Ended) -> Result<(), String> {
    let named = ended.err.contains("names no mutation: no-such-thing");
    expect(ended.code == Some(78) && named, || format!("{:?} {}", ended.code, ended.err))
}

/// What the taken control's probes say, and that nobody else's says anything.
/// A case.
fn a_control_taken_away_fails_exactly_its_own_probes(row: &Row, ended: &Ended) -> Result<(), String> {
    let found = by_verdict(ended)?;
    let of = |verdict: &str| found.get(verdict).map(Vec::as_slice).unwrap_or_default();
    let controls = |probes: &[Value]| -> BTreeSet<String> {
        probes.iter().map(|probed| probed["control"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let own = BTreeSet::from([row.control.id().to_owned()]);
    let all = || format!("code {:?}, failed {:#?}, unknown {:#?}", ended.code, of("fail"), of("unknown"));
    expect(ended.code == Some(5), || format!("another code: {}", all()))?;
    expect(controls(of("fail")) == own, || format!("other controls fail: {}", all()))?;
    let seen = of("fail").iter().find(|probed| probed["id"] == row.probe);
    expect(seen.is_some(), || format!("`{}` does not see it: {}", row.probe, all()))?;
    let evidence = |probed: &Value| probed["evidence"].as_str().is_some_and(|text| !text.is_empty());
    expect(of("fail").iter().all(evidence), || format!("no evidence: {}", all()))?;
    // Where the sandbox has no network of its own, nothing serves it, and nothing of it can be shown.
    let unserved = |probed: &Value| row.mutation == Mutation::HostNetwork && probed["axis"] == "network";
    let others = of("unknown").iter().filter(|probed| probed["control"] != row.control.id() && !unserved(probed));
    expect(others.count() == 0, || format!("others are in doubt: {}", all()))
}

/// So that a search for the mark in other builds can fail: here it is found, and in the embedded programs too.
/// A case.
fn every_program_of_this_build_is_marked() -> Result<(), String> {
    let program = std::fs::read("/proc/self/exe").map_err(|error| error.to_string())?;
    let marker = mutation::MARKER.as_bytes();
    let count = program.windows(marker.len()).filter(|window| *window == marker).count();
    // This program, the guest and the zygote.
    expect(count >= 3, || format!("found {count} times"))
}

/// A case.
fn the_documentation_lists_the_mutations() -> Result<(), String> {
    let (written, table) = (include_str!("../../../../docs/verify.md"), documented());
    expect(written.contains(&table), || format!("docs/verify.md should hold this table:\n{table}"))
}
