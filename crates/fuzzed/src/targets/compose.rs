//! Any text is a supported Compose file, a list of problems or a list of refusals; every file that it names has the same text.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use compose::{Access, MountSource, ReadError, Surroundings};

/// Checks one input.
pub fn compose(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let files = |path: &Path| match path.to_str() {
        Some(".env" | "a" | "b/c") => Ok(text.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let variables = |name: &str| (name.len() == 1).then(|| text.chars().take(100).collect());
    match compose::read(
        text,
        "fuzz",
        &Surroundings { variables: &variables, sample: &|_| None, files: &files, levels_up: 1 },
    ) {
        Err(ReadError::Problems(problems)) => assert!(!problems.problems.is_empty(), "a rejection without a problem"),
        Err(ReadError::Refused(refused)) => assert!(!refused.unmet.is_empty(), "a refusal without a reason"),
        Ok(project) => {
            let names: BTreeSet<_> = project.services.iter().map(|service| &service.name).collect();
            assert_eq!(names.len(), project.services.len(), "two services of one name");
            assert!((1..=compose::MAX_SERVICES).contains(&names.len()), "too few or too many services");
            assert!(names.contains(&project.default), "a default that is not there");
            assert_eq!(project.start_layers().concat().len(), names.len(), "a service that never starts");
            for service in &project.services {
                for mount in &service.mounts {
                    if let MountSource::Bind(path) = &mount.value.source {
                        let path = path.as_path();
                        assert_eq!(mount.value.access, Access::ReadOnly, "a sample that writes to the host");
                        assert!(path.is_relative() && !path.starts_with("../.."), "a bind out of reach");
                    }
                }
                assert!(service.added.iter().all(|it| compose::ADDABLE_CAPABILITIES.contains(&it.value.name())));
                assert!(project.neighbours(service).iter().all(|near| near.service.name != service.name));
            }
        }
    }
    let lookup = |name: &str| (name == "A").then(|| "$B".to_owned());
    if let Ok(expanded) = compose::expand(text, &lookup) {
        assert!(text.contains('$') || expanded == text, "a text without variables has changed");
    }
    let _ = (compose::split(text), compose::dotenv::parse(text, &lookup), compose::dotenv::parse_raw(text, &lookup));
}
