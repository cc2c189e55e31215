//! A container as it is asked for. Pure: what we want in, what the Engine is told out.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions, ResourcesUlimits,
};
use sandbox::{Limits, Network, enter};

/// Rights that programs in a container keep: over its own files, ids and processes. Everything else is given away before
/// the guest starts, and cannot be gained again.
pub const KEPT: [&str; 10] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETPCAP",
    "SETUID",
];
/// A right of the entry process alone: it makes rules and routes with it.
const OF_THE_ENTRY: &str = "NET_ADMIN";
/// Another: where privileges may be gained, a filter is loaded with it, and by Podman a namespace is made.
const OF_THE_ENTRY_BEFORE_ALL: &str = "SYS_ADMIN";

/// How what the entry process needs comes into a container.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Supply<'a> {
    /// The container's own directory on this machine.
    pub(crate) directory: &'a Path,
    /// Where that directory is shown inside. An image that knew the name could have a volume there, and with it a first
    /// process of its own.
    pub(crate) inside: &'a str,
    /// Whether our programs are copied in, and not shown from there.
    pub(crate) copied: bool,
    /// The group after which its volumes are named; without one each is its own.
    pub(crate) group: Option<&'a str>,
    /// Whether the engine is Podman. Its service for clients of Docker takes neither masks nor a namespace of control groups
    /// the way that Docker has them.
    pub(crate) podman: bool,
}

/// Where our programs are copied to: not where the socket's directory would cover them.
pub(crate) fn copies(inside: &str) -> String {
    format!("{inside}-programs")
}

/// What says something of the host and nothing that a program needs, and by which the guest could be made the first to die, or the last
/// to be run.
const MASKED: [&str; 29] = [
    "/proc/1/autogroup",
    "/proc/1/oom_adj",
    "/proc/1/oom_score_adj",
    "/proc/1/task/1/oom_adj",
    "/proc/1/task/1/oom_score_adj",
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/driver",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/modules",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys",
];
const READ_ONLY: [&str; 4] = ["/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Labels by which containers of ours are known.
pub(crate) mod label {
    /// The run.
    pub(crate) const RUN: &str = "ringfence.run";
    /// Its number in the run.
    pub(crate) const SANDBOX: &str = "ringfence.sandbox";
    /// The sample that it is for, where that was known when it was made.
    pub(crate) const SAMPLE: &str = "ringfence.sample";
    /// Who the run belongs to: a user on a machine.
    pub(crate) const OWNER: &str = "ringfence.owner";
    /// When nobody can want it any more, in seconds since 1970.
    pub(crate) const LEASE: &str = "ringfence.lease";
}

/// A container to create.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its image, by the id that the daemon knows it by.
    pub image: String,
    /// Memory, processes and cpu; `None` where the plan says that nothing holds them.
    pub limits: Option<Limits>,
    /// Host paths that are shown inside.
    pub mounts: Vec<sandbox::Mount>,
    /// Its network: captured, or loopback alone. Where the daemon is on another machine, a captured one is relayed.
    pub network: Network,
    /// The Engine's name of a runtime; `None` for its default.
    pub runtime: Option<String>,
    /// Whether that runtime's containers have a kernel of their own, as a virtual machine has.
    pub own_kernel: bool,
    /// Whether setuid programs work: root inside then keeps no more than it has otherwise.
    pub allow_setuid: bool,
    /// Whether nothing but mounts and memory file systems can be written.
    pub read_only: bool,
    /// File systems in memory: where, with which options.
    pub tmpfs: BTreeMap<String, String>,
    /// Bytes of `/dev/shm`; `None` for the Engine's default.
    pub shared_memory: Option<u64>,
    /// What it calls itself.
    pub hostname: String,
    /// Names and addresses of its `/etc/hosts`, as `NAME:ADDRESS`.
    pub hosts: Vec<String>,
    /// Volumes that live as long as the group of the container.
    pub volumes: Vec<Volume>,
    /// Limits per process, soft and hard; -1 means without end. `core` and `nofile` are ours.
    pub ulimits: BTreeMap<String, (i64, i64)>,
    /// Bytes of memory that it keeps when memory gets scarce.
    pub memory_kept: Option<u64>,
}

/// A volume of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The name by which containers of one group share it; `None`: it is the container's own.
    pub name: Option<String>,
    /// Where it is inside.
    pub target: String,
    /// Whether it may be written to.
    pub writable: bool,
    /// Only this part of it.
    pub subpath: Option<String>,
    /// Whether it begins with what the image has there.
    pub filled: bool,
}

impl Request {
    /// A container of an image, with nothing but that.
    pub fn of(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            limits: None,
            mounts: Vec::new(),
            network: Network::Captured,
            runtime: None,
            own_kernel: false,
            allow_setuid: false,
            read_only: false,
            tmpfs: BTreeMap::new(),
            shared_memory: None,
            hostname: "sandbox".into(),
            hosts: Vec::new(),
            volumes: Vec::new(),
            ulimits: BTreeMap::new(),
            memory_kept: None,
        }
    }

    pub(crate) fn is_captured(&self) -> bool {
        self.network != Network::Loopback
    }

    /// What the Engine is told.
    pub(crate) fn body(&self, labels: HashMap<String, String>, supply: Supply<'_>) -> ContainerCreateBody {
        let volumes = self.volumes.iter().map(|volume| volume.mount(&labels, supply.group)).collect();
        let (inside, copies) = (supply.inside, copies(supply.inside));
        let programs = if supply.copied { copies.as_str() } else { inside };
        let orders = enter::Orders {
            capture: match self.network {
                Network::Loopback => enter::Capturing::Nothing,
                Network::Captured => enter::Capturing::Passed(format!("{inside}/socket").into()),
                Network::Relayed => enter::Capturing::Relayed,
            },
            allow_setuid: self.allow_setuid,
            own_cgroups: supply.podman,
            writes_outside: self.mounts.iter().any(|mount| mount.writable),
            guest: format!("{programs}/guest").into(),
        };
        let arguments = orders.arguments().into_iter().map(|word| word.to_string_lossy().into_owned());
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec![format!("{programs}/enter")]),
            cmd: Some(arguments.collect()),
            // Commands have the image's own user, directory and environment by the guest.
            user: Some("0:0".into()),
            working_dir: Some("/".into()),
            hostname: Some(self.hostname.clone()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            // The end of our stream is the end of the guest, and so of the container.
            stdin_once: Some(true),
            tty: Some(false),
            // A check of the image's would be a command of the workload's that nobody asked for.
            healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
            labels: Some(labels),
            host_config: Some(self.host_config(supply, volumes)),
            ..ContainerCreateBody::default()
        }
    }

    fn host_config(&self, supply: Supply<'_>, volumes: Vec<Mount>) -> HostConfig {
        let texts = |all: &[&str]| Some(all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        let (memory, pids, cpu) = match self.limits {
            Some(limits) => (Some(signed(limits.memory)), Some(signed(limits.pids)), Some(signed(limits.cpu_millis))),
            None => (None, None, None),
        };
        let shown = self.network == Network::Captured || !supply.copied;
        let own = shown.then(|| bind(&supply.directory.to_string_lossy(), supply.inside, false));
        let granted = self.mounts.iter().map(|mount| bind(&mount.source, &mount.target, mount.writable));
        let ulimit = |name: &str, amount: i64| ResourcesUlimits {
            name: Some(name.into()),
            soft: Some(amount),
            hard: Some(amount),
        };
        let asked = self.ulimits.iter().filter(|(name, _)| !matches!(name.as_str(), "core" | "nofile"));
        let asked = asked.map(|(name, (soft, hard))| ResourcesUlimits {
            name: Some(name.clone()),
            soft: Some(*soft),
            hard: Some(*hard),
        });
        let settings = self.is_captured().then(settings);
        let is_given_more = self.allow_setuid || supply.podman;
        let entry: &[&str] = if is_given_more { &[OF_THE_ENTRY, OF_THE_ENTRY_BEFORE_ALL] } else { &[OF_THE_ENTRY] };
        let masks = supply.podman.then(|| format!("mask={}", MASKED.join(":")));
        let security = (!self.allow_setuid).then(|| "no-new-privileges".to_owned()).into_iter().chain(masks);
        HostConfig {
            network_mode: Some("none".into()),
            // Nothing of the control stream is written to a disk.
            log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
            auto_remove: Some(true),
            privileged: Some(false),
            init: Some(false),
            cap_drop: texts(&["ALL"]),
            cap_add: texts(&[&KEPT[..], entry].concat()),
            security_opt: Some(security.collect()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            ipc_mode: Some("private".into()),
            memory,
            // Both together: so no swap.
            memory_swap: memory,
            nano_cpus: cpu.map(|millis| millis.saturating_mul(1_000_000)),
            pids_limit: pids,
            memory_reservation: self.memory_kept.map(signed),
            ulimits: Some([ulimit("core", 1), ulimit("nofile", 4096)].into_iter().chain(asked).collect()),
            mounts: Some(own.into_iter().chain(granted).chain(volumes).collect()),
            tmpfs: Some(self.tmpfs.clone().into_iter().collect()),
            shm_size: self.shared_memory.map(signed),
            readonly_rootfs: Some(self.read_only),
            // Whatever the network is, no question of a name reaches the host's resolver.
            dns: Some(vec![enter::NAME_SERVER.to_string()]),
            dns_search: Some(vec![".".into()]),
            extra_hosts: Some(self.hosts.clone()),
            sysctls: settings,
            masked_paths: texts(&MASKED),
            readonly_paths: texts(&READ_ONLY),
            runtime: self.runtime.clone(),
            ..HostConfig::default()
        }
    }
}

impl Volume {
    /// What the Engine calls it; `None` where it is the container's own.
    pub(crate) fn name_in(&self, group: Option<&str>) -> Option<String> {
        Some(format!("ringfence-{}-{}", group?, self.name.as_ref()?))
    }

    /// The Engine makes it with the first container that names it, and labels it then.
    fn mount(&self, labels: &HashMap<String, String>, group: Option<&str>) -> Mount {
        Mount {
            typ: Some(MountType::VOLUME),
            source: self.name_in(group),
            target: Some(self.target.clone()),
            read_only: Some(!self.writable),
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(!self.filled),
                labels: Some(labels.clone()),
                subpath: self.subpath.clone(),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        }
    }
}

/// Settings of the container's own network that cannot be written inside. The Engine switches IPv6 off where it gives no
/// network; attempts by it should be seen, as those by IPv4 are.
fn settings() -> HashMap<String, String> {
    const IPV6: [&str; 3] = ["all", "default", "lo"];
    let has_ipv6 = Path::new("/proc/sys/net/ipv6").is_dir();
    let of_ipv6 = IPV6.iter().filter(|_| has_ipv6).map(|name| (format!("net.ipv6.conf.{name}.disable_ipv6"), "0"));
    enter::settings().chain(of_ipv6).map(|(name, value)| (name, value.to_owned())).collect()
}

/// What is mounted below the source is not shown: a read-only mount would not hold for it.
fn bind(source: &str, target: &str, writable: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(!writable),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(request: &Request) -> serde_json::Value {
        let labels = HashMap::from([(label::RUN.to_owned(), "r".to_owned())]);
        serde_json::to_value(request.body(
            labels,
            Supply {
                directory: Path::new("/p"),
                inside: "/.ringfence-x",
                copied: false,
                group: Some("g"),
                podman: false,
            },
        ))
        .unwrap()
    }

    #[test]
    fn programs_that_are_copied_are_not_covered_by_the_socket() {
        for (network, mounts) in [(Network::Captured, 1), (Network::Relayed, 0), (Network::Loopback, 0)] {
            let request = Request { network, ..Request::of("x") };
            let supply = Supply {
                directory: Path::new("/p"),
                inside: "/.ringfence-x",
                copied: true,
                group: None,
                podman: false,
            };
            let told = serde_json::to_value(request.body(HashMap::new(), supply)).unwrap();
            assert_eq!(told["Entrypoint"], serde_json::json!(["/.ringfence-x-programs/enter"]));
            assert_eq!(told["HostConfig"]["Mounts"].as_array().unwrap().len(), mounts);
            assert!(told["Cmd"].to_string().contains("guest=/.ringfence-x-programs/guest"), "{told}");
        }
    }

    #[test]
    fn a_container_is_told_to_be_as_hard_as_it_can_be() {
        let limits = Some(Limits { memory: 1 << 20, pids: 7, cpu_millis: 1500 });
        let told = body(&Request { limits, ..Request::of("sha256:x") });
        let host = &told["HostConfig"];
        for (name, value) in [
            ("NetworkMode", serde_json::json!("none")),
            ("Privileged", false.into()),
            ("AutoRemove", true.into()),
            ("Init", false.into()),
            ("CapDrop", serde_json::json!(["ALL"])),
            ("SecurityOpt", serde_json::json!(["no-new-privileges"])),
            ("Memory", (1 << 20).into()),
            ("MemorySwap", (1 << 20).into()),
            ("PidsLimit", 7.into()),
            ("NanoCpus", 1_500_000_000.into()),
            ("Dns", serde_json::json!(["198.18.0.2"])),
            ("IpcMode", "private".into()),
            ("LogConfig", serde_json::json!({"Type": "none"})),
        ] {
            assert_eq!(host[name], value, "{name}");
        }
        assert_eq!(told["User"], "0:0");
        assert_eq!(told["Tty"], false);
        assert_eq!(told["StdinOnce"], true);
        assert_eq!(told["Healthcheck"]["Test"], serde_json::json!(["NONE"]));
        let cmd = serde_json::json!(["enter", "capture=/.ringfence-x/socket", "guest=/.ringfence-x/guest"]);
        assert_eq!((&told["Entrypoint"], &told["Cmd"]), (&serde_json::json!(["/.ringfence-x/enter"]), &cmd));
        for name in ["PidMode", "UTSMode", "UsernsMode", "Devices", "VolumesFrom", "Binds", "PortBindings"] {
            assert!(host.get(name).is_none_or(serde_json::Value::is_null), "{name}");
        }
    }

    #[test]
    fn podman_is_told_in_its_own_words_what_to_hide() {
        let supply = |podman| Supply { directory: Path::new("/p"), inside: "/i", copied: false, group: None, podman };
        let told = |podman| serde_json::to_value(Request::of("x").body(HashMap::new(), supply(podman))).unwrap();
        let security = told(true)["HostConfig"]["SecurityOpt"].clone();
        assert_eq!(security[0], "no-new-privileges");
        let hidden: Vec<&str> = security[1].as_str().unwrap().strip_prefix("mask=").unwrap().split(':').collect();
        assert_eq!(hidden, MASKED);
        assert!(told(true)["Cmd"].to_string().contains("own-cgroups"));
        assert!(!told(false)["Cmd"].to_string().contains("own-cgroups"));
        assert!(!told(false)["HostConfig"]["CapAdd"].to_string().contains("SYS_ADMIN"));
    }

    #[test]
    fn mounts_are_read_only_unless_they_are_granted_and_show_nothing_below() {
        let mount = |writable| sandbox::Mount { source: "/s".into(), target: "/t".into(), writable };
        for writable in [false, true] {
            let told = body(&Request { mounts: vec![mount(writable)], ..Request::of("x") });
            let mounts = told["HostConfig"]["Mounts"].as_array().unwrap();
            assert_eq!(mounts[0]["Target"], "/.ringfence-x");
            assert_eq!(mounts[0]["ReadOnly"], true);
            assert_eq!(mounts[1]["ReadOnly"], !writable);
            assert_eq!(mounts[1]["BindOptions"]["NonRecursive"], true);
            let refuses = told["Cmd"].as_array().unwrap().contains(&"writes-outside".into());
            assert_eq!(refuses, writable, "no setuid bits on the host's files");
        }
    }

    #[test]
    fn volumes_are_named_after_their_group_and_labelled_as_ours() {
        let volume = |name: Option<&str>| Volume {
            name: name.map(str::to_owned),
            target: "/v".into(),
            writable: true,
            subpath: None,
            filled: true,
        };
        let told = body(&Request { volumes: vec![volume(Some("data")), volume(None)], ..Request::of("x") });
        let mounts = told["HostConfig"]["Mounts"].as_array().unwrap();
        assert_eq!(mounts[1]["Type"], "volume");
        assert_eq!(mounts[1]["Source"], "ringfence-g-data");
        assert_eq!(mounts[1]["VolumeOptions"]["Labels"][label::RUN], "r");
        assert!(mounts[2]["Source"].is_null(), "the container's own ends with it");
    }

    #[test]
    fn without_a_capture_the_entry_makes_none() {
        let told = body(&Request { network: Network::Loopback, ..Request::of("x") });
        assert_eq!(told["Cmd"], serde_json::json!(["enter", "guest=/.ringfence-x/guest"]));
        assert_eq!(told["HostConfig"]["NetworkMode"], "none");
        assert!(told["HostConfig"]["Sysctls"].is_null());
    }
}
