//! From a text to a [`Project`], with the files that it includes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use profile::source::{Node, TruthWords, Value, parse_with};
use profile::{Located, Problem, Problems, Unmet};

use crate::host::{self, Use};
use crate::names::{HostPath, NetworkName, ServiceName, VolumeName};
use crate::project::{Network, Project, Refused};
use crate::reading::{Ignored, Origin, Reading, Surroundings};
use crate::rules::{INCLUDE_KEYS, TOP_KEYS};
use crate::section::{self, Section};
use crate::service::{self, Service};
use crate::{check, dotenv, top};

/// The largest Compose file, and the largest file that it names.
pub const MAX_FILE_BYTES: usize = 256 << 10;
/// The most services of a file with all that it includes.
pub const MAX_SERVICES: usize = 64;
/// The most files that are included, at whatever depth.
pub const MAX_INCLUDES: usize = 16;

/// Why a Compose file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It has mistakes.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// It is well-formed, and asks for what no profile gives.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// What was found in a file and in those that it includes.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) name: Option<Located<String>>,
    pub(crate) services: Vec<Service>,
    pub(crate) left_out: BTreeSet<ServiceName>,
    pub(crate) networks: BTreeMap<NetworkName, Network>,
    pub(crate) volumes: BTreeSet<VolumeName>,
    /// What is wrong, and in which included file; `None` is the file itself.
    pub(crate) problems: Vec<(Option<String>, Problem)>,
    refused: Vec<Unmet>,
    pub(crate) ignored: Vec<Ignored>,
    variables: BTreeMap<String, Origin>,
    told_daemon: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
}

/// Reads a Compose file. `origin` is its name in messages.
///
/// Problems come before refusals: a text that may not mean what it says is not judged.
pub fn read(text: &str, origin: &str, around: &Surroundings) -> Result<Project, ReadError> {
    let mut found = Found::default();
    read_file(text, Reading::new(*around, PathBuf::new(), None), &mut found);
    let default = check::whole(&mut found);
    let Found { name, services, networks, volumes, problems, refused, ignored, variables, told_daemon, .. } = found;
    let problems: Vec<Problem> =
        sorted(problems, |(file, problem)| (file.clone(), problem.place)).into_iter().map(with_file).collect();
    match default {
        _ if !problems.is_empty() => Err(Problems { origin: origin.to_owned(), problems }.into()),
        _ if !refused.is_empty() => Err(Refused { origin: origin.to_owned(), unmet: refused }.into()),
        Some(default) => {
            let origin = origin.to_owned();
            Ok(Project { origin, name, services, default, networks, volumes, ignored, variables, told_daemon })
        }
        None => Err(Problems { origin: origin.to_owned(), problems: vec![Problem::new("there is no service")] }.into()),
    }
}

fn read_file(text: &str, mut reading: Reading, found: &mut Found) {
    read_dotenv(&mut reading);
    let mut includes = Vec::new();
    reading.lines = text.lines().take(MAX_FILE_BYTES).map(str::to_owned).collect();
    match tree(text) {
        Ok(node) => includes = read_top(&reading, node, found),
        Err(problem) => reading.complain(problem),
    }
    let inner = includes.into_iter().filter_map(|path| open_include(&reading, &path, found)).collect::<Vec<_>>();
    let around = reading.around;
    let file = reading.file;
    found.problems.extend(reading.complaints.into_problems().into_iter().map(|problem| (file.clone(), problem)));
    found.refused.extend(sorted(reading.refused.into_inner(), |unmet| unmet.place));
    found.ignored.extend(sorted(reading.ignored.into_inner(), |ignored| ignored.place));
    found.variables.extend(reading.taken.into_inner());
    found.told_daemon.extend(reading.told_daemon.into_inner());
    for (path, text) in inner {
        let base = path.as_path().parent().unwrap_or(Path::new("")).to_owned();
        read_file(&text, Reading::new(around, base, Some(path.to_string())), found);
    }
}

/// A problem of a file that was included says so: places do not name files.
fn with_file((file, mut problem): (Option<String>, Problem)) -> Problem {
    if let Some(file) = file {
        problem.message = format!("in {file}: {}", problem.message);
    }
    problem
}

fn sorted<T, K: Ord>(mut items: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    items.sort_by_key(key);
    items
}

fn tree(text: &str) -> Result<Node, Problem> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Problem::new(format!("the file is larger than {MAX_FILE_BYTES} bytes")));
    }
    parse_with(text, TruthWords::Two)
}

/// The variables of the file `.env` beside it.
fn read_dotenv(reading: &mut Reading) {
    let Ok(path) = HostPath::resolve(".env", &reading.base, reading.around.levels_up) else { return };
    let outer = RefCell::new(BTreeSet::new());
    let around = |name: &str| {
        let value = (reading.around.variables)(name);
        outer.borrow_mut().extend(value.is_some().then(|| name.to_owned()));
        value.or_else(|| (reading.around.sample)(name))
    };
    let variables = match host::read(reading, &path) {
        Ok(text) => dotenv::parse(&text, &around).map_err(|error| format!(".env, {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => Err(format!(".env cannot be read: {error}")),
    };
    match variables {
        Ok(variables) => (reading.dotenv, reading.in_dotenv) = (variables, outer.into_inner()),
        Err(message) => reading.complain(Problem::new(message)),
    }
}

/// Reads what a file says itself; returns what it includes.
fn read_top(reading: &Reading, node: Node, found: &mut Found) -> Vec<Located<HostPath>> {
    let place = node.place;
    let Some(mut keys) = Section::open(reading, node, "a Compose file", TOP_KEYS) else { return Vec::new() };
    let mut take = |key| keys.take(key).map(|node| reading.expand(key, node));
    let name = take("name").and_then(|node| section::text(reading, node, "name"));
    if reading.file.is_none() {
        found.name = name;
    }
    let (services, networks, volumes) = (take("services"), take("networks"), take("volumes"));
    let include = take("include");
    keys.finish();
    if services.is_none() && include.is_none() {
        reading.problem_with_hint(place, "there is no `services`", "write services: {default: {image: …}}");
    }
    if let Some(node) = networks {
        top::networks(reading, node, &mut found.networks);
    }
    if let Some(node) = volumes {
        top::volumes(reading, node, &mut found.volumes);
    }
    for (key, node) in services.and_then(|node| section::entries(reading, node, "`services`")).unwrap_or_default() {
        if found.services.len() + found.left_out.len() >= MAX_SERVICES {
            reading.problem(key.place, format!("there are more than {MAX_SERVICES} services"));
            break;
        }
        read_service(reading, key.place, &key.name, node, found);
    }
    include.map(|node| includes(reading, node)).unwrap_or_default()
}

fn read_service(reading: &Reading, place: profile::Place, name: &str, node: Node, found: &mut Found) {
    let Some(name) = section::name::<ServiceName>(reading, place, name, "a service") else { return };
    if found.left_out.contains(&name) || found.services.iter().any(|service| service.name == name) {
        reading.problem(place, format!("a service `{name}` is in another file already"));
        return;
    }
    if node.value == Value::Null {
        reading.problem_with_hint(place, format!("service `{name}` says nothing"), "give it an `image`");
        return;
    }
    match service::read(reading, name.clone(), Node { place, value: node.value }) {
        Some(service) => found.services.push(service),
        None => {
            found.left_out.insert(name);
        }
    }
}

fn includes(reading: &Reading, node: Node) -> Vec<Located<HostPath>> {
    let items = section::list(reading, node, "include");
    let paths = items.into_iter().filter_map(|item| {
        let path = include(reading, item)?;
        host::path(reading, &path, Use::Include)
    });
    paths.collect()
}

/// A path, or a mapping with `path`.
fn include(reading: &Reading, item: Node) -> Option<Located<String>> {
    let place = item.place;
    if !matches!(item.value, Value::Map(_)) {
        return section::text(reading, item, "include");
    }
    let mut keys = Section::open(reading, item, "an entry of `include`", INCLUDE_KEYS)?;
    let path = keys.take("path");
    keys.finish();
    match path {
        Some(Node { value: Value::List(mut paths), .. }) if paths.len() == 1 => {
            section::text(reading, paths.pop()?, "path")
        }
        Some(Node { value: Value::List(_), place }) => {
            reading.refuse(
                place,
                "include",
                "several files as one",
                "they would be merged key by key; include one after the other",
            );
            None
        }
        Some(node) => section::text(reading, node, "path"),
        None => {
            reading.problem(place, "an entry of `include` has no `path`");
            None
        }
    }
}

/// The text of an included file, once.
fn open_include(reading: &Reading, path: &Located<HostPath>, found: &mut Found) -> Option<(HostPath, String)> {
    let complain = |message: String| reading.complain(Problem { place: path.place, message, hint: None });
    if found.files.len() >= MAX_INCLUDES {
        complain(format!("more than {MAX_INCLUDES} files are included"));
        return None;
    }
    if !found.files.insert(path.value.as_path().to_owned()) {
        complain(format!("{} is included twice", path.value));
        return None;
    }
    match host::read(reading, &path.value) {
        Ok(text) => Some((path.value.clone(), text)),
        Err(error) => {
            complain(format!("{} cannot be read: {error}", path.value));
            None
        }
    }
}
