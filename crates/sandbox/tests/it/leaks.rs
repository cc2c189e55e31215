//! Nothing grows: after many commands and many sandboxes, everything is as it was. Short here; `./test.sh soak` is long.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{command, engine, exec, request};
use jail::zygote::Image;
use sandbox::{Containers, Outcome, Pool, Request};

/// How many of something, by the environment or by default.
fn count(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Everything that could grow. Read while no sandbox of this engine lives.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// But for the one socket to each helper: how many there are depends on how many asked at the same time.
    own_descriptors: usize,
    /// Descriptors, mounts and children of a helper; every one of them has the same.
    helpers: BTreeSet<(usize, usize, usize)>,
    groups: usize,
}

impl State {
    /// Whether there is nothing more than before. There may be less: a busy helper can have been taking mounts off when it was
    /// looked at before.
    fn is_within(&self, before: &Self) -> bool {
        let fits = |now: &(usize, usize, usize)| {
            before.helpers.iter().any(|then| now.0 <= then.0 && now.1 <= then.1 && now.2 <= then.2)
        };
        self.own_descriptors <= before.own_descriptors && self.groups <= before.groups && self.helpers.iter().all(fits)
    }
}

fn entries(path: &str) -> usize {
    std::fs::read_dir(path).map_or(0, Iterator::count)
}

fn groups(run: &str) -> usize {
    let hierarchies = jail::cgroups::hierarchies().unwrap();
    let in_one = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(run)).count()
    };
    hierarchies.iter().flat_map(jail::cgroups::Hierarchy::places).map(|place| in_one(&place)).sum()
}

/// Waits until there is no more than before: streams are closed by tasks of their own, and a helper takes mounts off after its
/// answer.
async fn is_again(before: &State, engine: &Containers, when: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !state(engine).is_within(before) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let now = state(engine);
    assert!(now.is_within(before), "{when}: {now:?}, before: {before:?}");
}

/// What is there when nothing changes any more.
async fn settled(engine: &Containers) -> State {
    let mut last = state(engine);
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = state(engine);
        if now == last {
            return now;
        }
        last = now;
    }
}

fn state(engine: &Containers) -> State {
    let helpers = engine.helpers();
    let read = |helper: u32, file: &str| std::fs::read_to_string(format!("/proc/{helper}/{file}")).unwrap_or_default();
    let of_helper = |helper: u32| {
        let mounts = read(helper, "mountinfo").lines().count();
        let children = read(helper, &format!("task/{helper}/children")).split_whitespace().count();
        (entries(&format!("/proc/{helper}/fd")), mounts, children)
    };
    State {
        own_descriptors: entries("/proc/self/fd") - helpers.len(),
        helpers: helpers.into_iter().map(of_helper).collect(),
        groups: groups(&format!("ringfence-test-{}-", std::process::id())),
    }
}

/// One thread, so that nothing else opens or closes descriptors meanwhile.
#[tokio::test]
async fn many_execs_and_many_sandboxes_leave_nothing() {
    let engine = engine();
    // None that waits, of which a helper may have one at any moment: `prepared.rs` counts those.
    engine.prepare(&request(), 0).await.unwrap();
    // The first sandbox builds what all share.
    engine.create(request()).await.unwrap().stop().await.unwrap();
    let before = settled(&engine).await;

    let sandbox = engine.create(request()).await.unwrap();
    for _ in 0..count("RINGFENCE_EXECS", 500) {
        assert_eq!(exec(&sandbox, command(&["true"])).await.unwrap().outcome, Outcome::Exited(0));
    }
    // Only the guest, one keeper that waits, and what looks: no other keeper, no zombie.
    let inside = crate::common::sh(&sandbox, "ls /proc | grep -cE '^[0-9]+$'").await;
    assert!(inside.parse::<u32>().unwrap() <= 6, "{inside} processes inside");
    sandbox.stop().await.unwrap();
    is_again(&before, &engine, "after many commands").await;

    for _ in 0..count("RINGFENCE_CYCLES", 100) {
        let sandbox = engine.create(request()).await.unwrap();
        assert_eq!(exec(&sandbox, command(&["true"])).await.unwrap().outcome, Outcome::Exited(0));
        sandbox.stop().await.unwrap();
    }
    is_again(&before, &engine, "after many sandboxes").await;

    // A pool gives each of its sandboxes once, and ends the rest.
    let pool = Pool::new(engine.maker(request()), 4);
    for round in 0..10 {
        let (sandbox, _) = pool.claim().await.unwrap();
        let seen = crate::common::sh(&sandbox, "cat /tmp/mark 2>/dev/null; echo used >/tmp/mark").await;
        assert_eq!(seen, "", "round {round}: nobody had it before");
        sandbox.stop().await.unwrap();
    }
    while pool.ready() < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(pool.ready(), 4, "and no more");
    pool.close().await.unwrap();
    // Where two are expected, no third is prepared; a third that is claimed is made.
    let pool = Pool::expecting(engine.maker(request()), 4, 2);
    while pool.ready() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for left in [1, 0, 0] {
        let (sandbox, _) = pool.claim().await.unwrap();
        assert_eq!(exec(&sandbox, command(&["true"])).await.unwrap().outcome, Outcome::Exited(0));
        sandbox.stop().await.unwrap();
        assert_eq!(pool.ready(), left, "nothing is prepared for nobody");
    }
    pool.close().await.unwrap();
    is_again(&before, &engine, "after a pool").await;

    // An image whose /proc is a file fails late: in its groups, with its mounts.
    let image = std::env::temp_dir().join(format!("ringfence-leaks-{}", std::process::id()));
    std::fs::create_dir(&image).unwrap();
    std::fs::write(image.join("proc"), "").unwrap();
    for _ in 0..count("RINGFENCE_CYCLES", 100) {
        let image = Image::Directory(image.to_str().unwrap().into());
        assert!(engine.create(Request { image, ..request() }).await.is_err());
    }
    std::fs::remove_dir_all(&image).unwrap();
    is_again(&before, &engine, "after many sandboxes that could not be created").await;
}
