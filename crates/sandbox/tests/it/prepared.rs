//! Sandboxes that are begun before anybody asks: any image, each used once, none left.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::time::{Duration, Instant};

use crate::common::{engine, is_root, request, sh};
use jail::cgroups::Limits;
use jail::zygote::{Image, Mount};
use sandbox::{Containers, Request};

/// Every child of the helper.
fn all_children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// How many process namespaces deep a process is.
fn depth(process: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find(|line| line.starts_with("NSpid:")).map_or(0, |line| line.split_whitespace().count())
}

/// The helper's sandboxes: all of its children but the cradle, which is in no process namespace of its own.
fn children(of: u32) -> Vec<u32> {
    all_children(of).into_iter().filter(|pid| depth(&pid.to_string()) != depth("self")).collect()
}

/// Waits until the helper has as many children; it makes them while nobody asks.
async fn until(engine: &Containers, count: usize) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = children(engine.helper());
        if found.len() == count {
            return found;
        }
        assert!(Instant::now() < deadline, "{} of {count}", found.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn each_is_used_once_and_made_anew() {
    let engine = engine();
    engine.prepare(&request(), 2).await.unwrap();
    let prepared = until(&engine, 2).await;
    let one = engine.create(request()).await.unwrap();
    sh(&one, "echo x > /tmp/file; hostname > /tmp/name").await;
    // The oldest of them, and another in its place.
    let after = until(&engine, 3).await;
    assert!(prepared.iter().all(|pid| after.contains(pid)), "{prepared:?} {after:?}");
    let two = engine.create(request()).await.unwrap();
    assert_eq!(sh(&two, "ls /tmp; ls -d /proc/[0-9]* | wc -l").await.lines().next_back().unwrap().len(), 1);
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    until(&engine, 2).await;
    engine.prepare(&request(), 0).await.unwrap();
    // Those that wait are used up, and not replaced.
    engine.create(request()).await.unwrap().stop().await.unwrap();
    engine.create(request()).await.unwrap().stop().await.unwrap();
    until(&engine, 0).await;
}

#[tokio::test]
async fn any_image_fits_and_another_kind_does_not() {
    let engine = engine();
    engine.prepare(&request(), 1).await.unwrap();
    let prepared = until(&engine, 1).await;
    let root = tempfile::tempdir().unwrap();
    for name in ["bin", "lib", "lib64", "usr"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    std::fs::copy("/bin/busybox", root.path().join("bin/sh")).unwrap();
    let image = Image::Directory(root.path().to_str().unwrap().into());
    let sandbox = engine.create(Request { image, ..request() }).await.unwrap();
    assert_eq!(sh(&sandbox, "echo $((6 * 7))").await, "42");
    let pids = until(&engine, 2).await;
    assert!(pids.contains(&prepared[0]));
    // Other limits: none of those that wait may be taken.
    if is_root() {
        let limits = Some(Limits { memory: 64 << 20, pids: 32, cpu_millis: 1000 });
        let other = engine.create(Request { limits, ..request() }).await.unwrap();
        assert_eq!(sh(&other, "echo fine").await, "fine");
        until(&engine, 3).await;
        assert!(pids.iter().all(|pid| children(engine.helper()).contains(pid)), "the prepared one still waits");
    }
}

#[tokio::test]
async fn a_prepared_one_that_died_is_not_handed_out() {
    let engine = engine();
    engine.prepare(&request(), 1).await.unwrap();
    let pid = until(&engine, 1).await[0];
    engine.prepare(&request(), 0).await.unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let sandbox = engine.create(request()).await.unwrap();
    assert_eq!(sh(&sandbox, "echo fine").await, "fine");
    assert!(!children(engine.helper()).contains(&pid));
}

#[tokio::test]
async fn a_cradle_that_died_is_replaced_or_an_error() {
    let engine = engine();
    engine.prepare(&request(), 0).await.unwrap();
    let first = engine.create(request()).await.unwrap();
    for _ in 0..2 {
        let cradle = all_children(engine.helper()).into_iter().find(|pid| depth(&pid.to_string()) == depth("self"));
        let cradle = rustix::process::Pid::from_raw(cradle.unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(cradle, rustix::process::Signal::KILL).unwrap();
        let created = engine.create(request()).await;
        if is_root() {
            assert_eq!(sh(&created.unwrap(), "echo fine").await, "fine");
            continue;
        }
        // Copies of one that is started later would leave files of their keepers to the root inside.
        let refused = created.unwrap_err();
        let why = std::error::Error::source(&refused).map(ToString::to_string);
        assert!(why.as_ref().is_some_and(|why| why.contains("was killed (start the run again)")), "{refused} {why:?}");
        break;
    }
    // What runs needs it no more.
    assert_eq!(sh(&first, "echo fine").await, "fine");
}

/// A guest is a copy of a process, but not of one that knows anything: no path, name or sandbox of the zygote's is in it.
#[tokio::test]
async fn a_guest_is_a_copy_of_nobody_who_knows_anything() {
    if !is_root() {
        return;
    }
    let engine = engine();
    engine.prepare(&request(), 0).await.unwrap();
    let shown = tempfile::Builder::new().prefix("a-path-that-nobody-inside-knows-").tempdir().unwrap();
    let source = shown.path().to_str().unwrap().to_owned();
    let mounts = vec![Mount { source: source.clone(), target: "/shown".into(), writable: false }];
    let knows = engine.create(Request { mounts, ..request() }).await.unwrap();
    let other = engine.create(request()).await.unwrap();
    assert_eq!(
        sh(&other, "cat /proc/1/comm; tr '\\0' '\\n' < /proc/1/cmdline").await,
        "ringfence-guest\nringfence-guest"
    );
    assert!(holds(std::process::id(), &source), "we know it, and would find it");
    for process in all_children(engine.helper()) {
        assert!(!holds(process, &source), "{process}");
    }
    knows.stop().await.unwrap();
    other.stop().await.unwrap();
}

/// Whether a text is anywhere in what a process can write to.
fn holds(process: u32, text: &str) -> bool {
    use std::os::unix::fs::FileExt as _;
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let writable = maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw")));
    let mut looked_at = 0;
    let found = writable.into_iter().any(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        looked_at += memory.read_at(&mut bytes, from).unwrap_or(0);
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    });
    assert!(looked_at > 0, "nothing of {process} could be read");
    found
}

#[tokio::test]
async fn what_others_had_is_not_held_by_those_that_wait() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    engine.prepare(&request(), 1).await.unwrap();
    let waiting: Vec<u32> = until(&engine, 2).await;
    let links = |pid: u32| -> std::io::Result<Vec<String>> {
        let links = std::fs::read_dir(format!("/proc/{pid}/fd"))?
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .map(|link| link.display().to_string());
        Ok(links.collect())
    };
    for pid in waiting {
        // Locks of id ranges, writable layers and process descriptors are the zygote's alone, once it has begun.
        let deadline = Instant::now() + Duration::from_secs(20);
        let holds = |links: &[String], text: &str| links.iter().any(|link| link.contains(text));
        loop {
            let found = match links(pid) {
                // Once it cannot be dumped, only the host's root may look.
                Err(error) if !is_root() && error.kind() == std::io::ErrorKind::PermissionDenied => break,
                found => found.unwrap(),
            };
            if !holds(&found, "ringfence-ids") && !holds(&found, "pidfd") && found.len() <= 8 {
                break;
            }
            assert!(Instant::now() < deadline, "{pid}: {found:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_helper_leaves_none() {
    let engine = engine();
    engine.prepare(&request(), 3).await.unwrap();
    let waiting = until(&engine, 3).await;
    let helper = rustix::process::Pid::from_raw(engine.helper().cast_signed()).unwrap();
    rustix::process::kill_process(helper, rustix::process::Signal::KILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while waiting.iter().any(|pid| is_running(*pid)) {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Nobody asked for it to be prepared: whoever makes two alike may make a third, and whoever makes one may not.
#[tokio::test]
async fn an_engine_that_made_two_keeps_one_begun_for_a_while() {
    let engine = engine();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", engine.helper())).unwrap().count();
    engine.create(request()).await.unwrap().stop().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(children(engine.helper()).is_empty(), "one may be all");
    let before = descriptors();
    let second = engine.create(request()).await.unwrap();
    let waiting = until(&engine, 2).await;
    let third = engine.create(request()).await.unwrap();
    assert_eq!(sh(&third, "ls /tmp; ls -d /proc/[0-9]* | wc -l").await.lines().next_back().unwrap().len(), 1);
    let after = until(&engine, 3).await;
    assert!(waiting.iter().all(|pid| after.contains(pid)), "{waiting:?} {after:?}");
    second.stop().await.unwrap();
    third.stop().await.unwrap();
    // The one that waits goes when nobody has asked for a while, and nothing of it stays.
    until(&engine, 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(descriptors(), before);
}

#[tokio::test]
async fn who_wants_none_begun_has_none() {
    let engine = engine();
    engine.prepare(&request(), 0).await.unwrap();
    let sandboxes = [engine.create(request()).await.unwrap(), engine.create(request()).await.unwrap()];
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(children(engine.helper()).len(), sandboxes.len());
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains("ringfence") && !stat.contains(") Z ")
}

#[tokio::test]
async fn requests_that_nobody_awaits_any_more_confuse_nobody_and_leave_nothing() {
    let engine = engine();
    engine.prepare(&request(), 0).await.unwrap();
    for round in 0..10_u64 {
        // Given up once it was begun, or later; the answer comes when nobody listens.
        tokio::select! {
            biased;
            made = engine.create(request()) => made.unwrap().stop().await.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(round / 2)), if round > 0 => {}
            () = std::future::ready(()), if round == 0 => {}
        }
        let name = format!("round-{round}");
        let one = engine.create(request()).await.unwrap();
        assert_eq!(sh(&one, &format!("echo {name} > /tmp/name; cat /tmp/name")).await, name);
        tokio::select! {
            biased;
            stopped = one.stop() => stopped.unwrap(),
            () = std::future::ready(()) => {}
        }
    }
    // Somebody who waits with a thread finds the same order.
    let (one, two) = tokio::join!(engine.create(request()), engine.create(request()));
    let (one, two) = (one.unwrap(), two.unwrap());
    let (first, second) = tokio::join!(sh(&one, "echo one"), sh(&two, "echo two"));
    assert_eq!((first.as_str(), second.as_str()), ("one", "two"));
    let (first, second) = tokio::join!(one.stop(), two.freeze());
    first.unwrap();
    drop(second.unwrap());
    engine.create(request()).await.unwrap().stop().await.unwrap();
    for helper in engine.helpers() {
        assert_eq!(children(helper), Vec::<u32>::new(), "of {helper}");
    }
}
