//! From a request to a sandbox: created, attached, started, its network taken over, its guest spoken with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, StartContainerOptions, UploadToContainerOptions,
};
use bytes::Bytes;
use sandbox::{Capture, Network, RELAY_TCP, RELAY_UDP, Sandbox, Session, StartError};

use crate::attach::Output;
use crate::engine::Engine;
use crate::error::DockerError;
use crate::held::Held;
use crate::passed::{Awaited, is_in};
use crate::place::{self, Place};
use crate::programs::{self, Own, Programs};
use crate::request::{Request, Supply, label};

/// How long the entry process may take for the network: the machine may be busy with many.
const NETWORK: Duration = Duration::from_secs(30);
/// How long what it says on its end is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a container of a run that nobody can ask about is left alone.
const LEASE: Duration = Duration::from_hours(7 * 24);

/// The most of a sample's name that a label has.
const MAX_SAMPLE: usize = 256;

/// Whose a container is: its number in the run, its group, its sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose<'a> {
    pub(crate) number: u32,
    pub(crate) group: Option<&'a str>,
    pub(crate) sample: Option<&'a str>,
}

/// What one run makes its containers with.
pub(crate) struct Workshop {
    pub(crate) engine: Engine,
    pub(crate) run: String,
    /// Held by every container too: a run lives as long as one of its containers is held.
    pub(crate) place: Arc<Place>,
    pub(crate) programs: Programs,
}

fn lease() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(LEASE).as_secs()
}

impl Workshop {
    fn labels(&self, whose: Whose<'_>) -> Result<HashMap<String, String>, DockerError> {
        let sample = whose.sample.map(|sample| {
            let plain = sample.chars().filter(|sign| !sign.is_control()).take(MAX_SAMPLE);
            (label::SAMPLE.to_owned(), plain.collect())
        });
        let all = [
            (label::RUN.to_owned(), self.run.clone()),
            (label::SANDBOX.to_owned(), whose.number.to_string()),
            (label::OWNER.to_owned(), place::owner().map_err(DockerError::Place)?),
            (label::LEASE.to_owned(), lease().to_string()),
        ];
        Ok(all.into_iter().chain(sample).collect())
    }

    /// One more container, with its capture if one is asked for. Whatever fails removes it.
    pub(crate) async fn create(&self, request: &Request, whose: Whose<'_>) -> Result<(Sandbox, Capture), StartError> {
        let engine = &self.engine;
        // Descriptors do not come from another machine, be it a virtual one: there its guest listens, and relays.
        let elsewhere = Request { network: Network::Relayed, ..request.clone() };
        let is_apart = !engine.endpoint().is_local() || request.own_kernel;
        let is_elsewhere = request.network == Network::Captured && is_apart;
        let request = if is_elsewhere { &elsewhere } else { request };
        if let Some(mount) = request.mounts.first().filter(|_| !engine.endpoint().is_local()) {
            let (path, endpoint) = (mount.source.clone(), engine.endpoint().to_string());
            return Err(DockerError::RemoteMount { path, endpoint }.into());
        }
        // Held while the daemon opens them by their paths, and compared after that.
        let mounts = request.mounts.clone();
        // What an agent left in a writable mount can take long to search.
        let opened = tokio::task::spawn_blocking(move || sandbox::open_mounts(&mounts)).await;
        let sources = opened.map_err(|error| StartError::Engine(Box::new(error)))??;
        let parts = request.volumes.iter().find_map(|volume| volume.subpath.clone());
        if let Some(subpath) = parts.filter(|_| !engine.knows_subpaths()) {
            return Err(DockerError::NoSubpaths { subpath, endpoint: engine.endpoint().to_string() }.into());
        }
        let _room = engine.room().await;
        let own = self.programs.own(self.place.path(), whose.number).map_err(DockerError::Place)?;
        let awaited =
            (request.network == Network::Captured).then(|| Awaited::bind(&own.path().join("socket"))).transpose();
        let awaited = awaited.map_err(DockerError::Place)?;
        let held = self.begin(request, whose, &own).await?;
        let (output, input, said) = self.attach(&held.1).await?;
        let id = held.1.clone();
        let start =
            |client: bollard::Docker| async move { client.start_container(&id, None::<StartContainerOptions>).await };
        engine.order("start container", start).await?;
        sources.iter().try_for_each(sandbox::MountSource::check_unchanged)?;
        let listeners = match awaited {
            Some(awaited) => awaited.take(NETWORK, |pid| is_in(pid, &held.1)).await,
            None => Ok(Vec::new()),
        };
        let opened = match listeners {
            Ok(listeners) => {
                async {
                    let session = Session::open_over(output, input).await?;
                    let capture = match request.network {
                        Network::Relayed => Capture::Relayed(session.relay(RELAY_TCP, RELAY_UDP).await?),
                        Network::Loopback | Network::Captured => Capture::Passed(listeners),
                    };
                    Ok::<_, StartError>((session, capture))
                }
                .await
            }
            Err(why) => {
                // Its last words come by its stream.
                let _ = tokio::time::timeout(LAST_WORDS, Session::open_over(output, input)).await;
                Err(DockerError::Capture(why).into())
            }
        };
        match opened {
            Ok((session, capture)) => {
                drop(own);
                Ok((Sandbox::new(session, Box::new(held.0)), capture))
            }
            // What the entry process says is nearer to the cause than what we saw of it.
            Err(_) if !said.shown().as_str().is_empty() => Err(DockerError::Entry { said: said.shown() }.into()),
            Err(error) => Err(error),
        }
    }

    /// Creates the container, with our programs in it.
    async fn begin(&self, request: &Request, whose: Whose<'_>, own: &Own) -> Result<(Held, String), DockerError> {
        let engine = &self.engine;
        let copied = matches!(self.programs, Programs::Copied);
        if copied && request.read_only {
            return Err(DockerError::ReadOnlyRoot { endpoint: engine.endpoint().to_string() });
        }
        let body = request.body(
            self.labels(whose)?,
            Supply {
                directory: own.path(),
                inside: own.inside(),
                copied,
                group: whose.group,
                podman: engine.is_podman(),
            },
        );
        let name = format!("ringfence-{}-{}", self.run, whose.number);
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        let create = |client: bollard::Docker| async move { client.create_container(Some(options), body).await };
        // Held by its name before it is asked for: whoever gives up meanwhile leaves nothing.
        let mut held = Held::asked(engine.clone(), name, Arc::clone(&self.place));
        let made = engine.order("create container", create).await;
        if let Err(DockerError::Refused { .. }) = made {
            // There is none, or it is not ours.
            held.forget();
        }
        let id = made?.id;
        held.made(&id);
        if copied {
            let archive = Bytes::from(programs::archive(own.inside()).map_err(DockerError::Place)?);
            let options = UploadToContainerOptions { path: "/".into(), ..Default::default() };
            let to = id.clone();
            let upload = |client: bollard::Docker| async move {
                client.upload_to_container(&to, Some(options), bollard::body_full(archive)).await
            };
            engine.order("copy into container", upload).await?;
        }
        Ok((held, id))
    }

    /// Its attached stream, before it starts: nothing of it is missed.
    async fn attach(
        &self,
        id: &str,
    ) -> Result<(Output, std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>, crate::attach::Said), DockerError> {
        let options =
            AttachContainerOptions { stream: true, stdin: true, stdout: true, stderr: true, ..Default::default() };
        let id = id.to_owned();
        let attach = |client: bollard::Docker| async move { client.attach_container(&id, Some(options)).await };
        let attached = self.engine.order("attach to container", attach).await?;
        let (output, said) = Output::new(attached.output);
        Ok((output, attached.input, said))
    }
}
