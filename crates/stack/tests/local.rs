//! Order, health, failures and ends of services, with plain processes in the place of sandboxes: nothing here is about
//! walls or networks.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use egress::{GatewayError, Neighbour, Neighbours};
use profile::Egress;
use sandbox::{Capture, Kind, Maker, Pending, Sandbox, Variant};
use stack::{
    Blueprint, Condition, Event, Gateway, Health, Need, Process, Restart, Running, Service, Stack, StackError, Start,
    What,
};

#[derive(Debug)]
struct Plain;

impl Kind for Plain {
    fn start<'a>(&'a self, _: &'a str) -> Pending<'a, Arc<dyn Maker>> {
        Box::pin(async { Ok(Arc::new(Plain) as Arc<dyn Maker>) })
    }

    fn is_captured(&self) -> bool {
        false
    }

    fn mounts(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Maker for Plain {
    fn make(&self, _: Variant) -> Pending<'_, (Sandbox, Capture)> {
        Box::pin(async { Ok((sandbox::start_local().await?, Capture::Passed(Vec::new()))) })
    }

    fn keeps_files(&self) -> bool {
        false
    }
}

/// Nothing is captured, so nobody is served.
struct Nobody;

impl Gateway for Nobody {
    type Served = ();

    async fn attach(
        &self,
        _: &str,
        _: &Egress,
        _: Capture,
        _: Vec<Neighbour>,
        _: Arc<dyn Neighbours>,
    ) -> Result<(), GatewayError> {
        Err(GatewayError::Gone)
    }

    async fn replace(&self, (): &(), _: &Egress) -> Result<(), GatewayError> {
        Err(GatewayError::Gone)
    }

    async fn detach(&self, _: &str, (): ()) {}
}

fn process(script: &str) -> Process {
    Process {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: Some("/".into()),
        user: None,
        terminal: false,
        input_open: false,
    }
}

fn service(name: &str, script: &str) -> Service {
    Service {
        name: name.into(),
        kind: Arc::new(Plain),
        process: Some(process(script)),
        egress: Egress::Nothing,
        leads_outside: false,
        neighbours: Vec::new(),
        health: None,
        needs: Vec::new(),
        restart: Restart::Never,
    }
}

fn healthy(script: &str, retries: u32) -> Health {
    let (interval, timeout) = (Duration::from_millis(100), Duration::from_secs(5));
    Health { test: process(script), interval, timeout, retries, start_period: Duration::ZERO }
}

fn need(service: &str, condition: Condition) -> Need {
    Need { service: service.into(), condition, required: true }
}

type Events = Arc<Mutex<Vec<Event>>>;

async fn start(services: Vec<Service>, patience: Duration) -> (Result<(Stack, Running<()>), StackError>, Events) {
    let events = Events::default();
    let default = services[0].name.clone();
    let kept = Arc::clone(&events);
    let start = Start {
        group: "group".into(),
        sample: None,
        default_process: true,
        default_egress: Egress::Nothing,
        patience,
        told: Arc::new(move |event| kept.lock().unwrap().push(event.clone())),
    };
    let stack = Stack::open(Blueprint { services, default }, "run").await.unwrap();
    let running = stack.start(&Nobody, &start).await;
    (running.map(|running| (stack, running)), events)
}

const LONG: Duration = Duration::from_secs(30);

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn each_starts_when_what_it_waits_for_is_there_and_all_end() {
    let place = tempfile::tempdir().unwrap();
    let (log, page, pids) = (place.path().join("log"), place.path().join("page"), place.path().join("pids"));
    let say = |word: &str| format!("echo $$ >>{}; echo {word} >>{}", pids.display(), log.display());
    let on = "exec sleep 1000";
    let agent = Service {
        needs: vec![need("web", Condition::Healthy)],
        ..service("agent", &format!("{}; {on}", say("agent")))
    };
    let web = Service {
        needs: vec![need("seed", Condition::Completed)],
        // It is healthy a while after it has started.
        health: Some(healthy(&format!("test -e {}", page.display()), 100)),
        ..service(
            "web",
            &format!("{}; sleep 0.5; echo healthy >>{}; touch {}; {on}", say("web"), log.display(), page.display()),
        )
    };
    let seed = service("seed", &format!("sleep 0.3; {}", say("seed")));
    let (started, events) = start(vec![agent, web, seed], LONG).await;
    let (stack, mut running) = started.unwrap();
    let deadline = Instant::now() + LONG;
    while lines(&log).len() < 4 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(lines(&log), ["seed", "web", "healthy", "agent"]);
    assert!(running.sandbox("web").is_some() && running.sandbox("other").is_none());
    running.end(&stack, &Nobody).await.unwrap();
    for pid in lines(&pids) {
        // Whoever was killed is there until somebody has taken note.
        let there = || Path::new(&format!("/proc/{pid}")).exists();
        while there() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!there(), "{pid} lives on");
    }
    let stopped = |event: &&Event| event.what == What::Stopped;
    assert_eq!(events.lock().unwrap().iter().filter(stopped).count(), 3);
}

#[tokio::test]
async fn what_fails_is_named_with_its_last_words() {
    let on = || service("agent", "exec sleep 1000");
    let failed = |started: Result<(Stack, Running<()>), StackError>| started.err().unwrap().to_string();
    let (started, _) = start(vec![on(), service("broken", "echo bad config >&2; exit 3")], LONG).await;
    assert_eq!(failed(started), "the service `broken` ended with exit code 3; its last words: bad config");
    let sick = Service { health: Some(healthy("echo sick; exit 1", 2)), ..service("db", "exec sleep 1000") };
    let (started, _) = start(vec![on(), sick.clone()], LONG).await;
    assert_eq!(failed(started), "the service `db` is not healthy; its last words: its check: exit code 1: sick");
    let slow = Service { health: Some(healthy("false", 10_000)), ..service("db", "echo I try; exec sleep 1000") };
    let (started, events) = start(vec![on(), slow], Duration::from_millis(500)).await;
    let said = failed(started);
    assert!(said.starts_with("the service `db` was not ready within 0.5 s: it runs, and was never healthy"), "{said}");
    let stopped = |event: &&Event| event.what == What::Stopped;
    assert_eq!(events.lock().unwrap().iter().filter(stopped).count(), 2, "those that were fine, too");
    let waits = Service { needs: vec![need("db", Condition::Healthy)], ..on() };
    let (started, _) = start(vec![waits.clone(), service("db", "exec sleep 1000")], LONG).await;
    assert_eq!(failed(started), "the service `agent` waits for `db`, which has no health check");
    let optional = Need { required: false, ..need("db", Condition::Healthy) };
    let (started, events) = start(vec![Service { needs: vec![optional], ..on() }, sick], LONG).await;
    // It starts all the same; the other one is no less of a failure for that.
    assert!(failed(started).contains("`db` is not healthy"));
    let in_vain = |event: &&Event| matches!(&event.what, What::WaitedInVain { needs, .. } if needs == "db");
    assert_eq!(events.lock().unwrap().iter().filter(in_vain).count(), 1);
}

#[tokio::test]
async fn a_process_is_started_again_as_often_as_it_may_and_its_end_is_told() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let again = Service {
        restart: Restart::OnFailure(Some(2)),
        ..service("again", &format!("echo x >>{}; echo words; exit 1", log.display()))
    };
    let (started, events) = start(vec![service("agent", "exec sleep 1000"), again], LONG).await;
    let (stack, mut running) = started.unwrap();
    let ends = |events: &Events| {
        let told = events.lock().unwrap();
        told.iter()
            .filter(|event| matches!(&event.what, What::Ended { output, .. } if output.contains("words")))
            .count()
    };
    let deadline = Instant::now() + LONG;
    while ends(&events) < 3 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!((lines(&log).len(), ends(&events)), (3, 3));
    running.end(&stack, &Nobody).await.unwrap();
}
