//! What can only be said of a file as a whole: names that point somewhere, no circles, one default.

use std::collections::{BTreeMap, BTreeSet};

use profile::Problem;
use profile::source::nearest_word;

use crate::names::{NetworkName, ServiceName};
use crate::project::{Network, layers};
use crate::read::Found;
use crate::reading::Ignored;
use crate::service::{Attachment, Condition, HealthTest, MountSource, Service};

/// Complains about names that point nowhere, and says which service an agent gets.
pub(crate) fn whole(found: &mut Found) -> Option<ServiceName> {
    let mut wrong = Wrong::default();
    for service in &found.services {
        names(found, service, &mut wrong);
        dependencies(found, service, &mut wrong);
    }
    circles(&found.services, &mut wrong);
    aliases(&found.services, &mut wrong);
    let default = default(found, &mut wrong);
    found.problems.extend(wrong.0);
    add_default_network(found);
    default
}

/// What is wrong, each with the file of the service that has it.
#[derive(Default)]
struct Wrong(Vec<(Option<String>, Problem)>);

impl Wrong {
    fn add(&mut self, service: &Service, problem: Problem) {
        self.0.push((service.file.clone(), problem));
    }
}

fn names(found: &Found, service: &Service, wrong: &mut Wrong) {
    if let Attachment::Networks(networks) = &service.attachment {
        for name in networks.keys().filter(|name| name.as_str() != "default" && !found.networks.contains_key(*name)) {
            let message = format!("service `{}` is on the network `{name}`, which is not in `networks`", service.name);
            let problem = Problem::at(service.place, message);
            wrong.add(
                service,
                match nearest_word(name.as_str(), found.networks.keys().map(NetworkName::as_str)) {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem.hint(format!("write networks: {{{name}: {{}}}} at the top level")),
                },
            );
        }
    }
    for mount in &service.mounts {
        if let MountSource::Volume { name, .. } = &mount.value.source
            && !found.volumes.contains(name)
        {
            let message = format!("the volume `{name}` is not in `volumes`");
            let hint = format!("write volumes: {{{name}: {{}}}} at the top level, or ./{name} for a directory");
            wrong.add(service, Problem::at(mount.place.unwrap_or(service.place), message).hint(hint));
        }
    }
}

fn dependencies(found: &Found, service: &Service, wrong: &mut Wrong) {
    for needed in &service.depends_on {
        let other = found.services.iter().find(|other| other.name == needed.service);
        let disabled = |other: &Service| {
            other.health.as_ref().is_some_and(|health| health.value.test == Some(HealthTest::Disabled))
        };
        match other {
            Some(other) if needed.condition == Condition::Healthy && disabled(other) => {
                let message = format!("`{}` has its health check disabled, and can never be healthy", other.name);
                wrong.add(service, Problem::at(needed.place, message));
            }
            Some(_) => {}
            None if !needed.required => {}
            None if found.left_out.contains(&needed.service) => {
                let message = format!("service `{}` needs `{}`, which is left out", service.name, needed.service);
                wrong.add(service, Problem::at(needed.place, message).hint("say `required: false`"));
            }
            None => {
                let message = format!("service `{}` needs `{}`, which there is not", service.name, needed.service);
                let problem = Problem::at(needed.place, message);
                let known = found.services.iter().map(|service| service.name.as_str());
                wrong.add(
                    service,
                    match nearest_word(needed.service.as_str(), known) {
                        Some(near) => problem.hint(format!("did you mean `{near}`?")),
                        None => problem,
                    },
                );
            }
        }
    }
}

fn circles(services: &[Service], wrong: &mut Wrong) {
    let (_, mut stuck) = layers(services);
    // Whoever waits for a circle without being waited for is not part of it.
    loop {
        let before = stuck.len();
        let waited_for: BTreeSet<&ServiceName> =
            stuck.iter().flat_map(|service| service.depends_on.iter().map(|needed| &needed.service)).collect();
        stuck.retain(|service| waited_for.contains(&service.name));
        if stuck.len() == before {
            break;
        }
    }
    if let Some(first) = stuck.first() {
        let names: Vec<String> = stuck.iter().map(|service| format!("`{}`", service.name)).collect();
        let message = format!("services wait for each other in a circle: {}", names.join(", "));
        wrong.add(first, Problem::at(first.place, message).hint("remove one of their `depends_on`"));
    }
}

/// A name on a network is one service, or nobody knows whom a connection reaches.
fn aliases(services: &[Service], wrong: &mut Wrong) {
    let mut owners: BTreeMap<(&NetworkName, &str), &ServiceName> = BTreeMap::new();
    for service in services {
        if let Attachment::Networks(networks) = &service.attachment {
            owners.extend(networks.keys().map(|network| ((network, service.name.as_str()), &service.name)));
        }
    }
    for service in services {
        let Attachment::Networks(networks) = &service.attachment else { continue };
        for (network, alias) in
            networks.iter().flat_map(|(network, aliases)| aliases.iter().map(move |alias| (network, alias)))
        {
            let owner = *owners.entry((network, &alias.value)).or_insert(&service.name);
            if *owner != service.name {
                let message =
                    format!("`{}` is a name of the service `{owner}` already, on the network `{network}`", alias.value);
                wrong.add(service, Problem::at(alias.place.unwrap_or(service.place), message));
            }
        }
    }
}

fn default(found: &mut Found, wrong: &mut Wrong) -> Option<ServiceName> {
    let mut marked = found.services.iter().filter(|service| service.marked_default);
    let first_marked = marked.next();
    if let Some(second) = marked.next() {
        let message = format!("service `{}` has `x-default` too; one service is the default", second.name);
        wrong.add(second, Problem::at(second.place, message));
    }
    let called = found.services.iter().find(|service| service.name.as_str() == "default");
    if let Some(service) = first_marked.or(called) {
        return Some(service.name.clone());
    }
    let first = found.services.first()?;
    if found.services.len() > 1 {
        found.ignored.push(Ignored {
            place: Some(first.place),
            file: first.file.clone(),
            service: Some(first.name.clone()),
            key: "x-default".into(),
            why: "no service is marked with it or called `default`: the agent gets the first".into(),
        });
    }
    Some(first.name.clone())
}

/// The network that services are on which name none.
fn add_default_network(found: &mut Found) {
    let used = found.services.iter().find_map(|service| match &service.attachment {
        Attachment::Networks(networks) => networks.keys().find(|name| name.as_str() == "default").cloned(),
        Attachment::None | Attachment::Bridge => None,
    });
    if let Some(name) = used {
        found.networks.entry(name).or_insert(Network::Open);
    }
}
