//! From a wish to a sandbox that lives.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sandbox::Sandbox;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use verify::Speed;

use super::ending::Ending;
use super::held::{Held, Service};
use super::keep::{Kept, Listed, keep};
use super::network::Watcher;
use super::now_ms;
use super::records::Records;
use super::services::Stacked;
use crate::api::problem::{Answer, Code, Problem, chain};
use crate::api::{Caller, SandboxWish, VerifyWish};
use crate::app::App;
use crate::workshop::{Made, ServicePart};

/// The longest lease that is given.
const LONGEST_LEASE: Duration = Duration::from_hours(24);
/// How much of a sandbox's passwd file is read.
const MAX_PASSWD: u64 = 1 << 20;

/// A wish, prepared by the workshop on a thread that may wait.
pub(crate) async fn prepare(app: &Arc<App>, wish: &SandboxWish) -> Answer<Made> {
    let (workshop, wish) = (Arc::clone(&app.workshop), wish.clone());
    let prepared = tokio::task::spawn_blocking(move || workshop.prepare(&wish)).await;
    let prepared = prepared.map_err(|error| Problem::new(Code::Unavailable, format!("cannot plan: {error}")))?;
    Ok(prepared?)
}

/// The same only for the same wish with the same plan: the plan names the image by its digest.
fn key(wish: &SandboxWish, made: &Made) -> String {
    let text = json!([wish.sort(), made.plan.hash()]).to_string();
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// Makes it. Whoever asked may be gone meanwhile: this runs to its end all the same, and whoever waits for it decides.
pub(crate) async fn create(app: Arc<App>, caller: Caller, wish: SandboxWish) -> Answer<Arc<Held>> {
    let lease = lease(&app, &caller, &wish)?;
    let slot = app.sandboxes.reserve(&caller.owner, app.limits.sandboxes)?;
    if app.closing.is_cancelled() {
        return Err(Problem::new(Code::Unavailable, "the server ends"));
    }
    let made = prepare(&app, &wish).await?;
    let key = key(&wish, &made);
    let observed = observed(&app, &wish, &key, &made).await?;
    let Made { requested, plan, default, services, blueprint, asks, held: resources, .. } = made;
    let id = format!("s-{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    let ending = Ending::default();
    let records = Arc::new(Records::new(app.limits.records));
    let mut builder = Builder {
        kept: Kept {
            sandboxes: Vec::new(),
            stacked: None,
            listed: Vec::new(),
            makers: Vec::new(),
            slot,
            held: resources,
        },
        services: BTreeMap::new(),
        about: format!("{} served{}", plan.profile, wish.about()),
    };
    let watcher = Watcher {
        sandbox: id.clone(),
        service: default.clone(),
        owner: caller.owner.clone(),
        asks,
        records: Arc::clone(&records),
        ending: ending.clone(),
    };
    let built = match blueprint {
        Some(blueprint) => builder.add_all(&app, blueprint, services, watcher).await,
        None => builder.add_each(&app, &key, services, watcher).await,
    };
    if let Err(problem) = built {
        builder.undo().await;
        return Err(problem);
    }
    let Builder { kept, services, .. } = builder;
    let held = Arc::new(Held {
        id,
        owner: caller.owner.clone(),
        session: caller.session.clone(),
        detached: wish.detached.unwrap_or(false),
        lease,
        labels: wish.labels.unwrap_or_default(),
        created_ms: now_ms(),
        requested: requested.to_string(),
        profile: plan.profile.to_string(),
        plan_hash: plan.hash(),
        plan: json!(plan),
        observed,
        default,
        services,
        records,
        ending,
        renewed: Mutex::new(Instant::now()),
        busy: AtomicUsize::new(0),
    });
    app.sandboxes.insert(&held);
    app.metrics.count_created();
    // From here on it has a keeper, which ends it whatever happens.
    app.tasks.spawn(keep(Arc::clone(&app), Arc::clone(&held), kept));
    if held.session.as_ref().is_some_and(|session| !app.sessions.is_open(&held.owner, session)) {
        held.ending.want("its session ended");
    }
    Ok(held)
}

/// How long it lives without being asked for: for ever where a session or nobody ends it.
fn lease(app: &App, caller: &Caller, wish: &SandboxWish) -> Answer<Option<Duration>> {
    let stated = match wish.lease_seconds {
        None => None,
        Some(seconds) => Some(
            Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|lease| *lease >= Duration::from_secs(1) && *lease <= LONGEST_LEASE)
                .ok_or_else(|| Problem::bad("`lease_seconds` must be between 1 and 86400"))?,
        ),
    };
    let detached = wish.detached.unwrap_or(false);
    if detached && caller.session.is_some() {
        return Err(Problem::bad("a detached sandbox belongs to no session")
            .hint("leave out `detached`, or the session's header"));
    }
    Ok(stated.or((!detached && caller.session.is_none()).then_some(app.limits.lease)))
}

async fn observed(app: &App, wish: &SandboxWish, key: &str, made: &Made) -> Answer<Value> {
    let speed = match wish.verify {
        None | Some(VerifyWish::Off) => return Ok(json!({"state": "not_probed"})),
        Some(VerifyWish::Fast) => Speed::Fast,
        Some(VerifyWish::Full) => Speed::Full,
    };
    if made.subjects.is_empty() {
        return Ok(json!({"state": "nothing_to_prove"}));
    }
    app.proofs.observed(key, speed, &made.subjects).await
}

/// What is made so far.
struct Builder {
    kept: Kept,
    services: BTreeMap<String, Service>,
    /// What other commands of this user are told of it.
    about: String,
}

impl Builder {
    /// Containers that do not know of each other. `watcher` is that of the default one.
    async fn add_each(
        &mut self,
        app: &App,
        key: &str,
        services: BTreeMap<String, ServicePart>,
        watcher: Watcher,
    ) -> Answer<()> {
        for (name, part) in services {
            let listed = listed_as(&watcher, &name);
            let watcher = Watcher { service: name.clone(), ..watcher.clone() };
            self.add(app, &format!("{key}/{name}"), part, watcher, &listed).await?;
        }
        Ok(())
    }

    /// Containers that are started together.
    async fn add_all(
        &mut self,
        app: &App,
        blueprint: stack::Blueprint,
        services: BTreeMap<String, ServicePart>,
        watcher: Watcher,
    ) -> Answer<()> {
        let run = format!("serve-{}-{}", std::process::id(), watcher.sandbox);
        let stacked = Stacked::start(Arc::clone(&app.networks), watcher.clone(), blueprint, &run).await?;
        for (name, part) in services {
            let Some(sandbox) = stacked.sandbox(&name) else { continue };
            let listing = Listed::new(sandbox, &listed_as(&watcher, &name), &self.about, &part.image);
            let served = stacked.served.get(&name).cloned();
            self.services.insert(
                name.clone(),
                Service {
                    view: sandbox.hold(),
                    environment: part.environment,
                    cwd: part.workdir.clone(),
                    workdir: part.workdir,
                    user: part.user,
                    image: part.image,
                    egress: part.egress,
                    served,
                    listed: listing.is_some().then(|| listed_as(&watcher, &name)),
                },
            );
            self.kept.listed.extend(listing);
        }
        self.kept.stacked = Some(stacked);
        Ok(())
    }

    async fn add(&mut self, app: &App, key: &str, part: ServicePart, watcher: Watcher, listed: &str) -> Answer<()> {
        let ServicePart { kind, egress, environment, workdir, user, image } = part;
        let name = watcher.service.clone();
        let (sandbox, served) = match &kind {
            None => (sandbox::start_local().await?, None),
            Some(kind) => {
                let (sandbox, capture, maker) = app.makers.make(key, kind).await?;
                self.kept.makers.push(maker);
                let served = if kind.is_captured() {
                    let attached = app.networks.attach(watcher, &egress, capture, None).await;
                    match attached {
                        Ok(served) => Some(Arc::new(served)),
                        Err(error) => {
                            let _ = sandbox.stop().await;
                            return Err(Problem::new(Code::Unavailable, chain(&error)));
                        }
                    }
                } else {
                    None
                };
                (sandbox, served)
            }
        };
        let view = sandbox.hold();
        let cwd = workdir;
        let workdir = match &cwd {
            Some(workdir) => Some(workdir.clone()),
            None if kind.is_some() => Some(home(&view, user.as_deref()).await),
            None => None,
        };
        let listing = Listed::new(&sandbox, listed, &self.about, &image);
        let listed = listing.is_some().then(|| listed.to_owned());
        self.kept.listed.extend(listing);
        self.kept.sandboxes.push(sandbox);
        self.services.insert(name, Service { view, environment, cwd, workdir, user, image, egress, served, listed });
        Ok(())
    }

    /// Ends what was made.
    async fn undo(self) {
        for sandbox in self.kept.sandboxes {
            let _ = sandbox.stop().await;
        }
        for service in self.services.into_values() {
            if let Some(served) = service.served {
                served.detach().await;
            }
        }
    }
}

/// The name of a container on the user's own list: that of the sandbox means the default one.
fn listed_as(default: &Watcher, service: &str) -> String {
    if service == default.service { default.sandbox.clone() } else { format!("{}-{service}", default.sandbox) }
}

/// The home of a user, by the sandbox's own passwd file: the same that its guest would take.
async fn home(view: &Sandbox, user: Option<&str>) -> String {
    let passwd = view.read_file("/etc/passwd", MAX_PASSWD).await.unwrap_or_default();
    find_home(&String::from_utf8_lossy(&passwd), user.unwrap_or("0"))
}

fn find_home(passwd: &str, user: &str) -> String {
    let wanted = user.split_once(':').map_or(user, |(user, _)| user);
    let found = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (name, uid, home) = (fields.first()?, fields.get(2)?, fields.get(5)?);
        (*name == wanted || *uid == wanted).then(|| (*home).to_owned())
    });
    found.filter(|home| home.starts_with('/')).unwrap_or_else(|| "/".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_found_by_name_and_by_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\nodd:x:7:7::relative:\n";
        let homes = ["root", "0", "ann", "1000", "1000:5", "nobody", "odd"].map(|user| find_home(passwd, user));
        assert_eq!(homes, ["/root", "/root", "/home/ann", "/home/ann", "/home/ann", "/", "/"]);
    }
}
