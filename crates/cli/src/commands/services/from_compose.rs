//! Services from a Compose file: what it says, as far as the file's own directory and what was granted reach.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use compose::{Condition, Image, MAX_FILE_BYTES, Origin, Project, ReadError, Refused, Restart};
use docker::Pull;
use profile::{Cause, Document, Problem, Problems, Refusal, Unmet};
use sandbox::{MountSource, StartError};
use secrecy::{ExposeSecret as _, SecretString};
use stack::Need;

use super::super::plan;
use super::shape;
use super::wish::{Look, Outside, Source, Test, Wish};
use super::{Services, Task};

/// The most ports that a service may declare: each is one that the gateway knows by its number.
const MAX_PORTS: usize = 4096;

/// Where a Compose file lies, and what is beside it.
pub(super) struct Home {
    /// Its directory, without links.
    directory: PathBuf,
    /// The same as it was named.
    named: PathBuf,
    /// The directory that is all the task's; the file's own, or one above.
    root: PathBuf,
    origin: String,
    /// The files that were read, as they were named, also those that were looked for in vain.
    read: RefCell<Vec<PathBuf>>,
}

impl Home {
    /// A file in a directory, without links and as it was named. A root that is not above it is none.
    fn new((directory, named): (PathBuf, PathBuf), root: Option<&Path>, origin: String) -> Self {
        let root = root.and_then(|root| std::fs::canonicalize(root).ok()).filter(|root| directory.starts_with(root));
        Self { root: root.unwrap_or_else(|| directory.clone()), directory, named, origin, read: RefCell::default() }
    }

    fn levels_up(&self) -> usize {
        self.directory.strip_prefix(&self.root).map_or(0, |below| below.components().count())
    }
}

/// Reads a Compose file.
pub(super) fn read(document: &Document, file: &Path, task: &Task) -> Result<Services, plan::Obstacle> {
    let origin = file.display().to_string();
    let failed = |error: &io::Error| {
        let problem = Problem::new(format!("cannot read it: {error}"))
            .hint("name the Compose file as seen from where you are; in a document, as seen from the document");
        Problems { origin: origin.clone(), problems: vec![problem] }
    };
    let full = std::fs::canonicalize(file).map_err(|error| failed(&error))?;
    let directory = full.parent().unwrap_or(Path::new("/")).to_owned();
    let text = bounded(&full).map_err(|error| failed(&error))?;
    let named = std::path::absolute(file).map_err(|error| failed(&error))?;
    let beside = named.parent().unwrap_or(Path::new("/")).to_owned();
    let home = Home::new((directory, beside), task.root.as_deref(), origin);
    home.read.borrow_mut().push(named);
    read_text(document, &text, &home, task)
}

/// Reads the text of a Compose file that would lie in this directory.
pub(super) fn read_in(
    document: &Document,
    text: &str,
    directory: &Path,
    task: &Task,
) -> Result<Services, plan::Obstacle> {
    let origin = directory.join("compose.yaml").display().to_string();
    let failed = |message: String| Problems { origin: origin.clone(), problems: vec![Problem::new(message)] };
    if text.len() > MAX_FILE_BYTES {
        return Err(failed(format!("it is larger than {MAX_FILE_BYTES} bytes")).into());
    }
    let found = std::fs::canonicalize(directory).and_then(|found| Ok((found, std::path::absolute(directory)?)));
    let found = found.map_err(|error| failed(format!("cannot read its directory: {error}")))?;
    read_text(document, text, &Home::new(found, task.root.as_deref(), origin), task)
}

/// A Compose file sees the variables that the document grants, and no others of the runner's.
fn read_text(document: &Document, text: &str, home: &Home, task: &Task) -> Result<Services, plan::Obstacle> {
    let origin = home.origin.clone();
    let granted = |name: &str| document.environment.get(name).map(|value| value.expose_secret().to_owned());
    let around = compose::Surroundings {
        variables: &granted,
        sample: &|name| task.variables.get(name).cloned(),
        files: &|path| home.read(path),
        levels_up: home.levels_up(),
    };
    let project = compose::read(text, &origin, &around).map_err(|error| match error {
        ReadError::Problems(problems) => plan::Obstacle::from(problems),
        ReadError::Refused(refused) => refusal(document, refused).into(),
    })?;
    let mut unmet = told_daemon(&project);
    let mut problems = Vec::new();
    let mut notes = notes(&project);
    let mut wishes = Vec::new();
    for service in &project.services {
        match wish(&project, service, home, &mut notes, &mut unmet) {
            Ok(wish) => wishes.push(wish),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(Problems { origin, problems }.into());
    }
    if !unmet.is_empty() {
        return Err(refusal(document, Refused { origin, unmet }).into());
    }
    let files = home.read.take();
    Ok(Services { wishes, default: project.default.as_str().to_owned(), notes, files, images: BTreeMap::new() })
}

/// What is granted to a sandbox must not be sent by the daemon on its behalf. Not at N0 either: whoever runs it may raise the
/// profile later.
fn told_daemon(project: &Project) -> Vec<Unmet> {
    let told = project.told_daemon.iter().map(|name| {
        let reason = format!(
            "{}: the granted variable `{name}` is part of an image's name or of a build, which the daemon sends out whatever the profile says",
            project.origin
        );
        Unmet::new(Cause::Contradiction, "compose.variables", reason)
            .hint("write the value into the file or into .env")
    });
    told.collect()
}

fn refusal(document: &Document, refused: Refused) -> Refusal {
    let profile = document.profile.value;
    let origin = Some(refused.origin);
    Refusal { schema: Refusal::SCHEMA, profile, origin, unmet: refused.unmet, nearest: Vec::new() }
}

/// A text of at most so many bytes.
fn bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    // Whoever names a pipe would have us wait for ever.
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

impl Home {
    /// Where a path of the file leads; an error where a link leads out.
    pub(super) fn find(&self, path: &Path) -> io::Result<PathBuf> {
        let found = std::fs::canonicalize(self.directory.join(path))?;
        if found.starts_with(&self.root) {
            return Ok(found);
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a link that leads out of the task's directory"))
    }

    /// The same for what is mounted: no link on the way is followed, for an agent that once wrote there may have made it.
    pub(super) fn find_without_links(&self, path: &Path) -> Result<MountSource, StartError> {
        let source = MountSource::open(&self.plain(path).display().to_string())?;
        if Path::new(source.path()).starts_with(&self.root) {
            return Ok(source);
        }
        let why = "it lies outside of the task's directory".to_owned();
        Err(StartError::Mount { path: source.path().to_owned(), why, hint: None })
    }

    /// A path of the file from the root, with its `..` taken by its text.
    fn plain(&self, path: &Path) -> PathBuf {
        let mut plain = PathBuf::from("/");
        // From the directory as it was named: a link on the way to it may be planted too.
        for component in self.named.components().chain(path.components()) {
            match component {
                Component::Normal(name) => plain.push(name),
                // Before a link this is another place than the kernel's `..`: then it is refused.
                Component::ParentDir => drop(plain.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        plain
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        self.read.borrow_mut().push(self.named.join(path));
        bounded(&self.find(path)?)
    }
}

/// What was left out, and variables that were asked for in vain.
fn notes(project: &Project) -> Vec<String> {
    let ignored = project.ignored.iter().map(|one| {
        let of = one.service.as_ref().map(|name| format!(", service `{name}`")).unwrap_or_default();
        format!("{}{of}: `{}` is left out: {}", one.file.as_ref().unwrap_or(&project.origin), one.key, one.why)
    });
    let withheld =
        project.variables.iter().filter(|(name, from)| **from == Origin::Nowhere && std::env::var_os(name).is_some());
    let withheld = withheld.map(|(name, _)| {
        format!(
            "{}: `{name}` of the runner's environment is not granted; --env or `environment` grants it",
            project.origin
        )
    });
    ignored.chain(withheld).collect()
}

fn wish(
    project: &Project,
    service: &compose::Service,
    home: &Home,
    notes: &mut Vec<String>,
    unmet: &mut Vec<Unmet>,
) -> Result<Wish, Problem> {
    let name = service.name.as_str();
    let ports = ports(service)?;
    let mut neighbours: Vec<(String, Vec<String>)> = project
        .neighbours(service)
        .into_iter()
        .map(|other| {
            let own = other.service.name.as_str();
            let aliases = other.names.iter().filter(|alias| **alias != own).map(|alias| (*alias).to_owned());
            (own.to_owned(), aliases.collect())
        })
        .collect();
    if matches!(service.attachment, compose::Attachment::Networks(_)) {
        neighbours.push((name.to_owned(), Vec::new()));
    }
    let text = |value: &Option<profile::Located<String>>| value.as_ref().map(|value| value.value.clone());
    let words = |value: &Option<profile::Located<Vec<String>>>| value.as_ref().map(|value| value.value.clone());
    let environment = service.variables().into_iter();
    let environment = environment.map(|(name, value)| (name.to_owned(), SecretString::from(value)));
    Ok(Wish {
        name: name.to_owned(),
        place: Some(service.place),
        image: source(service, home)?,
        pull: pull(service),
        platform: service.platform.as_ref().map(|platform| platform.value.clone()),
        entrypoint: words(&service.entrypoint),
        command: words(&service.command),
        environment: environment.collect(),
        directory: service.working_dir.as_ref().map(|path| path.value.as_str().to_owned()),
        user: text(&service.user),
        terminal: service.tty,
        input_open: service.stdin_open,
        ports,
        neighbours,
        network: if project.reaches_outside(service) { Outside::AsAgent } else { Outside::Nothing },
        health: look(service),
        needs: needs(project, service),
        restart: restart(service),
        shape: shape::of(service, home, notes, unmet),
    })
}

fn ports(service: &compose::Service) -> Result<Vec<u16>, Problem> {
    let tcp = service.ports.iter().map(|port| port.value).filter(|port| port.protocol == compose::Protocol::Tcp);
    let mut ranges: Vec<(u16, u16)> = tcp.map(|port| (port.first, port.last)).collect();
    ranges.sort_unstable();
    let mut all: Vec<u16> = Vec::new();
    for (first, last) in ranges {
        // Sorted: what is not yet there begins behind the last one. Counted before it is written out.
        let first = all.last().map_or(Some(first), |seen| seen.checked_add(1).map(|next| next.max(first)));
        let Some(first) = first.filter(|first| *first <= last) else { continue };
        if all.len() + usize::from(last - first) + 1 > MAX_PORTS {
            let message = format!("service `{}` declares more than {MAX_PORTS} ports", service.name);
            return Err(Problem::at(service.place, message).hint("declare those that it serves"));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

fn pull(service: &compose::Service) -> Option<Pull> {
    let stated = service.pull.as_ref().map(|pull| match pull.value {
        compose::Pull::Always => Pull::Always,
        compose::Pull::Never => Pull::Never,
        _ => Pull::Missing,
    });
    // For a build it is about the images that it begins with.
    let anew = matches!(&service.image, Image::Built { build, .. } if build.pull);
    if anew { Some(Pull::Always) } else { stated }
}

fn source(service: &compose::Service, home: &Home) -> Result<Source, Problem> {
    let build = match &service.image {
        Image::Named(name) => return Ok(Source::Named(name.value.clone())),
        Image::Built { build, .. } => build,
    };
    let place = build.context.place.unwrap_or(service.place);
    let wrong = |path: &Path, error: io::Error| {
        Problem::at(place, format!("service `{}`: cannot build of `{}`: {error}", service.name, path.display()))
    };
    let context =
        home.find(build.context.value.as_path()).map_err(|error| wrong(build.context.value.as_path(), error))?;
    // As it is named: a link on the way is refused before anything is built.
    let mut made = docker::Build::of(home.plain(build.context.value.as_path()), "Dockerfile");
    match &build.dockerfile {
        compose::Dockerfile::At(None) => {}
        compose::Dockerfile::At(Some(path)) => {
            let found = home.find(path.value.as_path()).map_err(|error| wrong(path.value.as_path(), error))?;
            let inside = found.strip_prefix(&context).map_err(|_| {
                let message = format!("service `{}`: `{}` is not in the build's context", service.name, path.value);
                Problem::at(place, message).hint("put it there: nothing else is sent to the daemon")
            })?;
            made.dockerfile = inside.to_string_lossy().into_owned();
        }
        compose::Dockerfile::Inline(text) => made.inline = Some(text.value.clone()),
    }
    made.arguments = build.args.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
    made.target = build.target.as_ref().map(|target| target.value.clone());
    (made.no_cache, made.without_network) = (build.no_cache, build.without_network);
    made.platform = service.platform.as_ref().map(|platform| platform.value.to_string());
    Ok(Source::Built(Box::new(made)))
}

fn look(service: &compose::Service) -> Look {
    let Some(health) = service.health.as_ref().map(|health| &health.value) else { return Look::default() };
    let test = match &health.test {
        None => Test::OfImage,
        Some(compose::HealthTest::Disabled) => Test::Nothing,
        Some(compose::HealthTest::Command(words)) => Test::Command(words.clone()),
        Some(compose::HealthTest::Shell(text)) => Test::Command(vec!["/bin/sh".into(), "-c".into(), text.clone()]),
    };
    let compose::Health { interval, timeout, retries, start_period, .. } = *health;
    Look { test, interval, timeout, retries, start_period }
}

fn needs(project: &Project, service: &compose::Service) -> Vec<Need> {
    // One that is not required may be left out of the file altogether.
    let there = service.depends_on.iter().filter(|need| project.service(&need.service).is_some());
    let need = |need: &compose::Dependency| Need {
        service: need.service.as_str().to_owned(),
        condition: match need.condition {
            Condition::Started => stack::Condition::Started,
            Condition::Healthy => stack::Condition::Healthy,
            Condition::Completed => stack::Condition::Completed,
        },
        required: need.required,
    };
    there.map(need).collect()
}

fn restart(service: &compose::Service) -> stack::Restart {
    match service.restart.as_ref().map(|restart| restart.value) {
        None | Some(Restart::No) => stack::Restart::Never,
        Some(Restart::Always | Restart::UnlessStopped) => stack::Restart::Always,
        Some(Restart::OnFailure { times }) => stack::Restart::OnFailure(times),
    }
}

impl Home {
    /// A refusal of something that the file asks for and this host does not give.
    pub(super) fn unmet(&self, service: &compose::Service, key: &str, reason: &str) -> Unmet {
        let reason = format!("{}: service `{}`: {reason}", self.origin, service.name);
        Unmet::new(Cause::Contradiction, format!("compose.{key}"), reason).at(Some(service.place))
    }
}
