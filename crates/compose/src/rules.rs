//! Every key that is known, and what happens with it: one table for the reader and for `docs/compose.md`.

/// What happens with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It is read and handed to the provider; values that would weaken the profile are refused.
    Honoured,
    /// It is left out, and a record says so.
    Ignored,
    /// It is refused by name, unless it is empty or `false`.
    Refused,
}

/// One key and what happens with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The key.
    pub key: &'static str,
    /// What happens with it.
    pub treatment: Treatment,
    /// For what is honoured, how; otherwise why not.
    pub why: &'static str,
}

const fn honoured(key: &'static str, why: &'static str) -> Rule {
    Rule { key, treatment: Treatment::Honoured, why }
}

const fn ignored(key: &'static str, why: &'static str) -> Rule {
    Rule { key, treatment: Treatment::Ignored, why }
}

const fn refused(key: &'static str, why: &'static str) -> Rule {
    Rule { key, treatment: Treatment::Refused, why }
}

const LIMITS: &str = "the limits that hold are memory, processors, processes and /dev/shm";
const DEVICES: &str = "it gives a device of the host to the sandbox";
const OWN_LABELS: &str = "labels are the provider's, by which it finds its own again";
const OUTSIDE: &str = "it brings in what is not of this sample";
const ADDRESSES: &str = "addresses are the gateway's to give";

/// Keys of the whole file.
pub const TOP_KEYS: &[Rule] = &[
    honoured("services", "the containers of a sample; 1 to 64"),
    honoured("networks", "which services reach each other"),
    honoured("volumes", "volumes that live as long as the sample"),
    honoured("name", "kept; containers are named by the provider"),
    honoured("include", "other files beside this one, at most 16"),
    ignored("version", "Compose has no versions of the format any more"),
    ignored("x-inspect_k8s_sandbox", "it is for another provider; network rules come from the profile"),
    refused(
        "secrets",
        "files of the host would be in the sandbox; put what the agent may see into `environment` or an image",
    ),
    refused("configs", "files of the host would be in the sandbox; put them into an image or a read-only volume"),
    refused("models", "a model inside the sandbox would be beyond the profile"),
];

/// Keys of a service.
pub const SERVICE_KEYS: &[Rule] = &[
    honoured("image", "the image"),
    honoured("build", "the image, from a Dockerfile; with `image` its name"),
    honoured("pull_policy", "always, missing, if_not_present, never or build"),
    honoured("platform", "linux/ARCHITECTURE[/VARIANT]"),
    honoured("command", "a list, or a text that is split like Compose does; a shell's operators in it are an error"),
    honoured("entrypoint", "like `command`; without `command` the image's own command is dropped"),
    honoured(
        "environment",
        "a mapping or a list; a bare name takes the value of the runner's environment, if there is one",
    ),
    honoured("env_file", "files within the task's directory; `required` and `format: raw`"),
    honoured("working_dir", "an absolute path"),
    honoured("user", "USER or USER:GROUP"),
    honoured("hostname", "one label or a name with dots"),
    honoured("init", "true or false; the guest is the first process either way and reaps what is left"),
    honoured("tty", "true or false"),
    honoured("stdin_open", "true or false"),
    honoured("read_only", "a root that nobody writes to"),
    honoured("volumes", "named and unnamed volumes, tmpfs, and read-only binds within the task's directory"),
    honoured("tmpfs", "paths with options size, mode, uid, gid, ro, rw, exec, noexec, nosuid, nodev"),
    honoured("mem_limit", "bytes; a limit that the profile document states holds if it is less"),
    honoured("mem_reservation", "bytes"),
    honoured("memswap_limit", "bytes; -1 is left out with a record"),
    honoured("cpus", "processors; a limit that the profile document states holds if it is less"),
    honoured(
        "pids_limit",
        "processes; a limit that the profile document states holds if it is less; 0 and -1 are left out with a record",
    ),
    honoured("shm_size", "bytes of /dev/shm"),
    honoured("ulimits", "a number, or soft and hard; `rtprio`, `rttime` and `nice` are refused"),
    honoured("deploy", "its resources and one replica"),
    honoured("healthcheck", "all of it"),
    honoured("depends_on", "names, or conditions; `restart` is left out with a record"),
    honoured("networks", "names, or aliases; addresses are refused"),
    honoured(
        "network_mode",
        "none: no network, not even to other services; bridge: no other services; all else is refused",
    ),
    honoured("expose", "ports that other services may reach; UDP is left out with a record"),
    honoured(
        "ports",
        "nothing is published on the host, and a record says so; the container's ports count as in `expose`",
    ),
    honoured(
        "extra_hosts",
        "names and their addresses; `host-gateway` is left out with a record: no host is reachable",
    ),
    honoured("cap_add", "the capabilities that a sandbox keeps anyway; all else is refused"),
    honoured(
        "cap_drop",
        "capabilities, or ALL; those that a sandbox keeps are the guest's to work with, and stay with a record",
    ),
    honoured(
        "security_opt",
        "no-new-privileges, which is so anyway unless the profile document has `allow_setuid`; all else is refused",
    ),
    honoured("restart", "no, always, unless-stopped, on-failure[:TIMES]"),
    honoured("stop_signal", "a signal's name or number"),
    honoured("stop_grace_period", "how long a service may take to end"),
    honoured("profiles", "a service with any is left out with a record"),
    honoured("ipc", "private or none; all else is refused"),
    honoured("pid", "nothing but an empty value; sharing is refused"),
    honoured("cgroup", "private; `host` is refused"),
    honoured("runtime", "runc is left out with a record; all else is refused: the profile names the runtime"),
    honoured("scale", "1"),
    honoured("x-default", "the service that an agent gets"),
    honoured("x-local", "the image is here; it is never pulled"),
    ignored("annotations", OWN_LABELS),
    ignored("attach", "output is the control channel's"),
    ignored("container_name", "one name would be one sample at a time; the provider names containers"),
    ignored("cpu_shares", LIMITS),
    ignored("develop", "it is for watching sources while developing"),
    ignored("dns", "names are answered by the gateway, whichever resolver is asked"),
    ignored("dns_opt", "names are answered by the gateway, whichever resolver is asked"),
    ignored("dns_search", "names are answered by the gateway, whichever resolver is asked"),
    ignored("domainname", "the host name is all there is"),
    ignored("label_file", OWN_LABELS),
    ignored("labels", OWN_LABELS),
    ignored("logging", "nothing of a container's output is written to disk by the daemon"),
    ignored("mac_address", ADDRESSES),
    ignored("mem_swappiness", LIMITS),
    ignored("oom_score_adj", "whom the kernel ends first is the host's to say"),
    ignored("pull_refresh_after", "an image is pulled by `pull_policy` alone"),
    refused("blkio_config", LIMITS),
    refused("cgroup_parent", "it takes the container out of the limits of its sample"),
    refused("configs", "files of the host would be in the sandbox; put them into an image or a read-only volume"),
    refused("cpu_count", "write `cpus`"),
    refused("cpu_percent", "write `cpus`"),
    refused("cpu_period", "write `cpus`"),
    refused("cpu_quota", "write `cpus`"),
    refused("cpu_rt_period", "real-time processes can stop a host"),
    refused("cpu_rt_runtime", "real-time processes can stop a host"),
    refused("cpuset", "which processors is the host's to say; write `cpus`"),
    refused("credential_spec", "credentials of the host would be in the sandbox"),
    refused("device_cgroup_rules", DEVICES),
    refused("devices", DEVICES),
    refused("extends", "write the keys out, or share them with YAML anchors and `<<`"),
    refused("external_links", OUTSIDE),
    refused("gpus", DEVICES),
    refused("group_add", "groups of a user are the image's to say"),
    refused("isolation", "it is for Windows"),
    refused("links", "services on one network reach each other by name; other names are `aliases` in `networks`"),
    refused("models", "a model inside the sandbox would be beyond the profile"),
    refused("oom_kill_disable", "it takes the edge off the memory limit, and can stop a host"),
    refused("post_start", "put it into the image or the command"),
    refused("pre_stop", "put it into the image or the command"),
    refused("privileged", "it takes every wall away"),
    refused("provider", "a program of the host would run"),
    refused(
        "secrets",
        "files of the host would be in the sandbox; put what the agent may see into `environment` or an image",
    ),
    refused("storage_opt", LIMITS),
    refused("sysctls", "settings of the kernel are the host's"),
    refused("use_api_socket", "the daemon's socket is the host"),
    refused("userns_mode", "it takes the container out of its user namespace"),
    refused("uts", "it is the host's own name"),
    refused("volumes_from", "name the volume in both services"),
];

/// Keys of `build`.
pub const BUILD_KEYS: &[Rule] = &[
    honoured("context", "a directory within the task's own; addresses are refused"),
    honoured("dockerfile", "a file as seen from the context"),
    honoured("dockerfile_inline", "the file's text"),
    honoured("args", "a mapping or a list, like `environment`"),
    honoured("target", "the stage to build"),
    honoured("no_cache", "true or false"),
    honoured("pull", "true or false"),
    honoured("network", "none; all else is refused"),
    ignored("cache_from", "the daemon's own cache is used"),
    ignored("cache_to", "the daemon's own cache is used"),
    ignored("labels", OWN_LABELS),
    ignored("platforms", "the image is for the service's `platform`"),
    ignored("provenance", "the image's digest is recorded"),
    ignored("sbom", "the image's digest is recorded"),
    ignored("shm_size", "it is the builder's"),
    ignored("tags", "an image has the name that `image` says"),
    ignored("ulimits", "it is the builder's"),
    refused("additional_contexts", OUTSIDE),
    refused("entitlements", "it takes walls of the builder away"),
    refused("extra_hosts", "names of a build are the daemon's to resolve"),
    refused("isolation", "it is for Windows"),
    refused("privileged", "it takes every wall away"),
    refused("secrets", "credentials of the host would be in the build"),
    refused("ssh", "credentials of the host would be in the build"),
];

/// Keys of `healthcheck`.
pub const HEALTH_KEYS: &[Rule] = &[
    honoured("test", "a text for a shell, or a list that begins with NONE, CMD or CMD-SHELL"),
    honoured("interval", "a length of time"),
    honoured("timeout", "a length of time"),
    honoured("retries", "a number"),
    honoured("start_period", "a length of time"),
    ignored("start_interval", "until the first success health is looked at four times a second"),
    honoured("disable", "true or false"),
];

/// Keys of `deploy`.
pub const DEPLOY_KEYS: &[Rule] = &[
    honoured("resources", "limits and reservations"),
    honoured("replicas", "1"),
    ignored("endpoint_mode", "it is for clusters"),
    ignored("labels", OWN_LABELS),
    ignored("mode", "it is for clusters"),
    ignored("placement", "it is for clusters"),
    ignored("restart_policy", "write `restart`"),
    ignored("rollback_config", "it is for clusters"),
    ignored("update_config", "it is for clusters"),
];

/// Keys of `deploy.resources`.
pub const RESOURCES_KEYS: &[Rule] =
    &[honoured("limits", "cpus, memory, pids"), honoured("reservations", "memory; cpus are left out with a record")];

/// Keys of `deploy.resources.limits`.
pub const LIMITS_KEYS: &[Rule] = &[
    honoured("cpus", "like `cpus` of the service"),
    honoured("memory", "like `mem_limit`"),
    honoured("pids", "like `pids_limit`"),
];

/// Keys of `deploy.resources.reservations`.
pub const RESERVATIONS_KEYS: &[Rule] = &[
    honoured("memory", "like `mem_reservation`"),
    ignored("cpus", "processors are limited, not kept free"),
    refused("devices", DEVICES),
    refused("generic_resources", DEVICES),
];

/// Keys of a volume in long form, in a service.
pub const MOUNT_KEYS: &[Rule] = &[
    honoured("type", "volume, bind or tmpfs"),
    honoured("source", "a volume's name, or a path"),
    honoured("target", "an absolute path"),
    honoured("read_only", "true or false; a bind must have it"),
    honoured("volume", "subpath; nocopy"),
    honoured("tmpfs", "size, mode"),
    honoured("bind", "nothing of it has an effect; propagation must be private"),
    ignored("consistency", "it is for other systems"),
];

/// Keys of `networks.NAME` in a service.
pub const ATTACHMENT_KEYS: &[Rule] = &[
    honoured("aliases", "more names of the service on this network"),
    ignored("gw_priority", "every way out is the gateway's"),
    ignored("interface_name", ADDRESSES),
    ignored("mac_address", ADDRESSES),
    ignored("priority", "there is no order of networks"),
    refused("driver_opts", ADDRESSES),
    refused("ipv4_address", ADDRESSES),
    refused("ipv6_address", ADDRESSES),
    refused("link_local_ips", ADDRESSES),
];

/// Keys of `networks.NAME` of the file.
pub const NETWORK_KEYS: &[Rule] = &[
    honoured("driver", "bridge; all else is refused"),
    honoured("internal", "a service with no other network reaches nothing but services"),
    ignored("attachable", "nobody else attaches"),
    ignored("enable_ipv4", ADDRESSES),
    ignored("enable_ipv6", ADDRESSES),
    ignored("ipam", ADDRESSES),
    ignored("labels", OWN_LABELS),
    ignored("name", "a network lives as long as its sample and needs no other name"),
    refused("driver_opts", "no network of the daemon is made"),
    refused("external", "it brings in a network that is not of this sample"),
];

/// Keys of `volumes.NAME` of the file.
pub const VOLUME_KEYS: &[Rule] = &[
    honoured("driver", "local; all else is refused"),
    ignored("labels", OWN_LABELS),
    ignored("name", "a volume lives as long as its sample and needs no other name"),
    refused("driver_opts", "it can bring in any directory of the host"),
    refused("external", "it brings in files that are not of this sample"),
];

/// Keys of an entry of `depends_on`.
pub const DEPENDENCY_KEYS: &[Rule] = &[
    honoured("condition", "service_started, service_healthy or service_completed_successfully"),
    honoured("required", "true or false"),
    ignored("restart", "nothing restarts a service of a running sample"),
];

/// Keys of an entry of `env_file`.
pub const ENV_FILE_KEYS: &[Rule] = &[
    honoured("path", "a file within the task's directory"),
    honoured("required", "true or false"),
    honoured("format", "raw: nothing but the first `=` of a line has a meaning"),
];

/// Keys of an entry of `include`.
pub const INCLUDE_KEYS: &[Rule] = &[
    honoured("path", "one file within the task's directory; several would be merged, and are refused"),
    refused("env_file", "the file .env beside the included file is read"),
    refused("project_directory", "paths are seen from the included file"),
];

/// Keys of a port in long form.
pub const PORT_KEYS: &[Rule] = &[
    honoured("target", "the port inside"),
    honoured("protocol", "tcp or udp"),
    ignored("app_protocol", "nothing is published on the host"),
    ignored("host_ip", "nothing is published on the host"),
    ignored("mode", "nothing is published on the host"),
    ignored("name", "nothing is published on the host"),
    ignored("published", "nothing is published on the host"),
];

/// Keys of an entry of `ulimits`.
pub const ULIMIT_KEYS: &[Rule] = &[honoured("soft", "a number, or -1"), honoured("hard", "a number, or -1")];

/// Keys of `bind` in a volume.
pub const BIND_KEYS: &[Rule] = &[
    honoured("propagation", "private or rprivate; all else is refused"),
    ignored("create_host_path", "nothing is made on the host"),
    ignored("recursive", "a bind is one file or directory"),
    ignored("selinux", "labels of the host's files stay as they are"),
];

/// Keys of `volume` in a volume.
pub const MOUNT_VOLUME_KEYS: &[Rule] =
    &[honoured("subpath", "a part of the volume"), honoured("nocopy", "true or false"), ignored("labels", OWN_LABELS)];

/// Keys of `tmpfs` in a volume.
pub const MOUNT_TMPFS_KEYS: &[Rule] = &[honoured("size", "bytes"), honoured("mode", "octal digits, as a text")];

/// Every table with its name in the documentation.
pub const TABLES: &[(&str, &[Rule])] = &[
    ("The file", TOP_KEYS),
    ("A service", SERVICE_KEYS),
    ("`build`", BUILD_KEYS),
    ("`healthcheck`", HEALTH_KEYS),
    ("`deploy`", DEPLOY_KEYS),
    ("`deploy.resources`", RESOURCES_KEYS),
    ("`deploy.resources.limits`", LIMITS_KEYS),
    ("`deploy.resources.reservations`", RESERVATIONS_KEYS),
    ("A volume of a service, in long form", MOUNT_KEYS),
    ("`bind` of a volume", BIND_KEYS),
    ("`volume` of a volume", MOUNT_VOLUME_KEYS),
    ("`tmpfs` of a volume", MOUNT_TMPFS_KEYS),
    ("An entry of `ulimits`", ULIMIT_KEYS),
    ("A network of a service, in long form", ATTACHMENT_KEYS),
    ("An entry of `depends_on`", DEPENDENCY_KEYS),
    ("An entry of `env_file`", ENV_FILE_KEYS),
    ("A port in long form", PORT_KEYS),
    ("An entry of `include`", INCLUDE_KEYS),
    ("A network of the file", NETWORK_KEYS),
    ("A volume of the file", VOLUME_KEYS),
];
