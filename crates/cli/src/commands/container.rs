//! From a plan to a container of the embedded engine.

use std::sync::Arc;

use image::{ImageError, Opened};
use profile::{Bytes, Document, MountMode, Plan, Provider, Request};
use sandbox::Network::{Captured, Loopback};
use sandbox::{Image, Limits, Mount, StartError};

use super::{images, network};

/// Opens an image of the store; the host's files and directories need no opening. From here on it is named by its digest,
/// so that the plan says what runs. `stated` beats the document's.
pub(super) fn open_image(
    document: &Document,
    stated: Option<&str>,
) -> Result<(Option<String>, Option<Opened>), ImageError> {
    let in_document = document.image.as_ref().map(|image| image.value.as_str());
    let Some(name) = stated.or(in_document) else { return Ok((None, None)) };
    if name == "host" || name.starts_with("dir:") {
        return Ok((stated.map(str::to_owned), None));
    }
    let image = images::open(name)?;
    let base = image.image.base.as_ref().map(|base| format!("+{base}")).unwrap_or_default();
    let pinned = if name.contains("@sha256:") { name.to_owned() } else { format!("{name}@{}", image.image.digest) };
    Ok((Some(format!("{pinned}{base}")), Some(image)))
}

/// The sandboxes that the plan amounts to; none where it runs on the host itself.
pub(super) fn kind(
    asked: &Request,
    plan: &Plan,
    image: Option<&Opened>,
) -> Result<Option<Arc<dyn sandbox::Kind>>, StartError> {
    match plan.provider {
        Provider::Local => Ok(None),
        Provider::Container => Ok(Some(Arc::new(request(asked, plan, image)?))),
        Provider::Docker | Provider::K8s | Provider::Proxmox | Provider::Qemu => {
            Err(StartError::Engine(format!("`sandbox: {}` is not built yet", plan.provider).into()))
        }
    }
}

/// A container as the plan says.
pub(super) fn request(request: &Request, plan: &Plan, image: Option<&Opened>) -> Result<sandbox::Request, StartError> {
    // Left out only where the plan says that nothing bounds them; else a host without groups is an error.
    let unbounded = plan.residual.iter().any(|residual| residual.id == "unbounded");
    let limits = (!unbounded).then_some(Limits {
        memory: plan.limits.memory.amount.0,
        pids: plan.limits.pids.amount.0,
        cpu_millis: plan.limits.cpu.amount.0,
    });
    let reference = plan.image.as_ref().map_or("host", |image| image.reference.as_str());
    let image = match image {
        Some(opened) => {
            let layers = opened.layers.iter().map(|path| absolute(&path.to_string_lossy()));
            let layers = layers.collect::<Result<Vec<_>, _>>()?;
            match opened.image.base.as_deref() {
                Some(base) => Image::Over(Box::new(host_files(base)?), layers),
                None => Image::Layers(layers),
            }
        }
        None => host_files(reference)?,
    };
    let mounts = request.document.mounts.iter().map(|mount| {
        let writable = mount.value.mode == MountMode::ReadWrite;
        absolute(&mount.value.source).map(|source| Mount { source, target: mount.value.target.clone(), writable })
    });
    let Bytes(disk) = plan.limits.disk.amount;
    Ok(sandbox::Request {
        image,
        begin_with: None,
        system: sandbox::System::AsLeft,
        limits,
        disk,
        mounts: mounts.collect::<Result<_, _>>()?,
        allow_setuid: plan.allow_setuid,
        network: if network::is_captured(plan) { Captured } else { Loopback },
    })
}

/// The host's programs, or a directory of the host.
fn host_files(reference: &str) -> Result<Image, StartError> {
    reference.strip_prefix("dir:").map_or(Ok(Image::Host), |path| absolute(path).map(Image::Directory))
}

fn absolute(path: &str) -> Result<String, StartError> {
    let found = std::fs::canonicalize(path)
        .map_err(|error| StartError::Mount { path: path.to_owned(), why: error.to_string() })?;
    found
        .into_os_string()
        .into_string()
        .map_err(|_| StartError::Mount { path: path.to_owned(), why: "its name is not UTF-8".into() })
}
