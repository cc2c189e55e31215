//! The embedded engine: containers without a daemon, through the zygote.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jail::cgroups::Limits;
use jail::zygote::{CreateError, Created, Image, Mount, Network, RELAY_TCP, RELAY_UDP, Spec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::net::UnixStream;

use crate::helpers::{Helper, Helpers, Wanted, ask_if_free, lock};
use crate::relay::Relay;
use crate::resources::check_descriptors;
use crate::sandbox::{Backing, Sandbox, StartError, Stopping};
use crate::session::{Session, SessionError};
use crate::snapshot::{Changes, Snapshot};

/// Files per byte of disk: enough for source trees, few enough that an inode bomb ends early.
const BYTES_PER_INODE: u64 = 4096;

/// A sandbox to create.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its root.
    pub image: Image,
    /// What another sandbox had become; then its image is that sandbox's, and `image` is not looked at.
    pub begin_with: Option<Snapshot>,
    /// Whose programs and settings it has, where it begins with a snapshot.
    pub system: System,
    /// Memory, processes and cpu; `None` where the plan says that nothing holds them.
    pub limits: Option<Limits>,
    /// Bytes that it may write.
    pub disk: u64,
    /// Host paths that are shown inside.
    pub mounts: Vec<Mount>,
    /// Whether setuid programs work inside.
    pub allow_setuid: bool,
    /// Its network.
    pub network: Network,
}

/// Whose programs and settings a fork has: `/bin`, `/lib`, `/usr`, `/etc` and the like.
#[derive(Debug, Clone, Default)]
pub enum System {
    /// The snapshot's, as everything else.
    #[default]
    AsLeft,
    /// The image's: whoever judges what was left does not use what was left to do it.
    OfImage,
    /// Those of an earlier snapshot.
    Of(Snapshot),
}

/// Where everything that a sandbox sends lands. Whoever holds it is the sandbox's whole network; when the last holder is
/// gone, nothing answers.
#[derive(Debug)]
pub enum Capture {
    /// The descriptors of listeners: TCP, UDP, and the same for IPv6 where there is any. Empty: nobody can be behind it.
    Passed(Vec<OwnedFd>),
    /// The guest holds them, and relays what arrives.
    Relayed(Relay),
}

/// The embedded engine of one run. Cloning it shares the helper; the last clone ends it and every sandbox.
#[derive(Clone)]
pub struct Containers {
    helpers: Arc<Helpers>,
    next: Arc<AtomicU32>,
    run: String,
}

impl std::fmt::Debug for Containers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Containers").field("run", &self.run).finish_non_exhaustive()
    }
}

struct Held {
    helper: Helper,
    id: u32,
    disk: u64,
}

impl Backing for Held {
    fn stop(&mut self) -> Result<(), StartError> {
        Ok(lock(&self.helper).destroy(self.id)?)
    }

    fn stop_at_once(&mut self) -> Option<Stopping> {
        let (helper, id) = (Arc::clone(&self.helper), self.id);
        Some(Box::pin(async move {
            let stopped = ask_if_free(&helper, |zygote, waiter| zygote.begin_destroy(id, waiter)).await?;
            Some(stopped.map(drop).map_err(StartError::from))
        }))
    }

    fn freeze(&mut self) -> Result<Snapshot, StartError> {
        // Both come from one row of numbers, so this one is new too.
        lock(&self.helper).freeze(self.id, self.id)?;
        Ok(Snapshot::new(Arc::clone(&self.helper), self.id, self.disk))
    }

    fn changes(&self) -> Option<Changes> {
        Some(Changes::new(Arc::clone(&self.helper), self.id, self.disk))
    }
}

impl Containers {
    /// Starts the first helper process of a run; when many sandboxes are asked for at the same time, there will be more.
    /// `run` is part of the names of control groups: unique on this machine. Raises this process' soft limit of
    /// descriptors to the hard one.
    pub fn start(run: impl Into<String>) -> Result<Self, StartError> {
        check_descriptors()?;
        let helpers = Arc::new(Helpers::start()?);
        Ok(Self { helpers, next: Arc::new(AtomicU32::new(1)), run: run.into() })
    }

    /// The first helper's process number.
    pub fn helper(&self) -> u32 {
        self.helpers().first().copied().unwrap_or_default()
    }

    /// The process numbers of all helpers.
    pub fn helpers(&self) -> Vec<u32> {
        self.helpers.all().iter().map(|helper| lock(helper).pid()).collect()
    }

    /// Keeps `count` sandboxes begun while nobody asks for any: their namespaces, ids, limits and network, whichever image
    /// comes. They serve requests with the same limits and the same network. Without this, one is kept of whatever was
    /// asked for twice in a row, for ten seconds; with a count of zero, none ever is.
    pub async fn prepare(&self, request: &Request, count: u32) -> Result<(), StartError> {
        let (network, limits, name) = (request.network, request.limits, format!("ringfence-{}-next", self.run));
        let (helpers, wanted) = (Arc::clone(&self.helpers), Wanted { network, limits, name, count });
        let prepared = tokio::task::spawn_blocking(move || helpers.prepare(&wanted));
        prepared.await.map_err(|error| StartError::Helper(std::io::Error::other(error)))?
    }

    /// Creates a sandbox without anybody behind its network.
    pub async fn create(&self, request: Request) -> Result<Sandbox, StartError> {
        Ok(self.create_captured(request).await?.0)
    }

    /// Has a helper make it: `keeper`, if only that one can.
    async fn make(
        &self,
        spec: Spec,
        control: OwnedFd,
        keeper: Option<Helper>,
    ) -> Result<(Helper, Result<Created, CreateError>), StartError> {
        for helper in keeper.as_ref().map_or_else(|| self.helpers.all(), |keeper| vec![Arc::clone(keeper)]) {
            let asked = ask_if_free(&helper, |zygote, waiter| zygote.begin_create(spec.clone(), &control, waiter));
            if let Some(created) = asked.await {
                return Ok((helper, created));
            }
        }
        let helpers = Arc::clone(&self.helpers);
        let created = tokio::task::spawn_blocking(move || match keeper {
            // Only who keeps a snapshot has it.
            Some(keeper) => {
                let created = lock(&keeper).create(spec, &control);
                Ok((keeper, created))
            }
            None => helpers.with(spec.id, |zygote| zygote.create(spec, &control)),
        });
        created.await.map_err(|error| StartError::Helper(std::io::Error::other(error)))?
    }

    /// Creates a sandbox; the capture is empty unless the request asks for one.
    pub async fn create_captured(&self, request: Request) -> Result<(Sandbox, Capture), StartError> {
        check_mounts(&request.mounts)?;
        check_image(&request.image)?;
        let keeper = match &request.begin_with {
            Some(snapshot) => Some(snapshot.keeper(&self.helpers.all())?),
            None => None,
        };
        let (id, disk, network) = (self.next.fetch_add(1, Ordering::Relaxed), request.disk, request.network);
        let helper = |error: std::io::Error| StartError::Helper(error);
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| helper(errno.into()))?;
        let stream = std::os::unix::net::UnixStream::from(ours);
        let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(helper)?;
        let spec = Spec {
            id,
            name: format!("ringfence-{}-{id}", self.run),
            image: match (&keeper, &request.system) {
                (None, _) => request.image,
                (Some((_, files)), System::AsLeft) => Image::Snapshot(*files),
                (Some((_, files)), System::OfImage) => Image::Scene { files: *files, tools: None },
                (Some((keeper, files)), System::Of(tools)) => {
                    let (_, tools) = tools.keeper(std::slice::from_ref(keeper))?;
                    Image::Scene { files: *files, tools: Some(tools) }
                }
            },
            limits: request.limits,
            disk: request.disk,
            inodes: (request.disk / BYTES_PER_INODE).max(1024),
            mounts: request.mounts,
            allow_setuid: request.allow_setuid,
            network: request.network,
        };
        let (maker, created) = self.make(spec, theirs, keeper.map(|(keeper, _)| keeper)).await?;
        let created = created?;
        let held = Held { helper: maker, id, disk };
        // From here on the sandbox is held: whatever fails ends it.
        let mut held = Some(held);
        let opened = async {
            // The helper has seen it become the guest, with everything that holds it.
            let session = Session::open_at_once(stream);
            let capture = match network {
                Network::Relayed => Capture::Relayed(session.relay(RELAY_TCP, RELAY_UDP).await?),
                Network::Loopback | Network::Captured => Capture::Passed(created.listeners),
            };
            Ok::<_, SessionError>((session, capture))
        };
        match opened.await {
            Ok((session, capture)) => match held.take() {
                Some(held) => Ok((Sandbox::new(session, Box::new(held)), capture)),
                None => Err(helper(std::io::Error::from(std::io::ErrorKind::NotFound))),
            },
            Err(error) => {
                if let Some(mut held) = held.take() {
                    let _ = tokio::task::spawn_blocking(move || held.stop()).await;
                }
                Err(error.into())
            }
        }
    }
}

/// How deep and how far a mount's source is searched for sockets.
const MAX_DEPTH: usize = 128;
const MAX_ENTRIES: usize = 1_000_000;

/// Refuses an image that is one of the host's own places.
fn check_image(image: &Image) -> Result<(), StartError> {
    match image {
        Image::Directory(path) => {
            let refused = |why| StartError::Mount { path: path.clone(), why };
            check_place(Path::new(path)).map(drop).map_err(refused)
        }
        Image::Over(base, _) => check_image(base),
        Image::Host | Image::Layers(_) | Image::Snapshot(_) | Image::Scene { .. } => Ok(()),
    }
}

/// Refuses the host's own places, wherever a link leads; returns where it leads.
fn check_place(source: &Path) -> Result<std::path::PathBuf, String> {
    let resolved = std::fs::canonicalize(source).map_err(|error| error.to_string())?;
    let text = format!("{}:/x", resolved.display());
    text.parse::<profile::Mount>().map_err(|error| error.to_string())?;
    Ok(resolved)
}

/// Refuses a host path that must not be shown inside: the host's own places, and what is or holds a socket.
pub fn check_mount(source: &str) -> Result<(), StartError> {
    check_source(Path::new(source)).map_err(|why| StartError::Mount { path: source.to_owned(), why })
}

/// Refuses host paths that must not be shown inside, each or together. Paths are as they were when they were planned: one that
/// leads elsewhere by now was turned since, by whoever could write there, perhaps an earlier sample.
pub fn check_mounts(mounts: &[Mount]) -> Result<(), StartError> {
    check_nesting(mounts)?;
    for mount in mounts {
        let refused = |why| StartError::Mount { path: mount.source.clone(), why };
        let leads = std::fs::canonicalize(&mount.source).map_err(|error| refused(error.to_string()))?;
        if leads != Path::new(&mount.source) {
            return Err(refused(format!("it is a link, and leads to {}", leads.display())));
        }
        check_mount(&mount.source)?;
    }
    Ok(())
}

/// Refuses a mount whose source lies in what another one lets the workload write: it could turn it to any place of the host.
pub fn check_nesting(mounts: &[Mount]) -> Result<(), StartError> {
    for mount in mounts {
        let around = |other: &&Mount| {
            other.writable && other.source != mount.source && Path::new(&mount.source).starts_with(&other.source)
        };
        if let Some(other) = mounts.iter().find(around) {
            let why =
                format!("it lies in {}, which is mounted writable: what is inside could replace it", other.source);
            return Err(StartError::Mount { path: mount.source.clone(), why });
        }
    }
    Ok(())
}

/// Refuses a source that is, or holds, a socket: a read-only mount does not stop a connection to one.
fn check_source(source: &Path) -> Result<(), String> {
    use std::os::unix::fs::FileTypeExt as _;
    let resolved = check_place(source)?;
    let mut open = vec![(resolved, 0)];
    let mut seen = 0;
    while let Some((path, depth)) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let kind = metadata.file_type();
        if kind.is_socket() {
            return Err(format!("it holds the socket {}", path.display()));
        }
        seen += 1;
        if seen > MAX_ENTRIES || depth > MAX_DEPTH {
            return Err("it is too large to be searched for sockets; mount a part of it".into());
        }
        if kind.is_dir() {
            let entries = std::fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            open.extend(entries.flatten().map(|entry| (entry.path(), depth + 1)));
        }
    }
    Ok(())
}
