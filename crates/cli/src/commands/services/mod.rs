//! The services of a sample: from a Compose file, or from the document's own `services:`, to what a provider starts.
//!
//! Two ways in (`from_compose`, `from_document`) lead to the same [`Wish`]es; those become part of the document, so that the
//! plan holds for them, and then, with their images open, a [`stack::Blueprint`].

mod blueprint;
mod from_compose;
mod from_document;
mod open;
mod shape;
mod wish;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use profile::{
    Affordance, Bytes, Count, Document, Kind, Located, MilliCpus, Mount, MountMode, Network, Phase, Place, Plan,
    Problem, Problems, Provider, Sensitivity, ServiceLimits, Zone,
};

use secrecy::ExposeSecret as _;

use eval::Inputs;

use super::docker::{self, AtDaemon};
use super::plan;
use wish::Wish;

/// The services of a sample, as they are asked for.
pub(super) struct Services {
    wishes: Vec<Wish>,
    default: String,
    /// What is worth knowing about them, for the plan.
    notes: Vec<String>,
    /// The files that they were read from, also those that were looked for in vain.
    files: Vec<PathBuf>,
    /// Their images, once they are open.
    images: BTreeMap<String, AtDaemon>,
}

/// What is known of the task that a Compose file is of.
#[derive(Debug, Default)]
pub(super) struct Task {
    /// A directory that is all the task's: paths of the file may lead up to it. Without one it is the file's own.
    pub(super) root: Option<PathBuf>,
    /// What the sample says of itself.
    pub(super) variables: BTreeMap<String, String>,
}

/// What a document that is its only text calls the service that the agent works in.
const DEFAULT: &str = "default";

impl Services {
    /// The services that a document asks for; `None` where its sandbox is all there is. From here on the document has them
    /// among its own, with the default service's image as its image.
    ///
    /// `compose` beats the file that the document names. Files are seen from where the document is, and what lies there
    /// is the task's.
    pub(super) fn of(
        document: &mut Document,
        compose: Option<&Path>,
        provider: Option<Provider>,
    ) -> Result<Option<Self>, plan::Obstacle> {
        let choice = document.sandbox.as_ref().map(|choice| &choice.value);
        let is_docker = provider.or(choice.map(|choice| choice.provider)) == Some(Provider::Docker);
        let named = choice.filter(|choice| choice.provider == Provider::Docker).and_then(|one| one.config.clone());
        let task = match compose {
            Some(_) => Task::default(),
            None => Task { root: Some(beside(&document.origin, ".")), ..Task::default() },
        };
        let file = compose.map(Path::to_owned).or_else(|| named.map(|name| beside(&document.origin, &name)));
        let services = match file {
            Some(file) if is_docker => {
                exclusive(document, &file)?;
                from_compose::read(document, &file, &task)?
            }
            Some(file) => {
                let problem = Problem::new(format!("{} is for `sandbox: docker`", file.display()))
                    .hint("say --provider docker, or sandbox: [docker, FILE] in the document");
                return Err(Problems { origin: document.origin.clone(), problems: vec![problem] }.into());
            }
            None if is_docker && !document.services.is_empty() => from_document::read(document)?,
            None => return Ok(None),
        };
        Ok(Some(services.declare(document)))
    }

    /// The services of a Compose file of a task.
    pub(super) fn of_file(document: &mut Document, file: &Path, task: &Task) -> Result<Self, plan::Obstacle> {
        exclusive(document, file)?;
        let services = from_compose::read(document, file, task)?;
        Ok(services.declare(document))
    }

    /// The services of a Compose file whose text is known, and the directory that it would lie in.
    pub(super) fn of_text(
        document: &mut Document,
        text: &str,
        directory: &Path,
        task: &Task,
    ) -> Result<Self, plan::Obstacle> {
        exclusive(document, &directory.join("compose.yaml"))?;
        let services = from_compose::read_in(document, text, directory, task)?;
        Ok(services.declare(document))
    }

    /// Makes them part of the document, so that its plan says what holds for them.
    fn declare(mut self, document: &mut Document) -> Self {
        // What the agent has, or nothing: never more.
        let level = document.phases.get(&Phase::Agent).map_or(document.profile.value.network, |zone| zone.level.value);
        let rules = document.phases.get(&Phase::Agent).and_then(|zone| zone.rules.clone());
        let limits = document.limits.clone();
        for wish in &mut self.wishes {
            let force = wish.shape.limits.in_force(&limits);
            wish.shape.in_force = Some(force);
            let own = ServiceLimits {
                memory: Bytes(force.memory),
                pids: Count(force.processes),
                cpu: MilliCpus(force.millicpus),
            };
            let mounts = wish.shape.mounts.iter().map(|mount| Mount {
                source: mount.source.clone(),
                target: mount.target.clone(),
                mode: MountMode::ReadOnly,
            });
            if wish.name == self.default {
                document.image = Some(Located::nowhere(wish.image.shown()));
                document.mounts.extend(mounts.map(Located::nowhere));
                (document.limits.memory.amount, document.limits.pids.amount) = (own.memory, own.pids);
                document.limits.cpu.amount = own.cpu;
                continue;
            }
            let is_as_agent =
                own.memory == limits.memory.amount && own.pids == limits.pids.amount && own.cpu == limits.cpu.amount;
            let zone = |level| Zone { level: Located::nowhere(level), rules: rules.clone() };
            let network = match &wish.network {
                wish::Outside::Stated(zone) => zone.clone(),
                wish::Outside::AsAgent if level != Network::N2 => Some(zone(level)),
                wish::Outside::AsAgent | wish::Outside::Nothing => None,
            };
            let service = profile::Service {
                place: wish.place.unwrap_or(Place { line: 1, column: 1 }),
                image: Located::nowhere(wish.image.shown()),
                ports: wish.ports.clone(),
                network,
                environment: wish.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
                mounts: mounts.collect(),
                limits: (!is_as_agent).then_some(own),
            };
            document.services.insert(wish.name.clone(), service);
        }
        self
    }

    /// Adds what is worth knowing about them to a plan.
    pub(super) fn annotate(&self, plan: &mut Plan) {
        plan.notes.extend(self.notes.iter().cloned());
        let default = self.wishes.iter().find(|wish| wish.name == self.default);
        for name in default.iter().flat_map(|wish| wish.environment.keys()) {
            let variable = Affordance::fixture(name.clone(), Kind::Environment, Sensitivity::Plain);
            if let Err(at) = plan.affordances.binary_search(&variable) {
                plan.affordances.insert(at, variable);
            }
        }
        if default.is_some_and(|wish| matches!(wish.network, wish::Outside::Nothing)) {
            plan.notes.push(format!("the default service `{}` is on no network that leads outside", self.default));
        }
    }

    /// Whether there is a service of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.wishes.iter().any(|wish| wish.name == name)
    }

    /// What they were read from, and the directories that their images are built of.
    pub(super) fn inputs(&self) -> Inputs {
        let built = self.wishes.iter().filter_map(|wish| match &wish.image {
            wish::Source::Built(build) => Some(docker::context(build)),
            wish::Source::Named(_) => None,
        });
        Inputs { files: self.files.clone(), directories: built.collect() }
    }

    /// Values that a document gives to its services: those are never written. What a Compose file says is in that file.
    pub(super) fn secrets(&self) -> Vec<String> {
        let stated = self.wishes.iter().filter(|wish| matches!(wish.network, wish::Outside::Stated(_)));
        stated.flat_map(|wish| wish.environment.values().map(|value| value.expose_secret().to_owned())).collect()
    }
}

/// A file that a document names lies beside it.
fn beside(origin: &str, name: &str) -> PathBuf {
    Path::new(origin).parent().unwrap_or(Path::new("")).join(name)
}

/// A Compose file says what the services and their images are; a document that says it too contradicts it.
fn exclusive(document: &Document, file: &Path) -> Result<(), Problems> {
    let mut problems = Vec::new();
    let also = |what: &str| format!("`{what}` and the Compose file {} exclude each other", file.display());
    if let Some(image) = &document.image {
        let problem =
            image.place.map_or_else(|| Problem::new(also("image")), |place| Problem::at(place, also("image")));
        problems.push(problem.hint("name the image in the Compose file"));
    }
    if let Some(service) = document.services.values().next() {
        problems.push(Problem::at(service.place, also("services")).hint("keep them in one place"));
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems { origin: document.origin.clone(), problems }) }
}
