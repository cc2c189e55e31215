//! Containers of a Docker daemon, ours, by its plain API and by Inspect's provider: the same daemon, the same image, in turn.

mod provider;

use std::error::Error;
use std::time::{Duration, Instant};

use bollard::Docker as Client;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions, StartContainerOptions};
use docker::{Docker, Endpoint, Engine, Patience, Pull, Request, Surroundings};
use futures_util::StreamExt as _;
use sandbox::{Kind as _, Limits, Pool, Variant};

use self::provider::Provider;
use crate::sandboxes::{docker as image, run_true};
use crate::table::{Report, Series, Unit};

/// How many rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: usize,
    execs: usize,
}

pub(crate) const QUICK: Extent = Extent { rounds: 8, execs: 5 };
pub(crate) const FULL: Extent = Extent { rounds: 30, execs: 10 };

const API_EXEC: &str = "docker API exec";
const EXEC: &str = "ringfence exec in a container";
const API_CREATE: &str = "docker API create + start";
const CREATE: &str = "ringfence create at N2";
const INSPECT_EXEC: &str = "Inspect's docker provider: exec";
const INSPECT_CREATE: &str = "Inspect's docker provider: sample_init";
const CLAIM: &str = "ringfence claim from the pool";
/// How long the machine rests between the two.
const REST: Duration = Duration::from_millis(200);
/// Sandboxes that wait.
const POOLED: usize = 2;
/// The longest time that a pool may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures everything in turn, round by round.
pub(crate) async fn compare(extent: Extent) -> Result<Report, Box<dyn Error>> {
    image::arguments()?;
    let endpoint = Endpoint::find(&Surroundings::of_this_process())?;
    let Endpoint::Unix(socket) = &endpoint else { return Err("only a daemon on this machine is measured".into()) };
    let client = Client::connect_with_unix(&socket.to_string_lossy(), 60, bollard::API_DEFAULT_VERSION)?;
    let client = client.negotiate_version().await?;
    let engine = Engine::connect(endpoint.clone(), Patience::default()).await?;
    let found = engine.image(image::IMAGE, Pull::Never, &mut |_| ()).await?;
    let limits = Some(Limits { memory: 256 << 20, pids: 64, cpu_millis: 2000 });
    let request = Request { limits, ..Request::of(&found.id) };
    let kind = Docker { endpoint, patience: Patience::default(), request, copies_programs: false };
    let maker = kind.start(&format!("bench-{}", std::process::id())).await?;
    let (live, _capture) = maker.make(Variant::default()).await?;
    let plain = create(&client).await?;
    let pool = Pool::new(std::sync::Arc::clone(&maker), POOLED);
    let mut rows = [API_EXEC, EXEC, API_CREATE, CREATE, CLAIM, INSPECT_EXEC, INSPECT_CREATE].map(Series::new);
    let mut provider = Provider::start(image::IMAGE);
    for _ in 0..extent.rounds {
        full(&pool).await?;
        let [api_execs, execs, api_creates, creates, claims, theirs, their_creates] = &mut rows;
        // The daemon goes on working after its answer: what comes next is not to pay for that.
        for _ in 0..extent.execs {
            let start = Instant::now();
            exec(&client, &plain).await?;
            api_execs.times.push(start.elapsed());
        }
        tokio::time::sleep(REST).await;
        for _ in 0..extent.execs {
            let start = Instant::now();
            run_true(&live).await?;
            execs.times.push(start.elapsed());
        }
        let start = Instant::now();
        let made = create(&client).await?;
        api_creates.times.push(start.elapsed());
        remove(&client, &made).await?;
        let start = Instant::now();
        let (made, _capture) = maker.make(Variant::default()).await?;
        creates.times.push(start.elapsed());
        made.stop().await?;
        let start = Instant::now();
        let (claimed, _capture) = pool.claim().await?;
        claims.times.push(start.elapsed());
        claimed.stop().await?;
        if let Ok(provider) = &mut provider {
            full(&pool).await?;
            theirs.times.push(provider.time("exec")?);
            their_creates.times.push(provider.time("create")?);
            // Its removal goes on behind its answer.
            tokio::time::sleep(REST).await;
        }
    }
    live.stop().await?;
    pool.close().await?;
    remove(&client, &plain).await?;
    let mut rows = Vec::from(rows);
    rows.retain(|row| !row.times.is_empty());
    let mut report = Report::new("what", Unit::Millis, rows);
    report.compare(API_EXEC, EXEC, "floor ≥ 40, target ≥ 80");
    report.compare(CREATE, API_CREATE, "floor ≤ 1.3");
    report.compare(API_CREATE, CLAIM, "floor ≥ 20");
    match provider {
        Ok(_) => {
            report.compare(INSPECT_EXEC, EXEC, "");
            report.compare(INSPECT_CREATE, CREATE, "");
        }
        Err(why) => report.absent.push(format!("Inspect's docker provider: {why}")),
    }
    Ok(report)
}

async fn full(pool: &Pool) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + PATIENCE;
    while pool.ready() < POOLED {
        if Instant::now() > deadline {
            return Err("the pool does not fill".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A container that does nothing for long, created and started as anybody would.
async fn create(client: &Client) -> Result<String, Box<dyn Error>> {
    let body = ContainerCreateBody {
        image: Some(image::IMAGE.into()),
        cmd: Some(["/bin/busybox", "sleep", "1000"].map(str::to_owned).into()),
        host_config: Some(HostConfig { network_mode: Some("none".into()), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    };
    let id = client.create_container(None::<CreateContainerOptions>, body).await?.id;
    client.start_container(&id, None::<StartContainerOptions>).await?;
    Ok(id)
}

async fn remove(client: &Client, id: &str) -> Result<(), Box<dyn Error>> {
    let options = RemoveContainerOptions { force: true, ..RemoveContainerOptions::default() };
    Ok(client.remove_container(id, Some(options)).await?)
}

async fn exec(client: &Client, id: &str) -> Result<(), Box<dyn Error>> {
    let options = CreateExecOptions {
        cmd: Some(vec!["/bin/true".to_owned()]),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..CreateExecOptions::default()
    };
    let exec = client.create_exec(id, options).await?.id;
    if let StartExecResults::Attached { mut output, .. } = client.start_exec(&exec, None).await? {
        while let Some(part) = output.next().await {
            part?;
        }
    }
    let ended = client.inspect_exec(&exec).await?;
    if ended.exit_code == Some(0) { Ok(()) } else { Err(format!("exit code {:?}", ended.exit_code).into()) }
}
