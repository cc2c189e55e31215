//! Limits of descriptors. In a process of its own: the limit is the whole process'.

use crate::common::{engine, request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A thousand sandboxes need more descriptors than the usual 1024, here and in the helper; what is inside gets no more.
#[tokio::test]
async fn many_descriptors_outside_and_no_more_inside() {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum: most }).unwrap();
    let engine = engine();
    let sandbox = engine.create(request()).await.unwrap();
    assert_eq!(getrlimit(Resource::Nofile).current, most);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", engine.helper())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let files: Vec<&str> = files.split_whitespace().collect();
    assert_eq!(files[0], files[1], "{limits}");
    let inside = most.map_or(4096, |most| most.min(4096)).to_string();
    assert_eq!(crate::common::sh(&sandbox, "ulimit -Sn; ulimit -Hn").await, format!("{inside}\n{inside}"));
    sandbox.stop().await.unwrap();
}
