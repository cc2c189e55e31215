//! A verification: its sandboxes, its world, its probes, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use egress::{GatewayError, GatewayProcess, Notice, Record};
use profile::Profile;
use sandbox::{Sandbox, StartError, Variant};
use tokio::sync::mpsc;

use crate::catalogue::catalogue;
use crate::probe::{Finding, Probe, Speed, Way};
use crate::report::{Probed, Report, Seen};
use crate::scene::{Canary, Scene, Subject, secret};
use crate::tasks::{Exchanged, Findings, Place, Ticker, Tried, bounds, exchanges, hosts, siblings};
use crate::world::{World, WorldError};
use crate::zones::zones;
use crate::{judge, network};

/// Why there is no verification. Whose fault: the provider's.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No sandbox.
    #[error("cannot start the sandbox that is to be proven")]
    Start(#[from] StartError),
    /// No gateway.
    #[error("cannot start the gateway that is to be proven")]
    Gateway(#[from] GatewayError),
    /// No world.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A canary could not be planted.
    #[error("cannot plant what probes look for")]
    Canary(#[source] std::io::Error),
    /// The plan has nothing to prove.
    #[error("the plan has no network for the agent")]
    NoZone,
}

/// The gateway, where the plan has one.
struct Gate {
    gateway: GatewayProcess,
    notices: mpsc::UnboundedReceiver<Notice>,
}

/// Tries every probe of the speed, and tells `progress` how many are done, and of how many.
pub async fn verify(
    subject: Subject,
    speed: Speed,
    progress: Arc<dyn Fn(usize, usize) + Send + Sync>,
) -> Result<Report, VerifyError> {
    let begun = Instant::now();
    let token = secret();
    let Subject { requested, plan, kind, offered } = subject;
    let mounts = kind.mounts();
    let canary = Canary::plant(&token).map_err(VerifyError::Canary)?;
    let scene = Arc::new(Scene { plan, offered, mounts, token, canary });
    let zones = zones(&scene.plan);
    let captured = scene.promises("network.capture");

    let making = async {
        let maker = kind.start(&format!("verify-{}", &scene.token.get(..12).unwrap_or("x"))).await?;
        let mut made = Vec::new();
        for zone in zones {
            made.push((zone, maker.make(Variant::default()).await?));
        }
        Ok::<_, VerifyError>((maker, made))
    };
    let (world, made) = tokio::join!(World::start(&scene.token), making);
    let (mut world, (maker, made)) = (world?, made?);
    let (witness, gateway) = tokio::join!(world.witness(), world.gateway());
    let witness = Arc::new(witness?);
    let (gateway, notices) = gateway?;
    let mut network = Gate { gateway, notices };
    let mut places = Vec::new();
    for (number, (zone, (inside, capture))) in made.into_iter().enumerate() {
        let attachment = if captured {
            Some(network.gateway.attach(&zone_name(number), &zone.egress, capture).await?)
        } else {
            None
        };
        places.push(Place { zone, inside: Arc::new(inside), attachment });
    }
    let agent = places.first().map(|place| Arc::clone(&place.inside)).ok_or(VerifyError::NoZone)?;
    let probes: Vec<Probe> = catalogue().into_iter().filter(|probe| probe.speed <= speed).collect();
    let ticker = Ticker::new(&probes, places.len(), progress);

    let world_v6 = world.v6;
    let (bound, beside, exchanged, found) = tokio::join!(
        bounds(&probes, maker.as_ref(), &scene, &ticker),
        siblings(&probes, maker.as_ref(), &agent, &scene, &ticker),
        exchanges(&probes, &places, &witness, world_v6, &ticker),
        hosts(&probes, &agent, &witness, &scene, &ticker),
    );
    let (bound, beside) = (bound?, beside?);
    let arrived = world.arrived().await?;
    let records = network.finish(&places).await;

    let elsewhere: Findings = [bound, beside, found].into_iter().flatten().collect();
    let seen = Arrivals { arrived, records, recorded: captured };
    let all = probes.iter().flat_map(|probe| settle(probe, &places, &elsewhere, &exchanged, &seen, &scene)).collect();
    let report = assemble(requested, &scene, speed, &places, all, begun);
    end(places, agent, witness).await;
    Ok(report)
}

/// What is known of the network when everything has been tried.
struct Arrivals {
    arrived: Vec<Vec<u8>>,
    records: Vec<Record>,
    recorded: bool,
}

/// What one probe came to, in every zone that it speaks for.
fn settle(
    probe: &Probe,
    places: &[Place],
    found: &Findings,
    exchanged: &Exchanged,
    seen: &Arrivals,
    scene: &Scene,
) -> Vec<Probed> {
    let untried = || Finding::unknown("it was not tried");
    let put = |zones: Vec<String>, Finding { verdict, evidence }| {
        let Probe { id, control, axis, .. } = *probe;
        Probed { id, control, axis, zones, verdict, evidence }
    };
    let Way::Network(exchange) = probe.way else {
        return vec![put(Vec::new(), found.get(probe.id).cloned().unwrap_or_else(untried))];
    };
    let in_zone = |(number, place): (usize, &Place)| {
        let finding = match exchanged.get(&(probe.id, number)) {
            None => untried(),
            Some(Tried::Not(finding)) => finding.clone(),
            Some(Tried::Said { witness, inside }) => {
                let of_zone = |record: &&Record| record.sandbox == zone_name(number);
                let records: Vec<Record> = seen.records.iter().filter(of_zone).cloned().collect();
                let (arrived, token) = (seen.arrived.as_slice(), scene.token.as_str());
                let recorded = seen.recorded;
                let observed = network::Observed { witness, inside, arrived, token, records: &records, recorded };
                network::judge(exchange, place.zone.level, &observed)
            }
        };
        put(place.zone.names.clone(), finding)
    };
    places.iter().enumerate().map(in_zone).collect()
}

/// How the gateway calls a zone.
fn zone_name(number: usize) -> String {
    format!("zone-{number}")
}

impl Gate {
    /// Ends every zone's network; returns all records.
    async fn finish(&mut self, places: &[Place]) -> Vec<Record> {
        for attachment in places.iter().filter_map(|place| place.attachment) {
            // A gateway that is gone has no more records; what they should say stays unknown.
            let _ = self.gateway.detach(attachment).await;
        }
        let mut records = Vec::new();
        while let Ok(notice) = self.notices.try_recv() {
            if let Notice::Record(record) = notice {
                records.push(record);
            }
        }
        records
    }
}

fn assemble(
    requested: Profile,
    scene: &Scene,
    speed: Speed,
    places: &[Place],
    probes: Vec<Probed>,
    begun: Instant,
) -> Report {
    let planned = scene.plan.profile;
    let mut zones = BTreeMap::new();
    for Place { zone, .. } in places {
        for name in &zone.names {
            let of_zone: Vec<&Probed> =
                probes.iter().filter(|probed| probed.zones.is_empty() || probed.zones.contains(name)).collect();
            let planned = Profile::new(planned.tooling, planned.isolation, zone.level);
            zones.insert(name.clone(), Seen { planned, observed: judge::observe(planned, &of_zone) });
        }
    }
    Report {
        schema: Report::SCHEMA,
        requested,
        planned,
        plan_hash: scene.plan.hash(),
        speed,
        conclusion: judge::conclude(&probes),
        zones,
        probes,
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// Ends the sandboxes; what cannot be stopped is ended by dropping it.
async fn end(places: Vec<Place>, agent: Arc<Sandbox>, witness: Arc<Sandbox>) {
    drop(agent);
    let all = places.into_iter().map(|place| place.inside).chain([witness]);
    for sandbox in all.filter_map(Arc::into_inner) {
        let _ = sandbox.stop().await;
    }
}
