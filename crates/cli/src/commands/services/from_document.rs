//! Services that a document states itself: an image each, ports, variables and a network.

use profile::{Document, Problem, Problems};
use stack::Restart;

use super::super::plan;
use super::wish::{Look, Outside, Shape, Source, Wish};
use super::{DEFAULT, Services};

pub(super) fn read(document: &Document) -> Result<Services, plan::Obstacle> {
    let Some(image) = &document.image else {
        let problem = Problem::new("a document with `services` needs an `image` for the agent's own sandbox");
        return Err(Problems { origin: document.origin.clone(), problems: vec![problem] }.into());
    };
    if let Some(taken) = document.services.get(DEFAULT) {
        let problem = Problem::at(taken.place, format!("`{DEFAULT}` is the name of the agent's own sandbox"));
        return Err(Problems { origin: document.origin.clone(), problems: vec![problem] }.into());
    }
    // Everybody reaches everybody, and itself, by name.
    let names = || document.services.keys().cloned().chain([DEFAULT.to_owned()]);
    let neighbours: Vec<_> = names().map(|name| (name, Vec::new())).collect();
    let bare = |name: &str, image: &str| Wish {
        name: name.to_owned(),
        place: None,
        image: docker::Build::parse(image).map_or_else(|| Source::Named(image.into()), |one| Source::Built(one.into())),
        pull: None,
        platform: None,
        entrypoint: None,
        command: None,
        environment: std::collections::BTreeMap::default(),
        directory: None,
        user: None,
        terminal: false,
        input_open: false,
        ports: Vec::new(),
        neighbours: neighbours.clone(),
        network: Outside::AsAgent,
        health: Look::default(),
        needs: Vec::new(),
        restart: Restart::Never,
        shape: Shape::default(),
    };
    let own = document.services.iter().map(|(name, service)| Wish {
        place: Some(service.place),
        ports: service.ports.clone(),
        environment: service.environment.clone(),
        network: Outside::Stated(service.network.clone()),
        ..bare(name, &service.image.value)
    });
    let wishes = own.chain([bare(DEFAULT, &image.value)]).collect();
    Ok(Services {
        wishes,
        default: DEFAULT.into(),
        notes: Vec::new(),
        files: Vec::new(),
        images: std::collections::BTreeMap::new(),
    })
}
