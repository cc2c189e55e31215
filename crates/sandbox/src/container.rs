//! The embedded engine: containers without a daemon, through the zygote.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jail::cgroups::Limits;
use jail::zygote::{CreateError, Created, Image, Mount, Network, RELAY_TCP, RELAY_UDP, Shown, Spec, Zygote};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::net::UnixStream;

use crate::helpers::{Helper, Helpers, Wanted, ask_if_free, lock};
use crate::mounts::{MountSource, open_image, open_mounts};
use crate::relay::Relay;
use crate::resources::check_descriptors;
use crate::sandbox::{Autopsy, Backing, Sandbox, StartError, Stopping};
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

/// Whose root directory, programs and settings (`/bin`, `/lib`, `/usr`, `/etc` and the like) a fork has.
#[derive(Debug, Clone, Default)]
pub enum System {
    /// The snapshot's, as everything else.
    #[default]
    AsLeft,
    /// Those from before: a scorer does not run programs of the agent that it judges. Of `/`, directories that were
    /// there before are as they were left, and nothing that was made there since is seen.
    Before {
        /// As they were in this snapshot; `None` for the image.
        snapshot: Option<Snapshot>,
        /// Names of directories in `/` that are as they were left although they were not there before. Those that lead to
        /// a mount need not be named.
        declared: Vec<String>,
    },
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

/// The most time for the end of killed processes. With little of a processor, hundreds of them take a while.
const ENDING: Duration = Duration::from_secs(20);
/// Time between two questions: the helper answers other requests meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl Held {
    /// Asks the helper until the killed processes have ended, or for [`ENDING`].
    fn until_ended(&self, ask: impl Fn(&mut Zygote) -> Result<(), CreateError>) -> Result<(), StartError> {
        let begun = Instant::now();
        loop {
            let asked = ask(&mut lock(&self.helper));
            if !matches!(asked, Err(CreateError::NotEnded)) || begun.elapsed() > ENDING {
                return Ok(asked?);
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

impl Backing for Held {
    fn stop(&mut self) -> Result<(), StartError> {
        let id = self.id;
        self.until_ended(|helper| helper.destroy(id))
    }

    fn abandon(&mut self) {
        // The helper removes what is left when it has ended.
        let _ = lock(&self.helper).destroy(self.id);
    }

    fn stop_at_once(&mut self) -> Option<Stopping> {
        let (helper, id) = (Arc::clone(&self.helper), self.id);
        Some(Box::pin(async move {
            match ask_if_free(&helper, |zygote, waiter| zygote.begin_destroy(id, waiter)).await? {
                Err(CreateError::NotEnded) => None,
                stopped => Some(stopped.map(drop).map_err(StartError::from)),
            }
        }))
    }

    fn freeze(&mut self) -> Result<Snapshot, StartError> {
        // Both come from one row of numbers, so this one is new too.
        let id = self.id;
        self.until_ended(|helper| helper.freeze(id, id))?;
        Ok(Snapshot::new(Arc::clone(&self.helper), self.id, self.disk))
    }

    fn autopsy(&self) -> Option<Autopsy> {
        let (helper, id) = (Arc::clone(&self.helper), self.id);
        Some(Arc::new(move || lock(&helper).is_starved(id)))
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
        // Held until the helper has mounted what was checked here.
        let sources = open_sources(&request.mounts).await?;
        let base = open_image(&request.image)?;
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
                (Some((keeper, files)), System::Before { snapshot, declared }) => {
                    let tools = match snapshot {
                        Some(snapshot) => Some(snapshot.keeper(std::slice::from_ref(keeper))?.1),
                        None => None,
                    };
                    Image::Scene { files: *files, tools, declared: declared.clone() }
                }
            },
            directory: base.as_ref().map(|base| (base.device, base.inode)),
            limits: request.limits,
            disk: request.disk,
            inodes: (request.disk / BYTES_PER_INODE).max(1024),
            mounts: request.mounts.into_iter().zip(&sources).map(|(mount, source)| shown(mount, source)).collect(),
            allow_setuid: request.allow_setuid,
            network: request.network,
        };
        let (maker, created) = self.make(spec, theirs, keeper.map(|(keeper, _)| keeper)).await?;
        drop((sources, base));
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

/// Opens and checks mount sources on a thread that may wait: they are searched.
async fn open_sources(mounts: &[Mount]) -> Result<Vec<MountSource>, StartError> {
    if mounts.is_empty() {
        return Ok(Vec::new());
    }
    let mounts = mounts.to_vec();
    let opened = tokio::task::spawn_blocking(move || open_mounts(&mounts));
    opened.await.map_err(|error| StartError::Helper(std::io::Error::other(error)))?
}

/// A mount as the helper is told it: it shows the file that was checked, or fails.
fn shown(mount: Mount, source: &MountSource) -> Shown {
    Shown { mount: Mount { source: source.path().to_owned(), ..mount }, device: source.device, inode: source.inode }
}
