//! From services whose images are open, and the plan, to what is started for every sample.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docker::{Docker, Local};
use egress::Neighbour;
use image::Config;
use profile::{Egress, Plan, Request};
use sandbox::{Kind, Limits, StartError};
use secrecy::ExposeSecret as _;
use stack::{Blueprint, Health, Process, Service};

use super::super::{container, docker as at_docker, exec};
use super::Services;
use super::wish::{Look, Outside, Test, Wish};

/// How often health is looked at, how long that may take and how often it may fail, where nobody says: as Docker has it.
const INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: u32 = 3;

/// What commands find in a service, beside its own process.
pub(in super::super) struct Surroundings {
    pub(in super::super) environment: Vec<(String, String)>,
    pub(in super::super) directory: String,
    pub(in super::super) user: Option<String>,
}

/// Names of services, with their sandboxes.
pub(in super::super) type Kinds = Vec<(String, Arc<dyn Kind>)>;

impl Services {
    /// What runs in the default service, and how: its image's word, and where the file has another one, that.
    pub(in super::super) fn config(&self) -> Config {
        match (self.wish(&self.default), self.images.get(&self.default)) {
            (Some(wish), Some(image)) => config(wish, &image.local),
            _ => Config::default(),
        }
    }

    fn wish(&self, name: &str) -> Option<&Wish> {
        self.wishes.iter().find(|wish| wish.name == name)
    }

    /// The sandboxes of one service.
    fn docker(&self, wish: &Wish, asked: &Request, plan: &Plan) -> Result<Docker, StartError> {
        let missing = || StartError::Engine(format!("the image of `{}` is not open", wish.name).into());
        let image = self.images.get(&wish.name).ok_or_else(missing)?;
        let mut docker = at_docker::kind(asked, plan, image)?;
        let (request, shape) = (&mut docker.request, &wish.shape);
        if wish.name != self.default {
            // What the agent can write to is nobody else's source either.
            sandbox::check_nesting(&[&request.mounts[..], &shape.mounts].concat())?;
            sandbox::check_mounts(&shape.mounts, container::secret_mounts(asked))?;
            // What the document mounts, as what the file mounts for the default service, is for the agent.
            request.mounts.clone_from(&shape.mounts);
        }
        if let (Some(limits), Some(force)) = (&mut request.limits, shape.in_force) {
            *limits = Limits { memory: force.memory, pids: force.processes, cpu_millis: force.millicpus };
        }
        let memory = request.limits.map_or(u64::MAX, |limits| limits.memory);
        request.memory_kept = shape.memory_kept.map(|kept| kept.min(memory));
        request.shared_memory = shape.shared_memory.map(|bytes| bytes.min(memory));
        request.read_only = shape.read_only;
        request.allow_setuid &= !shape.no_new_privileges;
        request.tmpfs.clone_from(&shape.tmpfs);
        request.volumes.clone_from(&shape.volumes);
        request.ulimits.clone_from(&shape.ulimits);
        request.hosts.clone_from(&shape.hosts);
        let usable =
            |name: &&String| name.len() < 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if let Some(name) = shape.hostname.as_ref().or(Some(&wish.name).filter(usable)) {
            request.hostname.clone_from(name);
        }
        Ok(docker)
    }

    /// Every service's sandboxes, the default one's first.
    pub(in super::super) fn kinds(&self, asked: &Request, plan: &Plan) -> Result<Kinds, StartError> {
        let mut kinds = Vec::new();
        for wish in &self.wishes {
            kinds.push((wish.name.clone(), Arc::new(self.docker(wish, asked, plan)?) as Arc<dyn Kind>));
        }
        kinds.sort_by_key(|(name, _)| *name != self.default);
        Ok(kinds)
    }

    /// What is started for every sample.
    pub(in super::super) fn blueprint(&self, asked: &Request, plan: &Plan) -> Result<Blueprint, StartError> {
        let services = self.wishes.iter().map(|wish| self.service(wish, asked, plan));
        Ok(Blueprint { services: services.collect::<Result<_, _>>()?, default: self.default.clone() })
    }

    fn service(&self, wish: &Wish, asked: &Request, plan: &Plan) -> Result<Service, StartError> {
        let kind: Arc<dyn Kind> = Arc::new(self.docker(wish, asked, plan)?);
        let missing = || StartError::Engine(format!("the plan has no network for `{}`", wish.name).into());
        let is_default = wish.name == self.default;
        let zone = if is_default {
            plan.network.phases.get("agent")
        } else {
            plan.services.get(&wish.name).map(|service| &service.network)
        };
        let planned = zone.map(|zone| zone.egress.clone()).ok_or_else(missing)?;
        let local = self.images.get(&wish.name).map(|image| &image.local);
        let config = local.map(|local| config(wish, local)).unwrap_or_default();
        let around = self.around(wish, asked);
        let process = |argv: Vec<String>, terminal: bool, input_open: bool| Process {
            argv,
            env: around.environment.clone(),
            directory: Some(around.directory.clone()),
            user: around.user.clone(),
            terminal,
            input_open,
        };
        let argv = [&config.entrypoint[..], &config.command].concat();
        Ok(Service {
            name: wish.name.clone(),
            kind,
            process: (!argv.is_empty()).then(|| process(argv, wish.terminal, wish.input_open)),
            egress: if matches!(wish.network, Outside::Nothing) { Egress::Nothing } else { planned },
            leads_outside: !matches!(wish.network, Outside::Nothing),
            neighbours: wish.neighbours.iter().map(|(name, aliases)| self.neighbour(name, aliases)).collect(),
            health: health(&wish.health, local, |argv| process(argv, false, false)),
            needs: wish.needs.clone(),
            restart: wish.restart,
        })
    }

    /// What commands find in each service.
    pub(in super::super) fn surroundings(&self, asked: &Request) -> BTreeMap<String, Surroundings> {
        self.wishes.iter().map(|wish| (wish.name.clone(), self.around(wish, asked))).collect()
    }

    fn around(&self, wish: &Wish, asked: &Request) -> Surroundings {
        let local = self.images.get(&wish.name).map(|image| &image.local);
        let config = local.map(|local| config(wish, local)).unwrap_or_default();
        let environment = if wish.name == self.default {
            exec::environment(&asked.document, &config)
        } else {
            entries(&config).into_iter().collect()
        };
        Surroundings {
            environment,
            // As Docker has it: `/` where nobody says.
            directory: config.workdir.unwrap_or_else(|| "/".to_owned()),
            user: config.user,
        }
    }

    /// A neighbour with the ports that it declares, and those that its image exposes.
    fn neighbour(&self, name: &str, aliases: &[String]) -> Neighbour {
        let declared = self.wish(name).map(|wish| wish.ports.clone()).unwrap_or_default();
        let exposed = self.images.get(name).map(|image| image.local.exposed.clone()).unwrap_or_default();
        let mut ports = [declared, exposed].concat();
        ports.sort_unstable();
        ports.dedup();
        Neighbour { service: name.to_owned(), aliases: aliases.to_vec(), ports }
    }
}

fn config(wish: &Wish, local: &Local) -> Config {
    let image = at_docker::config(local);
    let mut env: BTreeMap<String, String> = entries(&image);
    env.extend(wish.environment.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())));
    // Where the file has an entry point of its own, the image's command is dropped.
    let drops = wish.entrypoint.as_ref().is_some_and(|words| !words.is_empty());
    Config {
        env: env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
        user: wish.user.clone().or(image.user),
        workdir: wish.directory.clone().or(image.workdir),
        command: wish.command.clone().unwrap_or(if drops { Vec::new() } else { image.command }),
        entrypoint: wish.entrypoint.clone().unwrap_or(image.entrypoint),
    }
}

fn entries(config: &Config) -> BTreeMap<String, String> {
    let split = config.env.iter().filter_map(|entry| entry.split_once('='));
    split.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn health(look: &Look, local: Option<&Local>, process: impl Fn(Vec<String>) -> Process) -> Option<Health> {
    let image = local.and_then(|local| local.health.as_ref());
    let argv = match &look.test {
        Test::Nothing => return None,
        Test::Command(argv) => argv.clone(),
        Test::OfImage => match image?.test.split_first()? {
            (first, rest) if first == "CMD" => rest.to_vec(),
            (_, rest) => vec!["/bin/sh".into(), "-c".into(), rest.join(" ")],
        },
    };
    // What the file leaves out is as the image has it, where it has a check at all.
    let interval = look.interval.or(image.and_then(|image| image.interval)).unwrap_or(INTERVAL);
    let timeout = look.timeout.or(image.and_then(|image| image.timeout)).unwrap_or(TIMEOUT);
    let retries = look.retries.or(image.and_then(|image| image.retries)).unwrap_or(RETRIES);
    let start_period = look.start_period.or(image.and_then(|image| image.start_period)).unwrap_or_default();
    (!argv.is_empty()).then(|| Health { test: process(argv), interval, timeout, retries, start_period })
}
