//! A service: the typed form of what a Compose file says about one container. Each file here reads one theme.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use profile::source::Node;
use profile::{Located, Place};

use crate::names::{ContainerPath, NetworkName, ServiceName};
use crate::reading::Reading;
use crate::rules::SERVICE_KEYS;
use crate::section::{self, Section};

mod attachment;
mod command;
mod depends;
mod environment;
mod health;
mod image;
mod limits;
mod mounts;
mod ports;
mod rights;
mod simple;
mod tmpfs;

pub use command::argv;
pub use depends::{Condition, Dependency};
pub use health::{Health, HealthTest};
pub use image::{Build, Dockerfile, Image, Platform, PlatformError, Pull};
pub use limits::{Limits, LimitsInForce, Ulimit};
pub use mounts::{Access, Mount, MountSource};
pub use ports::{PortRange, Protocol};
pub use rights::{ADDABLE_CAPABILITIES, Capability, CapabilityError, Dropped};
pub use simple::Restart;
pub use tmpfs::Tmpfs;

/// Where a service is attached. Whatever this says, the profile's own network level holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// To nothing: it reaches neither services nor anything outside.
    None,
    /// To no network of the file: it reaches no service, and outside what the profile allows.
    Bridge,
    /// To networks of the file, each with the names that it has there beside its own.
    Networks(BTreeMap<NetworkName, Vec<Located<String>>>),
}

/// One service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file with that name")]
pub struct Service {
    /// Its name.
    pub name: ServiceName,
    /// Where it stands.
    pub place: Place,
    /// The included file in which it stands; `None` is the Compose file itself.
    pub file: Option<String>,
    /// Where its image comes from.
    pub image: Image,
    /// When the image is pulled; absent means the provider's own rule. `x-local: true` is [`Pull::Never`].
    pub pull: Option<Located<Pull>>,
    /// For which machine the image must be.
    pub platform: Option<Located<Platform>>,
    /// In place of the image's entry point; empty means none at all.
    pub entrypoint: Option<Located<Vec<String>>>,
    /// In place of the image's command; empty means none at all.
    pub command: Option<Located<Vec<String>>>,
    /// Variables beside the image's own, those of `env_file` included.
    pub environment: BTreeMap<String, Located<String>>,
    /// In place of the image's working directory.
    pub working_dir: Option<Located<ContainerPath>>,
    /// In place of the image's user: `USER` or `USER:GROUP`.
    pub user: Option<Located<String>>,
    /// The host name inside.
    pub hostname: Option<Located<String>>,
    /// Whether somebody reaps processes whose parents ended.
    pub init: bool,
    /// Whether its command has a terminal.
    pub tty: bool,
    /// Whether its command's input stays open.
    pub stdin_open: bool,
    /// Whether its root is read-only.
    pub read_only: bool,
    /// Whether it insists that programs gain no privileges, whatever the profile document allows.
    pub no_new_privileges: bool,
    /// What is mounted in it, in the order of the file; no two at the same path.
    pub mounts: Vec<Located<Mount>>,
    /// What it may use at most; the profile's own limits hold beside these.
    pub limits: Limits,
    /// Limits per process, by their names.
    pub ulimits: BTreeMap<String, Located<Ulimit>>,
    /// Capabilities that it does without.
    pub dropped: Dropped,
    /// Capabilities that it asks for; all of them are in [`ADDABLE_CAPABILITIES`].
    pub added: Vec<Located<Capability>>,
    /// How its health is found out; absent means as the image says.
    pub health: Option<Located<Health>>,
    /// What must be there before it starts.
    pub depends_on: Vec<Dependency>,
    /// Which networks it is on.
    pub attachment: Attachment,
    /// Names with addresses of their own.
    pub extra_hosts: Vec<Located<(String, IpAddr)>>,
    /// Ports that other services may reach, beside those that the image exposes.
    pub ports: Vec<Located<PortRange>>,
    /// What happens when it ends.
    pub restart: Option<Located<Restart>>,
    /// The signal that ends it.
    pub stop_signal: Option<Located<String>>,
    /// How long it may take to end.
    pub stop_grace_period: Option<Located<Duration>>,
    /// Whether it is marked as the one that an agent gets.
    pub marked_default: bool,
}

impl Service {
    /// The variables as a plain map.
    pub fn variables(&self) -> BTreeMap<&str, &str> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.value.as_str())).collect()
    }

    /// The variables over those of the image, which are `NAME=VALUE` each.
    pub fn environment_over(&self, image: &[String]) -> BTreeMap<String, String> {
        let image = image.iter().filter_map(|entry| entry.split_once('='));
        image.chain(self.variables()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The command line, given the image's own entry point and command; see [`argv`].
    pub fn argv(&self, image_entrypoint: &[String], image_command: &[String]) -> Vec<String> {
        let own = |words: &Option<Located<Vec<String>>>| words.as_ref().map(|words| words.value.clone());
        argv(own(&self.entrypoint).as_deref(), own(&self.command).as_deref(), image_entrypoint, image_command)
    }
}

/// Reads a service. `None` if it could not be, of which there are problems then, or if its profiles leave it out.
pub(crate) fn read(reading: &Reading, name: ServiceName, node: Node) -> Option<Service> {
    *reading.service.borrow_mut() = Some(name.clone());
    let (refused, ignored) = (reading.refused.borrow().len(), reading.ignored.borrow().len());
    let service = read_keys(reading, name, node).and_then(|(service, left_out)| {
        let Some(place) = left_out else { return Some(service) };
        // What never starts weakens nothing, and need not be told piece by piece.
        reading.refused.borrow_mut().truncate(refused);
        reading.ignored.borrow_mut().truncate(ignored);
        let why = "the whole service is left out: it starts only with a profile that nobody switches on";
        reading.ignore(place, "profiles", why);
        None
    });
    *reading.service.borrow_mut() = None;
    service
}

/// The service, and where it says that it is left out.
fn read_keys(reading: &Reading, name: ServiceName, node: Node) -> Option<(Service, Option<Place>)> {
    let place = node.place;
    let mut keys = Section::open(reading, node, "a service", SERVICE_KEYS)?;
    let left_out = simple::left_out(&mut keys);
    let image = image::read(&mut keys);
    let limits = limits::read(&mut keys);
    let no_new_privileges = rights::refuse_shared(&mut keys);
    let service = Service {
        name,
        place,
        file: reading.file.clone(),
        // A service without an image is a problem already.
        image: image.unwrap_or(Image::Named(Located::nowhere(String::new()))),
        pull: image::pull(&mut keys),
        platform: keys.parsed("platform", str::parse),
        entrypoint: command::read(&mut keys, "entrypoint"),
        command: command::read(&mut keys, "command"),
        environment: environment::read(&mut keys),
        working_dir: keys.parsed("working_dir", str::parse),
        user: keys.parsed("user", simple::user),
        hostname: keys.parsed("hostname", simple::host_name),
        init: keys.truth("init").unwrap_or(false),
        tty: keys.truth("tty").unwrap_or(false),
        stdin_open: keys.truth("stdin_open").unwrap_or(false),
        read_only: keys.truth("read_only").unwrap_or(false),
        no_new_privileges,
        mounts: mounts::read(&mut keys),
        limits,
        ulimits: limits::ulimits(&mut keys),
        dropped: rights::dropped(&mut keys),
        added: rights::added(&mut keys),
        health: health::read(&mut keys),
        depends_on: depends::read(&mut keys),
        attachment: attachment::read(&mut keys),
        extra_hosts: attachment::extra_hosts(&mut keys),
        ports: ports::read(&mut keys),
        restart: simple::restart(&mut keys),
        stop_signal: keys.parsed("stop_signal", simple::signal),
        stop_grace_period: keys.parsed("stop_grace_period", crate::units::duration),
        marked_default: keys.truth("x-default").unwrap_or(false),
    };
    keys.finish();
    Some((service, left_out))
}

/// A list of texts.
fn texts(keys: &mut Section, key: &str) -> Vec<Located<String>> {
    let reading = keys.reading;
    keys.list(key).into_iter().filter_map(|item| section::text(reading, item, key)).collect()
}
