#!/usr/bin/env bash
# The test command. `./test.sh` runs every lane; `./test.sh unit` runs one; `soak`, `podman` and `gvisor` are run by hand. It installs what is missing, counts every
# check and test, and ends with the line `N passed, N failed`. A lane whose system is missing fails.
set -uo pipefail
cd "$(dirname "$0")" || exit 1

begun=()
# A crate is always tested together with the command: with the same features everywhere, nothing is compiled twice.
TEST=(cargo test --release --no-fail-fast -p ringfence)
LANES=(lint unit sandbox egress docker serve inspect verify)
DENY_VERSION=0.20.2
FUZZ_VERSION=0.13.2
GVISOR_VERSION=v0.0.0-20260905035102-160fafc42237
INSPECT_VERSION=0.3.285
INSPECT_EVALS_VERSION=0.26.0
JSONSCHEMA_VERSION=4.26.0
OPENAI_VERSION=3.49.0
ANTHROPIC_VERSION=2.8.0
GOOGLE_VERSION=3.1.0
CRYPTOGRAPHY_VERSION=50.0.2
SECURESYSTEMSLIB_VERSION=1.6.0
SCHEMATHESIS_VERSION=4.32.5
MYPY_VERSION=2.4.1
PYTEST_VERSION=9.2.0
PYTEST_ASYNCIO_VERSION=1.4.1.post1
RUFF_VERSION=0.17.4
TYPES_PYYAML_VERSION=6.0.12.20261103
# Tests that a plain user runs too, as an expression of grep.
AS_PLAIN_USER='attacks\|programs\|conformance\|confined\|hostile_guest\|run\|images\|hostile\|store\|snapshots\|prepared\|unlisted\|eval\|approvals\|secrets\|session\|file_tools\|web\|retry\|set\|scores\|scorer\|memory'
FUZZ_SECONDS=${FUZZ_SECONDS:-10}

export CARGO_TERM_COLOR=never
# A snapshot that differs is a failure, never an update.
export INSTA_UPDATE=no

passed=0
failed=0
log=$(mktemp)
docker_place=
docker_pid=
# What else the daemon is told.
docker_more=()
# Whatever ends this script, the daemon that it started ends too.
trap 'stop_docker; rm -f "$log"' EXIT
# After what runs now has ended: it still uses what the line above removes.
trap 'exit 143' TERM

say() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

# check NAME COMMAND…: one counted check.
check() {
    local name=$1
    shift
    say "$name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$name"
    fi
}

# tests NAME COMMAND…: a cargo test run; its own tests are counted, and a run without a test has failed.
tests() {
    local name=$1 ok bad
    shift
    say "$name"
    "$@" 2>&1 | tee "$log"
    local status=${PIPESTATUS[0]}
    ok=$(awk '/^test result:/ {n += $4} END {print n + 0}' "$log")
    bad=$(awk '/^test result:/ {n += $6} END {print n + 0}' "$log")
    passed=$((passed + ok))
    failed=$((failed + bad))
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] || [ "$((ok + bad))" -eq 0 ]; then
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$name"
    fi
}

# pytests NAME COMMAND…: a run of pytest; its own tests are counted. One that is skipped lacks its system, and has failed.
pytests() {
    local name=$1 ok bad
    shift
    say "$name"
    "$@" 2>&1 | tee "$log"
    local status=${PIPESTATUS[0]}
    ok=$(grep -oE '[0-9]+ passed' "$log" | tail -n 1 | cut -d' ' -f1)
    bad=$(tail -n 1 "$log" | grep -oE '[0-9]+ (failed|errors?|skipped)' | awk '{n += $1} END {print n + 0}')
    passed=$((passed + ${ok:-0}))
    failed=$((failed + bad))
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] || [ "$((${ok:-0} + bad))" -eq 0 ]; then
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$name"
    fi
}

# begin NAME COMMAND…, then finish: tests that run at the same time, for those that wait more than they work.
begin() {
    local name=$1 file
    shift
    file=$(mktemp)
    "$@" >"$file" 2>&1 &
    begun+=("$! $file $name")
}

finish() {
    local one pid file name
    for one in "${begun[@]}"; do
        read -r pid file name <<<"$one"
        wait "$pid"
        tests "$name" told "$?" "$file"
        rm -f "$file"
    done
    begun=()
}

# told STATUS FILE: what a command said, and how it ended.
told() {
    cat "$2"
    return "$1"
}

# debian PROGRAM PACKAGE: installs a Debian package when its program is missing and we are root.
debian() {
    command -v "$1" >/dev/null && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        printf 'missing %s: install the package %s\n' "$1" "$2"
        return 1
    fi
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null
}

# debian_file PATH PACKAGE: the same for something that is not a program in the path.
debian_file() {
    [ -e "$1" ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        printf 'missing %s: install the package %s\n' "$1" "$2"
        return 1
    fi
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null
}

# tool COMMAND CRATE VERSION: installs a cargo tool from the registry when it is missing; unoptimised, which is compiled in a third of the time.
tool() {
    cargo "$1" --version >/dev/null 2>&1 || cargo install --locked --quiet --debug "$2@$3"
}

# tests_of CRATE…: cargo's options for the tests in the directories `tests` of these crates.
tests_of() {
    local crate file name
    for crate in "$@"; do
        for file in "crates/$crate"/tests/*.rs "crates/$crate"/tests/*/main.rs; do
            [ -e "$file" ] || continue
            file=${file%/main.rs}
            name=$(basename "$file" .rs)
            # Those that need another's help say so, and are asked for by name.
            grep -A 1 "^name = \"$name\"" "crates/$crate/Cargo.toml" | grep -q '^test = false' && continue
            printf -- '--test %s ' "$name"
        done
    done
}

# Every file of tests is named in a lane, or its whole crate is.
tests_have_lanes() {
    local crate name status=0 whole known
    whole=$(grep -o 'tests_of [a-z ]*' test.sh)
    # The command is always selected: names that it shares with such a crate are run of both.
    known=$(tests_of ${whole//tests_of/})
    for crate in crates/*/tests; do
        crate=$(basename "$(dirname "$crate")")
        for name in $(tests_of "$crate"); do
            [ "$name" != --test ] || continue
            grep -qw -- "$crate" <<<"$whole" || grep -q -- "--test $name\b" test.sh ||
                { [ "$crate" = cli ] && grep -q -- "--test $name " <<<"$known"; } ||
                { printf 'no lane runs the tests %s of %s\n' "$name" "$crate"; status=1; }
        done
    done
    return $status
}

# component COMMAND NAME: a part of the Rust toolchain.
component() {
    cargo "$1" --version >/dev/null 2>&1 || rustup component add "$2"
}

lane_lint() {
    component fmt rustfmt && component clippy clippy && tool deny cargo-deny "$DENY_VERSION"
    check 'format' cargo fmt --all --check
    check 'clippy' cargo clippy --release --workspace --all-targets -- -D warnings
    check 'every test has a lane' tests_have_lanes
    check 'licences, bans, sources' cargo deny --log-level error check bans licenses sources
    check 'documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --release --quiet --no-deps --workspace
}

lane_unit() {
    tests 'tests' cargo test --release --no-fail-fast --workspace --lib --bins --test architecture --test cli --test load \
        $(tests_of compose eval image jail log model registry stack wire)
    tests 'examples in the documentation' cargo test --release --workspace --doc
    debian g++ g++ && tool fuzz cargo-fuzz "$FUZZ_VERSION"
    fuzz document
    fuzz task
    fuzz policy
    fuzz compose
    fuzz host_pattern
    fuzz frames
    fuzz redact
    fuzz envelope
}

# The embedded engine on a real kernel: as whoever runs this, and, if that is root, as a plain user too.
lane_sandbox() {
    debian perl perl && debian pgrep procps && debian setpriv util-linux
    debian busybox busybox-static
    # The image `host` has what is in /usr/bin, not in /usr/local.
    debian_file /usr/bin/python3 python3 && debian_file /usr/bin/git git && debian_file /usr/bin/node nodejs
    # `snapshots` are tests of both.
    tests 'sandboxes' "${TEST[@]}" -p sandbox $(tests_of sandbox)
    tests 'the command, with sandboxes' "${TEST[@]}" --test run --test images --test eval --test approvals --test secrets --test matrix --test session --test file_tools --test models --test limits --test scores --test scorer --test retry --test set --test web --test memory
    if [ "$(id -u)" -eq 0 ]; then
        tests 'sandboxes as a plain user' as_plain_user
    fi
}

# The gateway against an internet of its own, in network namespaces: as root, and with the command run by a plain user.
lane_egress() {
    debian ip iproute2 && debian setpriv util-linux && debian perl perl && debian curl curl && debian git git &&
        debian node nodejs && debian dpkg-deb dpkg && debian_file /usr/bin/python3 python3 &&
        debian_file /usr/lib/python3/dist-packages/requests python3-requests &&
        debian_file /usr/lib/python3/dist-packages/pip python3-pip
    command -v go >/dev/null || debian go golang-go
    check 'an internet for the tests' cargo build --release -p ringfence -p testnet
    tests 'that internet itself' "${TEST[@]}" -p testnet --test internet
    tests 'the gateway' "${TEST[@]}" -p egress --test gateway --test services
    # The same over the other capture: the guest listens, and relays.
    tests 'the gateway, relayed' env RINGFENCE_CAPTURE=relayed "${TEST[@]}" -p egress --test gateway --test services
    check 'attacks, compiled' "${TEST[@]}" --test egress --no-run
    begin 'attacks and clients' env RINGFENCE_ALSO_N2=1 "${TEST[@]}" --test egress
    begin 'attacks and clients, relayed' env RINGFENCE_CAPTURE=relayed "${TEST[@]}" --test egress
    finish
    if [ "$(id -u)" -eq 0 ]; then
        tests 'attacks and clients as a plain user' env RINGFENCE_AS=23456 "${TEST[@]}" --test egress
    fi
    debian g++ g++ && tool fuzz cargo-fuzz "$FUZZ_VERSION"
    fuzz client_hello
    fuzz http_head
    fuzz dns_query
}

# Images and containers against the real thing: a Debian made by debootstrap, and a Docker daemon of this lane's own; one that the
# machine already has is not touched. What is large lies in /var/tmp: /tmp may be memory.
lane_docker() {
    debian dockerd docker.io && debian docker docker-cli && debian debootstrap debootstrap && debian gzip gzip
    debian ip iproute2 && debian perl perl && debian pgrep procps && debian busybox busybox-static
    own_docker
    if [ -n "$docker_pid" ]; then
        tests 'images from every source' in_docker "${TEST[@]}" --test sources
        check 'images for containers' docker_images
        check 'an internet for the tests' cargo build --release -p ringfence -p testnet
        tests 'the crate of daemons' in_docker "${TEST[@]}" -p docker --test bare
        tests 'containers by the command' in_docker env RINGFENCE_RESTART_DOCKER="$(restart_script)" \
            "${TEST[@]}" --test docker
        tests 'containers conform, as root' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/debian \
            "${TEST[@]}" -p sandbox --test conformance container::
        tests 'containers conform, as a plain user' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/plain \
            RINGFENCE_USER=agent "${TEST[@]}" -p sandbox --test conformance container::
        tests 'containers conform, with one program and no shell' in_docker env RINGFENCE_PROVIDER=docker \
            RINGFENCE_IMAGE=ringfence/static RINGFENCE_ONLY_PROGRAM=/busybox "${TEST[@]}" -p sandbox --test conformance container::
        tests 'attacks from inside a container' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/debian \
            "${TEST[@]}" -p sandbox --test attacks -- $(skipped)
        # One container, also without any network; and one of three services.
        begin "attacks on a container's network" attacked RINGFENCE_ALSO_N2=1
        begin "attacks on the network of services" attacked RINGFENCE_SERVICES=3
        finish
    fi
    stop_docker
}

# By hand: containers with a kernel in user space. `RUNSC` is gVisor's program; without it, it is built of its Go module.
lane_gvisor() {
    debian dockerd docker.io && debian docker docker-cli && debian debootstrap debootstrap && debian busybox busybox-static
    if [ -z "${RUNSC:-}" ]; then
        RUNSC=$PWD/target/gvisor/runsc
        [ -x "$RUNSC" ] || check 'gVisor, built' env GOBIN="$PWD/target/gvisor" CGO_ENABLED=0 go install "gvisor.dev/gvisor/runsc@$GVISOR_VERSION"
    fi
    docker_more=(--add-runtime "runsc=$RUNSC")
    own_docker
    if [ -n "$docker_pid" ]; then
        check 'images for containers' docker_images
        check 'the program' cargo build --release -p ringfence
        tests 'containers of gVisor conform' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/debian RINGFENCE_RUNTIME=runsc \
            "${TEST[@]}" -p sandbox --test conformance container::
        local document=$docker_place/profile.yaml
        printf 'profile: T0.H1.N2\nsandbox: docker\nruntime: runsc\napproval: ci\n' >"$document"
        check 'N2, proven' in_docker target/release/ringfence verify --provider docker --pull never --image ringfence/debian "$document"
    fi
    stop_docker
}

# in_docker COMMAND…: with the lane's own daemon.
in_docker() {
    env TMPDIR="$docker_place/tmp" DOCKER_HOST="unix://$docker_place/socket" DOCKER_CONFIG="$docker_place/config" \
        RINGFENCE_DOCKER_TCP="127.0.0.1:$(cat "$docker_place/port")" RINGFENCE_DOCKER_TLS="$docker_place/tls/client" "$@"
}

# attacked SETTING: attacks on the network of containers.
attacked() {
    in_docker env "$1" RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/debian \
        "${TEST[@]}" --test egress -- addresses answers bytes escapes floods http names tls
}

# Attacks that mean something only on the embedded engine: its helper, its images, its bounds of disks, its setuid programs; and
# one about what the list of mounts shows, which plans of Docker concede.
skipped() {
    local name
    for name in kill_zygote setuid_works_where_it_is_allowed_and_stays_inside host_directory_as_image disk_bomb inode_bomb \
        mountinfo_leaks_paths mount_target_through_a_link mount_source_exchanged_after_its_check; do
        printf -- '--skip %s ' "$name"
    done
}

# Three images: a Debian, the same with a user and settings of its own, and one static program with nothing else. The Debian is made
# once for all runs of this lane.
docker_images() {
    local root=$PWD/target/docker-rootfs mirror status=0 health=(--change 'HEALTHCHECK CMD touch /srv/checked')
    # Podman imports none.
    [ "${1:-}" != without-health ] || health=()
    if [ ! -e "$root.made" ]; then
        rm -rf --one-file-system "$root"
        mirror=$(. /etc/os-release && apt-get indextargets --format '$(CODENAME) $(SITE)' 'Identifier: Packages' |
            sed -n "s/^$VERSION_CODENAME //p" | head -n 1)
        (. /etc/os-release && debootstrap --variant=minbase --include=curl,procps "$VERSION_CODENAME" "$root" $mirror) \
            >"$root.log" 2>&1 || { tail -n 20 "$root.log"; return 1; }
        rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
        echo 'agent:x:1000:1000:agent:/home/agent:/bin/sh' >>"$root/etc/passwd"
        echo 'agent:x:1000:' >>"$root/etc/group"
        mkdir -p "$root/home/agent" && chown 1000:1000 "$root/home/agent"
        touch "$root.made"
    fi
    tar -C "$root" --one-file-system -c . | in_docker docker import - ringfence/debian || status=1
    tar -C "$root" --one-file-system -c . | in_docker docker import --change 'USER agent' --change 'WORKDIR /srv' \
        --change 'ENV PLACE=there' --change 'ENTRYPOINT ["sh", "-c"]' --change 'CMD ["echo said $(id -u) $PWD $PLACE"]' \
        "${health[@]}" - ringfence/plain || status=1
    tar -C "$(dirname "$(command -v busybox)")" -c busybox | in_docker docker import - ringfence/static || status=1
    return $status
}

# A daemon of this lane's own, in a directory of its own.
own_docker() {
    docker_place=$(mktemp -d /var/tmp/ringfence-docker.XXXXXX)
    mkdir "$docker_place/tmp"
    check 'a Docker daemon of our own' start_docker
}

start_docker() {
    debian openssl openssl && tls_files || return 1
    daemon overlay2 || daemon vfs
}

# Ends the lane's daemon and starts it again, as a script: it waits for either at most half a minute.
restart_script() {
    local driver
    driver=$(in_docker docker info --format '{{.Driver}}')
    cat <<END
pid=\$(cat "$docker_place/pid"); kill "\$pid"
for n in \$(seq 300); do kill -0 "\$pid" 2>/dev/null || break; sleep 0.1; done
setsid $(daemon_command "$driver") >>"$docker_place/log" 2>&1 </dev/null &
for n in \$(seq 150); do docker -H "unix://$docker_place/socket" version >/dev/null 2>&1 && exit 0; sleep 0.2; done
exit 1
END
}

# The daemon's command with this storage driver: on a socket, and as daemons elsewhere are, by TLS. It makes no network and no
# rules.
daemon_command() {
    printf '%s ' dockerd --data-root "$docker_place/data" --exec-root "$docker_place/exec" --pidfile "$docker_place/pid" \
        -H "unix://$docker_place/socket" --storage-driver "$1" --bridge=none --iptables=false --ip6tables=false \
        -H "tcp://127.0.0.1:$(cat "$docker_place/port")" --tlsverify --tlscacert "$docker_place/tls/ca.pem" \
        --tlscert "$docker_place/tls/server.pem" --tlskey "$docker_place/tls/server-key.pem" "${docker_more[@]}"
}

# Certificates for the daemon and for its clients, and a port that nobody has.
tls_files() {
    local tls=$docker_place/tls who
    mkdir "$tls" && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ringfence-test \
        -keyout "$tls/ca-key.pem" -out "$tls/ca.pem" 2>/dev/null || return 1
    for who in server client; do
        openssl req -newkey rsa:2048 -nodes -subj "/CN=$who" -keyout "$tls/$who-key.pem" -out "$tls/$who.csr" 2>/dev/null &&
            openssl x509 -req -in "$tls/$who.csr" -CA "$tls/ca.pem" -CAkey "$tls/ca-key.pem" -CAcreateserial -days 2 \
                -extfile <(printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n') \
                -out "$tls/$who.pem" 2>/dev/null || return 1
    done
    mkdir "$tls/client" && cp "$tls/ca.pem" "$tls/client/" && cp "$tls/client.pem" "$tls/client/cert.pem" &&
        cp "$tls/client-key.pem" "$tls/client/key.pem" &&
        perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport' \
            >"$docker_place/port"
}

# daemon DRIVER: starts a daemon and waits until it answers, at most half a minute.
daemon() {
    $(daemon_command "$1") >"$docker_place/log" 2>&1 &
    docker_pid=$!
    local end=$((SECONDS + 30))
    while [ "$SECONDS" -lt "$end" ] && kill -0 "$docker_pid" 2>/dev/null; do
        docker -H "unix://$docker_place/socket" version >/dev/null 2>&1 && return 0
        sleep 0.2
    done
    printf 'the daemon with %s does not answer:\n' "$1"
    tail -n 5 "$docker_place/log"
    end_daemon
    return 1
}

# Asked first: it then ends what it started itself.
end_daemon() {
    [ -n "$docker_pid" ] || return 0
    # A test may have started it again.
    [ -e "$docker_place/pid" ] && docker_pid=$(cat "$docker_place/pid")
    kill "$docker_pid" 2>/dev/null
    local end=$((SECONDS + 20))
    while kill -0 "$docker_pid" 2>/dev/null; do
        [ "$SECONDS" -lt "$end" ] || kill -KILL "$docker_pid"
        sleep 0.2
    done
    wait "$docker_pid" 2>/dev/null
    docker_pid=
}

stop_docker() {
    end_daemon
    # What a runtime leaves mounted would keep the directory.
    [ -z "$docker_place" ] || awk -v place="$docker_place/" 'index($2, place) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount
    [ -z "$docker_place" ] || rm -rf --one-file-system "$docker_place"
    docker_place=
}

# By hand: Podman's service for clients of Docker, in the place of a daemon.
lane_podman() {
    debian podman podman && debian runc runc && debian docker docker-cli && debian debootstrap debootstrap && debian busybox busybox-static
    docker_place=$(mktemp -d /var/tmp/ringfence-podman.XXXXXX)
    mkdir "$docker_place/tmp"
    check 'a Podman service of our own' start_podman
    if [ -n "$docker_pid" ]; then
        check 'images for containers' docker_images without-health
        tests 'the crate of daemons, on Podman' in_docker "${TEST[@]}" -p docker --test bare
        tests 'containers of Podman conform, as root' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/debian \
            "${TEST[@]}" -p sandbox --test conformance container::
        tests 'containers of Podman conform, as a plain user' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/plain \
            RINGFENCE_USER=agent "${TEST[@]}" -p sandbox --test conformance container::
        tests 'containers of Podman conform, with one program and no shell' in_docker env RINGFENCE_PROVIDER=docker \
            RINGFENCE_IMAGE=ringfence/static RINGFENCE_ONLY_PROGRAM=/busybox "${TEST[@]}" -p sandbox --test conformance container::
        tests 'attacks from inside a container of Podman' in_docker env RINGFENCE_PROVIDER=docker RINGFENCE_IMAGE=ringfence/debian \
            "${TEST[@]}" -p sandbox --test attacks -- $(skipped)
        tests 'containers of Podman, proven' in_docker "${TEST[@]}" --test docker -- verify_passes
    fi
    stop_docker
}

# In a directory of its own, without systemd. Limits that it would raise, which not every machine permits, stay as they are.
start_podman() {
    cat >"$docker_place/runc" <<'END'
#!/usr/bin/perl
use JSON::PP;
for my $at (grep { $ARGV[$_] eq '--bundle' } 0 .. $#ARGV) {
    my $file = "$ARGV[$at + 1]/config.json";
    my $config = decode_json(do { local (@ARGV, $/) = $file; <> });
    delete $config->{process}{rlimits};
    open my $to, '>', $file or die;
    print $to encode_json($config);
}
exec 'runc', @ARGV;
END
    chmod +x "$docker_place/runc" && mkdir -p "$docker_place/tls/client" && echo 0 >"$docker_place/port" || return 1
    printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "own"\n[engine.runtimes]\nown = ["%s"]\n' \
        "$docker_place/runc" >"$docker_place/containers.conf"
    # What watches a container leaves a file where it was started.
    CONTAINERS_CONF=$docker_place/containers.conf env -C "$docker_place" podman --root "$docker_place/data" --runroot "$docker_place/exec" \
        --tmpdir "$docker_place/libpod" system service --time=0 "unix://$docker_place/socket" >"$docker_place/log" 2>&1 &
    docker_pid=$!
    local end=$((SECONDS + 30))
    while [ "$SECONDS" -lt "$end" ]; do
        docker -H "unix://$docker_place/socket" version >/dev/null 2>&1 && return 0
        sleep 0.2
    done
    tail -n 5 "$docker_place/log"
    end_daemon
    return 1
}

# Our logs in the hands of Inspect itself, in a virtual environment of this lane's own.
lane_inspect() {
    debian_file /usr/bin/python3 python3
    local venv=$PWD/target/inspect-venv
    check 'Inspect in an environment of its own' inspect_venv "$venv"
    tests 'logs that Inspect opens' env RINGFENCE_INSPECT_VENV="$venv" "${TEST[@]}" -p log@0.1.0 --test inspect
    check 'evaluations whose logs Inspect opens' inspect_evals "$venv"
    tests 'Compose files of inspect_evals' compose_files "$venv"
    check "scores and metrics as Inspect's own functions have them" inspect_scores "$venv"
    check "requests and replies by the providers' own types" sdk_types "$venv"
    check 'answers of models elsewhere, in logs that Inspect opens' model_logs "$venv"
    lane_plugin
}

# The Python package, built and installed as a user does it, in the hands of Inspect; part of the lane before.
lane_plugin() {
    debian_file /usr/bin/python3 python3 && debian debootstrap debootstrap
    debian dockerd docker.io && debian docker docker-cli && debian pgrep procps
    local venv=$PWD/target/inspect-venv
    check 'Inspect in an environment of its own' inspect_venv "$venv"
    check 'a wheel with the program inside' install_package "$venv"
    check 'the package by ruff and mypy' check_package "$venv"
    check 'images for the package' inspect_images
    pytests 'the package against a double' in_python "$venv" "$PWD/python/tests/double.py" -m 'not real'
    pytests 'the package with sandboxes' in_python "$venv" "$venv/bin/ringfence" -m 'not double'
    own_docker
    if [ -n "$docker_pid" ]; then
        pytests "Inspect's own suite on Docker" suite_on_docker "$venv"
    fi
    stop_docker
}

# suite_on_docker VENV: the suite's image is one of the lane's own daemon.
suite_on_docker() {
    tar -C target/inspect-rootfs --one-file-system -c . |
        in_docker docker import --change 'USER agent' --change 'WORKDIR /home/agent' - ringfence/plain || return 1
    (
        export TMPDIR="$docker_place/tmp" DOCKER_HOST="unix://$docker_place/socket" DOCKER_CONFIG="$docker_place/config"
        export RINGFENCE_TEST_PROVIDER=docker RINGFENCE_TEST_IMAGE=docker:ringfence/plain
        in_python "$1" "$1/bin/ringfence" tests/test_self_check.py
    )
}

# install_package VENV: the program is compiled in this workspace's own target directory. What tries it is pinned.
install_package() {
    "$1/bin/pip" install --quiet "mypy==$MYPY_VERSION" "pytest==$PYTEST_VERSION" "pytest-asyncio==$PYTEST_ASYNCIO_VERSION" \
        "ruff==$RUFF_VERSION" "types-PyYAML==$TYPES_PYYAML_VERSION" "inspect_evals==$INSPECT_EVALS_VERSION" \
        "inspect-ai==$INSPECT_VERSION" &&
        "$1/bin/pip" install --quiet --force-reinstall --no-deps ./python && "$1/bin/ringfence" --version
}

# check_package VENV
check_package() {
    (cd python && "$1/bin/ruff" check --quiet . && "$1/bin/ruff" format --quiet --check . && "$1/bin/mypy" --cache-dir ../target/mypy)
}

# in_python VENV PROGRAM ARGUMENT…: pytest, with this program as the server.
in_python() {
    local venv=$1 program=$2
    shift 2
    (cd python && env RINGFENCE_BINARY="$program" RINGFENCE_TEST_LAYOUT="$PWD/../target/inspect-images" \
        "$venv/bin/python" -m pytest -q -W ignore --show-capture=no -p no:cacheprovider "$@")
}

# Images for tasks of Inspect: a Debian with what its tools and the tasks of inspect_evals use. Made once for all runs of this lane.
inspect_images() {
    local root=$PWD/target/inspect-rootfs layout=$PWD/target/inspect-images mirror user
    if [ ! -e "$root.made" ]; then
        rm -rf --one-file-system "$root"
        mirror=$(. /etc/os-release && apt-get indextargets --format '$(CODENAME) $(SITE)' 'Identifier: Packages' |
            sed -n "s/^$VERSION_CODENAME //p" | head -n 1)
        (. /etc/os-release && debootstrap --variant=minbase --include=curl,git,procps,python-is-python3,python3,python3-pytest \
            "$VERSION_CODENAME" "$root" $mirror) >"$root.log" 2>&1 || { tail -n 20 "$root.log"; return 1; }
        rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
        for user in agent:1000 challenge_user:1001; do
            echo "${user%:*}:x:${user#*:}:${user#*:}::/home/${user%:*}:/bin/bash" >>"$root/etc/passwd"
            echo "${user%:*}:x:${user#*:}:" >>"$root/etc/group"
            mkdir -p "$root/home/${user%:*}" && chown "${user#*:}:${user#*:}" "$root/home/${user%:*}"
        done
        mkdir -p "$root/workspace"
        touch "$root.made"
    fi
    [ -e "$layout/index.json" ] && [ "$layout/index.json" -nt python/tests/make_image.py ] && return 0
    rm -rf "$layout" && python3 python/tests/make_image.py "$root" "$layout"
}

# compose_files VENV: every Compose file of the package inspect_evals against the table in docs/, and against Inspect's own parser.
compose_files() {
    local place status=0
    place=$(mktemp -d)
    "$1/bin/python" -m pip download --quiet --no-deps --only-binary :all: --dest "$place" "inspect_evals==$INSPECT_EVALS_VERSION" &&
        "$1/bin/python" -m zipfile -e "$place"/inspect_evals-*.whl "$place/package" &&
        "$1/bin/python" crates/compose/tests/inspect_compose.py "$place/package" "$place/answers.json" &&
        RINGFENCE_INSPECT_EVALS=$place/package RINGFENCE_INSPECT_COMPOSE=$place/answers.json \
            "${TEST[@]}" -p compose --test inspect_evals || status=1
    rm -rf "$place"
    return $status
}

# model_logs VENV: thoughts, images, usage and cost, read back by Inspect.
model_logs() {
    local place status=0
    place=$(mktemp -d)
    RINGFENCE_MODEL_LOGS=$place "${TEST[@]}" --quiet --test models || status=1
    "$1/bin/python" crates/cli/tests/inspect_logs.py "$place" 12 || status=1
    PATH="$1/bin:$PATH" "$1/bin/python" crates/log/tests/inspect_check.py schema "$place" || status=1
    rm -rf "$place"
    return $status
}

# sdk_types VENV: what the tests of models send and hear, held against the providers' own libraries.
sdk_types() {
    local place status=0
    place=$(mktemp -d)
    RINGFENCE_MODEL_DUMP=$place "${TEST[@]}" --quiet -p model --test providers || status=1
    "$1/bin/python" crates/model/tests/sdk_types.py "$place" || status=1
    rm -rf "$place"
    return $status
}

# inspect_evals VENV: every example that runs here, in both formats, read back by Inspect.
inspect_evals() {
    local place task format grants status=0 count=0
    place=$(mktemp -d)
    cargo build --release --quiet -p ringfence || return 1
    # With receipts beside the logs, which Inspect must not take for logs.
    local -x XDG_CONFIG_HOME=$place/config
    target/release/ringfence key new || status=1
    for task in first text-only ctf allow-list local-approvals iterative graded; do
        for format in eval json; do
            # The operator's word for the examples at H0 and N0, and only for those.
            case $task in
            local-approvals | iterative) grants='--allow-local --allow-full-network' ;;
            *) grants= ;;
            esac
            # shellcheck disable=SC2086 # words
            target/release/ringfence eval "examples/$task.yaml" --log-dir "$place" --log-format "$format" $grants || status=1
            count=$((count + 1))
        done
    done
    # A log that was judged again is a log like any other.
    target/release/ringfence score "$place"/*_graded_*.eval --scorer f1 --metric accuracy || status=1
    count=$((count + 1))
    "$1/bin/python" crates/cli/tests/inspect_logs.py "$place" "$count" || status=1
    PATH="$1/bin:$PATH" "$1/bin/python" crates/log/tests/inspect_check.py schema "$place" || status=1
    rm -rf "$place"
    return $status
}

# inspect_scores VENV: the same answers and score lists, judged by both.
inspect_scores() {
    local place status=0
    place=$(mktemp -d)
    "$1/bin/python" crates/cli/tests/inspect_scores.py target/release/ringfence "$place" || status=1
    rm -rf "$place"
    return $status
}

# inspect_venv DIRECTORY: made anew unless this very version is there.
inspect_venv() {
    "$1/bin/python" -c "import importlib.metadata as m, jsonschema
versions = m.version('inspect-ai'), m.version('openai'), m.version('anthropic'), m.version('google-genai')
assert versions == ('$INSPECT_VERSION', '$OPENAI_VERSION', '$ANTHROPIC_VERSION', '$GOOGLE_VERSION')" \
        2>/dev/null && return 0
    rm -rf "$1"
    # Debian keeps what makes environments in a package of its own, without a file that tells.
    python3 -c 'import ensurepip' 2>/dev/null || debian_file /nonexistent python3-venv || return 1
    python3 -m venv "$1" && "$1/bin/pip" install --quiet "inspect-ai==$INSPECT_VERSION" "jsonschema==$JSONSCHEMA_VERSION" \
        "openai==$OPENAI_VERSION" "anthropic==$ANTHROPIC_VERSION" "google-genai==$GOOGLE_VERSION"
}

# Proof: every probe on the embedded engine, as whoever runs this and, if that is root, as a plain user too; and whether what a run
# says of itself can be checked: by us, and by others in a virtual environment of this lane's own.
lane_verify() {
    debian setpriv util-linux
    tests 'probes and their judge' "${TEST[@]}" -p verify --lib
    tests 'controls taken away, one at a time' "${TEST[@]}" -p verify --features verify/mutations --test mutations
    check 'clippy of what takes them away' cargo clippy --release --workspace --features verify/mutations --test mutations -- -D warnings
    tests 'attempts of probes' "${TEST[@]}" -p sandbox --test attempts
    tests 'the embedded engine, proven' "${TEST[@]}" --test verify
    if [ "$(id -u)" -eq 0 ]; then
        tests 'the embedded engine, proven as a plain user' as_plain_user 'verify\|attempts'
    fi
    debian_file /usr/bin/python3 python3
    # Those of the crate, and of evaluations.
    tests 'receipts' "${TEST[@]}" -p receipt --lib $(tests_of receipt)
    local venv=$PWD/target/receipt-venv
    check 'libraries of others in an environment of their own' receipt_venv "$venv"
    check 'receipts that others check' others_check_receipts "$venv"
}

# others_check_receipts VENV: good and bad receipts, by a script of fifteen lines and by the library of the in-toto project.
others_check_receipts() {
    local place status=0
    place=$(mktemp -d)
    cargo build --release --quiet -p ringfence || return 1
    "$1/bin/python" crates/receipt/tests/others.py target/release/ringfence "$place" || status=1
    rm -rf "$place"
    return $status
}

# receipt_venv DIRECTORY: made anew unless these very versions are there.
receipt_venv() {
    "$1/bin/python" -c "import importlib.metadata as m
versions = m.version('cryptography'), m.version('securesystemslib')
assert versions == ('$CRYPTOGRAPHY_VERSION', '$SECURESYSTEMSLIB_VERSION')" 2>/dev/null && return 0
    rm -rf "$1"
    python3 -c 'import ensurepip' 2>/dev/null || debian_file /nonexistent python3-venv || return 1
    python3 -m venv "$1" && "$1/bin/pip" install --quiet "cryptography==$CRYPTOGRAPHY_VERSION" \
        "securesystemslib==$SECURESYSTEMSLIB_VERSION"
}

# The HTTP API: the real server with real sandboxes, with services at a Docker daemon of this lane's own, and requests of others'
# making from its own document.
lane_serve() {
    debian setpriv util-linux
    tests 'the HTTP API, with sandboxes' "${TEST[@]}" --test serve
    if [ "$(id -u)" -eq 0 ]; then
        tests 'the HTTP API as a plain user' as_plain_user serve
    fi
    debian dockerd docker.io && debian docker docker-cli && debian debootstrap debootstrap && debian busybox busybox-static
    own_docker
    if [ -n "$docker_pid" ]; then
        check 'images for services' docker_images
        tests 'the HTTP API, with services' in_docker "${TEST[@]}" --test serve_docker
    fi
    stop_docker
    debian_file /usr/bin/python3 python3
    local venv=$PWD/target/serve-venv
    check 'Schemathesis in an environment of its own' schemathesis_venv "$venv"
    check 'requests made from the document' schemathesis "$venv"
}

# schemathesis_venv DIRECTORY: made anew unless this very version is there.
schemathesis_venv() {
    "$1/bin/python" -c "import importlib.metadata as m; assert m.version('schemathesis') == '$SCHEMATHESIS_VERSION'" \
        2>/dev/null && return 0
    rm -rf "$1"
    python3 -c 'import ensurepip' 2>/dev/null || debian_file /nonexistent python3-venv || return 1
    python3 -m venv "$1" && "$1/bin/pip" install --quiet "schemathesis==$SCHEMATHESIS_VERSION"
}

# schemathesis VENV: a server of this build is asked what its own document allows, and what it does not.
schemathesis() {
    cargo build --release --quiet -p ringfence || return 1
    "$1/bin/python" crates/cli/tests/serve/schemathesis.py target/release/ringfence "$1/bin/schemathesis"
}

# By hand: long loops. Keep the result in docs/soak.md.
lane_soak() {
    export RINGFENCE_EXECS=10000 RINGFENCE_CYCLES=1000 RINGFENCE_KILLS=50
    tests 'execs and cycles' "${TEST[@]}" -p sandbox --test leaks
    tests 'killed runners' "${TEST[@]}" --test run runners_killed_at_random_leave_nothing
    soak_docker
}

# Hundreds of containers, and runners that are killed.
soak_docker() {
    debian dockerd docker.io && debian docker docker-cli && debian debootstrap debootstrap && debian busybox busybox-static
    own_docker
    check 'images for containers' docker_images
    tests 'two hundred containers, killed runners' in_docker env RINGFENCE_KILLS=20 RINGFENCE_CONCURRENT=200 \
        "${TEST[@]}" --test docker -- killed_runners forty_sandboxes
    stop_docker
}

# as_plain_user [WHICH]: runs the sandbox tests' programs, and the command's, from a directory that everybody may read, as a user without rights.
as_plain_user() {
    local directory programs program status=0 wanted=${1:-$AS_PLAIN_USER}
    directory=$(mktemp -d)
    programs=$("${TEST[@]}" -p sandbox -p image --no-run --message-format=json 2>/dev/null |
        grep -o '"executable":"[^"]*/\('"$wanted"'\)-[^"]*"' | cut -d'"' -f4)
    [ -n "$programs" ] || return 1
    mkdir -m 700 "$directory/home" && chown 23456:23456 "$directory/home"
    cp target/release/ringfence "$directory/" && chmod 755 "$directory" "$directory/ringfence"
    cp -r examples "$directory/" && chmod -R a+rX "$directory/examples"
    for program in $programs; do
        cp "$program" "$directory/program" && chmod 755 "$directory/program"
        printf '%s\n' "$(basename "$program")"
        (cd "$directory/home" && setpriv --reuid 23456 --regid 23456 --clear-groups \
            env -i PATH="$PATH" HOME="$directory/home" RINGFENCE="$directory/ringfence" \
            RINGFENCE_EXAMPLES="$directory/examples" ../program) || status=1
    done
    rm -rf "$directory"
    return $status
}

# fuzz TARGET: a bounded run from the kept seeds. Safe Rust needs no sanitizer, so a stable toolchain is enough.
fuzz() {
    mkdir -p "target/fuzz-corpus/$1"
    check "fuzz $1 for $FUZZ_SECONDS s" cargo fuzz run --sanitizer none --target-dir target/fuzz "$1" \
        "target/fuzz-corpus/$1" "fuzz/seeds/$1" -- \
        -max_total_time="$FUZZ_SECONDS" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1
}

if [ $# -eq 0 ]; then set -- "${LANES[@]}"; fi
for lane in "$@"; do
    if ! declare -F "lane_$lane" >/dev/null; then
        printf 'unknown lane %s; lanes are: %s\n' "$lane" "${LANES[*]}"
        exit 2
    fi
done
for lane in "$@"; do
    say "lane $lane"
    "lane_$lane"
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
