# What one way of starting gives: a line for each thing, `name=value`. $1: where the examples are.
export HOME="$(mktemp -d)"; cd "$HOME"
exits() { name=$1; shift; "$@" > out 2>&1; echo "$name=$?"; }
ringfence doctor --json > doctor.json 2>/dev/null; tr -d ' \n' < doctor.json; echo
exits run ringfence run -- sh -c 'touch /root/x && test "$(stat -c %u /root /etc/passwd | sort -u)" = 0'
exits again ringfence run -- sh -c 'rm -r /srv && mkdir /srv'
exits memory ringfence run --memory 64MiB -- perl -e '$x = "x" x 300_000_000'
exits pids ringfence run -- perl -e 'for (1 .. 900) { my $p = fork; exit 7 unless defined $p; if (!$p) { sleep 60; exit } }'
exits disk ringfence run -- sh -c '! head -c 20G /dev/zero > /srv/fill 2>/dev/null'
for profile in T0.H1.N1 T0.H1.N2; do
    exits "verify_$profile" ringfence verify "$profile"
    grep -aE 'passed,' out
done
for example in first ctf; do exits "eval_$example" ringfence eval "$1/$example.yaml"; done
ringfence run -- sleep 300 > /dev/null 2>&1 & runner=$!
sleep 5; kill -9 $runner; sleep 3
echo "left=$(ps -eo args | grep -c '[s]leep 300') $(find /sys/fs/cgroup -name "ringfence-$runner-*" | wc -l)"
