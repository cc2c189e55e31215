//! The addresses that a sandbox's resolver hands out: one per name, never given to another.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use profile::{Egress, HostName, HostPattern};

use crate::neighbours::Neighbourhood;

/// 198.18.0.0/15, without its first 256 addresses: there the sandbox's own and its name server's lie.
const FIRST: u32 = 0xC612_0100;
const LAST: u32 = 0xC613_FFFE;

/// Whether an address is of the range for names.
pub(crate) fn is_synthetic(address: Ipv4Addr) -> bool {
    (0xC612_0000..=0xC613_FFFF).contains(&address.to_bits())
}

/// What an address means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A name outside.
    Name(HostName),
    /// A name of a service of the same sample.
    Service(Arc<str>),
}

/// Which address means which name.
#[derive(Debug)]
pub(crate) struct Book {
    addresses: HashMap<HostName, Ipv4Addr>,
    services: HashMap<Arc<str>, Ipv4Addr>,
    meanings: HashMap<Ipv4Addr, Meaning>,
    next: u32,
    /// How many names may still get an address that no rule lists one by one.
    open: usize,
}

impl Book {
    /// With `open` names besides the listed ones.
    pub(crate) fn new(open: usize) -> Self {
        Self { addresses: HashMap::new(), services: HashMap::new(), meanings: HashMap::new(), next: FIRST, open }
    }

    /// Gives every name that the rules list one by one its address, in the order of the list: the same in every run.
    pub(crate) fn list(&mut self, egress: &Egress) {
        let Egress::Listed { rules } = egress else { return };
        for rule in &rules.allow {
            if let HostPattern::Exact(name) = &rule.hosts
                && !self.addresses.contains_key(name)
            {
                self.assign(name);
            }
        }
    }

    /// The address of a name, given to it now if it has none; `None` when no more may be given.
    pub(crate) fn address_of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        if let Some(address) = self.addresses.get(name) {
            return Some(*address);
        }
        self.open = self.open.checked_sub(1)?;
        self.assign(name)
    }

    /// Gives every name of a neighbour its address. They do not count as open names.
    pub(crate) fn list_services(&mut self, neighbours: &Neighbourhood) {
        for name in neighbours.names() {
            if let Some(address) = self.take(Meaning::Service(Arc::clone(name))) {
                self.services.insert(Arc::clone(name), address);
            }
        }
    }

    /// The address of a neighbour's name.
    pub(crate) fn address_of_service(&self, name: &str) -> Option<Ipv4Addr> {
        self.services.get(name).copied()
    }

    /// What an address means, if it was given to anybody.
    pub(crate) fn meaning_of(&self, address: Ipv4Addr) -> Option<&Meaning> {
        self.meanings.get(&address)
    }

    fn assign(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        let address = self.take(Meaning::Name(name.clone()))?;
        self.addresses.insert(name.clone(), address);
        Some(address)
    }

    fn take(&mut self, meaning: Meaning) -> Option<Ipv4Addr> {
        if self.next > LAST {
            return None;
        }
        let address = Ipv4Addr::from_bits(self.next);
        self.next += 1;
        self.meanings.insert(address, meaning);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use profile::NetworkRules;

    use super::*;

    #[test]
    fn synthetic_exhaustion() {
        let mut book = Book::new(usize::MAX);
        let (mut given, mut last) = (0, None);
        for number in 0..140_000 {
            let name: HostName = format!("n{number}.c.org").parse().unwrap();
            match book.address_of(&name) {
                Some(address) => {
                    given += 1;
                    assert!(is_synthetic(address) && last < Some(address), "never one twice: {address}");
                    last = Some(address);
                }
                None => assert!(number >= given, "and none after the last"),
            }
        }
        assert_eq!(given, 130_815);
        assert_eq!(book.meaning_of(Ipv4Addr::new(198, 19, 255, 255)), None);
    }

    #[test]
    fn an_address_is_a_name_and_never_another() {
        let allow = ["b.org", "a.org", "*.c.org"].map(|text| text.parse().unwrap()).into();
        let mut book = Book::new(2);
        let egress = Egress::Listed { rules: NetworkRules { allow, ..NetworkRules::default() } };
        book.list(&egress);
        book.list(&egress);
        let name = |text: &str| text.parse::<HostName>().unwrap();
        assert_eq!(book.address_of(&name("a.org")), Some(Ipv4Addr::new(198, 18, 1, 0)));
        assert_eq!(book.address_of(&name("b.org")), Some(Ipv4Addr::new(198, 18, 1, 1)));
        assert_eq!(book.address_of(&name("x.c.org")), Some(Ipv4Addr::new(198, 18, 1, 2)));
        assert_eq!(book.address_of(&name("x.c.org")), Some(Ipv4Addr::new(198, 18, 1, 2)));
        assert_eq!(book.address_of(&name("y.c.org")), Some(Ipv4Addr::new(198, 18, 1, 3)));
        assert_eq!(book.address_of(&name("z.c.org")), None, "the limit");
        assert_eq!(book.address_of(&name("a.org")), Some(Ipv4Addr::new(198, 18, 1, 0)));
        assert_eq!(book.meaning_of(Ipv4Addr::new(198, 18, 1, 3)), Some(&Meaning::Name(name("y.c.org"))));
        assert_eq!(book.meaning_of(Ipv4Addr::new(198, 18, 1, 4)), None);
    }
}
