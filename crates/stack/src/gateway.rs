//! Whoever serves the networks of services.

use std::future::Future;
use std::sync::Arc;

use egress::{Attachment, GatewayError, GatewayProcess, Neighbour, Neighbours};
use profile::Egress;
use sandbox::Capture;

/// Whoever serves the networks of services.
pub trait Gateway: Sync {
    /// A network while it is served.
    type Served: Send;

    /// Has a service's network served. Nothing runs in it before this returns.
    fn attach(
        &self,
        service: &str,
        egress: &Egress,
        capture: Capture,
        neighbours: Vec<Neighbour>,
        through: Arc<dyn Neighbours>,
    ) -> impl Future<Output = Result<Self::Served, GatewayError>> + Send;

    /// Puts other rules in force; what they forbid is cut when this returns.
    fn replace(&self, served: &Self::Served, egress: &Egress) -> impl Future<Output = Result<(), GatewayError>> + Send;

    /// Ends a network; all its records have come when this returns.
    fn detach(&self, service: &str, served: Self::Served) -> impl Future<Output = ()> + Send;
}

/// A gateway with the name under which its records are: that of the sample.
impl Gateway for (&GatewayProcess, &str) {
    type Served = Attachment;

    async fn attach(
        &self,
        service: &str,
        egress: &Egress,
        capture: Capture,
        neighbours: Vec<Neighbour>,
        through: Arc<dyn Neighbours>,
    ) -> Result<Attachment, GatewayError> {
        self.0.attach_among(&format!("{}/{service}", self.1), egress, capture, neighbours, through).await
    }

    async fn replace(&self, served: &Attachment, egress: &Egress) -> Result<(), GatewayError> {
        self.0.advance(*served, egress).await
    }

    async fn detach(&self, _: &str, served: Attachment) {
        // A gateway that is gone has said so already.
        let _ = self.0.detach(served).await;
    }
}
