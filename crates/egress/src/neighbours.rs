//! The other services of a sample, as one of them knows them: names inside the fence, and the ports that they declared.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reason::Reason;

/// The most that one sandbox may have.
const MAX_NEIGHBOURS: usize = 1024;
/// The longest name, as DNS has it.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A service of the same sample. It does not lie outside: no rule of the network lists or denies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its name: letters, digits, `-` and `_`, in labels; a single label will do.
    pub service: String,
    /// Other names of it. A name that belongs to two services is an error.
    pub aliases: Vec<String>,
    /// The TCP ports that it declared. Empty: its name is known, and it is reached on none.
    pub ports: Vec<u16>,
}

/// All neighbours of one sandbox, by every name that they have.
#[derive(Debug, Default)]
pub(crate) struct Neighbourhood {
    /// In the order in which they were given.
    order: Vec<Arc<str>>,
    services: HashMap<Arc<str>, Arc<Service>>,
}

#[derive(Debug)]
struct Service {
    name: Arc<str>,
    ports: HashSet<u16>,
}

impl Neighbourhood {
    pub(crate) fn new(neighbours: Vec<Neighbour>) -> Result<Self, String> {
        if neighbours.len() > MAX_NEIGHBOURS {
            return Err(format!("{} services are more than {MAX_NEIGHBOURS}", neighbours.len()));
        }
        let mut all = Self::default();
        for Neighbour { service, aliases, ports } in neighbours {
            let own = canonical(&service).ok_or_else(|| format!("`{service}` cannot be a service's name"))?;
            let known = Arc::new(Service { name: own.into(), ports: ports.into_iter().collect() });
            for name in std::iter::once(&service).chain(&aliases) {
                let key = canonical(name).ok_or_else(|| format!("`{name}` cannot be a service's name"))?;
                let key: Arc<str> = key.into();
                match all.services.insert(Arc::clone(&key), Arc::clone(&known)) {
                    None => all.order.push(key),
                    Some(other) if Arc::ptr_eq(&other, &known) => {}
                    Some(other) => {
                        return Err(format!("`{name}` is the name of both `{}` and `{service}`", other.name));
                    }
                }
            }
        }
        if all.order.len() > MAX_NEIGHBOURS {
            return Err(format!("{} names of services are more than {MAX_NEIGHBOURS}", all.order.len()));
        }
        Ok(all)
    }

    /// Every name, in the order in which they were given: the same in every run.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.order.iter()
    }

    /// The service of that name, which is canonical.
    pub(crate) fn service(&self, name: &str) -> Option<&Arc<str>> {
        self.services.get(name).map(|service| &service.name)
    }

    /// The service behind a name, if it declared the port.
    pub(crate) fn decide(&self, name: &str, port: u16) -> Result<&Arc<str>, Reason> {
        let service = self.services.get(name).ok_or(Reason::NoSuchName)?;
        if service.ports.contains(&port) { Ok(&service.name) } else { Err(Reason::ServicePort) }
    }
}

/// How two services or queries that mean the same name write it; `None` if it is no name.
fn canonical(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let plain = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // What programs read as an address is never asked for as a name.
    let number = name.split('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    (name.len() <= MAX_NAME && name.split('.').all(plain) && !number).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(service: &str, aliases: &[&str], ports: &[u16]) -> Neighbour {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        Neighbour { service: service.into(), aliases, ports: ports.to_vec() }
    }

    #[test]
    fn only_declared_ports_of_named_services_are_reached() {
        let all = [neighbour("DB", &["postgres.internal", "db"], &[5432]), neighbour("cache_1", &[], &[])];
        let all = Neighbourhood::new(all.into()).unwrap();
        assert_eq!(all.decide("db", 5432).map(|name| &**name), Ok("db"));
        assert_eq!(all.decide("postgres.internal", 5432).map(|name| &**name), Ok("db"));
        assert_eq!(all.decide("db", 5433), Err(Reason::ServicePort));
        assert_eq!(all.decide("cache_1", 6379), Err(Reason::ServicePort), "none declared is none");
        assert_eq!(all.decide("web", 80), Err(Reason::NoSuchName));
        assert_eq!(all.names().map(|name| &**name).collect::<Vec<_>>(), ["db", "postgres.internal", "cache_1"]);
    }

    #[test]
    fn what_is_no_name_or_two_services_is_an_error() {
        let long = "x".repeat(64);
        for bad in ["", ".", "a..b", "a b", "a/b", "ä", "10.0.0.1", "7", "a\0b", &long] {
            assert!(Neighbourhood::new(vec![neighbour(bad, &[], &[1])]).is_err(), "{bad:?}");
            assert!(Neighbourhood::new(vec![neighbour("a", &[bad], &[1])]).is_err(), "{bad:?}");
        }
        let two = vec![neighbour("a", &["x"], &[1]), neighbour("b", &["X"], &[2])];
        assert_eq!(Neighbourhood::new(two).unwrap_err(), "`X` is the name of both `a` and `b`");
        let many = (0..2000).map(|number| neighbour(&format!("s{number}"), &[], &[])).collect();
        assert!(Neighbourhood::new(many).is_err());
    }
}
