//! Everybody who answers in an evaluation: the agent, those in other roles, and those of single samples.

use std::collections::{BTreeMap, BTreeSet};

use ::model::GenerateConfig;
use serde_json::{Value, json};

use super::{Chosen, DEFAULT_MODEL, ModelError};
use crate::task::{Graders, Role, Sample, Scorer, Task};

/// Who answers, in every role and sample.
#[derive(Debug)]
pub struct Models {
    agent: Chosen,
    roles: BTreeMap<String, Vec<Chosen>>,
    /// Those that only samples and scorers name.
    others: BTreeMap<String, Chosen>,
}

/// How models of a role are asked: as it says, over connections as the task says.
fn role_config(task: &GenerateConfig, role: &GenerateConfig) -> GenerateConfig {
    let GenerateConfig { max_connections, max_retries, timeout, attempt_timeout, cache, .. } = task;
    let shared = GenerateConfig {
        max_connections: *max_connections,
        max_retries: *max_retries,
        timeout: *timeout,
        attempt_timeout: *attempt_timeout,
        cache: *cache,
        ..GenerateConfig::default()
    };
    shared.with(role)
}

impl Models {
    /// Finds everybody that a task names. Nobody is asked yet, but everything that is needed for it must be there.
    pub fn find(task: &Task) -> Result<Self, ModelError> {
        let agent = Chosen::find(task.model.as_deref().unwrap_or(DEFAULT_MODEL), &task.generate)?;
        let find_role = |role: &Role| {
            let config = role_config(&task.generate, &role.generate);
            role.models.iter().map(|name| Chosen::find(name, &config)).collect::<Result<Vec<_>, _>>()
        };
        let roles = task.model_roles.iter().map(|(name, role)| Ok((name.clone(), find_role(role)?)));
        let roles = roles.collect::<Result<_, ModelError>>()?;
        let of_sample = |sample: &Sample| {
            let in_roles = sample.own.model_roles.values().flat_map(|role| role.models.clone());
            sample.own.model.clone().into_iter().chain(in_roles).collect::<Vec<_>>()
        };
        let of_scorer = |scorer: &Scorer| match scorer {
            Scorer::Graded(graded) => match &graded.graders {
                Graders::Models(names) => names.clone(),
                Graders::Role(_) => Vec::new(),
            },
            _ => Vec::new(),
        };
        let graders = task.scorers.iter().flat_map(of_scorer);
        let names: BTreeSet<String> = task.dataset.samples.iter().flat_map(of_sample).chain(graders).collect();
        let config = role_config(&task.generate, &GenerateConfig::default());
        let others = names.into_iter().map(|name| Ok((name.clone(), Chosen::find(&name, &config)?)));
        Ok(Self { agent, roles, others: others.collect::<Result<_, ModelError>>()? })
    }

    /// The model of all samples that name none.
    pub fn agent(&self) -> &Chosen {
        &self.agent
    }

    /// Who answers in this sample, and how.
    pub(crate) fn agent_of(&self, sample: &Sample) -> (&Chosen, GenerateConfig) {
        let named = sample.own.model.as_ref().and_then(|name| self.others.get(name));
        (named.unwrap_or(&self.agent), self.agent.config.with(&sample.own.generate))
    }

    /// Who answers in a role in this sample, and how; the agent's model where nobody has the role. Never empty.
    pub(crate) fn role_of(&self, role: &str, sample: &Sample) -> Vec<(&Chosen, GenerateConfig)> {
        if let Some(own) = sample.own.model_roles.get(role) {
            let found = own.models.iter().filter_map(|name| self.others.get(name));
            return found.map(|chosen| (chosen, chosen.config.with(&own.generate))).collect();
        }
        match self.roles.get(role) {
            Some(models) => models.iter().map(|chosen| (chosen, chosen.config.clone())).collect(),
            None => vec![self.agent_of(sample)],
        }
    }

    /// One that a sample or a scorer names.
    pub(crate) fn named(&self, name: &str) -> Option<&Chosen> {
        self.others.get(name)
    }

    fn all(&self) -> impl Iterator<Item = &Chosen> {
        std::iter::once(&self.agent).chain(self.roles.values().flatten()).chain(self.others.values())
    }

    /// Keys that must stand in no log.
    pub fn secrets(&self) -> Vec<String> {
        self.all().flat_map(Chosen::secrets).collect()
    }

    /// Models whose answers have no price.
    pub fn unpriced(&self) -> BTreeSet<&str> {
        self.all().filter(|chosen| !chosen.is_priced()).map(Chosen::name).collect()
    }

    /// Settings that a model does not take, by its name.
    pub fn unsent(&self) -> BTreeMap<&str, &[&'static str]> {
        self.all().filter(|chosen| !chosen.unsent().is_empty()).map(|chosen| (chosen.name(), chosen.unsent())).collect()
    }

    /// Inspect's `model_roles`.
    pub(crate) fn roles_json(&self) -> Value {
        let one = |chosen: &Chosen| json!({"model": chosen.name(), "config": chosen.config, "base_url": chosen.address(), "args": {}});
        let role = |models: &Vec<Chosen>| match models.as_slice() {
            [alone] => one(alone),
            many => many.iter().map(one).collect(),
        };
        self.roles.iter().map(|(name, models)| (name.clone(), role(models))).collect()
    }
}
